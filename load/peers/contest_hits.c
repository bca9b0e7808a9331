/* SPDX-License-Identifier: MIT */
/*
 * contest_hits.c - one hot document that does not expire: as many requests as one instance answers (wrk, 64
 * connections), then 1 000 a second over both, timed from when each was due.
 */
#include "load/peers/peers.h"
#include "load/stack/wrk.h"

enum {
    TTL_MS = 600000,
    STALE_MS = 10000,
    PER_SECOND = 1000,
    SECONDS = 2,
    CONNECTIONS = 64,
    WRK_SECONDS = 2,
    WARM_SECONDS = 1,
    LIMIT_MS = 5000,
};

static const enum figure figures[] = {FIGURE_FULL_RATE,    FIGURE_FULL_CPU, FIGURE_FULL_REDIS, FIGURE_GOOD,
                                      FIGURE_P50,          FIGURE_P99,      FIGURE_P999,       FIGURE_MAX,
                                      FIGURE_ORIGIN_CALLS, FIGURE_COUNT};

static bool run_full(struct stage *stage, struct peer *peer, const char *path, uint32_t seconds,
                     struct score *score)
{
    const struct wrk_options options = {
        .port = peer->ports[0], .path = path, .connection_count = CONNECTIONS, .seconds = seconds};
    struct wrk_result result;
    struct meter before = stage_meter(stage, peer);
    if (!wrk_run(&options, &result))
        return peer_fail(peer, "wrk saw errors");
    stage_shares(stage, peer, before, result.requests, &score->figures[FIGURE_FULL_CPU],
                 &score->figures[FIGURE_FULL_REDIS]);
    samples_add(&score->figures[FIGURE_FULL_RATE], result.requests_per_s);
    return true;
}

static bool run(struct stage *stage, struct peer *peer, struct score *score)
{
    char path[BURST_PATH_BYTES];
    uint64_t body_bytes;
    stage_cold_path(stage, path);
    const struct paced paced = {.path = path,
                                .per_second = PER_SECOND,
                                .seconds = SECONDS,
                                .connection_count = CONNECTIONS,
                                .limit_ms = LIMIT_MS,
                                .ttl_ms = TTL_MS};
    return stage_same_body(stage, peer, path, &body_bytes) &&
           run_full(stage, peer, path, WRK_SECONDS, score) && stage_paced(stage, peer, &paced, score);
}

static bool prepare(struct stage *stage, struct peer *peer)
{
    static struct score unread;
    unread = (struct score){.asked = 0};
    char path[BURST_PATH_BYTES];
    uint64_t body_bytes;
    stage_cold_path(stage, path);
    return stage_same_body(stage, peer, path, &body_bytes) &&
           run_full(stage, peer, path, WARM_SECONDS, &unread);
}

const struct contest contest_hits = {
    .name = "hits",
    .title = "Hits on one document: wrk on one instance, then 1 000 requests a second over two",
    .terms = {.ttl_ms = TTL_MS, .stale_ms = STALE_MS},
    .figures = figures,
    .needs_wrk = true,
    .prepare = prepare,
    .run = run,
};
