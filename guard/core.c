/* SPDX-License-Identifier: MIT */
/*
 * core.c - the tables around the flights: who flies, who waits, what is to be done. See core.h.
 *
 * Every event has the same frame: begin() frees the flights that ended in the event before (actions could
 * still point to them), the event happens, end_event() starts the loads that a worker is free for.
 */
#include "core.h"
#include "digest.h"
#include "flight.h"
#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
    ACTIONS_PER_OWNER = 4, /* the most that one event makes one flight or invalidation ask for */
    INVALIDATE_FIRST_MS = 20,
    INVALIDATE_MOST_MS = 500,
};

static const uint64_t HISTOGRAM_BOUNDS_US[] = GUARD_HISTOGRAM_BOUNDS_US;
_Static_assert(sizeof HISTOGRAM_BOUNDS_US / sizeof *HISTOGRAM_BOUNDS_US == GUARD_HISTOGRAM_BUCKETS - 1,
               "the last bucket has no bound");

#define OWNER_OF(type, member, pointer) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* ---- services to flight*.c and loads.c ---- */

uint64_t core_stamp(struct core *core)
{
    return ++core->last_stamp;
}

size_t core_histogram_bucket(uint64_t span_us)
{
    size_t bucket = 0;
    while (bucket < GUARD_HISTOGRAM_BUCKETS - 1 && span_us > HISTOGRAM_BOUNDS_US[bucket])
        bucket++;
    return bucket;
}

void core_histogram_add(struct guard_histogram *histogram, uint64_t span_us)
{
    histogram->count[core_histogram_bucket(span_us)]++;
    histogram->sum_us += span_us;
}

void core_emit(struct core *core, const struct core_action *action)
{
    assert(core->action_count < core->action_capacity);
    uint32_t at = (core->action_first + core->action_count) % core->action_capacity;
    core->actions[at] = *action;
    core->action_count++;
}

static uint64_t *count_of_cached(struct guard_stats *stats, const struct guard_result *result)
{
    if (result->status == GUARD_OK)
        return &stats->hit;
    return result->status == GUARD_ABSENT ? &stats->absent_hit : &stats->failed_hit;
}

static uint64_t *count_of_answered(struct guard_stats *stats, const struct guard_result *result)
{
    switch (result->source) {
    case GUARD_FROM_CACHE:
        return count_of_cached(stats, result);
    case GUARD_FROM_STALE:
        return &stats->stale;
    case GUARD_FROM_LOAD:
        return &stats->loaded;
    case GUARD_FROM_FLIGHT:
        return &stats->collapsed_process;
    case GUARD_FROM_FLEET:
        return &stats->collapsed_fleet;
    case GUARD_FROM_NEAR: /* never reaches the core */
    case GUARD_FROM_NOWHERE:
        break;
    }
    return &stats->failed;
}

static uint64_t *count_of(struct guard_stats *stats, const struct guard_result *result)
{
    switch (result->status) {
    case GUARD_OK:
    case GUARD_ABSENT:
        return count_of_answered(stats, result);
    case GUARD_FAILED:
        return result->source == GUARD_FROM_CACHE ? &stats->failed_hit : &stats->failed;
    case GUARD_SHED:
        return &stats->shed;
    case GUARD_TIMEOUT:
        return &stats->timed_out;
    case GUARD_CANCELLED:
        return &stats->cancelled;
    case GUARD_CLOSING:
        return &stats->closed;
    case GUARD_UNKNOWN:
    case GUARD_INVALID:
    case GUARD_NO_MEMORY:
        break;
    }
    return &stats->failed;
}

/* A load whose thread runs it: its loader waits here. It is there for as long as that loader runs. */
static void remember_asker(struct core *core, struct flight *flight, struct core_waiter *waiter)
{
    struct load *load = loads_find(core, waiter->asker);
    flight->asker_count++;
    core->asker_count++;
    if (load != NULL)
        load->asking = waiter;
}

static void forget_asker(struct core *core, struct flight *flight, const struct core_waiter *waiter)
{
    struct load *load = loads_find(core, waiter->asker);
    flight->asker_count--;
    core->asker_count--;
    if (load != NULL)
        load->asking = NULL;
}

void core_answer(struct core *core, uint64_t now_us, struct core_waiter *waiter,
                 const struct guard_result *result)
{
    struct flight *flight = waiter->flight;
    DL_DELETE(flight->first, waiter);
    waiter->flight = NULL;
    alarm_unset(&core->alarms, &waiter->deadline);
    alarms_unreserve(&core->alarms);
    if (waiter->asker != 0)
        forget_asker(core, flight, waiter);
    waiter->result = *result;
    if (result->value != NULL)
        guard_value_ref(result->value);
    core->stats.waiters--;
    (*count_of(&core->stats, result))++;
    core_histogram_add(&core->stats.get_duration, now_us - waiter->start_us);
    waiter->next = NULL;
    if (core->answered_last != NULL)
        core->answered_last->next = waiter;
    else
        core->answered_first = waiter;
    core->answered_last = waiter;
}

/* ---- room for actions and alarms ---- */

static bool grow_actions(struct core *core, uint32_t capacity)
{
    struct unperformed *unperformed = realloc(core->unperformed, capacity * sizeof *unperformed);
    if (unperformed == NULL)
        return false;
    core->unperformed = unperformed;
    struct core_action *actions = malloc(capacity * sizeof *actions);
    if (actions == NULL)
        return false;
    for (uint32_t i = 0; i < core->action_count; i++)
        actions[i] = core->actions[(core->action_first + i) % core->action_capacity];
    free(core->actions);
    core->actions = actions;
    core->action_first = 0;
    core->action_capacity = capacity;
    return true;
}

/* Room for everything one more flight or invalidation may ever ask for at once. */
static bool reserve_owner(struct core *core)
{
    uint32_t needed = (core->action_owners + 1) * ACTIONS_PER_OWNER;
    if (needed > core->action_capacity && !grow_actions(core, needed * 2))
        return false;
    if (!alarms_reserve(&core->alarms))
        return false;
    core->action_owners++;
    return true;
}

static void unreserve_owner(struct core *core)
{
    core->action_owners--;
    alarms_unreserve(&core->alarms);
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
    if (!reserve_owner(core))
        return false;
    if (insert_by_key(core, flight) && insert_by_id(core, flight))
        return true;
    remove_by_key(core, flight);
    unreserve_owner(core);
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
    unreserve_owner(core);
    flight->next = core->dead;
    core->dead = flight;
}

static void begin(struct core *core)
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
    core->turn_due = core->turn_due || core->gathering > 0;
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

/* A nested get keeps half of its time for loading by itself. */
static void set_limits(struct core *core, uint64_t now_us, struct core_waiter *waiter,
                       const struct guard_policy *policy, uint64_t deadline_us)
{
    uint64_t soft_us =
        policy->soft_ms > 0 ? waiter->start_us + (uint64_t)policy->soft_ms * 1000 : deadline_us;
    waiter->deadline_us = waiter->alone_us = deadline_us;
    if (waiter->asker != 0 && now_us < deadline_us)
        waiter->alone_us = now_us + (deadline_us - now_us) / 2;
    waiter->impatient = false;
    alarm_set(&core->alarms, &waiter->deadline, earlier(earlier(soft_us, waiter->alone_us), deadline_us));
}

static void attach(struct core *core, struct flight *flight, struct core_waiter *waiter)
{
    waiter->flight = flight;
    waiter->joined = core_stamp(core);
    waiter->first_round = flight->round;
    flight->gathers = flight->gathers || (waiter->together && flight->policy->batch_loader != NULL &&
                                          flight->state != FLIGHT_QUEUED);
    waiter->deadline.owner = ALARM_WAITER;
    waiter->deadline.place = 0;
    DL_APPEND(flight->first, waiter);
    core->stats.waiters++;
    if (waiter->asker != 0)
        remember_asker(core, flight, waiter);
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
    begin(core);
    if (core->closed)
        return GUARD_CLOSING;
    if (core->stats.waiters >= core->config.max_waiters) {
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
    bool circle = waiter->asker != 0 && loads_circle(core, flight, waiter->asker);
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
                        const struct guard_policy *policy, const char *filler, bool together)
{
    begin(core);
    if (core->closed || find_by_key(core, key->encoded, key->encoded_bytes) != NULL)
        return;
    struct flight *flight = flight_new(core, key, policy);
    if (flight != NULL) {
        flight->gathers = together && policy->batch_loader != NULL;
        flight_refresh(core, now_us, flight, filler);
    }
    end_event(core, now_us);
}

void core_refresh(struct core *core, uint64_t now_us, const struct core_key *key,
                  const struct guard_policy *policy, const char *filler)
{
    refresh_key(core, now_us, key, policy, filler, false);
}

void core_refresh_together(struct core *core, uint64_t now_us, const struct core_key *key,
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
    begin(core);
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
    begin(core);
    if (waiter->flight != NULL)
        answer_cancelled(core, now_us, waiter);
    end_event(core, now_us);
}

struct core_waiter *core_next_answer(struct core *core)
{
    struct core_waiter *waiter = core->answered_first;
    if (waiter == NULL)
        return NULL;
    core->answered_first = waiter->next;
    if (core->answered_first == NULL)
        core->answered_last = NULL;
    waiter->next = NULL;
    return waiter;
}

bool core_next_action(struct core *core, struct core_action *out)
{
    if (core->action_count == 0)
        return false;
    *out = core->actions[core->action_first];
    core->action_first = (core->action_first + 1) % core->action_capacity;
    core->action_count--;
    return true;
}

void core_unperformed(struct core *core, const struct core_action *action)
{
    assert(core->unperformed_count < core->action_capacity);
    core->unperformed[core->unperformed_count++] = (struct unperformed){action->op, action->load};
}

bool core_tell_unperformed(struct core *core, uint64_t now_us)
{
    if (core->unperformed_count == 0)
        return false;
    struct unperformed last = core->unperformed[--core->unperformed_count];
    if (last.op != 0)
        core_replied(core, now_us, last.op, &(struct core_reply){.kind = REPLY_UNSENT});
    else
        core_loaded(core, now_us, last.load,
                    &(struct core_loaded){.outcome = LOAD_FAILED, .failure = GUARD_FAILURE_INTERNAL});
    return true;
}

/* ---- invalidations: sent until Redis says that it has happened ---- */

static void send_invalidation(struct core *core, struct core_invalidation *invalidation)
{
    invalidation->op = invalidation->id << CORE_OP_BITS | ++invalidation->attempts;
    core_emit(core, &(struct core_action){
                        .kind = CORE_INVALIDATE, .op = invalidation->op, .key = invalidation->key});
    alarm_set(&core->alarms, &invalidation->retry, invalidation->deadline_us);
}

static void answer_invalidation(struct core *core, struct core_invalidation *invalidation,
                                enum guard_status status)
{
    DL_DELETE(core->invalidations, invalidation);
    HASH_DELETE(by_id, core->invalidations_by_id, invalidation);
    alarm_unset(&core->alarms, &invalidation->retry);
    unreserve_owner(core);
    invalidation->result.status = status;
    core->stats.invalidated += status == GUARD_OK;
    core->stats.invalidate_unknown += status != GUARD_OK;
    invalidation->next = NULL;
    if (core->invalidated_last != NULL)
        core->invalidated_last->next = invalidation;
    else
        core->invalidated_first = invalidation;
    core->invalidated_last = invalidation;
}

static bool list_invalidation(struct core *core, struct core_invalidation *invalidation)
{
    if (!reserve_owner(core))
        return false;
    HASH_ADD_BYHASHVALUE(by_id, core->invalidations_by_id, id, sizeof invalidation->id,
                         (unsigned)invalidation->id, invalidation);
    if (invalidation->unlisted) {
        unreserve_owner(core);
        return false;
    }
    DL_APPEND(core->invalidations, invalidation);
    return true;
}

enum guard_status core_invalidate(struct core *core, uint64_t now_us, struct core_invalidation *invalidation)
{
    (void)now_us;
    begin(core);
    if (core->closed)
        return GUARD_CLOSING;
    invalidation->id = ++core->last_id;
    invalidation->unlisted = false;
    invalidation->retry = (struct alarm){.owner = ALARM_INVALIDATION};
    invalidation->attempts = 0;
    invalidation->result = (struct guard_invalidated){.status = GUARD_OK};
    if (!list_invalidation(core, invalidation))
        return GUARD_NO_MEMORY;
    send_invalidation(core, invalidation);
    return GUARD_OK;
}

static void invalidation_replied(struct core *core, uint64_t now_us, struct core_invalidation *invalidation,
                                 const struct core_reply *reply)
{
    invalidation->op = 0;
    if (reply->kind == REPLY_CODE) {
        /* an earlier attempt whose reply was lost may have done it: what that one found is not known */
        invalidation->result.value_dropped = (reply->code & 1) != 0;
        invalidation->result.load_voided = (reply->code & 2) != 0;
        answer_invalidation(core, invalidation, GUARD_OK);
        return;
    }
    uint32_t pause_ms =
        chance_backoff(&core->chance, INVALIDATE_FIRST_MS, INVALIDATE_MOST_MS, invalidation->attempts - 1);
    uint64_t at_us = now_us + (uint64_t)pause_ms * 1000;
    if (at_us >= invalidation->deadline_us)
        answer_invalidation(core, invalidation, GUARD_UNKNOWN);
    else
        alarm_set(&core->alarms, &invalidation->retry, at_us);
}

/* It is time for the next attempt, or over. */
static void invalidation_rings(struct core *core, uint64_t now_us, struct core_invalidation *invalidation)
{
    if (now_us >= invalidation->deadline_us)
        answer_invalidation(core, invalidation, GUARD_UNKNOWN);
    else
        send_invalidation(core, invalidation);
}

struct core_invalidation *core_next_invalidated(struct core *core)
{
    struct core_invalidation *invalidation = core->invalidated_first;
    if (invalidation == NULL)
        return NULL;
    core->invalidated_first = invalidation->next;
    if (core->invalidated_first == NULL)
        core->invalidated_last = NULL;
    return invalidation;
}

static struct core_invalidation *find_invalidation(const struct core *core, uint64_t op)
{
    uint64_t id = op >> CORE_OP_BITS;
    struct core_invalidation *found = NULL;
    HASH_FIND_BYHASHVALUE(by_id, core->invalidations_by_id, &id, sizeof id, (unsigned)id, found);
    return found != NULL && found->op == op ? found : NULL;
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
    begin(core);
    tell_breaker(core, now_us, reply->kind);
    struct flight *flight = find_by_id(core, op >> CORE_OP_BITS);
    if (flight != NULL) {
        flight_replied(core, now_us, flight, op, reply);
    } else {
        struct core_invalidation *invalidation = find_invalidation(core, op);
        if (invalidation != NULL)
            invalidation_replied(core, now_us, invalidation, reply);
    }
    end_event(core, now_us);
}

void core_loaded(struct core *core, uint64_t now_us, uint64_t id, const struct core_loaded *loaded)
{
    begin(core);
    struct load *load = loads_find(core, id);
    assert(load != NULL);
    core_histogram_add(&core->stats.load_duration, loaded->load_us);
    if (load->flight != NULL)
        flight_loaded(core, now_us, load->flight, loaded);
    else
        loads_free(core, load);
    end_event(core, now_us);
}

void core_woken(struct core *core, uint64_t now_us, const char *encoded, size_t encoded_bytes, bool gone)
{
    begin(core);
    core->stats.wake_messages++;
    struct flight *flight = find_by_key(core, encoded, encoded_bytes);
    if (flight != NULL)
        flight_woken(core, now_us, flight, gone);
    end_event(core, now_us);
}

void core_resync(struct core *core, uint64_t now_us)
{
    begin(core);
    for (struct flight *flight = core->flights; flight != NULL; flight = flight->next)
        flight_resync(core, now_us, flight);
}

void core_link(struct core *core, uint64_t now_us, bool up)
{
    breaker_link(&core->breaker, now_us, up);
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
        invalidation_rings(core, now_us, OWNER_OF(struct core_invalidation, retry, alarm));
        break;
    }
}

void core_tick(struct core *core, uint64_t now_us)
{
    begin(core);
    struct alarm *alarm = alarms_first(&core->alarms);
    while (alarm != NULL && alarm->at_us <= now_us) {
        ring(core, now_us, alarm);
        alarm = alarms_first(&core->alarms);
    }
    end_event(core, now_us);
}

/* ---- life ---- */

struct core *core_new(const struct core_config *config)
{
    struct core *core = calloc(1, sizeof *core);
    if (core == NULL)
        return NULL;
    core->config = *config;
    core->chance.state = config->seed;
    return core;
}

void core_free(struct core **core)
{
    if (*core == NULL)
        return;
    assert(core_idle(*core) && (*core)->answered_first == NULL && (*core)->invalidated_first == NULL);
    begin(*core);
    alarms_clear(&(*core)->alarms);
    free((*core)->actions);
    free((*core)->unperformed);
    free(*core);
    *core = NULL;
}

void core_close(struct core *core, uint64_t now_us)
{
    begin(core);
    core->closed = true;
    struct flight *flight = NULL, *next = NULL;
    DL_FOREACH_SAFE (core->flights, flight, next)
        flight_close(core, now_us, flight);
    while (core->invalidations != NULL)
        answer_invalidation(core, core->invalidations, GUARD_CLOSING);
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
    return core->flights == NULL && core->loads == NULL && core->invalidations == NULL;
}

void core_stats(const struct core *core, struct guard_stats *out)
{
    *out = core->stats;
    out->breaker_open = core->breaker.state != BREAKER_CLOSED;
    out->breaker_opened = core->breaker.opened_count;
}
