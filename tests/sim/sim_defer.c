/* SPDX-License-Identifier: MIT */
/*
 * sim_defer.c - loaders that defer: their load is finished later, after its limit, or never. And policies that
 * abandon a load which nobody waits for. What a loader does is drawn when its load starts.
 */
#include "sim.h"
#include <string.h>

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

enum { SLACK_US = 3000000 }; /* for a process that is late */

/* ---- what a world has ---- */

/* Where a key has one flight, a chain of loads closes to a circle long before it is too deep. */
static void choose_depth(struct sim *sim)
{
    if (sim->wishes.may[WISH_WITHIN] && !sim->params.calm && sim_wish_between(sim, WISH_WITHIN, 0, 1) == 0)
        sim->params.mode = GUARD_MODE_OFF;
}

void defer_choose(struct sim *sim)
{
    bool *may = sim->wishes.may;
    sim->params.policy.abandon = sim_wish(sim, WISH_ABANDON, 1);
    for (enum wish wish = WISH_WITHIN; wish <= WISH_SPEAKS_AGAIN && !sim->params.calm; wish++)
        may[WISH_DEFER] = may[WISH_DEFER] || may[wish];
    choose_depth(sim);
    if (may[WISH_DEFER] && !sim->params.calm)
        sim->params.load_threads = (uint32_t)sim_wish_between(sim, WISH_DEFER, 1, sim->params.workers);
    if (sim->params.load_threads > 0 && sim->params.policy.batch_loader == NULL) /* no dice for it */
        sim->params.policy.loads_on = (enum guard_loads_on)(sim->course.seed / 4 % 3);
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
    const struct core_waiter *starter = load->keep.starter;
    struct defer_of_load *defer = &load->defer;
    defer->apart = sim->params.policy.loads_on == GUARD_ON_LOOP || (starter != NULL && starter->lends);
    sim->seen[SEEN_APART] += defer->apart;
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
    if (calm)
        return;
    defer->asks = defer->defers && !defer->never && sim_wish(sim, WISH_WITHIN, 1);
    if (defer->asks)
        defer->finished_us = sim_wish_between(sim, WISH_WITHIN, 1, SOON_US);
    defer->loop_ends = defer->defers && sim_wish(sim, WISH_LOOP_ENDS, ONE_IN);
    defer->speaks_again = defer->defers && sim_wish(sim, WISH_SPEAKS_AGAIN, ONE_IN);
    defer->short_of_memory = sim_wish(sim, WISH_NO_MEMORY, RARELY);
}

bool defer_lacks_thread(struct sim *sim)
{
    enum { ONE_IN = 6 };
    return !sim->params.calm && sim_wish(sim, WISH_NO_THREAD, ONE_IN);
}

static struct sim *short_of_memory;

void defer_memory(struct sim *sim, bool may_run_out)
{
    short_of_memory = may_run_out && !sim->params.calm ? sim : NULL;
}

/* What the cores take for a flight or a load, by the linker's --wrap. */
void *__wrap_calloc(size_t count, size_t bytes)
{
    enum { ONE_IN = 30 };
    bool fails = short_of_memory != NULL && sim_wish(short_of_memory, WISH_CORE_MEMORY, ONE_IN);
    return fails ? NULL : __real_calloc(count, bytes);
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

/* True: it waits for the answer. */
static bool asks_within(struct sim *sim, struct process *process, struct load_model *load)
{
    bool asks = load->defer.asks && sim->phase == PHASE_CHAOS && !process->closing &&
                load->deadline_us > sim->course.now_us;
    load->defer.asks = false;
    if (!asks)
        return false;
    uint32_t key = (uint32_t)sim_wish_between(sim, WISH_WITHIN, 0, sim->params.keys - 1);
    process_get_nested(sim, process, key, (uint32_t)(load - sim->load));
    return load->blocked || load->ended;
}

bool defer_loader_returns(struct sim *sim, struct load_model *load)
{
    struct defer_of_load *defer = &load->defer;
    struct process *process = &sim->process[load->process];
    if (defer->returned)
        return defer->never || asks_within(sim, process, load);
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

/* What is on its way back says that it is not wanted. */
void defer_load_ends(const struct load_model *load, struct core_loaded *loaded)
{
    const struct defer_of_load *defer = &load->defer;
    if (defer->returned && defer->loop_ends) {
        value_unref(&loaded->value);
        loaded->outcome = LOAD_FAILED;
        loaded->unwanted = true;
    } else if (defer->short_of_memory && loaded->outcome != LOAD_FAILED) {
        value_unref(&loaded->value);
        loaded->outcome = LOAD_NO_MEMORY;
    }
}

/* Its loop does not know that nobody waits for it any more. */
static void speak_again(struct sim *sim, struct process *process, const struct load_model *load)
{
    enum { TIMES = 2 };
    struct value *value = body_value(load->key, load->version, false, "", tags_of_key(sim, load->key),
                                     keep_knows_meta(sim, load->process));
    for (int i = 0; i < TIMES; i++) {
        core_loaded(process->core, process_now_us(process), load->id,
                    &(struct core_loaded){.outcome = LOAD_OK, .value = value});
        process_drain(sim, process);
    }
    value_unref(&value);
    sim->seen[SEEN_SPOKEN_LATE]++;
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
    if (load->defer.forgotten && load->defer.speaks_again)
        speak_again(sim, process, load);
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

/* The fleet is told of a failure that a load had, or of one that ran into its limit: of nothing else. */
static void check_failure(struct sim *sim, const struct process *process, const struct core_action *action,
                          const struct load_model *load)
{
    bool at_limit = action->failure == GUARD_FAILURE_TIMEOUT;
    bool of_load = load != NULL && load->ended && (load->fails || !load->read);
    bool of_loop = of_load && load->defer.returned && load->defer.loop_ends;
    if (!at_limit && (!of_load || of_loop))
        sim_fail(sim, "p%u tells the fleet of a failure of %s that the source did not have", process->index,
                 action->key.plain);
}

void defer_check_command(struct sim *sim, const struct process *process, const struct core_action *action)
{
    const struct load_model *load = NULL;
    bool renews = action->kind == CORE_RENEW;
    bool fails = action->kind == CORE_RELEASE && action->failure != GUARD_FAILURE_NONE;
    bool abandons = action->kind == CORE_RELEASE && action->abandoned_ms > 0;
    if (renews || abandons || fails)
        load = load_of_token(sim, process, action->token);
    if (fails)
        check_failure(sim, process, action, load);
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
    const struct guard_result *result = &request->waiter.result;
    sim->seen[SEEN_SHORT] += result->status == GUARD_NO_MEMORY;
    if (request->parent_load == 0 || result->failure != GUARD_FAILURE_CYCLE)
        return;
    sim->seen[SEEN_TOO_DEEP] += sim->load[request->parent_load - 1].depth >= GUARD_NESTED_MAX;
}

/* One for each load, or batch, of which a loader has not returned; a nested one runs on another's, and one that its
 * owner runs elsewhere on none. */
static bool takes_thread(const struct sim *sim, uint32_t index)
{
    const struct load_model *load = &sim->load[index];
    bool takes = !load->ended && !load->defer.returned && load->lender == 0 && !load->defer.apart;
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
    while (load->outer != 0)
        load = &sim->load[load->outer - 1];
    return load;
}

/* It is the first of its query that has not ended. The place of a load is that of those which run in it, too: one of
 * them may be deferred, and outlive it. */
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
