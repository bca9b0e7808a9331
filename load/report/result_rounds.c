/* SPDX-License-Identifier: MIT */
/* result_rounds.c - see result_make.h. The requests of a round are due at one instant, and stand together. */
#include "load/report/result_make.h"

#include "load/base/rank.h"

#include <stdlib.h>

struct rounds {
    const struct result_source *source;
    uint64_t *times_us; /* owned; room for whatever is counted in one of them */
};

/* Where the round behind the one at `from` begins. */
static size_t next_round(const struct records *records, size_t from)
{
    size_t until = from;
    while (until < records->count && records->at[until].due_us == records->at[from].due_us)
        until++;
    return until;
}

/* The times of `count` things become steps; returns how many. */
static size_t take_steps(const struct rounds *rounds, size_t count, struct result_step steps[])
{
    size_t step_count = count < RESULT_STEPS_MAX ? count : RESULT_STEPS_MAX;
    rank_sort(rounds->times_us, count);
    for (size_t i = 0; i < step_count; i++) {
        size_t rank = step_count > 1 ? 1 + i * (count - 1) / (step_count - 1) : 1;
        uint64_t us = rounds->times_us[rank - 1];
        steps[i] = (struct result_step){us < UINT32_MAX ? (uint32_t)us : UINT32_MAX, (uint32_t)rank};
    }
    return step_count;
}

static size_t take_requests(const struct rounds *rounds, size_t from, size_t until, bool failed,
                            struct result_step steps[])
{
    size_t count = 0;
    for (size_t i = from; i < until; i++) {
        const struct record *record = &rounds->source->records->at[i];
        bool is_good = record->outcome == RECORD_ANSWERED && !result_record_failed(record);
        if (failed ? result_record_failed(record) : is_good)
            rounds->times_us[count++] = record->end_us;
    }
    return take_steps(rounds, count, steps);
}

/* The log has milliseconds: a load of the round may seem to be a little older than it. */
static size_t take_loads(const struct rounds *rounds, uint64_t due_us, uint64_t next_us,
                         struct result_step steps[])
{
    const struct witness_view *view = rounds->source->view;
    size_t count = 0;
    for (size_t i = 0; view != NULL && view->loads != NULL && i < view->load_count; i++) {
        uint64_t at_us = view->loads[i].at_us;
        if (at_us + 1000 > due_us && at_us + 1000 <= next_us)
            rounds->times_us[count++] = at_us > due_us ? at_us - due_us : 0;
    }
    return take_steps(rounds, count, steps);
}

static void take_round(const struct rounds *rounds, size_t from, size_t until, struct result_round *out)
{
    const struct records *records = rounds->source->records;
    uint64_t due_us = records->at[from].due_us;
    uint64_t next_us = until < records->count ? records->at[until].due_us : UINT64_MAX;
    out->at_ms = result_offset_ms(rounds->source, due_us);
    out->due = (uint32_t)(until - from);
    out->answer_count = take_requests(rounds, from, until, false, out->answers);
    out->failure_count = take_requests(rounds, from, until, true, out->failures);
    out->load_count = take_loads(rounds, due_us, next_us, out->loads);
}

static size_t count_rounds(const struct records *records)
{
    size_t count = 0;
    for (size_t at = 0; at < records->count; at = next_round(records, at))
        count++;
    return count;
}

/* Of more than there is room for, the first, the last and some between. */
static void take_rounds(const struct rounds *rounds, struct result *out)
{
    const struct records *records = rounds->source->records;
    size_t count = count_rounds(records), taken = 0, number = 0, until;
    for (size_t at = 0; at < records->count && taken < out->round_count; at = until, number++) {
        until = next_round(records, at);
        if (out->round_count == 1 || number == taken * (count - 1) / (out->round_count - 1))
            take_round(rounds, at, until, &out->rounds[taken++]);
    }
}

bool rounds_make(const struct result_source *source, struct result *out)
{
    const struct witness_view *view = source->view;
    size_t load_count = view != NULL && view->loads != NULL ? view->load_count : 0;
    size_t count = source->work->shape == WORK_BURST ? count_rounds(source->records) : 0;
    struct rounds rounds = {.source = source};
    if (count == 0)
        return true;
    out->round_count = count < RESULT_ROUNDS_MAX ? count : RESULT_ROUNDS_MAX;
    out->rounds = calloc(out->round_count, sizeof *out->rounds);
    rounds.times_us = calloc(source->records->count + load_count + 1, sizeof *rounds.times_us);
    if (out->rounds != NULL && rounds.times_us != NULL)
        take_rounds(&rounds, out);
    else
        out->round_count = 0;
    free(rounds.times_us);
    return out->round_count > 0;
}
