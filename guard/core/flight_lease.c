/* SPDX-License-Identifier: MIT */
/* flight_lease.c - the lease from its grant to its end: renewal, loss, the hold limit. See flight.c. */
#include "flight_parts.h"

enum {
    DOUBT_EVERY_MS = 20, /* renewals for invalidations that may have voided the lease */
};

static void lease_send_renew(struct flight *flight)
{
    struct core *core = flight->core;
    struct core_action action = flight_action(flight, CORE_RENEW);
    action.op = flight->renew_op = flight_next_op(flight);
    flight->renew_sent_us = core->now_us;
    flight->renew_at_us = core->now_us + us(flight->policy->lease_ms) / 3;
    core_emit(core, &action);
}

/* Whom a failed load answers. Behind a stale value nobody: who waits asks again and finds it, or the failure. */
uint64_t lease_failure_stamp(const struct flight *flight)
{
    return flight->refreshing ? 0 : flight->query_stamp;
}

/* A refresh that finds no worker and no permit holds its lease in vain: others may have both. */
static uint64_t lease_refresh_until_us(const struct flight *flight)
{
    bool waits = flight->state == FLIGHT_QUEUED && flight->first == NULL;
    return waits ? flight->sent_us + us(flight->policy->lease_ms) : UINT64_MAX;
}

void lease_yield(struct flight *flight)
{
    flight->core->stats.refresh_yielded++;
    loads_dequeue(flight);
    lease_drop(flight);
}

void lease_set_alarm(struct flight *flight)
{
    struct core *core = flight->core;
    uint64_t at_us = UINT64_MAX;
    if (flight->leased) {
        at_us =
            flight->valid_until_us < flight->hold_until_us ? flight->valid_until_us : flight->hold_until_us;
        if (flight->renew_op == 0 && flight->renew_at_us < at_us)
            at_us = flight->renew_at_us;
        if (lease_refresh_until_us(flight) < at_us)
            at_us = lease_refresh_until_us(flight);
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

void lease_granted(struct flight *flight)
{
    struct core *core = flight->core;
    const struct guard_policy *policy = flight->policy;
    flight->valid_until_us = flight->sent_us + us(policy->lease_ms);
    flight->hold_until_us = flight->sent_us + us(policy->max_hold_ms);
    flight->renew_at_us = flight->sent_us + us(policy->lease_ms) / 3;
    if (core->now_us >= flight->valid_until_us) {
        core->stats.lease_lost++;
        flight_keep_token(flight);
        flight_reply_unanswered(flight);
        return;
    }
    core->stats.lease_acquired++;
    bool can_load = loads_lender(flight) != NULL || flight_take_place(flight);
    if (!can_load) { /* no script grants a lease to a peek, but a nested waiter may have left */
        flight_deliver_all(flight, flight_shed_result());
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

void lease_forget(struct flight *flight)
{
    flight->core->stats.lease_lost++;
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
    flight->lost = true;
    struct load *load = flight->load;
    bool worth_ending = load->deadline_us > core->now_us + us(flight->policy->load_limit_ms) / 2;
    if (worth_ending)
        loads_cancel(core, load, true);
    lease_set_alarm(flight);
}

/* The loader hangs or the queue does: the key must not hang with it. */
static void lease_give_up(struct flight *flight)
{
    struct core *core = flight->core;
    bool leased = flight->leased;
    if (flight->state == FLIGHT_QUEUED) { /* only a leased one has a hold limit there */
        loads_dequeue(flight);
        flight_deliver_all(flight, flight_shed_result());
        lease_release(flight, GUARD_FAILURE_NONE, false);
        return;
    }
    loads_cancel(core, flight->load, true);
    flight->load->flight = NULL;
    flight->load = NULL;
    core->stats.load_failed++;
    core->stats.refresh_failed += flight->refreshing;
    flight_deliver(flight, lease_failure_stamp(flight), flight_new_failure(flight, GUARD_FAILURE_TIMEOUT));
    if (leased)
        lease_release(flight, GUARD_FAILURE_TIMEOUT, false);
    else
        flight_settle(flight);
}

void lease_alarm(struct flight *flight)
{
    struct core *core = flight->core;
    bool loading = flight->state == FLIGHT_LOADING;
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
    if (flight->leased && flight->renew_op == 0 && core->now_us >= flight->renew_at_us)
        lease_send_renew(flight);
    if (loading && core->now_us >= flight->load->deadline_us)
        loads_cancel(core, flight->load, false);
    lease_set_alarm(flight);
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
        flight->core->stats.lease_renewed++;
        flight->valid_until_us = flight->renew_sent_us + us(flight->policy->lease_ms);
    }
    lease_set_alarm(flight);
}

/* Was it our lease that the invalidation voided? A renewal tells; a flood of messages gets few of them. */
void lease_doubt(struct flight *flight)
{
    uint64_t soonest_us = flight->renew_sent_us + us(DOUBT_EVERY_MS);
    if (flight->core->now_us >= soonest_us)
        lease_send_renew(flight);
    else if (soonest_us < flight->renew_at_us)
        flight->renew_at_us = soonest_us;
    lease_set_alarm(flight);
}
