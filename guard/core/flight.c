/* SPDX-License-Identifier: MIT */
/*
 * flight.c - the life of a flight: one load in progress for one key of one process.
 *
 *        first get                     BUSY
 *   o -----------> ASKING --------------------------------> WAITING
 *                  |  ^ ^---- wake-up, poll, resync -----------+
 *                  |  |
 *       FRESH,     |  |  waiters who joined too late for a result ask again
 *       FAILED:    |  +---------------------------------------------+
 *       answered   |                                                |
 *                  |  LEASE, or no Redis: "bypass"                  |
 *                  +----------------> QUEUED ------> LOADING --+    |
 *                  |                  (bulkhead)       |  |    |    |
 *                  |            value or absent, leased|  |    | without lease: answered, not stored;
 *                  |                                   v  |    | after a failure COOLING first
 *                  |                 1, 2  +------ FILLING|    |    |
 *                  |       answered, stored|              |failed, leased
 *                  v                       v              v    v    |
 *                ENDED <------------ nobody waits <-- RELEASING ----+
 *
 * Freshness  A waiter remembers what had been sent when it joined. flight_deliver() gives a result only to those
 *            who joined before the thing that made it was sent: a lookup, the query, or (if the fill was
 *            accepted, so that no invalidation came in between) the fill. Everybody else goes another
 *            round, at most ROUNDS_MAX, then gets a load without a lease. So a get that starts after an
 *            invalidation returned never sees the row before it.
 * Stale      Whoever finds a stale value is answered with it at once, also in the process that refreshes it: who
 *            joins meanwhile is looked up for beside the load ("peek"), until the value is gone. A refresh that
 *            fails answers nobody; who still waits asks again. With a soft limit the stale value is held
 *            instead, for those who joined before its lookup was sent: they get it at their soft limit, or in
 *            place of an error.
 * Behind     A hit that asks for a refresh has been answered elsewhere; its flight has no waiter and takes the
 *            lease or leaves. RESTING keeps the next hits from asking the same for a while.
 * Tokens     One acquire, one token. An attempt whose outcome is unknown may run later; the next attempt
 *            uses a new token and names the old one, which the script removes. Sending the same token again
 *            would let a delayed duplicate bring a voided lease back to life.
 * Lease      Valid from the instant its command was sent. Renewed at a third, never once fill or release
 *            was sent, never beyond hold_until_us. An unanswered renewal does not lose it; a "no" or the
 *            end of its validity does.
 * Tags       An invalidation of a tag voids no lease. What has tags is stored with the clock that was read before its
 *            query, and its fill answers who came after the query only if no tag had been invalidated when it was
 *            sent. Where that clock could not be read it is answered and not stored. An entry found older than one
 *            of its tags is replaced like a damaged one.
 * Wake-up    A hint. One that overtakes the BUSY reply on the other connection is latched. The capped poll is
 *            what guarantees progress when messages are lost or a holder dies.
 * Push       A wake-up may bring what was filled: no other question is needed. It answers only a flight that waits,
 *            whose last lookup found the very lease of that fill, and there only who joined before that lookup was
 *            sent. An invalidation voids the lease, so none came between that lookup and the fill, however late
 *            the message is; who joined later may know of one that came after the fill.
 */
#include "flight_parts.h"
#include <assert.h>
#include <string.h>

enum {
    ROUNDS_MAX = 3, /* lookups a waiter lives through before it gets a load of its own */
    RESYNC_SPREAD_MS = 100,
    BUSY_REST_MS = 100, /* a refresh that found no place */
};

/* ---- state ---- */

#define TO(state) (1u << FLIGHT_##state)
static const unsigned LEGAL[FLIGHT_STATES] = {
    [FLIGHT_NEW] = TO(ACQUIRING) | TO(QUEUED) | TO(RESTING) | TO(ENDED),
    [FLIGHT_ACQUIRING] = TO(ACQUIRING) | TO(WAITING) | TO(QUEUED) | TO(RELEASING) | TO(RESTING) | TO(ENDED),
    [FLIGHT_WAITING] = TO(ACQUIRING) | TO(QUEUED) | TO(ENDED),
    [FLIGHT_QUEUED] = TO(ACQUIRING) | TO(QUEUED) | TO(LOADING) | TO(RELEASING) | TO(ENDED),
    [FLIGHT_LOADING] = TO(ACQUIRING) | TO(QUEUED) | TO(FILLING) | TO(RELEASING) | TO(COOLING) | TO(ENDED),
    [FLIGHT_FILLING] = TO(ACQUIRING) | TO(QUEUED) | TO(RELEASING) | TO(ENDED),
    [FLIGHT_RELEASING] = TO(ACQUIRING) | TO(QUEUED) | TO(ENDED),
    [FLIGHT_COOLING] = TO(ACQUIRING) | TO(ENDED),
    [FLIGHT_RESTING] = TO(ACQUIRING) | TO(QUEUED) | TO(ENDED),
    [FLIGHT_ENDED] = 0,
};
#undef TO

/* Who is loaded with others waits for the answers that are about to come with its own: see loads.c. */
static void count_pending_acquire(struct core *core, struct flight *flight, enum flight_state state)
{
    uint64_t slot = flight->acquire_turn % CORE_TURNS;
    if (flight->counted && --core->pending_acquires[slot] == 0)
        core->replied_turn[slot] = core->turn;
    flight->counted = state == FLIGHT_ACQUIRING && flight->batched;
    if (!flight->counted)
        return;
    flight->acquire_turn = core->turn;
    core->pending_acquires[flight->acquire_turn % CORE_TURNS]++;
    core->turn_due = true;
}

void flight_move(struct core *core, struct flight *flight, enum flight_state state)
{
    assert((LEGAL[flight->state] & (1u << state)) != 0);
    count_pending_acquire(core, flight, state);
    flight->state = state;
    alarm_unset(&core->alarms, &flight->alarm);
}

void flight_end(struct core *core, struct flight *flight)
{
    assert(flight->first == NULL && flight->load == NULL);
    flight_move(core, flight, FLIGHT_ENDED);
    loads_give_place(core, flight);
    value_unref(&flight->value);
    flight_drop_held(flight);
    flight_drop_previous(flight);
    core_end_flight(core, flight);
}

/* ---- sending ---- */

uint64_t flight_next_op(struct flight *flight)
{
    if (++flight->op_count == 0)
        flight->op_count = 1;
    return flight->id << CORE_OP_BITS | flight->op_count;
}

struct core_action flight_action(const struct flight *flight, enum core_action_kind kind)
{
    return (struct core_action){
        .kind = kind,
        .key = flight->key,
        .token = flight->token,
        .prev = flight->prev_token,
        .refused = flight->refused,
        .wanted = flight->wanted,
        .policy = flight->policy,
        .lease_ms = flight->policy->lease_ms,
    };
}

/* ---- rounds ---- */

bool flight_take_place(struct core *core, uint64_t now_us, struct flight *flight)
{
    struct flight *refresh = NULL;
    if (loads_take_place(core, flight))
        return true;
    if (flight->first != NULL)
        refresh = loads_last_refresh(core, flight->share);
    if (refresh == NULL)
        return false;
    flight_yield(core, now_us, refresh);
    return loads_take_place(core, flight);
}

/* Who asks must be able to load if the answer is a lease; who cannot only looks. */
static enum core_lookup claim(struct core *core, struct flight *flight)
{
    if (!loads_take_place(core, flight) && loads_lender(core, flight) == NULL)
        return LOOKUP_PEEK;
    if (flight->first == NULL && flight->wanted[0] != '\0')
        return LOOKUP_EARLY;
    return flight->policy->stale_ms == 0 ? LOOKUP_NO_STALE : LOOKUP_NORMAL;
}

/* What this question will lead to waiting for. */
static enum core_wait wait_of(const struct core *core, const struct flight *flight)
{
    if (core->config.mode != GUARD_MODE_FLEET || flight->first == NULL)
        return WAIT_NOT;
    return flight->policy->soft_ms > 0 && flight->lookup != LOOKUP_PEEK ? WAIT_REFRESH : WAIT_BUSY;
}

static void send_acquire(struct core *core, uint64_t now_us, struct flight *flight)
{
    bool waited = flight->state == FLIGHT_WAITING;
    flight_move(core, flight, FLIGHT_ACQUIRING);
    core->config.make_token(core->config.token_context, flight->policy->lease_ms, flight->token);
    flight->lookup_stamp = core_stamp(core);
    if (waited)
        flight->busy_stamp = flight->lookup_stamp; /* who came meanwhile waited, too */
    flight->latch = false;
    flight->sent_us = now_us;
    struct core_action action = flight_action(flight, CORE_ACQUIRE);
    action.lookup = flight->lookup = claim(core, flight);
    action.waits = wait_of(core, flight);
    action.op = flight->op = flight_next_op(flight);
    core_emit(core, &action);
}

void flight_ask(struct core *core, uint64_t now_us, struct flight *flight)
{
    bool background = flight->first == NULL; /* users before refreshes: no place, no question */
    if (background && !loads_take_place(core, flight))
        flight_rest(core, now_us, flight, BUSY_REST_MS);
    else if (!core->config.without_redis && breaker_allow(&core->breaker, now_us))
        send_acquire(core, now_us, flight);
    else if (background)
        flight_end(core, flight);
    else
        flight_bypass(core, now_us, flight);
}

void flight_line_up(struct core *core, uint64_t now_us, struct flight *flight)
{
    flight_move(core, flight, FLIGHT_QUEUED);
    if (loads_lender(core, flight) != NULL)
        flight_start_load(core, now_us, flight);
    else
        loads_enqueue(core, flight);
}

/* Loads without a lease: whoever joined before the query gets the result, nobody stores it. */
void flight_bypass(struct core *core, uint64_t now_us, struct flight *flight)
{
    flight->leased = flight->refreshing = flight->background = false;
    flight_drop_previous(flight);
    if (loads_lender(core, flight) == NULL && !flight_take_place(core, now_us, flight)) {
        flight_deliver_all(core, now_us, flight, flight_shed_result());
        flight_end(core, flight);
        return;
    }
    flight_line_up(core, now_us, flight);
}

/* A round is over: those left over ask again, or nobody is left. */
void flight_settle(struct core *core, uint64_t now_us, struct flight *flight)
{
    value_unref(&flight->value);
    flight->leased = flight->lost = flight->refreshing = flight->background = flight->unchanged = false;
    flight->wanted[0] = '\0';
    flight_drop_previous(flight);
    flight->op = flight->renew_op = flight->peek_op = 0;
    flight->peeked_in_vain = false;
    flight->polls = flight->wakes = flight->unknowns = flight->stores = 0;
    if (flight->first == NULL)
        flight_end(core, flight);
    else if (flight->round - flight->first->first_round >= ROUNDS_MAX)
        flight_bypass(core, now_us, flight);
    else
        flight_ask(core, now_us, flight);
}

/* The same when the round brought nothing. */
void flight_next_round(struct core *core, uint64_t now_us, struct flight *flight)
{
    flight->round++;
    flight_settle(core, now_us, flight);
}

void flight_remember_token(struct flight *flight)
{
    memcpy(flight->prev_token, flight->token, TOKEN_SIZE);
}

/* ---- events ---- */

void flight_joined(struct core *core, uint64_t now_us, struct flight *flight, struct core_waiter *waiter)
{
    if (flight->state == FLIGHT_COOLING) {
        uint32_t left_ms = ms_until(now_us, flight->cool_until_us);
        struct guard_result result = flight_failure_result(GUARD_FROM_CACHE, flight->failure, left_ms);
        core_answer(core, now_us, waiter, &result);
        return;
    }
    if (flight->state == FLIGHT_NEW) {
        flight->unknowns = waiter->looked_up_in_vain;
        memcpy(flight->refused, waiter->refused, sizeof flight->refused);
        flight_ask(core, now_us, flight);
    } else if (flight->state == FLIGHT_RELEASING || flight->state == FLIGHT_RESTING)
        flight_settle(core, now_us, flight);
    else if (flight->refreshing && flight->state != FLIGHT_ACQUIRING)
        flight_peek(core, now_us, flight);
}

void flight_refresh(struct core *core, uint64_t now_us, struct flight *flight, const char *filler)
{
    flight->background = true;
    if (filler != NULL)
        memcpy(flight->wanted, filler, TOKEN_UUID_BYTES);
    flight_ask(core, now_us, flight);
}

void flight_left(struct core *core, uint64_t now_us, struct flight *flight)
{
    if (flight->first != NULL || flight->refreshing)
        return;
    if (flight->state == FLIGHT_QUEUED) {
        loads_dequeue(core, flight);
        flight_drop_load(core, now_us, flight);
    } else if (flight->state == FLIGHT_WAITING) {
        flight_waited(core, now_us, flight);
        flight_end(core, flight);
    }
}

void flight_replied(struct core *core, uint64_t now_us, struct flight *flight, uint64_t op,
                    const struct core_reply *reply)
{
    if (op == flight->renew_op) {
        flight_renew_replied(core, now_us, flight, reply);
        return;
    }
    if (op == flight->peek_op) {
        flight_peek_replied(core, now_us, flight, reply);
        return;
    }
    if (op != flight->op)
        return;
    flight->op = 0;
    if (flight->state == FLIGHT_ACQUIRING)
        flight_acquire_replied(core, now_us, flight, reply);
    else if (flight->state == FLIGHT_FILLING)
        flight_fill_replied(core, now_us, flight, reply);
    else if (flight->state == FLIGHT_RELEASING)
        flight_release_replied(core, now_us, flight, reply);
}

void flight_woken(struct core *core, uint64_t now_us, struct flight *flight, bool gone)
{
    bool holding = flight->state == FLIGHT_QUEUED || flight->state == FLIGHT_LOADING;
    if (flight->state == FLIGHT_WAITING) {
        flight_wake(core, now_us, flight);
    } else if (flight->state == FLIGHT_ACQUIRING) {
        flight->latch = true;
    } else if ((flight->state == FLIGHT_COOLING && gone) || flight->state == FLIGHT_RESTING) {
        flight_end(core, flight);
    } else if (holding && flight->leased && gone && flight->renew_op == 0) {
        flight_doubt_lease(core, now_us, flight);
    }
}

void flight_resync(struct core *core, uint64_t now_us, struct flight *flight)
{
    if (flight->state == FLIGHT_ACQUIRING)
        flight->latch = true;
    if (flight->state != FLIGHT_WAITING)
        return;
    core->stats.wake_resyncs++;
    flight_wait_until(core, flight, now_us + chance_below(&core->chance, us(RESYNC_SPREAD_MS)));
}

void flight_alarm(struct core *core, uint64_t now_us, struct flight *flight)
{
    if (flight->state == FLIGHT_WAITING) {
        core->stats.wake_polls++;
        flight_ask(core, now_us, flight);
    } else if (flight->state == FLIGHT_COOLING || flight->state == FLIGHT_RESTING) {
        flight_end(core, flight);
    } else {
        flight_hold_alarm(core, now_us, flight);
    }
}

void flight_close(struct core *core, uint64_t now_us, struct flight *flight)
{
    flight_deliver_all(core, now_us, flight, (struct guard_result){.status = GUARD_CLOSING});
    flight->refreshing = flight->background = false;
    flight_waited(core, now_us, flight);
    bool idle = flight->state == FLIGHT_WAITING || flight->state == FLIGHT_COOLING;
    if (idle || flight->state == FLIGHT_RESTING) {
        flight_end(core, flight);
    } else if (flight->state == FLIGHT_QUEUED) {
        loads_dequeue(core, flight);
    } else if (flight->state == FLIGHT_LOADING) {
        loads_cancel(core, flight->load, true);
        flight->load->flight = NULL;
        flight->load = NULL;
    } else {
        return;
    }
    if (flight->state != FLIGHT_ENDED)
        flight_drop_load(core, now_us, flight);
}
