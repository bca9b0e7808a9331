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
/* Asks Redis, if it is time to. */
void cache_ask(struct guard *guard);
/* The connection is gone, and with it what is known. */
void cache_forget(struct guard *guard);

#endif
