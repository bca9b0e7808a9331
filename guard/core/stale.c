/* SPDX-License-Identifier: MIT */
/* stale.c - see stale.h. */
#include "stale.h"
#include "flight.h"
#include "lease.h"
#include "nested.h"
#include <string.h>
#include <utlist.h>

enum { REST_MS = 100 }; /* between lookups for a key that another process refreshes */

/* ---- the value in hand ---- */

static void stale_hold(struct flight *flight, const struct core_reply *reply, uint64_t stamp)
{
    guard_value_unref(&flight->held.result.value);
    flight->held = (struct held){
        .result = flight_cached_result(reply, GUARD_FROM_STALE),
        .there = true,
        .stamp = stamp,
        .read_us = flight->core->now_us,
        .until_us = flight->core->now_us + us(reply->pttl_ms),
    };
    if (flight->held.result.value != NULL)
        guard_value_ref(flight->held.result.value);
}

bool stale_held_for(const struct core_waiter *waiter, struct guard_result *out)
{
    uint64_t now_us = waiter->flight->core->now_us;
    const struct held *held = &waiter->flight->held;
    if (!held->there || waiter->joined >= held->stamp || now_us >= held->until_us)
        return false;
    *out = held->result;
    out->age_ms += (uint32_t)((now_us - held->read_us) / 1000);
    return true;
}

static bool stale_answer(struct core_waiter *waiter)
{
    struct guard_result result;
    if (!stale_held_for(waiter, &result))
        return false;
    core_answer(waiter, &result);
    return true;
}

/* A newer value is in hand: the waiters past their soft limit have waited for it. True: some came too late for it. */
static bool stale_answer_impatient(struct flight *flight)
{
    bool any_left = false;
    struct core_waiter *waiter = NULL, *next = NULL;
    DL_FOREACH_SAFE (flight->first, waiter, next) {
        if (!waiter->impatient)
            continue;
        bool answered = stale_answer(waiter);
        flight_counts(flight)->stale_soft += answered;
        any_left = any_left || !answered;
    }
    return any_left;
}

/* ---- limits of a waiter ---- */

void stale_soft_limit(struct core_waiter *waiter)
{
    struct flight *flight = waiter->flight;
    struct core *core = flight->core;
    bool alone = core->now_us >= waiter->alone_us;
    waiter->impatient = true;
    alarm_set(&core->alarms, &waiter->deadline, alone ? waiter->deadline_us : waiter->alone_us);
    if (stale_answer(waiter)) {
        flight_counts(flight)->stale_soft++;
        flight_left(flight);
    } else if ((flight->held.there || alone) && flight->state == FLIGHT_WAITING) {
        /* the waiter joined after the last lookup; or it is nested, and this is its last one */
        flight_acquire(flight);
    }
}

void stale_hard_limit(struct core_waiter *waiter)
{
    struct flight *flight = waiter->flight;
    bool unanswered = flight->state == FLIGHT_ACQUIRING;
    if (stale_answer(waiter))
        flight_counts(flight)->stale_rescued++;
    else if (!unanswered || !flight_answer_kept(waiter))
        core_answer(waiter, &(struct guard_result){.status = GUARD_TIMEOUT});
    flight_left(flight);
}

/* ---- found ---- */

/* What its load would replace. */
static void stale_keep_previous(struct flight *flight, const struct core_reply *reply)
{
    value_unref(&flight->previous);
    if (reply->value == NULL || reply->head == NULL)
        return;
    flight->previous = value_ref(reply->value);
    flight->previous_life = reply->life;
    memcpy(flight->previous_filler, reply->head, TOKEN_UUID_BYTES);
}

/* A waiter joined after this was sent. */
static bool joined_since(const struct flight *flight, uint64_t stamp)
{
    return flight->first != NULL && flight->first->prev->joined > stamp;
}

static void stale_refresh(struct flight *flight, const struct core_reply *reply)
{
    stale_keep_previous(flight, reply);
    flight->refreshing = true;
    lease_granted(flight);
    if (flight->state == FLIGHT_QUEUED && flight->refreshing && joined_since(flight, flight->lookup_stamp))
        stale_peek(flight);
    loads_requeue(flight);
}

void stale_found(struct flight *flight, const struct core_reply *reply)
{
    bool ours = reply->refresher == REFRESH_OURS;
    bool others = reply->refresher == REFRESH_OTHERS && flight->core->config.mode == GUARD_MODE_FLEET &&
                  flight->lookup != LOOKUP_PEEK;
    bool holds = flight->policy->soft_ms > 0 && (ours || others);
    bool impatient = false;
    if (holds) {
        stale_hold(flight, reply, flight->lookup_stamp);
        impatient = stale_answer_impatient(flight);
    } else {
        flight_deliver(flight, flight->lookup_stamp, flight_cached_result(reply, GUARD_FROM_STALE));
    }
    if (ours) {
        stale_refresh(flight, reply);
    } else if (holds && flight->first != NULL && !impatient) {
        flight_wait(flight, UINT32_MAX, reply->lease_tag);
    } else {
        loads_give_place(flight);
        flight_settle(flight);
    }
}

/* ---- looked up beside its refresh ---- */

/* A waiter that joins while a stale value is refreshed here need not wait for that. The lookup names no lease: a peek
 * takes none, and ours must stay. */
void stale_peek(struct flight *flight)
{
    struct core *core = flight->core;
    if (flight->peek_op != 0)
        return;
    unsigned shard = 0;
    if (flight->peeked_in_vain || !core_may_send(core, &flight->key, &shard))
        return;
    struct core_action action = flight_action(flight, CORE_ACQUIRE);
    action.token = action.prev = "";
    action.lookup = LOOKUP_PEEK;
    action.op = flight->peek_op = flight_next_op(flight, shard);
    flight->peek_stamp = core_stamp(core);
    core_emit(core, &action);
}

static void stale_peek_found(struct flight *flight, const struct core_reply *reply, bool is_fresh)
{
    if (reply->mark) {
        pass_part(flight);
    } else if (!is_fresh && flight->policy->soft_ms > 0) {
        stale_hold(flight, reply, flight->peek_stamp);
        stale_answer_impatient(flight);
    } else {
        flight_deliver(flight, flight->peek_stamp,
                       flight_cached_result(reply, is_fresh ? GUARD_FROM_CACHE : GUARD_FROM_STALE));
    }
}

void stale_peek_replied(struct flight *flight, const struct core_reply *reply)
{
    bool is_fresh = reply->kind == REPLY_FRESH;
    bool is_stale = reply->kind == REPLY_STALE && keep_serves_stale(flight->policy, reply->life.own_stale);
    /* gone, or not for us: from now on every waiter waits for the load */
    if (reply->kind <= REPLY_FREE)
        flight->told_stamp = flight->peek_stamp;
    flight->peeked_in_vain = reply->damaged || reply->outdated || !(is_fresh || is_stale);
    if (!flight->peeked_in_vain)
        stale_peek_found(flight, reply, is_fresh);
    flight->peek_op = 0; /* not before: those that it has answered need no load */
    if (joined_since(flight, flight->peek_stamp))
        stale_peek(flight);
    loads_requeue(flight);
}

/* ---- background refreshes ---- */

void stale_rest(struct flight *flight, uint32_t rest_ms)
{
    struct core *core = flight->core;
    if (core->config.mode == GUARD_MODE_OFF) {
        flight_end(flight);
        return;
    }
    flight->background = false;
    flight->wanted[0] = flight->prev_token[0] = '\0';
    flight_move(flight, FLIGHT_RESTING);
    loads_give_place(flight);
    alarm_set(&core->alarms, &flight->alarm, core->now_us + us(rest_ms));
}

void stale_background_replied(struct flight *flight, const struct core_reply *reply)
{
    bool stale = reply->kind == REPLY_STALE;
    bool there = (stale || reply->kind == REPLY_FRESH) && !reply->damaged && !reply->outdated;
    if (flight->background && flight->of_kept && reply->kind > REPLY_FREE) {
        flight_keep_token(flight);
        flight_load_kept(flight);
    } else if (!flight->background || !there)
        flight_reply_unwanted(flight, reply);
    else if (stale && reply->refresher == REFRESH_OURS)
        stale_found(flight, reply);
    else if (flight->latch)
        flight_end(flight); /* what another process did is over already */
    else
        stale_rest(flight, stale && reply->refresher == REFRESH_COOLING ? reply->cool_ms : REST_MS);
}

/* ---- no value that was there ---- */

enum core_lookup revalidate_choose_lookup(struct flight *flight)
{
    bool can_load = flight_take_place(flight) || nested_has_berth(flight);
    return can_load ? LOOKUP_REVALIDATE : LOOKUP_REVALIDATE_PEEK;
}

void revalidate_begin_anew(struct flight *flight)
{
    flight->revalidation.names[0] = '\0';
    flight->revalidation.stamp = 0;
}

/* Other names than those that are known: these are of older waiters, which are answered first. */
static void note_names(struct flight *flight, const struct core_reply *reply)
{
    struct revalidation *revalidation = &flight->revalidation;
    enum { BYTES = sizeof revalidation->names - 1 };
    if (reply->names_seen == NULL)
        return;
    if (revalidation->names[0] == '\0')
        memcpy(revalidation->names, reply->names_seen, BYTES);
    if (memcmp(revalidation->names, reply->names_seen, BYTES) == 0)
        revalidation->stamp = flight->lookup_stamp;
}

bool revalidate_replied(struct flight *flight, const struct core_reply *reply)
{
    bool ours = reply->kind == REPLY_STALE && reply->refresher == REFRESH_OURS;
    if (reply->kind == REPLY_BUSY) {
        note_names(flight, reply);
        return false;
    }
    if (ours) {
        stale_keep_previous(flight, reply);
        lease_granted(flight);
        return true;
    }
    if (reply->kind != REPLY_FRESH || reply->mark)
        return false;
    loads_give_place(flight);
    flight_deliver(flight, flight->revalidation.stamp, flight_cached_result(reply, GUARD_FROM_FLEET));
    flight_settle(flight);
    return true;
}
