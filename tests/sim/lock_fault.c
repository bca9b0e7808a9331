/* SPDX-License-Identifier: MIT */
/*
 * lock_fault.c - the disasters that strike a run one after another, and their ends.
 *
 * Faults of single commands, messages and requests are drawn where these are made (lock_sim_fault()).
 */
#include "lock_sim.h"

#include <string.h>

static void recover_after(struct lock_sim *sim, enum lock_fault fault, uint64_t low_ms, uint64_t high_ms)
{
    lock_sim_at(sim, sim->course.now_us + lock_sim_between(sim, low_ms * 1000, high_ms * 1000),
                (struct event){.kind = LOCK_EVENT_RECOVER, .subject = (uint32_t)fault});
}

/* ---- processes ---- */

static void kill_one(struct lock_sim *sim, struct lock_process *process)
{
    lock_process_kill(sim, process);
    lock_process_start_later(sim, process, lock_sim_between(sim, 100000, 3000000));
}

static void close_one(struct lock_sim *sim, struct lock_process *process)
{
    uint64_t drain_us = lock_sim_between(sim, 1, 1000000);
    if (process->closing)
        return;
    if (sim->params.calm)
        drain_us += 1000000;
    lock_process_close(sim, process);
    lock_sim_at(sim, sim->course.now_us + drain_us,
                (struct event){.kind = LOCK_EVENT_CLOSED, .process = process->index, .life = process->life});
}

static void stall(struct lock_sim *sim, struct lock_process *process)
{
    lock_process_stall(sim, process,
                       lock_sim_between(sim, 10000, lock_sim_one_in(sim, 2) ? 300000 : 8000000));
}

static void free_owner(struct lock_sim *sim, struct lock_process *process)
{
    lock_process_free_owner(sim, process, (uint32_t)lock_sim_between(sim, 0, LOCK_SIM_OWNERS - 1));
}

/* ---- Redis ---- */

/* The server ends a hold by itself, and its process hears of it. */
static void drop(struct lock_sim *sim, struct lock_process *process)
{
    uint32_t first = sim->tokens > 0 ? (uint32_t)lock_sim_between(sim, 0, sim->tokens - 1) : 0;
    for (uint32_t i = 0; i < sim->tokens; i++) {
        uint32_t index = (first + i) % sim->tokens;
        const struct lock_token *token = &sim->token[index];
        if (token->life != process->life || token->state != LOCK_TOKEN_HELD || !lock_server_drop(sim, index))
            continue;
        lock_tokens_damaged(sim);
        sim->token[index].not_held = true;
        lock_core_dropped(process->core, lock_process_now_us(process), token->text, "dropped");
        lock_process_drain(sim, process);
        return;
    }
}

static void lose_memory(struct lock_sim *sim, enum lock_fault fault)
{
    struct lock_server *server = &sim->server;
    if (fault == LOCK_FAULT_EMPTY)
        lock_server_empty(sim);
    else
        lock_server_fail_over(sim);
    server->up_since_us = server->tombstones_us = sim->course.now_us;
    server->down = true;
    server->hung = server->readonly = false;
    lock_tokens_damaged(sim);
    lock_tokens_excuse(sim);
    lock_net_redis_gone(sim);
    recover_after(sim, fault, 1, 1500);
}

static void step_clock(struct lock_sim *sim, enum lock_fault fault)
{
    static const int64_t steps_ms[] = {3, 50, 700, 3600000};
    int64_t step_ms = steps_ms[lock_sim_between(sim, 0, 3)];
    lock_server_step(sim, fault == LOCK_FAULT_CLOCK_FORWARD ? step_ms : -step_ms);
    if (fault == LOCK_FAULT_CLOCK_FORWARD)
        sim->server.tombstones_us = sim->course.now_us;
    lock_tokens_damaged(sim);
    lock_tokens_excuse(sim);
}

static void evict(struct lock_sim *sim, enum lock_fault fault)
{
    lock_server_evict(sim, fault, (uint32_t)lock_sim_between(sim, 0, LOCK_SIM_ALL_NAMES - 1));
    if (fault == LOCK_FAULT_TOMBSTONES_GONE)
        sim->server.tombstones_us = sim->course.now_us;
    lock_tokens_damaged(sim);
    if (fault == LOCK_FAULT_QUEUE_GONE || fault == LOCK_FAULT_ALIVE_GONE)
        lock_tokens_excuse(sim);
}

static bool *state_of(struct lock_sim *sim, enum lock_fault fault)
{
    if (fault == LOCK_FAULT_HANG)
        return &sim->server.hung;
    return fault == LOCK_FAULT_READONLY ? &sim->server.readonly : &sim->server.down;
}

static void hamper(struct lock_sim *sim, enum lock_fault fault)
{
    *state_of(sim, fault) = true;
    recover_after(sim, fault, 10, 3000);
}

/* ---- one after another ---- */

static void to_one_that_runs(struct lock_sim *sim,
                             void (*happens)(struct lock_sim *sim, struct lock_process *process))
{
    struct lock_process *process = &sim->process[lock_sim_between(sim, 0, sim->params.processes - 1)];
    if (lock_process_runs(process) && process->stalled_until_us <= sim->course.now_us)
        happens(sim, process);
}

static void befall(struct lock_sim *sim, enum lock_fault fault)
{
    if (sim->params.masters > 0 && fault >= LOCK_FAULT_HELD_GONE) {
        lock_masters_befall(sim, fault);
        return;
    }
    switch (fault) {
    case LOCK_FAULT_CONNECTION:
        to_one_that_runs(sim, lock_net_break);
        break;
    case LOCK_FAULT_SUBSCRIPTION:
        to_one_that_runs(sim, lock_net_unsubscribe);
        break;
    case LOCK_FAULT_KILL:
        to_one_that_runs(sim, kill_one);
        break;
    case LOCK_FAULT_CLOSE:
        to_one_that_runs(sim, close_one);
        break;
    case LOCK_FAULT_STALL:
        to_one_that_runs(sim, stall);
        break;
    case LOCK_FAULT_OWNER_FREED:
        to_one_that_runs(sim, free_owner);
        break;
    case LOCK_FAULT_DROPPED:
        to_one_that_runs(sim, drop);
        break;
    case LOCK_FAULT_HELD_GONE:
    case LOCK_FAULT_QUEUE_GONE:
    case LOCK_FAULT_ALIVE_GONE:
    case LOCK_FAULT_FENCE_GONE:
    case LOCK_FAULT_TOMBSTONES_GONE:
        evict(sim, fault);
        break;
    case LOCK_FAULT_EMPTY:
    case LOCK_FAULT_FAILOVER:
        lose_memory(sim, fault);
        break;
    case LOCK_FAULT_HANG:
    case LOCK_FAULT_READONLY:
        hamper(sim, fault);
        break;
    case LOCK_FAULT_CLOCK_FORWARD:
    case LOCK_FAULT_CLOCK_BACK:
        step_clock(sim, fault);
        break;
    default: /* strikes where its command, message or request is */
        break;
    }
}

void lock_fault_next(struct lock_sim *sim)
{
    enum lock_fault fault =
        (enum lock_fault)(LOCK_FIRST_DISASTER + lock_sim_between(sim, 0, LOCK_DISASTERS - 1));
    if (!lock_sim_fault(sim, fault, 1))
        return;
    lock_sim_trace(sim, "    *** %s", lock_fault_names[fault]);
    if (fault > LOCK_FAULT_STALL)
        sim->server.disturbed_us = sim->course.now_us;
    befall(sim, fault);
}

void lock_fault_recover(struct lock_sim *sim, enum lock_fault fault)
{
    lock_sim_trace(sim, "    *** end of: %s", lock_fault_names[fault]);
    *state_of(sim, fault) = false;
    sim->server.disturbed_us = sim->course.now_us;
}

void lock_fault_heal(struct lock_sim *sim)
{
    sim->server.down = sim->server.hung = sim->server.readonly = false;
    sim->server.disturbed_us = sim->course.now_us;
    memset(sim->params.enabled, 0, sizeof sim->params.enabled);
}
