/* SPDX-License-Identifier: MIT */
/*
 * sim_keep.c - loaders that say how their answer is kept: its own life, SHARE, PASS. What they say is drawn when the
 * load starts, and said when it ends.
 *
 * What is not to be stored carries a validator that says so, and whose it is: "p<load>" of a pass, "s<load>" of a
 * share, "n<load>" of what has no life at all. So an answer can be traced to its load, and is missed where it should
 * not be.
 */
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what a world has ---- */

/* No dice: the other worlds stay as they are. */
void keep_choose(struct sim *sim)
{
    enum { MIXED_IN = 5 };
    sim->params.mixed = !outage_is_world(sim) && sim->course.seed % MIXED_IN == 0;
}

/* ---- a fleet of two releases ---- */

bool keep_knows_meta(const struct sim *sim, uint32_t process)
{
    return sim->params.mixed && process % 2 == 0;
}

const struct guard_policy *keep_policy(struct sim *sim, uint32_t process)
{
    struct params *params = &sim->params;
    if (!keep_knows_meta(sim, process))
        return &params->policy;
    params->newer_policy = params->policy;
    params->newer_policy.needs_meta = true;
    return &params->newer_policy;
}

bool keep_is_foreign(const struct sim *sim, uint32_t process, const struct stored_value *entry)
{
    return entry->meta && !keep_knows_meta(sim, process) && sim->mutant != MUTANT_META_BLIND;
}

bool keep_is_of_use(struct sim *sim, uint32_t process, const struct stored_value *entry)
{
    bool has_value = !entry->absent && !entry->mark;
    return !hit_lacks_meta(keep_policy(sim, process), has_value, entry->meta) &&
           !keep_is_foreign(sim, process, entry);
}

static void check_meta(struct sim *sim, const struct request *request)
{
    const struct guard_value *value = request->waiter.result.value;
    bool knows = keep_knows_meta(sim, request->process);
    if (value != NULL && (value->meta_bytes > 0) != knows)
        sim_fail(sim, "#%u of k%u got a value %s meta", (uint32_t)(request - sim->request), request->key,
                 knows ? "without" : "with");
}

/* ---- what a loader says ---- */

enum { OWN_FRESH_MS = 3000, OWN_STALE_MS = 3000, PASS_MS = 1000, ONE_IN = 3, NONE_IN = 8 };

/* Often for no time at all: only its stale time is left then. */
static uint32_t own_fresh_ms(struct sim *sim)
{
    enum { NOT_FRESH_IN = 4 };
    bool fresh = sim_wish_between(sim, WISH_OWN_FRESH, 1, NOT_FRESH_IN) > 1;
    return fresh ? (uint32_t)sim_wish_between(sim, WISH_OWN_FRESH, 1, OWN_FRESH_MS) : 0;
}

void keep_load_starts(struct sim *sim, struct load_model *load)
{
    struct guard_keep *keep = &load->keep.keep;
    *keep = (struct guard_keep){.fresh_ms = GUARD_POLICY_MS, .stale_ms = GUARD_POLICY_MS};
    keep->pass_ms = GUARD_POLICY_MS;
    bool none = sim->wishes.may[WISH_OWN_FRESH] && sim_wish(sim, WISH_OWN_STALE, NONE_IN);
    if (none) {
        keep->fresh_ms = keep->stale_ms = 0;
    } else if (sim_wish(sim, WISH_PASS, ONE_IN)) {
        keep->how = GUARD_PASS;
        keep->pass_ms = (uint32_t)sim_wish_between(sim, WISH_PASS, 1, PASS_MS);
    } else if (sim_wish(sim, WISH_SHARE, ONE_IN)) {
        keep->how = GUARD_SHARE;
    } else {
        if (sim_wish(sim, WISH_OWN_FRESH, ONE_IN))
            keep->fresh_ms = own_fresh_ms(sim);
        if (sim_wish(sim, WISH_OWN_STALE, ONE_IN))
            keep->stale_ms = (uint32_t)sim_wish_between(sim, WISH_OWN_STALE, 0, OWN_STALE_MS);
    }
    load->keep.begun_us = sim->course.now_us;
    load->keep.says =
        keep->how != GUARD_STORE || keep->fresh_ms != GUARD_POLICY_MS || keep->stale_ms != GUARD_POLICY_MS;
}

/* What it leaves to the policy counts as the policy's. */
static bool has_no_life(const struct guard_keep *keep)
{
    return keep->how == GUARD_STORE && keep->fresh_ms == 0 && keep->stale_ms == 0;
}

static char mark_of(const struct guard_keep *keep)
{
    if (keep->how == GUARD_PASS)
        return 'p';
    return keep->how == GUARD_SHARE ? 's' : 'n';
}

bool keep_waits_for(const struct load_model *load, const struct request *request)
{
    return request->open && request->life == load->life && load->keep.flight != NULL &&
           request->waiter.flight == load->keep.flight;
}

/* Before its load is told. */
static void note_parted(struct sim *sim, const struct load_model *load)
{
    for (uint32_t i = 0; i < sim->requests; i++) {
        struct request *request = &sim->request[i];
        if (keep_waits_for(load, request) && &request->waiter != load->keep.starter)
            request->keep.parted_by = load;
    }
}

void keep_load_ends(struct sim *sim, struct load_model *load, struct core_loaded *loaded)
{
    const struct guard_keep *keep = &load->keep.keep;
    char validator[16];
    load->keep.unchanged = loaded->outcome == LOAD_UNCHANGED;
    if (!load->keep.says)
        return;
    loaded->keep = keep;
    bool brings = loaded->outcome != LOAD_FAILED && loaded->outcome != LOAD_NO_MEMORY;
    if (keep->how == GUARD_PASS && brings && !load->cancelled)
        note_parted(sim, load);
    sim_trace(sim, "p%u  it says: %c fresh %u stale %u", load->process,
              keep->how == GUARD_STORE && !has_no_life(keep) ? 'k' : mark_of(keep), keep->fresh_ms,
              keep->stale_ms);
    if (loaded->outcome != LOAD_OK || (keep->how == GUARD_STORE && !has_no_life(keep)))
        return;
    snprintf(validator, sizeof validator, "%c%u", mark_of(keep), (unsigned)(load - sim->load));
    value_unref(&loaded->value);
    loaded->value = body_value(load->key, load->version, sim->row[load->key].too_big[load->version],
                               validator, tags_of_key(sim, load->key), keep_knows_meta(sim, load->process));
}

/* ---- what the model asks ---- */

enum hit_age keep_hit_age(const struct stored_value *entry, bool is_stale)
{
    if (!is_stale)
        return HIT_FRESH;
    return entry->life.own_stale ? HIT_STALE_OWN : HIT_STALE;
}

uint32_t keep_stale_most_ms(const struct sim *sim, uint32_t policy_ms)
{
    return sim->wishes.may[WISH_OWN_STALE] && policy_ms < OWN_STALE_MS ? OWN_STALE_MS : policy_ms;
}

uint32_t keep_fresh_most_ms(const struct sim *sim, uint32_t policy_ms)
{
    return sim->wishes.may[WISH_OWN_FRESH] && policy_ms < OWN_FRESH_MS ? OWN_FRESH_MS : policy_ms;
}

bool keep_may_not_store(const struct sim *sim)
{
    return sim->wishes.may[WISH_SHARE] ||
           (sim->wishes.may[WISH_OWN_FRESH] && sim->wishes.may[WISH_OWN_STALE]);
}

/* One under a lease, and those that pass, which have none. */
bool keep_may_pass(const struct sim *sim, const struct load_model *load, const struct load_model *other)
{
    return sim->wishes.may[WISH_PASS] && !(load->leased && other->leased);
}

/* ---- what is stored ---- */

static bool is_of(const struct value *value, const char *marks)
{
    return value != NULL && value->public.validator[0] != '\0' &&
           strchr(marks, value->public.validator[0]) != NULL;
}

static const struct load_model *load_of(const struct sim *sim, const struct command *command)
{
    for (uint32_t i = sim->loads; i > 0; i--)
        if (sim->load[i - 1].leased && strcmp(sim->load[i - 1].token, command->token) == 0)
            return &sim->load[i - 1];
    return NULL;
}

static bool is_life(const struct entry_life *life, const struct entry_life *other)
{
    return life->own_fresh == other->own_fresh && life->own_stale == other->own_stale &&
           life->fresh_ms == other->fresh_ms && life->stale_ms == other->stale_ms;
}

/* No number here is more than the limit. */
static struct entry_life life_said(const struct load_model *load, bool absent)
{
    const struct guard_keep *keep = &load->keep.keep;
    struct entry_life life = {.own_fresh = keep->fresh_ms != GUARD_POLICY_MS,
                              .own_stale = keep->stale_ms != GUARD_POLICY_MS && !absent};
    life.fresh_ms = life.own_fresh ? keep->fresh_ms : 0;
    life.stale_ms = life.own_stale ? keep->stale_ms : 0;
    return life;
}

static void check_span(struct sim *sim, const struct command *command)
{
    const struct core_action *action = &command->action;
    const struct guard_policy *policy = &sim->params.policy;
    uint64_t whole_ms = action->absent ? policy->absent_ms : policy->fresh_ms;
    if (action->life.own_fresh)
        whole_ms = action->life.fresh_ms;
    uint64_t stale_ms = action->life.own_stale ? action->life.stale_ms : policy->stale_ms;
    if (action->fresh_ms > whole_ms || action->fresh_ms < whole_ms * (100 - policy->jitter_percent) / 100)
        sim_fail(sim, "k%u is stored for %u ms of %llu", command->key, action->fresh_ms,
                 (unsigned long long)whole_ms);
    if (action->stale_ms != (action->absent ? 0 : stale_ms))
        sim_fail(sim, "k%u is stored with %u ms of stale time, not %llu", command->key, action->stale_ms,
                 (unsigned long long)stale_ms);
}

void keep_check_stored(struct sim *sim, const struct command *command)
{
    const struct core_action *action = &command->action;
    const struct load_model *load = load_of(sim, command);
    if (load == NULL)
        return;
    bool passes = load->keep.says && load->keep.keep.how == GUARD_PASS;
    if (action->mark != passes)
        sim_fail(sim, "p%u stores %s of k%u, whose load %s", command->process,
                 action->mark ? "the mark" : "what was loaded", command->key,
                 passes ? "passed" : "did not pass");
    if (action->mark)
        return;
    if (is_of(command->value, "spn"))
        sim_fail(sim, "p%u stores what is not to be stored of k%u", command->process, command->key);
    struct entry_life said = life_said(load, action->absent);
    bool goes_on = !load->keep.says && load->keep.unchanged;
    if (!goes_on && !is_life(&said, &action->life))
        sim_fail(sim, "p%u stores k%u with another life than was said", command->process, command->key);
    check_span(sim, command);
}

void keep_check_touched(struct sim *sim, const struct command *command, const struct stored_value *old)
{
    const struct load_model *load = load_of(sim, command);
    if (load == NULL || load->keep.says)
        return;
    sim->seen[SEEN_TOUCHED_OWN] += old->life.own_fresh || old->life.own_stale;
    if (!is_life(&old->life, &command->action.life))
        sim_fail(sim, "k%u had a life of %u ms of its own, and goes on with one of %u ms", command->key,
                 old->life.fresh_ms, command->action.life.fresh_ms);
}

void keep_check_shared(struct sim *sim, const struct command *command)
{
    if (is_of(command->value, "pn"))
        sim_fail(sim, "p%u shares what is not to be shared of k%u", command->process, command->key);
}

/* ---- who is answered ---- */

static void check_passed(struct sim *sim, const struct request *request, const struct load_model *load)
{
    uint32_t index = (uint32_t)(request - sim->request);
    sim->seen[SEEN_PASSED]++;
    if (load->keep.starter != &request->waiter)
        sim_fail(sim, "#%u of k%u got what was passed to another request", index, request->key);
    if (request->waiter.result.source != GUARD_FROM_LOAD)
        sim_fail(sim, "#%u of k%u got what was passed from elsewhere", index, request->key);
}

static void check_nowhere(struct sim *sim, const struct request *request, const struct load_model *load)
{
    uint32_t index = (uint32_t)(request - sim->request);
    sim->seen[SEEN_NOWHERE]++;
    if (load->life != request->life || request->start_us > load->keep.begun_us)
        sim_fail(sim, "#%u of k%u got what was only for those that waited when its query began", index,
                 request->key);
}

static void check_traced(struct sim *sim, const struct request *request)
{
    const struct guard_result *result = &request->waiter.result;
    const char *validator = result->value->validator;
    const struct load_model *load = &sim->load[strtoul(validator + 1, NULL, 10)];
    if (result->stored)
        sim_fail(sim, "#%u of k%u is told that its answer is stored", (uint32_t)(request - sim->request),
                 request->key);
    if (validator[0] == 'p')
        check_passed(sim, request, load);
    else if (validator[0] == 'n')
        check_nowhere(sim, request, load);
}

void keep_check_answer(struct sim *sim, const struct request *request)
{
    const struct guard_result *result = &request->waiter.result;
    bool shared = sim->pushed != NULL && sim->pushed->shared && sim->pushed->key == request->key &&
                  result->source == GUARD_FROM_FLEET;
    sim->seen[SEEN_SHARED] += shared;
    check_meta(sim, request);
    if (shared && (result->stored || result->left_ms != 0))
        sim_fail(sim, "#%u of k%u is told that what is shared is stored", (uint32_t)(request - sim->request),
                 request->key);
    if (result->status == GUARD_OK && is_of(value_behind(result->value), "spn"))
        check_traced(sim, request);
}

/* It may have been stored so, with the version that was answered. */
static bool may_be_of(const struct sim *sim, const struct command *stored, const struct request *request)
{
    const struct core_action *action = &stored->action;
    const struct guard_result *result = &request->waiter.result;
    uint32_t key = 0, version = 0;
    bool stores = (action->kind == CORE_FILL || action->kind == CORE_TOUCH) && stored->executed;
    if (!stores || stored->key != request->key || action->mark || stored->answer.code != 1 ||
        !body_read(result->value->body, &key, &version) || stored->answer.value.version != version)
        return false;
    bool serves = sim->params.policy.stale_ms > 0 || action->life.own_stale;
    return serves && result->age_ms <= (uint64_t)action->fresh_ms + action->stale_ms;
}

bool keep_check_stale(struct sim *sim, const struct request *request)
{
    if (!sim->wishes.may[WISH_OWN_FRESH] && !sim->wishes.may[WISH_OWN_STALE])
        return false;
    uint32_t i = 0;
    while (i < sim->commands && !may_be_of(sim, &sim->command[i], request))
        i++;
    if (i == sim->commands)
        sim_fail(sim, "#%u of k%u got a value that was stale for longer than its loader said",
                 (uint32_t)(request - sim->request), request->key);
    sim->seen[SEEN_STALE]++;
    sim->seen[SEEN_STALE_OWN] += sim->params.policy.stale_ms == 0;
    return true;
}

/* ---- who loads ---- */

static bool has_load(const struct sim *sim, const struct request *request)
{
    for (uint32_t i = 0; i < sim->loads; i++)
        if (sim->load[i].keep.starter == &request->waiter && !sim->load[i].ended)
            return true;
    return false;
}

/* Batches begin later, at the end of a turn. */
static bool starts_at_once(const struct sim *sim, const struct request *request)
{
    return !request->waiter.of_many || sim->params.policy.batch_loader == NULL;
}

/* Those that waited for a load that passes have loads of their own if workers are free for them. */
void keep_check_parted(struct sim *sim, const struct load_model *load)
{
    const struct process *process = &sim->process[load->process];
    bool open = process->life == load->life && !process->closing && sim->params.permits == 0;
    for (uint32_t i = 0; i < sim->requests; i++) {
        const struct request *request = &sim->request[i];
        bool parted = request->keep.parted_by == load && request->open;
        sim->seen[SEEN_PARTED] += parted;
        if (parted && open && starts_at_once(sim, request) && !has_load(sim, request) &&
            defer_has_place(sim, process) && defer_has_thread(sim, process))
            sim_fail(sim, "#%u of k%u waits for nothing while workers are free", i, request->key);
    }
}

/* An asker is that of the oldest that waited. */
void keep_check_load(struct sim *sim, const struct load_model *load)
{
    const struct core_waiter *starter = load->keep.starter;
    for (uint32_t i = 0; i < sim->requests && starter != NULL; i++)
        if (&sim->request[i].waiter == starter &&
            (sim->request[i].life != load->life || !sim->request[i].open))
            sim_fail(sim, "p%u loads k%u for #%u, which does not wait for it", load->process, load->key, i);
}
