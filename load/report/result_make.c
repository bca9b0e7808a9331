/* SPDX-License-Identifier: MIT */
/* result_make.c - result_make() of result.h: what is simply counted, stale answers, and what its modules make. */
#include "load/report/result_make.h"

#include "load/report/result_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- what is counted ---- */

static void count_requests(const struct records *records, struct result *out)
{
    out->requests = records->count;
    for (size_t i = 0; i < records->count; i++) {
        const struct record *record = &records->at[i];
        if (record->outcome < RECORD_OUTCOMES)
            out->outcomes[record->outcome]++;
        out->received_bytes += record->received_bytes;
        if (record->outcome != RECORD_ANSWERED)
            continue;
        out->statuses[record->status < RESULT_STATUSES ? record->status : 0]++;
        out->caches[record->cache < RECORD_CACHES ? record->cache : RECORD_CACHE_OTHER]++;
    }
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
    if (end_us == 0)
        return;
    out->answered_per_s = (double)out->outcomes[RECORD_ANSWERED] / (double)end_us * 1e6;
    out->received_per_s = (double)out->received_bytes / (double)end_us * 1e6;
}

static void describe(const struct result_source *source, struct result *out)
{
    time_t wall_s = (time_t)source->wall_s;
    struct tm utc;
    text_clean(out->name, sizeof out->name, source->name, SIZE_MAX, false);
    text_clean(out->what, sizeof out->what, source->what, SIZE_MAX, false);
    if (gmtime_r(&wall_s, &utc) != NULL)
        strftime(out->when, sizeof out->when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    if (source->connecting != NULL)
        text_clean(out->connecting, sizeof out->connecting, source->connecting, SIZE_MAX, false);
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
static uint32_t version_due(const struct work *work, const struct record *record,
                            const struct result_write *writes, size_t count)
{
    uint32_t row = record->key;
    if (record->outcome != RECORD_ANSWERED || record->version == 0 ||
        (record->url < work->url_count && !work_row(&work->urls[record->url], record->key, &row)))
        return 0;
    size_t before = count_before(writes, count, row, record->due_us + record->sent_us);
    return before > 0 && writes[before - 1].key == row ? writes[before - 1].version : 0;
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
        uint32_t due = version_due(source->work, record, writes, source->write_count);
        out->has_writes = out->has_writes || due > 0;
        out->stale_answers += due > record->version;
    }
    free(writes);
    return true;
}

/* ---- samples of what went wrong ---- */

static void name_url(const struct work *work, const struct record *record, char url[static RESULT_TEXT_BYTES])
{
    char path[WORK_PATH_BYTES], text[WORK_PATH_BYTES + 80];
    if (record->url >= work->url_count || record->target >= work->target_count)
        return;
    work_path(&work->urls[record->url], record->key, path);
    snprintf(text, sizeof text, "%.70s %s", work->targets[record->target].name, path);
    text_clean(url, RESULT_TEXT_BYTES, text, sizeof text, false);
}

/* What the connection said, then what came. */
static void describe_sample(const struct record_sample *sample, struct result_sample *out)
{
    const struct record *record = &sample->record;
    char text[RESULT_SAMPLE_BYTES] = "";
    bool is_cut = record->outcome == RECORD_RESET || record->outcome == RECORD_TIMEOUT;
    int used = 0;
    if (sample->error != 0)
        used = snprintf(text, sizeof text, "%.40s", strerror(sample->error));
    else if (record->outcome == RECORD_RESET)
        used = snprintf(text, sizeof text, "the other side closed the connection");
    if (is_cut)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%" PRIu32 " bytes had come",
                         used > 0 ? "; " : "", record->received_bytes);
    if (sample->text_bytes > 0)
        snprintf(text + used, sizeof text - (size_t)used, "%s%.*s", used > 0 ? ": " : "",
                 (int)sample->text_bytes, sample->text);
    text_clean(out->text, sizeof out->text, text, sizeof text, false);
}

static size_t count_kind(const struct result *out, const char *kind)
{
    size_t count = 0;
    for (size_t i = 0; i < out->sample_count; i++)
        count += strcmp(out->samples[i].kind, kind) == 0;
    return count;
}

static void take_samples(const struct result_source *source, struct result *out)
{
    for (size_t i = 0; i < source->records->sample_count && out->sample_count < RESULT_SAMPLES_MAX; i++) {
        const struct record_sample *from = &source->records->samples[i];
        struct result_sample *sample = &out->samples[out->sample_count];
        if (from->record.outcome == RECORD_ANSWERED)
            snprintf(sample->kind, sizeof sample->kind, "%u", from->record.status);
        else
            snprintf(sample->kind, sizeof sample->kind, "%s",
                     record_outcome_name((enum record_outcome)from->record.outcome));
        if (count_kind(out, sample->kind) == RESULT_SAMPLES_EACH)
            continue;
        sample->at_ms = result_offset_ms(source, from->record.due_us);
        sample->took_us = from->record.end_us;
        name_url(source->work, &from->record, sample->url);
        describe_sample(from, sample);
        out->sample_count++;
    }
}

bool result_make(const struct result_source *source, struct result *out)
{
    memset(out, 0, sizeof *out);
    describe(source, out);
    count_requests(source->records, out);
    count_time(source, out);
    take_samples(source, out);
    out->misses_loads = source->view != NULL && source->view->misses_loads;
    if (latency_make(source, out) && rounds_make(source, out) && expiries_make(source, out) &&
        recovery_make(source, out) && count_stale(source, out))
        return true;
    result_clear(out);
    return false;
}
