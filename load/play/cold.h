/* SPDX-License-Identifier: MIT */
/*
 * cold.h - what is done before each round of a burst, so that it meets a key that is not there, or has just expired.
 *
 *     WAITING --the pause between rounds is over: `before-round` is done--> READY, or, with `at-expiry KEY`,
 *                                                    --> WAITING until its PTTL is nearly over --> READY at its end
 *
 * Time: at most COLD_WAIT_LIMIT_MS of a round. Threads: one. Errors: FAILED, and the reason in `why`.
 */
#pragma once

#include "load/herd/herd_shared.h"
#include "load/play/servers.h"

enum { COLD_WAIT_LIMIT_MS = HERD_HOLD_LIMIT_MS };

enum cold_state { COLD_WAITING = 0, COLD_READY, COLD_FAILED };

struct cold {
    struct servers *servers;    /* lent */
    struct redisContext *redis; /* owned; NULL before it is needed */
    bool is_done;               /* before-round, in this round */
    uint64_t look_us,
        end_us;         /* when PTTL is asked next; by when the key has to be gone, 0 before it is asked */
    uint64_t *drops_us; /* owned: when values were dropped, or expired */
    size_t drop_count, drop_room;
};

/* Looks whether the round may begin that is due at `soonest_us`. READY: at *instant_us, and the next look is for the
 * round after it. */
enum cold_state cold_look(struct cold *cold, uint64_t soonest_us, uint64_t *instant_us,
                          char why[static SCENARIO_WHY_BYTES]);

/* Values may have been dropped then. False: no memory. */
bool cold_note_drop(struct cold *cold, uint64_t at_us);
void cold_clear(struct cold *cold);
