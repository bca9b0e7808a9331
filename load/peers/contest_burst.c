/* SPDX-License-Identifier: MIT */
/*
 * contest_burst.c - a thousand requests at once for a document that nobody has asked for, half of them on each
 * instance. Every repetition takes a document of its own.
 */
#include "load/peers/peers.h"

#include <stdlib.h>

enum { REQUESTS = 1000, LIMIT_MS = 30000, TTL_MS = 600000, STALE_MS = 10000 };

static const enum figure figures[] = {FIGURE_ORIGIN_CALLS, FIGURE_GOOD, FIGURE_P50,  FIGURE_P99,
                                      FIGURE_P999,         FIGURE_MAX,  FIGURE_RATE, FIGURE_CPU,
                                      FIGURE_REDIS,        FIGURE_COUNT};

static bool open_burst(struct peer *peer, const char *path, struct burst **burst)
{
    static struct burst_target targets[PEER_INSTANCES]; /* lent until the burst is closed */
    for (size_t i = 0; i < PEER_INSTANCES; i++)
        targets[i] = (struct burst_target){.host = "127.0.0.1", .port = peer->ports[i]};
    const struct burst_options options = {.targets = targets,
                                          .target_count = PEER_INSTANCES,
                                          .connection_count = REQUESTS,
                                          .connect_limit_ms = LIMIT_MS,
                                          .request_limit_ms = LIMIT_MS,
                                          .path = path};
    return burst_open(&options, burst) || peer_fail(peer, "not everybody could be connected");
}

static void judge(const struct burst *burst, uint64_t body_bytes, struct score *score)
{
    const struct burst_answer *answers = burst_answers(burst);
    static uint64_t times_us[REQUESTS];
    size_t answered = 0, good = 0;
    for (size_t i = 0; i < REQUESTS; i++) {
        if (answers[i].outcome == RECORD_ANSWERED)
            times_us[answered++] = answers[i].end_us - answers[i].sent_us;
        good +=
            score_tally(score, answers[i].outcome, answers[i].status, answers[i].body_bytes == body_bytes);
    }
    struct burst_summary summary;
    burst_summarise(burst, &summary);
    score_latencies(score, times_us, answered);
    samples_add(&score->figures[FIGURE_GOOD], 100.0 * (double)good / REQUESTS);
    samples_add(&score->figures[FIGURE_RATE],
                summary.span_us > 0 ? (double)answered * 1e6 / (double)summary.span_us : 0);
}

static bool run(struct stage *stage, struct peer *peer, struct score *score)
{
    char path[BURST_PATH_BYTES];
    struct burst *burst = NULL;
    uint64_t body_bytes;
    stage_cold_path(stage, path);
    if (!open_burst(peer, path, &burst))
        return false;
    uint64_t mark = stack_postgres_mark(&stage->postgres);
    struct meter before = stage_meter(stage, peer);
    bool ran = burst_run(burst) || peer_fail(peer, "the burst could not be run");
    stage_shares(stage, peer, before, REQUESTS, &score->figures[FIGURE_CPU], &score->figures[FIGURE_REDIS]);
    samples_add(&score->figures[FIGURE_ORIGIN_CALLS], stage_origin_calls(stage, mark));
    ran = ran && stage_same_body(stage, peer, path, &body_bytes);
    if (ran)
        judge(burst, body_bytes, score);
    burst_close(&burst);
    return ran;
}

/* One burst that does not count: threads, connections to Redis and compiled code are there afterwards. */
static bool prepare(struct stage *stage, struct peer *peer)
{
    static struct score unread;
    unread = (struct score){.asked = 0};
    return run(stage, peer, &unread);
}

const struct contest contest_burst = {
    .name = "burst",
    .title = "A cold burst: 1 000 requests at once over two instances, the query takes 100 ms",
    .terms = {.ttl_ms = TTL_MS, .stale_ms = STALE_MS},
    .figures = figures,
    .prepare = prepare,
    .run = run,
};
