/* SPDX-License-Identifier: MIT */
/* flight_lease.c - the lease from its grant to its end: renewal, loss, the hold limit. See flight.c. */
#include "flight_parts.h"

enum {
    DOUBT_EVERY_MS = 20, /* renewals for invalidations that may have voided the lease */
};

static void send_renew(struct core *core, uint64_t now_us, struct flight *flight)
{
    struct core_action action = flight_action(flight, CORE_RENEW);
    action.op = flight->renew_op = flight_next_op(flight);
    flight->renew_sent_us = now_us;
    flight->renew_at_us = now_us + us(flight->policy->lease_ms) / 3;
    core_emit(core, &action);
}

/* Whom a failed load answers. Behind a stale value nobody: who waits asks again and finds it, or the failure. */
uint64_t flight_failure_stamp(const struct flight *flight)
{
    return flight->refreshing ? 0 : flight->query_stamp;
}

/* A refresh that finds no worker and no permit holds its lease in vain: others may have both. */
static uint64_t refreshes_in_vain_us(const struct flight *flight)
{
    bool waits = flight->state == FLIGHT_QUEUED && flight->first == NULL;
    return waits ? flight->sent_us + us(flight->policy->lease_ms) : UINT64_MAX;
}

void flight_yield(struct core *core, uint64_t now_us, struct flight *flight)
{
    core->stats.refresh_yielded++;
    loads_dequeue(core, flight);
    flight_drop_load(core, now_us, flight);
}

void flight_set_hold_alarm(struct core *core, struct flight *flight)
{
    uint64_t at_us = UINT64_MAX;
    if (flight->leased) {
        at_us =
            flight->valid_until_us < flight->hold_until_us ? flight->valid_until_us : flight->hold_until_us;
        if (flight->renew_op == 0 && flight->renew_at_us < at_us)
            at_us = flight->renew_at_us;
        if (refreshes_in_vain_us(flight) < at_us)
            at_us = refreshes_in_vain_us(flight);
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

void flight_granted(struct core *core, uint64_t now_us, struct flight *flight)
{
    const struct guard_policy *policy = flight->policy;
    flight->valid_until_us = flight->sent_us + us(policy->lease_ms);
    flight->hold_until_us = flight->sent_us + us(policy->max_hold_ms);
    flight->renew_at_us = flight->sent_us + us(policy->lease_ms) / 3;
    if (now_us >= flight->valid_until_us) {
        core->stats.lease_lost++;
        flight_remember_token(flight);
        flight_unanswered_acquire(core, now_us, flight);
        return;
    }
    core->stats.lease_acquired++;
    bool can_load = loads_lender(core, flight) != NULL || flight_take_place(core, now_us, flight);
    if (!can_load) { /* no script grants a lease to a peek, but a nested waiter may have left */
        flight_deliver_all(core, now_us, flight, flight_shed_result());
        flight_release(core, now_us, flight, GUARD_FAILURE_NONE, false);
        return;
    }
    flight->unknowns = 0;
    flight->prev_token[0] = '\0';
    flight->leased = true;
    flight_line_up(core, now_us, flight);
    if (flight->state == FLIGHT_QUEUED)
        flight_set_hold_alarm(core, flight);
}

void flight_forget_lease(struct core *core, struct flight *flight)
{
    core->stats.lease_lost++;
    flight->leased = false;
    flight->renew_op = 0;
    flight_remember_token(flight);
}

static void lose_lease(struct core *core, uint64_t now_us, struct flight *flight)
{
    flight_forget_lease(core, flight);
    if (flight->state == FLIGHT_QUEUED) {
        loads_dequeue(core, flight);
        flight_next_round(core, now_us, flight);
        return;
    }
    flight->lost = true;
    struct load *load = flight->load;
    bool worth_ending = load->deadline_us > now_us + us(flight->policy->load_limit_ms) / 2;
    if (worth_ending)
        loads_cancel(core, load, true);
    flight_set_hold_alarm(core, flight);
}

/* The loader hangs or the queue does: the key must not hang with it. */
static void give_up(struct core *core, uint64_t now_us, struct flight *flight)
{
    bool leased = flight->leased;
    if (flight->state == FLIGHT_QUEUED) { /* only a leased one has a hold limit there */
        loads_dequeue(core, flight);
        flight_deliver_all(core, now_us, flight, flight_shed_result());
        flight_release(core, now_us, flight, GUARD_FAILURE_NONE, false);
        return;
    }
    loads_cancel(core, flight->load, true);
    flight->load->flight = NULL;
    flight->load = NULL;
    core->stats.load_failed++;
    core->stats.refresh_failed += flight->refreshing;
    flight_deliver(core, now_us, flight, flight_failure_stamp(flight),
                   flight_new_failure(core, flight, GUARD_FAILURE_TIMEOUT));
    if (leased)
        flight_release(core, now_us, flight, GUARD_FAILURE_TIMEOUT, false);
    else
        flight_settle(core, now_us, flight);
}

void flight_hold_alarm(struct core *core, uint64_t now_us, struct flight *flight)
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
    if (flight->leased && now_us >= refreshes_in_vain_us(flight)) {
        flight_yield(core, now_us, flight);
        return;
    }
    if (flight->leased && flight->renew_op == 0 && now_us >= flight->renew_at_us)
        send_renew(core, now_us, flight);
    if (loading && now_us >= flight->load->deadline_us)
        loads_cancel(core, flight->load, false);
    flight_set_hold_alarm(core, flight);
}

void flight_renew_replied(struct core *core, uint64_t now_us, struct flight *flight,
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
    flight_set_hold_alarm(core, flight);
}

/* Was it our lease that the invalidation voided? A renewal tells; a flood of messages gets few of them. */
void flight_doubt_lease(struct core *core, uint64_t now_us, struct flight *flight)
{
    uint64_t soonest_us = flight->renew_sent_us + us(DOUBT_EVERY_MS);
    if (now_us >= soonest_us)
        send_renew(core, now_us, flight);
    else if (soonest_us < flight->renew_at_us)
        flight->renew_at_us = soonest_us;
    flight_set_hold_alarm(core, flight);
}
