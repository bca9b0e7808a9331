/* SPDX-License-Identifier: MIT */
/*
 * defer.h - a load that is finished later, on a loop or on any thread: guard_load_defer(), and what a loop has to do with
 * it. The handle's life is load.h's.
 *
 *     on the guard's thread           on the loop
 *     load_cancel() ----------------> loop.cancelled -- defer_call_back() --> cancelled(context)
 */
#ifndef GUARD_DEFER_H
#define GUARD_DEFER_H

#include "load.h"

/* On the thread of the loop: calls back those that are cancelled. */
void defer_call_back(struct loop *loop);
/* On the thread of the loop: it goes, and nothing is deferred to it any more. Those that were are cancelled, because
 * their thread goes, too. True: some are to be called back. */
bool defer_leave_loop(struct loop *loop);
/* It is gone: its name leads nowhere from here on. */
void defer_forget_loop(struct loop *loop);

/* Of a request that a deferred load makes. False: it is not deferred, finished, or no load of this guard's. */
bool defer_parent(const struct guard *guard, const struct guard_load *within, struct parent_load *out);

#endif
