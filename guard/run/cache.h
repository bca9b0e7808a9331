/* SPDX-License-Identifier: MIT */
/*
 * cache.h - the name of the data in Redis, for guard_cache().
 *
 * Threads  the guard's.
 */
#ifndef GUARD_CACHE_H
#define GUARD_CACHE_H

#include "state.h"

/* False: no randomness. */
bool cache_open(struct guard *guard);
void cache_ask_redis(struct guard *guard);
/* The connection to this shard is gone, or it has another master, and with that what is known from there. */
void cache_forget(struct guard *guard, unsigned shard);

/* Asks Redis, if guard_cache() has been called and it is time to. */
static inline void cache_ask(struct guard *guard)
{
    if (atomic_load_explicit(&guard->cache_wanted, memory_order_relaxed))
        cache_ask_redis(guard);
}

#endif
