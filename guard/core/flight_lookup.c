/* SPDX-License-Identifier: MIT */
/* flight_lookup.c - what an acquire says, and waiting for another process. See flight.c. */
#include "flight_parts.h"
#include "hit.h"
#include <string.h>

enum {
    UNKNOWNS_MAX = 2,   /* unanswered commands in a row before the flight does without Redis */
    POLL_FIRST_MS = 20, /* backoff of the poll while another process has the lease */
    POLL_MOST_MS = 500,
    POLL_GRACE_MS = 5, /* ask this long after the lease's TTL, not just before its end */
    FREE_WAKES = 4,    /* wake-ups obeyed at once; a flood of them is slowed down */
    SLOW_WAKE_MOST_MS = 50,
};

void flight_end_wait(struct flight *flight)
{
    struct core *core = flight->core;
    if (flight->waiting_since_us == 0)
        return;
    core_histogram_add(&core->stats.lease_wait, core->now_us - flight->waiting_since_us);
    flight->waiting_since_us = 0;
}

void flight_reply_unanswered(struct flight *flight)
{
    flight->unknowns++;
    if (flight->unknowns >= UNKNOWNS_MAX)
        flight_bypass(flight);
    else
        flight_acquire(flight);
}

void flight_poll_at(struct flight *flight, uint64_t at_us)
{
    if (flight->alarm.place == 0 || at_us < flight->alarm.at_us)
        alarm_set(&flight->core->alarms, &flight->alarm, at_us);
}

void flight_wake(struct flight *flight)
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

bool flight_awaits(const struct flight *flight, const char *lease_tag)
{
    return flight->state == FLIGHT_WAITING && flight->busy_tag[0] != '\0' &&
           memcmp(flight->busy_tag, lease_tag, TOKEN_TAG_BYTES) == 0;
}

/* The lease stood when our lookup ran, and an invalidation voids it: what was filled in under it is as new as anybody
 * may ask who joined before that lookup was sent. The fill came after the lookup, so that bounds its age, however late
 * the message is. (A failover that brings back a lease whose fill is over breaks that bound, by as long as messages
 * of the old Redis still arrive; the canary ends that.) */
void flight_pushed(struct flight *flight, const struct core_pushed *pushed)
{
    struct core *core = flight->core;
    uint32_t age_ms = ms_until(flight->sent_us, core->now_us);
    uint32_t waiters = core->stats.waiters;
    if (age_ms >= pushed->fresh_ms || flight->first->joined >= flight->lookup_stamp) {
        flight_wake(flight);
        return;
    }
    flight_end_wait(flight);
    flight_deliver(flight, flight->lookup_stamp,
                   (struct guard_result){
                       .status = pushed->absent ? GUARD_ABSENT : GUARD_OK,
                       .source = GUARD_FROM_FLEET,
                       .value = pushed->value != NULL ? &pushed->value->public : NULL,
                       .age_ms = age_ms,
                       .left_ms = pushed->fresh_ms - age_ms,
                       .stored = true,
                   });
    core->stats.push_answered += waiters - core->stats.waiters;
    flight_settle(flight);
}

static void flight_note_lease_tag(struct flight *flight, const char *lease_tag)
{
    memset(flight->busy_tag, '\0', sizeof flight->busy_tag);
    if (lease_tag != NULL)
        memcpy(flight->busy_tag, lease_tag, TOKEN_TAG_BYTES);
}

void flight_wait(struct flight *flight, uint32_t pttl_ms, const char *lease_tag)
{
    struct core *core = flight->core;
    core->stats.lease_busy++;
    flight->unknowns = 0;
    flight->prev_token[0] = '\0';
    loads_give_place(flight);
    flight->busy_stamp = flight->lookup_stamp;
    flight_note_lease_tag(flight, lease_tag);
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

/* Somebody's time for waiting for other processes is over: of those whose loads wait for each other in a circle
 * through several processes, one must go on alone to find that out. */
static bool flight_is_past_waiting(const struct flight *flight)
{
    const struct core_waiter *waiter = flight->nested_waiters > 0 ? flight->first : NULL;
    while (waiter != NULL && (waiter->parent_load == 0 || flight->core->now_us < waiter->alone_us))
        waiter = waiter->next;
    return waiter != NULL;
}

/* Only a fleet waits for others. */
static void flight_reply_busy(struct flight *flight, const struct core_reply *reply)
{
    struct core *core = flight->core;
    if (core->config.mode == GUARD_MODE_FLEET && !flight_is_past_waiting(flight)) {
        flight_wait(flight, reply->pttl_ms, reply->lease_tag);
        return;
    }
    flight_end_wait(flight);
    core->stats.lease_busy++;
    flight->unknowns = 0;
    flight->prev_token[0] = '\0';
    flight_bypass(flight);
}

/* What the script took for a value is damaged, of another key or older than one of its tags: ask again, and name it so
 * that it counts as missing for as long as it stands there. A stale one may have come with the lease. Counts as a
 * round, so that nobody can keep us asking for ever. */
static void flight_reply_unusable(struct flight *flight, const struct core_reply *reply)
{
    struct core *core = flight->core;
    core->stats.entry_rejected += reply->damaged;
    core->stats.entry_outdated += reply->outdated;
    memcpy(flight->refused, reply->head, TOKEN_UUID_BYTES);
    if (reply->kind == REPLY_STALE && reply->turn == TURN_OURS)
        lease_granted(flight);
    else
        flight_next_round(flight);
}

static void flight_reply_fresh(struct flight *flight, const struct core_reply *reply)
{
    loads_give_place(flight);
    flight_deliver(flight, flight->lookup_stamp, flight_cached_result(reply, GUARD_FROM_CACHE));
    bool early = flight->first == NULL &&
                 hit_is_early(flight->policy, reply->load_us, reply->left_ms, &flight->core->chance);
    if (early)
        flight_refresh_early(flight, reply->head);
    else
        flight_settle(flight);
}

static void flight_reply_failed(struct flight *flight, const struct core_reply *reply)
{
    if (reply->too_big) {
        flight_bypass(flight);
        return;
    }
    loads_give_place(flight);
    flight_deliver(flight, flight->lookup_stamp,
                   flight_failure_result(GUARD_FROM_CACHE, reply->failure, reply->pttl_ms));
    flight_settle(flight);
}

/* Nothing there for us and no lease, but there was no place when we asked. */
static void flight_reply_free(struct flight *flight)
{
    if (flight_take_place(flight)) {
        flight_acquire(flight);
        return;
    }
    flight_deliver_all(flight, flight_shed_result());
    flight_end(flight);
}

void flight_reply_unwanted(struct flight *flight, const struct core_reply *reply)
{
    bool ours = reply->kind == REPLY_LEASE || (reply->kind == REPLY_STALE && reply->turn == TURN_OURS);
    if (ours || reply->kind == REPLY_UNKNOWN) {
        flight->valid_until_us = flight->sent_us + us(flight->policy->lease_ms);
        lease_release(flight, GUARD_FAILURE_NONE, false);
        return;
    }
    flight_end(flight);
}

void flight_acquire_replied(struct flight *flight, const struct core_reply *reply)
{
    flight->born = reply->clock;
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
    switch (reply->kind) {
    case REPLY_UNSENT:
        flight_reply_unanswered(flight);
        return;
    case REPLY_UNKNOWN:
        flight_keep_token(flight);
        flight_reply_unanswered(flight);
        return;
    case REPLY_CODE:
    case REPLY_REFUSED:
        flight_bypass(flight);
        return;
    case REPLY_BUSY:
        flight_reply_busy(flight, reply);
        return;
    case REPLY_FRESH:
    case REPLY_STALE:
    case REPLY_LEASE:
    case REPLY_FAILED:
    case REPLY_FREE:
        break;
    }
    flight->prev_token[0] = '\0';
    bool refuses_stale = flight->lookup == LOOKUP_PEEK && flight->policy->stale_ms == 0;
    if (reply->kind == REPLY_FREE ||
        (reply->kind == REPLY_STALE && refuses_stale)) /* its filler had another policy */
        flight_reply_free(flight);
    else if (reply->kind == REPLY_FRESH)
        flight_reply_fresh(flight, reply);
    else if (reply->kind == REPLY_STALE)
        stale_found(flight, reply);
    else if (reply->kind == REPLY_LEASE)
        lease_granted(flight);
    else
        flight_reply_failed(flight, reply);
}
