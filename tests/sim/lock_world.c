/* SPDX-License-Identifier: MIT */
/*
 * lock_world.c - one run: what a seed stands for, the phases, and where each event goes.
 */
#include "lock_sim.h"

#include <stdlib.h>
#include <string.h>

enum {
    HEAL_US = 300000000, /* longer than all that wait one after the other */
    PROBE_US = 30000000, /* longer than what the dead have left there may last */
    DRAIN_US = 2000000,
};

/* ---- services ---- */

uint64_t lock_sim_between(struct lock_sim *sim, uint64_t low, uint64_t high)
{
    return course_between(&sim->course, low, high);
}

bool lock_sim_one_in(struct lock_sim *sim, uint32_t chances)
{
    return course_one_in(&sim->course, chances);
}

bool lock_sim_fault(struct lock_sim *sim, enum lock_fault fault, uint32_t chances)
{
    if (!sim->params.enabled[fault] || !lock_sim_one_in(sim, chances))
        return false;
    sim->hit[fault]++;
    return true;
}

void lock_sim_at(struct lock_sim *sim, uint64_t at_us, struct event event)
{
    course_at(&sim->course, at_us, event);
}

void lock_sim_trace(struct lock_sim *sim, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    course_trace(&sim->course, format, args);
    va_end(args);
}

void lock_sim_fail(struct lock_sim *sim, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    course_fail(&sim->course, format, args);
    va_end(args);
}

const char *lock_sim_name(uint32_t name)
{
    static const char *const names[LOCK_SIM_ALL_NAMES] = {"k0", "k1", "k2", "l0", "l1"};
    return names[name];
}

uint32_t lock_sim_name_of(struct lock_sim *sim, const char *encoded, size_t bytes)
{
    for (uint32_t name = 0; name < LOCK_SIM_ALL_NAMES; name++)
        if (strlen(lock_sim_name(name)) == bytes && memcmp(lock_sim_name(name), encoded, bytes) == 0)
            return name;
    lock_sim_fail(sim, "an action names what nobody asked for: %.*s", (int)bytes, encoded);
    return 0;
}

/* ---- what a seed stands for ---- */

static uint32_t between(struct lock_sim *sim, uint32_t low, uint32_t high)
{
    return (uint32_t)lock_sim_between(sim, low, high);
}

/* One throw of the dice a statement: C leaves open which of two arguments is evaluated first. */
static void choose_times(struct lock_sim *sim)
{
    enum {
        LEASE_LEAST = 4,
        PLACE_LEAST_MS = 1500,
        PLACE_MOST_MS = 3000
    }; /* LEASE_LEAST: of the limit of a command */
    struct lock_params *params = &sim->params;
    params->limit_ms = between(sim, 20, 100);
    params->place_ms = between(sim, PLACE_LEAST_MS, PLACE_MOST_MS);
    params->lease_least_ms = LEASE_LEAST * params->limit_ms;
    params->lease_most_ms = params->lease_least_ms + between(sim, 0, lock_sim_one_in(sim, 4) ? 8000 : 1500);
    params->warn_ms = lock_sim_one_in(sim, 2) ? 0 : between(sim, 1, params->lease_least_ms / 4);
    params->once_ms = 2 * params->limit_ms;
    params->hold_most_ms = lock_sim_one_in(sim, 2) ? between(sim, 1, 50) : between(sim, 1, 500);
    params->latency_us = between(sim, 100, 4000);
    params->tick_late_us = lock_sim_one_in(sim, 2) ? 0 : between(sim, 0, 3000);
    params->turn_us = lock_sim_one_in(sim, 2) ? 0 : between(sim, 1, 2000);
}

static void choose_names(struct lock_sim *sim)
{
    struct lock_params *params = &sim->params;
    params->names = between(sim, 1, LOCK_SIM_NAMES);
    for (uint32_t i = 0; i < LOCK_SIM_NAMES; i++)
        params->permits[i] = lock_sim_one_in(sim, 3) ? between(sim, 1, 6) : 0;
    for (uint32_t i = 0; i < LOCK_SIM_LATCHES; i++)
        params->parties[i] = between(sim, 1, 4);
}

/* Nothing may go wrong but what the others do not feel: processes that die, and, if it is not quiet, messages. */
static void choose_calm(struct lock_sim *sim)
{
    struct lock_params *params = &sim->params;
    memset(params->enabled, 0, sizeof params->enabled);
    params->calm = true;
    params->quiet = lock_sim_one_in(sim, 2);
    params->tick_late_us = params->turn_us = 0;
    params->all_at_once = params->stays = true;
    params->max_requests = LOCK_SIM_REQUESTS;
    params->limit_ms = 60;
    params->place_ms = between(sim, 500, 1000);
    params->lease_least_ms = 1000; /* no hint is for later than a hold that nobody knew of then may last */
    params->lease_most_ms = 1500;
    params->warn_ms = 0;
    params->enabled[LOCK_FAULT_KILL] = lock_sim_one_in(sim, 2);
    params->enabled[LOCK_FAULT_CLOSE] = lock_sim_one_in(sim, 4);
    params->enabled[LOCK_FAULT_CANCEL] = lock_sim_one_in(sim, 2);
    params->enabled[LOCK_FAULT_OWNER_FREED] = lock_sim_one_in(sim, 4);
    params->enabled[LOCK_FAULT_HOLD_LONG] = lock_sim_one_in(sim, 2);
    params->enabled[LOCK_FAULT_MESSAGE_FIRST] = lock_sim_one_in(sim, 2);
    params->disasters = between(sim, 0, 60);
    if (params->quiet)
        return;
    params->enabled[LOCK_FAULT_MESSAGE_LOST] = lock_sim_one_in(sim, 2);
    params->enabled[LOCK_FAULT_MESSAGE_TWICE] = lock_sim_one_in(sim, 2);
    params->enabled[LOCK_FAULT_MESSAGE_LATE] = lock_sim_one_in(sim, 2);
    params->enabled[LOCK_FAULT_MESSAGE_STRAY] = lock_sim_one_in(sim, 2);
    params->enabled[LOCK_FAULT_SUBSCRIPTION] = lock_sim_one_in(sim, 2);
}

/* What a hand-over costs: very many wait for one name. No dice here: the other worlds stay as they are. */
static void choose_crowd(struct lock_sim *sim)
{
    enum { WORLDS = 400, CROWDED = 7 };
    struct lock_params *params = &sim->params;
    if (sim->course.seed % WORLDS != CROWDED)
        return;
    params->crowd = params->calm = params->quiet = true;
    memset(params->enabled, 0, sizeof params->enabled);
    params->all_at_once = params->stays = true;
    params->processes = LOCK_SIM_PROCESSES;
    params->names = 1;
    params->permits[0] = 0;
    params->overtaking = params->tick_late_us = params->turn_us = params->bursts = params->spite = 0;
    params->max_requests = LOCK_SIM_REQUESTS;
    params->limit_ms = 60;
    params->place_ms = 3000;
    params->lease_least_ms = params->lease_most_ms = 1500;
}

/* RedLock: no queue, and everything that can happen to one of several masters. No dice here, as above. */
static void choose_masters(struct lock_sim *sim)
{
    enum { WORLDS = 10, OF_MASTERS = 3 };
    static const enum lock_fault never[] = {
        LOCK_FAULT_CONNECTION, LOCK_FAULT_SUBSCRIPTION, LOCK_FAULT_QUEUE_GONE, LOCK_FAULT_ALIVE_GONE,
        LOCK_FAULT_FAILOVER,   LOCK_FAULT_READONLY,     LOCK_FAULT_DROPPED};
    struct lock_params *params = &sim->params;
    if (sim->course.seed % WORLDS != OF_MASTERS || params->calm)
        return;
    params->masters = sim->course.seed / WORLDS % 2 == 0 ? 3 : 5;
    params->all_at_once = true;
    params->stays = params->wait_after_restart = false;
    params->overtaking = 1;
    memset(params->permits, 0, sizeof params->permits);
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        params->enabled[never[i]] = false;
}

/* No dice here, as above. */
static void choose_denial(struct lock_sim *sim)
{
    enum { WORLDS = 16, DENYING = 5 };
    struct lock_params *params = &sim->params;
    if (sim->course.seed % WORLDS != DENYING || params->calm || params->masters > 0)
        return;
    params->denies = params->enabled[LOCK_FAULT_READONLY] = true;
}

static void choose_params(struct lock_sim *sim)
{
    struct lock_params *params = &sim->params;
    params->processes = between(sim, 2, LOCK_SIM_PROCESSES);
    choose_times(sim);
    choose_names(sim);
    params->overtaking = lock_sim_one_in(sim, 2) ? 0 : between(sim, 1, 4);
    params->max_requests = between(sim, 1, 60);
    params->all_at_once = !lock_sim_one_in(sim, 4);
    params->stays = !lock_sim_one_in(sim, 4);
    params->wait_after_restart = lock_sim_one_in(sim, 4);
    for (int fault = 0; fault < LOCK_FAULTS; fault++)
        params->enabled[fault] = lock_sim_one_in(sim, 3);
    params->chaos_us = lock_sim_between(sim, 1500000, 6000000);
    params->bursts = between(sim, 2, 10);
    params->disasters = between(sim, 0, 120);
    params->spite = lock_sim_one_in(sim, 2) ? 0 : between(sim, 2, 40);
    if (lock_sim_one_in(sim, 4))
        choose_calm(sim);
    choose_crowd(sim);
    choose_masters(sim);
    choose_denial(sim);
}

static void schedule_request(struct lock_sim *sim, uint64_t at_us, uint32_t process)
{
    lock_sim_at(sim, at_us, (struct event){.kind = LOCK_EVENT_REQUEST, .process = process});
}

static void schedule(struct lock_sim *sim)
{
    enum { START_US = 100000 };
    const struct lock_params *params = &sim->params;
    uint64_t now_us = sim->course.now_us;
    for (uint32_t i = 0; i < params->bursts; i++) {
        uint64_t at_us = lock_sim_between(sim, now_us, params->chaos_us);
        uint32_t size = between(sim, 1, 8);
        for (uint32_t n = 0; n < size; n++) {
            uint32_t process = between(sim, 0, params->processes - 1);
            schedule_request(sim, at_us + lock_sim_between(sim, 0, 20000), process);
        }
    }
    for (uint32_t i = 0; params->crowd && i < LOCK_SIM_CROWD; i++)
        schedule_request(sim, now_us + START_US + i, i % params->processes);
    for (uint32_t i = 0; i < params->disasters; i++)
        lock_sim_at(sim, lock_sim_between(sim, now_us, params->chaos_us),
                    (struct event){.kind = LOCK_EVENT_FAULT});
    for (uint64_t at_us = now_us; params->enabled[LOCK_FAULT_FAILOVER] && at_us < params->chaos_us;
         at_us += lock_sim_between(sim, 20000, 500000))
        lock_sim_at(sim, at_us, (struct event){.kind = LOCK_EVENT_REPLICATE});
}

static void prepare(struct lock_sim *sim, uint64_t seed, bool trace)
{
    course_begin(&sim->course, seed, trace);
    sim->clients = sim->tokens = sim->commands = sim->held_count = sim->lives = sim->pending = 0;
    sim->phase = LOCK_PHASE_CHAOS;
    sim->params = (struct lock_params){.processes = 0};
    memset(sim->process, 0, sizeof sim->process);
    memset(sim->hit, 0, sizeof sim->hit);
    memset(sim->answers, 0, sizeof sim->answers);
    memset(sim->seen, 0, sizeof sim->seen);
    choose_params(sim);
    lock_server_start(sim);
    lock_masters_start(sim);
    sim->params.chaos_us += sim->course.now_us;
    for (uint32_t i = 0; i < sim->params.processes; i++)
        lock_process_start(sim, &sim->process[i]);
    schedule(sim);
}

/* ---- events ---- */

static void happen_to(struct lock_sim *sim, struct lock_process *process, const struct event *event)
{
    switch ((enum lock_event_kind)event->kind) {
    case LOCK_EVENT_TICK:
        if (event->subject == process->ticks)
            lock_process_tick(sim, process);
        break;
    case LOCK_EVENT_TURN:
        lock_process_turn(sim, process);
        break;
    case LOCK_EVENT_REPLY:
        lock_net_reply(sim, event->subject);
        break;
    case LOCK_EVENT_LIMIT:
        lock_net_limit(sim, event->subject);
        break;
    case LOCK_EVENT_UNSENT:
        lock_net_unsent(sim, event->subject);
        break;
    case LOCK_EVENT_BROKEN:
        if (process->connection == event->subject)
            lock_net_break(sim, process);
        break;
    case LOCK_EVENT_CONNECT:
        lock_net_connect(sim, process);
        break;
    case LOCK_EVENT_SUBSCRIBE:
        lock_net_subscribe(sim, process);
        break;
    case LOCK_EVENT_MESSAGE:
        lock_net_message(sim, process, event);
        break;
    case LOCK_EVENT_REQUEST:
        lock_process_ask(sim, process, event->subject);
        break;
    case LOCK_EVENT_CANCEL:
        lock_process_cancel(sim, event->subject);
        break;
    case LOCK_EVENT_GIVE:
        lock_process_give(sim, event->subject);
        break;
    case LOCK_EVENT_CLOSED:
        lock_process_closed(sim, process);
        break;
    case LOCK_EVENT_MASTER_REPLY:
        lock_masters_reply(sim, event);
        break;
    case LOCK_EVENT_MASTER_LIMIT:
        lock_masters_limit(sim, event);
        break;
    default:
        lock_sim_fail(sim, "event %u is nobody's", event->kind);
        break;
    }
}

/* False: it is one of a process. */
static bool happens_to_the_world(struct lock_sim *sim, const struct event *event)
{
    switch ((enum lock_event_kind)event->kind) {
    case LOCK_EVENT_EXECUTE:
        lock_net_execute(sim, event->subject);
        break;
    case LOCK_EVENT_FAULT:
        lock_fault_next(sim);
        break;
    case LOCK_EVENT_RECOVER:
        lock_fault_recover(sim, (enum lock_fault)event->subject);
        break;
    case LOCK_EVENT_START:
        if (!lock_process_runs(&sim->process[event->process]))
            lock_process_start(sim, &sim->process[event->process]);
        break;
    case LOCK_EVENT_REPLICATE:
        lock_server_replicate(sim);
        break;
    case LOCK_EVENT_MASTER:
        lock_masters_execute(sim, event);
        break;
    default:
        return false;
    }
    return true;
}

static void dispatch(struct lock_sim *sim, const struct event *event)
{
    struct lock_process *process = &sim->process[event->process];
    if (happens_to_the_world(sim, event) || !lock_process_runs(process) ||
        (event->life != 0 && event->life != process->life))
        return;
    if (process->stalled_until_us >
        sim->course.now_us) { /* what it finds first on waking is a matter of chance */
        bool tick = event->kind == LOCK_EVENT_TICK;
        process->disturbed_us = process->stalled_until_us;
        lock_sim_at(sim, process->stalled_until_us + (tick ? lock_sim_between(sim, 0, 50) : 0), *event);
        return;
    }
    happen_to(sim, process, event);
}

static void run_until(struct lock_sim *sim, uint64_t until_us)
{
    struct event event;
    while (course_next(&sim->course, until_us, &event))
        dispatch(sim, &event);
}

/* ---- phases ---- */

static void enter(struct lock_sim *sim, enum lock_phase phase, const char *name)
{
    sim->phase = phase;
    lock_sim_trace(sim, "=== %s", name);
}

static void heal(struct lock_sim *sim)
{
    enter(sim, LOCK_PHASE_HEAL, "no more faults");
    lock_fault_heal(sim);
    run_until(sim, sim->course.now_us + HEAL_US);
    if (!sim->course.failed)
        lock_check_rest(sim);
}

static void probe(struct lock_sim *sim)
{
    enter(sim, LOCK_PHASE_PROBE, "probes");
    for (uint32_t name = 0; name < sim->params.names && !sim->course.failed; name++) {
        for (uint32_t i = 0; i < sim->params.processes; i++)
            lock_process_probe(sim, &sim->process[i], name);
        run_until(sim, sim->course.now_us + PROBE_US);
    }
    if (!sim->course.failed)
        lock_check_rest(sim);
}

static void end(struct lock_sim *sim)
{
    enter(sim, LOCK_PHASE_END, "the end");
    for (uint32_t i = 0; i < sim->params.processes && !sim->course.failed; i++)
        lock_process_close(sim, &sim->process[i]);
    run_until(sim, sim->course.now_us + DRAIN_US);
    if (!sim->course.failed)
        lock_check_end(sim);
}

/* A core that has failed may be in no state to be taken apart: it is left. */
static void clear(struct lock_sim *sim)
{
    for (uint32_t i = 0; i < sim->params.processes && !sim->course.failed; i++)
        if (lock_process_runs(&sim->process[i]))
            lock_process_kill(sim, &sim->process[i]);
    for (uint32_t i = 0; i < sim->commands; i++) {
        free(sim->command[i].tokens);
        free(sim->command[i].ask_now);
        free(sim->command[i].round);
    }
}

bool lock_sim_run(struct lock_sim *sim, uint64_t seed, bool trace)
{
    prepare(sim, seed, trace);
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
