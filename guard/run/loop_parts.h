/* SPDX-License-Identifier: MIT */
/*
 * loop_parts.h - what the files of a loop know of each other. Private to loop*.c.
 *
 *   loop.c         gets: made, called back, cancelled; the life of a loop
 *   loop_lookup.c  lookups: what is asked of Redis, and whom the answer answers
 *
 * Threads  the loop's.
 */
#ifndef GUARD_LOOP_PARTS_H
#define GUARD_LOOP_PARTS_H

#include "loop.h"

/* A counter has one writer. */
static inline void bump(_Atomic uint64_t *counter, uint64_t by)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by,
                          memory_order_relaxed);
}

/* ---- loop.c ---- */

/* Apart from the others: a hit must not wait behind thousands who are woken together. */
void loop_call_back_hits(struct guard_loop *loop);

/* ---- loop_lookup.c ---- */

/* Takes a get out of its lookup, if it has one. */
void loop_leave_lookup(struct get *get);
/* A get has come back from the core: the next lookup of its key asks for the tags that were loaded with it. */
void loop_remember_loaded(struct guard_loop *loop, const struct get *get);

#endif
