/* SPDX-License-Identifier: MIT */
/* loads.c - see loads.h. */
#include "loads.h"
#include "../base/digest.h"
#include "defer.h"
#include "flight.h"
#include "halves.h"
#include "lease.h"
#include "nested.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* ---- places ---- */

void loads_choose_lane(struct flight *flight, bool of_many)
{
    flight->lane = of_many ? LANE_MANY : LANE_SINGLE;
    flight->batched = of_many && flight->policy->batch_loader != NULL;
    flight->single = !of_many;
}

static bool has_places_left(const struct core *core, enum lane lane, uint32_t parts)
{
    uint64_t places = (uint64_t)core->config.max_loads + core->config.load_queue;
    return core->loads.parts_used[lane] + parts <= places * PLACE_PARTS;
}

/* A refresh without waiters has a whole one: nothing else bounds how many there are. */
static uint32_t place_parts_of(const struct flight *flight)
{
    return flight->batched && flight->first != NULL ? PLACE_PARTS / flight->policy->batch_max : PLACE_PARTS;
}

static uint32_t room_for_queries(const struct core *core)
{
    return core->config.max_loads - core->loads.queries[LANE_SINGLE] - core->loads.queries[LANE_MANY];
}

bool loads_may_queue(const struct flight *flight)
{
    const struct core *core = flight->core;
    uint64_t places = (uint64_t)core->config.load_queue / 2 + room_for_queries(core);
    return !flight->passing ||
           core->loads.passing_parts[flight->lane] + place_parts_of(flight) <= places * PLACE_PARTS;
}

bool loads_take_place(struct flight *flight)
{
    struct core *core = flight->core;
    if (flight->place_parts > 0)
        return true;
    if (!loads_may_queue(flight) || !has_places_left(core, flight->lane, place_parts_of(flight)))
        return false;
    flight->place_parts = place_parts_of(flight);
    core->loads.parts_used[flight->lane] += flight->place_parts;
    return true;
}

static void free_parts(struct core *core, enum lane lane, uint32_t parts)
{
    assert(core->loads.parts_used[lane] >= parts);
    core->loads.parts_used[lane] -= parts;
}

void loads_give_place(struct flight *flight)
{
    free_parts(flight->core, flight->lane, flight->place_parts);
    flight->place_parts = 0;
}

/* ---- the queues ---- */

bool loads_is_for_user(const struct flight *flight)
{
    bool may_be_answered = flight->peek_op != 0 && flight->policy->soft_ms == 0;
    return flight->users > 0 && !may_be_answered;
}

static enum queue queue_of(const struct flight *flight)
{
    return loads_is_for_user(flight) ? QUEUE_USERS : QUEUE_REFRESHES;
}

/* It may leave in one query with others that have to wait as well. */
static bool may_be_joint(const struct flight *flight)
{
    const struct guard_policy *policy = flight->policy;
    bool can = policy->batch_loader != NULL && policy->batch_max > 1;
    bool apart = policy->apart || flight->passing || flight->nested_waiters > 0 ||
                 flight->core->config.mode == GUARD_MODE_OFF;
    return flight->batched || (can && !apart);
}

/* Of the query that it would be, or be in. */
static uint32_t query_parts_of(const struct flight *flight)
{
    return may_be_joint(flight) ? PLACE_PARTS / flight->policy->batch_max : PLACE_PARTS;
}

bool loads_needs_thread(const struct flight *flight)
{
    return flight->policy->loads_on != GUARD_ON_LOOP && (flight->first == NULL || !flight->first->lends);
}

/* Into the sums, and out of them: parts is 0. */
static void count_query(struct flight *flight, uint32_t parts)
{
    struct loads *loads = &flight->core->loads;
    loads->joint_queued -= flight->joint;
    loads->queued_parts += parts;
    loads->queued_parts -= flight->query_parts;
    loads->users_parts += flight->queue == QUEUE_USERS ? parts : 0;
    loads->users_parts -= flight->queue == QUEUE_USERS ? flight->query_parts : 0;
    flight->query_parts = parts;
    flight->joint = parts > 0 && may_be_joint(flight);
    loads->joint_queued += flight->joint;
    loads->queued_apart -= flight->counted_apart;
    flight->counted_apart = parts > 0 && !loads_needs_thread(flight);
    loads->queued_apart += flight->counted_apart;
}

static void join_queue(struct flight *flight)
{
    struct loads *loads = &flight->core->loads;
    enum queue queue = flight->queue = queue_of(flight);
    DL_APPEND2(loads->queues[queue][flight->lane], flight, queue_prev, queue_next);
    loads->batched_queued += flight->batched;
    count_query(flight, query_parts_of(flight));
    loads->passing_parts[flight->lane] += flight->passing ? flight->place_parts : 0;
}

static void leave_queue(struct flight *flight)
{
    struct loads *loads = &flight->core->loads;
    DL_DELETE2(loads->queues[flight->queue][flight->lane], flight, queue_prev, queue_next);
    loads->batched_queued -= flight->batched;
    loads->passing_parts[flight->lane] -= flight->passing ? flight->place_parts : 0;
    count_query(flight, 0);
    flight->queue = QUEUE_NONE;
}

void loads_enqueue(struct flight *flight)
{
    struct core *core = flight->core;
    flight->queued_turn = core->loads.turn;
    join_queue(flight);
    core->loads.queued++;
    flight_counts(flight)->loads_queued++;
}

void loads_dequeue(struct flight *flight)
{
    leave_queue(flight);
    flight->core->loads.queued--;
    flight_counts(flight)->loads_queued--;
}

/* A waiter asked for it by itself: it changes its lane, if the new one has a place for it. A queued refresh stays
 * where it is until a user needs it. */
static bool is_to_be_single(const struct flight *flight)
{
    bool stays = !flight->single || flight->lane == LANE_SINGLE || queue_of(flight) == QUEUE_REFRESHES;
    return !stays && (flight->place_parts == 0 || has_places_left(flight->core, LANE_SINGLE, PLACE_PARTS));
}

static void single_out(struct flight *flight)
{
    bool placed = flight->place_parts > 0;
    loads_give_place(flight);
    flight->lane = LANE_SINGLE;
    flight->batched = false;
    if (placed)
        loads_take_place(flight);
}

void loads_requeue(struct flight *flight)
{
    bool queued = flight->queue != QUEUE_NONE, singles = is_to_be_single(flight);
    if (queued)
        count_query(flight, query_parts_of(flight));
    if (!singles && (!queued || flight->queue == queue_of(flight)))
        return;
    if (queued)
        leave_queue(flight);
    if (singles)
        single_out(flight);
    if (queued)
        join_queue(flight);
}

struct flight *loads_last_refresh(const struct core *core, enum lane lane)
{
    const struct flight *first = core->loads.queues[QUEUE_REFRESHES][lane];
    struct flight *last = first != NULL ? first->queue_prev : NULL;
    while (last != NULL && last->users > 0) /* they may need its place */
        last = last != first ? last->queue_prev : NULL;
    return last;
}

static uint32_t smaller(uint32_t one, uint32_t other)
{
    return one < other ? one : other;
}

static uint32_t threads_free(const struct core *core)
{
    uint32_t threads = core->config.load_threads > 0 ? core->config.load_threads : core->config.max_loads;
    return threads > core->loads.threads_used ? threads - core->loads.threads_used : 0;
}

bool loads_thread_free(const struct core *core)
{
    return threads_free(core) > 0;
}

static uint32_t queries_free(const struct core *core)
{
    return smaller(room_for_queries(core), threads_free(core) + core->loads.queued_apart);
}

uint32_t loads_wanted(const struct core *core, uint64_t parts)
{
    uint64_t queries = (parts + PLACE_PARTS - 1) / PLACE_PARTS;
    return smaller(queries_free(core), queries < UINT32_MAX ? (uint32_t)queries : UINT32_MAX);
}

void loads_expect(struct flight *flight, bool likely)
{
    const uint32_t parts = likely ? query_parts_of(flight) : 0;
    flight->core->loads.expected_parts += parts;
    flight->core->loads.expected_parts -= flight->expected_parts;
    flight->expected_parts = parts;
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

/* It is no half, or its other one is back, and what else it is part of as far as it matters. */
static bool is_query_over(const struct flight *flight)
{
    const struct core *core = flight->core;
    if (flight->halves == NULL)
        return true;
    const struct load *load = core->loads.running;
    while (load != NULL && load->batch != flight->half >> 1)
        load = load->next;
    return load == NULL && !(halves_doubtful(flight->halves) && halves_run(core, flight->halves));
}

static bool may_start_load(const struct flight *flight, bool turn_over)
{
    const struct core *core = flight->core;
    if (!is_query_over(flight) || (!flight->counted_apart && threads_free(core) == 0))
        return false;
    uint64_t replied_turn = core->loads.replied_turn[flight->acquire_turn % LOADS_TURNS];
    bool in_time = turn_over || (flight->queued_turn != core->loads.turn && replied_turn != core->loads.turn);
    return !flight->batched || (in_time && is_batch_complete(flight));
}

static struct flight *next_queued_of_lane(const struct core *core, enum queue queue, enum lane lane,
                                          bool turn_over)
{
    struct flight *flight = core->loads.queues[queue][lane];
    while (flight != NULL && !may_start_load(flight, turn_over))
        flight = flight->queue_next;
    return flight;
}

static enum lane lane_to_serve(const struct core *core)
{
    uint32_t single = core->loads.queries[LANE_SINGLE], many = core->loads.queries[LANE_MANY];
    if (single != many)
        return single < many ? LANE_SINGLE : LANE_MANY;
    return core->loads.served == LANE_SINGLE ? LANE_MANY : LANE_SINGLE;
}

static struct flight *next_in_queue(const struct core *core, enum queue queue, bool turn_over)
{
    struct flight *single = next_queued_of_lane(core, queue, LANE_SINGLE, turn_over);
    struct flight *many = next_queued_of_lane(core, queue, LANE_MANY, turn_over);
    if (single == NULL || many == NULL)
        return single != NULL ? single : many;
    return lane_to_serve(core) == LANE_SINGLE ? single : many;
}

/* ---- starting ---- */

static void start_queued(struct flight *flight)
{
    loads_dequeue(flight);
    lease_start_load(flight);
}

/* Of flights in this queue, those whose load may run in the place of one that waits for it. */
static void start_nested(struct core *core, struct flight *first)
{
    struct flight *flight = core->loads.nested_waiters > 0 ? first : NULL;
    while (flight != NULL) {
        struct flight *next = flight->queue_next;
        if (nested_has_berth(flight))
            start_queued(flight);
        flight = next;
    }
}

static bool is_load_of_key(const struct load *load, const struct core_key *key)
{
    return load->key_bytes == key->encoded_bytes && memcmp(load->key, key->encoded, load->key_bytes) == 0;
}

/* The keys of a batch differ, but in mode OFF. Only loads that pass, or one that revalidates and one that does not,
 * may be several of one key. */
static bool has_key_in_batch(const struct flight *flight)
{
    const struct core *core = flight->core;
    bool differ =
        core->config.mode != GUARD_MODE_OFF && (core->loads.passing > 0 || core->by_key[true] != NULL);
    const struct load *last = differ ? core->loads.batch_last : NULL, *load = last;
    bool found = last != NULL && is_load_of_key(last, &flight->key);
    while (last != NULL && !found && load->mate_prev != last) {
        load = load->mate_prev;
        found = is_load_of_key(load, &flight->key);
    }
    return found;
}

/* Which flights may be one query. */
struct joint {
    const struct guard_policy *policy;
    uint64_t half;
};

static bool is_one_of(const struct flight *flight, const struct joint *joint)
{
    bool waits = flight->batched && !is_batch_complete(flight);
    return flight->joint && flight->policy == joint->policy && flight->half == joint->half && !waits &&
           !has_key_in_batch(flight);
}

/* The oldest of them in this queue, `most` at the most; `next` stays valid, for starting moves only the flight
 * itself, at most to the end of a queue. Returns how many. */
static uint32_t start_batch_of_queue(const struct joint *joint, struct flight *first, uint32_t most)
{
    uint32_t count = 0;
    struct flight *next = NULL;
    for (struct flight *at = first; at != NULL && count < most; at = next) {
        next = at->queue_next;
        if (!is_one_of(at, joint))
            continue;
        start_queued(at);
        count++;
    }
    return count;
}

/* The oldest that may start, and what may go with it: users first, in each class its own lane first. */
static void start_batch(struct core *core, const struct flight *oldest)
{
    const struct joint joint = {oldest->policy, oldest->half};
    const enum lane own = oldest->lane, lanes[LANES] = {own, own == LANE_MANY ? LANE_SINGLE : LANE_MANY};
    static const enum queue classes[] = {QUEUE_USERS, QUEUE_REFRESHES};
    uint32_t left = joint.policy->batch_max;
    core->loads.batch = ++core->last_id;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < LANES; j++)
            left -= start_batch_of_queue(&joint, core->loads.queues[classes[i]][lanes[j]], left);
    core->loads.batch = 0;
    core->loads.batch_last = NULL;
}

/* It may take others with it: they have come together, or not all that are queued could start now. */
static bool is_joined(const struct flight *flight, uint32_t may_start)
{
    const struct loads *loads = &flight->core->loads;
    uint32_t queries = loads->queued - loads->batched_queued + (loads->batched_queued > 0);
    bool together = flight->batched || flight->half != 0;
    return flight->joint && loads->joint_queued > 1 && (together || queries > may_start);
}

static void start_queries(struct core *core, bool turn_over)
{
    while (queries_free(core) > 0) {
        struct flight *flight = next_in_queue(core, QUEUE_USERS, turn_over);
        if (flight == NULL)
            flight = next_in_queue(core, QUEUE_REFRESHES, turn_over);
        uint32_t may_start = queries_free(core);
        if (flight != NULL && permits_exist(core))
            may_start = smaller(may_start, permits_allow(core));
        if (flight == NULL || may_start == 0)
            return;
        if (is_joined(flight, may_start))
            start_batch(core, flight);
        else
            start_queued(flight);
    }
}

void loads_pump(struct core *core, bool turn_over)
{
    for (int lane = 0; lane < LANES; lane++) {
        start_nested(core, core->loads.queues[QUEUE_USERS][lane]);
        start_nested(core, core->loads.queues[QUEUE_REFRESHES][lane]);
    }
    start_queries(core, turn_over);
    if (permits_exist(core))
        permits_balance(core);
}

/* ---- loads ---- */

static struct load **slot_of_id(struct core *core, uint64_t id)
{
    return &core->loads.by_id[id % LOADS_SLOTS];
}

static struct load **slot_of_key(struct core *core, const char *encoded, size_t encoded_bytes)
{
    uint64_t hash = digest_siphash(core->config.hash_key, encoded, encoded_bytes);
    return &core->loads.by_key[hash % LOADS_SLOTS];
}

/* A batch starts at once. */
static void join_batch(struct core *core, struct load *load)
{
    struct load *last = core->loads.batch_last;
    load->mate_prev = load->mate_next = load;
    if (load->batch == 0)
        return;
    core->loads.batch_last = load;
    if (last == NULL)
        return;
    last->had_mates = load->had_mates = true;
    load->in_second = !last->in_second; /* whatever their number is, the halves are as large */
    load->mate_prev = last;
    load->mate_next = last->mate_next;
    last->mate_next->mate_prev = load;
    last->mate_next = load;
}

bool loads_is_alone(const struct load *load)
{
    return load->mate_next == load;
}

/* From here on its own: a query keeps one place of its lane at the most, whatever its flights had. */
static void take_over_place(struct core *core, struct load *load, struct flight *flight)
{
    uint32_t room = load->lane == flight->lane ? PLACE_PARTS - core->loads.query_parts : 0;
    load->place_parts = smaller(flight->place_parts, room);
    core->loads.query_parts += load->place_parts;
    free_parts(core, flight->lane, flight->place_parts - load->place_parts);
    flight->place_parts = 0;
}

/* Its query is one that runs already, or begins with it. */
static void begin_query(struct core *core, struct load *load, struct flight *flight)
{
    const struct load *other = loads_is_alone(load) ? NULL : load->mate_prev;
    load->lane = core->loads.served = other != NULL ? other->lane : flight->lane;
    load->on_thread = loads_needs_thread(flight);
    core->loads.queries[load->lane] += other == NULL;
    core->loads.threads_used += other == NULL && load->on_thread;
    if (permits_exist(core))
        load->permit = other != NULL ? other->permit : permits_use(core);
    flight_counts(flight)->loads_running++;
    flight_counts(flight)->load_queries += other == NULL;
    if (other == NULL)
        core->loads.query_parts = 0;
    take_over_place(core, load, flight);
}

struct load *loads_new(struct flight *flight, uint64_t deadline_us)
{
    struct core *core = flight->core;
    struct load *load = calloc(1, sizeof *load + flight->key.encoded_bytes + flight->key.plain_bytes + 1);
    if (load == NULL || !core_reserve(core, ACTIONS_PER_LOAD)) {
        free(load);
        return NULL;
    }
    load->id = flight->load_id;
    load->kind = flight->kind;
    load->flight = flight;
    load->hold.owner = ALARM_LOAD;
    load->hold_until_us = flight->hold_until_us;
    load->deadline_us = deadline_us;
    load->key_bytes = flight->key.encoded_bytes;
    memcpy(load->key, flight->key.encoded, load->key_bytes);
    memcpy(load->key + load->key_bytes, flight->key.plain, flight->key.plain_bytes);
    bool nested = nested_take_berth(flight, load);
    load->batch = nested ? 0 : core->loads.batch;
    join_batch(core, load);
    DL_APPEND(core->loads.running, load);
    DL_APPEND2(*slot_of_id(core, load->id), load, id_prev, id_next);
    DL_APPEND2(*slot_of_key(core, load->key, load->key_bytes), load, key_prev, key_next);
    if (nested)
        loads_give_place(flight);
    else
        begin_query(core, load, flight);
    return load;
}

struct load *loads_find(const struct core *core, uint64_t id)
{
    struct load *load = core->loads.by_id[id % LOADS_SLOTS];
    while (load != NULL && load->id != id)
        load = load->id_next;
    return load;
}

void loads_leave_thread(struct core *core, struct load *load)
{
    nested_leave_thread(load);
    if (!load->on_thread)
        return;
    load->on_thread = false;
    const struct load *mate = load->mate_next;
    while (mate != load && !mate->on_thread)
        mate = mate->mate_next;
    if (mate == load)
        core->loads.threads_used--;
}

/* Its query is over, and nothing runs in its place. */
static void free_place(struct core *core, struct load *load)
{
    if (load->outer == NULL) {
        if (loads_is_alone(load)) {
            core->loads.queries[load->lane]--;
            if (load->permit != NULL)
                permits_query_over(core, load->permit);
        }
        core_counts(core, load->kind)->loads_running--;
        free_parts(core, load->lane, load->place_parts);
    }
    load->mate_prev->mate_next = load->mate_next;
    load->mate_next->mate_prev = load->mate_prev;
    DL_DELETE(core->loads.running, load);
    core_unreserve(core, ACTIONS_PER_LOAD);
    free(load);
}

void loads_free(struct core *core, struct load *load)
{
    assert(load->lent_to == NULL || load->deferred);
    loads_leave_thread(core, load);
    nested_forget_waiters(load);
    alarm_unset(&core->alarms, &load->hold);
    DL_DELETE2(*slot_of_id(core, load->id), load, id_prev, id_next); /* it is found no more */
    DL_DELETE2(*slot_of_key(core, load->key, load->key_bytes), load, key_prev, key_next);
    load->over = true;
    load->flight = NULL;
    while (load != NULL && load->over && load->guests == 0) {
        struct load *outer = load->outer;
        if (outer != NULL)
            nested_leave_place(load);
        free_place(core, load);
        load = outer;
    }
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
    struct load *load = flight->load;
    load->flight = NULL;
    flight->load = NULL;
    if (load->deferred)
        defer_given_up(flight->core, load);
}

uint64_t loads_half(const struct load *load)
{
    return load->batch << 1 | load->in_second;
}

bool loads_runs_key(const struct flight *flight)
{
    const struct core *core = flight->core;
    const struct core_key *key = &flight->key;
    uint64_t hash = digest_siphash(core->config.hash_key, key->encoded, key->encoded_bytes);
    const struct load *load = core->loads.by_key[hash % LOADS_SLOTS];
    for (; load != NULL; load = load->key_next)
        if (load->flight != NULL && load->flight->leased &&
            load->flight->revalidation.on == flight->revalidation.on && is_load_of_key(load, key))
            return true;
    return false;
}
