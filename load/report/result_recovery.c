/* SPDX-License-Identifier: MIT */
/*
 * result_recovery.c - see result_make.h. Metastable failures are those that stay when their cause has gone.
 *
 *     before    the requests of a rate that were due before the first fault began
 *     fault     from the begin of the first to the end of the last; in between nothing is judged
 *     after     recovery is the time from its end to the first second, begun then or later, whose p99 is what it was,
 *               and so it is in at least three of four seconds behind it: a busy machine makes one slow now and then
 *
 * A "second" is longer where fewer than 100 requests are due in one, and one that has fewer all the same, as in a log
 * that is asked again, is not judged.
 *
 * "What it was" is twice the p99 of all before, or 5 ms more, which a busy machine adds by itself, or the p99 of the
 * slowest second before, whichever is longest. A request that failed took longer than any answer.
 */
#include "load/report/result_make.h"

#include "load/base/rank.h"

#include <stdlib.h>

enum {
    SECOND_US = 1000000,
    STEP_US = 50000,
    STEP_BEFORE_US = 250000,
    NOISE_US = 5000,
    ANSWERS_LEAST = 100, /* a p99 takes so many */
};

/* The records are in the order in which they were due. */
struct course {
    const struct result_source *source;
    uint64_t second_us;
    uint64_t *numbers; /* owned; room for one of each record, and one more */
};

/* The first record that was due at `at_us` or later. */
static size_t first_due(const struct course *course, uint64_t at_us)
{
    const struct records *records = course->source->records;
    size_t low = 0, high = records->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (records->at[middle].due_us < at_us)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint64_t took_us(const struct record *record)
{
    return result_record_failed(record) ? UINT64_MAX : record->end_us;
}

/* Of what was due in [from_us, until_us); 0: too few for it. */
static uint64_t p99_us(const struct course *course, uint64_t from_us, uint64_t until_us)
{
    size_t from = first_due(course, from_us), until = first_due(course, until_us);
    if (until - from < ANSWERS_LEAST)
        return 0;
    for (size_t i = from; i < until; i++)
        course->numbers[i - from] = took_us(&course->source->records->at[i]);
    rank_sort(course->numbers, until - from);
    return rank_percentile(course->numbers, until - from, 99);
}

/* 0: not known. */
static uint64_t as_before_us(const struct course *course)
{
    uint64_t begin_us = course->source->begin_us, end_us = course->source->fault_from_us;
    uint64_t all_us = p99_us(course, begin_us, end_us);
    if (all_us == 0 || all_us == UINT64_MAX)
        return 0;
    uint64_t most_us = all_us > NOISE_US ? 2 * all_us : all_us + NOISE_US;
    for (uint64_t at_us = begin_us; at_us + course->second_us <= end_us; at_us += STEP_BEFORE_US) {
        uint64_t slow_us = p99_us(course, at_us, at_us + course->second_us);
        most_us = slow_us > most_us ? slow_us : most_us;
    }
    return most_us;
}

/* At the mean rate there is room for some more than a p99 takes. */
static uint64_t second_us(const struct result_source *source, uint64_t last_due_us)
{
    uint64_t span_us = result_offset_us(source, last_due_us), count = source->records->count;
    uint64_t enough_us = count > 0 ? span_us * ANSWERS_LEAST / count * 5 / 4 : 0;
    return enough_us > SECOND_US ? enough_us : SECOND_US;
}

static const char *why_unknown(const struct course *course, uint64_t last_due_us)
{
    const struct result_source *source = course->source;
    if (source->work->shape != WORK_RATE)
        return "it takes requests at a rate";
    if (source->fault_from_us == 0)
        return "nothing was done to the service";
    if (source->fault_until_us == 0)
        return "what was done to the service did not end";
    return source->fault_until_us + course->second_us > last_due_us
               ? "no requests were made for a second after the end of the fault, or too few for a p99"
               : NULL;
}

/* From here on a number says how many of the records before it were slower than before the fault. */
static void count_slow(const struct course *course, uint64_t most_us)
{
    const struct records *records = course->source->records;
    course->numbers[0] = 0;
    for (size_t i = 0; i < records->count; i++)
        course->numbers[i + 1] = course->numbers[i] + (took_us(&records->at[i]) > most_us);
}

/* From the last second back, with how many of those behind are as before. False: none had enough requests. */
static bool find(const struct course *course, uint64_t last_due_us, struct result *out)
{
    uint64_t end_us = course->source->fault_until_us, good = 0, all = 0;
    uint64_t steps = (last_due_us - course->second_us - end_us) / STEP_US;
    for (uint64_t i = steps + 1; i-- > 0;) {
        uint64_t at_us = end_us + i * STEP_US;
        size_t from = first_due(course, at_us), until = first_due(course, at_us + course->second_us);
        uint64_t slow = course->numbers[until] - course->numbers[from];
        if (until - from < ANSWERS_LEAST)
            continue;
        bool is_good = slow <= until - from - rank_nearest(until - from, 99);
        good += is_good;
        all++;
        if (!is_good || 4 * good < 3 * all)
            continue;
        out->has_recovered = true;
        out->recovery_ms = (uint32_t)(i * STEP_US / 1000);
    }
    return all > 0;
}

bool recovery_make(const struct result_source *source, struct result *out)
{
    const struct records *records = source->records;
    struct course course = {.source = source};
    uint64_t last_due_us = records->count > 0 ? records->at[records->count - 1].due_us : 0;
    course.second_us = second_us(source, last_due_us);
    out->recovery_unknown = why_unknown(&course, last_due_us);
    if (out->recovery_unknown != NULL)
        return true;
    course.numbers = calloc(records->count + 1, sizeof *course.numbers);
    if (course.numbers == NULL)
        return false;
    uint64_t most_us = as_before_us(&course);
    if (most_us > 0)
        count_slow(&course, most_us);
    out->has_recovery = most_us > 0 && find(&course, last_due_us, out);
    if (most_us == 0)
        out->recovery_unknown =
            "before the fault there are too few answers for a p99, or too many that failed";
    else if (!out->has_recovery)
        out->recovery_unknown = "after the fault there are too few requests for a p99";
    free(course.numbers);
    return true;
}
