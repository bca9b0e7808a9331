/* SPDX-License-Identifier: MIT */
/*
 * stale.h - a value that is there while its refresh runs: answered at once, or held for waiters that prefer a fresh
 * one until their soft limit. Private to the room.
 *
 *   found stale        no soft limit     with one
 *     ours to refresh  answer, load      hold, load
 *     others refresh   answer            hold, wait for them
 *     cooling down     answer            answer
 *
 * Held values keep the rule of all results: a waiter may have one only if it joined before the lookup was sent.
 */
#ifndef GUARD_STALE_H
#define GUARD_STALE_H

#include "core.h"

/* A stale value in hand for waiters that prefer a fresh one. */
struct held {
    struct guard_result result; /* its value is owned */
    bool there;
    uint64_t stamp;    /* of its lookup */
    uint64_t read_us;  /* its age is of this instant */
    uint64_t until_us; /* end of its stale time */
};

/* What its load would replace. */
void stale_keep_previous(struct flight *flight, const struct core_reply *reply);
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

#endif
