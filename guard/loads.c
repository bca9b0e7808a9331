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
 * Flights that gather are started in batches, at the end of a turn and when no answer is outstanding to an acquire
 * that was sent in the same turn as theirs. A batch is one query: it occupies one worker until its last load is over.
 */
#include "flight.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

bool loads_take_place(struct core *core, struct flight *flight)
{
    if (flight->has_place)
        return true;
    if (core->places_used >= core->config.load_workers + core->config.load_queue)
        return false;
    core->places_used++;
    flight->has_place = true;
    return true;
}

void loads_give_place(struct core *core, struct flight *flight)
{
    if (!flight->has_place)
        return;
    assert(core->places_used > 0);
    core->places_used--;
    flight->has_place = false;
}

static void join_line(struct core *core, struct flight *flight, enum line line)
{
    flight->line = line;
    DL_APPEND2(core->queue[line], flight, line_prev, line_next);
    core->users_queued += line == LINE_USERS;
    core->users_gathering += line == LINE_USERS && flight->gathers;
}

void loads_enqueue(struct core *core, struct flight *flight)
{
    assert(flight->has_place);
    join_line(core, flight, flight->first != NULL ? LINE_USERS : LINE_REFRESHES);
    core->gathering += flight->gathers;
    core->stats.loads_queued++;
}

void loads_raise(struct core *core, struct flight *flight)
{
    if (flight->state != FLIGHT_QUEUED || flight->line == LINE_USERS)
        return;
    DL_DELETE2(core->queue[LINE_REFRESHES], flight, line_prev, line_next);
    join_line(core, flight, LINE_USERS);
}

struct flight *loads_last_refresh(const struct core *core)
{
    const struct flight *first = core->queue[LINE_REFRESHES];
    struct flight *last = first != NULL ? first->line_prev : NULL;
    while (last != NULL && last->first != NULL) /* who joined it would take the place again */
        last = last != first ? last->line_prev : NULL;
    return last;
}

static uint32_t queries_wanted(const struct core *core, uint32_t queued, uint32_t gathering)
{
    uint32_t workers = core->config.load_workers - core->queries;
    uint32_t queries = queued - gathering + (gathering > 0); /* a batch at a time */
    return workers < queries ? workers : queries;
}

uint32_t loads_wanted(const struct core *core)
{
    return queries_wanted(core, core->stats.loads_queued, core->gathering);
}

uint32_t loads_wanted_by_users(const struct core *core)
{
    return queries_wanted(core, core->users_queued, core->users_gathering);
}

void loads_dequeue(struct core *core, struct flight *flight)
{
    DL_DELETE2(core->queue[flight->line], flight, line_prev, line_next);
    core->users_queued -= flight->line == LINE_USERS;
    core->users_gathering -= flight->line == LINE_USERS && flight->gathers;
    core->gathering -= flight->gathers;
    core->stats.loads_queued--;
}

struct load *loads_lender(const struct core *core, const struct flight *flight)
{
    const struct core_waiter *waiter = flight->asker_count > 0 ? flight->first : NULL;
    for (; waiter != NULL; waiter = waiter->next) {
        struct load *load = waiter->asker != 0 ? loads_find(core, waiter->asker) : NULL;
        if (load != NULL && !load->lending)
            return load;
    }
    return NULL;
}

void loads_remember_asker(struct core *core, struct flight *flight, struct core_waiter *waiter)
{
    struct load *load = loads_find(core, waiter->asker);
    flight->asker_count++;
    core->asker_count++;
    if (load != NULL)
        load->asking = waiter;
}

void loads_forget_asker(struct core *core, struct flight *flight, const struct core_waiter *waiter)
{
    struct load *load = loads_find(core, waiter->asker);
    flight->asker_count--;
    core->asker_count--;
    if (load != NULL)
        load->asking = NULL;
}

/* What its thread waits for: a batch has one thread. NULL: nothing. */
static const struct core_waiter *asking_of(const struct core *core, const struct load *load)
{
    const struct load *mate = load->batch != 0 ? core->loads : NULL;
    while (mate != NULL && (mate->batch != load->batch || mate->asking == NULL))
        mate = mate->next;
    return mate != NULL ? mate->asking : load->asking;
}

static bool on_one_thread(const struct load *one, const struct load *other)
{
    return one == other || (one->batch != 0 && one->batch == other->batch);
}

/* A thread asks for one key at a time, and no circle was let in before: this ends, if not after so many steps. */
bool loads_circle(const struct core *core, const struct flight *flight, uint64_t asker)
{
    enum { STEPS_MAX = 10000 };
    const struct load *load = flight->load, *asking = loads_find(core, asker);
    for (int i = 0; i < STEPS_MAX && load != NULL && asking != NULL && !on_one_thread(load, asking); i++) {
        const struct core_waiter *waiter = asking_of(core, load);
        load = waiter != NULL ? waiter->flight->load : NULL;
    }
    return load != NULL && asking != NULL;
}

/* A turn so long ago is no reason to wait; its place counts another one's acquires by now. */
static bool is_gathered(const struct core *core, const struct flight *flight)
{
    return core->asking[flight->asked_turn % CORE_TURNS] == 0 ||
           core->turn - flight->asked_turn >= CORE_TURNS;
}

static struct flight *next_in_line(const struct core *core, enum line line, bool turn_over)
{
    struct flight *flight = core->queue[line];
    while (flight != NULL && flight->gathers && !(turn_over && is_gathered(core, flight)))
        flight = flight->line_next;
    return flight;
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
static void start_lent(struct core *core, uint64_t now_us, enum line line)
{
    struct flight *flight = core->asker_count > 0 ? core->queue[line] : NULL;
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
    for (struct flight *at = core->queue[line]; at != NULL && count < most; at = next) {
        next = at->line_next;
        if (!at->gathers || at->policy != policy || !is_gathered(core, at))
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
    while (core->queries < core->config.load_workers) {
        struct flight *flight = next_to_start(core, turn_over);
        if (flight == NULL || !permits_allow(core, now_us))
            return;
        if (flight->gathers)
            start_batch(core, now_us, flight->policy);
        else
            start_queued(core, now_us, flight);
    }
}

void loads_pump(struct core *core, uint64_t now_us, bool turn_over)
{
    start_lent(core, now_us, LINE_USERS);
    start_lent(core, now_us, LINE_REFRESHES);
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
    core->queries += mate == NULL;
    load->permit = mate != NULL ? mate->permit : permits_use(core);
    core->stats.loads_running++;
    flight->has_place = false; /* the load's from here on */
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
    core->queries--;
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
        core->places_used--;
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
