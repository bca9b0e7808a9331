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

void flight_waited(struct core *core, uint64_t now_us, struct flight *flight)
{
    if (flight->waiting_since_us == 0)
        return;
    core_histogram_add(&core->stats.lease_wait, now_us - flight->waiting_since_us);
    flight->waiting_since_us = 0;
}

void flight_unanswered_acquire(struct core *core, uint64_t now_us, struct flight *flight)
{
    flight->unknowns++;
    if (flight->unknowns >= UNKNOWNS_MAX)
        flight_bypass(core, now_us, flight);
    else
        flight_ask(core, now_us, flight);
}

void flight_wait_until(struct core *core, struct flight *flight, uint64_t at_us)
{
    if (flight->alarm.place == 0 || at_us < flight->alarm.at_us)
        alarm_set(&core->alarms, &flight->alarm, at_us);
}

void flight_wake(struct core *core, uint64_t now_us, struct flight *flight)
{
    flight->wakes++;
    if (flight->wakes <= FREE_WAKES) {
        flight_ask(core, now_us, flight);
        return;
    }
    uint32_t slow_ms = chance_backoff(&core->chance, 1, SLOW_WAKE_MOST_MS, flight->wakes - FREE_WAKES);
    flight_wait_until(core, flight, now_us + us(slow_ms));
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
void flight_pushed(struct core *core, uint64_t now_us, struct flight *flight,
                   const struct core_pushed *pushed)
{
    uint32_t age_ms = ms_until(flight->sent_us, now_us);
    uint32_t waiters = core->stats.waiters;
    if (age_ms >= pushed->fresh_ms || flight->first->joined >= flight->lookup_stamp) {
        flight_wake(core, now_us, flight);
        return;
    }
    flight_waited(core, now_us, flight);
    flight_deliver(core, now_us, flight, flight->lookup_stamp,
                   (struct guard_result){
                       .status = pushed->absent ? GUARD_ABSENT : GUARD_OK,
                       .source = GUARD_FROM_FLEET,
                       .value = pushed->value != NULL ? &pushed->value->public : NULL,
                       .age_ms = age_ms,
                       .left_ms = pushed->fresh_ms - age_ms,
                       .stored = true,
                   });
    core->stats.push_answered += waiters - core->stats.waiters;
    flight_settle(core, now_us, flight);
}

static void remember_lease_tag(struct flight *flight, const char *lease_tag)
{
    memset(flight->busy_tag, '\0', sizeof flight->busy_tag);
    if (lease_tag != NULL)
        memcpy(flight->busy_tag, lease_tag, TOKEN_TAG_BYTES);
}

void flight_await(struct core *core, uint64_t now_us, struct flight *flight, uint32_t pttl_ms,
                  const char *lease_tag)
{
    core->stats.lease_busy++;
    flight->unknowns = 0;
    flight->prev_token[0] = '\0';
    loads_give_place(core, flight);
    flight->busy_stamp = flight->lookup_stamp;
    remember_lease_tag(flight, lease_tag);
    if (flight->waiting_since_us == 0)
        flight->waiting_since_us = flight->sent_us;
    flight_move(core, flight, FLIGHT_WAITING);
    uint32_t poll_ms = chance_backoff(&core->chance, POLL_FIRST_MS, POLL_MOST_MS, flight->polls);
    if (pttl_ms < POLL_MOST_MS && pttl_ms + POLL_GRACE_MS < poll_ms)
        poll_ms = pttl_ms + POLL_GRACE_MS;
    flight->polls++;
    flight_wait_until(core, flight, now_us + us(poll_ms));
    if (flight->latch)
        flight_wake(core, now_us, flight);
}

/* Somebody's time for waiting for other processes is over: of those whose loads wait for each other in a circle
 * through several processes, one must go on alone to find that out. */
static bool goes_alone(const struct flight *flight, uint64_t now_us)
{
    const struct core_waiter *waiter = flight->nested_waiters > 0 ? flight->first : NULL;
    while (waiter != NULL && (waiter->parent_load == 0 || now_us < waiter->alone_us))
        waiter = waiter->next;
    return waiter != NULL;
}

/* Only a fleet waits for others. */
static void busy(struct core *core, uint64_t now_us, struct flight *flight, const struct core_reply *reply)
{
    if (core->config.mode == GUARD_MODE_FLEET && !goes_alone(flight, now_us)) {
        flight_await(core, now_us, flight, reply->pttl_ms, reply->lease_tag);
        return;
    }
    flight_waited(core, now_us, flight);
    core->stats.lease_busy++;
    flight->unknowns = 0;
    flight->prev_token[0] = '\0';
    flight_bypass(core, now_us, flight);
}

/* What the script took for a value is damaged, of another key or older than one of its tags: ask again, and name it so
 * that it counts as missing for as long as it stands there. A stale one may have come with the lease. Counts as a
 * round, so that nobody can keep us asking for ever. */
static void unusable(struct core *core, uint64_t now_us, struct flight *flight,
                     const struct core_reply *reply)
{
    core->stats.entry_rejected += reply->damaged;
    core->stats.entry_outdated += reply->outdated;
    memcpy(flight->refused, reply->head, TOKEN_UUID_BYTES);
    if (reply->kind == REPLY_STALE && reply->turn == TURN_OURS)
        flight_granted(core, now_us, flight);
    else
        flight_next_round(core, now_us, flight);
}

static void fresh(struct core *core, uint64_t now_us, struct flight *flight, const struct core_reply *reply)
{
    loads_give_place(core, flight);
    flight_deliver(core, now_us, flight, flight->lookup_stamp, flight_cached_result(reply, GUARD_FROM_CACHE));
    bool early =
        flight->first == NULL && hit_is_early(flight->policy, reply->load_us, reply->left_ms, &core->chance);
    if (early)
        flight_refresh_early(core, now_us, flight, reply->head);
    else
        flight_settle(core, now_us, flight);
}

static void failed_recently(struct core *core, uint64_t now_us, struct flight *flight,
                            const struct core_reply *reply)
{
    if (reply->too_big) {
        flight_bypass(core, now_us, flight);
        return;
    }
    loads_give_place(core, flight);
    flight_deliver(core, now_us, flight, flight->lookup_stamp,
                   flight_failure_result(GUARD_FROM_CACHE, reply->failure, reply->pttl_ms));
    flight_settle(core, now_us, flight);
}

/* Nothing there for us and no lease, but there was no place when we asked. */
static void unclaimed(struct core *core, uint64_t now_us, struct flight *flight)
{
    if (flight_take_place(core, now_us, flight)) {
        flight_ask(core, now_us, flight);
        return;
    }
    flight_deliver_all(core, now_us, flight, flight_shed_result());
    flight_end(core, flight);
}

void flight_unwanted_reply(struct core *core, uint64_t now_us, struct flight *flight,
                           const struct core_reply *reply)
{
    bool ours = reply->kind == REPLY_LEASE || (reply->kind == REPLY_STALE && reply->turn == TURN_OURS);
    if (ours || reply->kind == REPLY_UNKNOWN) {
        flight->valid_until_us = flight->sent_us + us(flight->policy->lease_ms);
        flight_release(core, now_us, flight, GUARD_FAILURE_NONE, false);
        return;
    }
    flight_end(core, flight);
}

void flight_acquire_replied(struct core *core, uint64_t now_us, struct flight *flight,
                            const struct core_reply *reply)
{
    flight->born = reply->clock;
    if (reply->kind != REPLY_BUSY)
        flight_waited(core, now_us, flight);
    if (flight->first == NULL) {
        flight_background_replied(core, now_us, flight, reply);
        return;
    }
    if (reply->damaged || reply->outdated) {
        unusable(core, now_us, flight, reply);
        return;
    }
    switch (reply->kind) {
    case REPLY_UNSENT:
        flight_unanswered_acquire(core, now_us, flight);
        return;
    case REPLY_UNKNOWN:
        flight_remember_token(flight);
        flight_unanswered_acquire(core, now_us, flight);
        return;
    case REPLY_CODE:
    case REPLY_REFUSED:
        flight_bypass(core, now_us, flight);
        return;
    case REPLY_BUSY:
        busy(core, now_us, flight, reply);
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
        unclaimed(core, now_us, flight);
    else if (reply->kind == REPLY_FRESH)
        fresh(core, now_us, flight, reply);
    else if (reply->kind == REPLY_STALE)
        flight_found_stale(core, now_us, flight, reply);
    else if (reply->kind == REPLY_LEASE)
        flight_granted(core, now_us, flight);
    else
        failed_recently(core, now_us, flight, reply);
}
