/* SPDX-License-Identifier: MIT */
/*
 * sim_keep.c - loaders that say how their answer is kept: its own life, SHARE, PASS. What they say is drawn when the load
 * starts, and said when it ends.
 */
#include "sim.h"
#include <string.h>

/* ---- what a world has ---- */

/* Where requests have a load each, more of them than workers is a queue, however calm. */
void keep_choose(struct sim *sim)
{
    if (!sim->params.calm || !sim->wishes.may[WISH_PASS])
        return;
    sim->params.workers = SIM_REQUESTS;
    sim->params.permits = 0;
}

/* ---- what a loader says ---- */

void keep_load_starts(struct sim *sim, struct load_model *load)
{
    enum { OWN_FRESH_MS = 3000, OWN_STALE_MS = 3000, PASS_MS = 1000, ONE_IN = 3 };
    struct guard_keep *keep = &load->keep.keep;
    *keep = (struct guard_keep){.fresh_ms = GUARD_POLICY_MS, .stale_ms = GUARD_POLICY_MS};
    keep->pass_ms = GUARD_POLICY_MS;
    if (sim_wish(sim, WISH_PASS, ONE_IN)) {
        keep->how = GUARD_PASS;
        keep->pass_ms = (uint32_t)sim_wish_between(sim, WISH_PASS, 1, PASS_MS);
    } else if (sim_wish(sim, WISH_SHARE, ONE_IN)) {
        keep->how = GUARD_SHARE;
    } else {
        if (sim_wish(sim, WISH_OWN_FRESH, ONE_IN))
            keep->fresh_ms = (uint32_t)sim_wish_between(sim, WISH_OWN_FRESH, 0, OWN_FRESH_MS);
        if (sim_wish(sim, WISH_OWN_STALE, ONE_IN))
            keep->stale_ms = (uint32_t)sim_wish_between(sim, WISH_OWN_STALE, 0, OWN_STALE_MS);
    }
    load->keep.says =
        keep->how != GUARD_STORE || keep->fresh_ms != GUARD_POLICY_MS || keep->stale_ms != GUARD_POLICY_MS;
}

/* How old the entry may become that is stored now, by what was said of it. */
static void note_life(struct sim *sim, const struct load_model *load)
{
    const struct guard_keep *keep = &load->keep.keep;
    const struct guard_policy *policy = &sim->params.policy;
    struct keep_world *world = &sim->wishes.keep;
    uint64_t *most_ms = &world->most_ms[load->key][load->version];
    bool own_stale = keep->stale_ms != GUARD_POLICY_MS;
    uint64_t fresh_ms = keep->fresh_ms != GUARD_POLICY_MS ? keep->fresh_ms : policy->fresh_ms;
    uint64_t all_ms = fresh_ms + (own_stale ? keep->stale_ms : policy->stale_ms);
    world->own_stale[load->key][load->version] |= own_stale;
    *most_ms = all_ms > *most_ms ? all_ms : *most_ms;
    if (keep->fresh_ms != GUARD_POLICY_MS && keep->fresh_ms > world->longest_ms[load->key])
        world->longest_ms[load->key] = keep->fresh_ms;
}

void keep_load_ends(struct sim *sim, struct load_model *load, struct core_loaded *loaded)
{
    if (!load->keep.says || loaded->outcome == LOAD_FAILED)
        return;
    load->keep.told = true;
    loaded->keep = &load->keep.keep;
    sim->wishes.keep.passed[load->key] |= load->keep.keep.how == GUARD_PASS;
    if (load->keep.keep.how == GUARD_STORE)
        note_life(sim, load);
}

/* ---- lives ---- */

static uint32_t version_of(const struct request *request)
{
    uint32_t key = 0, version = 0;
    const struct guard_value *value = request->waiter.result.value;
    if (value != NULL)
        body_read(value->body, &key, &version);
    return version % KEEP_VERSIONS;
}

bool keep_has_own_stale(struct sim *sim, const struct request *request)
{
    bool own = sim->wishes.keep.own_stale[request->key][version_of(request)];
    sim->seen[SEEN_OWN_STALE] += own && sim->params.policy.stale_ms == 0;
    return own;
}

uint64_t keep_most_ms(struct sim *sim, const struct request *request)
{
    const struct guard_policy *policy = &sim->params.policy;
    uint64_t said_ms = sim->wishes.keep.most_ms[request->key][version_of(request)];
    uint64_t most_ms = (uint64_t)policy->fresh_ms + policy->stale_ms;
    return said_ms > most_ms ? said_ms : most_ms;
}

/* Under this token, and told by its loader how its answer is kept; NULL: nothing was said. */
static const struct load_model *told_by(const struct sim *sim, const char *token)
{
    for (uint32_t i = sim->loads; i > 0; i--)
        if (strcmp(sim->load[i - 1].token, token) == 0 && sim->load[i - 1].leased)
            return sim->load[i - 1].keep.told ? &sim->load[i - 1] : NULL;
    return NULL;
}

static bool is_jittered(const struct sim *sim, uint64_t ms, uint64_t whole_ms)
{
    return ms <= whole_ms && (ms + 1) * 100 >= whole_ms * (100 - sim->params.policy.jitter_percent);
}

static bool is_life_as_said(const struct sim *sim, const struct guard_keep *keep,
                            const struct stored_value *value)
{
    bool own_fresh = keep->fresh_ms != GUARD_POLICY_MS, own_stale = keep->stale_ms != GUARD_POLICY_MS;
    if (value->life.own_fresh != own_fresh || value->life.own_stale != (own_stale && !value->absent))
        return false;
    if (own_fresh && (value->life.fresh_ms != keep->fresh_ms ||
                      !is_jittered(sim, value->px_ms - value->stale_ms, keep->fresh_ms)))
        return false;
    return !own_stale || value->absent || value->stale_ms == keep->stale_ms;
}

bool keep_stores_rightly(const struct sim *sim, const struct command *command,
                         const struct stored_value *value)
{
    const struct load_model *load = told_by(sim, command->token);
    if (load == NULL)
        return !value->mark;
    const struct guard_keep *keep = &load->keep.keep;
    switch (keep->how) {
    case GUARD_STORE:
        return !value->mark && is_life_as_said(sim, keep, value);
    case GUARD_PASS:
        return value->mark && value->px_ms == keep->pass_ms;
    case GUARD_SHARE:
        break;
    }
    return false;
}

void keep_check_touch(struct sim *sim, const struct command *command, const struct stored_value *old,
                      const struct stored_value *value)
{
    bool same = old->life.own_fresh == value->life.own_fresh &&
                old->life.own_stale == value->life.own_stale && old->life.fresh_ms == value->life.fresh_ms;
    if (told_by(sim, command->token) == NULL && !same)
        sim_fail(sim, "p%u finds v%u of k%u unchanged and gives it another life", command->process,
                 value->version, command->key);
}

/* ---- marks ---- */

/* It leaves no value, but perhaps the one that was stale. */
bool keep_unstored(const struct sim *sim)
{
    return sim->wishes.count[WISH_SHARE] + sim->wishes.count[WISH_PASS] > 0;
}

bool keep_meets_mark(struct sim *sim, struct request *request, const struct stored_value *entry)
{
    if (!entry->mark)
        return false;
    if (entry->version < request->floor)
        sim_fail(sim, "#%u of k%u meets a mark of v%u, but v%u was invalidated in before it began",
                 (uint32_t)(request - sim->request), request->key, entry->version, request->floor);
    request->waiter.passes = true;
    sim->seen[SEEN_MARKS]++;
    return true;
}

bool keep_parts(struct sim *sim, const struct load_model *load, const struct load_model *other)
{
    bool parts = sim->wishes.keep.passed[load->key] && (!load->leased || !other->leased);
    sim->seen[SEEN_PARTED] += parts;
    return parts;
}

/* ---- what must be true of an answer ---- */

static const struct load_model *load_of(const struct sim *sim, uint64_t id)
{
    for (uint32_t i = sim->loads; i > 0 && id != 0; i--)
        if (sim->load[i - 1].id == id)
            return &sim->load[i - 1];
    return NULL;
}

/* Here: in another process it is the lease that its lookup found which says when the load began. */
static void check_shared(struct sim *sim, const struct request *request, const struct load_model *load)
{
    bool here = load->life == request->life;
    sim->seen[SEEN_SHARED] += !here;
    if (here && request->start_us > load->begun_us)
        sim_fail(sim, "#%u of k%u began after the query that is shared with it",
                 (uint32_t)(request - sim->request), request->key);
}

static void check_passed(struct sim *sim, const struct request *request, const struct load_model *load)
{
    sim->seen[SEEN_PASSED]++;
    if (request != load->starter)
        sim_fail(sim, "#%u of k%u got what p%u passed to another request", (uint32_t)(request - sim->request),
                 request->key, load->process);
}

void keep_check_answer(struct sim *sim, const struct request *request)
{
    const struct guard_result *result = &request->waiter.result;
    const struct load_model *load = load_of(sim, result->load);
    bool has_row = result->status == GUARD_OK || result->status == GUARD_ABSENT;
    if (!has_row || load == NULL || !load->keep.told || load->keep.keep.how == GUARD_STORE)
        return;
    if (result->stored)
        sim_fail(sim, "#%u of k%u got as stored what is not", (uint32_t)(request - sim->request),
                 request->key);
    if (load->keep.keep.how == GUARD_SHARE)
        check_shared(sim, request, load);
    else
        check_passed(sim, request, load);
}

void keep_check_load(struct sim *sim, const struct load_model *load)
{
    (void)sim, (void)load;
}

void keep_check_rest(struct sim *sim)
{
    (void)sim;
}
