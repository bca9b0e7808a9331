/* SPDX-License-Identifier: MIT */
/*
 * flight.c - the life of a flight: one key of one process while it is looked up, waited for, loaded and stored.
 *
 *        first get                     BUSY
 *   o ---------> ACQUIRING -------------------------------> WAITING
 *                  |  ^ ^---- wake-up, poll, resync -----------+
 *                  |  |
 *       FRESH,     |  |  waiters that joined too late for a result: another round
 *       FAILED:    |  +---------------------------------------------+
 *       answered   |                                                |
 *                  |  LEASE, or no Redis: "bypass"                  |
 *                  +----------------> QUEUED ------> LOADING --+    |
 *                  |                  (bulkhead)       |  |    |    |
 *                  |            value or absent, leased|  |    | without lease: answered, not stored;
 *                  |                                   v  |    | after a failure COOLING first
 *                  |                       +------ FILLING|    |    |
 *                  |       stored, answered|              |failed, leased
 *                  v                       v              v    v    |
 *                ENDED <----------- no waiter left <- RELEASING ----+
 *
 *            Not drawn: RESTING, and COOLING; see enum flight_state. "bypass": a load without a lease.
 *
 * Freshness  Every waiter gets a stamp, a number that counts up, when it joins; so does every command when it is
 *            sent. flight_deliver() gives a result only to waiters older than the command that produced it: a lookup,
 *            the query, or (if the fill was accepted, so that no invalidation came in between) the fill. The others
 *            go another round, at most ROUNDS_MAX, then get a load without a lease. So a get that starts after an
 *            invalidation returned never sees the row before it.
 * Stale      A request that finds a stale value gets it at once, also in the process that refreshes it: for a waiter
 *            that joins meanwhile the flight looks up beside the load ("peek"), until the value is gone. A refresh
 *            that fails answers none; the waiters left go another round. With a soft limit the stale value is held
 *            instead, for the waiters that joined before its lookup was sent: they get it at their soft limit, or in
 *            place of an error.
 * Background A hit that is to be refreshed has been answered elsewhere; its flight has no waiter and takes the lease
 *            or leaves. RESTING keeps the next hits from trying the same for a while.
 * Revalidate Requests that no value answers which was there. They have a flight of their own: stale.h.
 * Tokens     One acquire, one token. An attempt whose outcome is unknown may run later; the next attempt
 *            uses a new token and names the old one, which the script removes. Sending the same token again
 *            would let a delayed duplicate bring a voided lease back to life.
 * Tags       An invalidation of a tag voids no lease. The fill of a value with tags answers the waiters that came
 *            after its query only if no tag had been invalidated when it was sent. An entry found older than one of
 *            its tags is replaced like a damaged one.
 * Moving     While the keys go to another master nothing can be looked up or stored, though hits are answered. A
 *            flight loads without a lease then. What was loaded before under a lease is stored once that can be done,
 *            unless a waiter needs more than that.
 * Wake-up    A hint. One that overtakes the BUSY reply on the other connection is latched. The capped poll is
 *            what guarantees progress when messages are lost or a holder dies.
 * Push       A wake-up may bring what was filled, which spares the lookup. It answers only a flight that waits, whose
 *            last lookup found the very lease of that fill, and there only the waiters that joined before that lookup
 *            was sent. An invalidation voids the lease, so none came between that lookup and the fill, however late
 *            the message is; a waiter that joined later may know of one that came after the fill. What a release
 *            brings is shared in the same way.
 * Pass       A mark in place of the value, or a load that passes, leaves no flight for its waiters to share: pass.c.
 */
#include "flight.h"
#include "halves.h"
#include "keep.h"
#include "lease.h"
#include "nested.h"
#include <assert.h>
#include <string.h>
#include <utlist.h>

enum {
    ROUNDS_MAX = 3,     /* lookups a waiter lives through before it gets a load of its own */
    UNKNOWNS_MAX = 2,   /* unanswered commands in a row before the flight does without Redis */
    POLL_FIRST_MS = 20, /* backoff of the poll while another process has the lease */
    POLL_MOST_MS = 500,
    POLL_GRACE_MS = 5, /* look this long after the lease's TTL, not just before its end */
    FREE_WAKES = 4,    /* wake-ups obeyed at once; a flood of them is slowed down */
    SLOW_WAKE_MOST_MS = 50,
    RESYNC_SPREAD_MS = 100,
    NO_PLACE_REST_MS = 100,
};

/* ---- state ---- */

#define TO(state) (1u << FLIGHT_##state)
static const unsigned LEGAL[FLIGHT_STATES] = {
    [FLIGHT_NEW] = TO(ACQUIRING) | TO(QUEUED) | TO(RESTING) | TO(ENDED),
    [FLIGHT_ACQUIRING] = TO(ACQUIRING) | TO(WAITING) | TO(QUEUED) | TO(RELEASING) | TO(RESTING) | TO(ENDED),
    [FLIGHT_WAITING] = TO(ACQUIRING) | TO(QUEUED) | TO(ENDED),
    [FLIGHT_QUEUED] = TO(ACQUIRING) | TO(QUEUED) | TO(LOADING) | TO(RELEASING) | TO(COOLING) | TO(ENDED),
    [FLIGHT_LOADING] = TO(ACQUIRING) | TO(QUEUED) | TO(FILLING) | TO(RELEASING) | TO(COOLING) | TO(ENDED),
    [FLIGHT_FILLING] = TO(ACQUIRING) | TO(QUEUED) | TO(RELEASING) | TO(ENDED),
    [FLIGHT_RELEASING] = TO(ACQUIRING) | TO(QUEUED) | TO(ENDED),
    [FLIGHT_COOLING] = TO(ACQUIRING) | TO(ENDED),
    [FLIGHT_RESTING] = TO(ACQUIRING) | TO(QUEUED) | TO(ENDED),
    [FLIGHT_ENDED] = 0,
};
#undef TO

static bool may_begin_load(enum flight_state state)
{
    return state == FLIGHT_ACQUIRING || state == FLIGHT_WAITING || state == FLIGHT_QUEUED;
}

void flight_move(struct flight *flight, enum flight_state state)
{
    assert((LEGAL[flight->state] & (1u << state)) != 0);
    loads_count_acquire(flight, state == FLIGHT_ACQUIRING);
    loads_expect(flight, false);
    if (state != FLIGHT_QUEUED && state != FLIGHT_LOADING)
        halves_leave(flight);
    if (!may_begin_load(state) && state != FLIGHT_LOADING)
        core_set_origin(flight, NULL);
    flight->state = state;
    flight->movings = 0;
    flight->send_again_us = 0;
    alarm_unset(&flight->core->alarms, &flight->alarm);
}

void flight_end(struct flight *flight)
{
    assert(flight->first == NULL && flight->load == NULL);
    flight_move(flight, FLIGHT_ENDED);
    loads_give_place(flight);
    value_unref(&flight->value);
    value_unref(&flight->previous);
    guard_value_unref(&flight->held.result.value);
    core_remove_flight(flight);
}

uint64_t flight_next_op(struct flight *flight, unsigned shard)
{
    return core_op(flight->id, shard, ++flight->op_count);
}

uint64_t flight_next_op_at_owner(struct flight *flight)
{
    const struct core_key *key = &flight->key;
    return flight_next_op(flight, core_shard_of(flight->core, false, key->encoded, key->encoded_bytes));
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
        .names_seen = flight->revalidation.names,
        .policy = flight->policy,
        .lease_ms = flight->policy->lease_ms,
    };
}

void flight_keep_token(struct flight *flight)
{
    memcpy(flight->prev_token, flight->token, TOKEN_SIZE);
}

static uint32_t ms_until(uint64_t now_us, uint64_t then_us)
{
    uint64_t left_ms = then_us > now_us ? (then_us - now_us + 999) / 1000 : 0;
    return left_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)left_ms;
}

/* ---- results, and which waiters may have them ---- */

struct guard_result flight_failure_result(enum guard_source source, enum guard_failure failure,
                                          uint32_t retry_ms, uint64_t load)
{
    return (struct guard_result){
        .status = GUARD_FAILED, .source = source, .failure = failure, .retry_ms = retry_ms, .load = load};
}

struct guard_result flight_cached_result(const struct core_reply *reply, enum guard_source source)
{
    return (struct guard_result){
        .status = reply->absent ? GUARD_ABSENT : GUARD_OK,
        .source = source,
        .value = reply->value != NULL ? &reply->value->public : NULL,
        .age_ms = reply->age_ms,
        .left_ms = reply->left_ms,
        .stored = true,
        .load = reply->head != NULL ? load_id_of_uuid(reply->head) : 0,
    };
}

/* A waiter that joined before a BUSY, or while we waited after one, got what another process made. */
static enum guard_source source_for(const struct core_waiter *waiter, enum guard_source source)
{
    const struct flight *flight = waiter->flight;
    if (source == GUARD_FROM_CACHE && waiter->joined < flight->busy_stamp)
        return GUARD_FROM_FLEET;
    if (source == GUARD_FROM_LOAD && waiter->joined != flight->starter_stamp)
        return GUARD_FROM_FLIGHT;
    return source;
}

void flight_deliver(struct flight *flight, uint64_t stamp, struct guard_result result)
{
    const enum guard_status status = result.status;
    const bool failed = status == GUARD_FAILED || status == GUARD_SHED || status == GUARD_NO_MEMORY;
    flight->round++;
    while (flight->first != NULL && flight->first->joined < stamp) {
        struct core_waiter *waiter = flight->first;
        struct guard_result own = result;
        own.source = source_for(waiter, result.source);
        if (failed && stale_held_for(waiter, &own))
            flight_counts(flight)->stale_rescued++;
        core_answer(waiter, &own);
    }
}

void flight_shed(struct flight *flight)
{
    enum { RETRY_MS = 1000 };
    uint64_t before = flight_counts(flight)->shed;
    flight_deliver(flight, UINT64_MAX, (struct guard_result){.status = GUARD_SHED, .retry_ms = RETRY_MS});
    if (flight_counts(flight)->shed > before)
        watch_flight(flight, GUARD_EVENT_SHED, flight_counts(flight)->shed - before);
}

/* ---- a round: from an acquire to what it leads to ---- */

bool flight_take_place(struct flight *flight)
{
    struct flight *refresh = NULL;
    if (loads_take_place(flight))
        return true;
    if (flight->users > 0 && loads_may_queue(flight))
        refresh = loads_last_refresh(flight->core, flight->lane);
    if (refresh == NULL)
        return false;
    lease_yield(refresh);
    return loads_take_place(flight);
}

void flight_queue_load(struct flight *flight)
{
    flight_move(flight, FLIGHT_QUEUED);
    if (nested_has_berth(flight))
        lease_start_load(flight);
    else
        loads_enqueue(flight);
}

/* ---- without Redis ---- */

bool flight_answer_kept(struct core_waiter *waiter)
{
    const struct flight *flight = waiter->flight;
    const struct core *core = flight->core;
    const struct outage_asker asker = {
        .answered = waiter->lookup_answered || waiter->joined < flight->told_stamp,
        .nested = waiter->parent_load != 0,
        .refreshes = waiter->refreshes,
        .revalidates = waiter->revalidates,
        .passes = waiter->passes,
    };
    struct guard_result result;
    if (!outage_serves(flight->policy, &asker) ||
        near_kept(core->config.near, flight->key.encoded, flight->key.encoded_bytes, flight->policy,
                  core->now_us, &result) == NEAR_KEPT_NOT)
        return false;
    core_answer(waiter, &result);
    guard_value_unref(&result.value);
    return true;
}

void flight_load_kept(struct flight *flight)
{
    flight->background = flight->of_kept = false;
    flight->refreshing = true;
    flight_queue_load(flight);
}

void flight_bypass(struct flight *flight)
{
    flight->leased = flight->refreshing = flight->background = false;
    value_unref(&flight->previous);
    if (flight->first != NULL && flight->core->config.near != NULL) {
        struct core_waiter *waiter = NULL, *next = NULL;
        DL_FOREACH_SAFE (flight->first, waiter, next)
            flight_answer_kept(waiter);
        if (flight->first == NULL) {
            flight_end(flight);
            return;
        }
    }
    if (!nested_has_berth(flight) && !flight_take_place(flight)) {
        flight_shed(flight);
        flight_end(flight);
        return;
    }
    flight_queue_load(flight);
}

/* An acquire may bring the lease, so it needs a place to load in; without one the flight only peeks. */
static enum core_lookup flight_choose_lookup(struct flight *flight)
{
    if (flight->revalidation.on)
        return revalidate_choose_lookup(flight);
    if (!loads_take_place(flight) && !nested_has_berth(flight))
        return LOOKUP_PEEK;
    if (flight->first == NULL && flight->wanted[0] != '\0')
        return LOOKUP_EARLY;
    return flight->policy->stale_ms == 0 ? LOOKUP_NO_STALE : LOOKUP_NORMAL;
}

/* What the flight will wait for if another process has the lease. */
static enum core_wait flight_choose_wait(const struct flight *flight)
{
    if (flight->core->config.mode != GUARD_MODE_FLEET || flight->first == NULL || flight->revalidation.on)
        return WAIT_NOT;
    return flight->policy->soft_ms > 0 && flight->lookup != LOOKUP_PEEK ? WAIT_REFRESH : WAIT_BUSY;
}

/* The first one for a user, who has found nothing: others are seldom loading it just now. A batch has not come
 * together yet. */
static bool flight_will_likely_load(const struct flight *flight)
{
    bool takes_lease = flight->lookup == LOOKUP_NORMAL || flight->lookup == LOOKUP_NO_STALE;
    bool first = flight->waiting_since_us == 0 && flight->unknowns == 0;
    bool for_user = flight->place_parts > 0 && flight->nested_waiters == 0 && flight->users > 0;
    return takes_lease && first && for_user && !flight->batched;
}

static void flight_send_acquire(struct flight *flight, unsigned shard)
{
    struct core *core = flight->core;
    bool waited = flight->state == FLIGHT_WAITING;
    flight_move(flight, FLIGHT_ACQUIRING);
    core->config.make_token(core->config.token_context, flight->policy->lease_ms, flight->token);
    flight->lookup_stamp = core_stamp(core);
    if (waited)
        flight->busy_stamp = flight->lookup_stamp; /* a waiter that joined meanwhile waited, too */
    flight->latch = false;
    flight->sent_us = core->now_us;
    struct core_action action = flight_action(flight, CORE_ACQUIRE);
    action.lookup = flight->lookup = flight_choose_lookup(flight);
    action.waits = flight_choose_wait(flight);
    action.op = flight->op = flight_next_op(flight, shard);
    loads_expect(flight, flight_will_likely_load(flight));
    core_emit(core, &action);
}

/* Users before refreshes: a background refresh does not even look without a place. */
void flight_acquire(struct flight *flight)
{
    struct core *core = flight->core;
    bool background = flight->first == NULL;
    unsigned shard = 0;
    if (background && !loads_take_place(flight))
        stale_rest(flight, NO_PLACE_REST_MS);
    else if (core_may_send(core, &flight->key, &shard))
        flight_send_acquire(flight, shard);
    else if (flight->of_kept)
        flight_load_kept(flight);
    else if (background)
        flight_end(flight);
    else
        flight_bypass(flight);
}

void flight_settle(struct flight *flight)
{
    value_unref(&flight->value);
    value_unref(&flight->previous);
    flight->leased = flight->lost = flight->refreshing = flight->background = flight->unchanged = false;
    flight->of_kept = false;
    flight->mark = flight->shares = false;
    flight->busy_tag[0] = '\0';
    flight->wanted[0] = '\0';
    if (flight->revalidation.on)
        revalidate_begin_anew(flight);
    flight->op = flight->renew_op = flight->peek_op = 0;
    flight->peeked_in_vain = false;
    flight->polls = flight->wakes = flight->unknowns = flight->stores = 0;
    if (flight->first == NULL)
        flight_end(flight);
    else if (flight->passing || flight->round - flight->first->first_round >= ROUNDS_MAX)
        flight_bypass(flight);
    else
        flight_acquire(flight);
}

void flight_next_round(struct flight *flight)
{
    flight->round++;
    flight_settle(flight);
}

/* ---- waiting for another process ---- */

static void flight_poll_at(struct flight *flight, uint64_t at_us)
{
    if (flight->alarm.place == 0 || at_us < flight->alarm.at_us)
        alarm_set(&flight->core->alarms, &flight->alarm, at_us);
}

static void flight_wake(struct flight *flight)
{
    struct core *core = flight->core;
    flight->wakes++;
    if (flight->wakes <= FREE_WAKES) {
        flight_acquire(flight);
        return;
    }
    uint32_t slow_ms = chance_backoff(&core->chance, 1, SLOW_WAKE_MOST_MS, flight->wakes - FREE_WAKES);
    flight_poll_at(flight, core->now_us + us(slow_ms));
}

void flight_wait(struct flight *flight, uint32_t pttl_ms, const char *lease_tag)
{
    struct core *core = flight->core;
    flight_counts(flight)->lease_busy++;
    flight->unknowns = 0;
    loads_give_place(flight);
    flight->busy_stamp = flight->lookup_stamp;
    memset(flight->busy_tag, '\0', sizeof flight->busy_tag);
    if (lease_tag != NULL)
        memcpy(flight->busy_tag, lease_tag, TOKEN_TAG_BYTES);
    flight->wait_stamp = flight->lookup_stamp;
    if (flight->waiting_since_us == 0)
        flight->waiting_since_us = flight->sent_us;
    flight_move(flight, FLIGHT_WAITING);
    uint32_t poll_ms = chance_backoff(&core->chance, POLL_FIRST_MS, POLL_MOST_MS, flight->polls);
    if (pttl_ms < POLL_MOST_MS && pttl_ms + POLL_GRACE_MS < poll_ms)
        poll_ms = pttl_ms + POLL_GRACE_MS;
    flight->polls++;
    flight_poll_at(flight, core->now_us + us(poll_ms));
    if (flight->latch)
        flight_wake(flight);
}

/* Counts the wait for another process's lease, however it ended. */
static void flight_end_wait(struct flight *flight)
{
    struct core *core = flight->core;
    if (flight->waiting_since_us == 0)
        return;
    histogram_add(&flight_counts(flight)->lease_wait, core->now_us - flight->waiting_since_us);
    flight->waiting_since_us = 0;
}

/* A nested waiter's time for other processes is over: of the loads that wait for each other in a circle through
 * several processes, one must go on alone to find that out. */
static bool flight_is_past_waiting(const struct flight *flight)
{
    const struct core_waiter *waiter = flight->nested_waiters > 0 ? flight->first : NULL;
    while (waiter != NULL && (waiter->parent_load == 0 || flight->core->now_us < waiter->alone_us))
        waiter = waiter->next;
    return waiter != NULL;
}

/* ---- what an acquire says ---- */

static bool lacks_meta(const struct flight *flight, const struct value *value)
{
    return value != NULL && hit_lacks_meta(flight->policy, true, value->public.meta_bytes);
}

static void flight_reply_fresh(struct flight *flight, const struct core_reply *reply)
{
    loads_give_place(flight);
    if (reply->mark) {
        pass_part(flight);
        flight_settle(flight);
        return;
    }
    flight_deliver(flight, flight->lookup_stamp, flight_cached_result(reply, GUARD_FROM_CACHE));
    bool early = flight->first == NULL &&
                 hit_is_early(flight->policy, reply->load_us, reply->left_ms, &flight->core->chance);
    if (early)
        flight_refresh(flight, reply->head);
    else
        flight_settle(flight);
}

/* Only a fleet waits for others. */
static void flight_reply_busy(struct flight *flight, const struct core_reply *reply)
{
    struct core *core = flight->core;
    bool waits =
        core->config.mode == GUARD_MODE_FLEET || core_holds_lease(core, &flight->key, reply->lease_tag);
    if (waits && !flight_is_past_waiting(flight)) {
        flight_wait(flight, reply->pttl_ms, reply->lease_tag);
        return;
    }
    flight_end_wait(flight);
    flight_counts(flight)->lease_busy++;
    flight->unknowns = 0;
    flight_bypass(flight);
}

static void flight_reply_failed(struct flight *flight, const struct core_reply *reply)
{
    if (reply->too_big) {
        flight_bypass(flight);
        return;
    }
    loads_give_place(flight);
    flight_deliver(flight, flight->lookup_stamp,
                   flight_failure_result(GUARD_FROM_CACHE, reply->failure, reply->pttl_ms, reply->load));
    flight_settle(flight);
}

/* Nothing there for us and no lease, because there was no place for a load when the acquire was sent. */
static void flight_reply_free(struct flight *flight)
{
    if (flight_take_place(flight)) {
        flight_acquire(flight);
        return;
    }
    flight_shed(flight);
    flight_end(flight);
}

/* What the script took for a value is damaged, of another key or older than one of its tags: the next acquire names
 * it, so that it counts as missing for as long as it stands there. A stale one may have come with the lease. Counts
 * as a round, so that no other process can keep us looking for ever. */
static void flight_reply_unusable(struct flight *flight, const struct core_reply *reply)
{
    flight_counts(flight)->entry_rejected += reply->damaged;
    flight_counts(flight)->entry_outdated += reply->outdated;
    memcpy(flight->refused, reply->head, TOKEN_UUID_BYTES);
    if (reply->kind == REPLY_STALE && reply->refresher == REFRESH_OURS)
        lease_granted(flight);
    else
        flight_next_round(flight);
}

void flight_reply_unanswered(struct flight *flight)
{
    flight->unknowns++;
    if (flight->unknowns >= UNKNOWNS_MAX)
        flight_bypass(flight);
    else
        flight_acquire(flight);
}

void flight_reply_unwanted(struct flight *flight, const struct core_reply *reply)
{
    bool ours =
        reply->kind == REPLY_LEASE || (reply->kind == REPLY_STALE && reply->refresher == REFRESH_OURS);
    if (ours || reply->kind == REPLY_UNKNOWN) {
        flight->valid_until_us = flight->sent_us + us(flight->policy->lease_ms);
        lease_release(flight, GUARD_FAILURE_NONE, false);
        return;
    }
    flight_end(flight);
}

static void flight_acquire_replied(struct flight *flight, const struct core_reply *reply)
{
    flight->born = reply->clock;
    flight->abandoned = flight->abandoned || reply->abandoned;
    if (reply->kind <= REPLY_FREE)
        flight->told_stamp = flight->lookup_stamp;
    if (reply->kind != REPLY_BUSY)
        flight_end_wait(flight);
    if (flight->first == NULL) {
        stale_background_replied(flight, reply);
        return;
    }
    if (reply->damaged || reply->outdated) {
        flight_reply_unusable(flight, reply);
        return;
    }
    if (reply->kind <= REPLY_FREE)
        flight->prev_token[0] = '\0'; /* the script ran, and has removed it */
    if (flight->revalidation.on && revalidate_replied(flight, reply))
        return;
    switch (reply->kind) {
    case REPLY_FRESH:
        flight_reply_fresh(flight, reply);
        break;
    case REPLY_STALE:
        if (flight->lookup == LOOKUP_PEEK &&
            !keep_serves_stale(flight->policy, reply->life.own_stale)) /* its filler had another policy */
            flight_reply_free(flight);
        else
            stale_found(flight, reply);
        break;
    case REPLY_LEASE:
        lease_granted(flight);
        break;
    case REPLY_BUSY:
        flight_reply_busy(flight, reply);
        break;
    case REPLY_FAILED:
        flight_reply_failed(flight, reply);
        break;
    case REPLY_FREE:
        flight_reply_free(flight);
        break;
    case REPLY_CODE:
    case REPLY_REFUSED:
    case REPLY_MOVING:
        flight_bypass(flight);
        break;
    case REPLY_UNKNOWN:
        flight_keep_token(flight);
        flight_reply_unanswered(flight);
        break;
    case REPLY_UNSENT:
        flight_reply_unanswered(flight);
        break;
    }
}

/* ---- who waits ---- */

void flight_list(struct flight *flight, struct core_waiter *waiter)
{
    waiter->flight = flight;
    DL_APPEND(flight->first, waiter);
    flight->nested_waiters += waiter->parent_load != 0;
    flight->users += !waiter->refreshes;
}

void flight_unlist(struct core_waiter *waiter)
{
    struct flight *flight = waiter->flight;
    DL_DELETE(flight->first, waiter);
    flight->nested_waiters -= waiter->parent_load != 0;
    flight->users -= !waiter->refreshes;
    waiter->flight = NULL;
    if (flight->first == NULL && may_begin_load(flight->state) && waiter->origin != NULL) {
        core_set_origin(flight, waiter->origin);
        waiter->origin = NULL;
    }
    loads_requeue(flight);
}

/* ---- a waiter joins, by the state of its flight ---- */

static void join_new(struct flight *flight, const struct core_waiter *waiter)
{
    flight->unknowns = waiter->lookup_unanswered;
    memcpy(flight->refused, waiter->refused, sizeof flight->refused);
    if (flight->passing)
        flight_bypass(flight);
    else
        flight_acquire(flight);
}

/* Only as long as the value is there need it not wait for the load. */
static void join_load(struct flight *flight)
{
    if (flight->refreshing && !flight->revalidation.on)
        stale_peek(flight);
}

static void join_failed(const struct flight *flight, struct core_waiter *waiter)
{
    uint32_t left_ms = ms_until(flight->core->now_us, flight->cool_until_us);
    struct guard_result result =
        flight_failure_result(GUARD_FROM_CACHE, flight->failure, left_ms, flight->load_id);
    core_answer(waiter, &result);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wswitch" /* a state that is missing here is a flight that stays in it */
void flight_joined(struct core_waiter *waiter, bool refused)
{
    struct flight *flight = waiter->flight;
    if (refused) {
        core_answer(waiter, &(struct guard_result){.status = GUARD_FAILED, .failure = GUARD_FAILURE_CYCLE});
        if (flight->state == FLIGHT_NEW) /* it was made for this waiter */
            flight_end(flight);
        return;
    }
    switch (flight->state) {
    case FLIGHT_NEW:
        join_new(flight, waiter);
        break;
    case FLIGHT_ACQUIRING: /* too late for this lookup: another round */
    case FLIGHT_WAITING:
        if (flight->revalidation.on)
            flight_woken(flight, false); /* what does not count is what it finds now */
        break;
    case FLIGHT_QUEUED:
    case FLIGHT_LOADING:
        join_load(flight);
        break;
    case FLIGHT_FILLING:
        if (flight->mark)
            pass_part(flight);
        else
            join_load(flight);
        break;
    case FLIGHT_RELEASING:
    case FLIGHT_RESTING:
        flight_settle(flight);
        break;
    case FLIGHT_COOLING:
        join_failed(flight, waiter);
        break;
    case FLIGHT_ENDED: /* it is out of the tables */
        assert(false);
    }
    assert(flight->state != FLIGHT_NEW);
    loads_requeue(flight);
}
#pragma GCC diagnostic pop

/* ---- events ---- */

void flight_refresh(struct flight *flight, const char *filler)
{
    flight->background = true;
    flight->unknowns = 0;
    if (filler != NULL)
        memcpy(flight->wanted, filler, TOKEN_UUID_BYTES);
    flight_acquire(flight);
}

void flight_left(struct flight *flight)
{
    if (flight->first != NULL || flight->refreshing)
        return;
    abandon_left(flight);
    if (flight->state == FLIGHT_QUEUED) {
        loads_dequeue(flight);
        lease_drop(flight);
    } else if (flight->state == FLIGHT_WAITING) {
        flight_end_wait(flight);
        flight_end(flight);
    }
}

void flight_replied(struct flight *flight, uint64_t op, const struct core_reply *told)
{
    struct core_reply judged = *told;
    const struct core_reply *reply = &judged;
    judged.damaged |= lacks_meta(flight, told->value); /* as good as none */
    if (op == flight->renew_op) {
        lease_renew_replied(flight, reply);
        return;
    }
    if (op == flight->peek_op) {
        stale_peek_replied(flight, reply);
        return;
    }
    if (op != flight->op)
        return;
    flight->op = 0;
    if (flight->state == FLIGHT_ACQUIRING)
        flight_acquire_replied(flight, reply);
    else if (flight->state == FLIGHT_FILLING)
        lease_fill_replied(flight, reply);
    else if (flight->state == FLIGHT_RELEASING)
        lease_release_replied(flight, reply);
}

void flight_woken(struct flight *flight, bool gone)
{
    bool holding = flight->state == FLIGHT_QUEUED || flight->state == FLIGHT_LOADING;
    if (flight->state == FLIGHT_WAITING) {
        flight_wake(flight);
    } else if (flight->state == FLIGHT_ACQUIRING) {
        flight->latch = true;
    } else if ((flight->state == FLIGHT_COOLING && gone) || flight->state == FLIGHT_RESTING) {
        flight_end(flight);
    } else if (holding && flight->leased && gone && flight->renew_op == 0) {
        lease_doubt(flight);
    }
}

bool flight_awaits(const struct flight *flight, const char *lease_tag, bool shared)
{
    bool waits = flight->state == FLIGHT_WAITING || (shared && flight->state == FLIGHT_ACQUIRING);
    return waits && flight->busy_tag[0] != '\0' && memcmp(flight->busy_tag, lease_tag, TOKEN_TAG_BYTES) == 0;
}

/* What is shared is only as old as its load; what is stored is fresh for a time. */
static struct guard_result pushed_result(const struct core_reply *pushed, uint32_t age_ms)
{
    struct guard_result result = flight_cached_result(pushed, GUARD_FROM_FLEET);
    result.age_ms = age_ms;
    result.left_ms = pushed->shared ? 0 : pushed->left_ms - age_ms;
    result.stored = !pushed->shared;
    result.load = pushed->load;
    return result;
}

/* The lease stood when our lookup ran, and an invalidation voids it: what was filled in under it, or told by its
 * release, is as new as any waiter may want that joined before that lookup was sent. The fill came after the lookup,
 * so that bounds its age, however late the message is. (A failover that brings back a lease whose fill is over breaks
 * that bound, by as long as messages of the old Redis still arrive; the canary ends that.) */
void flight_pushed(struct flight *flight, const struct core_reply *pushed)
{
    bool looks_again = flight->state == FLIGHT_ACQUIRING;
    uint64_t since_us = looks_again ? flight->waiting_since_us : flight->sent_us;
    uint32_t age_ms = ms_until(since_us, flight->core->now_us);
    uint32_t waiters = flight_counts(flight)->waiters;
    bool over = (!pushed->shared && age_ms >= pushed->left_ms) || lacks_meta(flight, pushed->value);
    bool too_early = flight->first == NULL || flight->first->joined >= flight->wait_stamp;
    if (over || (!pushed->mark && too_early)) {
        flight_woken(flight, false);
        return;
    }
    flight->latch = true;
    if (!looks_again)
        flight_end_wait(flight);
    if (pushed->mark)
        pass_part(flight);
    else
        flight_deliver(flight, flight->wait_stamp, pushed_result(pushed, age_ms));
    flight_counts(flight)->push_answered += pushed->mark ? 0 : waiters - flight_counts(flight)->waiters;
    if (!looks_again)
        flight_settle(flight);
}

void flight_resync(struct flight *flight)
{
    struct core *core = flight->core;
    if (flight->state == FLIGHT_ACQUIRING)
        flight->latch = true;
    if (flight->state != FLIGHT_WAITING)
        return;
    flight_counts(flight)->wake_resyncs++;
    flight_poll_at(flight, core->now_us + chance_below(&core->chance, us(RESYNC_SPREAD_MS)));
}

void flight_alarm(struct flight *flight)
{
    if (flight->state == FLIGHT_WAITING) {
        flight_counts(flight)->wake_polls++;
        flight_acquire(flight);
    } else if (flight->state == FLIGHT_COOLING || flight->state == FLIGHT_RESTING) {
        flight_end(flight);
    } else {
        lease_alarm(flight);
    }
}

void flight_close(struct flight *flight)
{
    flight_deliver(flight, UINT64_MAX, (struct guard_result){.status = GUARD_CLOSING});
    flight->refreshing = flight->background = false;
    flight_end_wait(flight);
    bool idle = flight->state == FLIGHT_WAITING || flight->state == FLIGHT_COOLING;
    if (idle || flight->state == FLIGHT_RESTING) {
        flight_end(flight);
    } else if (flight->state == FLIGHT_QUEUED) {
        loads_dequeue(flight);
    } else if (flight->state == FLIGHT_LOADING) {
        loads_abandon(flight);
    } else if (flight->send_again_us == 0) {
        return; /* its command is under way */
    }
    if (flight->state != FLIGHT_ENDED)
        lease_drop(flight);
}
