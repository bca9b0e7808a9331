/* SPDX-License-Identifier: MIT */
/*
 * core.c - the events, and what surrounds the flights: tables, waiters, answers, actions. See core.h.
 *
 * Every event has the same frame: core_begin() notes its instant and frees the flights that ended in the event before
 * (actions could still point to them), the event happens, core_end() starts the loads that a worker is free for.
 */
#include "core.h"
#include "../base/digest.h"
#include "../base/stats.h"
#include "core_state.h"
#include "defer.h"
#include "flight.h"
#include "lease.h"
#include "nested.h"
#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define OWNER_OF(type, member, pointer) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* ---- the frame of an event ---- */

static void free_dead(struct core *core)
{
    while (core->dead != NULL) {
        struct flight *flight = core->dead;
        core->dead = flight->next;
        value_unref(&flight->shared);
        free(flight);
    }
}

void core_begin(struct core *core, uint64_t now_us)
{
    core->now_us = now_us;
    free_dead(core);
}

static void core_end(struct core *core)
{
    loads_pump(core, false);
    core->loads.turn_due = core->loads.turn_due || core->loads.batched_queued > 0;
}

uint64_t core_stamp(struct core *core)
{
    return ++core->last_stamp;
}

/* ---- shards ---- */

unsigned core_shard_of(const struct core *core, bool invalidated, const char *encoded, size_t encoded_bytes)
{
    const struct core_config *config = &core->config;
    if (config->shard_of == NULL)
        return 0;
    unsigned shard = config->shard_of(config->shard_context, invalidated, encoded, encoded_bytes);
    assert(shard < core->shards_count);
    return shard;
}

bool core_may_send(struct core *core, const struct core_key *key, unsigned *shard)
{
    if (core->config.without_redis)
        return false;
    *shard = core_shard_of(core, false, key->encoded, key->encoded_bytes);
    return breaker_allow(&core->shards[*shard].breaker, core->now_us);
}

/* ---- kinds ---- */

static unsigned kind_number(const struct core *core, const struct guard_policy *policy)
{
    const struct core_config *config = &core->config;
    if (config->kind_of == NULL)
        return 0;
    unsigned kind = config->kind_of(config->kind_context, policy);
    assert(kind < config->kinds);
    return kind;
}

/* ---- actions: a ring that never lacks room ---- */

static bool grow_action_ring(struct core *core, uint32_t capacity)
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

bool core_reserve(struct core *core, uint32_t actions)
{
    uint32_t needed = core->actions_reserved + actions;
    if ((needed > core->action_capacity && !grow_action_ring(core, needed + needed / 2)) ||
        !alarms_reserve(&core->alarms))
        return false;
    core->actions_reserved = needed;
    return true;
}

void core_unreserve(struct core *core, uint32_t actions)
{
    core->actions_reserved -= actions;
    alarms_unreserve(&core->alarms);
}

void core_emit(struct core *core, const struct core_action *action)
{
    assert(core->action_count < core->action_capacity);
    uint32_t at = (core->action_first + core->action_count) % core->action_capacity;
    core->actions[at] = *action;
    core->action_count++;
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

/* ---- answers, and what is counted of them ---- */

static uint32_t *waiters_of_lane(struct core *core, const struct core_waiter *waiter)
{
    return &core->loads.waiters[waiter->of_many ? LANE_MANY : LANE_SINGLE];
}

void core_answer(struct core_waiter *waiter, const struct guard_result *result)
{
    struct flight *flight = waiter->flight;
    struct core *core = flight->core;
    alarm_unset(&core->alarms, &waiter->deadline);
    alarms_unreserve(&core->alarms);
    if (waiter->parent_load != 0)
        nested_unblock(waiter);
    flight_unlist(waiter);
    waiter->result = *result;
    if (result->value != NULL)
        guard_value_ref(result->value);
    struct guard_stats *counts = flight_counts(flight);
    counts->waiters--;
    --*waiters_of_lane(core, waiter);
    ++*stats_request(counts, stats_request_of(result));
    histogram_add(&counts->get_duration, core->now_us - waiter->start_us);
    DL_APPEND(core->answered, waiter);
}

struct core_waiter *core_next_answer(struct core *core)
{
    struct core_waiter *waiter = core->answered;
    if (waiter != NULL)
        DL_DELETE(core->answered, waiter);
    return waiter;
}

struct core_invalidation *core_next_invalidated(struct core *core)
{
    struct core_invalidation *invalidation = core->invalidated;
    if (invalidation != NULL)
        DL_DELETE(core->invalidated, invalidation);
    return invalidation;
}

/* ---- flights ---- */

static unsigned hash_of_key(const struct core *core, const char *encoded, size_t encoded_bytes)
{
    return (unsigned)digest_siphash(core->config.hash_key, encoded, encoded_bytes);
}

static struct flight *find_flight_of(const struct core *core, bool revalidates, const char *encoded,
                                     size_t encoded_bytes)
{
    struct flight *found = NULL;
    if (core->by_key[revalidates] == NULL)
        return NULL;
    unsigned hash = hash_of_key(core, encoded, encoded_bytes);
    HASH_FIND_BYHASHVALUE(by_key, core->by_key[revalidates], encoded, encoded_bytes, hash, found);
    return found;
}

static struct flight *find_flight(const struct core *core, const char *encoded, size_t encoded_bytes)
{
    return find_flight_of(core, false, encoded, encoded_bytes);
}

/* A failure that this process remembers answers both kinds. */
static struct flight *flight_to_join(const struct core *core, const struct core_key *key, bool revalidates)
{
    struct flight *other = find_flight_of(core, !revalidates, key->encoded, key->encoded_bytes);
    if (other != NULL && other->state == FLIGHT_COOLING)
        return other;
    return find_flight_of(core, revalidates, key->encoded, key->encoded_bytes);
}

static bool has_lease_of_tag(const struct flight *flight, const char *lease_tag)
{
    return flight != NULL && flight->leased &&
           memcmp(flight->token + TOKEN_TAG_AT, lease_tag, TOKEN_TAG_BYTES) == 0;
}

bool core_holds_lease(const struct core *core, const struct core_key *key, const char *lease_tag)
{
    if (lease_tag == NULL)
        return false;
    return has_lease_of_tag(find_flight_of(core, false, key->encoded, key->encoded_bytes), lease_tag) ||
           has_lease_of_tag(find_flight_of(core, true, key->encoded, key->encoded_bytes), lease_tag);
}

static struct flight *alloc_flight(struct core *core, const struct core_key *key,
                                   const struct guard_policy *policy)
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
    flight->policy = policy;
    flight->kind = kind_number(core, policy);
    flight->id = ++core->last_id;
    flight->state = FLIGHT_NEW;
    flight->alarm.owner = ALARM_FLIGHT;
    return flight;
}

/* Into the tables. In mode OFF no get joins another one's flight, nor one that passes: it is not found by its key.
 * False: no memory. */
static bool list_flight(struct core *core, struct flight *flight)
{
    const struct core_key *key = &flight->key;
    if (core->config.mode != GUARD_MODE_OFF && !flight->passing) {
        unsigned hash = hash_of_key(core, key->encoded, key->encoded_bytes);
        HASH_ADD_KEYPTR_BYHASHVALUE(by_key, core->by_key[flight->revalidation.on], key->encoded,
                                    key->encoded_bytes, hash, flight);
        flight->joinable = !flight->unlisted;
    }
    if (!flight->unlisted)
        HASH_ADD_BYHASHVALUE(by_id, core->by_id, id, sizeof flight->id, (unsigned)flight->id, flight);
    if (flight->unlisted && flight->joinable)
        HASH_DELETE(by_key, core->by_key[flight->revalidation.on], flight);
    return !flight->unlisted;
}

struct flight *core_new_flight(struct core *core, const struct core_key *key,
                               const struct guard_policy *policy, enum flight_for whom)
{
    if (!core_reserve(core, ACTIONS_PER_OWNER))
        return NULL;
    struct flight *flight = alloc_flight(core, key, policy);
    if (flight != NULL) {
        flight->passing = whom == FLIGHT_FOR_ONE;
        flight->revalidation.on = whom == FLIGHT_FOR_REVALIDATION;
    }
    if (flight == NULL || !list_flight(core, flight)) {
        free(flight);
        core_unreserve(core, ACTIONS_PER_OWNER);
        return NULL;
    }
    DL_APPEND(core->flights, flight);
    flight_counts(flight)->flights++;
    core->loads.passing += flight->passing;
    return flight;
}

void core_remove_flight(struct flight *flight)
{
    struct core *core = flight->core;
    if (flight->joinable)
        HASH_DELETE(by_key, core->by_key[flight->revalidation.on], flight);
    HASH_DELETE(by_id, core->by_id, flight);
    DL_DELETE(core->flights, flight);
    flight_counts(flight)->flights--;
    core->loads.passing -= flight->passing;
    core_unreserve(core, ACTIONS_PER_OWNER);
    flight->next = core->dead;
    core->dead = flight;
}

/* ---- gets ---- */

/* A nested get keeps half of its time for loading by itself. A load with a permit waits only briefly: the process
 * that it waits for may be waiting for that very permit. */
static uint64_t time_with_others_us(const struct core *core, uint64_t left_us)
{
    enum { WITH_PERMIT_US = 200000 };
    return permits_exist(core) ? earlier_us(left_us / 2, WITH_PERMIT_US) : left_us / 2;
}

static void set_waiter_limits(struct core *core, struct core_waiter *waiter,
                              const struct guard_policy *policy, uint64_t deadline_us)
{
    bool is_soft = policy->soft_ms > 0 && !waiter->revalidates;
    uint64_t soft_us = is_soft ? waiter->start_us + us(policy->soft_ms) : deadline_us;
    waiter->deadline_us = waiter->alone_us = deadline_us;
    if (waiter->parent_load != 0 && core->now_us < deadline_us)
        waiter->alone_us = core->now_us + time_with_others_us(core, deadline_us - core->now_us);
    waiter->impatient = false;
    alarm_set(&core->alarms, &waiter->deadline,
              earlier_us(earlier_us(soft_us, waiter->alone_us), deadline_us));
}

/* The first waiter chooses. */
static void add_waiter(struct flight *flight, struct core_waiter *waiter)
{
    struct core *core = flight->core;
    if (flight->first == NULL && flight->place_parts == 0)
        loads_choose_lane(flight, waiter->of_many);
    flight->single = flight->single || !waiter->of_many;
    waiter->joined = core_stamp(core);
    waiter->first_round = flight->round;
    waiter->deadline.owner = ALARM_WAITER;
    waiter->deadline.place = 0;
    flight_list(flight, waiter);
    flight_counts(flight)->waiters++;
    ++*waiters_of_lane(core, waiter);
    if (waiter->parent_load != 0)
        nested_block(waiter);
}

enum guard_status core_get(struct core *core, uint64_t now_us, const struct core_key *key,
                           const struct guard_policy *policy, struct core_waiter *waiter,
                           uint64_t deadline_us)
{
    core_begin(core, now_us);
    if (core->closed)
        return GUARD_CLOSING;
    if (*waiters_of_lane(core, waiter) >= core->config.max_waiters) {
        core_counts(core, kind_number(core, policy))->shed++;
        return GUARD_SHED;
    }
    if (!alarms_reserve(&core->alarms))
        return GUARD_NO_MEMORY;
    struct flight *flight = NULL;
    if (!waiter->passes)
        flight = flight_to_join(core, key, waiter->revalidates);
    if (flight == NULL)
        flight = core_new_flight(core, key, policy,
                                 waiter->passes        ? FLIGHT_FOR_ONE
                                 : waiter->revalidates ? FLIGHT_FOR_REVALIDATION
                                                       : FLIGHT_FOR_ALL);
    if (flight == NULL) {
        alarms_unreserve(&core->alarms);
        return GUARD_NO_MEMORY;
    }
    add_waiter(flight, waiter);
    set_waiter_limits(core, waiter, policy, deadline_us);
    bool refused = waiter->parent_load != 0 && !nested_admit(flight, waiter->parent_load);
    if (waiter->flight != NULL) /* its flight may have found no place to begin anew */
        flight_joined(waiter, refused);
    core_end(core);
    return GUARD_OK;
}

static void spend(struct core *core, struct core_origin *origin)
{
    if (origin != NULL)
        LL_PREPEND(core->spent, origin);
}

struct core_origin *core_next_spent(struct core *core)
{
    struct core_origin *origin = core->spent;
    if (origin != NULL)
        LL_DELETE(core->spent, origin);
    return origin;
}

void core_set_origin(struct flight *flight, struct core_origin *origin)
{
    spend(flight->core, flight->origin);
    flight->origin = origin;
}

void core_refresh(struct core *core, uint64_t now_us, const struct core_refresh *refresh)
{
    core_begin(core, now_us);
    const struct core_key *key = &refresh->key;
    struct flight *flight = NULL;
    if (!core->closed && find_flight(core, key->encoded, key->encoded_bytes) == NULL)
        flight = core_new_flight(core, key, refresh->policy, FLIGHT_FOR_ALL);
    if (flight == NULL) {
        spend(core, refresh->origin);
    } else {
        loads_choose_lane(flight, refresh->of_many);
        core_set_origin(flight, refresh->origin);
        flight->of_kept = refresh->of_kept;
        flight_refresh(flight, refresh->filler);
    }
    core_end(core);
}

void core_cancel(struct core *core, uint64_t now_us, struct core_waiter *waiter)
{
    core_begin(core, now_us);
    struct flight *flight = waiter->flight;
    if (flight != NULL) {
        core_answer(waiter, &(struct guard_result){.status = GUARD_CANCELLED});
        flight_left(flight);
    }
    core_end(core);
}

/* ---- what came back ---- */

unsigned core_shard_of_op(const struct core *core, uint64_t op)
{
    unsigned shard = (unsigned)(op >> CORE_OP_COUNT_BITS) % CORE_SHARDS_MAX;
    assert(shard < core->shards_count);
    return shard;
}

static void note_reply(struct core *core, struct core_shard *shard, const struct core_reply *reply)
{
    enum core_reply_kind kind = reply->kind;
    core->stats.moving += kind == REPLY_MOVING;
    if (kind == REPLY_MOVING) {
        breaker_unjudged(&shard->breaker);
    } else if (kind == REPLY_UNSENT || (kind == REPLY_UNKNOWN && !reply->blameless)) {
        breaker_unanswered(&shard->breaker, core->now_us, &core->chance);
    } else {
        shard->answered_us = core->now_us;
        breaker_answered(&shard->breaker);
    }
}

void core_replied(struct core *core, uint64_t now_us, uint64_t op, const struct core_reply *reply)
{
    core_begin(core, now_us);
    note_reply(core, &core->shards[core_shard_of_op(core, op)], reply);
    const uint64_t id = op >> CORE_OP_BITS;
    struct flight *flight = NULL;
    HASH_FIND_BYHASHVALUE(by_id, core->by_id, &id, sizeof id, (unsigned)id, flight);
    if (flight != NULL) {
        flight_replied(flight, op, reply);
    } else if (!permits_replied(core, op, reply) && !replay_replied(core, op, reply)) {
        invalidation_replied(core, op, reply);
    }
    core_end(core);
}

void core_loaded(struct core *core, uint64_t now_us, uint64_t id, const struct core_loaded *loaded)
{
    core_begin(core, now_us);
    struct load *load = loads_find(core, id);
    assert(load != NULL || core->loads.forgotten > 0);
    if (load == NULL)
        return;
    histogram_add(&core_counts(core, load->kind)->load_duration, loaded->load_us);
    watch_load_ended(core, load, loaded);
    if (load->flight != NULL)
        lease_load_ended(load->flight, loaded);
    else
        loads_free(core, load);
    core_end(core);
}

void core_deferred(struct core *core, uint64_t now_us, uint64_t id)
{
    core_begin(core, now_us);
    struct load *load = loads_find(core, id);
    assert(load != NULL && !load->deferred);
    defer_begins(core, load);
    core_end(core);
}

static void wake_flight_of(struct core *core, bool revalidates, const char *encoded, size_t encoded_bytes,
                           bool gone)
{
    struct flight *flight = find_flight_of(core, revalidates, encoded, encoded_bytes);
    if (flight != NULL)
        flight_woken(flight, gone);
}

void core_woken(struct core *core, uint64_t now_us, const char *encoded, size_t encoded_bytes, bool gone)
{
    core_begin(core, now_us);
    core->stats.wake_messages++;
    wake_flight_of(core, false, encoded, encoded_bytes, gone);
    wake_flight_of(core, true, encoded, encoded_bytes, gone);
    core_end(core);
}

void core_pushed(struct core *core, uint64_t now_us, const char *encoded, size_t encoded_bytes,
                 const struct core_reply *pushed)
{
    core_begin(core, now_us);
    core->stats.wake_messages++;
    struct flight *flight = find_flight(core, encoded, encoded_bytes);
    if (flight != NULL && flight_awaits(flight, pushed->lease_tag, pushed->shared))
        flight_pushed(flight, pushed);
    else if (flight != NULL)
        flight_woken(flight, false);
    wake_flight_of(core, true, encoded, encoded_bytes, false);
    core_end(core);
}

const struct core_key *core_awaits(const struct core *core, const char *encoded, size_t encoded_bytes,
                                   const char *lease_tag, bool shared)
{
    const struct flight *flight = find_flight(core, encoded, encoded_bytes);
    return flight != NULL && flight_awaits(flight, lease_tag, shared) ? &flight->key : NULL;
}

void core_permit_freed(struct core *core, uint64_t now_us, const char *waiter, size_t waiter_bytes)
{
    core_begin(core, now_us);
    permits_freed(core, waiter, waiter_bytes);
    core_end(core);
}

void core_resync(struct core *core, uint64_t now_us)
{
    core_begin(core, now_us);
    permits_resync(core);
    for (struct flight *flight = core->flights; flight != NULL; flight = flight->next)
        flight_resync(flight);
}

/* What Redis has may be older than what it had. */
static void begin_revalidations_anew(const struct core *core)
{
    for (struct flight *flight = core->by_key[true]; flight != NULL; flight = flight->by_key.next)
        revalidate_begin_anew(flight);
}

void core_link(struct core *core, uint64_t now_us, unsigned shard, bool up)
{
    assert(shard < core->shards_count);
    core->now_us = now_us;
    breaker_link(&core->shards[shard].breaker, now_us, up);
    if (up) {
        begin_revalidations_anew(core);
        permits_linked(core, shard);
        replay_linked(core);
    }
}

void core_reign(struct core *core, uint64_t now_us, unsigned shard)
{
    assert(shard < core->shards_count);
    core->now_us = now_us;
    begin_revalidations_anew(core);
    if (core->replay.on && !core->closed)
        replay_reign(core, shard);
}

void core_heard(struct core *core, uint64_t now_us, unsigned shard)
{
    assert(shard < core->shards_count);
    core->now_us = now_us;
    breaker_heard(&core->shards[shard].breaker, now_us);
}

void core_shard_gone(struct core *core, unsigned shard)
{
    assert(shard < core->shards_count);
    breaker_forget(&core->shards[shard].breaker);
}

bool core_tell_unperformed(struct core *core, uint64_t now_us)
{
    if (core->unperformed_count == 0)
        return false;
    struct unperformed last = core->unperformed[--core->unperformed_count];
    if (last.op != 0)
        core_replied(core, now_us, last.op, &(struct core_reply){.kind = REPLY_UNSENT});
    else
        core_loaded(core, now_us, last.load, &(struct core_loaded){.outcome = LOAD_NO_MEMORY});
    return true;
}

/* ---- time ---- */

uint64_t core_next_us(const struct core *core)
{
    const struct alarm *alarm = alarms_first(&core->alarms);
    return alarm != NULL ? alarm->at_us : UINT64_MAX;
}

static void ring_alarm(struct core *core, struct alarm *alarm)
{
    struct core_waiter *waiter = NULL;
    alarm_unset(&core->alarms, alarm);
    switch ((enum alarm_owner)alarm->owner) {
    case ALARM_WAITER:
        waiter = OWNER_OF(struct core_waiter, deadline, alarm);
        (core->now_us < waiter->deadline_us ? stale_soft_limit : stale_hard_limit)(waiter);
        break;
    case ALARM_FLIGHT:
        flight_alarm(OWNER_OF(struct flight, alarm, alarm));
        break;
    case ALARM_INVALIDATION:
        invalidation_alarm(core, OWNER_OF(struct core_invalidation, retry, alarm));
        break;
    case ALARM_PERMIT:
        permits_alarm(core, OWNER_OF(struct permit, alarm, alarm));
        break;
    case ALARM_PERMITS:
        permits_poll(core);
        break;
    case ALARM_REPLAY:
        replay_alarm(core);
        break;
    case ALARM_LOAD:
        defer_alarm(core, OWNER_OF(struct load, hold, alarm));
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
    core_end(core);
}

bool core_turn_due(const struct core *core)
{
    return core->loads.turn_due;
}

void core_turn_over(struct core *core, uint64_t now_us)
{
    core_begin(core, now_us);
    core->loads.turn_due = false;
    core->loads.turn++;
    loads_pump(core, true);
}

/* ---- life ---- */

static void free_core(struct core **core)
{
    alarms_clear(&(*core)->alarms);
    permits_clear(*core);
    replay_clear(*core);
    free((*core)->actions);
    free((*core)->unperformed);
    free((*core)->shards);
    free((*core)->kinds);
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
    core->shards_count = core->config.shard_of != NULL ? CORE_SHARDS_MAX : 1;
    core->shards = calloc(core->shards_count, sizeof *core->shards);
    if (core->config.kinds == 0)
        core->config.kinds = 1;
    assert(core->config.kinds <= CORE_KINDS_MAX);
    core->kinds = calloc(core->config.kinds, sizeof *core->kinds);
    if (core->shards == NULL || core->kinds == NULL || !permits_open(core) || !replay_open(core))
        free_core(&core);
    return core;
}

void core_free(struct core **core)
{
    if (*core == NULL)
        return;
    assert(core_idle(*core) && (*core)->answered == NULL && (*core)->invalidated == NULL &&
           (*core)->spent == NULL);
    replay_close(*core); /* it may never have been closed */
    free_dead(*core);
    free_core(core);
}

void core_drain(struct core *core, uint64_t now_us)
{
    core_begin(core, now_us);
    defer_drain(core);
    core_end(core);
}

void core_close(struct core *core, uint64_t now_us)
{
    core_begin(core, now_us);
    core->closed = true;
    defer_drain(core);
    struct flight *flight = NULL, *next = NULL;
    DL_FOREACH_SAFE (core->flights, flight, next)
        flight_close(flight);
    while (core->invalidations != NULL)
        invalidation_answer(core, core->invalidations, GUARD_CLOSING);
    replay_close(core);
    if (permits_exist(core))
        permits_balance(core);
}

bool core_has_waiters(const struct core *core)
{
    const uint32_t *waiters = core->loads.waiters;
    return waiters[LANE_SINGLE] + waiters[LANE_MANY] > 0 || core->invalidations != NULL;
}

bool core_drained(const struct core *core)
{
    for (const struct flight *flight = core->flights; flight != NULL; flight = flight->next)
        if (flight->state != FLIGHT_COOLING && flight->state != FLIGHT_RESTING)
            return false;
    return core->loads.running == NULL;
}

bool core_idle(const struct core *core)
{
    return core->flights == NULL && core->loads.running == NULL && core->invalidations == NULL &&
           permits_idle(core);
}

/* ---- numbers ---- */

void core_stats_of_none(const struct core *core, struct guard_stats *out)
{
    *out = core->stats;
    for (uint32_t i = 0; i < core->shards_count; i++) {
        const struct breaker *breaker = &core->shards[i].breaker;
        out->breaker_open = out->breaker_open || breaker->state != BREAKER_CLOSED;
        out->breaker_opened += breaker->opened_count;
    }
}

const struct guard_stats *core_stats_of(const struct core *core, unsigned kind)
{
    return &core->kinds[kind];
}

uint64_t core_take_changed(struct core *core)
{
    uint64_t changed = core->kinds_changed;
    core->kinds_changed = 0;
    return changed;
}

void core_stats(const struct core *core, struct guard_stats *out)
{
    core_stats_of_none(core, out);
    for (uint32_t kind = 0; kind < core->config.kinds; kind++)
        stats_add(out, &core->kinds[kind]);
}
