/* SPDX-License-Identifier: MIT */
/*
 * callback.h - answered gets go back to their callers on their loops, and are counted.
 *
 * Hits apart from the others: a hit must not wait behind thousands that are woken together.
 *
 * Threads  that of the loop.
 */
#ifndef GUARD_CALLBACK_H
#define GUARD_CALLBACK_H

#include "kind.h"
#include "state.h"

/* Where a loop counts what becomes of this get. */
static inline struct loop_counters *counters_of(struct loop *loop, const struct get *get)
{
    return &loop->counters[get->kind->index];
}

/* Counts an answer that no waiter of the core has had. */
void callback_count(struct loop *loop, const struct get *get);
/* Some of loop->hits. The rest follows in the next turn of the loop. */
void callback_hits(struct loop *loop);
/* Some of loop->hits and of loop->ready. */
void callback_ready(struct loop *loop);

#endif
