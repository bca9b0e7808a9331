/* SPDX-License-Identifier: MIT */
/*
 * watch.h - what the core tells of itself as it happens: the events of guard.h that are its to know. Nothing is done,
 * and nothing is decided, if nobody listens. Private to the room.
 */
#ifndef GUARD_WATCH_H
#define GUARD_WATCH_H

#include "flight.h"

/* Its load begins. */
void watch_load_started(const struct flight *flight);
/* It has come back, or is waited for no more; its flight may have given it up. */
void watch_load_ended(const struct core *core, const struct load *load, const struct core_loaded *loaded);
void watch_lease_lost(const struct flight *flight);
/* What was loaded is not in the cache. */
void watch_fill_refused(const struct flight *flight);
/* So many of its waiters were refused because there was no place for a load; 0: none was. */
void watch_shed(const struct flight *flight, uint64_t count);
void watch_invalidated(const struct core *core, const struct core_invalidation *invalidation);

#endif
