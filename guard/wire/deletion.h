/* SPDX-License-Identifier: MIT */
/*
 * deletion.h - an invalidation without its script, for a key whose slot moves.
 *
 * While a slot moves Redis runs no script over several of its keys, but single commands: DEL lease, and once that is
 * confirmed DEL value, each at the master that has the key. The lease goes first: nothing can be stored under it once
 * the value has gone, and no other is granted before the slot has moved, for that takes a script. Then its message.
 *
 * The failure lease stays: until it runs out its failure is answered, as before the invalidation.
 *
 * Threads  that of the connection. No I/O of its own.
 */
#ifndef GUARD_DELETION_H
#define GUARD_DELETION_H

#include "../core/core.h"
#include "../redis/redis.h"

/* Replies as the script invalidate does; `replied` once. channel: of the wake-ups; copied. False: it could not be
 * sent, and is not answered. */
bool deletion_send(struct redis *redis, const char *name_space, const char *channel,
                   const struct core_key *key, redis_replied *replied, void *context);

#endif
