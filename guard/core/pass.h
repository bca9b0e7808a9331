/* SPDX-License-Identifier: MIT */
/*
 * pass.h - loads whose value is for one request alone. Private to the room.
 *
 *     load says PASS --+--> its starter gets the value
 *                      +--> under a lease: a mark is stored in place of the value, for pass_ms
 *                      +--> each other waiter gets a flight of its own, which passes
 *
 *     mark found by a lookup, an acquire, or in a message --> each waiter gets a flight of its own, which passes
 *
 * A passing flight takes no lease, is not found by its key and has one waiter: nothing can be delivered to another
 * one. Its load stores nothing, whatever it says, and a failure of it is nobody else's. So none lines up behind
 * another: they only share workers, permits and half of the queue (loads.h).
 *
 * A mark is no answer, so it may part waiters that joined after what found it was sent.
 */
#ifndef GUARD_PASS_H
#define GUARD_PASS_H

#include "core.h"

/* Every waiter of this flight leaves it, for one of its own. */
void pass_part(struct flight *flight);
/* Its load has said so: what it brought is in flight->value, its keep in flight->life. */
void pass_loaded(struct flight *flight, const struct guard_keep *keep);

#endif
