/* SPDX-License-Identifier: MIT */
/*
 * numbers.h - guard_stats() and its like, and the events that a host watches. Who counts:
 *
 *     the core          by kind, and what is of no kind; published after every batch of events
 *     each loop         by kind, what it answers itself
 *     the near cache    by kind, what it was asked; the rest by shard
 *     a kind            gets that were refused before they were accepted
 *     the connections   commands and what became of them
 *
 * Nothing is counted twice: the whole is the sum, made when it is asked for.
 *
 * Locking   the guard's mutex for what is published and the list of loops.
 */
#pragma once

#include "state.h"

/* What a loop has counted of one kind. */
void numbers_add_loop(struct guard_stats *stats, const struct loop_counters *counters);
/* The guard's thread: what the cores have counted is for all to see, and states that have changed become events. */
void numbers_publish(struct guard *guard);

/*
 * ---- what the host's hook hears ----
 *
 * Collected while it happens, told when a batch of events is over.
 *
 * Threads   the guard's. The hook is called outside every lock and never from inside the core.
 * Lifetime  an event is copied with its key until it has been told. For want of memory it is not told.
 */

/* For core_config.tell; `context` is the guard. */
void events_note(void *context, const struct guard_event *event, unsigned kind);
/* Likewise of the fleet's core in mode shadow, whose loads are none. */
void events_note_shadow(void *context, const struct guard_event *event, unsigned kind);
/* Calls the hook; closing: what has not been told is forgotten. */
void events_tell_all(struct guard *guard, bool closing);
