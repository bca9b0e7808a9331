/* SPDX-License-Identifier: MIT */
/*
 * flight_stale.c - a value that is there while its refresh runs: answered at once, or held for those who wait
 * for a fresh one up to their soft limit. See flight.c.
 *
 *   found stale        no soft limit     with one
 *     ours to refresh  answer, load      hold, load
 *     others refresh   answer            hold, wait for them
 *     cooling down     answer            answer
 *
 * Held values keep the rule of all results: only who joined before the lookup was sent may have one.
 */
#include "flight_parts.h"
#include <string.h>
#include <utlist.h>

enum { REST_MS = 100 }; /* between questions for a key that somebody else refreshes */

/* ---- the value in hand ---- */

void flight_drop_held(struct flight *flight)
{
    guard_value_unref(&flight->held.result.value);
    flight->held.there = false;
}

static void hold(uint64_t now_us, struct flight *flight, const struct core_reply *reply, uint64_t stamp)
{
    flight_drop_held(flight);
    flight->held = (struct held){
        .result = flight_cached_result(reply, GUARD_FROM_STALE),
        .there = true,
        .stamp = stamp,
        .read_us = now_us,
        .until_us = now_us + us(reply->pttl_ms),
    };
    if (flight->held.result.value != NULL)
        guard_value_ref(flight->held.result.value);
}

bool flight_held_for(const struct flight *flight, uint64_t now_us, const struct core_waiter *waiter,
                     struct guard_result *out)
{
    const struct held *held = &flight->held;
    if (!held->there || waiter->joined >= held->stamp || now_us >= held->until_us)
        return false;
    *out = held->result;
    out->age_ms += (uint32_t)((now_us - held->read_us) / 1000);
    return true;
}

static bool answer_held(struct core *core, uint64_t now_us, struct flight *flight, struct core_waiter *waiter)
{
    struct guard_result result;
    if (!flight_held_for(flight, now_us, waiter, &result))
        return false;
    core_answer(core, now_us, waiter, &result);
    return true;
}

/* A newer value is in hand: those past their soft limit have waited for it. True: some came too late for it. */
static bool answer_impatient(struct core *core, uint64_t now_us, struct flight *flight)
{
    bool any_left = false;
    struct core_waiter *waiter = NULL, *next = NULL;
    DL_FOREACH_SAFE (flight->first, waiter, next) {
        if (!waiter->impatient)
            continue;
        bool answered = answer_held(core, now_us, flight, waiter);
        core->stats.stale_soft += answered;
        any_left = any_left || !answered;
    }
    return any_left;
}

/* ---- limits of a waiter ---- */

void flight_soft_limit(struct core *core, uint64_t now_us, struct flight *flight, struct core_waiter *waiter)
{
    bool alone = now_us >= waiter->alone_us;
    waiter->impatient = true;
    alarm_set(&core->alarms, &waiter->deadline, alone ? waiter->deadline_us : waiter->alone_us);
    if (answer_held(core, now_us, flight, waiter)) {
        core->stats.stale_soft++;
        flight_left(core, now_us, flight);
    } else if ((flight->held.there || alone) && flight->state == FLIGHT_WAITING) {
        flight_ask(core, now_us, flight); /* he came after the last look; or nested, and it is his last one */
    }
}

void flight_hard_limit(struct core *core, uint64_t now_us, struct flight *flight, struct core_waiter *waiter)
{
    if (answer_held(core, now_us, flight, waiter))
        core->stats.stale_rescued++;
    else
        core_answer(core, now_us, waiter, &(struct guard_result){.status = GUARD_TIMEOUT});
    flight_left(core, now_us, flight);
}

/* ---- the value that is refreshed ---- */

void flight_drop_previous(struct flight *flight)
{
    value_unref(&flight->previous);
}

static void keep_previous(struct flight *flight, const struct core_reply *reply)
{
    flight_drop_previous(flight);
    if (reply->value == NULL || reply->head == NULL)
        return;
    flight->previous = value_ref(reply->value);
    memcpy(flight->previous_filler, reply->head, TOKEN_UUID_BYTES);
}

/* ---- found ---- */

/* Somebody joined after this was sent. */
static bool joined_since(const struct flight *flight, uint64_t stamp)
{
    return flight->first != NULL && flight->first->prev->joined > stamp;
}

static bool others_will_do(const struct core *core, const struct flight *flight, enum core_turn turn)
{
    return turn == TURN_OTHERS && core->config.mode == GUARD_MODE_FLEET && flight->lookup != LOOKUP_PEEK;
}

static void refresh(struct core *core, uint64_t now_us, struct flight *flight, const struct core_reply *reply)
{
    keep_previous(flight, reply);
    flight->refreshing = true;
    flight_granted(core, now_us, flight);
    if (flight->state == FLIGHT_QUEUED && flight->refreshing && joined_since(flight, flight->lookup_stamp))
        flight_peek(core, now_us, flight);
}

void flight_found_stale(struct core *core, uint64_t now_us, struct flight *flight,
                        const struct core_reply *reply)
{
    bool ours = reply->turn == TURN_OURS;
    bool holds = flight->policy->soft_ms > 0 && (ours || others_will_do(core, flight, reply->turn));
    bool impatient = false;
    if (holds) {
        hold(now_us, flight, reply, flight->lookup_stamp);
        impatient = answer_impatient(core, now_us, flight);
    } else {
        flight_deliver(core, now_us, flight, flight->lookup_stamp,
                       flight_cached_result(reply, GUARD_FROM_STALE));
    }
    if (ours) {
        refresh(core, now_us, flight, reply);
    } else if (holds && flight->first != NULL && !impatient) {
        flight_await(core, now_us, flight, UINT32_MAX, reply->lease_tag);
    } else {
        loads_give_place(core, flight);
        flight_settle(core, now_us, flight);
    }
}

/* ---- looking for it beside its refresh ---- */

/* Who joins while a stale value is refreshed here need not wait for that. The lookup names no lease: a peek
 * takes none, and ours must stay. */
void flight_peek(struct core *core, uint64_t now_us, struct flight *flight)
{
    if (flight->peek_op != 0)
        return;
    if (flight->peeked_in_vain || !breaker_allow(&core->breaker, now_us)) {
        loads_raise(core, flight);
        return;
    }
    struct core_action action = flight_action(flight, CORE_ACQUIRE);
    action.token = action.prev = "";
    action.lookup = LOOKUP_PEEK;
    action.op = flight->peek_op = flight_next_op(flight);
    flight->peek_stamp = core_stamp(core);
    core_emit(core, &action);
}

void flight_peek_replied(struct core *core, uint64_t now_us, struct flight *flight,
                         const struct core_reply *reply)
{
    bool is_fresh = reply->kind == REPLY_FRESH;
    bool is_stale = reply->kind == REPLY_STALE && flight->policy->stale_ms > 0;
    flight->peek_op = 0;
    flight->peeked_in_vain = reply->damaged || reply->outdated || !(is_fresh || is_stale);
    if (flight->peeked_in_vain) { /* it is gone, or not for us: from now on everybody waits for the load */
        loads_raise(core, flight);
        return;
    }
    if (!is_fresh && flight->policy->soft_ms > 0) {
        hold(now_us, flight, reply, flight->peek_stamp);
        answer_impatient(core, now_us, flight);
    } else {
        flight_deliver(core, now_us, flight, flight->peek_stamp,
                       flight_cached_result(reply, is_fresh ? GUARD_FROM_CACHE : GUARD_FROM_STALE));
    }
    if (joined_since(flight, flight->peek_stamp))
        flight_peek(core, now_us, flight);
    else if (flight->first != NULL)
        loads_raise(core, flight);
}

/* ---- refreshing behind a hit ---- */

void flight_rest(struct core *core, uint64_t now_us, struct flight *flight, uint32_t rest_ms)
{
    if (core->config.mode == GUARD_MODE_OFF) {
        flight_end(core, flight);
        return;
    }
    flight->background = false;
    flight->wanted[0] = flight->prev_token[0] = '\0';
    flight_move(core, flight, FLIGHT_RESTING);
    loads_give_place(core, flight);
    alarm_set(&core->alarms, &flight->alarm, now_us + us(rest_ms));
}

void flight_background_replied(struct core *core, uint64_t now_us, struct flight *flight,
                               const struct core_reply *reply)
{
    bool stale = reply->kind == REPLY_STALE;
    bool there = (stale || reply->kind == REPLY_FRESH) && !reply->damaged && !reply->outdated;
    if (!flight->background || !there)
        flight_unwanted_reply(core, now_us, flight, reply);
    else if (stale && reply->turn == TURN_OURS)
        flight_found_stale(core, now_us, flight, reply);
    else if (flight->latch)
        flight_end(core, flight); /* what others did is over already */
    else
        flight_rest(core, now_us, flight, stale && reply->turn == TURN_COOLING ? reply->cool_ms : REST_MS);
}

void flight_refresh_early(struct core *core, uint64_t now_us, struct flight *flight, const char *filler)
{
    flight->background = true;
    flight->unknowns = 0;
    memcpy(flight->wanted, filler, TOKEN_UUID_BYTES);
    flight_ask(core, now_us, flight);
}
