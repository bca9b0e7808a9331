/* SPDX-License-Identifier: MIT */
/* script.c - see script.h. */
#include "load/peers/script.h"

#include <inttypes.h>
#include <stdio.h>

bool script_start(struct peer *peer, struct rival servers[static PEER_INSTANCES], const char *program,
                  const char *script, const struct stage *stage, const struct terms *terms)
{
    char name[48], origin[64], redis[32], ttl[32], stale[32];
    const char *const arguments[] = {program, script, NULL};
    const char *const settings[] = {"PORT={port}", name, origin, redis, ttl, stale, NULL};
    const struct rival_plan plan = {.name = peer->name, .arguments = arguments, .settings = settings};
    snprintf(name, sizeof name, "PEER=%s", peer->name);
    snprintf(origin, sizeof origin, "ORIGIN=http://127.0.0.1:%u", (unsigned)stage->origin.port);
    snprintf(redis, sizeof redis, "REDIS_PORT=%u", (unsigned)stage->redis.port);
    snprintf(ttl, sizeof ttl, "TTL_S=%" PRIu32, terms->ttl_ms / 1000);
    snprintf(stale, sizeof stale, "STALE_S=%" PRIu32, terms->stale_ms / 1000);
    for (size_t i = 0; i < PEER_INSTANCES; i++) {
        if (!rival_start(&servers[i], &plan))
            return peer_fail(peer, "%.60s with %.80s did not start", program, script);
        peer->ports[i] = servers[i].port;
        peer->pids[i] = servers[i].pid;
    }
    return true;
}

void script_stop(struct rival servers[static PEER_INSTANCES])
{
    for (size_t i = 0; i < PEER_INSTANCES; i++)
        rival_stop(&servers[i]);
}
