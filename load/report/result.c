/* SPDX-License-Identifier: MIT */
/* result.c - see result.h: percentiles, failures, a result's life, marks, and a report's life. */
#include "load/report/result.h"

#include "load/base/rank.h"
#include "load/report/result_text.h"

#include <stdlib.h>
#include <string.h>

/* ---- percentiles ---- */

uint64_t result_rank(uint64_t count, uint32_t per_10000)
{
    return rank_nearest(count, per_10000 / 100.0);
}

bool result_supports(uint64_t count, uint32_t per_10000)
{
    return count > 0 && result_rank(count, per_10000) < count;
}

/* ---- since the barrier ---- */

uint64_t result_offset_us(const struct result_source *source, uint64_t instant_us)
{
    return instant_us > source->begin_us ? instant_us - source->begin_us : 0;
}

uint32_t result_offset_ms(const struct result_source *source, uint64_t instant_us)
{
    uint64_t ms = result_offset_us(source, instant_us) / 1000;
    return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

/* ---- what failed ---- */

static bool is_failure(size_t outcome)
{
    return outcome != RECORD_ANSWERED && outcome != RECORD_LEFT && outcome != RECORD_CUT;
}

bool result_record_failed(const struct record *record)
{
    return record->outcome == RECORD_ANSWERED ? record->status >= 500 : is_failure(record->outcome);
}

bool result_status_serves(unsigned status)
{
    return (status >= 200 && status < 300) || status == 304;
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

size_t result_held(const struct result *result)
{
    size_t held = 0;
    for (size_t i = 0; i < result->check_count; i++)
        held += result->checks[i].held;
    return held;
}

bool result_sample_is_first(const struct result *result, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (strcmp(result->samples[i].kind, result->samples[index].kind) == 0)
            return false;
    }
    return true;
}

/* ---- a result's life ---- */

void result_clear(struct result *result)
{
    free(result->slices);
    free(result->blocks);
    free(result->rounds);
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

bool report_shares(const struct report *report, const char *const *texts, size_t index, char *who,
                   size_t who_bytes)
{
    size_t used = 0, count = 0;
    who[0] = '\0';
    for (size_t i = 0; i < report->result_count; i++) {
        if (strcmp(texts[i], texts[index]) != 0)
            continue;
        if (i < index)
            return false;
        count++;
        if (used < who_bytes)
            used += (size_t)snprintf(who + used, who_bytes - used, "%s%.60s", used > 0 ? ", " : "",
                                     report->results[i]->name);
    }
    if (count == report->result_count)
        who[0] = '\0';
    return texts[index][0] != '\0';
}

bool report_held(const struct report *report)
{
    for (size_t i = 0; i < report->result_count; i++) {
        const struct result *result = report->results[i];
        if (result->is_partial || result_held(result) < result->check_count)
            return false;
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
