/* SPDX-License-Identifier: MIT */
/*
 * connected.h - who waits for the first word of Redis: guard_connected(); and what its data is called: guard_cache().
 *
 *     guard_open() ... UP, or why it is not, or connect_limit_ms is over: spoken; from then on each call is told at
 *     once
 *
 * In a Cluster the word is that of all masters together.
 *
 * Threads  The guard's own; the public functions on any.
 */
#pragma once

#include "state.h"

/* Sets the limit; before the guard's thread runs. */
void connected_open(struct guard *guard);
/* Redis has said how it is. */
void connected_spoken(struct guard *guard);
/* Tells those that wait, if it has. */
void connected_tell(struct guard *guard);
/* Tells those that wait that it ends. */
void connected_close(struct guard *guard);

/*
 * ---- what the cache is called ----
 *
 * The name of the data in Redis, for guard_cache().
 *
 * Threads  the guard's.
 */

/* False: no randomness. */
bool cache_open(struct guard *guard);
/* Redis, if guard_cache() has been called and it is time to. */
void cache_ask(struct guard *guard);
/* The connection to this shard is gone, or it has another master, and with that what is known from there. */
void cache_forget(struct guard *guard, unsigned shard);
