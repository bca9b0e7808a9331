/* SPDX-License-Identifier: MIT */
/*
 * running.h - the loads that run in this process, kept from what the guard tells (guard_config.event).
 *
 *     LOAD_STARTED --> in the list --LOAD_ENDED--> gone
 *
 * A load costs two short turns with the lock, whether anybody looks or not, because one that began before must be
 * seen; a hit costs nothing. Of events that the guard loses for want of memory a load may be missing, or stay until
 * RUNNING_MAX newer ones have come.
 *
 * Threads: any. Lifetime: opened before the guard, closed after guard_close() has returned OK.
 */
#pragma once

#include "guard/guard.h"

#include <stddef.h>
#include <stdint.h>

enum { RUNNING_MAX = 1024 /* as MAX_LOADS */, RUNNING_KEY_BYTES = 96 };

struct running_load {
    char key[RUNNING_KEY_BYTES]; /* a longer one is cut */
    uint64_t load;               /* its number */
    uint64_t for_ms;             /* until it was listed */
    uint64_t waiters;            /* requests that waited for it when it began */
};

struct running;

/* NULL: no memory. */
struct running *running_open(void);
/* Leaves NULL. Accepts NULL in *running. */
void running_close(struct running **running);

/* For guard_config.event; `context` is a struct running. Other events are passed over. */
void running_note(void *context, const struct guard_event *event);

/* The ones that run longest, first, at most `max` of them; how many. */
size_t running_list(struct running *running, struct running_load *out, size_t max);
