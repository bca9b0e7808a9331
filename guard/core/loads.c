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
 * Users before refreshes: two lines, and who is in the first goes first. A refresh that somebody joins in vain moves
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

static bool has_places(const struct core *core, enum share share, uint32_t parts)
{
    uint64_t places = (uint64_t)core->config.load_workers + core->config.load_queue;
    return core->parts_used[share] + parts <= places * PLACE_PARTS;
}

/* A refresh that nobody waits for has a whole one: nothing else bounds how many there are. */
static uint32_t parts_of(const struct flight *flight)
{
    return flight->batched && flight->first != NULL ? PLACE_PARTS / flight->policy->batch_max : PLACE_PARTS;
}

bool loads_take_place(struct core *core, struct flight *flight)
{
    if (flight->place_parts > 0)
        return true;
    if (!has_places(core, flight->share, parts_of(flight)))
        return false;
    flight->place_parts = parts_of(flight);
    core->parts_used[flight->share] += flight->place_parts;
    return true;
}

static void free_parts(struct core *core, enum share share, uint32_t parts)
{
    assert(core->parts_used[share] >= parts);
    core->parts_used[share] -= parts;
}

void loads_give_place(struct core *core, struct flight *flight)
{
    free_parts(core, flight->share, flight->place_parts);
    flight->place_parts = 0;
}

static void join_line(struct core *core, struct flight *flight, enum line line)
{
    flight->line = line;
    DL_APPEND2(core->queue[line][flight->share], flight, line_prev, line_next);
    core->users_queued += line == LINE_USERS;
    core->users_batched += line == LINE_USERS && flight->batched;
    core->batched_queued += flight->batched;
}

static void leave_line(struct core *core, struct flight *flight)
{
    DL_DELETE2(core->queue[flight->line][flight->share], flight, line_prev, line_next);
    core->users_queued -= flight->line == LINE_USERS;
    core->users_batched -= flight->line == LINE_USERS && flight->batched;
    core->batched_queued -= flight->batched;
}

void loads_enqueue(struct core *core, struct flight *flight)
{
    assert(flight->place_parts > 0);
    flight->queued_turn = core->turn;
    join_line(core, flight, flight->first != NULL ? LINE_USERS : LINE_REFRESHES);
    core->stats.loads_queued++;
}

void loads_dequeue(struct core *core, struct flight *flight)
{
    leave_line(core, flight);
    core->stats.loads_queued--;
}

void loads_single_out(struct core *core, struct flight *flight)
{
    bool queued = flight->state == FLIGHT_QUEUED, placed = flight->place_parts > 0;
    if (flight->share == SHARE_SINGLE || (placed && !has_places(core, SHARE_SINGLE, PLACE_PARTS)))
        return;
    if (queued)
        leave_line(core, flight);
    loads_give_place(core, flight);
    flight->share = SHARE_SINGLE;
    flight->batched = false;
    if (placed)
        loads_take_place(core, flight);
    if (queued)
        join_line(core, flight, flight->line);
}

void loads_raise(struct core *core, struct flight *flight)
{
    if (flight->state != FLIGHT_QUEUED || flight->line == LINE_USERS)
        return;
    leave_line(core, flight);
    join_line(core, flight, LINE_USERS);
    if (flight->alone)
        loads_single_out(core, flight);
}

struct flight *loads_last_refresh(const struct core *core, enum share share)
{
    const struct flight *first = core->queue[LINE_REFRESHES][share];
    struct flight *last = first != NULL ? first->line_prev : NULL;
    while (last != NULL && last->first != NULL) /* who joined it would take the place again */
        last = last != first ? last->line_prev : NULL;
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

struct load *loads_lender(const struct core *core, const struct flight *flight)
{
    const struct core_waiter *waiter = flight->nested_waiters > 0 ? flight->first : NULL;
    for (; waiter != NULL; waiter = waiter->next) {
        struct load *load = waiter->parent_load != 0 ? loads_find(core, waiter->parent_load) : NULL;
        if (load != NULL && !load->lending)
            return load;
    }
    return NULL;
}

void loads_block(struct core *core, struct flight *flight, struct core_waiter *waiter)
{
    struct load *load = loads_find(core, waiter->parent_load);
    flight->nested_waiters++;
    core->nested_waiters++;
    if (load != NULL)
        load->blocked_on = waiter;
}

void loads_unblock(struct core *core, struct flight *flight, const struct core_waiter *waiter)
{
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

static bool on_one_thread(const struct load *one, const struct load *other)
{
    return one == other || (one->batch != 0 && one->batch == other->batch);
}

/* A thread asks for one key at a time, and no circle was let in before: this ends, if not after so many steps. */
bool loads_circle(const struct core *core, const struct flight *flight, uint64_t parent_load)
{
    enum { STEPS_MAX = 10000 };
    const struct load *load = flight->load, *parent = loads_find(core, parent_load);
    for (int i = 0; i < STEPS_MAX && load != NULL && parent != NULL && !on_one_thread(load, parent); i++) {
        const struct core_waiter *waiter = blocked_on_of(core, load);
        load = waiter != NULL ? waiter->flight->load : NULL;
    }
    return load != NULL && parent != NULL;
}

/* A turn so long ago is no reason to wait; its place counts another one's acquires by now. */
static bool is_batch_complete(const struct core *core, const struct flight *flight)
{
    return core->pending_acquires[flight->acquire_turn % CORE_TURNS] == 0 ||
           core->turn - flight->acquire_turn >= CORE_TURNS;
}

static bool can_start(const struct core *core, const struct flight *flight, bool turn_over)
{
    uint64_t replied_turn = core->replied_turn[flight->acquire_turn % CORE_TURNS];
    bool in_time = turn_over || (flight->queued_turn != core->turn && replied_turn != core->turn);
    return !flight->batched || (in_time && is_batch_complete(core, flight));
}

static struct flight *next_of_share(const struct core *core, enum line line, enum share share, bool turn_over)
{
    struct flight *flight = core->queue[line][share];
    while (flight != NULL && !can_start(core, flight, turn_over))
        flight = flight->line_next;
    return flight;
}

static enum share share_to_serve(const struct core *core)
{
    uint32_t alone = core->queries[SHARE_SINGLE], together = core->queries[SHARE_MANY];
    if (alone != together)
        return alone < together ? SHARE_SINGLE : SHARE_MANY;
    return core->served == SHARE_SINGLE ? SHARE_MANY : SHARE_SINGLE;
}

static struct flight *next_in_line(const struct core *core, enum line line, bool turn_over)
{
    struct flight *alone = next_of_share(core, line, SHARE_SINGLE, turn_over);
    struct flight *together = next_of_share(core, line, SHARE_MANY, turn_over);
    if (alone == NULL || together == NULL)
        return alone != NULL ? alone : together;
    return share_to_serve(core) == SHARE_SINGLE ? alone : together;
}

/* Users before refreshes. */
static struct flight *next_to_start(const struct core *core, bool turn_over)
{
    struct flight *flight = next_in_line(core, LINE_USERS, turn_over);
    return flight != NULL ? flight : next_in_line(core, LINE_REFRESHES, turn_over);
}

static void start_queued(struct core *core, uint64_t now_us, struct flight *flight)
{
    loads_dequeue(core, flight);
    flight_start_load(core, now_us, flight);
}

/* Somebody whose thread is free has joined a queued flight. */
static void start_lent(struct core *core, uint64_t now_us, struct flight *first)
{
    struct flight *flight = core->nested_waiters > 0 ? first : NULL;
    while (flight != NULL) {
        struct flight *next = flight->line_next;
        if (loads_lender(core, flight) != NULL)
            start_queued(core, now_us, flight);
        flight = next;
    }
}

/* The first of its policy in the line, oldest first, `most` at the most; `next` stays valid, for starting moves only
 * the flight itself, at most to the end of a line. Returns how many. */
static uint32_t start_mates(struct core *core, uint64_t now_us, const struct guard_policy *policy,
                            enum line line, uint32_t most)
{
    uint32_t count = 0;
    struct flight *next = NULL;
    for (struct flight *at = core->queue[line][SHARE_MANY]; at != NULL && count < most; at = next) {
        next = at->line_next;
        if (!at->batched || at->policy != policy || !is_batch_complete(core, at))
            continue;
        start_queued(core, now_us, at);
        count++;
    }
    return count;
}

static void start_batch(struct core *core, uint64_t now_us, const struct guard_policy *policy)
{
    core->batch = ++core->last_id;
    uint32_t users = start_mates(core, now_us, policy, LINE_USERS, policy->batch_max);
    start_mates(core, now_us, policy, LINE_REFRESHES, policy->batch_max - users);
    core->batch = 0;
}

static void start_queries(struct core *core, uint64_t now_us, bool turn_over)
{
    while (workers_free(core) > 0) {
        struct flight *flight = next_to_start(core, turn_over);
        if (flight == NULL || !permits_allow(core, now_us))
            return;
        if (flight->batched)
            start_batch(core, now_us, flight->policy);
        else
            start_queued(core, now_us, flight);
    }
}

void loads_pump(struct core *core, uint64_t now_us, bool turn_over)
{
    for (int share = 0; share < SHARES; share++) {
        start_lent(core, now_us, core->queue[LINE_USERS][share]);
        start_lent(core, now_us, core->queue[LINE_REFRESHES][share]);
    }
    start_queries(core, now_us, turn_over);
    permits_balance(core, now_us);
}

/* Another one of this load's batch; a load that is alone has batch 0 and none. NULL: it is the only one. */
static const struct load *mate_of(const struct core *core, const struct load *load)
{
    const struct load *at = load->batch != 0 ? core->loads : NULL;
    while (at != NULL && (at == load || at->batch != load->batch))
        at = at->next;
    return at;
}

struct load *loads_new(struct core *core, struct flight *flight, uint64_t deadline_us)
{
    struct load *load = calloc(1, sizeof *load + flight->key.encoded_bytes);
    if (load == NULL)
        return NULL;
    load->id = ++core->last_id;
    load->flight = flight;
    load->lender = loads_lender(core, flight);
    load->cut_short = load->lender != NULL && load->lender->deadline_us < deadline_us;
    load->deadline_us = load->cut_short ? load->lender->deadline_us : deadline_us;
    load->batch = load->lender == NULL ? core->batch : 0;
    load->key_bytes = flight->key.encoded_bytes;
    memcpy(load->key, flight->key.encoded, load->key_bytes);
    const struct load *mate = mate_of(core, load);
    DL_APPEND(core->loads, load);
    if (load->lender != NULL) {
        load->lender->lending = true;
        core->stats.load_nested++;
        loads_give_place(core, flight);
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

static void end_query(struct core *core, uint64_t now_us, const struct load *load)
{
    core->queries[load->share]--;
    if (load->permit != NULL)
        permits_give_back(core, now_us, load->permit);
}

void loads_free(struct core *core, uint64_t now_us, struct load *load)
{
    assert(!load->lending);
    DL_DELETE(core->loads, load);
    if (load->lender != NULL) {
        load->lender->lending = false;
    } else {
        if (mate_of(core, load) == NULL)
            end_query(core, now_us, load);
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

static bool is_of_key(const struct load *load, const struct core_key *key)
{
    return load->key_bytes == key->encoded_bytes && memcmp(load->key, key->encoded, load->key_bytes) == 0;
}

bool loads_runs_key(const struct core *core, const struct core_key *key)
{
    for (const struct load *load = core->loads; load != NULL; load = load->next)
        if (load->flight != NULL && load->flight->leased && is_of_key(load, key))
            return true;
    return false;
}
