/* SPDX-License-Identifier: MIT */
/*
 * sim_world.c - one run: what a seed stands for, the phases, and where each event goes.
 */
#include "sim.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEAL_US = 60000000, /* longer than any deadline, hung load, lease and pause of a breaker together */
    PROBE_US = 12000000,
    END_US = 2000000,
    SOFT_MS = 500, /* not far above what a load takes, or no request would ever wait so long */
};

/* ---- services ---- */

uint64_t sim_between(struct sim *sim, uint64_t low, uint64_t high)
{
    return course_between(&sim->course, low, high);
}

bool sim_one_in(struct sim *sim, uint32_t chances)
{
    return course_one_in(&sim->course, chances);
}

bool sim_fault(struct sim *sim, enum fault fault, uint32_t chances)
{
    if (!sim->params.enabled[fault] || !sim_one_in(sim, chances))
        return false;
    sim->hit[fault]++;
    return true;
}

void sim_at(struct sim *sim, uint64_t at_us, struct event event)
{
    course_at(&sim->course, at_us, event);
}

void sim_moment(struct sim *sim, uint32_t key, enum event_kind kind)
{
    if (sim->phase != PHASE_CHAOS || sim->params.spite == 0 || !sim_one_in(sim, sim->params.spite))
        return;
    struct event event = {.kind = kind, .key = key};
    event.process = (uint32_t)sim_between(sim, 0, sim->params.processes - 1);
    sim_at(sim, sim->course.now_us + sim_between(sim, 0, sim->params.latency_us), event);
}

void sim_trace(struct sim *sim, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    course_trace(&sim->course, format, args);
    va_end(args);
}

void sim_fail(struct sim *sim, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    course_fail(&sim->course, format, args);
    va_end(args);
}

/* ---- what a seed stands for ---- */

static uint32_t between(struct sim *sim, uint32_t low, uint32_t high)
{
    return (uint32_t)sim_between(sim, low, high);
}

/* That there is one is all the core asks. */
static void never_called(struct guard_load *const *loads, size_t count, void *context)
{
    (void)loads, (void)count, (void)context;
    abort();
}

static void choose_policy(struct sim *sim)
{
    struct params *params = &sim->params;
    struct guard_policy *policy = &params->policy;
    *policy = (struct guard_policy)GUARD_POLICY_DEFAULTS;
    policy->outage_ms = 0; /* outage_choose() */
    policy->fresh_ms = between(sim, 50, 2000);
    policy->stale_ms = sim_one_in(sim, 2) ? 0 : between(sim, 100, 2000);
    policy->absent_ms = between(sim, 50, 1000);
    policy->failure_ms = between(sim, 50, 1000);
    policy->jitter_percent = between(sim, 0, 30);
    policy->lease_ms = between(sim, 150, 1500);
    policy->max_hold_ms = between(sim, 500, 6000);
    policy->load_limit_ms = between(sim, 500, policy->max_hold_ms);
    policy->deadline_ms = between(sim, 200, 6000);
    if (policy->stale_ms > 0 && sim_one_in(sim, 2))
        policy->soft_ms = between(sim, 1, policy->deadline_ms < SOFT_MS ? policy->deadline_ms : SOFT_MS);
    policy->early_percent = sim_one_in(sim, 2) ? 0 : between(sim, 50, 1000);
    params->lookup_percent = sim_one_in(sim, 2) ? 0 : between(sim, 20, 100);
    params->conditional = sim_one_in(sim, 2);
    params->nested = sim_one_in(sim, 3) ? between(sim, 1, 5) : 0;
    params->pushes =
        sim->course.seed % 4 != 0; /* no dice here and below: the other worlds stay as they are */
    if (sim->course.seed % 3 == 0) {
        params->together_percent = (uint32_t)(30 + sim->course.seed / 3 % 71);
        policy->batch_loader = never_called;
        policy->batch_max = (uint32_t)(1 + sim->course.seed / 3 % 4);
    }
    if (sim->course.seed % 4 == 2) {
        params->permits = (uint32_t)(1 + sim->course.seed / 4 % 4);
        params->permit_ms = (uint32_t)(200 + sim->course.seed / 16 % 1800);
    }
    params->tagged = policy->tagged =
        sim->course.seed % 8 == 1 || sim->course.seed % 8 == 3 || sim->course.seed % 16 == 0;
    params->redis_limit_ms = between(sim, 20, policy->lease_ms / 3);
    params->load_ms = between(sim, 5, 300);
    params->latency_us = between(sim, 100, 4000);
}

/* Nothing is wrong, so nothing may go wrong. */
static void choose_calm(struct sim *sim)
{
    struct params *params = &sim->params;
    memset(params->enabled, 0, sizeof params->enabled);
    params->calm = true;
    params->nested = 0; /* a circle through several processes costs loads */
    params->workers = 4;
    params->queue = SIM_REQUESTS;
    params->max_waiters = SIM_REQUESTS;
    params->policy.lease_ms = between(sim, 200, 1500);
    params->redis_limit_ms = 60;
    params->policy.max_hold_ms = 20000;
    params->policy.load_limit_ms = 15000;
    params->policy.deadline_ms = 12000;
    params->enabled[FAULT_LOAD_FAILS] = sim_one_in(sim, 3);
    params->enabled[FAULT_REQUEST_LEAVES] = sim_one_in(sim, 3);
    params->enabled[FAULT_MESSAGE_LOST] = sim_one_in(sim, 2);
    params->enabled[FAULT_MESSAGE_TWICE] = sim_one_in(sim, 2);
    params->enabled[FAULT_SUBSCRIPTION] = sim_one_in(sim, 2);
    params->enabled[FAULT_SHUTDOWN] = sim_one_in(sim, 3);
    params->tick_late_us = 0;
}

static enum guard_mode choose_mode(struct sim *sim)
{
    if (!sim_one_in(sim, 12))
        return GUARD_MODE_FLEET;
    return sim_one_in(sim, 2) ? GUARD_MODE_LOCAL : GUARD_MODE_OFF;
}

/* Without sharing, every get loads: more of them than workers is a queue, however calm. */
static void choose_room(struct params *params)
{
    if (params->calm && params->mode == GUARD_MODE_OFF)
        params->workers = SIM_REQUESTS;
}

/* Many requests for many keys, few places, and no load is shared. No dice here, and below: the other worlds stay as
 * they are. */
static void choose_crowd(struct sim *sim)
{
    enum { WORLDS = 30, CROWDED = 6 };
    struct params *params = &sim->params;
    uint64_t number = sim->course.seed / WORLDS;
    if (sim->course.seed % WORLDS != CROWDED || params->calm)
        return;
    params->mode = GUARD_MODE_OFF;
    params->workers = (uint32_t)(1 + number % 2);
    params->queue = (uint32_t)(number / 2 % 4);
}

static void choose_near(struct sim *sim)
{
    enum { WORLDS = 4, NEAR_MOST_MS = 1500, TIGHT_BYTES = 65536 };
    struct params *params = &sim->params;
    uint64_t number = sim->course.seed / WORLDS;
    if (sim->course.seed % WORLDS != 1 || params->mode == GUARD_MODE_OFF)
        return;
    params->near_ms = (uint32_t)(20 + number * 7 % NEAR_MOST_MS);
    params->near_bytes = number % 2 != 0 ? TIGHT_BYTES : 1 << 20;
    params->lookup_percent = 100;
}

/* In some, masters fail over again and again, and nothing else goes wrong; in some it takes longer than what was
 * confirmed is remembered while the old master answers. */
static void choose_shards(struct sim *sim)
{
    enum { FRESH_MS = 4000, WRITES = 30, DISASTERS = 60, FEW = 20, AWAY_MS = 31000 };
    struct params *params = &sim->params;
    if (params->shards == 1)
        return;
    if (params->tagged) /* the leap of their clock goes to the time */
        params->enabled[FAULT_CLOCK_BACK] = false;
    params->replays = sim->course.seed % 2 == 1;
    if (sim->course.seed % 8 == 5 && !params->calm) {
        params->failover_ms = AWAY_MS;
        params->disasters = FEW;
        params->enabled[FAULT_REDIS_FAILOVER] = true;
    }
    params->enabled[FAULT_SLOT_MOVES] = !params->calm && sim->course.seed / 2 % 2 == 0;
    if (!params->tagged || params->calm || params->failover_ms > 0 || sim->course.seed % 3 != 1)
        return;
    memset(params->enabled, 0, sizeof params->enabled);
    params->enabled[FAULT_REDIS_FAILOVER] = true;
    params->disasters = (uint32_t)(DISASTERS + sim->course.seed / 3 % DISASTERS);
    params->writes = WRITES;
    params->policy.fresh_ms = FRESH_MS;
}

/* A former master goes on, beside nothing that would hide it: no near caches, no permits. A process that stands still
 * beside a master that does finds out too late, and with keys that move it would be another one's former. */
static void choose_former(struct sim *sim)
{
    enum { KINDS = 3, WRITES = 15, FRESH_MS = 6000 };
    struct params *params = &sim->params;
    uint64_t number = sim->course.seed / 4;
    if (params->shards == 1 || params->calm || sim->course.seed % 4 != 0)
        return;
    params->enabled[FAULT_REDIS_WAKES + number % KINDS] = true;
    params->enabled[FAULT_STALL] = params->enabled[FAULT_REDIS_HANG] = params->enabled[FAULT_SLOT_MOVES] =
        false;
    params->replays = true;
    params->sentinels = number / KINDS % 2 == 0;
    params->writes += WRITES;
    if (params->enabled[FAULT_REDIS_WAKES]) /* or nothing is left when it does */
        params->policy.fresh_ms = FRESH_MS;
}

/* Some worlds with wishes have several masters, too. */
static bool has_shards(uint64_t seed)
{
    enum { WORLDS = 5 }; /* and with outages */
    return seed >= SIM_OF_WISHES ? seed % WORLDS == 0 : seed >= SIM_OF_SHARDS;
}

static void choose_params(struct sim *sim)
{
    struct params *params = &sim->params;
    params->shards = has_shards(sim->course.seed) ? SIM_SHARDS : 1;
    params->processes = between(sim, 2, SIM_PROCESSES);
    params->keys = between(sim, 1, SIM_KEYS);
    params->mode = choose_mode(sim);
    params->workers = between(sim, 1, 4);
    params->queue = between(sim, 0, 8);
    params->max_waiters = between(sim, 10, 300);
    choose_policy(sim);
    for (int fault = 0; fault < FAULTS_DRAWN; fault++)
        params->enabled[fault] = sim_one_in(sim, 3);
    params->enabled[FAULT_EPOCH_GONE] = params->tagged && sim->course.seed % 5 < 2;
    params->enabled[FAULT_CLOCK_GONE] = params->tagged && sim->course.seed % 5 % 2 == 1;
    params->enabled[FAULT_REDIS_DEMOTED] = sim->course.seed % 4 == 3;
    params->chaos_us = sim_between(sim, 1500000, 6000000);
    params->bursts = between(sim, 3, 25);
    params->writes = between(sim, 0, 15);
    params->disasters = between(sim, 0, 120);
    params->spite = sim_one_in(sim, 2) ? 0 : between(sim, 2, 40);
    params->tick_late_us = sim_one_in(sim, 2) ? 0 : between(sim, 0, 3000);
    if (sim_one_in(sim, 10))
        choose_calm(sim);
    choose_room(params);
    choose_crowd(sim);
    choose_near(sim);
    choose_shards(sim);
    choose_former(sim);
    outage_choose(sim);
    wishes_choose(sim);
}

/* A client that asks again and again, which is what near caches are for. */
static void schedule_readers(struct sim *sim)
{
    enum { READERS = 20, READS = 4 };
    const struct params *params = &sim->params;
    for (uint32_t i = 0; params->near_ms > 0 && i < READERS; i++) {
        struct event event = {.kind = EVENT_REQUEST};
        event.process = between(sim, 0, params->processes - 1);
        event.key = between(sim, 0, params->keys - 1);
        uint64_t at_us = sim_between(sim, 0, params->chaos_us);
        for (uint32_t n = 0; n < READS; n++)
            sim_at(sim, at_us += sim_between(sim, 0, (uint64_t)params->near_ms * 500), event);
    }
}

/* With one there is nothing to throw. */
uint32_t some_shard(struct sim *sim)
{
    return sim->params.shards > 1 ? between(sim, 0, sim->params.shards - 1) : 0;
}

/* One throw of the dice a statement: C leaves open which of two arguments is evaluated first. */
static void schedule(struct sim *sim)
{
    const struct params *params = &sim->params;
    for (uint32_t i = 0; i < params->bursts; i++) {
        uint64_t at_us = sim_between(sim, 0, params->chaos_us);
        uint32_t key = between(sim, 0, params->keys - 1), size = between(sim, 1, 14);
        for (uint32_t n = 0; n < size; n++) {
            struct event event = {.kind = EVENT_REQUEST, .key = key};
            event.process = between(sim, 0, params->processes - 1);
            sim_at(sim, at_us + sim_between(sim, 0, 20000), event);
        }
    }
    schedule_readers(sim);
    for (uint32_t i = 0; i < params->writes; i++) {
        struct event event = {.kind = EVENT_WRITE};
        event.key = between(sim, 0, params->keys - 1);
        sim_at(sim, sim_between(sim, 0, params->chaos_us), event);
    }
    for (uint32_t i = 0; i < params->disasters; i++)
        sim_at(sim, sim_between(sim, 0, params->chaos_us), (struct event){.kind = EVENT_FAULT});
    for (uint64_t at_us = 0; params->enabled[FAULT_REDIS_FAILOVER] && at_us < params->chaos_us;
         at_us += sim_between(sim, 20000, 500000))
        sim_at(sim, at_us, (struct event){.kind = EVENT_REPLICATE, .key = some_shard(sim)});
    wishes_schedule(sim);
    outage_schedule(sim);
}

static void prepare(struct sim *sim, uint64_t seed, enum mutant mutant, bool trace)
{
    course_begin(&sim->course, seed, trace);
    sim->requests = sim->writes = sim->loads = sim->commands = sim->lives = sim->tokens = 0;
    sim->phase = PHASE_CHAOS;
    sim->mutant = mutant;
    sim->params = (struct params){.processes = 0};
    memset(&sim->redis, 0, sizeof sim->redis);
    memset(sim->row, 0, sizeof sim->row);
    memset(sim->process, 0, sizeof sim->process);
    memset(sim->hit, 0, sizeof sim->hit);
    memset(sim->answers, 0, sizeof sim->answers);
    memset(sim->seen, 0, sizeof sim->seen);
    choose_params(sim);
    for (uint32_t key = 0; key < SIM_KEYS; key++)
        sim->redis.home[key] = key % sim->params.shards;
    for (uint32_t shard = 0; shard < sim->params.shards; shard++)
        sim->redis.server[shard].reign = 1;
    sim->redis.max_value_ms = 86400000;
    sim->redis.clock_offset_ms = (int64_t)sim_between(sim, 0, 1000000000);
    sim->params.chaos_us += sim->course.now_us;
    for (uint32_t i = 0; i < sim->params.processes; i++)
        process_start(sim, &sim->process[i]);
    schedule(sim);
}

/* ---- events ---- */

static void tick(struct sim *sim, struct process *process)
{
    process->tick_us = UINT64_MAX;
    core_tick(process->core, process_now_us(process));
    process_drain(sim, process);
}

static void turn_over(struct sim *sim, struct process *process)
{
    process->turn_set = false;
    core_turn_over(process->core, process_now_us(process));
    process_drain(sim, process);
}

static void permit_message(struct sim *sim, struct process *process)
{
    if (!process->subscribed)
        return;
    sim_trace(sim, "p%u  message: a permit is free", process->index);
    core_permit_freed(process->core, process_now_us(process), process->waiter, TOKEN_UUID_BYTES);
    process_drain(sim, process);
}

/* What the network brings, or fails to bring. */
static void arrive_at(struct sim *sim, struct process *process, const struct event *event)
{
    switch (event->kind) {
    case EVENT_REPLY:
        net_reply(sim, event->subject);
        break;
    case EVENT_CHECKED:
        net_checked(sim, event->subject);
        break;
    case EVENT_PUSH_CHECKED:
        net_push_checked(sim, process, event);
        break;
    case EVENT_LIMIT:
        net_limit(sim, event->subject);
        break;
    case EVENT_UNSENT:
        net_unsent(sim, event->subject);
        break;
    case EVENT_BROKEN:
        if (process->link[event->key].connection == event->subject)
            net_break(sim, process, event->key);
        break;
    case EVENT_CONNECT:
        net_connect(sim, process, event->key, event->subject != 0);
        break;
    case EVENT_SUBSCRIBE:
        net_subscribe(sim, process);
        break;
    case EVENT_MESSAGE:
        net_message(sim, process, event);
        break;
    case EVENT_UNHEARD:
        sim_near_unheard(sim, process);
        break;
    case EVENT_CANARY_BACK:
        outage_canary_back(sim, process, event);
        break;
    case EVENT_PERMIT:
        permit_message(sim, process);
        break;
    case EVENT_LOOKUP_REPLY:
        lookup_reply(sim, process, event->subject);
        break;
    case EVENT_LOOKUP_LIMIT:
        lookup_limit(sim, process, event->subject);
        break;
    case EVENT_LOOKUP_LATE:
        lookup_late(sim, process, event->subject);
        break;
    default:
        sim_fail(sim, "event %u is nobody's", event->kind);
        break;
    }
}

static void happen_to(struct sim *sim, struct process *process, const struct event *event)
{
    switch (event->kind) {
    case EVENT_TICK:
        if (event->subject == process->ticks)
            tick(sim, process);
        break;
    case EVENT_TURN:
        turn_over(sim, process);
        break;
    case EVENT_LOAD_END:
        process_load_end(sim, event->subject);
        break;
    case EVENT_REQUEST:
        process_get(sim, process, event->key,
                    sim->params.calm ? sim->params.policy.deadline_ms
                                     : sim_between(sim, 1, sim->params.policy.deadline_ms));
        break;
    case EVENT_LEAVE:
        process_leave(sim, event->subject);
        break;
    case EVENT_CLOSE:
        process_close(sim, process);
        break;
    case EVENT_DEFERRED:
        defer_happens(sim, process, event);
        break;
    case EVENT_CANARY:
        outage_canary(sim, process);
        break;
    default:
        arrive_at(sim, process, event);
        break;
    }
}

/* False: it is one of a process. */
static bool happens_to_the_world(struct sim *sim, const struct event *event)
{
    switch (event->kind) {
    case EVENT_COMPANION:
        net_companion(sim, event->subject);
        break;
    case EVENT_EXECUTE:
        net_execute(sim, event->subject);
        break;
    case EVENT_LOOKUP_PTTL:
        lookup_pttl(sim, event->subject);
        break;
    case EVENT_LOOKUP_GET:
        lookup_get(sim, event->subject);
        break;
    case EVENT_CHECK:
        net_check(sim, event->subject);
        break;
    case EVENT_PUSH_CHECK:
        net_push_check(sim, event);
        break;
    case EVENT_LOAD_READ:
        process_load_read(sim, event->subject);
        break;
    case EVENT_WRITE:
        process_write(sim, event->key, sim->phase == PHASE_PROBE);
        break;
    case EVENT_INVALIDATE:
        process_invalidate(sim, event->subject);
        break;
    case EVENT_FAULT:
        fault_next(sim);
        break;
    case EVENT_RECOVER:
        fault_recover(sim, (enum fault)event->subject, event->key);
        break;
    case EVENT_RESTART:
        process_restart(sim, &sim->process[event->process]);
        break;
    case EVENT_REPLICATE:
        fault_replicate(sim, event->key);
        break;
    case EVENT_CHANGE:
        change_happens(sim, event);
        break;
    case EVENT_OUTAGE:
        outage_happens(sim, event);
        break;
    case EVENT_CANARY_HEARD:
        outage_canary_heard(sim, event);
        break;
    default:
        return false;
    }
    return true;
}

static void dispatch(struct sim *sim, const struct event *event)
{
    struct process *process = &sim->process[event->process];
    if (happens_to_the_world(sim, event) || !process_runs(process) ||
        (event->life != 0 && event->life != process->life))
        return;
    if (process->stalled_until_us > sim->course.now_us)
        sim_at(sim, process->stalled_until_us + (event->kind == EVENT_TICK ? sim_between(sim, 0, 50) : 0),
               *event);
    else {
        defer_memory(sim, true);
        happen_to(sim, process, event);
        defer_memory(sim, false);
    }
}

static void run_until(struct sim *sim, uint64_t until_us)
{
    struct event event;
    while (course_next(&sim->course, until_us, &event))
        dispatch(sim, &event);
}

/* ---- phases ---- */

static void enter(struct sim *sim, enum phase phase, const char *name)
{
    sim->phase = phase;
    sim_trace(sim, "=== %s", name);
}

static void heal(struct sim *sim)
{
    enter(sim, PHASE_HEAL, "no more faults");
    fault_heal(sim);
    run_until(sim, sim->course.now_us + HEAL_US);
    if (!sim->course.failed)
        check_rest(sim);
}

/* One key after the other, so that the smallest bulkhead has room for it. */
static void probe_key(struct sim *sim, uint32_t key)
{
    process_write(sim, key, true);
    run_until(sim, sim->course.now_us + PROBE_US);
    if (sim->row[key].floor != sim->row[key].version)
        sim_fail(sim, "the last invalidation of k%u was not confirmed", key);
    for (uint32_t i = 0; i < sim->params.processes && !sim->course.failed; i++)
        process_get(sim, &sim->process[i], key, PROBE_US / 1000);
    run_until(sim, sim->course.now_us + PROBE_US + 1);
}

static void probe(struct sim *sim)
{
    enter(sim, PHASE_PROBE, "probes");
    for (uint32_t key = 0; key < sim->params.keys && !sim->course.failed; key++)
        probe_key(sim, key);
    if (!sim->course.failed)
        check_rest(sim);
}

static void end(struct sim *sim)
{
    enter(sim, PHASE_END, "the end");
    for (uint32_t i = 0; i < sim->params.processes && !sim->course.failed; i++)
        process_close(sim, &sim->process[i]);
    run_until(sim, sim->course.now_us + END_US);
    if (!sim->course.failed)
        check_end(sim);
}

static void clear(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->params.processes; i++)
        process_free(sim, &sim->process[i]);
    for (uint32_t i = 0; i < sim->commands; i++)
        value_unref(&sim->command[i].value);
}

bool sim_run(struct sim *sim, uint64_t seed, enum mutant mutant, bool trace)
{
    prepare(sim, seed, mutant, trace);
    run_until(sim, sim->params.chaos_us);
    if (!sim->course.failed)
        heal(sim);
    if (!sim->course.failed)
        probe(sim);
    if (!sim->course.failed)
        end(sim);
    clear(sim);
    return !sim->course.failed;
}
