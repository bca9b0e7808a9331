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

static struct flight *find_by_key(const struct core *core, const char *encoded, size_t encoded_bytes)
{
    struct flight *found = NULL;
    unsigned hash = hash_of_key(core, encoded, encoded_bytes);
    HASH_FIND_BYHASHVALUE(by_key, core->by_key, encoded, encoded_bytes, hash, found);
    return found;
}

static struct flight *find_by_id(const struct core *core, uint64_t id)
{
    struct flight *found = NULL;
    HASH_FIND_BYHASHVALUE(by_id, core->by_id, &id, sizeof id, (unsigned)id, found);
    return found;
}

static struct flight *flight_alloc(const struct core_key *key)
{
    struct flight *flight = calloc(1, sizeof *flight + key->plain_bytes + key->encoded_bytes + 2);
    if (flight == NULL)
        return NULL;
    char *plain = (char *)(flight + 1);
    char *encoded = plain + key->plain_bytes + 1;
    memcpy(plain, key->plain, key->plain_bytes);
    memcpy(encoded, key->encoded, key->encoded_bytes);
    flight->key = (struct core_key){plain, key->plain_bytes, encoded, key->encoded_bytes};
    flight->state = FLIGHT_NEW;
    flight->alarm.owner = ALARM_FLIGHT;
    return flight;
}

/* Into the table of those that can be joined, unless nobody shares in this mode. False: no memory. */
static bool insert_by_key(struct core *core, struct flight *flight)
{
    if (core->config.mode == GUARD_MODE_OFF)
        return true;
    const struct core_key *key = &flight->key;
    unsigned hash = hash_of_key(core, key->encoded, key->encoded_bytes);
    HASH_ADD_KEYPTR_BYHASHVALUE(by_key, core->by_key, key->encoded, key->encoded_bytes, hash, flight);
    flight->joinable = !flight->unlisted;
    return flight->joinable;
}

static bool insert_by_id(struct core *core, struct flight *flight)
{
    HASH_ADD_BYHASHVALUE(by_id, core->by_id, id, sizeof flight->id, (unsigned)flight->id, flight);
    return !flight->unlisted;
}

/* Undoes insert_by_key(). */
static void remove_by_key(struct core *core, struct flight *flight)
{
    if (flight->joinable)
        HASH_DELETE(by_key, core->by_key, flight);
}

static bool insert(struct core *core, struct flight *flight)
{
    if (!core_reserve_owner(core))
        return false;
    if (insert_by_key(core, flight) && insert_by_id(core, flight))
        return true;
    remove_by_key(core, flight);
    core_unreserve_owner(core);
    return false;
}

static struct flight *flight_new(struct core *core, const struct core_key *key,
                                 const struct guard_policy *policy)
{
    struct flight *flight = flight_alloc(key);
    if (flight == NULL)
        return NULL;
    flight->policy = policy;
    flight->id = ++core->last_id;
    if (!insert(core, flight)) {
        free(flight);
        return NULL;
    }
    DL_APPEND(core->flights, flight);
    core->stats.flights++;
    return flight;
}

void core_end_flight(struct core *core, struct flight *flight)
{
    remove_by_key(core, flight);
    HASH_DELETE(by_id, core->by_id, flight);
    DL_DELETE(core->flights, flight);
    core->stats.flights--;
    core_unreserve_owner(core);
    flight->next = core->dead;
    core->dead = flight;
}

void core_begin(struct core *core)
{
    while (core->dead != NULL) {
        struct flight *flight = core->dead;
        core->dead = flight->next;
        free(flight);
    }
}

static void end_event(struct core *core, uint64_t now_us)
{
    loads_pump(core, now_us, false);
    core->turn_due = core->turn_due || core->batched_queued > 0;
}

/* ---- gets ---- */

static struct flight *find_or_new(struct core *core, const struct core_key *key,
                                  const struct guard_policy *policy)
{
    struct flight *flight = find_by_key(core, key->encoded, key->encoded_bytes);
    return flight != NULL ? flight : flight_new(core, key, policy);
}

static uint64_t earlier(uint64_t a_us, uint64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

/* A nested get keeps half of its time for loading by itself. Who holds a permit waits but briefly: the process that he
 * waits for may be waiting for that very permit. */
static uint64_t time_with_others_us(const struct core *core, uint64_t left_us)
{
    enum { WITH_PERMIT_US = 200000 };
    return core->permits.all != NULL ? earlier(left_us / 2, WITH_PERMIT_US) : left_us / 2;
}

static void set_limits(struct core *core, uint64_t now_us, struct core_waiter *waiter,
                       const struct guard_policy *policy, uint64_t deadline_us)
{
    uint64_t soft_us =
        policy->soft_ms > 0 ? waiter->start_us + (uint64_t)policy->soft_ms * 1000 : deadline_us;
    waiter->deadline_us = waiter->alone_us = deadline_us;
    if (waiter->parent_load != 0 && now_us < deadline_us)
        waiter->alone_us = now_us + time_with_others_us(core, deadline_us - now_us);
    waiter->impatient = false;
    alarm_set(&core->alarms, &waiter->deadline, earlier(earlier(soft_us, waiter->alone_us), deadline_us));
}

static void choose_share(struct flight *flight, bool of_many)
{
    flight->share = of_many ? SHARE_MANY : SHARE_SINGLE;
    flight->batched = of_many && flight->policy->batch_loader != NULL;
    flight->alone = !of_many;
}

/* The first one chooses. A refresh stays where it is queued until it is waited for. */
static void share_with(struct core *core, struct flight *flight, const struct core_waiter *waiter)
{
    bool refresh = flight->state == FLIGHT_QUEUED && flight->line == LINE_REFRESHES;
    if (flight->first == NULL && flight->place_parts == 0)
        choose_share(flight, waiter->of_many);
    flight->alone = flight->alone || !waiter->of_many;
    if (flight->alone && !refresh)
        loads_single_out(core, flight);
}

static void attach(struct core *core, struct flight *flight, struct core_waiter *waiter)
{
    share_with(core, flight, waiter);
    waiter->flight = flight;
    waiter->joined = core_stamp(core);
    waiter->first_round = flight->round;
    waiter->deadline.owner = ALARM_WAITER;
    waiter->deadline.place = 0;
    DL_APPEND(flight->first, waiter);
    core->stats.waiters++;
    core->waiters[waiter->of_many ? SHARE_MANY : SHARE_SINGLE]++;
    if (waiter->parent_load != 0)
        loads_block(core, flight, waiter);
}

/* He would wait for himself: his own load waits, in the end, for what he asks for. */
static void answer_circle(struct core *core, uint64_t now_us, struct core_waiter *waiter)
{
    core_answer(core, now_us, waiter,
                &(struct guard_result){.status = GUARD_FAILED, .failure = GUARD_FAILURE_CYCLE});
}

enum guard_status core_get(struct core *core, uint64_t now_us, const struct core_key *key,
                           const struct guard_policy *policy, struct core_waiter *waiter,
                           uint64_t deadline_us)
{
    core_begin(core);
    if (core->closed)
        return GUARD_CLOSING;
    if (core->waiters[waiter->of_many ? SHARE_MANY : SHARE_SINGLE] >= core->config.max_waiters) {
        core->stats.shed++;
        return GUARD_SHED;
    }
    if (!alarms_reserve(&core->alarms))
        return GUARD_NO_MEMORY;
    struct flight *flight = find_or_new(core, key, policy);
    if (flight == NULL) {
        alarms_unreserve(&core->alarms);
        return GUARD_NO_MEMORY;
    }
    bool circle = waiter->parent_load != 0 && loads_circle(core, flight, waiter->parent_load);
    attach(core, flight, waiter);
    set_limits(core, now_us, waiter, policy, deadline_us);
    if (circle)
        answer_circle(core, now_us, waiter);
    else
        flight_joined(core, now_us, flight, waiter);
    end_event(core, now_us);
    return GUARD_OK;
}

static void refresh_key(struct core *core, uint64_t now_us, const struct core_key *key,
                        const struct guard_policy *policy, const char *filler, bool of_many)
{
    core_begin(core);
    if (core->closed || find_by_key(core, key->encoded, key->encoded_bytes) != NULL)
        return;
    struct flight *flight = flight_new(core, key, policy);
    if (flight != NULL) {
        choose_share(flight, of_many);
        flight_refresh(core, now_us, flight, filler);
    }
    end_event(core, now_us);
}

void core_refresh(struct core *core, uint64_t now_us, const struct core_key *key,
                  const struct guard_policy *policy, const char *filler)
{
    refresh_key(core, now_us, key, policy, filler, false);
}

void core_refresh_many(struct core *core, uint64_t now_us, const struct core_key *key,
                       const struct guard_policy *policy, const char *filler)
{
    refresh_key(core, now_us, key, policy, filler, true);
}

bool core_turn_due(const struct core *core)
{
    return core->turn_due;
}

void core_turn_over(struct core *core, uint64_t now_us)
{
    core_begin(core);
    core->turn_due = false;
    core->turn++;
    loads_pump(core, now_us, true);
}

/* Takes one waiter out of its flight before its result is there. */
static void answer_cancelled(struct core *core, uint64_t now_us, struct core_waiter *waiter)
{
    struct flight *flight = waiter->flight;
    core_answer(core, now_us, waiter, &(struct guard_result){.status = GUARD_CANCELLED});
    flight_left(core, now_us, flight);
}

void core_cancel(struct core *core, uint64_t now_us, struct core_waiter *waiter)
{
    core_begin(core);
    if (waiter->flight != NULL)
        answer_cancelled(core, now_us, waiter);
    end_event(core, now_us);
}

/* ---- what came back ---- */

static void tell_breaker(struct core *core, uint64_t now_us, enum core_reply_kind kind)
{
    if (kind == REPLY_UNSENT || kind == REPLY_UNKNOWN)
        breaker_unanswered(&core->breaker, now_us, &core->chance);
    else
        breaker_answered(&core->breaker);
}

void core_replied(struct core *core, uint64_t now_us, uint64_t op, const struct core_reply *reply)
{
    core_begin(core);
    tell_breaker(core, now_us, reply->kind);
    struct flight *flight = find_by_id(core, op >> CORE_OP_BITS);
    if (flight != NULL) {
        flight_replied(core, now_us, flight, op, reply);
    } else if (!permits_replied(core, now_us, op, reply)) {
        struct core_invalidation *invalidation = core_find_invalidation(core, op);
        if (invalidation != NULL)
            core_invalidation_replied(core, now_us, invalidation, reply);
    }
    end_event(core, now_us);
}

void core_loaded(struct core *core, uint64_t now_us, uint64_t id, const struct core_loaded *loaded)
{
    core_begin(core);
    struct load *load = loads_find(core, id);
    assert(load != NULL);
    core_histogram_add(&core->stats.load_duration, loaded->load_us);
    if (load->flight != NULL)
        flight_loaded(core, now_us, load->flight, loaded);
    else
        loads_free(core, now_us, load);
    end_event(core, now_us);
}

void core_woken(struct core *core, uint64_t now_us, const char *encoded, size_t encoded_bytes, bool gone)
{
    core_begin(core);
    core->stats.wake_messages++;
    struct flight *flight = find_by_key(core, encoded, encoded_bytes);
    if (flight != NULL)
        flight_woken(core, now_us, flight, gone);
    end_event(core, now_us);
}

void core_pushed(struct core *core, uint64_t now_us, const char *encoded, size_t encoded_bytes,
                 const struct core_pushed *pushed)
{
    core_begin(core);
    core->stats.wake_messages++;
    struct flight *flight = find_by_key(core, encoded, encoded_bytes);
    if (flight != NULL && flight_awaits(flight, pushed->lease_tag))
        flight_pushed(core, now_us, flight, pushed);
    else if (flight != NULL)
        flight_woken(core, now_us, flight, false);
    end_event(core, now_us);
}

const struct core_key *core_awaits(const struct core *core, const char *encoded, size_t encoded_bytes,
                                   const char *lease_tag)
{
    const struct flight *flight = find_by_key(core, encoded, encoded_bytes);
    return flight != NULL && flight_awaits(flight, lease_tag) ? &flight->key : NULL;
}

void core_permit_freed(struct core *core, uint64_t now_us, const char *waiter, size_t waiter_bytes)
{
    core_begin(core);
    permits_freed(core, waiter, waiter_bytes);
    end_event(core, now_us);
}

void core_resync(struct core *core, uint64_t now_us)
{
    core_begin(core);
    permits_resync(core, now_us);
    for (struct flight *flight = core->flights; flight != NULL; flight = flight->next)
        flight_resync(core, now_us, flight);
}

void core_link(struct core *core, uint64_t now_us, bool up)
{
    breaker_link(&core->breaker, now_us, up);
    if (up)
        permits_linked(core, now_us);
}

/* ---- time ---- */

uint64_t core_next_us(const struct core *core)
{
    const struct alarm *alarm = alarms_first(&core->alarms);
    return alarm != NULL ? alarm->at_us : UINT64_MAX;
}

static void waiter_rings(struct core *core, uint64_t now_us, struct core_waiter *waiter)
{
    if (now_us < waiter->deadline_us)
        flight_soft_limit(core, now_us, waiter->flight, waiter);
    else
        flight_hard_limit(core, now_us, waiter->flight, waiter);
}

static void ring(struct core *core, uint64_t now_us, struct alarm *alarm)
{
    alarm_unset(&core->alarms, alarm);
    switch (alarm->owner) {
    case ALARM_WAITER:
        waiter_rings(core, now_us, OWNER_OF(struct core_waiter, deadline, alarm));
        break;
    case ALARM_FLIGHT:
        flight_alarm(core, now_us, OWNER_OF(struct flight, alarm, alarm));
        break;
    case ALARM_INVALIDATION:
        core_invalidation_rings(core, now_us, OWNER_OF(struct core_invalidation, retry, alarm));
        break;
    case ALARM_PERMIT:
        permits_alarm(core, now_us, OWNER_OF(struct permit, alarm, alarm));
        break;
    case ALARM_PERMITS:
        permits_poll(core);
        break;
    }
}

void core_tick(struct core *core, uint64_t now_us)
{
    core_begin(core);
    struct alarm *alarm = alarms_first(&core->alarms);
    while (alarm != NULL && alarm->at_us <= now_us) {
        ring(core, now_us, alarm);
        alarm = alarms_first(&core->alarms);
    }
    end_event(core, now_us);
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
    core_begin(*core);
    free_core(core);
}

void core_close(struct core *core, uint64_t now_us)
{
    core_begin(core);
    core->closed = true;
    struct flight *flight = NULL, *next = NULL;
    DL_FOREACH_SAFE (core->flights, flight, next)
        flight_close(core, now_us, flight);
    while (core->invalidations != NULL)
        core_answer_invalidation(core, core->invalidations, GUARD_CLOSING);
    permits_balance(core, now_us);
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
