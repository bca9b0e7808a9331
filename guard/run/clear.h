/* SPDX-License-Identifier: MIT */
/*
 * clear.h - dropping every entry of the namespace: guard_clear().
 *
 *   asked --> WAITING --> a run: leases --> values and failures --> asked for at its begin: OK
 *                ^         |  each pass goes through all masters, step by step (wire/sweep.h)
 *                |         +-- the map has changed, or a master's reign is over: the run begins again
 *                |         +-- all its callers were answered UNKNOWN: it stops, and the next one goes on from there
 *                +-------- asked for meanwhile: the next run
 *
 * Leases first   A load that was running could store behind the cursor otherwise. A lease that is granted after its
 *                name was passed is of a load that begins after the call.
 * SCAN           finds what is there from its begin to its end: whatever was stored before the leases were gone. In a
 *                Cluster a name may move from a master that has not been gone through to one that has been; so each
 *                pass is gone twice, which no name escapes that moves once.
 * Going on       A deadline that is shorter than a run would otherwise never see its end, however often the call is
 *                repeated. So its OK is about what was loaded before the first of these calls. Only a call that comes
 *                within a minute of an UNKNOWN goes on; one that was waiting then has a run of its own.
 * Bounded        One step is under way at a time, 500 names looked at: between two the guard's thread and Redis do
 *                what else there is to do. A step that fails is taken again after a pause.
 * Afterwards     The near caches of all processes are emptied, and what waits looks again. If a master's reign ends
 *                shortly after, its successor may have missed some of it: one more run, for no caller.
 *
 * Threads  the guard's, but for the public functions.
 */
#pragma once

#include "state.h"

/* With the guard's parts. False: no memory. */
bool clear_open(struct guard *guard);
void clear_free(struct guard *guard);

/* What was posted: `posted` is no list of the guard any more. */
void clear_enter(struct guard *guard, struct clearing *posted);
/* Somebody waits for a run. */
bool clear_is_awaited(const struct guard *guard);
/* Another master was confirmed. */
void clear_reigned(struct guard *guard);
/* A message says that another process has cleared. */
void clear_heard(struct guard *guard);
/* Answers all with CLOSING; Redis's replies may still come. */
void clear_close(struct guard *guard);
