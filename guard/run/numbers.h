/* SPDX-License-Identifier: MIT */
/*
 * numbers.h - guard_stats() and its like. Who counts:
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
#ifndef GUARD_NUMBERS_H
#define GUARD_NUMBERS_H

#include "state.h"

/* The guard's thread: what the cores have counted is for all to see, and states that have changed become events. */
void numbers_publish(struct guard *guard);

#endif
