/* SPDX-License-Identifier: MIT */
/*
 * core.c - the events and the tables around the flights: who flies, who joins. See core.h.
 *
 * Every event has the same frame: core_begin() frees the flights that ended in the event before (actions could
 * still point to them), the event happens, end_event() starts the loads that a worker is free for.
 */
#include "core.h"
#include "../base/digest.h"
#include "flight.h"
#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define OWNER_OF(type, member, pointer) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

uint64_t core_stamp(struct core *core)
{
    return ++core->last_stamp;
}

/* ---- flights ---- */

static unsigned hash_of_key(const struct core *core, const char *encoded, size_t encoded_bytes)
{
    return (unsigned)digest_siphash(core->config.hash_key, encoded, encoded_bytes);
}

static struct flight *find_flight(const struct core *core, const char *encoded, size_t encoded_bytes)
{
    struct flight *found = NULL;
    unsigned hash = hash_of_key(core, encoded, encoded_bytes);
    HASH_FIND_BYHASHVALUE(by_key, core->by_key, encoded, encoded_bytes, hash, found);
    return found;
}

static struct flight *find_flight_by_id(const struct core *core, uint64_t id)
{
    struct flight *found = NULL;
    HASH_FIND_BYHASHVALUE(by_id, core->by_id, &id, sizeof id, (unsigned)id, found);
    return found;
}

static struct flight *alloc_flight(struct core *core, const struct core_key *key)
{
    struct flight *flight = calloc(1, sizeof *flight + key->plain_bytes + key->encoded_bytes + 2);
    if (flight == NULL)
        return NULL;
    char *plain = (char *)(flight + 1);
    char *encoded = plain + key->plain_bytes + 1;
    memcpy(plain, key->plain, key->plain_bytes);
    memcpy(encoded, key->encoded, key->encoded_bytes);
    flight->key = (struct core_key){plain, key->plain_bytes, encoded, key->encoded_bytes};
    flight->core = core;
    flight->state = FLIGHT_NEW;
    flight->alarm.owner = ALARM_FLIGHT;
    return flight;
}

/* Into the table of those that can be joined, unless nobody shares in this mode. False: no memory. */
static bool insert_flight_by_key(struct flight *flight)
{
    struct core *core = flight->core;
    if (core->config.mode == GUARD_MODE_OFF)
        return true;
    const struct core_key *key = &flight->key;
    unsigned hash = hash_of_key(core, key->encoded, key->encoded_bytes);
    HASH_ADD_KEYPTR_BYHASHVALUE(by_key, core->by_key, key->encoded, key->encoded_bytes, hash, flight);
    flight->joinable = !flight->unlisted;
    return flight->joinable;
}

static bool insert_flight_by_id(struct flight *flight)
{
    HASH_ADD_BYHASHVALUE(by_id, flight->core->by_id, id, sizeof flight->id, (unsigned)flight->id, flight);
    return !flight->unlisted;
}

/* Undoes insert_flight_by_key(). */
static void remove_flight_by_key(struct flight *flight)
{
    if (flight->joinable)
        HASH_DELETE(by_key, flight->core->by_key, flight);
}

static bool insert_flight(struct flight *flight)
{
    struct core *core = flight->core;
    if (!core_reserve(core))
        return false;
    if (insert_flight_by_key(flight) && insert_flight_by_id(flight))
        return true;
    remove_flight_by_key(flight);
    core_unreserve(core);
    return false;
}

static struct flight *new_flight(struct core *core, const struct core_key *key,
                                 const struct guard_policy *policy)
{
    struct flight *flight = alloc_flight(core, key);
    if (flight == NULL)
        return NULL;
    flight->policy = policy;
    flight->id = ++core->last_id;
    if (!insert_flight(flight)) {
        free(flight);
        return NULL;
    }
    DL_APPEND(core->flights, flight);
    core->stats.flights++;
    return flight;
}

void core_remove_flight(struct flight *flight)
{
    struct core *core = flight->core;
    remove_flight_by_key(flight);
    HASH_DELETE(by_id, core->by_id, flight);
    DL_DELETE(core->flights, flight);
    core->stats.flights--;
    core_unreserve(core);
    flight->next = core->dead;
    core->dead = flight;
}

static void free_dead(struct core *core)
{
    while (core->dead != NULL) {
        struct flight *flight = core->dead;
        core->dead = flight->next;
        free(flight);
    }
}

void core_begin(struct core *core, uint64_t now_us)
{
    core->now_us = now_us;
    free_dead(core);
}

static void end_event(struct core *core)
{
    loads_pump(core, false);
    core->iteration_due = core->iteration_due || core->batched_queued > 0;
}

/* ---- gets ---- */

static struct flight *find_or_new_flight(struct core *core, const struct core_key *key,
                                         const struct guard_policy *policy)
{
    struct flight *flight = find_flight(core, key->encoded, key->encoded_bytes);
    return flight != NULL ? flight : new_flight(core, key, policy);
}

static uint64_t earlier_us(uint64_t a_us, uint64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

/* A nested get keeps half of its time for loading by itself. Who holds a permit waits but briefly: the process that he
 * waits for may be waiting for that very permit. */
static uint64_t time_with_others_us(const struct core *core, uint64_t left_us)
{
    enum { WITH_PERMIT_US = 200000 };
    return core->permits.all != NULL ? earlier_us(left_us / 2, WITH_PERMIT_US) : left_us / 2;
}

static void set_waiter_limits(struct core *core, struct core_waiter *waiter,
                              const struct guard_policy *policy, uint64_t deadline_us)
{
    uint64_t soft_us =
        policy->soft_ms > 0 ? waiter->start_us + (uint64_t)policy->soft_ms * 1000 : deadline_us;
    waiter->deadline_us = waiter->alone_us = deadline_us;
    if (waiter->parent_load != 0 && core->now_us < deadline_us)
        waiter->alone_us = core->now_us + time_with_others_us(core, deadline_us - core->now_us);
    waiter->impatient = false;
    alarm_set(&core->alarms, &waiter->deadline,
              earlier_us(earlier_us(soft_us, waiter->alone_us), deadline_us));
}

static void choose_share(struct flight *flight, bool of_many)
{
    flight->share = of_many ? SHARE_MANY : SHARE_SINGLE;
    flight->batched = of_many && flight->policy->batch_loader != NULL;
    flight->alone = !of_many;
}

/* The first one chooses. A refresh stays where it is queued until it is waited for. */
static void choose_share_with(struct flight *flight, const struct core_waiter *waiter)
{
    bool refresh = flight->state == FLIGHT_QUEUED && flight->queue == QUEUE_REFRESHES;
    if (flight->first == NULL && flight->place_parts == 0)
        choose_share(flight, waiter->of_many);
    flight->alone = flight->alone || !waiter->of_many;
    if (flight->alone && !refresh)
        loads_single_out(flight);
}

static void add_waiter(struct flight *flight, struct core_waiter *waiter)
{
    struct core *core = flight->core;
    choose_share_with(flight, waiter);
    waiter->flight = flight;
    waiter->joined = core_stamp(core);
    waiter->first_round = flight->round;
    waiter->deadline.owner = ALARM_WAITER;
    waiter->deadline.place = 0;
    DL_APPEND(flight->first, waiter);
    core->stats.waiters++;
    core->waiters[waiter->of_many ? SHARE_MANY : SHARE_SINGLE]++;
    if (waiter->parent_load != 0)
        loads_block(flight, waiter);
}

/* He would wait for himself: his own load waits, in the end, for what he asks for. */
static void answer_circle(struct core_waiter *waiter)
{
    core_answer(waiter, &(struct guard_result){.status = GUARD_FAILED, .failure = GUARD_FAILURE_CYCLE});
}

enum guard_status core_get(struct core *core, uint64_t now_us, const struct core_key *key,
                           const struct guard_policy *policy, struct core_waiter *waiter,
                           uint64_t deadline_us)
{
    core_begin(core, now_us);
    if (core->closed)
        return GUARD_CLOSING;
    if (core->waiters[waiter->of_many ? SHARE_MANY : SHARE_SINGLE] >= core->config.max_waiters) {
        core->stats.shed++;
        return GUARD_SHED;
    }
    if (!alarms_reserve(&core->alarms))
        return GUARD_NO_MEMORY;
    struct flight *flight = find_or_new_flight(core, key, policy);
    if (flight == NULL) {
        alarms_unreserve(&core->alarms);
        return GUARD_NO_MEMORY;
    }
    bool circle = waiter->parent_load != 0 && loads_circle(flight, waiter->parent_load);
    add_waiter(flight, waiter);
    set_waiter_limits(core, waiter, policy, deadline_us);
    if (circle)
        answer_circle(waiter);
    else
        flight_joined(flight, waiter);
    end_event(core);
    return GUARD_OK;
}

void core_refresh(struct core *core, uint64_t now_us, const struct core_key *key,
                  const struct guard_policy *policy, const char *filler, bool of_many)
{
    core_begin(core, now_us);
    if (core->closed || find_flight(core, key->encoded, key->encoded_bytes) != NULL)
        return;
    struct flight *flight = new_flight(core, key, policy);
    if (flight != NULL) {
        choose_share(flight, of_many);
        flight_refresh(flight, filler);
    }
    end_event(core);
}

bool core_iteration_due(const struct core *core)
{
    return core->iteration_due;
}

void core_iteration_over(struct core *core, uint64_t now_us)
{
    core_begin(core, now_us);
    core->iteration_due = false;
    core->iteration++;
    loads_pump(core, true);
}

/* Takes one waiter out of its flight before its result is there. */
static void answer_cancelled(struct core_waiter *waiter)
{
    struct flight *flight = waiter->flight;
    core_answer(waiter, &(struct guard_result){.status = GUARD_CANCELLED});
    flight_left(flight);
}

void core_cancel(struct core *core, uint64_t now_us, struct core_waiter *waiter)
{
    core_begin(core, now_us);
    if (waiter->flight != NULL)
        answer_cancelled(waiter);
    end_event(core);
}

/* ---- what came back ---- */

static void tell_breaker(struct core *core, enum core_reply_kind kind)
{
    if (kind == REPLY_UNSENT || kind == REPLY_UNKNOWN)
        breaker_unanswered(&core->breaker, core->now_us, &core->chance);
    else
        breaker_answered(&core->breaker);
}

void core_replied(struct core *core, uint64_t now_us, uint64_t op, const struct core_reply *reply)
{
    core_begin(core, now_us);
    tell_breaker(core, reply->kind);
    struct flight *flight = find_flight_by_id(core, op >> CORE_OP_BITS);
    if (flight != NULL) {
        flight_replied(flight, op, reply);
    } else if (!permits_replied(core, op, reply)) {
        struct core_invalidation *invalidation = core_find_invalidation(core, op);
        if (invalidation != NULL)
            core_invalidation_replied(core, invalidation, reply);
    }
    end_event(core);
}

void core_loaded(struct core *core, uint64_t now_us, uint64_t id, const struct core_loaded *loaded)
{
    core_begin(core, now_us);
    struct load *load = loads_find(core, id);
    assert(load != NULL);
    core_histogram_add(&core->stats.load_duration, loaded->load_us);
    if (load->flight != NULL)
        lease_load_ended(load->flight, loaded);
    else
        loads_free(core, load);
    end_event(core);
}

void core_woken(struct core *core, uint64_t now_us, const char *encoded, size_t encoded_bytes, bool gone)
{
    core_begin(core, now_us);
    core->stats.wake_messages++;
    struct flight *flight = find_flight(core, encoded, encoded_bytes);
    if (flight != NULL)
        flight_woken(flight, gone);
    end_event(core);
}

void core_pushed(struct core *core, uint64_t now_us, const char *encoded, size_t encoded_bytes,
                 const struct core_pushed *pushed)
{
    core_begin(core, now_us);
    core->stats.wake_messages++;
    struct flight *flight = find_flight(core, encoded, encoded_bytes);
    if (flight != NULL && flight_awaits(flight, pushed->lease_tag))
        flight_pushed(flight, pushed);
    else if (flight != NULL)
        flight_woken(flight, false);
    end_event(core);
}

const struct core_key *core_awaits(const struct core *core, const char *encoded, size_t encoded_bytes,
                                   const char *lease_tag)
{
    const struct flight *flight = find_flight(core, encoded, encoded_bytes);
    return flight != NULL && flight_awaits(flight, lease_tag) ? &flight->key : NULL;
}

void core_permit_freed(struct core *core, uint64_t now_us, const char *waiter, size_t waiter_bytes)
{
    core_begin(core, now_us);
    permits_freed(core, waiter, waiter_bytes);
    end_event(core);
}

void core_resync(struct core *core, uint64_t now_us)
{
    core_begin(core, now_us);
    permits_resync(core);
    for (struct flight *flight = core->flights; flight != NULL; flight = flight->next)
        flight_resync(flight);
}

void core_link(struct core *core, uint64_t now_us, bool up)
{
    core->now_us = now_us;
    breaker_link(&core->breaker, now_us, up);
    if (up)
        permits_linked(core);
}

/* ---- time ---- */

uint64_t core_next_us(const struct core *core)
{
    const struct alarm *alarm = alarms_first(&core->alarms);
    return alarm != NULL ? alarm->at_us : UINT64_MAX;
}

static void ring_waiter(struct core *core, struct core_waiter *waiter)
{
    if (core->now_us < waiter->deadline_us)
        stale_soft_limit(waiter->flight, waiter);
    else
        stale_hard_limit(waiter->flight, waiter);
}

static void ring_alarm(struct core *core, struct alarm *alarm)
{
    alarm_unset(&core->alarms, alarm);
    switch (alarm->owner) {
    case ALARM_WAITER:
        ring_waiter(core, OWNER_OF(struct core_waiter, deadline, alarm));
        break;
    case ALARM_FLIGHT:
        flight_alarm(OWNER_OF(struct flight, alarm, alarm));
        break;
    case ALARM_INVALIDATION:
        core_invalidation_rings(core, OWNER_OF(struct core_invalidation, retry, alarm));
        break;
    case ALARM_PERMIT:
        permits_alarm(core, OWNER_OF(struct permit, alarm, alarm));
        break;
    case ALARM_PERMITS:
        permits_poll(core);
        break;
    }
}

void core_tick(struct core *core, uint64_t now_us)
{
    core_begin(core, now_us);
    struct alarm *alarm = alarms_first(&core->alarms);
    while (alarm != NULL && alarm->at_us <= now_us) {
        ring_alarm(core, alarm);
        alarm = alarms_first(&core->alarms);
    }
    end_event(core);
}

/* ---- life ---- */

static void free_core(struct core **core)
{
    alarms_clear(&(*core)->alarms);
    permits_clear(*core);
    free((*core)->actions);
    free((*core)->unperformed);
    free(*core);
    *core = NULL;
}

struct core *core_new(const struct core_config *config)
{
    struct core *core = calloc(1, sizeof *core);
    if (core == NULL)
        return NULL;
    core->config = *config;
    core->chance.state = config->seed;
    if (!permits_open(core))
        free_core(&core);
    return core;
}

void core_free(struct core **core)
{
    if (*core == NULL)
        return;
    assert(core_idle(*core) && (*core)->answered == NULL && (*core)->invalidated == NULL);
    free_dead(*core);
    free_core(core);
}

void core_close(struct core *core, uint64_t now_us)
{
    core_begin(core, now_us);
    core->closed = true;
    struct flight *flight = NULL, *next = NULL;
    DL_FOREACH_SAFE (core->flights, flight, next)
        flight_close(flight);
    while (core->invalidations != NULL)
        core_answer_invalidation(core, core->invalidations, GUARD_CLOSING);
    permits_balance(core);
}

bool core_has_waiters(const struct core *core)
{
    return core->stats.waiters > 0 || core->invalidations != NULL;
}

bool core_drained(const struct core *core)
{
    for (const struct flight *flight = core->flights; flight != NULL; flight = flight->next)
        if (flight->state != FLIGHT_COOLING && flight->state != FLIGHT_RESTING)
            return false;
    return core->loads == NULL;
}

bool core_idle(const struct core *core)
{
    return core->flights == NULL && core->loads == NULL && core->invalidations == NULL && permits_idle(core);
}

void core_stats(const struct core *core, struct guard_stats *out)
{
    *out = core->stats;
    out->breaker_open = core->breaker.state != BREAKER_CLOSED;
    out->breaker_opened = core->breaker.opened_count;
}
