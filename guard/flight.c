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
 * Freshness  A waiter remembers what had been sent when it joined. deliver() gives a result only to those
 *            who joined before the thing that made it was sent: a lookup, the query, or (if the fill was
 *            accepted, so that no invalidation came in between) the fill. Everybody else goes another
 *            round, at most ROUNDS_MAX, then gets a load without a lease. So a get that starts after an
 *            invalidation returned never sees the row before it.
 * Stale      Whoever finds a stale value is answered with it at once, also in the process that refreshes it: who
 *            joins meanwhile is looked up for beside the load ("peek"), until the value is gone. A refresh that
 *            fails answers nobody; who still waits asks again.
 * Tokens     One acquire, one token. An attempt whose outcome is unknown may run later; the next attempt
 *            uses a new token and names the old one, which the script removes. Sending the same token again
 *            would let a delayed duplicate bring a voided lease back to life.
 * Lease      Valid from the instant its command was sent. Renewed at a third, never once fill or release
 *            was sent, never beyond hold_until_us. An unanswered renewal does not lose it; a "no" or the
 *            end of its validity does.
 * Push       Wake-ups are hints. One that overtakes the BUSY reply on the other connection is latched. The
 *            capped poll is what guarantees progress when messages are lost or a holder dies.
 */
#include "flight.h"
#include <assert.h>
#include <string.h>

enum {
    ROUNDS_MAX = 3,     /* lookups a waiter lives through before it gets a load of its own */
    UNKNOWNS_MAX = 2,   /* unanswered commands in a row before the flight does without Redis */
    STORES_MAX = 3,     /* attempts to get an answer to a fill or a release */
    POLL_FIRST_MS = 20, /* backoff of the poll while another process has the lease */
    POLL_MOST_MS = 500,
    POLL_GRACE_MS = 5, /* ask this long after the lease's TTL, not just before its end */
    RESYNC_SPREAD_MS = 100,
    FREE_WAKES = 4, /* wake-ups obeyed at once; a flood of them is slowed down */
    SLOW_WAKE_MOST_MS = 50,
    DOUBT_EVERY_MS = 20, /* renewals for invalidations that may have voided the lease */
};

static uint64_t us(uint32_t ms)
{
    return (uint64_t)ms * 1000;
}

static uint32_t ms_until(uint64_t now_us, uint64_t then_us)
{
    uint64_t left_ms = then_us > now_us ? (then_us - now_us + 999) / 1000 : 0;
    return left_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)left_ms;
}

/* ---- state ---- */

#define TO(state) (1u << FLIGHT_##state)
static const unsigned LEGAL[FLIGHT_STATES] = {
    [FLIGHT_NEW] = TO(ASKING) | TO(QUEUED) | TO(ENDED),
    [FLIGHT_ASKING] = TO(ASKING) | TO(WAITING) | TO(QUEUED) | TO(RELEASING) | TO(ENDED),
    [FLIGHT_WAITING] = TO(ASKING) | TO(QUEUED) | TO(ENDED),
    [FLIGHT_QUEUED] = TO(ASKING) | TO(QUEUED) | TO(LOADING) | TO(RELEASING) | TO(ENDED),
    [FLIGHT_LOADING] = TO(ASKING) | TO(QUEUED) | TO(FILLING) | TO(RELEASING) | TO(COOLING) | TO(ENDED),
    [FLIGHT_FILLING] = TO(ASKING) | TO(QUEUED) | TO(RELEASING) | TO(ENDED),
    [FLIGHT_RELEASING] = TO(ASKING) | TO(QUEUED) | TO(ENDED),
    [FLIGHT_COOLING] = TO(ASKING) | TO(ENDED),
    [FLIGHT_ENDED] = 0,
};
#undef TO

static void move(struct core *core, struct flight *flight, enum flight_state state)
{
    assert((LEGAL[flight->state] & (1u << state)) != 0);
    flight->state = state;
    alarm_unset(&core->alarms, &flight->alarm);
}

static void end(struct core *core, struct flight *flight)
{
    assert(flight->first == NULL && flight->load == NULL);
    move(core, flight, FLIGHT_ENDED);
    loads_give_place(core, flight);
    value_unref(&flight->value);
    core_end_flight(core, flight);
}

/* What was waited for another process's lease, however it ended. */
static void note_wait_over(struct core *core, uint64_t now_us, struct flight *flight)
{
    if (flight->waiting_since_us == 0)
        return;
    core_histogram_add(&core->stats.lease_wait, now_us - flight->waiting_since_us);
    flight->waiting_since_us = 0;
}

/* ---- answering ---- */

/* A waiter that joined before a BUSY, or while we waited after one, got what another process made. */
static enum guard_source looked_up_source(const struct flight *flight, const struct core_waiter *waiter)
{
    return waiter->joined < flight->busy_stamp ? GUARD_FROM_FLEET : GUARD_FROM_CACHE;
}

static enum guard_source loaded_source(const struct flight *flight, const struct core_waiter *waiter)
{
    return waiter->joined == flight->leader_stamp ? GUARD_FROM_LOAD : GUARD_FROM_FLIGHT;
}

static void deliver(struct core *core, uint64_t now_us, struct flight *flight, uint64_t stamp,
                    struct guard_result result)
{
    flight->round++;
    while (flight->first != NULL && flight->first->joined < stamp) {
        struct core_waiter *waiter = flight->first;
        struct guard_result own = result;
        if (result.source == GUARD_FROM_CACHE)
            own.source = looked_up_source(flight, waiter);
        else if (result.source == GUARD_FROM_LOAD)
            own.source = loaded_source(flight, waiter);
        core_answer(core, now_us, waiter, &own);
    }
}

static void deliver_all(struct core *core, uint64_t now_us, struct flight *flight, struct guard_result result)
{
    deliver(core, now_us, flight, UINT64_MAX, result);
}

static struct guard_result failed(enum guard_source source, enum guard_failure failure, uint32_t retry_ms)
{
    return (struct guard_result){
        .status = GUARD_FAILED, .source = source, .failure = failure, .retry_ms = retry_ms};
}

static struct guard_result shed(void)
{
    enum { RETRY_MS = 1000 };
    return (struct guard_result){.status = GUARD_SHED, .retry_ms = RETRY_MS};
}

/* What has been loaded, for those who may have it. */
static struct guard_result loaded_result(const struct flight *flight, bool stored)
{
    return (struct guard_result){
        .status = flight->absent ? GUARD_ABSENT : GUARD_OK,
        .source = GUARD_FROM_LOAD,
        .value = flight->value != NULL ? &flight->value->public : NULL,
        .left_ms = stored ? flight->fresh_ms : 0,
        .stored = stored,
    };
}

static struct guard_result cached_result(const struct core_reply *reply, enum guard_source source)
{
    return (struct guard_result){
        .status = reply->absent ? GUARD_ABSENT : GUARD_OK,
        .source = source,
        .value = reply->value != NULL ? &reply->value->public : NULL,
        .age_ms = reply->age_ms,
        .left_ms = reply->left_ms,
        .stored = true,
    };
}

/* ---- sending ---- */

static uint64_t next_op(struct flight *flight)
{
    if (++flight->op_count == 0)
        flight->op_count = 1;
    return flight->id << CORE_OP_BITS | flight->op_count;
}

static struct core_action action_of(const struct flight *flight, enum core_action_kind kind)
{
    return (struct core_action){
        .kind = kind,
        .key = flight->key,
        .token = flight->token,
        .prev = flight->prev_token,
        .refused = flight->refused,
        .policy = flight->policy,
        .lease_ms = flight->policy->lease_ms,
    };
}

static void send_fill(struct core *core, struct flight *flight)
{
    struct core_action action = action_of(flight, CORE_FILL);
    action.op = flight->op = next_op(flight);
    action.value = flight->value;
    action.load_us = flight->load_us;
    action.fresh_ms = flight->fresh_ms;
    action.stale_ms = flight->absent ? 0 : flight->policy->stale_ms;
    flight->stores++;
    core_emit(core, &action);
}

static void send_release(struct core *core, struct flight *flight)
{
    struct core_action action = action_of(flight, CORE_RELEASE);
    action.token = flight->prev_token; /* flight->token may be a new one before this is sent */
    action.op = flight->op = next_op(flight);
    action.failure = flight->failure;
    action.too_big = flight->too_big;
    action.failure_ms = flight->failure_ms;
    flight->stores++;
    core_emit(core, &action);
}

static void send_renew(struct core *core, uint64_t now_us, struct flight *flight)
{
    struct core_action action = action_of(flight, CORE_RENEW);
    action.op = flight->renew_op = next_op(flight);
    flight->renew_sent_us = now_us;
    flight->renew_at_us = now_us + us(flight->policy->lease_ms) / 3;
    core_emit(core, &action);
}

/* ---- failures ---- */

/* How long this failure will be remembered: told to those it answers, written into the failure lease. */
static void choose_failure_ms(struct core *core, struct flight *flight)
{
    flight->failure_ms =
        chance_shorten(&core->chance, flight->policy->failure_ms, flight->policy->jitter_percent);
}

static struct guard_result fresh_failure(struct core *core, struct flight *flight, enum guard_failure failure)
{
    choose_failure_ms(core, flight);
    return failed(GUARD_FROM_LOAD, failure, flight->failure_ms);
}

/* ---- rounds ---- */

static void bypass(struct core *core, uint64_t now_us, struct flight *flight);

/* Who asks must be able to load if the answer is a lease; who cannot only looks. */
static enum core_lookup claim(struct core *core, struct flight *flight)
{
    if (!loads_take_place(core, flight))
        return LOOKUP_PEEK;
    return flight->policy->stale_ms == 0 ? LOOKUP_NO_STALE : LOOKUP_NORMAL;
}

static void ask(struct core *core, uint64_t now_us, struct flight *flight)
{
    if (!breaker_allow(&core->breaker, now_us)) {
        bypass(core, now_us, flight);
        return;
    }
    bool waited = flight->state == FLIGHT_WAITING;
    move(core, flight, FLIGHT_ASKING);
    core->config.make_token(core->config.token_context, flight->policy->lease_ms, flight->token);
    flight->lookup_stamp = core_stamp(core);
    if (waited)
        flight->busy_stamp = flight->lookup_stamp; /* who came meanwhile waited, too */
    flight->latch = false;
    flight->sent_us = now_us;
    struct core_action action = action_of(flight, CORE_ACQUIRE);
    action.lookup = claim(core, flight);
    action.op = flight->op = next_op(flight);
    core_emit(core, &action);
}

/* Loads without a lease: whoever joined before the query gets the result, nobody stores it. */
static void bypass(struct core *core, uint64_t now_us, struct flight *flight)
{
    flight->leased = flight->refreshing = false;
    if (!loads_take_place(core, flight)) {
        deliver_all(core, now_us, flight, shed());
        end(core, flight);
        return;
    }
    move(core, flight, FLIGHT_QUEUED);
    loads_enqueue(core, flight);
}

/* A round is over: those left over ask again, or nobody is left. */
static void settle(struct core *core, uint64_t now_us, struct flight *flight)
{
    value_unref(&flight->value);
    flight->leased = flight->lost = flight->refreshing = false;
    flight->op = flight->renew_op = flight->peek_op = 0;
    flight->peeked_in_vain = false;
    flight->polls = flight->wakes = flight->unknowns = flight->stores = 0;
    if (flight->first == NULL)
        end(core, flight);
    else if (flight->round - flight->first->first_round >= ROUNDS_MAX)
        bypass(core, now_us, flight);
    else
        ask(core, now_us, flight);
}

/* The same when the round brought nothing. */
static void next_round(struct core *core, uint64_t now_us, struct flight *flight)
{
    flight->round++;
    settle(core, now_us, flight);
}

static void remember_token(struct flight *flight)
{
    memcpy(flight->prev_token, flight->token, TOKEN_SIZE);
}

/* Everybody who may be answered has been. Who is left asks again, behind the release on the same connection;
 * naming the token again does no harm if the release ran and removes the lease if it did not. */
static void release(struct core *core, uint64_t now_us, struct flight *flight, enum guard_failure failure,
                    bool too_big)
{
    flight->failure = failure;
    flight->too_big = too_big;
    flight->stores = 0;
    flight->leased = false;
    flight->renew_op = flight->peek_op = 0;
    core->stats.lease_released++;
    move(core, flight, FLIGHT_RELEASING);
    loads_give_place(core, flight);
    remember_token(flight);
    send_release(core, flight);
    if (flight->first != NULL)
        settle(core, now_us, flight);
}

/* Whom a failed load answers. Behind a stale value nobody: who waits asks again and finds it, or the failure. */
static uint64_t failure_stamp(const struct flight *flight)
{
    return flight->refreshing ? 0 : flight->query_stamp;
}

/* ---- the lease ---- */

static void set_hold_alarm(struct core *core, struct flight *flight)
{
    uint64_t at_us = UINT64_MAX;
    if (flight->leased) {
        at_us =
            flight->valid_until_us < flight->hold_until_us ? flight->valid_until_us : flight->hold_until_us;
        if (flight->renew_op == 0 && flight->renew_at_us < at_us)
            at_us = flight->renew_at_us;
    } else if (flight->state == FLIGHT_LOADING) {
        at_us = flight->hold_until_us;
    }
    if (flight->load != NULL && !flight->load->cancelled && flight->load->deadline_us < at_us)
        at_us = flight->load->deadline_us;
    if (at_us != UINT64_MAX)
        alarm_set(&core->alarms, &flight->alarm, at_us);
    else
        alarm_unset(&core->alarms, &flight->alarm);
}

static void unanswered_acquire(struct core *core, uint64_t now_us, struct flight *flight)
{
    flight->unknowns++;
    if (flight->unknowns >= UNKNOWNS_MAX)
        bypass(core, now_us, flight);
    else
        ask(core, now_us, flight);
}

static void granted(struct core *core, uint64_t now_us, struct flight *flight)
{
    const struct guard_policy *policy = flight->policy;
    flight->valid_until_us = flight->sent_us + us(policy->lease_ms);
    flight->hold_until_us = flight->sent_us + us(policy->max_hold_ms);
    flight->renew_at_us = flight->sent_us + us(policy->lease_ms) / 3;
    if (now_us >= flight->valid_until_us) {
        core->stats.lease_lost++;
        remember_token(flight);
        unanswered_acquire(core, now_us, flight);
        return;
    }
    core->stats.lease_acquired++;
    if (!loads_take_place(core, flight)) { /* no script grants a lease to a peek */
        deliver_all(core, now_us, flight, shed());
        release(core, now_us, flight, GUARD_FAILURE_NONE, false);
        return;
    }
    flight->unknowns = 0;
    flight->prev_token[0] = '\0';
    flight->leased = true;
    move(core, flight, FLIGHT_QUEUED);
    loads_enqueue(core, flight);
    set_hold_alarm(core, flight);
}

static void forget_lease(struct core *core, struct flight *flight)
{
    core->stats.lease_lost++;
    flight->leased = false;
    flight->renew_op = 0;
    remember_token(flight);
}

static void lose_lease(struct core *core, uint64_t now_us, struct flight *flight)
{
    forget_lease(core, flight);
    if (flight->state == FLIGHT_QUEUED) {
        loads_dequeue(core, flight);
        next_round(core, now_us, flight);
        return;
    }
    flight->lost = true;
    struct load *load = flight->load;
    bool worth_ending = load->deadline_us > now_us + us(flight->policy->load_limit_ms) / 2;
    if (worth_ending)
        loads_cancel(core, load, true);
    set_hold_alarm(core, flight);
}

/* The loader hangs or the queue does: the key must not hang with it. */
static void give_up(struct core *core, uint64_t now_us, struct flight *flight)
{
    bool leased = flight->leased;
    if (flight->state == FLIGHT_QUEUED) { /* only a leased one has a hold limit there */
        loads_dequeue(core, flight);
        deliver_all(core, now_us, flight, shed());
        release(core, now_us, flight, GUARD_FAILURE_NONE, false);
        return;
    }
    loads_cancel(core, flight->load, true);
    flight->load->flight = NULL;
    flight->load = NULL;
    core->stats.load_failed++;
    deliver(core, now_us, flight, failure_stamp(flight), fresh_failure(core, flight, GUARD_FAILURE_TIMEOUT));
    if (leased)
        release(core, now_us, flight, GUARD_FAILURE_TIMEOUT, false);
    else
        settle(core, now_us, flight);
}

static void hold_alarm(struct core *core, uint64_t now_us, struct flight *flight)
{
    bool loading = flight->state == FLIGHT_LOADING;
    if (now_us >= flight->hold_until_us && (flight->leased || loading)) {
        give_up(core, now_us, flight);
        return;
    }
    if (flight->leased && now_us >= flight->valid_until_us) {
        lose_lease(core, now_us, flight);
        return;
    }
    if (flight->leased && flight->renew_op == 0 && now_us >= flight->renew_at_us)
        send_renew(core, now_us, flight);
    if (loading && now_us >= flight->load->deadline_us)
        loads_cancel(core, flight->load, false);
    set_hold_alarm(core, flight);
}

static void renew_replied(struct core *core, uint64_t now_us, struct flight *flight,
                          const struct core_reply *reply)
{
    flight->renew_op = 0;
    if (!flight->leased)
        return;
    if (reply->kind == REPLY_CODE && reply->code == 0) {
        lose_lease(core, now_us, flight);
        return;
    }
    if (reply->kind == REPLY_CODE) {
        core->stats.lease_renewed++;
        flight->valid_until_us = flight->renew_sent_us + us(flight->policy->lease_ms);
    }
    set_hold_alarm(core, flight);
}

/* ---- waiting for another process ---- */

static void wait_until(struct core *core, struct flight *flight, uint64_t at_us)
{
    if (flight->alarm.place == 0 || at_us < flight->alarm.at_us)
        alarm_set(&core->alarms, &flight->alarm, at_us);
}

static void wake(struct core *core, uint64_t now_us, struct flight *flight)
{
    flight->wakes++;
    if (flight->wakes <= FREE_WAKES) {
        ask(core, now_us, flight);
        return;
    }
    uint32_t slow_ms = chance_backoff(&core->chance, 1, SLOW_WAKE_MOST_MS, flight->wakes - FREE_WAKES);
    wait_until(core, flight, now_us + us(slow_ms));
}

static void busy(struct core *core, uint64_t now_us, struct flight *flight, uint32_t pttl_ms)
{
    core->stats.lease_busy++;
    flight->unknowns = 0;
    flight->prev_token[0] = '\0';
    if (core->config.mode != GUARD_MODE_FLEET) {
        bypass(core, now_us, flight);
        return;
    }
    loads_give_place(core, flight);
    flight->busy_stamp = flight->lookup_stamp;
    if (flight->waiting_since_us == 0)
        flight->waiting_since_us = flight->sent_us;
    move(core, flight, FLIGHT_WAITING);
    uint32_t poll_ms = chance_backoff(&core->chance, POLL_FIRST_MS, POLL_MOST_MS, flight->polls);
    if (pttl_ms < POLL_MOST_MS && pttl_ms + POLL_GRACE_MS < poll_ms)
        poll_ms = pttl_ms + POLL_GRACE_MS;
    flight->polls++;
    wait_until(core, flight, now_us + us(poll_ms));
    if (flight->latch)
        wake(core, now_us, flight);
}

/* ---- looking for the stale value beside its refresh ---- */

/* Who joins while a stale value is refreshed here need not wait for that. The lookup names no lease: a peek
 * takes none, and ours must stay. */
static void peek(struct core *core, uint64_t now_us, struct flight *flight)
{
    if (flight->peek_op != 0 || flight->peeked_in_vain || !breaker_allow(&core->breaker, now_us))
        return;
    struct core_action action = action_of(flight, CORE_ACQUIRE);
    action.token = action.prev = "";
    action.lookup = LOOKUP_PEEK;
    action.op = flight->peek_op = next_op(flight);
    flight->peek_stamp = core_stamp(core);
    core_emit(core, &action);
}

static void peek_replied(struct core *core, uint64_t now_us, struct flight *flight,
                         const struct core_reply *reply)
{
    bool is_fresh = reply->kind == REPLY_FRESH;
    flight->peek_op = 0;
    flight->peeked_in_vain = reply->damaged || !(is_fresh || reply->kind == REPLY_STALE);
    if (flight->peeked_in_vain)
        return; /* it is gone: from now on everybody waits for the load */
    deliver(core, now_us, flight, flight->peek_stamp,
            cached_result(reply, is_fresh ? GUARD_FROM_CACHE : GUARD_FROM_STALE));
    if (flight->first != NULL)
        peek(core, now_us, flight);
}

/* ---- what the acquire says ---- */

/* What the script took for a value is damaged or of another key: ask again, and name it so that it counts as
 * missing for as long as it stands there. A stale one may have come with the lease. Counts as a round, so that
 * nobody can keep us asking for ever. */
static void damaged(struct core *core, uint64_t now_us, struct flight *flight, const struct core_reply *reply)
{
    core->stats.entry_rejected++;
    memcpy(flight->refused, reply->head, TOKEN_UUID_BYTES);
    if (reply->kind == REPLY_STALE && reply->turn == TURN_OURS)
        granted(core, now_us, flight);
    else
        next_round(core, now_us, flight);
}

static void fresh(struct core *core, uint64_t now_us, struct flight *flight, const struct core_reply *reply)
{
    loads_give_place(core, flight);
    deliver(core, now_us, flight, flight->lookup_stamp, cached_result(reply, GUARD_FROM_CACHE));
    settle(core, now_us, flight);
}

static void stale(struct core *core, uint64_t now_us, struct flight *flight, const struct core_reply *reply)
{
    deliver(core, now_us, flight, flight->lookup_stamp, cached_result(reply, GUARD_FROM_STALE));
    if (reply->turn == TURN_OURS) {
        flight->refreshing = true;
        granted(core, now_us, flight);
        if (flight->state == FLIGHT_QUEUED && flight->refreshing && flight->first != NULL)
            peek(core, now_us, flight);
        return;
    }
    loads_give_place(core, flight);
    settle(core, now_us, flight);
}

static void failed_recently(struct core *core, uint64_t now_us, struct flight *flight,
                            const struct core_reply *reply)
{
    if (reply->too_big) {
        bypass(core, now_us, flight);
        return;
    }
    loads_give_place(core, flight);
    deliver(core, now_us, flight, flight->lookup_stamp,
            failed(GUARD_FROM_CACHE, reply->failure, reply->pttl_ms));
    settle(core, now_us, flight);
}

/* Nothing there and nobody loads, but there was no place when we asked. */
static void unclaimed(struct core *core, uint64_t now_us, struct flight *flight)
{
    if (loads_take_place(core, flight)) {
        ask(core, now_us, flight);
        return;
    }
    deliver_all(core, now_us, flight, shed());
    end(core, flight);
}

/* Nobody waits any more: give back what the reply may have brought. */
static void unwanted_reply(struct core *core, uint64_t now_us, struct flight *flight,
                           const struct core_reply *reply)
{
    bool ours = reply->kind == REPLY_LEASE || (reply->kind == REPLY_STALE && reply->turn == TURN_OURS);
    if (ours || reply->kind == REPLY_UNKNOWN) {
        flight->valid_until_us = flight->sent_us + us(flight->policy->lease_ms);
        release(core, now_us, flight, GUARD_FAILURE_NONE, false);
        return;
    }
    end(core, flight);
}

static void acquire_replied(struct core *core, uint64_t now_us, struct flight *flight,
                            const struct core_reply *reply)
{
    if (reply->kind != REPLY_BUSY)
        note_wait_over(core, now_us, flight);
    if (flight->first == NULL) {
        unwanted_reply(core, now_us, flight, reply);
        return;
    }
    if (reply->damaged) {
        damaged(core, now_us, flight, reply);
        return;
    }
    switch (reply->kind) {
    case REPLY_UNSENT:
        unanswered_acquire(core, now_us, flight);
        return;
    case REPLY_UNKNOWN:
        remember_token(flight);
        unanswered_acquire(core, now_us, flight);
        return;
    case REPLY_CODE:
    case REPLY_REFUSED:
        bypass(core, now_us, flight);
        return;
    case REPLY_BUSY:
        busy(core, now_us, flight, reply->pttl_ms);
        return;
    case REPLY_FRESH:
    case REPLY_STALE:
    case REPLY_LEASE:
    case REPLY_FAILED:
    case REPLY_FREE:
        break;
    }
    flight->prev_token[0] = '\0';
    if (reply->kind == REPLY_FRESH)
        fresh(core, now_us, flight, reply);
    else if (reply->kind == REPLY_STALE)
        stale(core, now_us, flight, reply);
    else if (reply->kind == REPLY_LEASE)
        granted(core, now_us, flight);
    else if (reply->kind == REPLY_FAILED)
        failed_recently(core, now_us, flight, reply);
    else
        unclaimed(core, now_us, flight);
}

/* ---- what fill and release say ---- */

static void fill_unanswered(struct core *core, uint64_t now_us, struct flight *flight)
{
    core->stats.fill_unknown++;
    if (flight->stores == 1) /* a result counts as one round, however often it is sent */
        deliver(core, now_us, flight, flight->query_stamp, loaded_result(flight, false));
    if (flight->stores < STORES_MAX && now_us < flight->valid_until_us && !core->closed) {
        send_fill(core, flight);
        return;
    }
    remember_token(flight);
    settle(core, now_us, flight);
}

static void fill_replied(struct core *core, uint64_t now_us, struct flight *flight,
                         const struct core_reply *reply)
{
    if (reply->kind == REPLY_UNSENT || reply->kind == REPLY_UNKNOWN) {
        fill_unanswered(core, now_us, flight);
        return;
    }
    bool stored = reply->kind == REPLY_CODE && (reply->code == 1 || reply->code == 2);
    bool late = reply->kind == REPLY_CODE && reply->code == 0;
    core->stats.fill_stored += stored;
    core->stats.fill_late += late;
    core->stats.fill_refused += !stored && !late;
    deliver(core, now_us, flight, stored ? flight->fill_stamp : flight->query_stamp,
            loaded_result(flight, stored));
    if (reply->kind == REPLY_REFUSED)
        release(core, now_us, flight, GUARD_FAILURE_NONE, false);
    else
        settle(core, now_us, flight);
}

static void release_replied(struct core *core, uint64_t now_us, struct flight *flight,
                            const struct core_reply *reply)
{
    bool answered = reply->kind == REPLY_CODE || reply->kind == REPLY_REFUSED;
    if (!answered && flight->stores < STORES_MAX && now_us < flight->valid_until_us)
        send_release(core, flight);
    else
        settle(core, now_us, flight);
}

/* ---- the load ---- */

/* Without Redis the failure is remembered here, for this process. It holds for all: it is no row that could
 * be out of date. */
static void cool(struct core *core, uint64_t now_us, struct flight *flight, enum guard_failure failure)
{
    if (core->config.mode == GUARD_MODE_OFF) {
        end(core, flight);
        return;
    }
    flight->failure = failure;
    flight->cool_until_us = now_us + us(flight->failure_ms);
    move(core, flight, FLIGHT_COOLING);
    alarm_set(&core->alarms, &flight->alarm, flight->cool_until_us);
}

static void load_failed(struct core *core, uint64_t now_us, struct flight *flight, enum guard_failure failure)
{
    struct guard_result result = fresh_failure(core, flight, failure);
    core->stats.load_failed++;
    bool shared = flight->leased || flight->refreshing;
    deliver(core, now_us, flight, shared ? failure_stamp(flight) : UINT64_MAX, result);
    if (flight->leased)
        release(core, now_us, flight, failure, false);
    else if (flight->refreshing)
        settle(core, now_us, flight);
    else
        cool(core, now_us, flight, failure);
}

static void fill(struct core *core, struct flight *flight)
{
    move(core, flight, FLIGHT_FILLING);
    flight->renew_op = 0;
    flight->stores = 0;
    flight->fill_stamp = core_stamp(core);
    uint32_t whole_ms = flight->absent ? flight->policy->absent_ms : flight->policy->fresh_ms;
    flight->fresh_ms = chance_shorten(&core->chance, whole_ms, flight->policy->jitter_percent);
    send_fill(core, flight);
}

static void load_succeeded(struct core *core, uint64_t now_us, struct flight *flight)
{
    bool too_big = flight->value != NULL && flight->value->public.body_bytes > core->config.max_value_bytes;
    if (flight->leased && !too_big) {
        fill(core, flight);
        return;
    }
    deliver(core, now_us, flight, flight->query_stamp, loaded_result(flight, false));
    if (!flight->leased) {
        core->stats.fill_late += flight->lost;
        settle(core, now_us, flight);
        return;
    }
    core->stats.fill_too_big++;
    choose_failure_ms(core, flight);
    release(core, now_us, flight, GUARD_FAILURE_NONE, true);
}

void flight_loaded(struct core *core, uint64_t now_us, struct flight *flight,
                   const struct core_loaded *loaded)
{
    bool unwanted = flight->load->unwanted;
    bool over_limit = flight->load->cancelled && !unwanted;
    loads_free(core, flight->load);
    flight->load = NULL;
    if (loaded->outcome == LOAD_FAILED && unwanted) {
        next_round(core, now_us, flight);
        return;
    }
    if (loaded->outcome == LOAD_FAILED) {
        load_failed(core, now_us, flight, over_limit ? GUARD_FAILURE_TIMEOUT : loaded->failure);
        return;
    }
    flight->absent = loaded->outcome == LOAD_ABSENT;
    flight->value = flight->absent ? NULL : value_ref(loaded->value);
    flight->load_us = loaded->load_us;
    core->stats.load_ok += !flight->absent;
    core->stats.load_absent += flight->absent;
    load_succeeded(core, now_us, flight);
}

/* Nobody waits for it any more. */
static void drop_load(struct core *core, uint64_t now_us, struct flight *flight)
{
    if (flight->leased)
        release(core, now_us, flight, GUARD_FAILURE_NONE, false);
    else
        end(core, flight);
}

void flight_start_load(struct core *core, uint64_t now_us, struct flight *flight)
{
    if (flight->first == NULL && !flight->refreshing) {
        drop_load(core, now_us, flight);
        return;
    }
    if (flight->leased &&
        now_us >= flight->valid_until_us) { /* we were stopped for long: its alarm is late */
        forget_lease(core, flight);
        next_round(core, now_us, flight);
        return;
    }
    if (!flight->leased) {
        flight->hold_until_us = now_us + us(flight->policy->max_hold_ms);
        core->stats.load_uncached++;
    }
    uint64_t limit_us = now_us + us(flight->policy->load_limit_ms);
    core->stats.load_duplicate += loads_runs_key(core, &flight->key);
    flight->load =
        loads_new(core, flight, limit_us < flight->hold_until_us ? limit_us : flight->hold_until_us);
    if (flight->load == NULL) {
        deliver_all(core, now_us, flight, (struct guard_result){.status = GUARD_NO_MEMORY});
        flight->refreshing = false;
        flight_start_load(core, now_us, flight);
        return;
    }
    move(core, flight, FLIGHT_LOADING);
    core->stats.load_started++;
    flight->leader_stamp = flight->first != NULL ? flight->first->joined : 0;
    flight->query_stamp = core_stamp(core);
    set_hold_alarm(core, flight);
    struct core_action action = action_of(flight, CORE_LOAD);
    action.load = flight->load->id;
    action.deadline_us = flight->load->deadline_us;
    core_emit(core, &action);
}

/* ---- events ---- */

void flight_joined(struct core *core, uint64_t now_us, struct flight *flight, struct core_waiter *waiter)
{
    if (flight->state == FLIGHT_COOLING) {
        uint32_t left_ms = ms_until(now_us, flight->cool_until_us);
        struct guard_result result = failed(GUARD_FROM_CACHE, flight->failure, left_ms);
        core_answer(core, now_us, waiter, &result);
        return;
    }
    if (flight->state == FLIGHT_NEW) {
        flight->unknowns = waiter->looked_up_in_vain;
        ask(core, now_us, flight);
    } else if (flight->state == FLIGHT_RELEASING)
        settle(core, now_us, flight);
    else if (flight->refreshing && flight->state != FLIGHT_ASKING)
        peek(core, now_us, flight);
}

void flight_left(struct core *core, uint64_t now_us, struct flight *flight)
{
    if (flight->first != NULL || flight->refreshing)
        return;
    if (flight->state == FLIGHT_QUEUED) {
        loads_dequeue(core, flight);
        drop_load(core, now_us, flight);
    } else if (flight->state == FLIGHT_WAITING) {
        note_wait_over(core, now_us, flight);
        end(core, flight);
    }
}

void flight_replied(struct core *core, uint64_t now_us, struct flight *flight, uint64_t op,
                    const struct core_reply *reply)
{
    if (op == flight->renew_op) {
        renew_replied(core, now_us, flight, reply);
        return;
    }
    if (op == flight->peek_op) {
        peek_replied(core, now_us, flight, reply);
        return;
    }
    if (op != flight->op)
        return;
    flight->op = 0;
    if (flight->state == FLIGHT_ASKING)
        acquire_replied(core, now_us, flight, reply);
    else if (flight->state == FLIGHT_FILLING)
        fill_replied(core, now_us, flight, reply);
    else if (flight->state == FLIGHT_RELEASING)
        release_replied(core, now_us, flight, reply);
}

/* Was it our lease that the invalidation voided? A renewal tells; a flood of messages gets few of them. */
static void doubt_lease(struct core *core, uint64_t now_us, struct flight *flight)
{
    uint64_t soonest_us = flight->renew_sent_us + us(DOUBT_EVERY_MS);
    if (now_us >= soonest_us)
        send_renew(core, now_us, flight);
    else if (soonest_us < flight->renew_at_us)
        flight->renew_at_us = soonest_us;
    set_hold_alarm(core, flight);
}

void flight_woken(struct core *core, uint64_t now_us, struct flight *flight, bool gone)
{
    bool holding = flight->state == FLIGHT_QUEUED || flight->state == FLIGHT_LOADING;
    if (flight->state == FLIGHT_WAITING) {
        wake(core, now_us, flight);
    } else if (flight->state == FLIGHT_ASKING) {
        flight->latch = true;
    } else if (flight->state == FLIGHT_COOLING && gone) {
        end(core, flight);
    } else if (holding && flight->leased && gone && flight->renew_op == 0) {
        doubt_lease(core, now_us, flight);
    }
}

void flight_resync(struct core *core, uint64_t now_us, struct flight *flight)
{
    if (flight->state == FLIGHT_ASKING)
        flight->latch = true;
    if (flight->state != FLIGHT_WAITING)
        return;
    core->stats.wake_resyncs++;
    wait_until(core, flight, now_us + chance_below(&core->chance, us(RESYNC_SPREAD_MS)));
}

void flight_alarm(struct core *core, uint64_t now_us, struct flight *flight)
{
    if (flight->state == FLIGHT_WAITING) {
        core->stats.wake_polls++;
        ask(core, now_us, flight);
    } else if (flight->state == FLIGHT_COOLING) {
        end(core, flight);
    } else {
        hold_alarm(core, now_us, flight);
    }
}

void flight_close(struct core *core, uint64_t now_us, struct flight *flight)
{
    deliver_all(core, now_us, flight, (struct guard_result){.status = GUARD_CLOSING});
    flight->refreshing = false;
    note_wait_over(core, now_us, flight);
    if (flight->state == FLIGHT_WAITING || flight->state == FLIGHT_COOLING) {
        end(core, flight);
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
        drop_load(core, now_us, flight);
}
