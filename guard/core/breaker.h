/* SPDX-License-Identifier: MIT */
/*
 * breaker.h - the circuit breaker in front of Redis: one for each master.
 *
 *              BREAKER_TRIP unanswered commands in a row
 *     CLOSED ------------------------------------------> OPEN <-----+
 *        ^                                                 |        | unanswered, or link lost
 *        |  the probe was answered                         | link up and pause over
 *        +------------------------------------ HALF_OPEN <-+--------+
 *
 * While it is open nothing waits for Redis. The connection layer reconnects on its own, with backoff and
 * jitter, and a login that succeeds ends the first pause: it has shown that Redis answers. The pauses after a
 * failed probe are not cut short, or a Redis that lets us in and then hangs would be tried without end. Then
 * one command goes through as the probe, so that recovery is no herd. A probe that met moving keys has shown
 * nothing: the next command is one in its place. A hit that a loop has had meanwhile will do as well, on probation:
 * the first command without an answer opens it again, for the next longer pause.
 *
 * Pure; the core's thread.
 */
#pragma once

#include "../base/chance.h"
#include <stdbool.h>
#include <stdint.h>

enum { BREAKER_TRIP = 3, BREAKER_PAUSE_MS = 200, BREAKER_MAX_PAUSE_MS = 2000 };

enum breaker_state { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_HALF_OPEN };

struct breaker {
    enum breaker_state state;
    bool link_up;
    uint32_t failures; /* in a row */
    uint32_t openings; /* in a row, for the backoff of the pause */
    uint64_t open_until_us;
    uint64_t opened_count;
};

/* May a command be sent? It may be the probe: then OPEN becomes HALF_OPEN. */
bool breaker_allow(struct breaker *breaker, uint64_t now_us);
/* Redis answered something. */
void breaker_answered(struct breaker *breaker);
/* Redis has answered a lookup of a loop, which asks no breaker. */
void breaker_heard(struct breaker *breaker, uint64_t now_us);
/* It says nothing about Redis, neither good nor bad. */
static inline void breaker_unjudged(struct breaker *breaker)
{
    if (breaker->state == BREAKER_HALF_OPEN)
        breaker->state = BREAKER_OPEN;
}

void breaker_unanswered(struct breaker *breaker, uint64_t now_us, struct chance *chance);
void breaker_link(struct breaker *breaker, uint64_t now_us, bool up);
/* As if it were new, but for what it has counted. */
void breaker_forget(struct breaker *breaker);
