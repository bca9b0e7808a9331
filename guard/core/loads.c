/* SPDX-License-Identifier: MIT */
/*
 * loads.c - the bulkhead: at most B loads at a time, a bounded queue before them, refusal beyond.
 *
 * A flight takes its place before it asks Redis for the lease, because a lease that could only be queued
 * and then shed would be waited for, woken for and shed again by the whole fleet. The place is kept until
 * the load has come back: a load that its flight gave up still occupies a worker.
 *
 * Nested loads. A loader that waits for another key has its thread to spare: if that key is to be loaded here, this
 * very thread does it. So a nested load needs no place and no worker, never queues behind the load that waits for
 * it, and still no more than B loaders are at work at a time, because the one below stands still meanwhile.
 * What is left to wait for is a load that runs on another thread of this process, where circles are refused at the
 * moment they would close (loads_circle), or one of another process, which is waited for only so long (alone_us).
 *
 * Users before refreshes: two queues, and who is in the first goes first. A refresh that somebody joins in vain moves
 * over; one that is only queued gives its place to a user who would be shed. The permits of the fleet are asked for
 * when a worker is free (permits.h): before that nothing is held that others wait for but the lease.
 *
 * Flights that gather are started in batches, once the turn is over in which they were queued and no answer is
 * outstanding to an acquire that was sent in the same turn as theirs. A batch is one query: it occupies one worker until
 * its last load is over, and batch_max of them, queued, are one place.
 *
 * Two shares, what is asked for alone and what is only asked for together. Places and waiters: each share has as many
 * as the configuration says, whatever the other does, so none is ever refused for what the other holds. Workers: while
 * users of both wait, one that is free goes to the share that has fewer queries running, in turn if they have as many.
 * So whoever waits gets half of the workers as they become free (with one worker every other query), and a worker is
 * never idle while anybody waits. The same among refreshes, and for permits, which are given to whom a worker is.
 * A key of both is loaded alone, as if nobody had asked for it together, unless it is queued and there is no place for it.
 */
#include "flight.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

static bool has_places_left(const struct core *core, enum share share, uint32_t parts)
{
    uint64_t places = (uint64_t)core->config.load_workers + core->config.load_queue;
    return core->parts_used[share] + parts <= places * PLACE_PARTS;
}

/* A refresh that nobody waits for has a whole one: nothing else bounds how many there are. */
static uint32_t place_parts_of(const struct flight *flight)
{
    return flight->batched && flight->first != NULL ? PLACE_PARTS / flight->policy->batch_max : PLACE_PARTS;
}

bool loads_take_place(struct flight *flight)
{
    struct core *core = flight->core;
    if (flight->place_parts > 0)
        return true;
    if (!has_places_left(core, flight->share, place_parts_of(flight)))
        return false;
    flight->place_parts = place_parts_of(flight);
    core->parts_used[flight->share] += flight->place_parts;
    return true;
}

static void free_parts(struct core *core, enum share share, uint32_t parts)
{
    assert(core->parts_used[share] >= parts);
    core->parts_used[share] -= parts;
}

void loads_give_place(struct flight *flight)
{
    free_parts(flight->core, flight->share, flight->place_parts);
    flight->place_parts = 0;
}

static void join_queue(struct flight *flight, enum queue queue)
{
    struct core *core = flight->core;
    flight->queue = queue;
    DL_APPEND2(core->queue[queue][flight->share], flight, queue_prev, queue_next);
    core->users_queued += queue == QUEUE_USERS;
    core->users_batched += queue == QUEUE_USERS && flight->batched;
    core->batched_queued += flight->batched;
}

static void leave_queue(struct flight *flight)
{
    struct core *core = flight->core;
    DL_DELETE2(core->queue[flight->queue][flight->share], flight, queue_prev, queue_next);
    core->users_queued -= flight->queue == QUEUE_USERS;
    core->users_batched -= flight->queue == QUEUE_USERS && flight->batched;
    core->batched_queued -= flight->batched;
}

void loads_enqueue(struct flight *flight)
{
    struct core *core = flight->core;
    assert(flight->place_parts > 0);
    flight->queued_iteration = core->iteration;
    join_queue(flight, flight->first != NULL ? QUEUE_USERS : QUEUE_REFRESHES);
    core->stats.loads_queued++;
}

void loads_dequeue(struct flight *flight)
{
    leave_queue(flight);
    flight->core->stats.loads_queued--;
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
    if (flight->alone)
        loads_single_out(flight);
}

struct flight *loads_last_refresh(const struct core *core, enum share share)
{
    const struct flight *first = core->queue[QUEUE_REFRESHES][share];
    struct flight *last = first != NULL ? first->queue_prev : NULL;
    while (last != NULL && last->first != NULL) /* who joined it would take the place again */
        last = last != first ? last->queue_prev : NULL;
    return last;
}

static uint32_t workers_free(const struct core *core)
{
    return core->config.load_workers - core->queries[SHARE_SINGLE] - core->queries[SHARE_MANY];
}

static uint32_t queries_wanted(const struct core *core, uint32_t queued, uint32_t gathering)
{
    uint32_t workers = workers_free(core);
    uint32_t queries = queued - gathering + (gathering > 0); /* a batch at a time */
    return workers < queries ? workers : queries;
}

uint32_t loads_wanted(const struct core *core)
{
    return queries_wanted(core, core->stats.loads_queued, core->batched_queued);
}

uint32_t loads_wanted_by_users(const struct core *core)
{
    return queries_wanted(core, core->users_queued, core->users_batched);
}

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

void loads_block(struct flight *flight, struct core_waiter *waiter)
{
    struct core *core = flight->core;
    struct load *load = loads_find(core, waiter->parent_load);
    flight->nested_waiters++;
    core->nested_waiters++;
    if (load != NULL)
        load->blocked_on = waiter;
}

void loads_unblock(struct flight *flight, const struct core_waiter *waiter)
{
    struct core *core = flight->core;
    struct load *load = loads_find(core, waiter->parent_load);
    flight->nested_waiters--;
    core->nested_waiters--;
    if (load != NULL)
        load->blocked_on = NULL;
}

/* What its thread waits for: a batch has one thread. NULL: nothing. */
static const struct core_waiter *blocked_on_of(const struct core *core, const struct load *load)
{
    const struct load *mate = load->batch != 0 ? core->loads : NULL;
    while (mate != NULL && (mate->batch != load->batch || mate->blocked_on == NULL))
        mate = mate->next;
    return mate != NULL ? mate->blocked_on : load->blocked_on;
}

static bool are_on_one_thread(const struct load *one, const struct load *other)
{
    return one == other || (one->batch != 0 && one->batch == other->batch);
}

/* A thread asks for one key at a time, and no circle was let in before: this ends, if not after so many steps. */
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

/* A turn so long ago is no reason to wait; its place counts another one's acquires by now. */
static bool is_batch_complete(const struct flight *flight)
{
    const struct core *core = flight->core;
    return core->pending_acquires[flight->acquire_iteration % CORE_ITERATIONS] == 0 ||
           core->iteration - flight->acquire_iteration >= CORE_ITERATIONS;
}

static bool may_start_load(const struct flight *flight, bool iteration_over)
{
    const struct core *core = flight->core;
    uint64_t replied_iteration = core->replied_iteration[flight->acquire_iteration % CORE_ITERATIONS];
    bool in_time = iteration_over ||
                   (flight->queued_iteration != core->iteration && replied_iteration != core->iteration);
    return !flight->batched || (in_time && is_batch_complete(flight));
}

static struct flight *next_queued_of_share(const struct core *core, enum queue queue, enum share share,
                                           bool iteration_over)
{
    struct flight *flight = core->queue[queue][share];
    while (flight != NULL && !may_start_load(flight, iteration_over))
        flight = flight->queue_next;
    return flight;
}

static enum share share_to_serve(const struct core *core)
{
    uint32_t alone = core->queries[SHARE_SINGLE], together = core->queries[SHARE_MANY];
    if (alone != together)
        return alone < together ? SHARE_SINGLE : SHARE_MANY;
    return core->served == SHARE_SINGLE ? SHARE_MANY : SHARE_SINGLE;
}

static struct flight *next_in_queue(const struct core *core, enum queue queue, bool iteration_over)
{
    struct flight *alone = next_queued_of_share(core, queue, SHARE_SINGLE, iteration_over);
    struct flight *together = next_queued_of_share(core, queue, SHARE_MANY, iteration_over);
    if (alone == NULL || together == NULL)
        return alone != NULL ? alone : together;
    return share_to_serve(core) == SHARE_SINGLE ? alone : together;
}

/* Users before refreshes. */
static struct flight *next_to_start(const struct core *core, bool iteration_over)
{
    struct flight *flight = next_in_queue(core, QUEUE_USERS, iteration_over);
    return flight != NULL ? flight : next_in_queue(core, QUEUE_REFRESHES, iteration_over);
}

static void start_queued(struct flight *flight)
{
    loads_dequeue(flight);
    lease_start_load(flight);
}

/* Somebody whose thread is free has joined a queued flight. */
static void start_lent(struct core *core, struct flight *first)
{
    struct flight *flight = core->nested_waiters > 0 ? first : NULL;
    while (flight != NULL) {
        struct flight *next = flight->queue_next;
        if (loads_lender(flight) != NULL)
            start_queued(flight);
        flight = next;
    }
}

/* The first of its policy in the queue, oldest first, `most` at the most; `next` stays valid, for starting moves only
 * the flight itself, at most to the end of a queue. Returns how many. */
static uint32_t start_batch_of_queue(struct core *core, const struct guard_policy *policy, enum queue queue,
                                     uint32_t most)
{
    uint32_t count = 0;
    struct flight *next = NULL;
    for (struct flight *at = core->queue[queue][SHARE_MANY]; at != NULL && count < most; at = next) {
        next = at->queue_next;
        if (!at->batched || at->policy != policy || !is_batch_complete(at))
            continue;
        start_queued(at);
        count++;
    }
    return count;
}

static void start_batch(struct core *core, const struct guard_policy *policy)
{
    core->batch = ++core->last_id;
    uint32_t users = start_batch_of_queue(core, policy, QUEUE_USERS, policy->batch_max);
    start_batch_of_queue(core, policy, QUEUE_REFRESHES, policy->batch_max - users);
    core->batch = 0;
}

static void start_queries(struct core *core, bool iteration_over)
{
    while (workers_free(core) > 0) {
        struct flight *flight = next_to_start(core, iteration_over);
        if (flight == NULL || !permits_allow(core))
            return;
        if (flight->batched)
            start_batch(core, flight->policy);
        else
            start_queued(flight);
    }
}

void loads_pump(struct core *core, bool iteration_over)
{
    for (int share = 0; share < SHARES; share++) {
        start_lent(core, core->queue[QUEUE_USERS][share]);
        start_lent(core, core->queue[QUEUE_REFRESHES][share]);
    }
    start_queries(core, iteration_over);
    permits_balance(core);
}

/* Another one of this load's batch; a load that is alone has batch 0 and none. NULL: it is the only one. */
static const struct load *other_load_of_batch(const struct core *core, const struct load *load)
{
    const struct load *at = load->batch != 0 ? core->loads : NULL;
    while (at != NULL && (at == load || at->batch != load->batch))
        at = at->next;
    return at;
}

struct load *loads_new(struct flight *flight, uint64_t deadline_us)
{
    struct core *core = flight->core;
    struct load *load = calloc(1, sizeof *load + flight->key.encoded_bytes);
    if (load == NULL)
        return NULL;
    load->id = ++core->last_id;
    load->flight = flight;
    load->lender = loads_lender(flight);
    load->cut_short = load->lender != NULL && load->lender->deadline_us < deadline_us;
    load->deadline_us = load->cut_short ? load->lender->deadline_us : deadline_us;
    load->batch = load->lender == NULL ? core->batch : 0;
    load->key_bytes = flight->key.encoded_bytes;
    memcpy(load->key, flight->key.encoded, load->key_bytes);
    const struct load *mate = other_load_of_batch(core, load);
    DL_APPEND(core->loads, load);
    if (load->lender != NULL) {
        load->lender->lending = true;
        core->stats.load_nested++;
        loads_give_place(flight);
        return load;
    }
    load->share = core->served = flight->share;
    core->queries[load->share] += mate == NULL;
    load->permit = mate != NULL ? mate->permit : permits_use(core);
    core->stats.loads_running++;
    load->place_parts = flight->place_parts; /* from here on its own */
    flight->place_parts = 0;
    return load;
}

struct load *loads_find(const struct core *core, uint64_t id)
{
    struct load *load = core->loads;
    while (load != NULL && load->id != id)
        load = load->next;
    return load;
}

static void end_query(struct core *core, const struct load *load)
{
    core->queries[load->share]--;
    if (load->permit != NULL)
        permits_give_back(core, load->permit);
}

void loads_free(struct core *core, struct load *load)
{
    assert(!load->lending);
    DL_DELETE(core->loads, load);
    if (load->lender != NULL) {
        load->lender->lending = false;
    } else {
        if (other_load_of_batch(core, load) == NULL)
            end_query(core, load);
        core->stats.loads_running--;
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
    core->stats.load_cancelled++;
    core_emit(core, &(struct core_action){.kind = CORE_CANCEL, .load = load->id});
}

static bool is_load_of_key(const struct load *load, const struct core_key *key)
{
    return load->key_bytes == key->encoded_bytes && memcmp(load->key, key->encoded, load->key_bytes) == 0;
}

bool loads_runs_key(const struct core *core, const struct core_key *key)
{
    for (const struct load *load = core->loads; load != NULL; load = load->next)
        if (load->flight != NULL && load->flight->leased && is_load_of_key(load, key))
            return true;
    return false;
}
