/* SPDX-License-Identifier: MIT */
/* loads.c - see loads.h. */
#include "loads.h"
#include "flight.h"
#include "lease.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* ---- places ---- */

void loads_choose_share(struct flight *flight, bool of_many)
{
    flight->share = of_many ? SHARE_MANY : SHARE_SINGLE;
    flight->batched = of_many && flight->policy->batch_loader != NULL;
    flight->single = !of_many;
}

static bool has_places_left(const struct core *core, enum share share, uint32_t parts)
{
    uint64_t places = (uint64_t)core->config.max_loads + core->config.load_queue;
    return core->loads.parts_used[share] + parts <= places * PLACE_PARTS;
}

/* A refresh without waiters has a whole one: nothing else bounds how many there are. */
static uint32_t place_parts_of(const struct flight *flight)
{
    return flight->batched && flight->first != NULL ? PLACE_PARTS / flight->policy->batch_max : PLACE_PARTS;
}

static uint32_t workers_free(const struct core *core)
{
    return core->config.max_loads - core->loads.queries[SHARE_SINGLE] - core->loads.queries[SHARE_MANY];
}

bool loads_may_queue(const struct flight *flight)
{
    const struct core *core = flight->core;
    uint64_t places = (uint64_t)core->config.load_queue / 2 + workers_free(core);
    return !flight->passing ||
           core->loads.passing_parts[flight->share] + place_parts_of(flight) <= places * PLACE_PARTS;
}

bool loads_take_place(struct flight *flight)
{
    struct core *core = flight->core;
    if (flight->place_parts > 0)
        return true;
    if (!loads_may_queue(flight) || !has_places_left(core, flight->share, place_parts_of(flight)))
        return false;
    flight->place_parts = place_parts_of(flight);
    core->loads.parts_used[flight->share] += flight->place_parts;
    return true;
}

static void free_parts(struct core *core, enum share share, uint32_t parts)
{
    assert(core->loads.parts_used[share] >= parts);
    core->loads.parts_used[share] -= parts;
}

void loads_give_place(struct flight *flight)
{
    free_parts(flight->core, flight->share, flight->place_parts);
    flight->place_parts = 0;
}

/* ---- the queues ---- */

static void join_queue(struct flight *flight, enum queue queue)
{
    struct loads *loads = &flight->core->loads;
    flight->queue = queue;
    DL_APPEND2(loads->queues[queue][flight->share], flight, queue_prev, queue_next);
    loads->users_queued += queue == QUEUE_USERS;
    loads->users_batched += queue == QUEUE_USERS && flight->batched;
    loads->batched_queued += flight->batched;
    loads->passing_parts[flight->share] += flight->passing ? flight->place_parts : 0;
}

static void leave_queue(struct flight *flight)
{
    struct loads *loads = &flight->core->loads;
    DL_DELETE2(loads->queues[flight->queue][flight->share], flight, queue_prev, queue_next);
    loads->users_queued -= flight->queue == QUEUE_USERS;
    loads->users_batched -= flight->queue == QUEUE_USERS && flight->batched;
    loads->batched_queued -= flight->batched;
    loads->passing_parts[flight->share] -= flight->passing ? flight->place_parts : 0;
}

void loads_enqueue(struct flight *flight)
{
    struct core *core = flight->core;
    assert(flight->place_parts > 0);
    flight->queued_turn = core->loads.turn;
    join_queue(flight, flight->first != NULL ? QUEUE_USERS : QUEUE_REFRESHES);
    core->loads.queued++;
    flight_counts(flight)->loads_queued++;
}

void loads_dequeue(struct flight *flight)
{
    leave_queue(flight);
    flight->core->loads.queued--;
    flight_counts(flight)->loads_queued--;
}

void loads_single_out(struct flight *flight)
{
    bool queued = flight->state == FLIGHT_QUEUED, placed = flight->place_parts > 0;
    if (flight->share == SHARE_SINGLE ||
        (placed && !has_places_left(flight->core, SHARE_SINGLE, PLACE_PARTS)))
        return;
    if (queued)
        leave_queue(flight);
    loads_give_place(flight);
    flight->share = SHARE_SINGLE;
    flight->batched = false;
    if (placed)
        loads_take_place(flight);
    if (queued)
        join_queue(flight, flight->queue);
}

void loads_promote(struct flight *flight)
{
    if (flight->state != FLIGHT_QUEUED || flight->queue == QUEUE_USERS)
        return;
    leave_queue(flight);
    join_queue(flight, QUEUE_USERS);
    if (flight->single)
        loads_single_out(flight);
}

struct flight *loads_last_refresh(const struct core *core, enum share share)
{
    const struct flight *first = core->loads.queues[QUEUE_REFRESHES][share];
    struct flight *last = first != NULL ? first->queue_prev : NULL;
    while (last != NULL && last->first != NULL) /* its waiter would take the place again */
        last = last != first ? last->queue_prev : NULL;
    return last;
}

static uint32_t queries_wanted(const struct core *core, uint32_t queued, uint32_t batched)
{
    uint32_t workers = workers_free(core);
    uint32_t queries = queued - batched + (batched > 0); /* a batch at a time */
    return workers < queries ? workers : queries;
}

uint32_t loads_wanted(const struct core *core)
{
    return queries_wanted(core, core->loads.queued, core->loads.batched_queued);
}

uint32_t loads_wanted_by_users(const struct core *core)
{
    return queries_wanted(core, core->loads.users_queued, core->loads.users_batched);
}

/* ---- nested loads ---- */

struct load *loads_lender(const struct flight *flight)
{
    const struct core_waiter *waiter = flight->nested_waiters > 0 ? flight->first : NULL;
    for (; waiter != NULL; waiter = waiter->next) {
        struct load *load = waiter->parent_load != 0 ? loads_find(flight->core, waiter->parent_load) : NULL;
        if (load != NULL && !load->lending)
            return load;
    }
    return NULL;
}

void loads_block(struct core_waiter *waiter)
{
    struct core *core = waiter->flight->core;
    struct load *load = loads_find(core, waiter->parent_load);
    waiter->flight->nested_waiters++;
    core->loads.nested_waiters++;
    if (load != NULL)
        load->blocked_on = waiter;
}

void loads_unblock(struct core_waiter *waiter)
{
    struct core *core = waiter->flight->core;
    struct load *load = loads_find(core, waiter->parent_load);
    waiter->flight->nested_waiters--;
    core->loads.nested_waiters--;
    if (load != NULL)
        load->blocked_on = NULL;
}

/* What the load's thread waits for: a batch has one thread. NULL: nothing. */
static const struct core_waiter *blocked_on_of(const struct core *core, const struct load *load)
{
    const struct load *at = load->batch != 0 ? core->loads.running : NULL;
    while (at != NULL && (at->batch != load->batch || at->blocked_on == NULL))
        at = at->next;
    return at != NULL ? at->blocked_on : load->blocked_on;
}

static bool are_on_one_thread(const struct load *one, const struct load *other)
{
    return one == other || (one->batch != 0 && one->batch == other->batch);
}

/* A thread waits for one key at a time, and no circle was let in before: this ends, if not after so many steps. */
bool loads_circle(const struct flight *flight, uint64_t parent_load)
{
    const struct core *core = flight->core;
    enum { STEPS_MAX = 10000 };
    const struct load *load = flight->load, *parent = loads_find(core, parent_load);
    for (int i = 0; i < STEPS_MAX && load != NULL && parent != NULL && !are_on_one_thread(load, parent);
         i++) {
        const struct core_waiter *waiter = blocked_on_of(core, load);
        load = waiter != NULL ? waiter->flight->load : NULL;
    }
    return load != NULL && parent != NULL;
}

/* ---- which one is next ---- */

void loads_count_acquire(struct flight *flight, bool pending)
{
    struct loads *loads = &flight->core->loads;
    uint64_t slot = flight->acquire_turn % LOADS_TURNS;
    if (flight->acquire_counted && --loads->pending_acquires[slot] == 0)
        loads->replied_turn[slot] = loads->turn;
    flight->acquire_counted = pending && flight->batched;
    if (!flight->acquire_counted)
        return;
    flight->acquire_turn = loads->turn;
    loads->pending_acquires[loads->turn % LOADS_TURNS]++;
    loads->turn_due = true;
}

/* No acquire of its turn is pending. One so long ago is no reason to wait: its slot counts those of another. */
static bool is_batch_complete(const struct flight *flight)
{
    const struct core *core = flight->core;
    return core->loads.pending_acquires[flight->acquire_turn % LOADS_TURNS] == 0 ||
           core->loads.turn - flight->acquire_turn >= LOADS_TURNS;
}

static bool may_start_load(const struct flight *flight, bool turn_over)
{
    const struct core *core = flight->core;
    uint64_t replied_turn = core->loads.replied_turn[flight->acquire_turn % LOADS_TURNS];
    bool in_time = turn_over || (flight->queued_turn != core->loads.turn && replied_turn != core->loads.turn);
    return !flight->batched || (in_time && is_batch_complete(flight));
}

static struct flight *next_queued_of_share(const struct core *core, enum queue queue, enum share share,
                                           bool turn_over)
{
    struct flight *flight = core->loads.queues[queue][share];
    while (flight != NULL && !may_start_load(flight, turn_over))
        flight = flight->queue_next;
    return flight;
}

static enum share share_to_serve(const struct core *core)
{
    uint32_t single = core->loads.queries[SHARE_SINGLE], many = core->loads.queries[SHARE_MANY];
    if (single != many)
        return single < many ? SHARE_SINGLE : SHARE_MANY;
    return core->loads.served == SHARE_SINGLE ? SHARE_MANY : SHARE_SINGLE;
}

static struct flight *next_in_queue(const struct core *core, enum queue queue, bool turn_over)
{
    struct flight *single = next_queued_of_share(core, queue, SHARE_SINGLE, turn_over);
    struct flight *many = next_queued_of_share(core, queue, SHARE_MANY, turn_over);
    if (single == NULL || many == NULL)
        return single != NULL ? single : many;
    return share_to_serve(core) == SHARE_SINGLE ? single : many;
}

/* Users before refreshes. */
static struct flight *next_to_start(const struct core *core, bool turn_over)
{
    struct flight *flight = next_in_queue(core, QUEUE_USERS, turn_over);
    return flight != NULL ? flight : next_in_queue(core, QUEUE_REFRESHES, turn_over);
}

/* ---- starting ---- */

static void start_queued(struct flight *flight)
{
    loads_dequeue(flight);
    lease_start_load(flight);
}

/* Of flights in this queue, those that a load has joined whose thread is free. */
static void start_lent(struct core *core, struct flight *first)
{
    struct flight *flight = core->loads.nested_waiters > 0 ? first : NULL;
    while (flight != NULL) {
        struct flight *next = flight->queue_next;
        if (loads_lender(flight) != NULL)
            start_queued(flight);
        flight = next;
    }
}

static bool is_load_of_key(const struct load *load, const struct core_key *key)
{
    return load->key_bytes == key->encoded_bytes && memcmp(load->key, key->encoded, load->key_bytes) == 0;
}

/* The keys of a batch differ, but in mode OFF. Only loads that pass may be several of one key. */
static bool has_key_in_batch(const struct flight *flight)
{
    const struct core *core = flight->core;
    bool differ = core->loads.passing > 0 && core->config.mode != GUARD_MODE_OFF;
    const struct load *load = differ ? core->loads.running : NULL;
    while (load != NULL && (load->batch != core->loads.batch || !is_load_of_key(load, &flight->key)))
        load = load->next;
    return load != NULL;
}

/* The oldest flights of the policy in the queue, `most` at the most; `next` stays valid, for starting moves only
 * the flight itself, at most to the end of a queue. Returns how many. */
static uint32_t start_batch_of_queue(struct core *core, const struct guard_policy *policy, enum queue queue,
                                     uint32_t most)
{
    uint32_t count = 0;
    struct flight *next = NULL;
    for (struct flight *at = core->loads.queues[queue][SHARE_MANY]; at != NULL && count < most; at = next) {
        next = at->queue_next;
        if (!at->batched || at->policy != policy || !is_batch_complete(at) || has_key_in_batch(at))
            continue;
        start_queued(at);
        count++;
    }
    return count;
}

static void start_batch(struct core *core, const struct guard_policy *policy)
{
    core->loads.batch = ++core->last_id;
    uint32_t users = start_batch_of_queue(core, policy, QUEUE_USERS, policy->batch_max);
    start_batch_of_queue(core, policy, QUEUE_REFRESHES, policy->batch_max - users);
    core->loads.batch = 0;
}

static void start_queries(struct core *core, bool turn_over)
{
    while (workers_free(core) > 0) {
        struct flight *flight = next_to_start(core, turn_over);
        if (flight == NULL || (permits_exist(core) && !permits_allow(core)))
            return;
        if (flight->batched)
            start_batch(core, flight->policy);
        else
            start_queued(flight);
    }
}

void loads_pump(struct core *core, bool turn_over)
{
    for (int share = 0; share < SHARES; share++) {
        start_lent(core, core->loads.queues[QUEUE_USERS][share]);
        start_lent(core, core->loads.queues[QUEUE_REFRESHES][share]);
    }
    start_queries(core, turn_over);
    if (permits_exist(core))
        permits_balance(core);
}

/* ---- loads ---- */

/* Another load of the same batch; NULL: it is the only one, or in none. */
static const struct load *other_load_of_batch(const struct core *core, const struct load *load)
{
    const struct load *at = load->batch != 0 ? core->loads.running : NULL;
    while (at != NULL && (at == load || at->batch != load->batch))
        at = at->next;
    return at;
}

struct load *loads_new(struct flight *flight, uint64_t deadline_us)
{
    struct core *core = flight->core;
    struct load *load = calloc(1, sizeof *load + flight->key.encoded_bytes + flight->key.plain_bytes + 1);
    if (load == NULL)
        return NULL;
    load->id = flight->load_id;
    load->kind = flight->kind;
    load->flight = flight;
    load->lender = loads_lender(flight);
    load->cut_short = load->lender != NULL && load->lender->deadline_us < deadline_us;
    load->deadline_us = load->cut_short ? load->lender->deadline_us : deadline_us;
    load->batch = load->lender == NULL ? core->loads.batch : 0;
    load->key_bytes = flight->key.encoded_bytes;
    memcpy(load->key, flight->key.encoded, load->key_bytes);
    memcpy(load->key + load->key_bytes, flight->key.plain, flight->key.plain_bytes);
    const struct load *other = other_load_of_batch(core, load);
    DL_APPEND(core->loads.running, load);
    if (load->lender != NULL) {
        load->lender->lending = true;
        flight_counts(flight)->load_nested++;
        loads_give_place(flight);
        return load;
    }
    load->share = core->loads.served = flight->share;
    core->loads.queries[load->share] += other == NULL;
    if (permits_exist(core))
        load->permit = other != NULL ? other->permit : permits_use(core);
    flight_counts(flight)->loads_running++;
    load->place_parts = flight->place_parts; /* from here on its own */
    flight->place_parts = 0;
    return load;
}

struct load *loads_find(const struct core *core, uint64_t id)
{
    struct load *load = core->loads.running;
    while (load != NULL && load->id != id)
        load = load->next;
    return load;
}

static void end_query(struct core *core, const struct load *load)
{
    core->loads.queries[load->share]--;
    if (load->permit != NULL)
        permits_give_back(core, load->permit);
}

void loads_free(struct core *core, struct load *load)
{
    assert(!load->lending);
    DL_DELETE(core->loads.running, load);
    if (load->lender != NULL) {
        load->lender->lending = false;
    } else {
        if (other_load_of_batch(core, load) == NULL)
            end_query(core, load);
        core_counts(core, load->kind)->loads_running--;
        free_parts(core, load->share, load->place_parts);
    }
    free(load);
}

void loads_cancel(struct core *core, struct load *load, bool unwanted)
{
    if (load->cancelled)
        return;
    load->cancelled = true;
    load->unwanted = unwanted;
    core_counts(core, load->kind)->load_cancelled++;
    core_emit(core, &(struct core_action){.kind = CORE_CANCEL, .load = load->id});
}

void loads_abandon(struct flight *flight)
{
    loads_cancel(flight->core, flight->load, true);
    flight->load->flight = NULL;
    flight->load = NULL;
}

bool loads_runs_key(const struct core *core, const struct core_key *key)
{
    for (const struct load *load = core->loads.running; load != NULL; load = load->next)
        if (load->flight != NULL && load->flight->leased && is_load_of_key(load, key))
            return true;
    return false;
}
