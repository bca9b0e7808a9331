/* SPDX-License-Identifier: MIT */
/*
 * life.h - the guard's thread from its start to its end.
 *
 * Threads  that of guard_open() and guard_close().
 */
#ifndef GUARD_LIFE_H
#define GUARD_LIFE_H

#include "state.h"

/* Starts the thread. NO_MEMORY; INVALID: what the URL asks for cannot be had. */
enum guard_status life_start(struct guard *guard, const struct redis_url *url, struct guard_error *error);
/* Drains, ends the thread and waits for it. False: a loader did not end and must keep the memory. */
bool life_stop(struct guard *guard, uint32_t drain_ms);

#endif
