/* SPDX-License-Identifier: MIT */
/*
 * nested.h - loads that other loads wait for: where they run, and who would wait for itself. Private to the room.
 *
 * Berth      A nested load needs no place, no permit and mostly no thread of its own: it runs in the place of its
 *            outer load, and never queues behind a load that waits for it. Otherwise max_loads outer loads, each
 *            waiting for a nested one that is queued, would wait until their deadlines.
 *
 *                outer load         its place serves              thread
 *                waits on its one   one nested load at a time     its own, which stands still
 *                is deferred        one nested load at a time     a free one; else one that stands still because it
 *                                                                 waits, over any number of loads, for this outer one
 *
 *            A nested load that is deferred gives the thread back, and goes on in the place. The place of an outer
 *            load that is over is kept until nothing runs in it any more. It has the time of its outer load at most,
 *            and of the load whose thread it runs on.
 * Circles    What is left to wait for is a load of this process, where a circle is refused at the moment it would
 *            close, or one of another process, for a limited time (alone_us). Loads that are one query end together,
 *            so each waits for what the others wait for. That is no reason to refuse anything: a neighbour leaves the
 *            query.
 */
#pragma once

#include "core.h"

struct load;

/* This nested waiter joins its flight, or leaves it. */
void nested_block(struct core_waiter *waiter);
void nested_unblock(struct core_waiter *waiter);
/* The load is over: what it still waits for is no business of its. */
void nested_forget_waiters(struct load *load);
/* That load is about to wait for the flight. False: it would wait for itself, because what the flight waits for waits
 * for it; or it is nested too deep. Where only a query stands between, because one of its keys waits and the others
 * end with it, those leave it which are waited for: they have waited for nothing, and are loaded by themselves. */
bool nested_admit(struct flight *flight, uint64_t parent_load);

/* A load of this flight may begin in the place of one that waits for it. */
bool nested_has_berth(const struct flight *flight);
/* Puts a new load there. False: it is no nested one. */
bool nested_take_berth(const struct flight *flight, struct load *load);
void nested_leave_thread(struct load *load);
void nested_leave_place(struct load *load);
