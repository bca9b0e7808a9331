/* SPDX-License-Identifier: MIT */
/*
 * connected.h - who waits for the first word of Redis: guard_connected().
 *
 *     guard_open() ... UP, or why it is not, or connect_limit_ms is over: spoken; from then on each call is told at once
 *
 * In a Cluster the word is that of all masters together.
 *
 * Threads  The guard's own; the public functions on any.
 */
#ifndef GUARD_CONNECTED_H
#define GUARD_CONNECTED_H

#include "state.h"

/* Sets the limit; before the guard's thread runs. */
void connected_open(struct guard *guard);
/* Redis has said how it is. */
void connected_spoken(struct guard *guard);
/* Tells those that wait, if it has. */
void connected_tell(struct guard *guard);
/* Tells those that wait that it ends. */
void connected_close(struct guard *guard);

#endif
