/* SPDX-License-Identifier: MIT */
/* health.c - see health.h. */
#include "app/ops/health.h"

struct health health_look(const struct server *server, struct guard *guard)
{
    struct server_stats of_server;
    struct guard_stats of_guard;

    server_stats(server, &of_server);
    guard_stats(guard, &of_guard);
    return (struct health){
        .is_well = of_server.beat_age_ms < HEALTH_STUCK_MS && of_guard.beat_age_ms < HEALTH_STUCK_MS,
        .server_loops = of_server.loops,
        .server_turn_ms = of_server.beat_age_ms,
        .guard_turn_ms = of_guard.beat_age_ms,
    };
}
