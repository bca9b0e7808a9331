/* SPDX-License-Identifier: MIT */
/*
 * forked.h - how many forks lie between this process and the one that first called forked_watch(). A guard that was
 * opened at another count belongs to another process: its threads and connections are not here, and a mutex of it may
 * be locked for ever. Costs no system call. What only _Fork() or clone(2) makes is not seen.
 *
 * Threads   any.
 */
#ifndef GUARD_FORKED_H
#define GUARD_FORKED_H

#include <stdatomic.h>
#include <stdbool.h>

extern atomic_uint forked_times; /* for forked_count() alone */

/* Counts from now on. False: no memory. */
bool forked_watch(void);

static inline unsigned forked_count(void)
{
    return atomic_load_explicit(&forked_times, memory_order_relaxed);
}

#endif
