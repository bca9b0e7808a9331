/* SPDX-License-Identifier: MIT */
/*
 * sim_outage.c - Redis away. Cut off is one process: at once, all its connections break; or silently, they stay until
 * something on them is not answered in time. Away for all is Redis: killed, and back with its data or empty; or hung.
 *
 * What a process sends while it is cut off arrives late, if the way is free again soon, and else never; what is sent to
 * it waits for as long as its connection does.
 *
 * Canary   a message of each process to itself, over the way of all messages and behind all of them: when it is back, all
 *          that was published before it was sent has been heard, but for messages that were lost
 */
#include "sim.h"

enum { LOST_AFTER_US = 3000000, CANARIES_LATE = 2, FOREVER_US = 0 };

bool outage_is_world(const struct sim *sim)
{
    return sim->course.seed >= SIM_OF_OUTAGES;
}

/* ---- what a world has ---- */

static uint32_t between(struct sim *sim, uint32_t low, uint32_t high)
{
    return (uint32_t)sim_between(sim, low, high);
}

/* A former master that goes on would hide what is kept, and is what other worlds are for. */
static void choose_faults(struct sim *sim)
{
    struct params *params = &sim->params;
    for (int fault = FAULT_REDIS_DEMOTED; fault < FAULTS_OF_SHARDS; fault++)
        params->enabled[fault] = params->enabled[fault] && fault == FAULT_SLOT_MOVES;
    params->enabled[FAULT_CUT_OFF] = !sim_one_in(sim, 3);
    params->enabled[FAULT_REDIS_AWAY] = !params->enabled[FAULT_CUT_OFF] || sim_one_in(sim, 2);
    params->outages = between(sim, 1, 6);
    params->disasters = sim_one_in(sim, 2) ? 0 : between(sim, 0, 20);
    if (sim_one_in(sim, 2)) /* what is promised where no message is lost */
        params->enabled[FAULT_MESSAGE_LOST] = params->enabled[FAULT_WRITER_DIES] = false;
}

void outage_choose(struct sim *sim)
{
    enum { NEAR_MOST_MS = 8000, TIGHT_BYTES = 65536, LONG_US = 150000000, FORGOTTEN_US = 30000000 };
    struct params *params = &sim->params;
    struct guard_policy *policy = &params->policy;
    if (!outage_is_world(sim))
        return;
    params->calm = false;
    params->mode = GUARD_MODE_FLEET;
    params->failover_ms = 0;
    params->kept_ms = sim_one_in(sim, 12) ? 0 : between(sim, 50, 5000);
    params->near_ms = sim_one_in(sim, 2) ? 0 : between(sim, 20, NEAR_MOST_MS);
    params->near_bytes = sim_one_in(sim, 4) ? TIGHT_BYTES : 1 << 20;
    params->lookup_percent = sim_one_in(sim, 4) ? between(sim, 20, 99) : 100;
    params->canary_ms = between(sim, 20, 1000);
    policy->fresh_ms = between(sim, 200, 20000);
    params->chaos_us = sim_one_in(sim, 8) ? LONG_US : sim_between(sim, 4000000, 30000000);
    params->replays = params->replays && params->chaos_us < FORGOTTEN_US;
    params->bursts = between(sim, 5, 20);
    params->writes = between(sim, 0, 25);
    choose_faults(sim);
}

void outage_schedule(struct sim *sim)
{
    for (uint32_t i = 0; outage_is_world(sim) && i < sim->params.outages; i++)
        sim_at(sim, sim_between(sim, 0, sim->params.chaos_us), (struct event){.kind = EVENT_OUTAGE});
}

void outage_open(struct sim *sim, const struct process *process)
{
    if (outage_is_world(sim))
        sim_at(sim, sim->course.now_us + sim_between(sim, 0, (uint64_t)sim->params.canary_ms * 1000),
               (struct event){.kind = EVENT_CANARY, .process = process->index, .life = process->life});
}

/* ---- outages ---- */

static uint64_t how_long_us(struct sim *sim)
{
    static const uint32_t most_ms[] = {10, 100, 1000, 1000, 5000, 5000, 20000, 120000};
    enum { SPANS = sizeof most_ms / sizeof *most_ms };
    return sim_between(sim, 1000, (uint64_t)most_ms[sim_between(sim, 0, SPANS - 1)] * 1000);
}

/* Only while there is chaos. */
static void happens_within(struct sim *sim, uint64_t from_us, uint64_t to_us, struct event event)
{
    uint64_t at_us = sim->course.now_us + sim_between(sim, from_us, to_us);
    if (at_us < sim->params.chaos_us)
        sim_at(sim, at_us, event);
}

/* While it lasts, and some just after it. */
static void ask_meanwhile(struct sim *sim, uint64_t span_us)
{
    enum { REQUESTS = 30, BEHIND_US = 100000 };
    for (uint32_t i = 0; i < REQUESTS; i++) {
        bool at_end = sim_one_in(sim, 4);
        uint64_t from_us = at_end ? span_us : 0, to_us = at_end ? span_us + BEHIND_US : span_us;
        struct event event = {.kind = EVENT_REQUEST};
        event.process = between(sim, 0, sim->params.processes - 1);
        event.key = between(sim, 0, sim->params.keys - 1);
        happens_within(sim, from_us, to_us, event);
        event = (struct event){.kind = EVENT_WRITE, .key = event.key};
        if (sim_one_in(sim, 10))
            happens_within(sim, from_us, to_us, event);
    }
}

static void cut_off(struct sim *sim, struct process *process, uint64_t span_us)
{
    bool silent = sim_one_in(sim, 2);
    process->outage.cut_until_us = sim->course.now_us + span_us;
    sim_trace(sim, "    *** p%u is cut off for %llu us%s", process->index, (unsigned long long)span_us,
              silent ? " and does not know" : "");
    if (silent)
        return;
    for (uint32_t shard = 0; shard < sim->params.shards; shard++)
        net_break(sim, process, shard);
    net_unsubscribe(sim, process);
}

static void go_away(struct sim *sim, uint64_t span_us)
{
    enum { KILLED, HUNG, EMPTY, WAYS };
    uint64_t way = sim_between(sim, 0, WAYS - 1);
    sim_trace(sim, "    *** redis is away for %llu us: %s", (unsigned long long)span_us,
              way == HUNG    ? "hung"
              : way == EMPTY ? "killed, back empty"
                             : "killed");
    for (uint32_t shard = 0; shard < sim->params.shards; shard++) {
        struct server_model *server = &sim->redis.server[shard];
        if (way == EMPTY)
            fault_empty(sim, shard);
        server->hung = server->hung || way == HUNG;
        server->down = server->down || way != HUNG;
        if (way == KILLED)
            net_redis_gone(sim, shard);
        sim_at(sim, sim->course.now_us + span_us,
               (struct event){.kind = EVENT_RECOVER, .subject = FAULT_REDIS_AWAY, .key = shard});
    }
}

void outage_happens(struct sim *sim, const struct event *event)
{
    (void)event;
    struct process *process = &sim->process[sim_between(sim, 0, sim->params.processes - 1)];
    uint64_t span_us = how_long_us(sim);
    bool may_be_cut = process_runs(process) && !outage_is_cut(sim, process);
    if (may_be_cut && sim_fault(sim, FAULT_CUT_OFF, sim->params.enabled[FAULT_REDIS_AWAY] ? 2 : 1))
        cut_off(sim, process, span_us);
    else if (sim_fault(sim, FAULT_REDIS_AWAY, 1))
        go_away(sim, span_us);
    else
        return;
    ask_meanwhile(sim, span_us);
}

void outage_ends(struct sim *sim, uint32_t shard)
{
    sim->redis.server[shard].down = sim->redis.server[shard].hung = false;
}

void outage_heal(struct sim *sim)
{
    for (uint32_t i = 0; i < SIM_PROCESSES; i++)
        sim->process[i].outage.cut_until_us = 0;
}

/* ---- the way to Redis and back ---- */

bool outage_is_cut(const struct sim *sim, const struct process *process)
{
    return sim->course.now_us < process->outage.cut_until_us;
}

uint64_t outage_resent_us(const struct sim *sim, const struct process *process)
{
    uint64_t until_us = process->outage.cut_until_us;
    return until_us - sim->course.now_us > LOST_AFTER_US ? 0 : until_us + 1;
}

uint64_t outage_back_us(const struct process *process, uint64_t at_us)
{
    return at_us > process->outage.cut_until_us ? at_us : process->outage.cut_until_us + 1;
}

uint64_t outage_in_order_us(const struct sim *sim, struct process *process, uint64_t at_us)
{
    struct outage_of_process *outage = &process->outage;
    if (!outage_is_world(sim))
        return at_us;
    at_us = outage_back_us(process, at_us);
    if (at_us < outage->messages_until_us)
        at_us = outage->messages_until_us;
    return outage->messages_until_us = at_us;
}

/* ---- canaries ---- */

static bool is_late(const struct sim *sim, const struct process *process)
{
    uint64_t late_us = (uint64_t)sim->params.canary_ms * 1000 * CANARIES_LATE;
    for (int i = 0; i < OUTAGE_CANARIES; i++) {
        uint64_t sent_us = process->outage.sent_us[i];
        if (sent_us != 0 && sim->course.now_us >= sent_us + late_us)
            return true;
    }
    return false;
}

static void forget(struct process *process)
{
    for (int i = 0; i < OUTAGE_CANARIES; i++)
        process->outage.sent_us[i] = 0;
}

/* As far as it knows it is subscribed. */
void outage_canary(struct sim *sim, struct process *process)
{
    struct outage_of_process *outage = &process->outage;
    struct event event = {.kind = EVENT_CANARY, .process = process->index, .life = process->life};
    sim_at(sim, sim->course.now_us + (uint64_t)sim->params.canary_ms * 1000, event);
    if (!process->hears || !process->link[0].up)
        return;
    if (is_late(sim, process)) {
        forget(process);
        sim_trace(sim, "p%u  canary does not come back", process->index);
        net_unsubscribe(sim, process);
        return;
    }
    event.kind = EVENT_CANARY_HEARD;
    event.subject = (uint32_t)++outage->canaries;
    event.subscription = process->subscription;
    outage->sent_us[outage->canaries % OUTAGE_CANARIES] = sim->course.now_us;
    sim_at(sim, sim->course.now_us + net_latency(sim), event);
}

void outage_canary_heard(struct sim *sim, const struct event *event)
{
    enum { AGAIN_US = 20000 };
    struct process *process = &sim->process[event->process];
    struct event back = *event;
    if (process->life != event->life || sim->redis.server[0].down)
        return;
    if (outage_is_cut(sim, process) || sim->redis.server[0].hung) {
        uint64_t again_us =
            sim->redis.server[0].hung ? sim->course.now_us + AGAIN_US : outage_resent_us(sim, process);
        if (again_us != 0 && process->link[0].up)
            sim_at(sim, again_us, back);
        return;
    }
    if (!process->subscribed || process->subscription != event->subscription)
        return;
    back.kind = EVENT_CANARY_BACK;
    sim_at(sim, outage_in_order_us(sim, process, sim->course.now_us + net_latency(sim)), back);
}

void outage_canary_back(struct process *process, const struct event *event)
{
    struct outage_of_process *outage = &process->outage;
    uint64_t *sent_us = &outage->sent_us[event->subject % OUTAGE_CANARIES];
    if (!process->subscribed || process->subscription != event->subscription || *sent_us == 0)
        return;
    if (*sent_us > outage->touch_us)
        outage->touch_us = *sent_us;
    *sent_us = 0;
}
