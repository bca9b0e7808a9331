/* SPDX-License-Identifier: MIT */
/*
 * events.h - what the host's hook hears: collected while it happens, told when a batch of events is over.
 *
 * Threads   the guard's. The hook is called outside every lock and never from inside the core.
 * Lifetime  an event is copied with its key until it has been told. For want of memory it is not told.
 */
#ifndef GUARD_EVENTS_H
#define GUARD_EVENTS_H

#include "state.h"

/* For core_config.tell; `context` is the guard. */
void events_note(void *context, const struct guard_event *event, unsigned kind);
/* Likewise of the fleet's core in mode shadow, whose loads are none. */
void events_note_shadow(void *context, const struct guard_event *event, unsigned kind);
/* With a hook: notes what has become of Redis and the breaker, as published. */
void events_note_states(struct guard *guard);
/* Calls the hook. */
void events_tell_all(struct guard *guard);
/* Forgets what has not been told. */
void events_clear(struct guard *guard);

#endif
