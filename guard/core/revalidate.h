/* SPDX-License-Identifier: MIT */
/*
 * revalidate.h - requests that no value answers which was there, or was being loaded, when they began. Private to the
 * room.
 *
 *   get ---> ACQUIRING ---- the lease, over whatever value is there ----> QUEUED, as any flight
 *              ^   |
 *              |   +------- BUSY: the filler of the value and the lease, by their UUIDs, do not count ---> WAITING
 *              |                                                                                             |
 *              +------------------------- wake-up, poll ----------------------------------------------------+
 *                  |
 *                  +------- a fresh value of another filler: its lease was granted since. Answered
 *
 * Flight    It has one of its own, which only such requests join: an ordinary request beside it is answered by what
 *           is there. To each of the two flights of a key the other is like another process, but that neither loads
 *           while the other one does where a process waits for no other.
 * Here      A waiter gets what was queried after it joined, also if that was stored: another flight's invalidation
 *           makes no older query good enough.
 * Names     Hold for the waiters that joined before the last lookup that found them was sent, and within one reign:
 *           another master may have a value that is older than both. The others begin anew, and nothing counts then.
 *           So a flight that waits looks at once for a waiter that joins.
 * Push      Is a wake-up: the lookup behind it knows the names.
 */
#ifndef GUARD_REVALIDATE_H
#define GUARD_REVALIDATE_H

#include "core.h"

/* A part of every flight. */
struct revalidation {
    bool on;
    uint64_t stamp;                       /* of the lookup that found the names */
    char names[2 * TOKEN_UUID_BYTES + 1]; /* of the value's filler and of the lease; "": nothing counts */
};

/* Takes the lease only if it has a place to load in. */
enum core_lookup revalidate_choose_lookup(struct flight *flight);
/* The reply to an acquire of a revalidation. False: it says what it says to any flight. */
bool revalidate_replied(struct flight *flight, const struct core_reply *reply);
/* The next lookup is the first one for all its waiters. */
void revalidate_begin_anew(struct flight *flight);

#endif
