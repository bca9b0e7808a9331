/* SPDX-License-Identifier: MIT */
/* result.c - see result.h: a result's life, what is simply counted, stale answers, marks, and a report's life. */
#include "load/report/result.h"

#include "load/base/rank.h"
#include "load/report/result_expiries.h"
#include "load/report/result_latency.h"
#include "load/report/result_text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- percentiles ---- */

uint64_t result_rank(uint64_t count, uint32_t per_10000)
{
    return rank_nearest(count, per_10000 / 100.0);
}

bool result_supports(uint64_t count, uint32_t per_10000)
{
    return count > 0 && result_rank(count, per_10000) < count;
}

/* ---- what is counted ---- */

uint64_t result_offset_us(const struct result_source *source, uint64_t instant_us)
{
    return instant_us > source->begin_us ? instant_us - source->begin_us : 0;
}

uint32_t result_offset_ms(const struct result_source *source, uint64_t instant_us)
{
    uint64_t ms = result_offset_us(source, instant_us) / 1000;
    return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

static void count_requests(const struct records *records, struct result *out)
{
    out->requests = records->count;
    for (size_t i = 0; i < records->count; i++) {
        const struct record *record = &records->at[i];
        if (record->outcome < RECORD_OUTCOMES)
            out->outcomes[record->outcome]++;
        if (record->outcome != RECORD_ANSWERED)
            continue;
        out->statuses[record->status < RESULT_STATUSES ? record->status : 0]++;
        out->caches[record->cache < RECORD_CACHES ? record->cache : RECORD_CACHE_OTHER]++;
    }
}

static bool is_failure(size_t outcome)
{
    return outcome != RECORD_ANSWERED && outcome != RECORD_LEFT && outcome != RECORD_CUT;
}

bool result_record_failed(const struct record *record)
{
    return record->outcome == RECORD_ANSWERED ? record->status >= 500 : is_failure(record->outcome);
}

uint64_t result_failed(const struct result *result)
{
    uint64_t failed = result->statuses[0];
    for (size_t i = 0; i < RECORD_OUTCOMES; i++)
        failed += is_failure(i) ? result->outcomes[i] : 0;
    for (size_t i = 500; i < RESULT_STATUSES; i++)
        failed += result->statuses[i];
    return failed;
}

/* The last answer; where there is none, the last end of anything. */
static uint64_t last_end_us(const struct result_source *source)
{
    uint64_t answered_us = 0, any_us = 0;
    for (size_t i = 0; i < source->records->count; i++) {
        const struct record *record = &source->records->at[i];
        uint64_t end_us = result_offset_us(source, record->due_us) + record->end_us;
        if (record->outcome == RECORD_ANSWERED && end_us > answered_us)
            answered_us = end_us;
        if (end_us > any_us)
            any_us = end_us;
    }
    return answered_us > 0 ? answered_us : any_us;
}

/* An interrupted run offered what it did until then. */
static double offered_per_s(const struct result_source *source)
{
    const struct records *records = source->records;
    double span_us = (double)source->work->duration_ms * 1e3;
    if (source->is_partial && records->count > 0)
        span_us = (double)result_offset_us(source, records->at[records->count - 1].due_us);
    return span_us > 0 ? (double)records->count / span_us * 1e6 : 0;
}

static void count_time(const struct result_source *source, struct result *out)
{
    uint64_t end_us = last_end_us(source);
    uint64_t end_ms = (end_us + 999) / 1000;
    out->duration_ms = end_ms < UINT32_MAX ? (uint32_t)end_ms : UINT32_MAX;
    if (source->work->shape != WORK_RATE)
        return;
    out->offered_per_s = offered_per_s(source);
    if (end_us > 0)
        out->answered_per_s = (double)out->outcomes[RECORD_ANSWERED] / (double)end_us * 1e6;
}

static void describe(const struct result_source *source, struct result *out)
{
    time_t wall_s = (time_t)source->wall_s;
    struct tm utc;
    text_clean(out->name, sizeof out->name, source->name, SIZE_MAX, false);
    text_clean(out->what, sizeof out->what, source->what, SIZE_MAX, false);
    if (gmtime_r(&wall_s, &utc) != NULL)
        strftime(out->when, sizeof out->when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    out->is_partial = source->is_partial;
    out->ttl_ms = source->ttl_ms;
    if (source->strain != NULL)
        out->strain = *source->strain;
    text_clean(out->strain.verdict, sizeof out->strain.verdict, out->strain.verdict,
               sizeof out->strain.verdict, false);
}

/* ---- answers older than a version whose write was over before the request was sent ---- */

static int by_end(const void *a, const void *b)
{
    const struct result_write *left = a, *right = b;
    if (left->key != right->key)
        return left->key > right->key ? 1 : -1;
    return (left->over_us > right->over_us) - (left->over_us < right->over_us);
}

/* Each write then has the newest version that its key had reached when it was over. */
static void carry_versions(struct result_write *writes, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (writes[i].key == writes[i - 1].key && writes[i].version < writes[i - 1].version)
            writes[i].version = writes[i - 1].version;
    }
}

/* How many writes stand before those of the key that were over at the instant or later. */
static size_t count_before(const struct result_write *writes, size_t count, uint32_t key, uint64_t instant_us)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct result_write *write = &writes[middle];
        if (write->key < key || (write->key == key && write->over_us < instant_us))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The newest version that the answer must have; 0: not known. */
static uint32_t version_due(const struct record *record, const struct result_write *writes, size_t count)
{
    if (record->outcome != RECORD_ANSWERED || record->version == 0)
        return 0;
    size_t before = count_before(writes, count, record->key, record->due_us + record->sent_us);
    return before > 0 && writes[before - 1].key == record->key ? writes[before - 1].version : 0;
}

static bool count_stale(const struct result_source *source, struct result *out)
{
    out->write_count = source->write_count;
    if (source->write_count == 0)
        return true;
    struct result_write *writes = calloc(source->write_count, sizeof *writes);
    if (writes == NULL)
        return false;
    memcpy(writes, source->writes, source->write_count * sizeof *writes);
    qsort(writes, source->write_count, sizeof *writes, by_end);
    carry_versions(writes, source->write_count);
    for (size_t i = 0; i < source->records->count; i++) {
        const struct record *record = &source->records->at[i];
        uint32_t due = version_due(record, writes, source->write_count);
        out->has_writes = out->has_writes || due > 0;
        out->stale_answers += due > record->version;
    }
    free(writes);
    return true;
}

/* ---- a result's life ---- */

bool result_make(const struct result_source *source, struct result *out)
{
    memset(out, 0, sizeof *out);
    describe(source, out);
    count_requests(source->records, out);
    count_time(source, out);
    if (latency_make(source, out) && expiries_make(source, out) && count_stale(source, out))
        return true;
    result_clear(out);
    return false;
}

void result_clear(struct result *result)
{
    free(result->slices);
    free(result->blocks);
    memset(result, 0, sizeof *result);
}

/* ---- marks ---- */

const char *result_mark_name(enum result_mark_kind kind)
{
    static const char *const names[] = {
        [RESULT_EXPIRY] = "expiry", [RESULT_FAULT] = "fault", [RESULT_NOTE] = "note"};
    return names[kind];
}

static void take_out(struct result *result, size_t index)
{
    result->mark_count--;
    result->marks_left_out++;
    memmove(&result->marks[index], &result->marks[index + 1],
            (result->mark_count - index) * sizeof *result->marks);
}

/* An expiry is one of many; a fault is what the run was made for. */
static bool make_room(struct result *result, enum result_mark_kind kind)
{
    if (result->mark_count < RESULT_MARKS_MAX)
        return true;
    for (size_t i = result->mark_count; kind != RESULT_EXPIRY && i > 0; i--) {
        if (result->marks[i - 1].kind == RESULT_EXPIRY) {
            take_out(result, i - 1);
            return true;
        }
    }
    result->marks_left_out++;
    return false;
}

void result_mark(struct result *result, enum result_mark_kind kind, uint32_t at_ms, uint32_t until_ms,
                 const char *text)
{
    if (!make_room(result, kind))
        return;
    size_t index = result->mark_count;
    while (index > 0 && result->marks[index - 1].at_ms > at_ms)
        index--;
    struct result_mark *mark = &result->marks[index];
    memmove(mark + 1, mark, (result->mark_count - index) * sizeof *mark);
    *mark = (struct result_mark){.kind = kind, .at_ms = at_ms, .until_ms = until_ms};
    text_clean(mark->text, sizeof mark->text, text, SIZE_MAX, false);
    result->mark_count++;
}

/* ---- reports ---- */

bool report_add(struct report *report, struct result *result)
{
    if (report->result_count == REPORT_RESULTS_MAX)
        return false;
    report->results[report->result_count++] = result;
    return true;
}

bool report_held(const struct report *report)
{
    for (size_t i = 0; i < report->result_count; i++) {
        const struct result *result = report->results[i];
        if (result->is_partial)
            return false;
        for (size_t j = 0; j < result->check_count; j++) {
            if (!result->checks[j].held)
                return false;
        }
    }
    return true;
}

void report_clear(struct report *report)
{
    for (size_t i = 0; i < report->result_count; i++) {
        result_clear(report->results[i]);
        free(report->results[i]);
    }
    memset(report, 0, sizeof *report);
}
