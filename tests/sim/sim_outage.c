/* SPDX-License-Identifier: MIT */
/*
 * sim_outage.c - Redis away. Cut off is one process: at once, all its connections break; or silently, they stay until
 * something on them is not answered in time. Away for all is Redis: killed, and back with its data or empty; or hung.
 *
 * What a process sends while it is cut off arrives late, if the way is free again soon, and else never; what is sent
 * to it waits for as long as its connection does.
 *
 * Kept     what answers in place of Redis is never older than an invalidation of its own process, begun or over, nor
 *          than one whose message has arrived; nor than one that another process has had confirmed outage_ms ago, or
 *          near_ms where that is longer and a message was lost. It was known to be right no longer ago than that, and
 *          after the last return of the subscription and the last other master. It is for no request whose lookup was
 *          answered, for no loader, no refresh and none that revalidates; and says its age
 * Queries  where there are no wishes, none begins in place of Redis for a key that the same process has loaded within
 *          19/20 of outage_ms, and neither dropped nor evicted since
 * Canary   a message of each process to itself, over the way of all messages and behind all of them: when it is back,
 *          all that was published before it was sent has been heard, but for messages that were lost
 */
#include "guard/base/load_id.h"
#include "guard/core/keep.h"
#include "sim.h"
#include <stdlib.h>
#include <string.h>

enum { LOST_AFTER_US = 3000000, CANARIES_LATE = 2, NEAR_MOST_MS = 8000 };

bool outage_is_world(const struct sim *sim)
{
    return sim->course.seed >= SIM_OF_OUTAGES;
}

bool outage_is_without_wishes(const struct sim *sim)
{
    return outage_is_world(sim) && sim->course.seed % 2 == 0;
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

/* What is near outlasts what is known to be right by far, and messages are late: the touch decides. */
static void choose_touch(struct sim *sim)
{
    enum { KEPT_MOST_MS = 300, NEAR_LEAST_MS = 4000, CANARY_LEAST_MS = 300 };
    struct params *params = &sim->params;
    if (params->kept_ms == 0 || !sim_one_in(sim, 3))
        return;
    params->kept_ms = params->policy.outage_ms = between(sim, 50, KEPT_MOST_MS);
    params->near_ms = between(sim, NEAR_LEAST_MS, NEAR_MOST_MS);
    params->canary_ms = between(sim, CANARY_LEAST_MS, 1000);
    params->policy.fresh_ms = between(sim, NEAR_LEAST_MS, 20000);
    params->enabled[FAULT_MESSAGE_LATE] = true;
}

void outage_choose(struct sim *sim)
{
    enum { TIGHT_BYTES = 65536, LONG_US = 150000000, FORGOTTEN_US = 30000000 };
    struct params *params = &sim->params;
    struct guard_policy *policy = &params->policy;
    if (!outage_is_world(sim))
        return;
    params->calm = false;
    params->mode = GUARD_MODE_FLEET;
    params->failover_ms = 0;
    params->kept_ms = policy->outage_ms = sim_one_in(sim, 12) ? 0 : between(sim, 50, 5000);
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
    choose_touch(sim);
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
    sim->hit[FAULT_REDIS_EMPTY] += way == EMPTY;
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

static void raise_us(uint64_t *at_us, uint64_t to_us)
{
    if (*at_us < to_us)
        *at_us = to_us;
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
    uint64_t at_us = sim->course.now_us + net_latency(sim);
    sim_at(sim, outage_in_order_us(sim, process, at_us), back);
}

void outage_canary_back(struct sim *sim, struct process *process, const struct event *event)
{
    struct outage_of_process *outage = &process->outage;
    uint64_t *sent_us = &outage->sent_us[event->subject % OUTAGE_CANARIES];
    if (!process->subscribed || process->subscription != event->subscription || *sent_us == 0)
        return;
    uint64_t touch_us = sim->mutant == MUTANT_TOUCH_LATE ? sim->course.now_us : *sent_us;
    raise_us(&outage->touch_us, *sent_us);
    *sent_us = 0;
    if (sim->params.shards == 1)
        near_touched(process->near, touch_us + process->clock_offset_us);
}

/* ---- what is kept ---- */

static uint64_t kept_us(const struct sim *sim)
{
    return (uint64_t)sim->params.kept_ms * 1000;
}

/* For users, as far as the request itself says. */
static bool is_for_all(const struct core_waiter *waiter)
{
    return waiter->parent_load == 0 && !waiter->refreshes && !waiter->revalidates && !waiter->passes;
}

static void refresh_behind(struct sim *sim, struct process *process, const struct request *request)
{
    struct core_key key = process_key(request->key);
    sim->seen[SEEN_KEPT_REFRESHED]++;
    process->outage.refreshed_us[request->key] = sim->course.now_us;
    core_refresh(process->core, process_now_us(process),
                 &(struct core_refresh){.key = key, .policy = &sim->params.policy, .of_kept = true});
    process_drain(sim, process);
}

bool outage_answers(struct sim *sim, struct process *process, struct request *request)
{
    const struct core_waiter *waiter = &request->waiter;
    const struct outage_asker asker = {.answered = waiter->lookup_answered,
                                       .nested = waiter->parent_load != 0,
                                       .refreshes = waiter->refreshes,
                                       .revalidates = waiter->revalidates,
                                       .passes = waiter->passes};
    struct core_key key = process_key(request->key);
    if (sim->params.kept_ms == 0 || !outage_serves(&sim->params.policy, &asker))
        return false;
    enum near_kept kept = near_kept(process->near, key.encoded, key.encoded_bytes, &sim->params.policy,
                                    process_now_us(process), &request->waiter.result);
    if (kept == NEAR_KEPT_NOT)
        return false;
    process_answered(sim, request);
    if (kept == NEAR_KEPT_REFRESH &&
        near_take_on_refresh(process->near, key.encoded, key.encoded_bytes, process_now_us(process),
                             sim->params.policy.failure_ms))
        refresh_behind(sim, process, request);
    return true;
}

void outage_found(struct sim *sim, struct process *process, const struct request *request, uint64_t load)
{
    struct outage_of_process *outage = &process->outage;
    outage->found[request->key][outage->finds++ % OUTAGE_FINDS] =
        (struct outage_find){load, sim->lookup[request - sim->request].sent_us};
}

void outage_voids(struct sim *sim, struct process *process, uint32_t key)
{
    process->outage.voided_us[key] = process->outage.dropped_us[key] = sim->course.now_us;
}

void outage_voids_all(struct sim *sim, struct process *process)
{
    for (uint32_t key = 0; key < SIM_KEYS; key++)
        outage_voids(sim, process, key);
}

void outage_voids_written(struct sim *sim, struct process *process, const struct write *write)
{
    for (uint32_t key = 0; key < SIM_KEYS; key++)
        if (tags_touched(write, key))
            outage_voids(sim, process, key);
}

bool outage_is_own(const struct sim *sim, const struct process *process, const struct event *message)
{
    bool is_own = false;
    for (uint32_t i = sim->loads; outage_is_world(sim) && i > 0 && !is_own; i--)
        is_own = sim->load[i - 1].life == process->life && sim->load[i - 1].leased &&
                 load_id_of_tag(sim->load[i - 1].token + TOKEN_TAG_AT) == message->lease;
    return is_own;
}

void outage_drops(struct sim *sim, struct process *process, uint32_t key)
{
    process->outage.dropped_us[key] = sim->course.now_us;
}

void outage_told(struct sim *sim, struct process *process, uint32_t key)
{
    process->outage.told_us[key] = sim->course.now_us;
}

void outage_told_core(struct sim *sim, const struct command *command)
{
    uint32_t *last = &sim->process[command->process].outage.told_core[command->key];
    uint32_t number = (uint32_t)(command - sim->command) + 1;
    outage_told(sim, &sim->process[command->process], command->key);
    /* what a peek says is unheard by a flight that has gone on meanwhile */
    if (*last < number && command->action.lookup != LOOKUP_PEEK)
        *last = number;
}

/* ---- the oracle ---- */

/* What another process has had confirmed may be missing for so long. Where no message is lost, what was near is not
 * older than the touch, and no message has been missed before that. */
static uint64_t unheard_us(const struct sim *sim)
{
    uint64_t near_us = (uint64_t)sim->params.near_ms * 1000;
    bool near_counts = sim->params.shards == 1 && sim->hit[FAULT_MESSAGE_LOST] > 0;
    return near_counts && near_us > kept_us(sim) ? near_us : kept_us(sim);
}

/* The highest version that it may not be older than. What was expired is there still, as stale. */
static uint32_t floor_of(const struct sim *sim, const struct process *process, const struct request *request)
{
    const struct row *row = &sim->row[request->key];
    bool may_be_expired = sim->wishes.may[WISH_EXPIRE] && request->waiter.result.left_ms == 0;
    uint32_t floor = row->floor, least = may_be_expired ? 0 : process->near_floor[request->key];
    while (floor > least && row->confirmed_us[floor] + unheard_us(sim) > sim->course.now_us)
        floor--;
    return floor > least ? floor : least;
}

/* NULL: it was found by a lookup, or is absent. */
static const struct load_model *load_of(const struct sim *sim, const struct guard_result *result)
{
    const char *validator = result->value != NULL ? result->value->validator : "";
    return validator[0] == 'L' ? &sim->load[strtoul(validator + 1, NULL, 10)] : NULL;
}

/* When it was known to be right last; 0: that is not known here. */
static uint64_t as_of_us(const struct sim *sim, const struct process *process, const struct request *request)
{
    const struct guard_result *result = &request->waiter.result;
    const struct load_model *load = load_of(sim, result);
    uint64_t at_us = load != NULL ? load->outage.begun_us : 0;
    for (uint32_t i = 0; i < OUTAGE_FINDS && result->load != 0; i++) {
        const struct outage_find *find = &process->outage.found[request->key][i];
        if (find->load == result->load)
            raise_us(&at_us, find->sent_us);
    }
    return at_us;
}

static uint64_t least_us(uint64_t a_us, uint64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

static void check_as_of(struct sim *sim, const struct process *process, const struct request *request,
                        uint64_t at_us)
{
    uint64_t now_us = sim->course.now_us, near_us = 0;
    uint32_t index = (uint32_t)(request - sim->request);
    if (sim->params.near_ms > 0 && sim->params.shards == 1)
        near_us =
            least_us(at_us + (uint64_t)sim->params.near_ms * 1000, process->outage.touch_us + kept_us(sim));
    bool is_near = now_us >= at_us + kept_us(sim) && now_us < near_us;
    sim->seen[SEEN_KEPT_NEAR] += is_near;
    if (now_us >= at_us + kept_us(sim) && !is_near)
        sim_fail(sim, "#%u of k%u got what was known to be right %llu us ago, and heard of until %llu us ago",
                 index, request->key, (unsigned long long)(now_us - at_us),
                 (unsigned long long)(now_us - process->outage.touch_us));
    if (at_us < process->outage.voided_us[request->key])
        sim_fail(sim, "#%u of k%u got what was begun before it was invalidated, or before Redis was back",
                 index, request->key);
}

static void check_life(struct sim *sim, const struct request *request)
{
    const struct guard_result *result = &request->waiter.result;
    const struct guard_policy *policy = &sim->params.policy;
    bool is_absent = result->status == GUARD_ABSENT;
    uint32_t fresh_ms = keep_fresh_most_ms(sim, is_absent ? policy->absent_ms : policy->fresh_ms);
    uint32_t most_ms = is_absent ? fresh_ms : fresh_ms + keep_stale_most_ms(sim, policy->stale_ms);
    uint32_t index = (uint32_t)(request - sim->request);
    if (result->left_ms > fresh_ms || result->age_ms > most_ms + 1)
        sim_fail(sim, "#%u of k%u got what is kept for %u ms, fresh for %u ms more", index, request->key,
                 result->age_ms, result->left_ms);
    sim->seen[SEEN_KEPT_STALE] += result->left_ms == 0 && result->age_ms > fresh_ms;
}

static void check_asker(struct sim *sim, const struct request *request)
{
    uint32_t index = (uint32_t)(request - sim->request);
    if (sim->params.kept_ms == 0 || sim->params.mode != GUARD_MODE_FLEET)
        sim_fail(sim, "#%u of k%u got what is kept, and nothing is", index, request->key);
    if (!is_for_all(&request->waiter))
        sim_fail(sim, "#%u of k%u got what is kept, and may not", index, request->key);
    const char *validator =
        request->waiter.result.value != NULL ? request->waiter.result.value->validator : "";
    const struct load_model *load = load_of(sim, &request->waiter.result);
    if ((validator[0] != '\0' && strchr("psn", validator[0]) != NULL) ||
        (load != NULL && load->outage.passes))
        sim_fail(sim, "#%u of k%u got what is kept and was not to be: %s", index, request->key, validator);
    /* with wishes a key has several flights, and each its own acquire */
    uint32_t before = outage_is_without_wishes(sim) ? request->outage.commands_before : 0;
    if (before > 0 && sim->process[request->process].outage.told_core[request->key] >= before)
        sim_fail(sim, "#%u of k%u got what is kept, and Redis has answered its acquire", index, request->key);
    if (request->waiter.lookup_answered)
        sim_fail(sim, "#%u of k%u got what is kept, and Redis has answered its lookup", index, request->key);
}

static void count_kept(struct sim *sim, const struct process *process, const struct request *request)
{
    const struct guard_result *result = &request->waiter.result;
    bool lacks = result->value != NULL && request->floor < sim->row[request->key].floor;
    bool is_alone = outage_is_cut(sim, process);
    for (uint32_t shard = 0; shard < sim->params.shards; shard++)
        is_alone = is_alone && !sim->redis.server[shard].down && !sim->redis.server[shard].hung;
    sim->seen[SEEN_KEPT]++;
    sim->seen[SEEN_KEPT_LOADED] += load_of(sim, result) != NULL;
    sim->seen[SEEN_KEPT_ABSENT] += result->status == GUARD_ABSENT;
    sim->seen[SEEN_KEPT_OLD] += lacks;
    sim->seen[SEEN_KEPT_ALONE] += is_alone;
}

void outage_check_answer(struct sim *sim, struct request *request)
{
    const struct process *process = &sim->process[request->process];
    if (request->waiter.result.source != GUARD_FROM_KEPT)
        return;
    request->floor = floor_of(sim, process, request);
    count_kept(sim, process, request);
    check_asker(sim, request);
    check_life(sim, request);
    uint64_t at_us = as_of_us(sim, process, request);
    if (at_us != 0)
        check_as_of(sim, process, request, at_us);
}

/* Which may be of a load of this process, if a lookup has found it again since. */
void outage_check_near(struct sim *sim, const struct process *process, const struct request *request)
{
    uint64_t at_us = as_of_us(sim, process, request);
    if (at_us != 0 && at_us < process->voided_us[request->key])
        sim_fail(sim, "#%u of k%u got what was looked up before it was invalidated or stored anew",
                 (uint32_t)(request - sim->request), request->key);
}

/* ---- loads ---- */

void outage_load_starts(struct sim *sim, struct load_model *load)
{
    load->outage.begun_us = sim->course.now_us;
    load->outage.passes = load->keep.starter != NULL && load->keep.starter->passes;
}

/* What this load has brought its process keeps, and until when at least; 0: it does not. A twentieth of the time is
 * left to chance, and so is the life of an entry. */
static uint64_t kept_until_us(const struct sim *sim, const struct load_model *load)
{
    enum { SHORTER = 20 };
    const struct guard_policy *policy = &sim->params.policy;
    const struct row *row = &sim->row[load->key];
    if (load->cancelled || row->too_big[load->version])
        return 0;
    uint32_t fresh_ms = row->absent[load->version] ? policy->absent_ms : policy->fresh_ms;
    uint64_t life_us = (uint64_t)fresh_ms * 10 * (100 - policy->jitter_percent);
    return load->outage.begun_us + least_us(life_us, kept_us(sim) - kept_us(sim) / SHORTER);
}

static uint64_t dropped_us(const struct process *process)
{
    uint64_t last_us = 0;
    for (uint32_t key = 0; key < SIM_KEYS; key++)
        raise_us(&last_us, process->outage.dropped_us[key]);
    return last_us;
}

/* For a user whom Redis has told nothing. */
static bool is_in_place_of_redis(const struct sim *sim, const struct load_model *load)
{
    const struct request *starter = (const struct request *)load->keep.starter;
    const struct process *process = &sim->process[load->process];
    return starter != NULL && !load->leased && is_for_all(&starter->waiter) &&
           !starter->waiter.lookup_answered && process->outage.told_us[load->key] < starter->start_us;
}

/* The last one to begin takes the place of those before it. NULL: none did. */
static const struct load_model *last_brought(const struct sim *sim, const struct load_model *load)
{
    const struct load_model *last = NULL;
    for (uint32_t i = 0; i < sim->loads; i++) {
        const struct load_model *other = &sim->load[i];
        bool brought = other->life == load->life && other->key == load->key && other->ended && other->read;
        if (brought && !other->fails && (last == NULL || last->outage.begun_us <= other->outage.begun_us))
            last = other;
    }
    return last;
}

void outage_check_load(struct sim *sim, const struct load_model *load)
{
    const struct process *process = &sim->process[load->process];
    struct near_counters counters = {.evicted = 0};
    if (sim->params.kept_ms == 0 || !outage_is_without_wishes(sim) || !is_in_place_of_redis(sim, load))
        return;
    near_count(process->near, &counters);
    sim->seen[SEEN_UNSPARED]++;
    const struct load_model *last = last_brought(sim, load);
    bool is_there = last != NULL && counters.evicted == 0 && last->outage.begun_us > dropped_us(process);
    /* who comes to a refresh that is queued waits for it */
    if (is_there && last->outage.begun_us > process->outage.refreshed_us[load->key] &&
        sim->course.now_us < kept_until_us(sim, last))
        sim_fail(sim, "p%u loads k%u, which it has loaded %llu us ago", load->process, load->key,
                 (unsigned long long)(sim->course.now_us - last->outage.begun_us));
}
