/* SPDX-License-Identifier: MIT */
/*
 * defer.h - a load that is finished later, on a loop or on any thread: guard_load_defer(), and what a loop has to do
 * with it; and a load that begins there, GUARD_ON_LOOP. The handle's life is load.h's.
 *
 *     on the guard's thread           on the loop
 *     defer_start() ----------------> loop.unbegun ---- defer_on_mail() ----> its loader
 *     load_cancel() ----------------> loop.cancelled -- defer_on_mail() ----> cancelled(context)
 *
 * One that is cancelled, whose loop goes, or that does not begin within lease_ms, is given back: others may load.
 */
#pragma once

#include "load.h"

/* The guard's thread: a job whose loader is to run on the loop of its asker. False: there is none, or of a refresh
 * none any more, or no memory. */
bool defer_start(struct desk *desk, const struct job *job);
/* The loop is there, does not go, and has begun in time what it was given last. */
bool defer_may_begin(const struct guard_loop *name);
/* On the thread of the loop: runs those loaders, and calls back loads that are cancelled. */
void defer_on_mail(struct loop *loop);
/* On the thread of the loop: it goes, and nothing is deferred to it any more. Those that were are cancelled, because
 * their thread goes, too. True: some are to be called back. */
bool defer_leave_loop(struct loop *loop);
/* It is gone: its name leads nowhere from here on. */
void defer_forget_loop(struct loop *loop);

/* Of a request that a deferred load makes. False: it is not deferred, finished, or no load of this guard's. */
bool defer_parent(const struct guard *guard, const struct guard_load *within, struct parent_load *out);
