/* SPDX-License-Identifier: MIT */
/*
 * stale.h - a value that is there while its refresh runs: answered at once, or held for waiters that prefer a fresh
 * one until their soft limit; and requests that no value of before answers. Private to the room.
 *
 *   found stale        no soft limit     with one
 *     ours to refresh  answer, load      hold, load
 *     others refresh   answer            hold, wait for them
 *     cooling down     answer            answer
 *
 * Held values keep the rule of all results: a waiter may have one only if it joined before the lookup was sent.
 */
#pragma once

#include "core.h"

/* A stale value in hand for waiters that prefer a fresh one. */
struct held {
    struct guard_result result; /* its value is owned */
    bool there;
    uint64_t stamp;    /* of its lookup */
    uint64_t read_us;  /* its age is of this instant */
    uint64_t until_us; /* end of its stale time */
};

/* A lookup found it: the reply to an acquire. */
void stale_found(struct flight *flight, const struct core_reply *reply);
/* The reply to an acquire of a flight without waiters: they have left, or it is a background refresh. */
void stale_background_replied(struct flight *flight, const struct core_reply *reply);
/* No refresh is tried for so long, or until a message. */
void stale_rest(struct flight *flight, uint32_t rest_ms);

/* Looks the value up beside its refresh, for a waiter that joined meanwhile. */
void stale_peek(struct flight *flight);
void stale_peek_replied(struct flight *flight, const struct core_reply *reply);

/* The stale value in hand, if this waiter may have it. */
bool stale_held_for(const struct core_waiter *waiter, struct guard_result *out);

/* A waiter's limit is over. */
void stale_soft_limit(struct core_waiter *waiter);
void stale_hard_limit(struct core_waiter *waiter);

/*
 * ---- no value that was there ----
 *
 * Requests that no value answers which was there, or was being loaded, when they began.
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
