/* SPDX-License-Identifier: MIT */
/*
 * lock_process.c - one process: its core, what its shell would do for it, and an application that locks. See
 * guard/locks/lock_core.h.
 */
#include "lock_sim.h"

#include <stdlib.h>
#include <string.h>

/* ---- clocks ---- */

bool lock_process_runs(const struct lock_process *process)
{
    return process->life != 0;
}

/* Since its start its clock has been a little faster or slower than the world's. */
uint64_t lock_process_now_us(const struct lock_process *process)
{
    int64_t span_us = (int64_t)(process->sim->course.now_us - process->since_us);
    return (uint64_t)(span_us + span_us * process->drift_ppm / 1000000) + process->clock_offset_us;
}

/* When its clock says so, the world's clock says what is returned, or a little less. */
static uint64_t world_us(const struct lock_process *process, uint64_t at_us)
{
    uint64_t now_us = lock_process_now_us(process);
    uint64_t span_us = at_us > now_us ? at_us - now_us : 0;
    int64_t factor = 1000000 + process->drift_ppm;
    return process->sim->course.now_us + span_us * 1000000 / (uint64_t)factor + 1;
}

/* ---- life ---- */

static void open_core(struct lock_sim *sim, struct lock_process *process)
{
    const struct lock_params *params = &sim->params;
    const struct lock_core_config config = {
        .kinds = params->masters > 0 ? 1u << GUARD_LOCK_MUTEX : (1u << (GUARD_LOCK_LATCH + 1)) - 1,
        .all_at_once = params->all_at_once,
        .stays = params->stays,
        .limit_ms = params->limit_ms,
        .place_ms = params->place_ms,
        .warn_ms = params->warn_ms,
        .max_requests = params->max_requests,
        .once_ms = params->once_ms,
        .seed = chance_next(&sim->course.chance),
        .make_token = lock_tokens_make,
        .token_context = process,
    };
    process->core = lock_core_new(&config);
    if (process->core == NULL)
        abort();
    for (uint32_t i = 0; i < LOCK_SIM_OWNERS; i++)
        if ((process->owner[i] = lock_core_owner_new(process->core)) == NULL)
            abort();
}

void lock_process_start(struct lock_sim *sim, struct lock_process *process)
{
    enum { DRIFT_MOST_PPM = 9000 }; /* of 1 % that are promised */
    uint32_t index = (uint32_t)(process - sim->process);
    *process = (struct lock_process){.sim = sim, .index = index, .life = ++sim->lives};
    process->since_us = process->disturbed_us = sim->course.now_us;
    process->clock_offset_us = lock_sim_between(sim, 1, 1000000000);
    process->drift_ppm = (int64_t)lock_sim_between(sim, 0, 2 * DRIFT_MOST_PPM) - DRIFT_MOST_PPM;
    open_core(sim, process);
    struct event event = {.kind = LOCK_EVENT_CONNECT, .process = index, .life = process->life};
    lock_sim_at(sim, sim->course.now_us, event);
    event.kind = LOCK_EVENT_SUBSCRIBE;
    lock_sim_at(sim, sim->course.now_us + 1, event);
}

void lock_process_start_later(struct lock_sim *sim, const struct lock_process *process, uint64_t span_us)
{
    lock_sim_at(sim, sim->course.now_us + span_us,
                (struct event){.kind = LOCK_EVENT_START, .process = process->index});
}

/* A core whose process is gone: what it still says goes nowhere. */
static void discard(struct lock_process *process)
{
    lock_core_close(process->core, lock_process_now_us(process));
    while (lock_core_next_answer(process->core) != NULL) {
    }
    lock_core_free(&process->core);
}

static void forget_holds(struct lock_sim *sim, const struct lock_process *process)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < sim->held_count; i++)
        if (sim->client[sim->held[i]].life != process->life)
            sim->held[left++] = sim->held[i];
        else
            sim->client[sim->held[i]].holds = false;
    sim->held_count = left;
}

void lock_process_kill(struct lock_sim *sim, struct lock_process *process)
{
    lock_sim_trace(sim, "p%u  is gone", process->index);
    discard(process);
    lock_net_forget(sim, process);
    forget_holds(sim, process);
    for (uint32_t i = 0; i < sim->clients; i++)
        if (sim->client[i].life == process->life)
            sim->client[i].open = false;
    process->life = 0;
}

void lock_process_stall(struct lock_sim *sim, struct lock_process *process, uint64_t span_us)
{
    if (process->stalled_until_us < sim->course.now_us + span_us)
        process->stalled_until_us = sim->course.now_us + span_us;
    lock_sim_trace(sim, "p%u  stalls for %llu ms", process->index, (unsigned long long)(span_us / 1000));
}

void lock_process_close(struct lock_sim *sim, struct lock_process *process)
{
    lock_sim_trace(sim, "p%u  closes", process->index);
    process->closing = true;
    lock_core_close(process->core, lock_process_now_us(process));
    lock_process_drain(sim, process);
}

void lock_process_closed(struct lock_sim *sim, struct lock_process *process)
{
    if (!process->closing)
        return;
    if (sim->params.calm && !lock_core_idle(process->core))
        lock_sim_fail(sim, "p%u is closed, but not idle", process->index);
    lock_process_turn(sim, process);
    for (uint32_t i = 0; i < sim->clients; i++)
        if (sim->client[i].life == process->life && sim->client[i].open)
            lock_sim_fail(sim, "p%u is closed and has not answered #%u", process->index, i);
    lock_process_kill(sim, process);
    lock_process_start_later(sim, process, lock_sim_between(sim, 1000, 1000000));
}

/* ---- owners ---- */

void lock_process_free_owner(struct lock_sim *sim, struct lock_process *process, uint32_t owner)
{
    lock_sim_trace(sim, "p%u  frees owner %u", process->index, owner);
    for (uint32_t i = 0; i < sim->clients; i++) {
        struct lock_client *client = &sim->client[i];
        if (client->life != process->life || client->owner != owner + 1)
            continue;
        client->cancelled = client->cancelled || client->open;
        client->owner_gone = true;
        if (client->holds && !client->given)
            lock_sim_at(
                sim, sim->course.now_us + lock_sim_between(sim, 0, 300000),
                (struct event){
                    .kind = LOCK_EVENT_GIVE, .process = process->index, .life = process->life, .subject = i});
    }
    lock_core_owner_free(process->core, lock_process_now_us(process), &process->owner[owner]);
    lock_process_drain(sim, process);
    process->owner[owner] = lock_core_owner_new(process->core);
    if (process->owner[owner] == NULL)
        abort();
}

/* ---- what a request is ---- */

static void choose_names(struct lock_sim *sim, struct lock_client *client)
{
    uint32_t first = (uint32_t)lock_sim_between(sim, 0, sim->params.names - 1);
    size_t count = lock_sim_one_in(sim, 4) ? (size_t)lock_sim_between(sim, 1, sim->params.names) : 1;
    bool back = lock_sim_one_in(sim, 2);
    for (size_t i = 0; i < count; i++)
        client->index[i] =
            (first + (back ? sim->params.names - (uint32_t)i : (uint32_t)i)) % sim->params.names;
    client->request.count = count;
}

/* Where there are permits nobody reads: to a reader they are nothing, and the other way round. */
static void choose_kind(struct lock_sim *sim, struct lock_client *client)
{
    const struct lock_params *params = &sim->params;
    uint32_t limit = params->permits[client->index[0]];
    struct lock_request *request = &client->request;
    for (size_t i = 1; i < request->count; i++)
        if (params->permits[client->index[i]] != limit)
            request->count = i;
    if (limit > 0 && !lock_sim_one_in(sim, 10)) {
        request->kind = GUARD_LOCK_PERMITS;
        request->limit = limit;
        request->units = (uint32_t)lock_sim_between(sim, 1, limit);
    } else if (params->masters > 0) {
        request->kind = GUARD_LOCK_MUTEX;
    } else if (limit == 0 && lock_sim_one_in(sim, 3)) {
        request->kind = GUARD_LOCK_READ;
    } else if (params->overtaking != 0 && lock_sim_one_in(sim, params->overtaking)) {
        request->kind = GUARD_LOCK_MUTEX;
    } else {
        request->kind = lock_sim_one_in(sim, 2) ? GUARD_LOCK_FAIR : GUARD_LOCK_WRITE;
    }
}

static void choose_latch(struct lock_sim *sim, struct lock_client *client)
{
    uint32_t latch = (uint32_t)lock_sim_between(sim, 0, LOCK_SIM_LATCHES - 1);
    client->index[0] = LOCK_SIM_NAMES + latch;
    client->request.count = 1;
    client->request.kind = GUARD_LOCK_LATCH;
    client->request.limit = sim->params.parties[latch];
    client->request.units = lock_sim_one_in(sim, 4) ? 0 : 1;
}

static void choose_times(struct lock_sim *sim, const struct lock_process *process, struct lock_client *client)
{
    const struct lock_params *params = &sim->params;
    struct lock_request *request = &client->request;
    request->lease_ms = (uint32_t)lock_sim_between(sim, params->lease_least_ms, params->lease_most_ms);
    client->hold_for_ms =
        lock_sim_one_in(sim, 4) ? 0 : (uint32_t)lock_sim_between(sim, 1, params->hold_most_ms);
    if (lock_sim_fault(sim, LOCK_FAULT_HOLD_LONG, 8))
        client->hold_for_ms =
            (uint32_t)lock_sim_between(sim, request->lease_ms, 3 * (uint64_t)request->lease_ms);
    if (lock_sim_one_in(sim, 8))
        request->hold_ms = (uint32_t)lock_sim_between(sim, 1, 2 * (uint64_t)request->lease_ms);
    request->start_us = lock_process_now_us(process);
    request->deadline_us = request->start_us + lock_sim_between(sim, 1, 6000000);
    if (lock_sim_one_in(sim, 6)) {
        request->once = true;
        request->deadline_us = UINT64_MAX;
    } else if (lock_sim_one_in(sim, 3) && client->owner == 0 && request->kind != GUARD_LOCK_LATCH) {
        request->deadline_us = UINT64_MAX;
    }
}

static struct lock_client *client_new(struct lock_sim *sim, const struct lock_process *process)
{
    if (sim->clients == LOCK_SIM_REQUESTS || sim->course.failed)
        return NULL;
    struct lock_client *client = &sim->client[sim->clients++];
    *client = (struct lock_client){.process = process->index, .life = process->life};
    client->request.units = client->request.limit = 1;
    client->start_us = sim->course.now_us;
    return client;
}

static uint64_t deadline_of(const struct lock_sim *sim, const struct lock_process *process,
                            const struct lock_request *request)
{
    if (request->once)
        return world_us(process, request->start_us + (uint64_t)sim->params.once_ms * 1000);
    return request->deadline_us != UINT64_MAX ? world_us(process, request->deadline_us) : UINT64_MAX;
}

static void ask(struct lock_sim *sim, struct lock_process *process, struct lock_client *client)
{
    struct lock_request *request = &client->request;
    const char *why = NULL;
    uint32_t index = (uint32_t)(client - sim->client);
    for (size_t i = 0; i < request->count; i++) {
        const char *name = lock_sim_name(client->index[i]);
        client->name[i] = (struct lock_name){name, strlen(name)};
    }
    request->names = client->name;
    request->lock_owner = client->owner != 0 ? process->owner[client->owner - 1] : NULL;
    request->hold = request->kind != GUARD_LOCK_LATCH ? &client->hold : NULL;
    client->deadline_us = deadline_of(sim, process, request);
    lock_sim_trace(sim, "p%u  #%u asks for %s%s: kind %d, %u of %u, owner %u, until %.3f ms", process->index,
                   index, client->name[0].encoded, request->count > 1 ? " ..." : "", (int)request->kind,
                   request->units, request->limit, client->owner,
                   client->deadline_us == UINT64_MAX ? -1.0 : (double)client->deadline_us / 1000);
    client->open = true;
    enum guard_lock_status status = lock_core_ask(process->core, lock_process_now_us(process), request, &why);
    if (status != GUARD_LOCK_OK) {
        client->open = false;
        lock_check_refused(sim, client, status);
    }
    lock_process_drain(sim, process);
    if (client->open && lock_sim_fault(sim, LOCK_FAULT_CANCEL, 6))
        lock_sim_at(sim, sim->course.now_us + lock_sim_between(sim, 0, 1000000),
                    (struct event){.kind = LOCK_EVENT_CANCEL,
                                   .process = process->index,
                                   .life = process->life,
                                   .subject = index});
}

void lock_process_ask(struct lock_sim *sim, struct lock_process *process, uint32_t owner)
{
    struct lock_client *client = client_new(sim, process);
    if (client == NULL)
        return;
    client->owner = owner;
    if (owner == 0 && lock_sim_one_in(sim, 3))
        client->owner = (uint32_t)lock_sim_between(sim, 1, LOCK_SIM_OWNERS);
    if (lock_sim_one_in(sim, 8) && !sim->params.crowd && sim->params.masters == 0) {
        choose_latch(sim, client);
    } else {
        choose_names(sim, client);
        choose_kind(sim, client);
    }
    choose_times(sim, process, client);
    if (sim->params.crowd) {
        client->request.once = false;
        client->request.deadline_us = UINT64_MAX;
        client->request.hold_ms = client->hold_for_ms = 0;
        client->request.kind = GUARD_LOCK_FAIR;
        client->owner = 0;
    }
    ask(sim, process, client);
}

void lock_process_probe(struct lock_sim *sim, struct lock_process *process, uint32_t name)
{
    struct lock_client *client = client_new(sim, process);
    if (client == NULL)
        return;
    client->probe = true;
    client->index[0] = name;
    client->request.kind = sim->params.masters > 0 ? GUARD_LOCK_MUTEX : GUARD_LOCK_FAIR;
    client->request.count = 1;
    client->request.lease_ms = sim->params.lease_most_ms;
    client->request.start_us = lock_process_now_us(process);
    client->request.deadline_us = UINT64_MAX;
    ask(sim, process, client);
}

void lock_process_cancel(struct lock_sim *sim, uint32_t index)
{
    struct lock_client *client = &sim->client[index];
    struct lock_process *process = &sim->process[client->process];
    if (!client->open)
        return;
    lock_sim_trace(sim, "p%u  #%u is cancelled", process->index, index);
    client->cancelled = true;
    lock_core_cancel(process->core, lock_process_now_us(process), &client->request);
    lock_process_drain(sim, process);
}

/* ---- what the core tells ---- */

static void give_later(struct lock_sim *sim, const struct lock_client *client, uint64_t span_us)
{
    lock_sim_at(sim, sim->course.now_us + span_us,
                (struct event){.kind = LOCK_EVENT_GIVE,
                               .process = client->process,
                               .life = client->life,
                               .subject = (uint32_t)(client - sim->client)});
}

/* What holds may ask for more, of the same owner. */
static void ask_within(struct lock_sim *sim, const struct lock_client *client)
{
    if (client->owner == 0 || sim->phase != LOCK_PHASE_CHAOS || !lock_sim_one_in(sim, 2))
        return;
    lock_sim_at(sim, sim->course.now_us + lock_sim_between(sim, 0, (uint64_t)client->hold_for_ms * 1000),
                (struct event){.kind = LOCK_EVENT_REQUEST,
                               .process = client->process,
                               .life = client->life,
                               .subject = client->owner});
}

static void answered(struct lock_sim *sim, struct lock_process *process, struct lock_client *client)
{
    const struct guard_lock_result *result = &client->request.result;
    lock_sim_trace(sim, "p%u  answer #%u: %s, %llu, before %u", process->index,
                   (uint32_t)(client - sim->client), lock_status_names[result->status],
                   (unsigned long long)result->fence[0], result->before);
    client->answers++;
    client->open = false;
    if (result->status == GUARD_LOCK_OK && client->request.hold != NULL) {
        client->holds = true;
        client->granted_us = lock_process_now_us(process);
        sim->held[sim->held_count++] = (uint32_t)(client - sim->client);
        give_later(sim, client, (uint64_t)client->hold_for_ms * 1000);
        ask_within(sim, client);
    }
    lock_check_answer(sim, client);
}

static struct lock_client *client_of(struct lock_hold *hold)
{
    return (struct lock_client *)((char *)hold - offsetof(struct lock_client, hold));
}

static void lost(struct lock_sim *sim, struct lock_process *process, struct lock_client *client)
{
    lock_sim_trace(sim, "p%u  #%u is lost: %s", process->index, (uint32_t)(client - sim->client),
                   client->hold.why != NULL ? client->hold.why : "(no reason)");
    lock_check_lost(sim, client);
    client->lost = true;
    if (lock_sim_one_in(sim, 2))
        give_later(sim, client, lock_sim_between(sim, 0, 200000));
}

static void is_back(struct lock_sim *sim, struct lock_process *process, struct lock_client *client)
{
    lock_sim_trace(sim, "p%u  #%u is given back: %s", process->index, (uint32_t)(client - sim->client),
                   lock_status_names[client->hold.given]);
    lock_check_given(sim, client);
    client->is_back = true;
    client->holds = false;
    for (uint32_t i = 0; i < sim->held_count; i++)
        if (&sim->client[sim->held[i]] == client)
            sim->held[i] = sim->held[--sim->held_count];
}

void lock_process_give(struct lock_sim *sim, uint32_t index)
{
    struct lock_client *client = &sim->client[index];
    struct lock_process *process = &sim->process[client->process];
    if (!client->holds || client->given)
        return;
    lock_sim_trace(sim, "p%u  #%u gives back", process->index, index);
    client->given = true;
    for (size_t i = 0; i < client->request.count; i++)
        sim->seen[LOCK_SEEN_GAVE_ASKING] += sim->token[client->token[i]].renewals_out > 0;
    lock_core_give(process->core, lock_process_now_us(process), &client->hold);
    lock_process_drain(sim, process);
}

/* ---- turns ---- */

static void set_tick(struct lock_sim *sim, struct lock_process *process)
{
    uint64_t due_us = lock_core_next_us(process->core);
    if (due_us == process->tick_us)
        return;
    process->tick_us = due_us;
    process->ticks++;
    if (due_us == UINT64_MAX)
        return;
    uint64_t at_us = world_us(process, due_us);
    if (sim->params.tick_late_us > 0 && due_us > lock_process_now_us(process))
        at_us += lock_sim_between(sim, 0, sim->params.tick_late_us);
    lock_sim_at(sim, at_us,
                (struct event){.kind = LOCK_EVENT_TICK,
                               .process = process->index,
                               .life = process->life,
                               .subject = process->ticks});
}

/* Either order of these three may be met: one that was lost and is given back before it was told is not told. */
void lock_process_turn(struct lock_sim *sim, struct lock_process *process)
{
    struct lock_request *request;
    struct lock_hold *hold;
    process->turn_set = false;
    while ((request = lock_core_next_answer(process->core)) != NULL)
        answered(sim, process, (struct lock_client *)request);
    while ((hold = lock_core_next_lost(process->core)) != NULL)
        lost(sim, process, client_of(hold));
    while ((hold = lock_core_next_given(process->core)) != NULL)
        is_back(sim, process, client_of(hold));
    lock_check_holds(sim, process);
}

static void end_turn(struct lock_sim *sim, struct lock_process *process)
{
    if (sim->params.turn_us == 0) {
        lock_process_turn(sim, process);
        return;
    }
    lock_check_holds(sim, process);
    if (process->turn_set)
        return;
    process->turn_set = true;
    lock_sim_at(sim, sim->course.now_us + lock_sim_between(sim, 0, sim->params.turn_us),
                (struct event){.kind = LOCK_EVENT_TURN, .process = process->index, .life = process->life});
}

void lock_process_drain(struct lock_sim *sim, struct lock_process *process)
{
    struct lock_action action;
    while (lock_core_next_action(process->core, &action))
        lock_net_send(sim, process, &action);
    end_turn(sim, process);
    set_tick(sim, process);
}

void lock_process_tick(struct lock_sim *sim, struct lock_process *process)
{
    process->tick_us = 0;
    lock_core_tick(process->core, lock_process_now_us(process));
    lock_process_drain(sim, process);
}
