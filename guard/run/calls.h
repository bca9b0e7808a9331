/* SPDX-License-Identifier: MIT */
/*
 * calls.h - scripts on their way to Redis and back, with what tags make necessary beside them.
 *
 * Threads  the guard's.
 */
#pragma once

#include "../wire/wake.h"
#include "state.h"

/* What came back for the op of an action: once, never from inside calls_send(), and not once the guard ends. */
typedef void calls_replied(struct guard *guard, uint64_t op, const struct core_reply *reply);

/* Sends the script of an action with an op. False: it could not be sent, and `replied` is not called. */
bool calls_send(struct guard *guard, const struct core_action *action, calls_replied *replied);

/* `pushed` NULL: it is not known to be good; it is a wake-up like any other. */
typedef void calls_checked(struct guard *guard, const char *subject, size_t subject_bytes,
                           const struct core_reply *pushed);

/*
 * An entry that came with a wake-up message waits for the epochs of its tags, which costs one round trip: a waiter
 * may know of an invalidation of a tag that is younger than the entry, and that voids no lease. As calls_send().
 */
bool calls_check_push(struct guard *guard, const struct message *message, const struct core_reply *pushed,
                      calls_checked *checked);
