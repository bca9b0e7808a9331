/* SPDX-License-Identifier: MIT */
/* lease.c - see lease.h. */
#include "lease.h"
#include "flight.h"
#include "halves.h"
#include "keep.h"
#include "near.h"
#include "nested.h"
#include <assert.h>

enum {
    DOUBT_EVERY_MS = 20,  /* renewals for invalidations that may have voided the lease */
    STORES_MAX = 3,       /* attempts to get an answer to a fill or a release */
    STORE_GONE = -2,      /* a touch found another value than the one it was meant for, or none */
    MOVING_FIRST_MS = 20, /* between attempts while the keys are moving */
    MOVING_MOST_MS = 500,
};

/* ---- granted ---- */

/* A refresh that gets no worker and no permit holds its lease in vain: others may have both, and a user. */
static uint64_t lease_refresh_until_us(const struct flight *flight)
{
    bool in_vain = flight->queue == QUEUE_REFRESHES && flight->users == 0;
    return in_vain ? flight->sent_us + us(flight->policy->lease_ms) : UINT64_MAX;
}

/* Its fill or release will be sent again, not before the reply to a renewal, which would be lost then. */
static bool lease_is_paused(const struct flight *flight)
{
    return flight->send_again_us != 0 && flight->renew_op == 0;
}

static void lease_set_alarm(struct flight *flight)
{
    struct core *core = flight->core;
    uint64_t at_us = UINT64_MAX;
    if (flight->leased) {
        at_us = earlier_us(flight->valid_until_us, flight->hold_until_us);
        at_us = earlier_us(at_us, lease_refresh_until_us(flight));
        if (flight->renew_op == 0)
            at_us = earlier_us(at_us, flight->renew_at_us);
    } else if (flight->state == FLIGHT_LOADING) {
        at_us = flight->hold_until_us;
    }
    if (flight->load != NULL && (!flight->load->cancelled || flight->load->deferred))
        at_us = earlier_us(at_us, flight->load->deadline_us);
    if (lease_is_paused(flight))
        at_us = earlier_us(at_us, flight->send_again_us);
    if (at_us != UINT64_MAX)
        alarm_set(&core->alarms, &flight->alarm, at_us);
    else
        alarm_unset(&core->alarms, &flight->alarm);
}

void lease_granted(struct flight *flight)
{
    struct core *core = flight->core;
    const struct guard_policy *policy = flight->policy;
    flight->valid_until_us = flight->sent_us + us(policy->lease_ms);
    flight->hold_until_us = flight->sent_us + us(policy->max_hold_ms);
    flight->renew_at_us = flight->sent_us + us(policy->lease_ms) / 3;
    flight->load_id = load_id_of_uuid(flight->token);
    if (core->now_us >= flight->valid_until_us) {
        flight_counts(flight)->lease_lost++;
        watch_flight(flight, GUARD_EVENT_LEASE_LOST, 0);
        flight_keep_token(flight);
        flight_reply_unanswered(flight);
        return;
    }
    flight_counts(flight)->lease_acquired++;
    bool can_load = nested_has_berth(flight) || flight_take_place(flight);
    if (!can_load) { /* no script grants a lease to a peek, but a nested waiter may have left */
        flight_shed(flight);
        lease_release(flight, GUARD_FAILURE_NONE, false);
        return;
    }
    flight->unknowns = 0;
    flight->prev_token[0] = '\0';
    flight->leased = true;
    flight_queue_load(flight);
    if (flight->state == FLIGHT_QUEUED)
        lease_set_alarm(flight);
}

/* ---- lost, or given back before its time ---- */

static void lease_forget(struct flight *flight)
{
    flight_counts(flight)->lease_lost++;
    watch_flight(flight, GUARD_EVENT_LEASE_LOST, 0);
    flight->leased = false;
    flight->renew_op = 0;
    flight_keep_token(flight);
}

static void lease_lost(struct flight *flight)
{
    struct core *core = flight->core;
    lease_forget(flight);
    if (flight->state == FLIGHT_QUEUED) {
        loads_dequeue(flight);
        flight_next_round(flight);
        return;
    }
    if (flight->state == FLIGHT_FILLING) {
        flight_settle(flight);
        return;
    }
    flight->lost = true;
    struct load *load = flight->load;
    bool worth_ending = load->deadline_us > core->now_us + us(flight->policy->load_limit_ms) / 2;
    if (worth_ending)
        loads_cancel(core, load, true);
    lease_set_alarm(flight);
}

void lease_drop(struct flight *flight)
{
    if (flight->leased)
        lease_release(flight, GUARD_FAILURE_NONE, false);
    else
        flight_end(flight);
}

void lease_yield(struct flight *flight)
{
    flight_counts(flight)->refresh_yielded++;
    flight_shed(flight); /* waiters that refresh */
    loads_dequeue(flight);
    lease_drop(flight);
}

/* ---- loaded ---- */

/* No thread or no memory for its load. Where a value is there, the waiters left are answered by it in the next
 * round. */
static void lease_out_of_memory(struct flight *flight)
{
    struct guard_result result = {.status = GUARD_NO_MEMORY};
    flight_deliver(flight, flight->refreshing ? 0 : UINT64_MAX, result);
    if (flight->leased)
        lease_release(flight, GUARD_FAILURE_NONE, false);
    else
        flight_settle(flight);
}

static void lease_send_load(struct flight *flight)
{
    const struct load *load = flight->load;
    struct core_action action = flight_action(flight, CORE_LOAD);
    action.load = load->id;
    action.deadline_us = load->deadline_us;
    action.previous = flight->leased ? flight->previous : NULL;
    action.starter = flight->first;
    action.origin = flight->first == NULL ? flight->origin : NULL;
    action.lender = load->lender != NULL ? load->lender->id : 0;
    action.batch = load->batch;
    action.depth = load->depth;
    action.permit = load->permit != NULL ? load->permit->token : NULL;
    core_emit(flight->core, &action);
    core_set_origin(flight, NULL);
}

/* In this process, for an outage: as if a lookup that was sent when its query began had found it. */
static void keep_loaded(const struct flight *flight, enum guard_how how, const struct spans *spans)
{
    struct guard_result result = lease_loaded_result(flight, false);
    const struct near_life life = {
        .kept = outage_keeps(flight->policy, how, flight->passing),
        .stale_ms = spans->stale_ms,
        .load_us = flight->load_us,
    };
    result.left_ms = spans->fresh_ms;
    near_keep(&flight->begun, &life, flight->value, &result);
}

void core_starts(struct core *core, const struct core_action *action, const struct core_waiter *starter)
{
    const struct load *load = loads_find(core, action->load);
    if (load != NULL && load->flight != NULL)
        load->flight->starter_stamp = starter->joined;
}

void lease_start_load(struct flight *flight)
{
    struct core *core = flight->core;
    if (flight->first == NULL && !flight->refreshing) {
        lease_drop(flight);
        return;
    }
    if (flight->leased && core->now_us >= flight->valid_until_us) { /* we were stopped: its alarm is late */
        lease_forget(flight);
        flight_next_round(flight);
        return;
    }
    if (!flight->leased) {
        flight->hold_until_us = core->now_us + us(flight->policy->max_hold_ms);
        flight_counts(flight)->load_uncached++;
        char token[TOKEN_SIZE]; /* it has no lease's to be called by */
        core->config.make_token(core->config.token_context, flight->policy->lease_ms, token);
        flight->load_id = load_id_of_uuid(token);
    }
    uint64_t limit_us = core->now_us + us(flight->policy->load_limit_ms);
    flight_counts(flight)->load_duplicate += !flight->passing && loads_runs_key(flight);
    flight->load = loads_new(flight, earlier_us(limit_us, flight->hold_until_us));
    if (flight->load == NULL) {
        lease_out_of_memory(flight);
        return;
    }
    /* What is dropped from here on voids what it brings. */
    flight->begun =
        near_look_up(core->config.near, flight->key.encoded, flight->key.encoded_bytes, core->now_us);
    flight->begun.lease = flight->leased ? load_id_of_tag(flight->token + TOKEN_TAG_AT) : 0;
    flight_move(flight, FLIGHT_LOADING);
    flight->half = 0;
    flight_counts(flight)->load_started++;
    flight_counts(flight)->refresh_early += flight->refreshing && flight->lookup == LOOKUP_EARLY;
    flight_counts(flight)->refresh_started += flight->refreshing && flight->lookup != LOOKUP_EARLY;
    flight->starter_stamp = flight->first != NULL ? flight->first->joined : 0;
    flight->query_stamp = core_stamp(core);
    if (flight->policy->abandon)
        abandon_load_starts(flight);
    lease_set_alarm(flight);
    watch_load_started(flight);
    lease_send_load(flight);
}

/* ---- failed ---- */

/* For how long this failure will be remembered: told to the waiters it answers, written into the release. */
static void choose_failure_ms(struct flight *flight)
{
    flight->failure_ms =
        chance_shorten(&flight->core->chance, flight->policy->failure_ms, flight->policy->jitter_percent);
}

static struct guard_result new_failure(struct flight *flight, enum guard_failure failure)
{
    choose_failure_ms(flight);
    return flight_failure_result(GUARD_FROM_LOAD, failure, flight->failure_ms, flight->load_id);
}

/* Which waiters a failed load answers. None while a stale value is there: the next round finds it, or the failure. */
static uint64_t failure_stamp(const struct flight *flight)
{
    return flight->refreshing ? 0 : flight->query_stamp;
}

/* Without Redis the failure is remembered here, for this process. It holds for all waiters: it is no row that could
 * be out of date. */
static void lease_bypass_failed(struct flight *flight, enum guard_failure failure)
{
    struct core *core = flight->core;
    if (core->config.mode == GUARD_MODE_OFF || flight->passing) {
        flight_end(flight);
        return;
    }
    flight->failure = failure;
    flight->cool_until_us = core->now_us + us(flight->failure_ms);
    flight_move(flight, FLIGHT_COOLING);
    alarm_set(&core->alarms, &flight->alarm, flight->cool_until_us);
}

static void lease_load_failed(struct flight *flight, enum guard_failure failure)
{
    struct guard_result result = new_failure(flight, failure);
    flight_counts(flight)->load_failed++;
    flight_counts(flight)->refresh_failed += flight->refreshing;
    bool shared = flight->leased || flight->refreshing;
    flight_deliver(flight, shared ? failure_stamp(flight) : UINT64_MAX, result);
    if (flight->leased)
        lease_release(flight, failure, false);
    else if (flight->refreshing)
        flight_settle(flight);
    else
        lease_bypass_failed(flight, failure);
}

/* That says nothing about this key: others may try. */
static void lease_load_in_vain(struct flight *flight)
{
    flight->round++;
    if (flight->leased)
        lease_release(flight, GUARD_FAILURE_NONE, false);
    else
        flight_settle(flight);
}

/* How a load has ended. */
enum load_ending {
    ENDED_WITH_ANSWER,
    ENDED_OUT_OF_MEMORY,
    ENDED_WITH_MATES, /* its query failed as one: each half of it may do better */
    ENDED_BY_ITSELF,  /* failed */
    ENDED_UNWANTED,   /* it was told to stop, and not because of its time */
    ENDED_CUT_SHORT,  /* the outer load had no more time */
    ENDED_AT_LIMIT,
};

static enum load_ending ending_of(const struct load *load, const struct core_loaded *loaded)
{
    if (loaded->outcome == LOAD_NO_MEMORY)
        return ENDED_OUT_OF_MEMORY;
    if (loaded->outcome != LOAD_FAILED)
        return ENDED_WITH_ANSWER;
    if (loaded->unwanted || load->unwanted)
        return ENDED_UNWANTED;
    if (load->cancelled)
        return load->cut_short ? ENDED_CUT_SHORT : ENDED_AT_LIMIT;
    return loaded->as_one && load->had_mates ? ENDED_WITH_MATES : ENDED_BY_ITSELF;
}

static void lease_load_brought_nothing(struct flight *flight, enum load_ending ending,
                                       enum guard_failure failure)
{
    assert(ending != ENDED_WITH_ANSWER);
    switch (ending) {
    case ENDED_WITH_ANSWER:
        break;
    case ENDED_OUT_OF_MEMORY:
        lease_out_of_memory(flight);
        break;
    case ENDED_WITH_MATES:
    case ENDED_BY_ITSELF:
        lease_load_failed(flight, failure);
        break;
    case ENDED_UNWANTED:
        lease_load_in_vain(flight);
        break;
    case ENDED_CUT_SHORT:
        flight_counts(flight)->load_failed++;
        flight_counts(flight)->refresh_failed += flight->refreshing;
        lease_load_in_vain(flight);
        break;
    case ENDED_AT_LIMIT:
        lease_load_failed(flight, GUARD_FAILURE_TIMEOUT);
        break;
    }
}

void lease_leave_query(struct flight *flight)
{
    loads_abandon(flight);
    lease_load_in_vain(flight);
}

/* Its query failed as one: asked again with half of it. Others may have that place by now. */
static void lease_ask_by_halves(struct flight *flight, uint64_t half)
{
    if (flight->lost) {
        lease_load_in_vain(flight);
        return;
    }
    if (!nested_has_berth(flight) && !flight_take_place(flight)) {
        flight_shed(flight);
        lease_load_in_vain(flight);
        return;
    }
    flight->half = half;
    flight_queue_load(flight);
    if (flight->state == FLIGHT_QUEUED)
        lease_set_alarm(flight);
}

/* With the last of its query the query has failed; with the last query there is nothing to hope for. */
static bool is_hopeless(const struct flight *flight, bool last)
{
    struct halves *halves = flight->halves;
    halves->failed += last;
    return last && halves_doubtful(halves) && !halves_run(flight->core, halves);
}

/* What was to be asked again by halves, together with this flight, whose load is over. */
static void lease_fail_halves(const struct flight *flight, enum guard_failure failure)
{
    struct flight *queued = NULL;
    while ((queued = halves_queued(flight->core, flight->halves)) != NULL) {
        loads_dequeue(queued);
        loads_give_place(queued);
        lease_load_failed(queued, failure);
    }
}

/* At its limit a deferred load is ended, whether it has been told to stop before or not. */
static void lease_end_deferred(struct flight *flight)
{
    const struct core_loaded late = {.outcome = LOAD_FAILED, .failure = GUARD_FAILURE_TIMEOUT};
    loads_cancel(flight->core, flight->load, false);
    enum load_ending ending = ending_of(flight->load, &late);
    loads_abandon(flight);
    lease_load_brought_nothing(flight, ending, late.failure);
}

void lease_deferred(struct flight *flight)
{
    if (flight->core->now_us >= flight->load->deadline_us)
        lease_end_deferred(flight);
    else
        lease_set_alarm(flight);
}

/* The loader hangs or the queue does: the key must not hang with it. */
static void lease_give_up(struct flight *flight)
{
    if (flight->state == FLIGHT_FILLING) {
        lease_release(flight, GUARD_FAILURE_NONE, false);
        return;
    }
    if (flight->state == FLIGHT_QUEUED) { /* only a leased one has a hold limit there */
        loads_dequeue(flight);
        flight_shed(flight);
        lease_release(flight, GUARD_FAILURE_NONE, false);
        return;
    }
    loads_abandon(flight);
    flight_counts(flight)->load_failed++;
    flight_counts(flight)->refresh_failed += flight->refreshing;
    flight_deliver(flight, failure_stamp(flight), new_failure(flight, GUARD_FAILURE_TIMEOUT));
    if (flight->leased)
        lease_release(flight, GUARD_FAILURE_TIMEOUT, false);
    else
        flight_settle(flight);
}

/* ---- filled ---- */

struct guard_result lease_loaded_result(const struct flight *flight, bool stored)
{
    return (struct guard_result){
        .status = flight->absent ? GUARD_ABSENT : GUARD_OK,
        .source = GUARD_FROM_LOAD,
        .value = !flight->absent ? &flight->value->public : NULL,
        .left_ms = stored ? flight->fresh_ms : 0,
        .stored = stored,
        .load = flight->load_id,
    };
}

/* A value that is unchanged need not be sent again. */
static void lease_send_fill(struct flight *flight)
{
    struct core_action action = flight_action(flight, flight->unchanged ? CORE_TOUCH : CORE_FILL);
    action.wanted = flight->previous_filler;
    action.op = flight->op = flight_next_op_at_owner(flight);
    action.value = flight->value;
    action.absent = flight->absent;
    action.mark = flight->mark;
    action.life = flight->life;
    action.born = flight->born;
    action.load_us = flight->load_us;
    action.fresh_ms = flight->fresh_ms;
    action.stale_ms = flight->stale_ms;
    flight->stores++;
    core_emit(flight->core, &action);
}

/* Which waiters the stored value answers. Here a revalidation's gets what was queried after it joined, also if that
 * is stored. */
static uint64_t fill_stamp_of(const struct flight *flight)
{
    return flight->revalidation.on ? flight->query_stamp : core_stamp(flight->core);
}

void lease_fill(struct flight *flight, uint32_t fresh_ms, uint32_t stale_ms)
{
    flight_move(flight, FLIGHT_FILLING);
    flight->renew_op = 0;
    flight->stores = 0;
    flight->fill_told = flight->mark; /* a mark is no answer */
    flight->fill_stamp = fill_stamp_of(flight);
    flight->fresh_ms = fresh_ms;
    flight->stale_ms = stale_ms;
    lease_send_fill(flight);
}

/* A result counts as one round, however often it is sent. */
static void lease_tell_unstored(struct flight *flight)
{
    if (!flight->fill_told)
        flight_deliver(flight, flight->query_stamp, lease_loaded_result(flight, false));
    flight->fill_told = true;
}

static void lease_fill_unanswered(struct flight *flight)
{
    struct core *core = flight->core;
    flight_counts(flight)->fill_unknown++;
    lease_tell_unstored(flight);
    if (flight->stores < STORES_MAX && core->now_us < flight->valid_until_us && !core->closed) {
        lease_send_fill(flight);
        return;
    }
    flight_keep_token(flight);
    flight_settle(flight);
}

static void lease_send_later(struct flight *flight)
{
    struct core *core = flight->core;
    uint32_t pause_ms = chance_backoff(&core->chance, MOVING_FIRST_MS, MOVING_MOST_MS, flight->movings);
    flight->movings++;
    flight->send_again_us = core->now_us + us(pause_ms);
    lease_set_alarm(flight);
}

/* It has not run. The waiters left need a newer row than the one in hand: they do not wait for its keys. */
static void lease_fill_moving(struct flight *flight)
{
    struct core *core = flight->core;
    flight->stores--;
    lease_tell_unstored(flight);
    if (flight->first == NULL && core->now_us < flight->valid_until_us && !core->closed) {
        lease_send_later(flight);
        return;
    }
    flight_keep_token(flight);
    flight_settle(flight);
}

/* False: the script has answered, or was refused. */
static bool lease_fill_failed(struct flight *flight, enum core_reply_kind kind)
{
    if (kind == REPLY_MOVING)
        lease_fill_moving(flight);
    else if (kind == REPLY_UNSENT || kind == REPLY_UNKNOWN)
        lease_fill_unanswered(flight);
    else
        return false;
    return true;
}

void lease_fill_replied(struct flight *flight, const struct core_reply *reply)
{
    if (lease_fill_failed(flight, reply->kind))
        return;
    bool gone = flight->unchanged && reply->kind == REPLY_CODE && reply->code == STORE_GONE;
    if (gone) { /* we have it in hand, and the lease is still ours as far as we know */
        flight->unchanged = false;
        flight->stores = 0;
        lease_send_fill(flight);
        return;
    }
    bool stored = reply->kind == REPLY_CODE && (reply->code == 1 || reply->code == 2);
    bool late = reply->kind == REPLY_CODE && reply->code == 0;
    flight_counts(flight)->fill_stored += stored;
    flight_counts(flight)->fill_late += late;
    flight_counts(flight)->fill_refused += !stored && !late;
    if (!stored)
        watch_flight(flight, GUARD_EVENT_FILL_REFUSED, 0);
    bool good = stored && !reply->outdated;
    if (!flight->mark)
        flight_deliver(flight, good ? flight->fill_stamp : flight->query_stamp,
                       lease_loaded_result(flight, good));
    if (reply->kind == REPLY_REFUSED)
        lease_release(flight, GUARD_FAILURE_NONE, false);
    else
        flight_settle(flight);
}

/* With what the loader has said, in the numbers that the entry will have. */
static void lease_store(struct flight *flight, const struct spans *spans)
{
    struct core *core = flight->core;
    uint32_t fresh_ms = spans->fresh_ms;
    if (fresh_ms > 0)
        fresh_ms = chance_shorten(&core->chance, fresh_ms, flight->policy->jitter_percent);
    flight->life.fresh_ms = flight->life.own_fresh ? spans->fresh_ms : 0;
    flight->life.own_stale = flight->life.own_stale && !flight->absent;
    flight->life.stale_ms = flight->life.own_stale ? spans->stale_ms : 0;
    flight_counts(flight)->keep_cut += spans->cut;
    lease_fill(flight, fresh_ms, spans->stale_ms);
}

bool lease_lacks_tag_clock(const struct flight *flight)
{
    return flight->value != NULL && flight->value->tags_bytes > 0 && flight->born.era == 0;
}

static void lease_load_succeeded(struct flight *flight, enum guard_how how)
{
    struct core *core = flight->core;
    const struct value *value = flight->value;
    const struct spans spans =
        keep_spans(&flight->life, flight->policy, flight->absent, core->config.max_value_ms);
    bool too_big = value != NULL && value->public.body_bytes > core->config.max_value_bytes;
    bool no_tag_clock = lease_lacks_tag_clock(flight);
    bool stores = how == GUARD_STORE && spans.fresh_ms + spans.stale_ms > 0;
    keep_loaded(flight, how, &spans);
    if (flight->leased && !too_big && !no_tag_clock && stores) {
        lease_store(flight, &spans);
        return;
    }
    flight_deliver(flight, flight->query_stamp, lease_loaded_result(flight, false));
    bool refused = flight->leased && !too_big && stores;
    flight_counts(flight)->fill_late += flight->lost;
    flight_counts(flight)->fill_too_big += flight->leased && too_big;
    flight_counts(flight)->fill_refused += refused;
    if (flight->lost || refused)
        watch_flight(flight, GUARD_EVENT_FILL_REFUSED, 0);
    if (!flight->leased) {
        flight_settle(flight);
        return;
    }
    choose_failure_ms(flight);
    if (how == GUARD_SHARE && !too_big && !no_tag_clock)
        lease_share(flight);
    else
        lease_release(flight, GUARD_FAILURE_NONE, too_big);
}

static void lease_take_answer(struct flight *flight, const struct core_loaded *loaded)
{
    assert(loaded->outcome != LOAD_UNCHANGED || flight->previous != NULL);
    flight->absent = loaded->outcome == LOAD_ABSENT;
    flight->unchanged = loaded->outcome == LOAD_UNCHANGED;
    struct value *value = flight->unchanged ? flight->previous : loaded->value;
    flight->value = value != NULL ? value_ref(value) : NULL;
    flight->load_us = loaded->load_us;
    flight_counts(flight)->load_ok += loaded->outcome == LOAD_OK;
    flight_counts(flight)->load_absent += flight->absent;
    flight_counts(flight)->load_unchanged += flight->unchanged;
    flight->life = keep_life(loaded->keep, flight->unchanged ? &flight->previous_life : NULL);
    enum guard_how how = loaded->keep != NULL ? loaded->keep->how : GUARD_STORE;
    if (how == GUARD_PASS)
        pass_loaded(flight, loaded->keep);
    else
        lease_load_succeeded(flight, how);
}

void lease_load_ended(struct flight *flight, const struct core_loaded *loaded)
{
    enum load_ending ending = ending_of(flight->load, loaded);
    if (ending == ENDED_WITH_MATES && !halves_begin(flight->load))
        ending = ENDED_OUT_OF_MEMORY;
    bool last = loads_is_alone(flight->load);
    uint64_t half = loads_half(flight->load);
    loads_free(flight->core, flight->load);
    flight->load = NULL;
    if (ending == ENDED_WITH_MATES && !is_hopeless(flight, last)) {
        lease_ask_by_halves(flight, half);
        return;
    }
    if (ending == ENDED_WITH_MATES)
        lease_fail_halves(flight, loaded->failure);
    if (flight->halves != NULL && ending == ENDED_WITH_ANSWER)
        flight->halves->succeeded = true;
    halves_leave(flight);
    if (ending == ENDED_WITH_ANSWER)
        lease_take_answer(flight, loaded);
    else
        lease_load_brought_nothing(flight, ending, loaded->failure);
}

/* ---- renewed ---- */

static void lease_send_renew(struct flight *flight)
{
    struct core *core = flight->core;
    struct core_action action = flight_action(flight, CORE_RENEW);
    action.op = flight->renew_op = flight_next_op_at_owner(flight);
    action.asks_wait = flight->policy->abandon;
    flight->renew_sent_us = core->now_us;
    flight->renew_at_us = core->now_us + us(flight->policy->lease_ms) / 3;
    core_emit(core, &action);
}

/* A fill whose pause has ended meanwhile goes at once. */
static void lease_go_on(struct flight *flight)
{
    if (!lease_is_paused(flight) || flight->core->now_us < flight->send_again_us) {
        lease_set_alarm(flight);
        return;
    }
    if (flight->stores ==
        0) /* no attempt can have run yet: as far as waiters are concerned, it is sent now */
        flight->fill_stamp = fill_stamp_of(flight);
    flight->send_again_us = 0;
    lease_send_fill(flight);
}

void lease_renew_replied(struct flight *flight, const struct core_reply *reply)
{
    flight->renew_op = 0;
    if (!flight->leased)
        return;
    if (reply->kind == REPLY_CODE && reply->code == 0) {
        lease_lost(flight);
        return;
    }
    if (reply->kind == REPLY_CODE) {
        flight_counts(flight)->lease_renewed++;
        flight->valid_until_us = flight->renew_sent_us + us(flight->policy->lease_ms);
        if (reply->code != RENEWED_AWAITED && abandon_alone(flight))
            return;
    }
    lease_go_on(flight);
}

/* ---- sent again ---- */

static void lease_send_release(struct flight *flight)
{
    struct core_action action = flight_action(flight, CORE_RELEASE);
    action.token = flight->prev_token; /* flight->token may be a new one before this is sent */
    action.op = flight->op = flight_next_op_at_owner(flight);
    action.failure = flight->failure;
    action.load = flight->load_id;
    action.too_big = flight->too_big;
    action.abandoned_ms = abandon_note_ms(flight);
    action.failure_ms = flight->failure_ms;
    action.shares = flight->shares;
    if (flight->shares) { /* for as long as the message is on its way: it has no life of its own */
        action.value = flight->shared;
        action.absent = flight->absent;
        action.mark = flight->mark;
        action.born = flight->born;
        action.load_us = flight->load_us;
        action.fresh_ms = 1;
    }
    flight->stores++;
    core_emit(flight->core, &action);
}

void lease_alarm(struct flight *flight)
{
    struct core *core = flight->core;
    bool loading = flight->state == FLIGHT_LOADING;
    if (flight->state == FLIGHT_RELEASING) {
        flight->send_again_us = 0;
        lease_send_release(flight);
        return;
    }
    if (core->now_us >= flight->hold_until_us && (flight->leased || loading)) {
        lease_give_up(flight);
        return;
    }
    if (flight->leased && core->now_us >= flight->valid_until_us) {
        lease_lost(flight);
        return;
    }
    if (flight->leased && core->now_us >= lease_refresh_until_us(flight)) {
        lease_yield(flight);
        return;
    }
    /* before a renewal, whose token the next acquire would take away */
    if (loading && core->now_us >= flight->load->deadline_us && flight->load->deferred) {
        lease_end_deferred(flight);
        return;
    }
    if (flight->leased && flight->renew_op == 0 && core->now_us >= flight->renew_at_us)
        lease_send_renew(flight);
    if (loading && core->now_us >= flight->load->deadline_us)
        loads_cancel(core, flight->load, false);
    lease_go_on(flight);
}

/* A flood of invalidations gets few renewals. */
void lease_doubt(struct flight *flight)
{
    uint64_t soonest_us = flight->renew_sent_us + us(DOUBT_EVERY_MS);
    if (flight->core->now_us >= soonest_us)
        lease_send_renew(flight);
    else if (soonest_us < flight->renew_at_us)
        flight->renew_at_us = soonest_us;
    lease_set_alarm(flight);
}

/* ---- released ---- */

/* Every waiter that may be answered has been. For the others the next acquire goes behind the release on the same
 * connection; naming the token again does no harm if the release ran and removes the lease if it did not. */
void lease_release(struct flight *flight, enum guard_failure failure, bool too_big)
{
    flight->failure = failure;
    flight->too_big = too_big;
    flight->stores = 0;
    flight->leased = false;
    flight->renew_op = flight->peek_op = 0;
    flight_counts(flight)->lease_released++;
    flight_move(flight, FLIGHT_RELEASING);
    loads_give_place(flight);
    flight_keep_token(flight);
    lease_send_release(flight);
    if (flight->first != NULL)
        flight_settle(flight);
}

/* The value is in the action when the flight has gone on. */
void lease_share(struct flight *flight)
{
    bool has_value = flight->value != NULL && !flight->mark;
    value_unref(&flight->shared);
    flight->shared = has_value ? value_ref(flight->value) : NULL;
    flight->shares = true;
    lease_release(flight, GUARD_FAILURE_NONE, false);
}

void lease_release_replied(struct flight *flight, const struct core_reply *reply)
{
    const struct core *core = flight->core;
    bool answered = reply->kind == REPLY_CODE || reply->kind == REPLY_REFUSED;
    if (answered || flight->stores >= STORES_MAX || core->now_us >= flight->valid_until_us)
        flight_settle(flight);
    else if (reply->kind == REPLY_MOVING && !core->closed)
        lease_send_later(flight);
    else
        lease_send_release(flight);
}
