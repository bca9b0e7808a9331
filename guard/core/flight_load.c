/* SPDX-License-Identifier: MIT */
/* flight_load.c - the load of a flight, its fill, its release. See flight.c. */
#include "flight_parts.h"
#include <assert.h>

enum {
    STORES_MAX = 3,  /* attempts to get an answer to a fill or a release */
    STORE_GONE = -2, /* a touch found another value than the one it was meant for, or none */
};

/* A value that is unchanged need not be sent again. */
static void send_store(struct core *core, struct flight *flight)
{
    struct core_action action = flight_action(flight, flight->unchanged ? CORE_TOUCH : CORE_FILL);
    action.wanted = flight->previous_filler;
    action.op = flight->op = flight_next_op(flight);
    action.value = flight->value;
    action.absent = flight->absent;
    action.born = flight->born;
    action.load_us = flight->load_us;
    action.fresh_ms = flight->fresh_ms;
    action.stale_ms = flight->absent ? 0 : flight->policy->stale_ms;
    flight->stores++;
    core_emit(core, &action);
}

static void send_release(struct core *core, struct flight *flight)
{
    struct core_action action = flight_action(flight, CORE_RELEASE);
    action.token = flight->prev_token; /* flight->token may be a new one before this is sent */
    action.op = flight->op = flight_next_op(flight);
    action.failure = flight->failure;
    action.too_big = flight->too_big;
    action.failure_ms = flight->failure_ms;
    flight->stores++;
    core_emit(core, &action);
}

/* Everybody who may be answered has been. Who is left asks again, behind the release on the same connection;
 * naming the token again does no harm if the release ran and removes the lease if it did not. */
void flight_release(struct core *core, uint64_t now_us, struct flight *flight, enum guard_failure failure,
                    bool too_big)
{
    flight->failure = failure;
    flight->too_big = too_big;
    flight->stores = 0;
    flight->leased = false;
    flight->renew_op = flight->peek_op = 0;
    core->stats.lease_released++;
    flight_move(core, flight, FLIGHT_RELEASING);
    loads_give_place(core, flight);
    flight_remember_token(flight);
    send_release(core, flight);
    if (flight->first != NULL)
        flight_settle(core, now_us, flight);
}

static void fill_unanswered(struct core *core, uint64_t now_us, struct flight *flight)
{
    core->stats.fill_unknown++;
    if (flight->stores == 1) /* a result counts as one round, however often it is sent */
        flight_deliver(core, now_us, flight, flight->query_stamp, flight_loaded_result(flight, false));
    if (flight->stores < STORES_MAX && now_us < flight->valid_until_us && !core->closed) {
        send_store(core, flight);
        return;
    }
    flight_remember_token(flight);
    flight_settle(core, now_us, flight);
}

void flight_fill_replied(struct core *core, uint64_t now_us, struct flight *flight,
                         const struct core_reply *reply)
{
    if (reply->kind == REPLY_UNSENT || reply->kind == REPLY_UNKNOWN) {
        fill_unanswered(core, now_us, flight);
        return;
    }
    bool gone = flight->unchanged && reply->kind == REPLY_CODE && reply->code == STORE_GONE;
    if (gone) { /* we have it in hand, and the lease is still ours as far as we know */
        flight->unchanged = false;
        flight->stores = 0;
        send_store(core, flight);
        return;
    }
    bool stored = reply->kind == REPLY_CODE && (reply->code == 1 || reply->code == 2);
    bool late = reply->kind == REPLY_CODE && reply->code == 0;
    core->stats.fill_stored += stored;
    core->stats.fill_late += late;
    core->stats.fill_refused += !stored && !late;
    bool good = stored && !reply->outdated;
    flight_deliver(core, now_us, flight, good ? flight->fill_stamp : flight->query_stamp,
                   flight_loaded_result(flight, good));
    if (reply->kind == REPLY_REFUSED)
        flight_release(core, now_us, flight, GUARD_FAILURE_NONE, false);
    else
        flight_settle(core, now_us, flight);
}

void flight_release_replied(struct core *core, uint64_t now_us, struct flight *flight,
                            const struct core_reply *reply)
{
    bool answered = reply->kind == REPLY_CODE || reply->kind == REPLY_REFUSED;
    if (!answered && flight->stores < STORES_MAX && now_us < flight->valid_until_us)
        send_release(core, flight);
    else
        flight_settle(core, now_us, flight);
}

/* Without Redis the failure is remembered here, for this process. It holds for all: it is no row that could
 * be out of date. */
static void cool(struct core *core, uint64_t now_us, struct flight *flight, enum guard_failure failure)
{
    if (core->config.mode == GUARD_MODE_OFF) {
        flight_end(core, flight);
        return;
    }
    flight->failure = failure;
    flight->cool_until_us = now_us + us(flight->failure_ms);
    flight_move(core, flight, FLIGHT_COOLING);
    alarm_set(&core->alarms, &flight->alarm, flight->cool_until_us);
}

static void load_failed(struct core *core, uint64_t now_us, struct flight *flight, enum guard_failure failure)
{
    struct guard_result result = flight_new_failure(core, flight, failure);
    core->stats.load_failed++;
    core->stats.refresh_failed += flight->refreshing;
    bool shared = flight->leased || flight->refreshing;
    flight_deliver(core, now_us, flight, shared ? flight_failure_stamp(flight) : UINT64_MAX, result);
    if (flight->leased)
        flight_release(core, now_us, flight, failure, false);
    else if (flight->refreshing)
        flight_settle(core, now_us, flight);
    else
        cool(core, now_us, flight, failure);
}

static void fill(struct core *core, struct flight *flight)
{
    flight_move(core, flight, FLIGHT_FILLING);
    flight->renew_op = 0;
    flight->stores = 0;
    flight->fill_stamp = core_stamp(core);
    uint32_t whole_ms = flight->absent ? flight->policy->absent_ms : flight->policy->fresh_ms;
    flight->fresh_ms = chance_shorten(&core->chance, whole_ms, flight->policy->jitter_percent);
    send_store(core, flight);
}

static void load_succeeded(struct core *core, uint64_t now_us, struct flight *flight, bool unstored)
{
    bool too_big = flight->value != NULL && flight->value->public.body_bytes > core->config.max_value_bytes;
    bool no_tag_clock = flight->value != NULL && flight->value->tags_bytes > 0 && flight->born.era == 0;
    if (flight->leased && !too_big && !no_tag_clock && !unstored) {
        fill(core, flight);
        return;
    }
    flight_deliver(core, now_us, flight, flight->query_stamp, flight_loaded_result(flight, false));
    if (!flight->leased) {
        core->stats.fill_late += flight->lost;
        flight_settle(core, now_us, flight);
        return;
    }
    core->stats.fill_too_big += too_big;
    core->stats.fill_refused += !too_big && !unstored;
    flight_choose_failure_ms(core, flight);
    flight_release(core, now_us, flight, GUARD_FAILURE_NONE, too_big);
}

/* The load that it was nested in had no more time: that says nothing about this key, others may try. */
static void end_cut_short(struct core *core, uint64_t now_us, struct flight *flight)
{
    core->stats.load_failed++;
    core->stats.refresh_failed += flight->refreshing;
    flight->round++;
    if (flight->leased)
        flight_release(core, now_us, flight, GUARD_FAILURE_NONE, false);
    else
        flight_settle(core, now_us, flight);
}

void flight_loaded(struct core *core, uint64_t now_us, struct flight *flight,
                   const struct core_loaded *loaded)
{
    bool unwanted = flight->load->unwanted;
    bool over_limit = flight->load->cancelled && !unwanted;
    bool cut_short = over_limit && flight->load->cut_short;
    loads_free(core, now_us, flight->load);
    flight->load = NULL;
    assert(loaded->outcome != LOAD_UNCHANGED || flight->previous != NULL);
    if (loaded->outcome == LOAD_FAILED && unwanted) {
        flight_next_round(core, now_us, flight);
        return;
    }
    if (loaded->outcome == LOAD_FAILED && cut_short) {
        end_cut_short(core, now_us, flight);
        return;
    }
    if (loaded->outcome == LOAD_FAILED) {
        load_failed(core, now_us, flight, over_limit ? GUARD_FAILURE_TIMEOUT : loaded->failure);
        return;
    }
    flight->absent = loaded->outcome == LOAD_ABSENT;
    flight->unchanged = loaded->outcome == LOAD_UNCHANGED;
    struct value *value = flight->unchanged ? flight->previous : loaded->value;
    flight->value = value != NULL ? value_ref(value) : NULL;
    flight->load_us = loaded->load_us;
    core->stats.load_ok += loaded->outcome == LOAD_OK;
    core->stats.load_absent += flight->absent;
    core->stats.load_unchanged += flight->unchanged;
    load_succeeded(core, now_us, flight, loaded->unstored);
}

/* Nobody waits for it any more. */
void flight_drop_load(struct core *core, uint64_t now_us, struct flight *flight)
{
    if (flight->leased)
        flight_release(core, now_us, flight, GUARD_FAILURE_NONE, false);
    else
        flight_end(core, flight);
}

void flight_start_load(struct core *core, uint64_t now_us, struct flight *flight)
{
    if (flight->first == NULL && !flight->refreshing) {
        flight_drop_load(core, now_us, flight);
        return;
    }
    if (flight->leased &&
        now_us >= flight->valid_until_us) { /* we were stopped for long: its alarm is late */
        flight_forget_lease(core, flight);
        flight_next_round(core, now_us, flight);
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
        flight_deliver_all(core, now_us, flight, (struct guard_result){.status = GUARD_NO_MEMORY});
        flight->refreshing = false;
        flight_start_load(core, now_us, flight);
        return;
    }
    flight_move(core, flight, FLIGHT_LOADING);
    core->stats.load_started++;
    core->stats.refresh_early += flight->refreshing && flight->lookup == LOOKUP_EARLY;
    core->stats.refresh_started += flight->refreshing && flight->lookup != LOOKUP_EARLY;
    flight->leader_stamp = flight->first != NULL ? flight->first->joined : 0;
    flight->query_stamp = core_stamp(core);
    flight_set_hold_alarm(core, flight);
    struct core_action action = flight_action(flight, CORE_LOAD);
    action.load = flight->load->id;
    action.deadline_us = flight->load->deadline_us;
    action.previous = flight->leased ? flight->previous : NULL;
    action.lender = flight->load->lender != NULL ? flight->load->lender->id : 0;
    action.batch = flight->load->batch;
    action.permit = flight->load->permit != NULL ? flight->load->permit->token : NULL;
    core_emit(core, &action);
}
