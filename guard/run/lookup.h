/* SPDX-License-Identifier: MIT */
/*
 * lookup.h - a loop looks a get up over the connection of its own, and answers it there if it is a hit.
 *
 * A lookup is `PTTL` first, then `GETEX`, in one write: the pair is not atomic, and in this order a value replaced
 * between the two looks too old, never too fresh. Gets of one key share a lookup until it is written; a get
 * that comes later gets a new one, so none is given what was read before it was made.
 *
 * A stale value that its policy lets be served at once is a hit, too. A hit may want a background refresh (keep.h);
 * it is answered without waiting for that, and nothing more is sent from here.
 *
 * Lookups are sent when the turn of the loop is over, behind the questions for the epochs of all of them. The limit
 * of a Redis command begins then: a get whose deadline is no later may be answered late by what was left of the turn.
 *
 * An entry with tags is a hit only if their epochs say so (tags.h): they are requested together with those of the
 * turn's other lookups (tag_batch.h), in the same write if the loop remembers which tags the key had, else behind it.
 * Without an answer to that it is no hit. Older than one that was expired it is made stale, and answers so
 * (expire.h); near it is never kept.
 *
 * A get whose lookup cannot be sent, is not answered, or does not run, is answered with what is kept (core/near.h),
 * if that may still do; so is one that is late: after half of redis_limit_ms. What a lookup has found is kept for
 * that.
 *
 * A peek is answered here, whatever is found, and leads to nothing else: MISS, or UNKNOWN if Redis did not say.
 *
 * Threads  that of the loop.
 */
#pragma once

#include "state.h"

/* False: no connection and nothing kept, no time or no memory, or it revalidates; the core is next. Always true of a
 * peek. */
bool lookup_begin(struct loop *loop, struct get *get);
/* Takes a get out of its lookup, if it has one. */
void lookup_leave(struct get *get);
/* Of a struct loop: its `sender`. Sends what the turn has begun. */
void lookup_send(void *context);
/* Likewise: its timer `late`. */
void lookup_late(void *context);

/* A server has said that it is no master, or none that works: what is kept goes, once until one does. On any
 * thread. */
void lookup_hears_no_master(struct guard *guard);
static inline void lookup_hears_master(struct guard *guard)
{
    if (atomic_load_explicit(&guard->masterless, memory_order_relaxed))
        atomic_store(&guard->masterless, false);
}
