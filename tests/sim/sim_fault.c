/* SPDX-License-Identifier: MIT */
/*
 * sim_fault.c - the disasters that strike a run one after another, and their ends.
 *
 * Faults of single commands, messages and loads are drawn where these are made (sim_fault()).
 */
#include "sim.h"
#include <string.h>

enum { FIRST_DISASTER = FAULT_CONNECTION, DISASTERS = FAULT_READONLY - FAULT_CONNECTION + 1 };

static void recover_after(struct sim *sim, enum fault fault, uint32_t shard, uint64_t low_ms,
                          uint64_t high_ms)
{
    sim_at(sim, sim->course.now_us + sim_between(sim, low_ms * 1000, high_ms * 1000),
           (struct event){.kind = EVENT_RECOVER, .subject = (uint32_t)fault, .key = shard});
}

static struct process *victim(struct sim *sim)
{
    return &sim->process[sim_between(sim, 0, sim->params.processes - 1)];
}

static uint32_t some_key(struct sim *sim)
{
    return (uint32_t)sim_between(sim, 0, sim->params.keys - 1);
}

/* ---- processes ---- */

static void crash(struct sim *sim, struct process *process)
{
    if (!process_runs(process))
        return;
    process_crash(sim, process);
    sim_at(sim, sim->course.now_us + sim_between(sim, 100000, 3000000),
           (struct event){.kind = EVENT_RESTART, .process = process->index});
}

static void stall(struct sim *sim, struct process *process)
{
    if (process_runs(process))
        process_stall(sim, process, sim_between(sim, 50000, 8000000));
}

/* ---- Redis ---- */

static void lose_lease(struct sim *sim, uint32_t key, enum lease_end end)
{
    struct stored_lease *lease = &sim->redis.slot[key].lease;
    if (!lease->there)
        return;
    lease->there = false;
    check_lease_gone(sim, key, lease->token, end, NULL);
}

static void lose_value(struct sim *sim, uint32_t key)
{
    sim->redis.slot[key].value.there = false;
    sim->row[key].changes++;
}

static void end_reign(struct sim *sim, uint32_t shard)
{
    sim->redis.server[shard].down = true;
    sim->redis.server[shard].reign++;
    check_reign(sim, shard);
    net_redis_gone(sim, shard);
}

void fault_empty(struct sim *sim, uint32_t shard)
{
    for (uint32_t key = 0; key < SIM_KEYS; key++) {
        if (shard_of_key(sim, key) != shard)
            continue;
        lose_lease(sim, key, LEASE_LOST);
        sim->row[key].failed_us = 0;
        sim->redis.slot[key] = sim->redis.replica[key] = (struct slot){.value = {.there = false}};
    }
    if (shard_of_permits(sim) == shard) {
        memset(&sim->redis.permits, 0, sizeof sim->redis.permits);
        memset(&sim->redis.permits_replica, 0, sizeof sim->redis.permits_replica);
    }
    if (shard_of_tags(sim) == shard)
        sim->redis.tags = sim->redis.tags_replica = (struct stored_tags){.clock = {.there = false}};
    sim->redis.oom = sim->redis.readonly = sim->redis.server[shard].hung = false;
    end_reign(sim, shard);
}

static void restart_empty(struct sim *sim, uint32_t shard)
{
    fault_empty(sim, shard);
    recover_after(sim, FAULT_REDIS_EMPTY, shard, 10, 1500);
}

void fault_replicate(struct sim *sim, uint32_t shard)
{
    for (uint32_t key = 0; key < SIM_KEYS; key++)
        if (shard_of_key(sim, key) == shard)
            sim->redis.replica[key] = sim->redis.slot[key];
    if (shard_of_permits(sim) == shard)
        sim->redis.permits_replica = sim->redis.permits;
    if (shard_of_tags(sim) == shard)
        sim->redis.tags_replica = sim->redis.tags;
}

static void fail_over_key(struct sim *sim, uint32_t key)
{
    const struct stored_lease *restored = &sim->redis.replica[key].lease;
    struct stored_lease *lease = &sim->redis.slot[key].lease;
    bool stands = restored->there && lease->there && strcmp(restored->token, lease->token) == 0;
    if (!stands)
        lose_lease(sim, key, LEASE_LOST);
    if (restored->there && !stands)
        memcpy(sim->row[key].lease_back, restored->token, TOKEN_UUID_BYTES);
    sim->redis.slot[key] = sim->redis.replica[key];
    check_failover(sim, key);
}

static void fail_over(struct sim *sim, uint32_t shard)
{
    for (uint32_t key = 0; key < SIM_KEYS; key++)
        if (shard_of_key(sim, key) == shard)
            fail_over_key(sim, key);
    if (shard_of_permits(sim) == shard)
        sim->redis.permits = sim->redis.permits_replica;
    if (shard_of_tags(sim) == shard) {
        sim->redis.tags = sim->redis.tags_replica;
        check_tags_failover(sim);
    }
    end_reign(sim, shard);
    recover_after(sim, FAULT_REDIS_FAILOVER, shard, sim->params.failover_ms + 1,
                  sim->params.failover_ms + 1000);
}

enum { BEAT_US = 500000 };

static void break_within(struct sim *sim, const struct process *process, uint32_t shard, uint64_t low_us,
                         uint64_t high_us)
{
    sim_at(sim, sim->course.now_us + sim_between(sim, low_us, high_us),
           (struct event){.kind = EVENT_BROKEN,
                          .process = process->index,
                          .life = process->life,
                          .subject = process->link[shard].connection,
                          .key = shard});
}

static void lead_to_former(struct sim *sim, struct process *process, uint32_t shard, uint64_t told_us)
{
    struct link_model *link = &process->link[shard];
    link->at_former = link->loop_at_former = true;
    net_unsubscribe(sim, process);
    break_within(sim, process, shard, 0, told_us);
}

/* The replica had everything. */
static void promote(struct sim *sim, uint32_t shard, enum former former)
{
    struct server_model *server = &sim->redis.server[shard];
    for (uint32_t key = 0; key < SIM_KEYS; key++)
        if (shard_of_key(sim, key) == shard)
            sim->redis.former[key] = sim->redis.slot[key];
    if (shard_of_tags(sim) == shard)
        sim->redis.tags_former = sim->redis.tags;
    server->former = former;
    server->reign++;
    server->excused_until_us = 0;
    check_reign(sim, shard);
}

static bool is_linked(const struct sim *sim, uint32_t process, uint32_t shard)
{
    return process_runs(&sim->process[process]) && sim->process[process].link[shard].up;
}

/* Connected processes are not told. A heartbeat finds out in the end. */
static void demote(struct sim *sim, uint32_t shard)
{
    sim_trace(sim, "    *** %s", fault_names[FAULT_REDIS_DEMOTED]);
    promote(sim, shard, FORMER_REPLICA);
    for (uint32_t i = 0; i < sim->params.processes; i++)
        if (is_linked(sim, i, shard))
            lead_to_former(sim, &sim->process[i], shard, BEAT_US);
}

/* Some processes are with the former one, until they hear of the other; the rest change over. */
static void split(struct sim *sim, uint32_t shard, enum fault fault)
{
    enum { FENCED_US = 3000000, HEARD_US = 1000000 };
    bool fenced = fault == FAULT_TWO_FENCED;
    sim_trace(sim, "    *** %s", fault_names[fault]);
    promote(sim, shard, fenced ? FORMER_FENCED : FORMER_MASTER);
    if (!fenced)
        check_split(sim, shard);
    for (uint32_t i = 0; i < sim->params.processes; i++) {
        if (!is_linked(sim, i, shard))
            continue;
        if (sim_one_in(sim, 3))
            break_within(sim, &sim->process[i], shard, 1, 1);
        else
            lead_to_former(sim, &sim->process[i], shard, fenced ? FENCED_US : HEARD_US);
    }
}

/* Long enough for each connection to notice it before another is the master. */
static void stop_master(struct sim *sim, uint32_t shard)
{
    enum { MORE_MS = 1000 };
    uint32_t limit_ms = sim->params.redis_limit_ms, least_ms = BEAT_US / 1000 + limit_ms + 1;
    sim_trace(sim, "    *** redis is stopped");
    sim->redis.server[shard].hung = true;
    sim->redis.server[shard].wakes_us = sim->course.now_us + (uint64_t)least_ms * 1000;
    for (uint32_t i = 0; i < sim->params.processes && sim->mutant != MUTANT_NO_HEARTBEAT; i++)
        if (is_linked(sim, i, shard))
            break_within(sim, &sim->process[i], shard, (uint64_t)limit_ms * 1000,
                         (uint64_t)least_ms * 1000 - 1);
    recover_after(sim, FAULT_REDIS_WAKES, shard, least_ms, least_ms + MORE_MS);
}

/* Writes while a master is stopped and gets when it wakes: what can go wrong then. */
static void happen_to_keys(struct sim *sim, uint32_t shard, enum event_kind kind, uint32_t within_ms)
{
    for (uint32_t key = 0; key < sim->params.keys && sim->phase == PHASE_CHAOS; key++)
        for (uint32_t i = 0; i < sim->params.processes && shard_of_key(sim, key) == shard; i++)
            sim_at(sim, sim->course.now_us + sim_between(sim, 0, (uint64_t)within_ms * 1000),
                   (struct event){.kind = kind, .process = kind == EVENT_WRITE ? 0 : i, .key = key});
}

/* Those that connected to the one that was stopped wait for its word, and the others go to the new one. */
static void replace_stopped(struct sim *sim, uint32_t shard)
{
    enum { WRITES_MS = 100, LEAST_MS = 300, MOST_MS = 1500 };
    sim->redis.server[shard].hung = false;
    promote(sim, shard, FORMER_STOPPED);
    net_drop_commands(sim, shard);
    for (uint32_t i = 0; i < sim->params.processes; i++) {
        struct process *process = &sim->process[i];
        bool up = is_linked(sim, i, shard);
        process->link[shard].at_former = process->link[shard].loop_at_former = up;
        process->link[shard].greets = !up && process_runs(process) && sim_one_in(sim, 2);
    }
    happen_to_keys(sim, shard, EVENT_WRITE, WRITES_MS);
    recover_after(sim, FAULT_REDIS_WAKES, shard, LEAST_MS, MOST_MS);
}

static void greet(struct sim *sim, struct process *process, uint32_t shard)
{
    enum { PROVING_US = 100000 };
    uint64_t proved_us = sim->mutant == MUTANT_NO_QUARANTINE ? 0 : PROVING_US;
    sim->seen[SEEN_GREETED]++;
    sim_at(sim, sim->course.now_us + net_latency(sim) + proved_us,
           (struct event){.kind = EVENT_CONNECT,
                          .process = process->index,
                          .life = process->life,
                          .subject = 1,
                          .key = shard});
}

/* Without Sentinels it finds out soon that it is a replica, and with them after longer than anybody stays. */
static void wake_master(struct sim *sim, uint32_t shard)
{
    enum { SOON_MS = 50, STAY_US = 1000000 };
    sim->redis.server[shard].former = FORMER_MASTER;
    for (uint32_t i = 0; i < sim->params.processes; i++) {
        struct process *process = &sim->process[i];
        if (process_runs(process) && process->link[shard].greets)
            greet(sim, process, shard);
        else if (is_linked(sim, i, shard) && process->link[shard].loop_at_former)
            break_within(sim, process, shard, 0, STAY_US);
    }
    happen_to_keys(sim, shard, EVENT_REQUEST, SOON_MS);
    if (!sim->params.sentinels)
        recover_after(sim, FAULT_REDIS_WAKES, shard, 4, SOON_MS);
}

/* It is stopped, replaced, a master again, and a replica; or nothing of that, if it ended while it was stopped. */
static void go_on(struct sim *sim, uint32_t shard)
{
    struct server_model *server = &sim->redis.server[shard];
    if (server->hung && sim->course.now_us >= server->wakes_us)
        replace_stopped(sim, shard);
    else if (server->former == FORMER_STOPPED)
        wake_master(sim, shard);
    else if (!server->hung && !sim->params.sentinels)
        server->former = FORMER_REPLICA;
}

static void step_clock(struct sim *sim, int64_t direction)
{
    static const int64_t steps_ms[] = {50, 700, 5000, 3600000};
    sim->redis.clock_offset_ms += direction * steps_ms[sim_between(sim, 0, 3)];
    for (uint32_t key = 0; key < SIM_KEYS; key++)
        redis_expire(sim, key);
}

/* ---- one after another ---- */

static void break_one(struct sim *sim, struct process *process)
{
    net_break(sim, process, some_shard(sim));
}

static void to_one_that_runs(struct sim *sim, void (*happens)(struct sim *sim, struct process *process))
{
    struct process *process = victim(sim);
    if (process_runs(process))
        happens(sim, process);
}

/* The state of Redis that is this fault; empty or failed over it is down first. */
static bool *state_of(struct sim *sim, enum fault fault, uint32_t shard)
{
    if (fault == FAULT_REDIS_HANG)
        return &sim->redis.server[shard].hung;
    if (fault == FAULT_OOM)
        return &sim->redis.oom;
    return fault == FAULT_READONLY ? &sim->redis.readonly : &sim->redis.server[shard].down;
}

static void hamper(struct sim *sim, enum fault fault, uint32_t most_ms)
{
    uint32_t shard = some_shard(sim);
    *state_of(sim, fault, shard) = true;
    recover_after(sim, fault, shard, 50, most_ms);
}

static void befall(struct sim *sim, enum fault fault)
{
    switch (fault) {
    case FAULT_CONNECTION:
        to_one_that_runs(sim, break_one);
        break;
    case FAULT_SUBSCRIPTION:
        to_one_that_runs(sim, net_unsubscribe);
        break;
    case FAULT_CRASH:
        crash(sim, victim(sim));
        break;
    case FAULT_SHUTDOWN:
        to_one_that_runs(sim, process_shut_down);
        break;
    case FAULT_STALL:
        stall(sim, victim(sim));
        break;
    case FAULT_LEASE_GONE:
        lose_lease(sim, some_key(sim), LEASE_EVICTED);
        break;
    case FAULT_VALUE_GONE:
        lose_value(sim, some_key(sim));
        break;
    case FAULT_VALUE_DAMAGED:
        sim->redis.slot[some_key(sim)].value.damaged = true;
        break;
    case FAULT_REDIS_EMPTY:
        restart_empty(sim, some_shard(sim));
        break;
    case FAULT_REDIS_FAILOVER:
        fail_over(sim, some_shard(sim));
        break;
    case FAULT_REDIS_HANG:
        hamper(sim, fault, 3000);
        break;
    case FAULT_CLOCK_FORWARD:
    case FAULT_CLOCK_BACK:
        step_clock(sim, fault == FAULT_CLOCK_FORWARD ? 1 : -1);
        break;
    case FAULT_OOM:
    case FAULT_READONLY:
        hamper(sim, fault, 2000);
        break;
    default: /* strikes where its command, load or request is */
        break;
    }
}

static void move_slot(struct sim *sim)
{
    uint32_t key = some_key(sim);
    if (sim->redis.moving[key] || !sim_fault(sim, FAULT_SLOT_MOVES, 4))
        return;
    sim->redis.moving[key] = true;
    sim_trace(sim, "    *** k%u goes to another master", key);
    recover_after(sim, FAULT_SLOT_MOVES, key, 1, 600);
}

static void slot_arrives(struct sim *sim, uint32_t key)
{
    sim->redis.moving[key] = false;
    sim->redis.home[key] = 1 - sim->redis.home[key];
    sim->redis.replica[key] = sim->redis.slot[key];
}

/* Beside what else goes wrong. */
static void lose_tags(struct sim *sim)
{
    uint32_t tag = (uint32_t)sim_between(sim, 0, SIM_TAGS - 1);
    if (sim_fault(sim, FAULT_EPOCH_GONE, 2))
        sim->redis.tags.epoch[tag].there = false;
    if (sim_fault(sim, FAULT_CLOCK_GONE, 3))
        sim->redis.tags.clock.there = false;
}

/* By a former master that goes on. */
static void haunt(struct sim *sim)
{
    for (enum fault fault = FAULT_REDIS_WAKES; fault <= FAULT_TWO_UNFENCED; fault++) {
        if (!sim->params.enabled[fault])
            continue;
        uint32_t shard = some_shard(sim);
        const struct server_model *server = &sim->redis.server[shard];
        bool is_waking =
            server->former == FORMER_STOPPED || (server->former == FORMER_MASTER && !sim->params.sentinels);
        bool waits = fault == FAULT_REDIS_WAKES && is_waking;
        if (server->down || server->hung || waits || !sim_fault(sim, fault, 8))
            continue;
        if (fault == FAULT_REDIS_WAKES)
            stop_master(sim, shard);
        else
            split(sim, shard, fault);
    }
}

void fault_next(struct sim *sim)
{
    if (sim->params.tagged)
        lose_tags(sim);
    if (sim->params.enabled[FAULT_SLOT_MOVES])
        move_slot(sim);
    if (sim_fault(sim, FAULT_REDIS_DEMOTED, 8))
        demote(sim, some_shard(sim));
    haunt(sim);
    enum fault fault = (enum fault)(FIRST_DISASTER + sim_between(sim, 0, DISASTERS - 1));
    if (!sim_fault(sim, fault, 1))
        return;
    sim_trace(sim, "    *** %s", fault_names[fault]);
    befall(sim, fault);
}

/* Of a shard; of a slot that moves, the key. */
void fault_recover(struct sim *sim, enum fault fault, uint32_t shard)
{
    sim_trace(sim, "    *** end of: %s", fault_names[fault]);
    if (fault == FAULT_SLOT_MOVES)
        slot_arrives(sim, shard);
    else if (fault == FAULT_REDIS_WAKES)
        go_on(sim, shard);
    else if (fault == FAULT_REDIS_AWAY)
        outage_ends(sim, shard);
    else
        *state_of(sim, fault, shard) = false;
}

/* A long outage takes its time. */
static void end_of_faults(struct sim *sim, uint32_t shard)
{
    struct server_model *server = &sim->redis.server[shard];
    server->hung = false;
    server->down = server->down && sim->params.failover_ms > 0;
}

void fault_heal(struct sim *sim)
{
    sim->redis.oom = sim->redis.readonly = false;
    for (uint32_t shard = 0; shard < sim->params.shards; shard++)
        end_of_faults(sim, shard);
    memset(sim->redis.moving, 0, sizeof sim->redis.moving);
    outage_heal(sim);
    for (int fault = 0; fault < FAULTS; fault++)
        sim->params.enabled[fault] = false;
}
