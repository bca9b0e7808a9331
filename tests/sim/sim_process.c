/* SPDX-License-Identifier: MIT */
/*
 * sim_process.c - one process: the core and what its shell would do for it. See guard/core/core.h.
 */
#include "guard/core/core_state.h"
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- keys and bodies ---- */

struct core_key process_key(uint32_t key)
{
    static const char *const names[SIM_KEYS] = {"k0", "k1", "k2"};
    return (struct core_key){names[key], 2, names[key], 2};
}

/* By hand, here and below: printf() would be a tenth of all that a run takes. */
static void write_number(char *last_digit, uint32_t number, uint32_t base)
{
    for (; number > 0; number /= base)
        *last_digit-- = "0123456789abcdef"[number % base];
}

static void write_body(char body[BODY_SIZE], uint32_t key, uint32_t version, bool too_big)
{
    enum { LAST = 6, PADDED = 84 };
    _Static_assert(SIM_KEYS < 10 && SIM_VERSIONS < 1000 && (int)PADDED > (int)BODY_MOST, "that many digits");
    memset(body, ' ', PADDED);
    memcpy(body, "k0 v000", LAST + 1);
    write_number(body + 1, key, 10);
    write_number(body + LAST, version, 10);
    body[too_big ? PADDED : LAST + 1] = '\0';
}

struct value *body_value(uint32_t key, uint32_t version, bool too_big, const char *validator,
                         const char *tags, bool meta)
{
    char body[BODY_SIZE];
    write_body(body, key, version, too_big);
    return value_from(&(struct value_parts){.body = body,
                                            .body_bytes = strlen(body),
                                            .validator = validator,
                                            .validator_bytes = strlen(validator),
                                            .tags = tags,
                                            .tags_bytes = strlen(tags),
                                            .meta = "m",
                                            .meta_bytes = meta});
}

struct value *body_of_entry(const struct sim *sim, const struct stored_value *entry, const char *validator)
{
    const char *tags = entry->tagged ? tags_of_key(sim, entry->key) : "";
    return entry->absent || entry->mark
               ? NULL
               : body_value(entry->key, entry->version, false, validator, tags, entry->meta);
}

bool body_read(const char *body, uint32_t *key, uint32_t *version)
{
    if (body[0] != 'k' || body[2] != ' ' || body[3] != 'v')
        return false;
    *key = (uint32_t)(body[1] - '0');
    *version = 0;
    for (const char *digit = body + 4; *digit >= '0' && *digit <= '9'; digit++)
        *version = *version * 10 + (uint32_t)(*digit - '0');
    return true;
}

/* ---- life ---- */

bool process_runs(const struct process *process)
{
    return process->life != 0;
}

uint64_t process_now_us(const struct process *process)
{
    return process->sim->course.now_us + process->clock_offset_us;
}

static void make_token(void *context, uint32_t lease_ms, char token[TOKEN_SIZE])
{
    struct process *process = context;
    struct sim *sim = process->sim;
    bool same = sim->mutant == MUTANT_SAME_TOKEN && process->last_token[0] != '\0' && sim_one_in(sim, 2);
    if (same) {
        memcpy(token, process->last_token, TOKEN_SIZE);
        return;
    }
    static const char shape[] = "00000000-0000-4000-8000-000000000000 0000000000000000 0000000 p0";
    uint32_t number = ++sim->tokens;
    memcpy(token, shape, sizeof shape);
    write_number(token + 7, number, 16);
    write_number(token + TOKEN_UUID_BYTES - 1, number, 16);
    write_number(token + TOKEN_TAG_AT + TOKEN_TAG_BYTES - 1, number, 16);
    write_number(token + sizeof shape - 5, lease_ms, 10);
    write_number(token + sizeof shape - 2, process->index, 10);
    memcpy(process->last_token, token, TOKEN_SIZE);
}

static unsigned shard_of_name(void *context, bool invalidated, const char *encoded, size_t encoded_bytes)
{
    (void)invalidated;
    const struct process *process = context;
    const struct sim *sim = process->sim;
    if (encoded_bytes == strlen(PERMIT_KEY) && memcmp(encoded, PERMIT_KEY, encoded_bytes) == 0)
        return shard_of_permits(sim);
    if (encoded_bytes == strlen(TAGS_KEY) && memcmp(encoded, TAGS_KEY, encoded_bytes) == 0)
        return shard_of_tags(sim);
    return process->map[encoded[1] - '0'];
}

void process_start(struct sim *sim, struct process *process)
{
    const struct params *params = &sim->params;
    uint32_t index = (uint32_t)(process - sim->process);
    *process = (struct process){.sim = sim, .index = index, .life = ++sim->lives, .tick_us = UINT64_MAX};
    process->since_us = sim->course.now_us;
    memcpy(process->map, sim->redis.home, sizeof process->map);
    process->clock_offset_us = sim_between(sim, 0, 1000000000);
    struct core_config config = {
        .mode = params->mode,
        .max_loads = params->workers,
        .load_queue = params->queue,
        .load_threads = params->load_threads,
        .max_waiters = params->max_waiters,
        .max_value_bytes = BODY_MOST,
        .max_value_ms = sim->redis.max_value_ms,
        .permits = params->permits,
        .permit_ms = params->permit_ms,
        .seed = chance_next(&sim->course.chance),
        .replay = params->replays,
        .shard_of = params->shards > 1 ? shard_of_name : NULL,
        .shard_context = process,
        .make_token = make_token,
        .token_context = process,
    };
    sim_near_open(sim, process);
    config.near = outage_is_world(sim) ? process->near : NULL;
    process->core = core_new(&config);
    if (process->core == NULL)
        abort();
    if (params->permits > 0)
        memcpy(process->waiter, process->last_token, TOKEN_UUID_BYTES);
    struct event event = {.kind = EVENT_CONNECT, .process = index, .life = process->life};
    for (; event.key < params->shards; event.key++)
        sim_at(sim, sim->course.now_us, event);
    event.key = 0;
    event.kind = EVENT_SUBSCRIBE;
    sim_at(sim, sim->course.now_us + 1, event);
    outage_open(sim, process);
}

/* Takes apart a core whose process is gone: none of its actions happens. */
static void discard(struct process *process)
{
    struct core_action action;
    while (core_next_action(process->core, &action)) {
        if (action.kind == CORE_CANCEL || action.kind == CORE_FORGET)
            continue;
        if (action.kind == CORE_LOAD)
            core_loaded(process->core, process_now_us(process), action.load,
                        &(struct core_loaded){.outcome = LOAD_FAILED});
        else
            core_replied(process->core, process_now_us(process), action.op,
                         &(struct core_reply){.kind = REPLY_UNSENT});
    }
    struct core_waiter *waiter;
    while ((waiter = core_next_answer(process->core)) != NULL)
        guard_value_unref(&waiter->result.value);
    while (core_next_invalidated(process->core) != NULL)
        continue;
}

void process_free(struct sim *sim, struct process *process)
{
    uint64_t now_us = process_now_us(process);
    if (process->core == NULL)
        return;
    core_close(process->core, now_us);
    discard(process);
    for (uint32_t i = 0; i < sim->commands; i++) {
        struct command *command = &sim->command[i];
        if (command->life != process->life || command->answered)
            continue;
        core_replied(process->core, now_us, command->action.op, &(struct core_reply){.kind = REPLY_UNSENT});
        discard(process);
    }
    /* the youngest first: a load on a lent thread ends before its lender */
    for (uint32_t i = sim->loads; i > 0; i--) {
        struct load_model *load = &sim->load[i - 1];
        if (load->life != process->life || load->ended)
            continue;
        core_loaded(process->core, now_us, load->id, &(struct core_loaded){.outcome = LOAD_FAILED});
        discard(process);
    }
    if (!core_idle(process->core))
        sim_fail(sim, "a core that was taken apart is not idle");
    else
        core_free(&process->core);
    process->core = NULL;
    sim_near_close(sim, process);
}

void process_crash(struct sim *sim, struct process *process)
{
    sim_trace(sim, "p%u  dies", process->index);
    process_free(sim, process);
    net_forget(sim, process);
    for (uint32_t i = 0; i < sim->requests; i++)
        if (sim->request[i].life == process->life)
            sim->request[i].open = sim->request[i].looking = false;
    for (uint32_t i = 0; i < sim->writes; i++)
        if (sim->write[i].life == process->life)
            sim->write[i].open = false;
    for (uint32_t i = 0; i < sim->loads; i++)
        if (sim->load[i].life == process->life)
            sim->load[i].ended = true; /* as far as the fleet is concerned: it will not be filled in */
    process->life = 0;
}

void process_stall(struct sim *sim, struct process *process, uint64_t span_us)
{
    if (process->stalled_until_us < sim->course.now_us + span_us)
        process->stalled_until_us = sim->course.now_us + span_us;
    sim_trace(sim, "p%u  stalls for %llu ms", process->index, (unsigned long long)(span_us / 1000));
}

void process_shut_down(struct sim *sim, struct process *process)
{
    if (process->closing)
        return;
    process->closing = true;
    sim_trace(sim, "p%u  drains", process->index);
    sim_at(sim, sim->course.now_us + sim_between(sim, 0, 1000000),
           (struct event){.kind = EVENT_CLOSE, .process = process->index, .life = process->life});
}

/* A life that ended in order. */
static void bury(struct sim *sim, struct process *process)
{
    check_stats(sim, process);
    check_buried(sim, process);
    core_free(&process->core);
    sim_near_close(sim, process);
    process->life = 0;
}

static bool is_idle(const struct process *process)
{
    return core_idle(process->core) && process->looking == 0;
}

void process_restart(struct sim *sim, struct process *process)
{
    if (process->closing && process_runs(process) && !is_idle(process))
        return; /* asked for again when it is */
    if (process->closing && process_runs(process))
        bury(sim, process);
    if (!process_runs(process))
        process_start(sim, process);
}

void process_close(struct sim *sim, struct process *process)
{
    lookup_end_all(sim, process);
    core_close(process->core, process_now_us(process));
    process_drain(sim, process);
}

/* ---- loads ---- */

static bool was_granted(const struct sim *sim, const struct process *process, const char *token)
{
    for (uint32_t i = sim->loads; i > 0; i--)
        if (strcmp(sim->load[i - 1].token, token) == 0)
            return sim->load[i - 1].as_one && sim->load[i - 1].leased; /* else one load per lease */
    for (uint32_t i = sim->commands; i > 0; i--) {
        const struct command *command = &sim->command[i - 1];
        if (command->life == process->life && command->granted && strcmp(command->token, token) == 0)
            return true;
    }
    return false;
}

static uint32_t early_version(const struct sim *sim, const char *token)
{
    for (uint32_t i = sim->commands; i > 0; i--)
        if (strcmp(sim->command[i - 1].token, token) == 0 && sim->command[i - 1].action.kind == CORE_ACQUIRE)
            return sim->command[i - 1].version;
    return 0;
}

static uint64_t choose_fate(struct sim *sim, struct load_model *load)
{
    uint64_t span_us = (uint64_t)sim->params.load_ms * sim_between(sim, 500, 1500);
    load->fails = sim_fault(sim, FAULT_LOAD_FAILS, 5);
    load->ignores_cancel = sim_fault(sim, FAULT_CANCEL_IGNORED, 4);
    if (sim_fault(sim, FAULT_LOAD_HANGS, 15))
        return sim_between(sim, 5000000, 30000000);
    return sim_fault(sim, FAULT_LOAD_SLOW, 6) ? span_us * 10 : span_us;
}

static uint32_t choose_nested(struct sim *sim)
{
    if (sim->phase != PHASE_CHAOS || sim->params.nested == 0 || !sim_one_in(sim, sim->params.nested))
        return 0;
    return 1 + (uint32_t)sim_between(sim, 0, sim->params.keys - 1);
}

/* On the thread of a load that waits and does not run another one already, and not for longer than that one. */
static void borrow_thread(struct sim *sim, struct load_model *load, uint64_t id)
{
    uint32_t index = sim->loads - 1;
    while (index > 0 && (sim->load[index - 1].life != load->life || sim->load[index - 1].id != id))
        index--;
    struct load_model *lender = &sim->load[index > 0 ? index - 1 : 0];
    if (index == 0 || lender->ended || !lender->blocked || lender->lent) {
        sim_fail(sim, "p%u lends a thread that does not wait", load->process);
        return;
    }
    if (load->deadline_us > lender->deadline_us)
        sim_fail(sim, "p%u gives a nested load of k%u more time than the one it is nested in", load->process,
                 load->key);
    load->lender = index;
    lender->lent = true;
    sim->seen[SEEN_LENT]++;
}

static void schedule_end(struct sim *sim, uint32_t index)
{
    const struct load_model *load = &sim->load[index];
    sim_at(sim, sim->course.now_us + sim_between(sim, 1, 200),
           (struct event){
               .kind = EVENT_LOAD_END, .process = load->process, .life = load->life, .subject = index});
}

/* Of the query that this load is part of: it alone, or those of its batch. */
static bool has_mates(const struct sim *sim, const struct load_model *load)
{
    for (uint32_t i = 0; i < sim->loads && load->batch != 0; i++) {
        const struct load_model *other = &sim->load[i];
        if (other != load && other->batch == load->batch && other->process == load->process &&
            other->life == load->life && !other->ended)
            return true;
    }
    return false;
}

void process_thread_is_free(struct sim *sim, const struct load_model *load)
{
    if (load->lender == 0)
        return;
    sim->load[load->lender - 1].lent = false;
    schedule_end(sim, load->lender - 1);
}

void process_give_place_back(struct sim *sim, struct process *process, const struct load_model *load)
{
    if (load->depth == 0)
        process->running -= !has_mates(sim, load);
    if (!load->defer.returned)
        process_thread_is_free(sim, load);
}

struct load_model *process_load_of(struct sim *sim, const struct process *process, uint64_t id)
{
    for (uint32_t i = sim->loads; i > 0; i--)
        if (sim->load[i - 1].life == process->life && sim->load[i - 1].id == id)
            return &sim->load[i - 1];
    return NULL;
}

/* Only the core knows which of those that wait for it that is. */
static uint32_t outer_of(struct sim *sim, const struct process *process, uint64_t id)
{
    const struct load *load = loads_find(process->core, id);
    const struct load_model *outer = process_load_of(sim, process, load->outer->id);
    return outer != NULL ? (uint32_t)(outer - sim->load) + 1 : 0;
}

/* What is known of it, if an earlier load has had it. */
static bool inherits_permit(struct sim *sim, struct load_model *load)
{
    for (uint32_t i = sim->loads; i > 0; i--) {
        const struct load_model *earlier = &sim->load[i - 1];
        if (earlier->life != load->life || strcmp(earlier->permit, load->permit) != 0)
            continue;
        load->permit_until_us = earlier->permit_until_us;
        load->permit_lost = earlier->permit_lost;
        sim->seen[SEEN_PASSED_ON] += earlier->ended;
        return true;
    }
    return false;
}

/* The last acquire of this token was sent then: from there on its process counts. */
static void remember_permit(struct sim *sim, struct load_model *load, const char *token)
{
    uint32_t at = sim->commands;
    memcpy(load->permit, token, strlen(token) + 1);
    if (inherits_permit(sim, load))
        return;
    while (at > 0 && (sim->command[at - 1].action.kind != CORE_PERMIT_ACQUIRE ||
                      strcmp(sim->command[at - 1].token, token) != 0))
        at--;
    if (at > 0)
        load->permit_until_us = sim->command[at - 1].sent_us + (uint64_t)sim->params.permit_ms * 1000;
}

static void start_load(struct sim *sim, struct process *process, const struct core_action *action)
{
    if (sim->loads == SIM_LOADS) {
        sim_fail(sim, "more than %d loads", SIM_LOADS);
        return;
    }
    uint32_t index = sim->loads;
    struct load_model *load = &sim->load[index];
    *load = (struct load_model){.id = action->load, .process = process->index, .life = process->life};
    load->batch = action->batch;
    load->commands_before = sim->commands;
    load->deadline_us = action->deadline_us - process->clock_offset_us;
    load->leased = was_granted(sim, process, action->token);
    load->depth = action->depth;
    if (load->depth > 0)
        load->outer = outer_of(sim, process, load->id);
    load->has_previous = action->previous != NULL;
    uint32_t key_of_previous = 0;
    if (load->has_previous)
        body_read(action->previous->public.body, &key_of_previous, &load->previous);
    load->key = (uint32_t)(action->key.encoded[1] - '0');
    load->start_us = sim->course.now_us + sim_between(sim, 0, 300);
    memcpy(load->token, action->token, strlen(action->token) + 1);
    if (action->permit != NULL)
        remember_permit(sim, load, action->permit);
    uint64_t span_us = choose_fate(sim, load);
    load->end_us = load->start_us + span_us;
    load->nests = choose_nested(sim);
    load->keep.starter = action->starter;
    load->keep.flight = action->starter != NULL ? action->starter->flight : NULL;
    wishes_load_starts(sim, load);
    outage_load_starts(sim, load);
    sim->loads++;
    if (action->lender != 0) {
        borrow_thread(sim, load, action->lender);
    } else if (load->depth == 0) {
        bool joins = has_mates(sim, load);
        process->running += !joins;
        sim->seen[SEEN_BATCHED] += joins;
        sim->seen[SEEN_MERGED] += joins && action->starter != NULL && !action->starter->of_many;
    }
    sim_trace(sim, "p%u  load k%u %.8s %s%s", process->index, load->key, load->token,
              load->leased ? "leased" : "bare", load->fails ? ", will fail" : "");
    check_load_starts(sim, load);
    check_permit_of_load(sim, load);
    struct event event = {.kind = EVENT_LOAD_READ, .process = process->index, .subject = index};
    sim_at(sim, load->start_us + sim_between(sim, 0, span_us), event);
    event.kind = EVENT_LOAD_END;
    event.life = process->life;
    sim_at(sim, load->end_us + 1, event);
}

void process_load_read(struct sim *sim, uint32_t index)
{
    struct load_model *load = &sim->load[index];
    load->version = sim->row[load->key].version;
    if (sim->mutant == MUTANT_EARLY_QUERY)
        load->version = early_version(sim, load->token);
    load->read = true;
    sim_moment(sim, load->key, EVENT_WRITE);
}

static void cancel_load(struct sim *sim, const struct process *process, uint64_t id)
{
    for (uint32_t i = sim->loads; i > 0; i--) {
        struct load_model *load = &sim->load[i - 1];
        if (load->life != process->life || load->id != id)
            continue;
        redis_expire(sim, load->key);
        load->cancelled = true;
        sim_trace(sim, "p%u  cancel load of k%u", process->index, load->key);
        if (!load->ignores_cancel && !load->ended)
            sim_at(sim, sim->course.now_us + sim_between(sim, 100, 5000),
                   (struct event){.kind = EVENT_LOAD_END,
                                  .process = process->index,
                                  .life = process->life,
                                  .subject = i - 1});
        return;
    }
    if (!sim->wishes.may[WISH_NO_THREAD]) /* it may have been cancelled before the core hears of that */
        sim_fail(sim, "p%u cancels a load that it has not started", process->index);
}

/* What guard_load_get() refuses by itself. */
static bool in_chain(const struct sim *sim, const struct load_model *load, uint32_t key)
{
    uint32_t depth = 0;
    while (load->key != key && load->lender != 0 && depth < GUARD_NESTED_MAX) {
        load = &sim->load[load->lender - 1];
        depth++;
    }
    return load->key == key || depth >= GUARD_NESTED_MAX;
}

/* The loader asks for another key, once, before it ends. True: it waits for the answer. */
static bool asks_first(struct sim *sim, struct process *process, uint32_t index)
{
    struct load_model *load = &sim->load[index];
    if (load->nests == 0 || process->closing || sim->phase != PHASE_CHAOS ||
        load->deadline_us <= sim->course.now_us)
        return false;
    uint32_t key = load->nests - 1;
    load->nests = 0;
    if (in_chain(sim, load, key))
        return false;
    load->blocked = true;
    process_get_nested(sim, process, key, index);
    return load->blocked;
}

/* In the worlds that ask where an answer comes from. */
static const char *name_of_load(const struct sim *sim, uint32_t index, char name[static 16])
{
    name[0] = '\0';
    if (outage_is_world(sim))
        snprintf(name, 16, "L%u", index);
    return name;
}

static bool is_mate(const struct load_model *load, const struct load_model *other)
{
    return load->batch != 0 && other->batch == load->batch && other->life == load->life;
}

/* What one of them asks for makes the whole query fail: they return together. Where loads may be deferred each ends
 * for itself. */
static bool fails_as_one(struct sim *sim, const struct load_model *load)
{
    bool fails = load->fails && !load->as_one && !load->cancelled && load->key % 2 == 0 &&
                 !sim->wishes.may[WISH_DEFER];
    uint32_t mates = 0;
    for (uint32_t i = 0; i < sim->loads && fails; i++) {
        const struct load_model *mate = &sim->load[i];
        if (!is_mate(load, mate))
            continue;
        mates++;
        fails = !mate->ended && !mate->blocked && !mate->lent;
    }
    return fails && mates > 1;
}

static void end_query(struct sim *sim, const struct load_model *load)
{
    for (uint32_t i = 0; i < sim->loads; i++)
        if (is_mate(load, &sim->load[i])) {
            sim->load[i].as_one = sim->load[i].fails = true;
            sim->load[i].nests = 0;
        }
    for (uint32_t i = 0; i < sim->loads; i++)
        if (is_mate(load, &sim->load[i]) && sim->load[i].as_one && !sim->load[i].ended)
            process_load_end(sim, i);
}

void process_load_end(struct sim *sim, uint32_t index)
{
    char name[16];
    struct load_model *load = &sim->load[index];
    struct process *process = &sim->process[load->process];
    const struct row *row = &sim->row[load->key];
    const char *tags = tags_of_key(sim, load->key);
    if (load->ended || load->blocked || load->lent || asks_first(sim, process, index) ||
        wishes_loader_returns(sim, load))
        return;
    if (fails_as_one(sim, load)) {
        end_query(sim, load);
        return;
    }
    load->ended = true;
    load->ended_us = sim->course.now_us;
    process_give_place_back(sim, process, load);
    struct core_loaded loaded = {.outcome = LOAD_FAILED, .failure = GUARD_FAILURE_UNAVAILABLE};
    loaded.load_us = sim->course.now_us - load->start_us;
    loaded.as_one = load->as_one;
    sim->seen[SEEN_AS_ONE] += load->as_one;
    bool succeeds = load->read && !load->fails;
    bool same = load->previous == load->version || sim->mutant == MUTANT_UNCHANGED_BLIND;
    if (succeeds && sim->params.conditional && load->has_previous && same) {
        loaded.outcome = LOAD_UNCHANGED;
        sim->seen[SEEN_UNCHANGED]++;
    } else if (succeeds && row->absent[load->version]) {
        loaded.outcome = LOAD_ABSENT;
        if (tags[0] != '\0')
            loaded.value = value_new("", 0, "", 0, tags, strlen(tags));
    } else if (succeeds) {
        loaded.outcome = LOAD_OK;
        loaded.value = body_value(load->key, load->version, row->too_big[load->version],
                                  name_of_load(sim, index, name), tags, keep_knows_meta(sim, load->process));
    }
    sim_trace(sim, "p%u  loaded k%u v%u %s", process->index, load->key, load->version,
              succeeds ? "ok" : "failed");
    if (!succeeds && !load->as_one)
        check_load_failed(sim, load);
    wishes_load_ends(sim, load, &loaded);
    core_loaded(process->core, process_now_us(process), load->id, &loaded);
    value_unref(&loaded.value);
    process_drain(sim, process);
    keep_check_parted(sim, load);
}

/* ---- requests ---- */

void process_answered(struct sim *sim, struct request *request)
{
    request->answers++;
    request->open = false;
    request->over_us = sim->course.now_us;
    outage_check_answer(sim, request);
    check_answer(sim, request);
    if (request->parent_load != 0) {
        sim->seen[SEEN_CIRCLES] += request->waiter.result.failure == GUARD_FAILURE_CYCLE;
        sim->load[request->parent_load - 1].blocked = false;
        schedule_end(sim, request->parent_load - 1);
    }
    guard_value_unref(&request->waiter.result.value);
}

/* The core has said this to it. */
static void enters(struct sim *sim, struct process *process, struct request *request,
                   enum guard_status status)
{
    request->open = status == GUARD_OK;
    process->accepted += request->open;
    process->refused += status == GUARD_SHED;
    if (request->open)
        change_entered(sim, request);
    if (request->open || status == GUARD_SHED)
        check_entered(sim, request, !request->open);
}

/* Traffic ends when the table is full, but for the probes. */
static bool has_room(const struct sim *sim)
{
    uint32_t kept = sim->phase == PHASE_PROBE ? 0 : SIM_PROCESSES * SIM_KEYS;
    return sim->requests + kept < SIM_REQUESTS;
}

/* As guard_load_get() asks, without a lookup before: the core is what is tested. */
void process_get_nested(struct sim *sim, struct process *process, uint32_t key, uint32_t parent_load)
{
    struct load_model *load = &sim->load[parent_load];
    uint64_t deadline_us = sim->course.now_us + (uint64_t)sim->params.policy.deadline_ms * 1000;
    if (!has_room(sim)) {
        load->blocked = false;
        return;
    }
    uint32_t index = sim->requests++;
    struct request *request = &sim->request[index];
    struct core_key core_key = process_key(key);
    *request = (struct request){
        .process = process->index, .life = process->life, .key = key, .parent_load = parent_load + 1};
    request->floor = check_floor(sim, process, key);
    request->deadline_us = deadline_us < load->deadline_us ? deadline_us : load->deadline_us;
    check_request(sim, request);
    request->waiter.start_us = process_now_us(process);
    request->waiter.parent_load = load->id;
    enum guard_status status =
        core_get(process->core, process_now_us(process), &core_key, keep_policy(sim, process->index),
                 &request->waiter, request->deadline_us + process->clock_offset_us);
    enters(sim, process, request, status);
    load->blocked = request->open;
    sim->seen[SEEN_NESTED]++;
    sim_trace(sim, "p%u  nested get #%u k%u%s", process->index, index, key, request->open ? "" : " refused");
    process_drain(sim, process);
}

void process_enter(struct sim *sim, struct process *process, uint32_t index)
{
    struct request *request = &sim->request[index];
    struct core_key core_key = process_key(request->key);
    if (sim->params.together_percent > 0)
        request->waiter.of_many = chance_below(&sim->course.chance, 100) < sim->params.together_percent;
    request->waiter.lends = sim->params.policy.loads_on == GUARD_ON_CALLER && index % 2 == 0;
    request->outage.commands_before = sim->commands + 1;
    enum guard_status status =
        core_get(process->core, process_now_us(process), &core_key, keep_policy(sim, process->index),
                 &request->waiter, request->deadline_us + process->clock_offset_us);
    enters(sim, process, request, status);
    sim_trace(sim, "p%u  get #%u k%u floor v%u%s", process->index, index, request->key, request->floor,
              request->open ? "" : " refused");
    if (request->probe && !request->open)
        sim_fail(sim, "p%u refuses a probe with status %d", process->index, status);
    process_drain(sim, process);
}

void process_get(struct sim *sim, struct process *process, uint32_t key, uint64_t deadline_ms)
{
    bool refused_by_owner = process->closing;
    if (refused_by_owner || !has_room(sim)) {
        if (sim->phase == PHASE_PROBE)
            sim_fail(sim, "p%u takes no probe of k%u", process->index, key);
        return;
    }
    uint32_t index = sim->requests++;
    struct request *request = &sim->request[index];
    *request = (struct request){.process = process->index, .life = process->life, .key = key};
    request->floor = check_floor(sim, process, key);
    request->deadline_us = sim->course.now_us + deadline_ms * 1000;
    request->probe = sim->phase == PHASE_PROBE;
    check_request(sim, request);
    request->waiter.start_us = process_now_us(process);
    if (wishes_request_begins(sim, process, request) || sim_near_get(sim, process, request))
        return;
    bool looks_up = chance_below(&sim->course.chance, 100) < sim->params.lookup_percent;
    if (looks_up && lookup_is_cut_off(sim, process, request) && outage_answers(sim, process, request))
        return;
    if (!looks_up || !lookup_send(sim, process, index))
        process_enter(sim, process, index);
    if (sim_fault(sim, FAULT_REQUEST_LEAVES, 8))
        sim_at(sim, sim->course.now_us + sim_between(sim, 0, deadline_ms * 500),
               (struct event){
                   .kind = EVENT_LEAVE, .process = process->index, .life = process->life, .subject = index});
}

void process_leave(struct sim *sim, uint32_t index)
{
    struct request *request = &sim->request[index];
    struct process *process = &sim->process[request->process];
    if (request->looking)
        lookup_end(sim, request, GUARD_CANCELLED);
    if (!request->open)
        return;
    core_cancel(process->core, process_now_us(process), &request->waiter);
    process_drain(sim, process);
}

/* ---- writes ---- */

static void schedule_invalidation(struct sim *sim, uint32_t key, uint32_t attempts, uint64_t after_us,
                                  bool probe)
{
    if (sim->writes == SIM_WRITES) {
        sim_fail(sim, "more than %d writes", SIM_WRITES);
        return;
    }
    uint32_t index = sim->writes++;
    sim->write[index] = (struct write){.key = key, .attempts = attempts, .open = true, .probe = probe};
    bool failure = sim->redis.slot[key].failure.there; /* only an invalidation of the key ends it at once */
    if (sim->params.tagged && !(probe && failure) && sim_one_in(sim, 2)) {
        sim->write[index].of_tag = true;
        sim->write[index].tag = key == 1 ? (uint32_t)sim_between(sim, 0, SIM_TAGS - 1) : key / 2;
    }
    sim_at(sim, sim->course.now_us + after_us, (struct event){.kind = EVENT_INVALIDATE, .subject = index});
}

void process_write(struct sim *sim, uint32_t key, bool probe)
{
    struct row *row = &sim->row[key];
    bool room = probe || (row->version < SIM_VERSIONS - 64 && sim->writes < SIM_CHAOS_WRITES);
    if (!room)
        return;
    row->version++;
    row->absent[row->version] = !probe && sim_one_in(sim, 6);
    row->too_big[row->version] = !probe && sim_one_in(sim, 10);
    sim_trace(sim, "    commit k%u v%u%s", key, row->version, row->absent[row->version] ? " (deleted)" : "");
    if (!probe && sim_fault(sim, FAULT_WRITER_DIES, 8))
        return;
    schedule_invalidation(sim, key, 0, sim_between(sim, 0, 2000), probe);
}

static struct process *any_running(struct sim *sim)
{
    uint32_t first = (uint32_t)sim_between(sim, 0, sim->params.processes - 1);
    for (uint32_t i = 0; i < sim->params.processes; i++) {
        struct process *process = &sim->process[(first + i) % sim->params.processes];
        if (process_runs(process) && !process->closing && process->stalled_until_us <= sim->course.now_us)
            return process;
    }
    return NULL;
}

void process_invalidate(struct sim *sim, uint32_t index)
{
    struct write *write = &sim->write[index];
    struct process *process = any_running(sim);
    if (process == NULL) {
        sim_at(sim, sim->course.now_us + 20000, (struct event){.kind = EVENT_INVALIDATE, .subject = index});
        return;
    }
    write->process = process->index;
    write->life = process->life;
    for (uint32_t key = 0; key < SIM_KEYS; key++)
        write->versions[key] = sim->row[key].version;
    write->invalidation =
        (struct core_invalidation){.key = write->of_tag ? tags_name(write->tag) : process_key(write->key),
                                   .of_tag = write->of_tag,
                                   .expires = change_expires(sim, write),
                                   .deadline_us = process_now_us(process) + 1000000};
    sim_near_begins(sim, process, write);
    if (core_invalidate(process->core, process_now_us(process), &write->invalidation) != GUARD_OK)
        write->open = false;
    process_drain(sim, process);
}

static void invalidated(struct sim *sim, struct write *write)
{
    write->open = false;
    sim_near_ends(sim, &sim->process[write->process], write);
    if (write->invalidation.result.status == GUARD_OK) {
        uint32_t what = write->of_tag ? SIM_KEYS + write->tag : write->key;
        struct said_model *said = &sim->process[write->process].said[what];
        if (write->invalidation.expires)
            change_expired(sim, write);
        said->confirmed = true;
        said->shard = said->replied_by;
        said->owed = said->owed || said->at_former; /* the other master has to hear of it, too */
        sim->seen[SEEN_SAID_TO_FORMER] += said->at_former;
        for (uint32_t key = 0; key < SIM_KEYS; key++)
            if (tags_touched(write, key) && !said->at_former && !write->invalidation.expires)
                raise_floor(sim, &sim->row[key], write->versions[key], write->of_tag);
        for (int i = 0; i < 8; i++)
            sim_moment(sim, write->key, EVENT_REQUEST);
        sim_trace(sim, "p%u  invalidated %s%u: v%u and newer of k%u from now on", write->process,
                  write->of_tag ? "t" : "k", write->of_tag ? write->tag : write->key,
                  sim->row[write->key].floor, write->key);
    } else if (write->attempts < SIM_REPETITIONS && sim->phase != PHASE_END) {
        schedule_invalidation(sim, write->key, write->attempts + 1, 1000, write->probe);
    }
}

/* ---- what a core asks for ---- */

static void start_load_or_not(struct sim *sim, struct process *process, const struct core_action *action)
{
    if (defer_lacks_thread(sim))
        core_unperformed(process->core, action);
    else
        start_load(sim, process, action);
}

static void perform(struct sim *sim, struct process *process, const struct core_action *action)
{
    if (action->kind == CORE_LOAD)
        start_load_or_not(sim, process, action);
    else if (action->kind == CORE_CANCEL)
        cancel_load(sim, process, action->load);
    else if (action->kind == CORE_FORGET)
        defer_forgotten(sim, process, action->load);
    else
        net_send(sim, process, action);
}

void process_drain(struct sim *sim, struct process *process)
{
    struct core_action action;
    do {
        while (core_next_action(process->core, &action))
            perform(sim, process, &action);
    } while (core_tell_unperformed(process->core, process_now_us(process)));
    struct core_waiter *waiter;
    while ((waiter = core_next_answer(process->core)) != NULL)
        process_answered(sim, (struct request *)waiter);
    struct core_invalidation *invalidation;
    while ((invalidation = core_next_invalidated(process->core)) != NULL)
        invalidated(sim, (struct write *)invalidation);
    check_queues(sim, process);
    if (process->closing && is_idle(process))
        sim_at(sim, sim->course.now_us + 1, (struct event){.kind = EVENT_RESTART, .process = process->index});
    if (core_turn_due(process->core) && !process->turn_set) {
        process->turn_set = true;
        sim_at(sim, sim->course.now_us + sim_between(sim, 0, 200),
               (struct event){.kind = EVENT_TURN, .process = process->index, .life = process->life});
    }
    uint64_t next_us = core_next_us(process->core);
    if (next_us == UINT64_MAX)
        return;
    next_us = next_us > process->clock_offset_us ? next_us - process->clock_offset_us : 0;
    if (next_us < sim->course.now_us)
        next_us = sim->course.now_us;
    if (next_us >= process->tick_us)
        return;
    process->tick_us = next_us;
    next_us += sim_between(sim, 0, sim->params.tick_late_us);
    sim_at(sim, next_us,
           (struct event){.kind = EVENT_TICK,
                          .process = process->index,
                          .life = process->life,
                          .subject = ++process->ticks});
}
