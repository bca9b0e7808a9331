/* SPDX-License-Identifier: MIT */
/*
 * sim_defer.c - loaders that defer: their load is finished later, after its limit, or never. And policies that abandon a
 * load which nobody waits for. What a loader does is drawn when its load starts.
 */
#include "sim.h"
#include <string.h>

enum { SLACK_US = 3000000 }; /* for a process that is late */

/* ---- what a world has ---- */

void defer_choose(struct sim *sim)
{
    sim->params.policy.abandon = sim_wish(sim, WISH_ABANDON, 1);
    if (sim->wishes.may[WISH_DEFER] && !sim->params.calm)
        sim->params.load_threads = (uint32_t)sim_wish_between(sim, WISH_DEFER, 1, sim->params.workers);
}

/* ---- what a loader does ---- */

/* Whether Redis knew, as the model itself sees it. */
static bool was_spared(const struct sim *sim, const struct load_model *load)
{
    for (uint32_t i = sim->commands; i > 0; i--) {
        const struct command *command = &sim->command[i - 1];
        if (command->life == load->life && command->granted && strcmp(command->token, load->token) == 0)
            return command->answer.after_abandoned;
    }
    return false;
}

void defer_load_starts(struct sim *sim, struct load_model *load)
{
    enum { ONE_IN = 2, RARELY = 8, SOON_US = 5000 };
    struct defer_of_load *defer = &load->defer;
    defer->spared = load->leased && was_spared(sim, load);
    sim->seen[SEEN_SPARED] += defer->spared;
    uint64_t limit_us = (uint64_t)sim->params.policy.load_limit_ms * 1000;
    bool calm = sim->params.calm; /* there a place that is lost would be a request that waits */
    if (!calm && sim_wish(sim, WISH_DEFER_NEVER, RARELY)) {
        defer->defers = defer->never = true;
    } else if (!calm && sim_wish(sim, WISH_DEFER_LATE, RARELY)) {
        defer->defers = true;
        defer->finished_us = sim_wish_between(sim, WISH_DEFER_LATE, limit_us, 3 * limit_us);
    } else if (sim_wish(sim, WISH_DEFER, ONE_IN)) {
        defer->defers = true;
        defer->finished_us = sim_wish_between(sim, WISH_DEFER, 1, calm ? SOON_US : limit_us);
    }
}

static void finish_in(struct sim *sim, const struct load_model *load, uint64_t in_us)
{
    struct event event = {.kind = EVENT_LOAD_END,
                          .process = load->process,
                          .life = load->life,
                          .subject = (uint32_t)(load - sim->load)};
    sim_at(sim, sim->course.now_us + in_us, event);
}

/* Its process may be late, and stand still. */
static void look_at_its_end(struct sim *sim, const struct load_model *load, uint64_t hold_us)
{
    uint64_t from_us = hold_us > sim->course.now_us ? hold_us : sim->course.now_us;
    sim_at(sim, from_us + SLACK_US,
           (struct event){.kind = EVENT_DEFERRED,
                          .process = load->process,
                          .life = load->life,
                          .subject = (uint32_t)(load - sim->load)});
}

bool defer_loader_returns(struct sim *sim, struct load_model *load)
{
    struct defer_of_load *defer = &load->defer;
    struct process *process = &sim->process[load->process];
    if (defer->returned)
        return defer->never;
    if (!defer->defers)
        return false;
    defer->returned = true;
    sim->seen[SEEN_DEFERRED]++;
    sim->wishes.defer.deferred++;
    sim_trace(sim, "p%u  defers k%u", load->process, load->key);
    process_thread_is_free(sim, load);
    if (!defer->never)
        finish_in(sim, load, defer->finished_us);
    look_at_its_end(sim, load, load->start_us + (uint64_t)sim->params.policy.max_hold_ms * 1000);
    core_deferred(process->core, process_now_us(process), load->id);
    process_drain(sim, process);
    return true;
}

void defer_forgotten(struct sim *sim, struct process *process, uint64_t id)
{
    struct load_model *load = process_load_of(sim, process, id);
    if (load == NULL || !load->defer.returned) {
        sim_fail(sim, "p%u forgets a load that is not deferred", process->index);
        return;
    }
    load->defer.forgotten = load->ended = true;
    sim->seen[SEEN_FORGOTTEN]++;
    process_give_place_back(sim, process, load);
}

/* ---- what becomes of it ---- */

void defer_happens(struct sim *sim, struct process *process, const struct event *event)
{
    const struct load_model *load = &sim->load[event->subject];
    if (load->ended || process->closing)
        return;
    if (process->stalled_until_us + SLACK_US > sim->course.now_us)
        look_at_its_end(sim, load, sim->course.now_us);
    else if (!load->defer.forgotten)
        sim_fail(sim, "p%u still holds a place for a deferred load of k%u past its hold limit", load->process,
                 load->key);
}

static struct load_model *load_of_token(struct sim *sim, const struct process *process, const char *token)
{
    for (uint32_t i = sim->loads; i > 0; i--) {
        struct load_model *load = &sim->load[i - 1];
        if (load->life == process->life && strcmp(load->token, token) == 0)
            return load;
    }
    return NULL;
}

void defer_renewed(struct sim *sim, const struct command *command, int64_t code)
{
    struct load_model *load = load_of_token(sim, &sim->process[command->process], command->token);
    if (load != NULL)
        load->defer.awaited = code == RENEWED_AWAITED;
}

static void check_abandoned(struct sim *sim, const struct process *process, const struct load_model *load)
{
    sim->seen[SEEN_ABANDONED]++;
    if (!load->cancelled)
        sim_fail(sim, "p%u abandons a load of k%u and does not tell it", process->index, load->key);
    if (load->defer.spared)
        sim_fail(sim, "p%u abandons the load of k%u after an abandoned one", process->index, load->key);
    if (load->defer.awaited && sim->params.mode == GUARD_MODE_FLEET)
        sim_fail(sim, "p%u abandons a load of k%u that another process waits for", process->index, load->key);
    for (uint32_t i = 0; i < sim->requests; i++)
        if (keep_waits_for(load, &sim->request[i]))
            sim_fail(sim, "p%u abandons a load of k%u that #%u waits for", process->index, load->key, i);
}

void defer_check_command(struct sim *sim, const struct process *process, const struct core_action *action)
{
    const struct load_model *load = NULL;
    bool renews = action->kind == CORE_RENEW;
    bool abandons = action->kind == CORE_RELEASE && action->abandoned_ms > 0;
    if (renews || abandons)
        load = load_of_token(sim, process, action->token);
    if (load == NULL)
        return;
    if (abandons && !load->ended && load->cancelled)
        check_abandoned(sim, process, load);
    uint64_t late_us =
        process->stalled_until_us > load->deadline_us ? process->stalled_until_us : load->deadline_us;
    if (renews && load->defer.returned && !load->ended && sim->course.now_us > late_us + SLACK_US)
        sim_fail(sim, "p%u renews the lease of a deferred load of k%u past its limit", process->index,
                 load->key);
}

/* ---- what must be true of it ---- */

void defer_check_answer(struct sim *sim, const struct request *request)
{
    (void)sim, (void)request;
}

/* One for each load, or batch, of which a loader has not returned; a nested one runs on another's. */
static bool takes_thread(const struct sim *sim, uint32_t index)
{
    const struct load_model *load = &sim->load[index];
    bool takes = !load->ended && !load->defer.returned && load->lender == 0;
    for (uint32_t i = 0; i < index && takes && load->batch != 0; i++) {
        const struct load_model *mate = &sim->load[i];
        takes = mate->life != load->life || mate->batch != load->batch || mate->ended || mate->defer.returned;
    }
    return takes;
}

static uint32_t threads_used(const struct sim *sim, uint32_t life)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < sim->loads; i++)
        used += sim->load[i].life == life && takes_thread(sim, i);
    return used;
}

static const struct load_model *query_of(const struct sim *sim, uint32_t index)
{
    const struct load_model *load = &sim->load[index];
    while (load->lender != 0)
        load = &sim->load[load->lender - 1];
    return load;
}

/* It is the first of its query that has not ended. The place of a load is that of those which run in it, too: one of them
 * may be deferred, and outlive it. */
static bool takes_place(const struct sim *sim, uint32_t index, uint32_t life)
{
    const struct load_model *load = &sim->load[index], *query = query_of(sim, index);
    bool takes = load->life == life && !load->ended;
    for (uint32_t i = 0; i < index && takes; i++) {
        const struct load_model *other = query_of(sim, i);
        bool mate = other == query || (query->batch != 0 && query->batch == other->batch);
        takes = sim->load[i].life != life || sim->load[i].ended || !mate;
    }
    return takes;
}

bool defer_has_place(const struct sim *sim, const struct process *process)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < sim->loads; i++)
        used += takes_place(sim, i, process->life);
    return used < sim->params.workers;
}

bool defer_has_thread(const struct sim *sim, const struct process *process)
{
    return sim->params.load_threads == 0 || threads_used(sim, process->life) < sim->params.load_threads;
}

void defer_check_load(struct sim *sim, const struct load_model *load)
{
    if (sim->params.load_threads > 0 && threads_used(sim, load->life) > sim->params.load_threads)
        sim_fail(sim, "p%u runs more loaders than it has threads", load->process);
}

void defer_check_rest(struct sim *sim)
{
    (void)sim;
}
