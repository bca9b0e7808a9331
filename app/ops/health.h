/* SPDX-License-Identifier: MIT */
/*
 * health.h - does the process do its work? Only that its threads turn: what it talks to may be away.
 *
 * Threads: any.
 */
#ifndef APP_HEALTH_H
#define APP_HEALTH_H

#include "app/http/server.h"
#include "guard/guard.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    HEALTH_STUCK_MS = 5000
}; /* a server loop or a guard thread that has not turned for this long is stuck */

struct health {
    bool is_well;
    uint32_t server_loops;
    uint32_t server_turn_ms, guard_turn_ms; /* since the one that turned longest ago did */
};

struct health health_look(const struct server *server, struct guard *guard);

#endif
