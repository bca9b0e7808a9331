/* SPDX-License-Identifier: MIT */
/*
 * sim_near.c - the near cache of each process: guard/core/near.c itself, and what its hits must be.
 *
 * Own          not older than an invalidation of the same process that was confirmed
 * Heard        nor than an invalidation whose message has arrived, nor than what Redis had when the subscription came
 *              up
 * Bounded      nor than one that was confirmed near_ms ago, whatever happened to messages and subscriptions
 * Looked up    after the last of these invalidations that the process knows of, begun or over; and after the last
 *              fill
 * Age          at least the real one and never beyond the end of the entry
 * Subscribed   without it nothing is near, and when it is up again nothing is left
 * Memory       never more than its bound
 */
#include "guard/base/load_id.h"
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void raise_to(uint32_t *floor, uint32_t to)
{
    if (*floor < to)
        *floor = to;
}

static void lower_to(uint32_t *floor, uint32_t to)
{
    if (*floor > to)
        *floor = to;
}

/* A get that comes when it can do harm. */
static void ask_soon(struct sim *sim, const struct process *process, uint32_t key)
{
    bool in_use = key < sim->params.keys;
    if (sim->phase != PHASE_CHAOS || process->near == NULL || !in_use || !sim_one_in(sim, 2))
        return;
    sim_at(
        sim, sim->course.now_us + sim_between(sim, 0, (uint64_t)sim->params.latency_us * 2),
        (struct event){.kind = EVENT_REQUEST, .process = process->index, .life = process->life, .key = key});
}

/* ---- life ---- */

void sim_near_open(struct sim *sim, struct process *process)
{
    uint8_t hash_key[16] = {0};
    const struct params *params = &sim->params;
    bool keeps = params->kept_ms > 0 && params->mode == GUARD_MODE_FLEET;
    bool has_near = params->near_ms > 0 && params->mode != GUARD_MODE_OFF;
    if (!keeps && !has_near)
        return;
    hash_key[0] = (uint8_t)process->life;
    process->near = near_new(sim->params.near_bytes, hash_key);
    if (process->near == NULL)
        abort();
}

void sim_near_close(struct sim *sim, struct process *process)
{
    struct near_counters counters;
    if (process->near == NULL)
        return;
    near_count(process->near, &counters);
    sim->seen[SEEN_NEAR_LATE] += counters.late;
    sim->seen[SEEN_EVICTED] += counters.evicted;
    sim->seen[SEEN_CLEARED] += counters.cleared;
    near_free(&process->near);
}

/* ---- hits ---- */

/* The highest version that no hit may be older than. */
static uint32_t floor_of(const struct sim *sim, const struct process *process, uint32_t key)
{
    const struct row *row = &sim->row[key];
    uint64_t near_us = (uint64_t)sim->params.near_ms * 1000;
    uint32_t floor = row->floor, least = process->near_floor[key];
    while (floor > least && row->confirmed_us[floor] + near_us > sim->course.now_us)
        floor--;
    return floor > least ? floor : least;
}

static void check_span(struct sim *sim, const struct request *request)
{
    const struct guard_result *result = &request->waiter.result;
    const struct guard_policy *policy = &sim->params.policy;
    uint32_t most_ms = result->status == GUARD_ABSENT ? policy->absent_ms : policy->fresh_ms;
    most_ms = keep_fresh_most_ms(sim, most_ms);
    if (result->age_ms > most_ms || result->left_ms > most_ms)
        sim_fail(sim, "#%u of k%u got a near value of %u ms, fresh for %u ms more",
                 (uint32_t)(request - sim->request), request->key, result->age_ms, result->left_ms);
}

static void check_origin(struct sim *sim, const struct process *process, const struct request *request)
{
    enum { REDIS_US = 1000 }; /* its TTLs are whole milliseconds */
    const struct guard_result *result = &request->waiter.result;
    uint32_t index = (uint32_t)(request - sim->request);
    const struct lookup_model *lookup = &sim->lookup[strtoul(result->value->validator, NULL, 10)];
    uint64_t age_us = sim->course.now_us - lookup->entry.stored_us;
    if (age_us > (uint64_t)result->age_ms * 1000 + REDIS_US && sim->hit[FAULT_CLOCK_BACK] == 0)
        sim_fail(sim, "#%u of k%u got a near value of %llu us as one of %u ms", index, request->key,
                 (unsigned long long)age_us, result->age_ms);
    if (lookup->sent_us < process->voided_us[request->key])
        sim_fail(sim, "#%u of k%u got what was looked up before it was invalidated or stored anew", index,
                 request->key);
}

bool sim_near_get(struct sim *sim, struct process *process, struct request *request)
{
    struct core_key key = process_key(request->key);
    struct guard_result *result = &request->waiter.result;
    process->sweep_due = process->sweep_due && near_sweep(process->near);
    if (!near_answer(process->near, key.encoded, key.encoded_bytes, 0, process_now_us(process), result))
        return false;
    sim->seen[SEEN_NEAR]++;
    sim->seen[SEEN_NEAR_OLD] += result->value != NULL && sim->row[request->key].floor > 0 &&
                                floor_of(sim, process, request->key) < sim->row[request->key].floor;
    request->floor = floor_of(sim, process, request->key);
    check_span(sim, request);
    if (!process->hears)
        sim_fail(sim, "p%u has a near value of k%u without its subscription", process->index, request->key);
    if (outage_is_world(sim))
        outage_check_near(sim, process, request);
    else if (result->value != NULL)
        check_origin(sim, process, request);
    process_answered(sim, request);
    return true;
}

/* ---- what is put in ---- */

static void check_memory(struct sim *sim, const struct process *process)
{
    struct near_counters counters;
    near_count(process->near, &counters);
    if (counters.bytes > sim->params.near_bytes)
        sim_fail(sim, "p%u keeps %llu bytes near, where it may keep %u", process->index,
                 (unsigned long long)counters.bytes, sim->params.near_bytes);
}

/* Other keys need the room, too. */
static void crowd(struct sim *sim, struct process *process)
{
    enum { OTHERS = 1000, MOST = 40 };
    char name[16];
    const struct near_life life = {
        .near_ms = sim->params.near_ms, .kept = sim->params.kept_ms > 0, .spare_ms = sim->params.kept_ms};
    for (uint64_t count = sim_between(sim, 0, MOST); count > 0; count--) {
        int bytes = snprintf(name, sizeof name, "other:%u", (unsigned)sim_between(sim, 0, OTHERS));
        struct near_lookup lookup = near_look_up(process->near, name, (size_t)bytes, process_now_us(process));
        struct value *value = value_new(name, (size_t)bytes, "", 0, NULL, 0);
        near_keep(&lookup, &life, value, &(struct guard_result){.left_ms = 100000});
        value_unref(&value);
    }
}

/* Behind its fresh time, or what is left of its stale one. */
static struct near_life life_of(const struct sim *sim, const struct lookup_model *lookup,
                                const struct guard_result *result)
{
    struct near_life life = {.near_ms = sim->params.near_ms,
                             .kept = sim->params.kept_ms > 0,
                             .spare_ms = sim->params.kept_ms,
                             .load_us = lookup->entry.load_us};
    if (sim->params.policy.stale_ms > 0)
        life.stale_ms = (uint32_t)(result->source == GUARD_FROM_STALE ? (uint64_t)lookup->pttl_ms
                                                                      : lookup->entry.stale_ms);
    return life;
}

void sim_near_found(struct sim *sim, struct process *process, const struct request *request,
                    struct value *value, const struct guard_result *result)
{
    const struct lookup_model *lookup = &sim->lookup[request - sim->request];
    const struct near_life life = life_of(sim, lookup, result);
    if (process->near == NULL || (result->left_ms == 0 && !life.kept))
        return;
    outage_found(sim, process, request, result->load);
    near_keep(&lookup->near, &life, value, result);
    if (sim->params.near_bytes < 1 << 20) {
        crowd(sim, process);
        check_memory(sim, process);
    }
    ask_soon(sim, process, request->key);
}

/* ---- invalidations ---- */

static struct core_key name_of(const struct write *write)
{
    return write->of_tag ? tags_name(write->tag) : process_key(write->key);
}

static void void_lookups(struct sim *sim, struct process *process, const struct write *write)
{
    for (uint32_t key = 0; key < SIM_KEYS; key++)
        if (tags_touched(write, key))
            process->voided_us[key] = sim->course.now_us;
    outage_voids_written(sim, process, write);
}

void sim_near_begins(struct sim *sim, struct process *process, const struct write *write)
{
    struct core_key name = name_of(write);
    near_invalidation_begins(process->near, write->of_tag, name.encoded, name.encoded_bytes);
    void_lookups(sim, process, write);
}

void sim_near_ends(struct sim *sim, struct process *process, const struct write *write)
{
    struct core_key name = name_of(write);
    near_invalidation_ends(process->near, write->of_tag, name.encoded, name.encoded_bytes);
    void_lookups(sim, process, write);
    for (uint32_t key = 0; key < SIM_KEYS; key++)
        if (tags_touched(write, key) && write->invalidation.result.status == GUARD_OK)
            raise_to(&process->near_floor[key], write->versions[key]);
    ask_soon(sim, process, write->key);
}

/* From the command's own rows to what is in Redis at least from now on. */
static void tag_executed(struct sim *sim, struct command *command)
{
    for (uint32_t key = 0; key < SIM_KEYS; key++) {
        if (tags_has(key, command->key))
            raise_to(&sim->row[key].gone, command->versions[key]);
        command->versions[key] = sim->row[key].gone;
    }
}

void sim_near_executed(struct sim *sim, struct command *command)
{
    if (!command->answer.gone || command->answer.error)
        return;
    if (command->action.of_tag)
        tag_executed(sim, command);
    else
        raise_to(&sim->row[command->key].gone, command->version);
}

void sim_near_tag_message(struct sim *sim, struct process *process, const struct command *invalidation)
{
    struct core_key name = tags_name(invalidation->key);
    near_heard_tag(process->near, name.encoded, name.encoded_bytes);
    for (uint32_t key = 0; key < SIM_KEYS; key++) {
        uint32_t then = invalidation->versions[key], gone = sim->row[key].gone;
        if (!tags_has(key, invalidation->key))
            continue;
        process->voided_us[key] = sim->course.now_us;
        outage_voids(sim, process, key);
        raise_to(&process->near_floor[key], then < gone ? then : gone);
        ask_soon(sim, process, key);
    }
}

void sim_near_message(struct sim *sim, struct process *process, const struct event *message)
{
    uint32_t key = message->key, gone = sim->row[key].gone;
    struct core_key core_key = process_key(key);
    near_heard(process->near, message->gone || message->filled, message->lease, core_key.encoded,
               core_key.encoded_bytes);
    if (message->gone || (message->filled && !outage_is_own(sim, process, message)))
        process->voided_us[key] = sim->course.now_us;
    if (message->filled)
        outage_drops(sim, process, key);
    if (!message->gone)
        return;
    outage_voids(sim, process, key);
    raise_to(&process->near_floor[key], message->version < gone ? message->version : gone);
    ask_soon(sim, process, key);
}

void sim_near_replied(struct sim *sim, struct process *process, const struct command *command)
{
    struct core_key key = process_key(command->key);
    if (command->action.kind != CORE_FILL && command->action.kind != CORE_TOUCH)
        return;
    bool stored = !command->answer.error && command->answer.code > 0 && !command->moved;
    near_stored(process->near, stored ? load_id_of_tag(command->token + TOKEN_TAG_AT) : 0, key.encoded,
                key.encoded_bytes);
    if (!stored || !outage_is_world(sim))
        process->voided_us[command->key] = sim->course.now_us;
    outage_drops(sim, process, command->key);
    ask_soon(sim, process, command->key);
}

void sim_near_failover(struct sim *sim, uint32_t key, uint32_t oldest)
{
    lower_to(&sim->row[key].gone, oldest);
    for (uint32_t i = 0; i < sim->params.processes; i++)
        lower_to(&sim->process[i].near_floor[key], oldest);
}

void sim_near_reign(struct sim *sim, struct process *process)
{
    if (!outage_is_world(sim))
        return;
    near_drop_all(process->near);
    process->sweep_due |= process->near != NULL;
    outage_voids_all(sim, process);
    for (uint32_t key = 0; key < SIM_KEYS; key++)
        process->voided_us[key] = sim->course.now_us;
}

/* ---- the subscription ---- */

/* At once, by its canary, or not before it is back. */
void sim_near_lost(struct sim *sim, const struct process *process, uint64_t back_us)
{
    if (process->near == NULL)
        return;
    uint64_t after_us = sim_one_in(sim, 3) ? 0 : sim_between(sim, 0, back_us);
    sim_at(sim, sim->course.now_us + after_us,
           (struct event){.kind = EVENT_UNHEARD, .process = process->index, .life = process->life});
}

static void set_hears(struct sim *sim, struct process *process, bool hears)
{
    process->hears = hears;
    process->sweep_due |= process->near != NULL && hears;
    near_subscribed(process->near, hears);
    for (uint32_t key = 0; key < SIM_KEYS; key++)
        process->voided_us[key] = sim->course.now_us;
}

void sim_near_unheard(struct sim *sim, struct process *process)
{
    sim_trace(sim, "p%u  hears nothing any more", process->index);
    set_hears(sim, process, false);
}

/* It goes on with nothing from before. */
static void check_empty(struct sim *sim, struct process *process, uint64_t before)
{
    struct near_counters counters;
    near_count(process->near, &counters);
    sim->seen[SEEN_RETURNS] += before > 0 && counters.entries == 0;
    if (counters.entries != 0)
        sim_fail(sim, "p%u keeps %llu values from before it was subscribed", process->index,
                 (unsigned long long)counters.entries);
}

void sim_near_heard(struct sim *sim, struct process *process)
{
    struct near_counters before = {.entries = 0};
    if (process->near != NULL)
        near_count(process->near, &before);
    set_hears(sim, process, true);
    if (process->near != NULL)
        check_empty(sim, process, before.entries);
    outage_voids_all(sim, process);
    for (uint32_t key = 0; key < SIM_KEYS; key++)
        raise_to(&process->near_floor[key], sim->row[key].gone);
}
