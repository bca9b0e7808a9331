/* SPDX-License-Identifier: MIT */
/*
 * peer_catalogd.c - ours: two processes over one Redis, mode fleet, one server loop each.
 *
 * No random shortening of the TTL, for no other has one. The query's delay is in its own load.
 */
#include "load/peers/peers.h"
#include "load/stack/service.h"

#include <inttypes.h>
#include <stdio.h>

static bool look(struct peer *peer)
{
    snprintf(peer->version, sizeof peer->version, "this build");
    return true;
}

static bool start(struct peer *peer, size_t index, const struct stage *stage, const struct terms *terms)
{
    char delay[48], fresh[48], stale[48];
    const char *const settings[] = {
        delay, fresh, stale, "JITTER_PERCENT=0", "GUARD_MODE=fleet", "NAMESPACE=peers", "SERVER_LOOPS=1",
        NULL};
    snprintf(delay, sizeof delay, "LOAD_DELAY_MS=%d", QUERY_MS);
    snprintf(fresh, sizeof fresh, "FRESH_MS=%" PRIu32, terms->ttl_ms);
    snprintf(stale, sizeof stale, "STALE_MS=%" PRIu32, terms->stale_ms);
    return service_start(&peer->processes[index], &stage->redis, &stage->postgres, settings) ||
           peer_fail(peer, "catalogd did not start");
}

struct peer peer_catalogd = {
    .name = "catalogd",
    .what = "ours: two processes, one Redis, GUARD_MODE=fleet, one server loop each",
    .uses_redis = true,
    .look = look,
    .start = start,
};
