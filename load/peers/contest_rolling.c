/* SPDX-License-Identifier: MIT */
/*
 * contest_rolling.c - one hot document that expires every second, asked for 2 000 times a second over both
 * instances.
 *
 * An expiry is one time that the document had to be loaded: loads that began within its TTL belong together. One
 * load for each is what a cache can do; two instances that know nothing of each other have two.
 */
#include "load/peers/peers.h"

#include <stdlib.h>

enum {
    TTL_MS = 1000,
    STALE_MS = 10000,
    PER_SECOND = 2000,
    CONNECTIONS = 200,
    LIMIT_MS = 5000,
};

static const enum figure figures[] = {FIGURE_ORIGIN_CALLS, FIGURE_CALLS_PER_EXPIRY,
                                      FIGURE_GOOD,         FIGURE_P50,
                                      FIGURE_P99,          FIGURE_P999,
                                      FIGURE_MAX,          FIGURE_RATE,
                                      FIGURE_CPU,          FIGURE_REDIS,
                                      FIGURE_COUNT};

static bool run(struct stage *stage, struct peer *peer, struct score *score)
{
    char path[BURST_PATH_BYTES];
    stage_cold_path(stage, path);
    const struct paced paced = {.path = path,
                                .per_second = PER_SECOND,
                                .seconds = stage->rolling_s,
                                .connection_count = CONNECTIONS,
                                .limit_ms = LIMIT_MS,
                                .ttl_ms = TTL_MS};
    return stage_paced(stage, peer, &paced, score);
}

static bool prepare(struct stage *stage, struct peer *peer)
{
    uint64_t body_bytes;
    char path[BURST_PATH_BYTES];
    stage_cold_path(stage, path);
    return stage_same_body(stage, peer, path, &body_bytes);
}

const struct contest contest_rolling = {
    .name = "rolling",
    .title = "Rolling expiry: one hot document, TTL 1 s, 2 000 requests a second over two instances",
    .terms = {.ttl_ms = TTL_MS, .stale_ms = STALE_MS},
    .figures = figures,
    .prepare = prepare,
    .run = run,
};
