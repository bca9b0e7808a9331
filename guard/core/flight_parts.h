/* SPDX-License-Identifier: MIT */
/*
 * flight_parts.h - what the files that move a flight know of each other. Private to flight*.c.
 *
 *   flight.c         states, rounds, events
 *   flight_lookup.c  what an acquire says, waiting for another process
 *   flight_stale.c   stale values: held, peeked at, refreshed behind
 *   flight_lease.c   the lease from its grant to its end
 *   flight_load.c    the load, its fill, its release
 *   flight_answer.c  results, and who may have them
 */
#ifndef GUARD_FLIGHT_PARTS_H
#define GUARD_FLIGHT_PARTS_H

#include "flight.h"

static inline uint64_t us(uint32_t ms)
{
    return (uint64_t)ms * 1000;
}

static inline uint32_t ms_until(uint64_t now_us, uint64_t then_us)
{
    uint64_t left_ms = then_us > now_us ? (then_us - now_us + 999) / 1000 : 0;
    return left_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)left_ms;
}

/* ---- flight.c ---- */

void flight_move(struct core *core, struct flight *flight, enum flight_state state);
void flight_end(struct core *core, struct flight *flight);
uint64_t flight_next_op(struct flight *flight);
struct core_action flight_action(const struct flight *flight, enum core_action_kind kind);
void flight_remember_token(struct flight *flight);
/* Sends an acquire, or goes without Redis. */
void flight_ask(struct core *core, uint64_t now_us, struct flight *flight);
/* It may load: on the thread of a load that waits for it, else on a worker's when its turn comes. */
void flight_line_up(struct core *core, uint64_t now_us, struct flight *flight);
/* A place for whatever leads to a load: if somebody waits for it and there is none, that of a queued refresh. */
bool flight_take_place(struct core *core, uint64_t now_us, struct flight *flight);
/* Loads without a lease: whoever joined before the query gets the result, nobody stores it. */
void flight_bypass(struct core *core, uint64_t now_us, struct flight *flight);
/* A round is over: those left over ask again, or nobody is left. */
void flight_settle(struct core *core, uint64_t now_us, struct flight *flight);
/* The same when the round brought nothing. */
void flight_next_round(struct core *core, uint64_t now_us, struct flight *flight);

/* ---- flight_lookup.c ---- */

void flight_acquire_replied(struct core *core, uint64_t now_us, struct flight *flight,
                            const struct core_reply *reply);
void flight_unanswered_acquire(struct core *core, uint64_t now_us, struct flight *flight);
/* Waits for another process: a wake-up, the poll; pttl_ms and lease_tag of its lease, if known. */
void flight_await(struct core *core, uint64_t now_us, struct flight *flight, uint32_t pttl_ms,
                  const char *lease_tag);
/* Nobody waits any more: gives back what the reply may have brought. */
void flight_unwanted_reply(struct core *core, uint64_t now_us, struct flight *flight,
                           const struct core_reply *reply);
void flight_wake(struct core *core, uint64_t now_us, struct flight *flight);
void flight_wait_until(struct core *core, struct flight *flight, uint64_t at_us);
/* What was waited for another process's lease is counted, however it ended. */
void flight_waited(struct core *core, uint64_t now_us, struct flight *flight);

/* ---- flight_stale.c ---- */

void flight_found_stale(struct core *core, uint64_t now_us, struct flight *flight,
                        const struct core_reply *reply);
/* The reply to an acquire that nobody waits for any more, or that nobody ever did. */
void flight_background_replied(struct core *core, uint64_t now_us, struct flight *flight,
                               const struct core_reply *reply);
/* After a hit: refreshes the value that this filler stored. */
void flight_refresh_early(struct core *core, uint64_t now_us, struct flight *flight, const char *filler);
/* No refresh is asked for, for so long or until a message. */
void flight_rest(struct core *core, uint64_t now_us, struct flight *flight, uint32_t rest_ms);
/* The stale value in hand, if this waiter may have it. */
bool flight_held_for(const struct flight *flight, uint64_t now_us, const struct core_waiter *waiter,
                     struct guard_result *out);
void flight_drop_held(struct flight *flight);
void flight_drop_previous(struct flight *flight);
void flight_peek(struct core *core, uint64_t now_us, struct flight *flight);
void flight_peek_replied(struct core *core, uint64_t now_us, struct flight *flight,
                         const struct core_reply *reply);

/* ---- flight_lease.c ---- */

/* A queued refresh gives its place and its lease back. */
void flight_yield(struct core *core, uint64_t now_us, struct flight *flight);
void flight_granted(struct core *core, uint64_t now_us, struct flight *flight);
void flight_forget_lease(struct core *core, struct flight *flight);
void flight_set_hold_alarm(struct core *core, struct flight *flight);
void flight_hold_alarm(struct core *core, uint64_t now_us, struct flight *flight);
void flight_renew_replied(struct core *core, uint64_t now_us, struct flight *flight,
                          const struct core_reply *reply);
/* Was it our lease that an invalidation voided? */
void flight_doubt_lease(struct core *core, uint64_t now_us, struct flight *flight);

/* ---- flight_load.c ---- */

/* Whom a failed load answers. */
uint64_t flight_failure_stamp(const struct flight *flight);
void flight_fill_replied(struct core *core, uint64_t now_us, struct flight *flight,
                         const struct core_reply *reply);
void flight_release(struct core *core, uint64_t now_us, struct flight *flight, enum guard_failure failure,
                    bool too_big);
void flight_release_replied(struct core *core, uint64_t now_us, struct flight *flight,
                            const struct core_reply *reply);
/* Nobody waits for it any more. */
void flight_drop_load(struct core *core, uint64_t now_us, struct flight *flight);

/* ---- flight_answer.c ---- */

/* To those who joined before this stamp. */
void flight_deliver(struct core *core, uint64_t now_us, struct flight *flight, uint64_t stamp,
                    struct guard_result result);
void flight_deliver_all(struct core *core, uint64_t now_us, struct flight *flight,
                        struct guard_result result);
struct guard_result flight_failure_result(enum guard_source source, enum guard_failure failure,
                                          uint32_t retry_ms);
struct guard_result flight_shed_result(void);
/* What has been loaded, for those who may have it. */
struct guard_result flight_loaded_result(const struct flight *flight, bool stored);
struct guard_result flight_cached_result(const struct core_reply *reply, enum guard_source source);
/* How long this failure will be remembered: told to those it answers, written into the failure lease. */
void flight_choose_failure_ms(struct core *core, struct flight *flight);
struct guard_result flight_new_failure(struct core *core, struct flight *flight, enum guard_failure failure);

#endif
