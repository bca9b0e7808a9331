/* SPDX-License-Identifier: MIT */
/*
 * paced.c - what the two contests at a fixed rate measure alike; see peers.h.
 */
#include "load/herd/pace.h"
#include "load/peers/peers.h"

#include <stdio.h>
#include <stdlib.h>

/* Answers a second: what came at the pace that was asked for counts as that pace, whatever its last answer took. */
static double rate_of(const struct paced *paced, size_t answered, uint64_t span_us)
{
    uint64_t planned_us = (uint64_t)paced->seconds * 1000000;
    if (span_us < planned_us + planned_us / 100)
        span_us = planned_us;
    return (double)answered * 1e6 / (double)span_us;
}

static void judge(const struct paced *paced, const struct records *records, uint64_t body_bytes,
                  struct score *score)
{
    uint64_t *times_us = calloc(records->count + 1, sizeof *times_us), last_us = 0;
    size_t answered = 0, good = 0;
    if (times_us == NULL)
        abort();
    for (size_t i = 0; i < records->count; i++) {
        const struct record *record = &records->at[i];
        if (record->outcome == RECORD_ANSWERED)
            times_us[answered++] = record->end_us;
        if (record->due_us + record->end_us > last_us)
            last_us = record->due_us + record->end_us;
        good += score_tally(score, (enum record_outcome)record->outcome, record->status,
                            record->body_bytes == body_bytes);
    }
    score_latencies(score, times_us, answered);
    samples_add(&score->figures[FIGURE_GOOD], 100.0 * (double)good / (double)records->count);
    samples_add(&score->figures[FIGURE_RATE], rate_of(paced, answered, last_us - records->at[0].due_us));
    free(times_us);
}

static void note_strain(struct score *score, const struct herd_strain *strain)
{
    if (!strain->is_bottleneck)
        return;
    score->strained_count++;
    snprintf(score->strain, sizeof score->strain, "%s", strain->verdict);
}

static void count_calls(const struct stage *stage, const struct paced *paced, uint64_t mark,
                        struct score *score)
{
    uint32_t calls = stage_origin_calls(stage, mark);
    uint32_t expiries = stage_expiries(stage, mark, paced->ttl_ms);
    samples_add(&score->figures[FIGURE_ORIGIN_CALLS], calls);
    if (expiries > 0)
        samples_add(&score->figures[FIGURE_CALLS_PER_EXPIRY], (double)calls / expiries);
}

static bool ask_at_pace(const struct peer *peer, const struct paced *paced, struct records *records,
                        struct herd_strain *strain, char why[static WORK_WHY_BYTES])
{
    struct pace pace = {.port_count = PEER_INSTANCES,
                        .path = paced->path,
                        .per_second = paced->per_second,
                        .duration_ms = paced->seconds * 1000,
                        .connection_count = paced->connection_count,
                        .limit_ms = paced->limit_ms};
    for (size_t i = 0; i < PEER_INSTANCES; i++)
        pace.ports[i] = peer->ports[i];
    return pace_run(&pace, records, strain, why);
}

bool stage_paced(struct stage *stage, struct peer *peer, const struct paced *paced, struct score *score)
{
    struct records records = {0};
    struct herd_strain strain;
    uint64_t body_bytes;
    char why[WORK_WHY_BYTES] = "";
    if (!stage_same_body(stage, peer, paced->path, &body_bytes))
        return false;
    uint64_t mark = stack_postgres_mark(&stage->postgres);
    struct meter before = stage_meter(stage, peer);
    bool ran = ask_at_pace(peer, paced, &records, &strain, why) && records.count > 0;
    if (ran) {
        stage_shares(stage, peer, before, records.count, &score->figures[FIGURE_CPU],
                     &score->figures[FIGURE_REDIS]);
        count_calls(stage, paced, mark, score);
        judge(paced, &records, body_bytes, score);
        note_strain(score, &strain);
    }
    records_clear(&records);
    return ran || peer_fail(peer, "%s", why);
}
