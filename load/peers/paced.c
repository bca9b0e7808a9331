/* SPDX-License-Identifier: MIT */
/* paced.c - what the two contests at a fixed rate measure alike; see peers.h. */
#include "load/net.h"
#include "load/peers/pace.h"
#include "load/peers/peers.h"

#include <stdlib.h>

/* Answers a second: what came at the pace that was asked for counts as that pace, whatever its last answer took. */
static double rate_of(const struct paced *paced, size_t answered, uint64_t span_us)
{
    uint64_t planned_us = (uint64_t)paced->seconds * 1000000;
    if (span_us < planned_us + planned_us / 100)
        span_us = planned_us;
    return (double)answered * 1e6 / (double)span_us;
}

static void judge(const struct paced *paced, const struct pace_answer *answers, uint64_t body_bytes,
                  struct score *score)
{
    uint32_t count = paced->per_second * paced->seconds;
    uint64_t *times_us = calloc(count, sizeof *times_us), last_us = answers[0].due_us;
    size_t answered = 0, good = 0;
    if (times_us == NULL)
        abort();
    for (uint32_t i = 0; i < count; i++) {
        if (answers[i].outcome == BURST_ANSWERED)
            times_us[answered++] = answers[i].end_us - answers[i].due_us;
        if (answers[i].end_us > last_us)
            last_us = answers[i].end_us;
        good +=
            score_tally(score, answers[i].outcome, answers[i].status, answers[i].body_bytes == body_bytes);
    }
    score_latencies(score, times_us, answered);
    spread_add(&score->figures[FIGURE_GOOD], 100.0 * (double)good / count);
    spread_add(&score->figures[FIGURE_RATE], rate_of(paced, answered, last_us - answers[0].due_us));
    free(times_us);
}

bool stage_paced(struct stage *stage, struct peer *peer, const struct paced *paced, struct score *score)
{
    uint32_t count = paced->per_second * paced->seconds;
    const struct pace_options options = {.ports = peer->ports,
                                         .port_count = PEER_INSTANCES,
                                         .path = paced->path,
                                         .connection_count = paced->connection_count,
                                         .per_second = paced->per_second,
                                         .request_count = count,
                                         .request_limit_ms = paced->limit_ms};
    uint64_t body_bytes;
    if (!stage_same_body(stage, peer, paced->path, &body_bytes))
        return false;
    struct pace_answer *answers = calloc(count, sizeof *answers);
    if (answers == NULL)
        return peer_fail(peer, "no memory");
    uint64_t mark = stack_postgres_mark(&stage->postgres);
    struct meter before = stage_meter(stage, peer);
    bool ran = pace_run(&options, answers) || peer_fail(peer, "not everybody could be connected");
    stage_shares(stage, peer, before, count, &score->figures[FIGURE_CPU], &score->figures[FIGURE_REDIS]);
    uint32_t calls = stage_origin_calls(stage, mark);
    uint32_t expiries = stage_expiries(stage, mark, paced->ttl_ms);
    spread_add(&score->figures[FIGURE_ORIGIN_CALLS], calls);
    if (expiries > 0)
        spread_add(&score->figures[FIGURE_CALLS_PER_EXPIRY], (double)calls / expiries);
    if (ran)
        judge(paced, answers, body_bytes, score);
    free(answers);
    return ran;
}
