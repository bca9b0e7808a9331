/* SPDX-License-Identifier: MIT */
/*
 * peer_catalogd.c - ours: two processes over one Redis, mode fleet, one server loop each.
 *
 * No random shortening of the TTL, for nobody else has one. The query's delay is in its own load.
 */
#include "load/base/clock.h"
#include "load/peers/peers.h"

#include <inttypes.h>
#include <stdio.h>

enum { READY_LIMIT_MS = 15000, SETTING_BYTES = 256 };

static struct stack_catalogd processes[PEER_INSTANCES];

static bool look(struct peer *peer)
{
    snprintf(peer->version, sizeof peer->version, "this build");
    return true;
}

static bool is_connected(const struct stack_catalogd *catalogd)
{
    return stack_catalogd_metric(catalogd, "guard_redis_state{connection=\"commands\",state=\"up\"}") >= 1 &&
           stack_catalogd_metric(catalogd, "guard_redis_state{connection=\"wake\",state=\"up\"}") >= 1;
}

static bool wait_connected(const struct stack_catalogd *catalogd)
{
    uint64_t end_us = clock_after_ms(READY_LIMIT_MS);
    while (!is_connected(catalogd)) {
        if (clock_us() >= end_us)
            return false;
        clock_pause_ms(2);
    }
    return true;
}

static bool start_one(struct stack_catalogd *catalogd, const struct stage *stage, const struct terms *terms)
{
    char redis[SETTING_BYTES], database[SETTING_BYTES], delay[48], fresh[48], stale[48];
    const char *const settings[] = {redis,
                                    database,
                                    delay,
                                    fresh,
                                    stale,
                                    "JITTER_PERCENT=0",
                                    "GUARD_MODE=fleet",
                                    "NAMESPACE=peers",
                                    "SERVER_LOOPS=1",
                                    NULL};
    snprintf(redis, sizeof redis, "REDIS_URL=%s", stage->redis.url);
    snprintf(database, sizeof database, "DATABASE_URL=%s", stage->postgres.url);
    snprintf(delay, sizeof delay, "LOAD_DELAY_MS=%d", QUERY_MS);
    snprintf(fresh, sizeof fresh, "FRESH_MS=%" PRIu32, terms->ttl_ms);
    snprintf(stale, sizeof stale, "STALE_MS=%" PRIu32, terms->stale_ms);
    return stack_catalogd_start(catalogd, settings) && stack_catalogd_wait_ready(catalogd, READY_LIMIT_MS) &&
           wait_connected(catalogd);
}

static bool start(struct peer *peer, const struct stage *stage, const struct terms *terms)
{
    for (size_t i = 0; i < PEER_INSTANCES; i++) {
        if (!start_one(&processes[i], stage, terms))
            return peer_fail(peer, "catalogd did not start");
        peer->ports[i] = processes[i].port;
        peer->pids[i] = processes[i].pid;
    }
    return true;
}

static void stop(struct peer *peer)
{
    (void)peer;
    for (size_t i = 0; i < PEER_INSTANCES; i++)
        stack_catalogd_stop(&processes[i]);
}

struct peer peer_catalogd = {
    .name = "catalogd",
    .what = "ours: two processes, one Redis, GUARD_MODE=fleet, one server loop each",
    .uses_redis = true,
    .look = look,
    .start = start,
    .stop = stop,
};
