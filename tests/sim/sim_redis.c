/* SPDX-License-Identifier: MIT */
/*
 * sim_redis.c - the model Redis: guard/wire/scripts/ in C, on keys with TTLs.
 *
 * Each script is one atomic step. The clock is Redis's own and may step; TTLs are judged when a key is
 * touched, as Redis does it: a key is there until its last millisecond is over, in which PTTL says 0. Under OOM a
 * script's first write is refused if it needs memory; under READONLY every write is. A former master is a copy of
 * what it had when another became the master; READONLY, but where it does not know, or two are masters.
 */
#include "sim.h"
#include <string.h>

uint32_t shard_of_key(const struct sim *sim, uint32_t key)
{
    return sim->redis.home[key];
}

uint32_t shard_of_tags(const struct sim *sim)
{
    return sim->params.shards - 1;
}

uint32_t shard_of_permits(const struct sim *sim)
{
    return (uint32_t)(sim->course.seed / 2 % sim->params.shards);
}

int64_t redis_now_ms(const struct sim *sim)
{
    return (int64_t)(sim->course.now_us / 1000) + sim->redis.clock_offset_ms;
}

static int64_t ttl_ms(const struct sim *sim, int64_t expires_ms)
{
    return expires_ms - redis_now_ms(sim);
}

static void end_lease(struct sim *sim, uint32_t key, enum lease_end end, const char *by)
{
    struct stored_lease *lease = &sim->redis.slot[key].lease;
    lease->there = false;
    if (sim->redis.at_former)
        return;
    check_lease_gone(sim, key, lease->token, end, by);
}

bool redis_has_expired(const struct sim *sim, int64_t expires_ms)
{
    return ttl_ms(sim, expires_ms) < 0;
}

void redis_expire(struct sim *sim, uint32_t key)
{
    struct slot *slot = &sim->redis.slot[key];
    if (slot->value.there && redis_has_expired(sim, slot->value.expires_ms)) {
        slot->value.there = false;
        sim->row[key].changes += !sim->redis.at_former;
    }
    if (slot->failure.there && redis_has_expired(sim, slot->failure.expires_ms))
        slot->failure.there = false;
    if (slot->waiting.there && redis_has_expired(sim, slot->waiting.expires_ms))
        slot->waiting.there = false;
    if (slot->lease.there && redis_has_expired(sim, slot->lease.expires_ms))
        end_lease(sim, key, LEASE_EXPIRED, NULL);
}

/* One running script: what it may still write. */
struct run {
    struct sim *sim;
    struct slot *slot;
    uint32_t key;
    bool wrote, refused;
};

static bool may_write(struct run *run, bool needs_memory)
{
    bool denied = run->sim->redis.readonly || (needs_memory && run->sim->redis.oom && !run->wrote);
    run->refused = run->refused || denied;
    run->wrote = run->wrote || !denied;
    return !denied;
}

static int64_t clamp(struct run *run, int64_t *expires_ms, int64_t limit_ms)
{
    int64_t left_ms = ttl_ms(run->sim, *expires_ms);
    if (left_ms <= limit_ms || run->sim->mutant == MUTANT_NO_CLAMP)
        return left_ms;
    if (may_write(run, false))
        *expires_ms = redis_now_ms(run->sim) + limit_ms;
    return limit_ms;
}

static uint32_t lease_ms_of(const char *token)
{
    enum { LEASE_MS_AT = TOKEN_TAG_AT + TOKEN_TAG_BYTES + 1, DIGITS = 7 };
    uint32_t ms = 0;
    for (int i = 0; i < DIGITS; i++)
        ms = ms * 10 + (uint32_t)(token[LEASE_MS_AT + i] - '0');
    return ms;
}

/* ---- acquire ---- */

/* As it answers nothing but what comes from a lease that was granted since. */
static bool revalidates(const struct command *command)
{
    enum core_lookup lookup = command->action.lookup;
    return lookup == LOOKUP_REVALIDATE || lookup == LOOKUP_REVALIDATE_PEEK;
}

static bool counts(const struct run *run, const struct command *command)
{
    const char *filler = run->slot->value.filler, *names = command->names_seen;
    return names[0] != '\0' && memcmp(names, filler, TOKEN_UUID_BYTES) != 0 &&
           memcmp(names + TOKEN_UUID_BYTES, filler, TOKEN_UUID_BYTES) != 0;
}

struct found {
    bool value, fresh, lease, failure;
    bool early; /* fresh, and to be refreshed all the same */
    int64_t value_ms, lease_ms, failure_ms;
};

static void find_value(struct run *run, const struct command *command, struct found *found)
{
    struct stored_value *value = &run->slot->value;
    bool early = command->action.lookup == LOOKUP_EARLY;
    bool refused = !early && !revalidates(command) && strcmp(value->filler, command->refused) == 0;
    if (!value->there || refused)
        return;
    uint64_t limit_ms =
        value->px_ms < run->sim->redis.max_value_ms ? value->px_ms : run->sim->redis.max_value_ms;
    found->value_ms = clamp(run, &value->expires_ms, (int64_t)limit_ms);
    found->fresh = found->value_ms > (int64_t)value->stale_ms;
    bool any = command->wanted[0] == '\0' || run->sim->mutant == MUTANT_EARLY_ANY;
    found->early = early && (any || strcmp(value->filler, command->wanted) == 0);
    bool own = value->life.own_stale && run->sim->mutant != MUTANT_OWN_STALE_IGNORED;
    bool will_do = found->fresh || own || command->action.lookup != LOOKUP_NO_STALE;
    found->value = found->value_ms >= 1 && will_do;
    found->fresh = found->fresh && (!revalidates(command) || value->mark || counts(run, command));
}

static void find_lease(struct run *run, const struct command *command, struct found *found)
{
    struct stored_lease *lease = &run->slot->lease;
    if (lease->there && command->prev[0] != '\0' && strcmp(lease->token, command->prev) == 0 &&
        may_write(run, false)) {
        end_lease(run->sim, run->key, LEASE_SUPERSEDED, command->prev);
        run->slot->waiting.there = false;
    }
    if (lease->there)
        found->lease_ms = clamp(run, &lease->expires_ms, lease_ms_of(lease->token));
    found->lease = lease->there && run->sim->mutant != MUTANT_BUSY_IGNORED;
}

static void find_failure(struct run *run, struct found *found)
{
    struct stored_failure *failure = &run->slot->failure;
    found->failure = failure->there;
    if (found->failure)
        found->failure_ms = clamp(run, &failure->expires_ms, failure->own_ms);
}

static void answer_value(struct redis_answer *out, const struct run *run, char what,
                         const struct found *found, int refresher)
{
    out->what = what;
    out->value = run->slot->value;
    out->ttl_ms = found->value_ms;
    out->refresher = refresher;
}

static void grant(struct run *run, const struct command *command, const struct found *found,
                  struct redis_answer *out)
{
    struct stored_lease *lease = &run->slot->lease;
    if (!may_write(run, true))
        return;
    if (lease->there)
        end_lease(run->sim, run->key, LEASE_RELEASED, command->token);
    lease->there = true;
    strcpy(lease->token, command->token);
    lease->expires_ms = redis_now_ms(run->sim) + command->action.lease_ms;
    if (found->value)
        answer_value(out, run, 'S', found, REFRESH_OURS);
    else
        out->what = 'L';
    out->after_abandoned =
        !found->value && run->slot->waiting.there && strcmp(run->slot->waiting.tag, ABANDONED_MARK) == 0;
    out->abandoned = out->after_abandoned && run->sim->mutant != MUTANT_ABANDONED_UNSAID;
}

/* Another process has said so, of this lease. */
static bool wants_push(const struct stored_waiting *waiting, const char *tag)
{
    return waiting->there && !waiting->quiet && strcmp(waiting->tag, tag) == 0;
}

/* What the lookup of a revalidation that finds the lease taken names. */
static void name_seen(const struct run *run, struct redis_answer *out)
{
    const struct stored_value *value = &run->slot->value;
    memset(out->names_seen, ' ', TOKEN_UUID_BYTES);
    if (value->there)
        memcpy(out->names_seen, value->filler, TOKEN_UUID_BYTES);
    memcpy(out->names_seen + TOKEN_UUID_BYTES, run->slot->lease.token, TOKEN_UUID_BYTES);
}

/* The tag of the lease, and the mark that a process waits for it: the mark may fail alone. */
static void wait_for_lease(struct run *run, const struct command *command, const struct found *found,
                           struct redis_answer *out)
{
    const struct stored_lease *lease = &run->slot->lease;
    enum core_wait waits = command->action.waits;
    bool refused = run->refused;
    memcpy(out->tag, lease->token + TOKEN_TAG_AT, TOKEN_TAG_BYTES);
    if ((waits == WAIT_REFRESH || (waits == WAIT_BUSY && !found->value)) && may_write(run, true)) {
        bool quiet = !run->sim->params.pushes && !wants_push(&run->slot->waiting, out->tag);
        run->slot->waiting = (struct stored_waiting){
            .there = true, .quiet = quiet, .expires_ms = redis_now_ms(run->sim) + lease_ms_of(lease->token)};
        memcpy(run->slot->waiting.tag, out->tag, sizeof out->tag);
    }
    run->refused = refused;
}

static void acquire(struct run *run, const struct command *command, struct redis_answer *out)
{
    struct found found = {.value = false};
    find_value(run, command, &found);
    find_lease(run, command, &found);
    find_failure(run, &found);
    bool blind = run->sim->mutant == MUTANT_LOOKUP_NOT_ATOMIC && !found.lease;
    bool anew = revalidates(command);
    if (found.early && found.fresh && run->sim->mutant == MUTANT_EARLY_BUSY)
        found.lease = false;
    if (found.value && found.fresh && !blind && (!found.early || found.lease || found.failure)) {
        answer_value(out, run, 'H', &found, 0);
    } else if (found.lease && found.value && !anew) {
        answer_value(out, run, 'S', &found, REFRESH_OTHERS);
        wait_for_lease(run, command, &found, out);
    } else if (found.lease) {
        out->what = 'B';
        out->ttl_ms = found.lease_ms;
        wait_for_lease(run, command, &found, out);
        if (anew)
            name_seen(run, out);
    } else if (found.failure && found.value && !anew) {
        answer_value(out, run, 'S', &found, REFRESH_COOLING);
        out->failure_ms = found.failure_ms;
    } else if (found.failure) {
        out->what = 'E';
        out->failure = run->slot->failure;
        out->ttl_ms = found.failure_ms;
    } else if (command->action.lookup == LOOKUP_PEEK && found.value) {
        answer_value(out, run, 'S', &found, REFRESH_OTHERS);
    } else if (command->action.lookup == LOOKUP_PEEK || command->action.lookup == LOOKUP_REVALIDATE_PEEK) {
        out->what = 'M';
    } else {
        if (blind)
            found.value = false;
        grant(run, command, &found, out);
    }
    if (!run->wrote && run->sim->mutant != MUTANT_ACQUIRE_UNFENCED)
        may_write(run, false);
}

/* ---- renew, fill, release, invalidate ---- */

static bool is_waited_for(const struct run *run, const struct command *command)
{
    const struct stored_waiting *waiting = &run->slot->waiting;
    return waiting->there && memcmp(waiting->tag, command->token + TOKEN_TAG_AT, TOKEN_TAG_BYTES) == 0;
}

static bool holds(const struct run *run, const struct command *command)
{
    return run->slot->lease.there && strcmp(run->slot->lease.token, command->token) == 0;
}

static void renew(struct run *run, const struct command *command, struct redis_answer *out)
{
    struct stored_lease *lease = &run->slot->lease;
    bool creates = run->sim->mutant == MUTANT_RENEW_CREATES && !lease->there;
    if (!holds(run, command) && !creates)
        return;
    if (!may_write(run, false))
        return;
    strcpy(lease->token, command->token);
    lease->there = true;
    lease->expires_ms = redis_now_ms(run->sim) + command->action.lease_ms;
    out->code = command->action.asks_wait && is_waited_for(run, command) ? RENEWED_AWAITED : 1;
}

/* What a fill stores, or a release shares. */
static struct stored_value entry_of(const struct run *run, const struct command *command)
{
    const struct core_action *action = &command->action;
    struct stored_value value = {
        .there = true,
        .absent = action->absent,
        .mark = action->mark,
        .meta = action->value != NULL && !action->mark && action->value->public.meta_bytes > 0,
        .life = action->life,
        .key = run->key,
        .px_ms = (uint64_t)action->fresh_ms + action->stale_ms,
        .stale_ms = action->stale_ms,
        .load_us = action->load_us,
        .tagged = action->value != NULL && action->value->tags_bytes > 0,
        .born = tags_born(run->sim, action),
        .stored_us = run->sim->course.now_us,
        .expires_ms = redis_now_ms(run->sim) + (int64_t)action->fresh_ms + action->stale_ms,
    };
    value.life.stale_ms = value.life.own_stale ? action->stale_ms : 0;
    if (run->sim->mutant == MUTANT_STALE_FOR_EVER)
        value.expires_ms += (int64_t)(value.px_ms = value.stale_ms = run->sim->redis.max_value_ms);
    if (value.absent || value.mark)
        value.version = check_version_loaded(run->sim, command->token);
    else
        body_read(action->value->public.body, &value.key, &value.version);
    memcpy(value.filler, command->token, TOKEN_UUID_BYTES);
    return value;
}

static void store(struct run *run, const struct command *command)
{
    run->slot->value = entry_of(run, command);
    run->sim->row[run->key].changes++;
    keep_check_stored(run->sim, command);
}

/* The new head, over the old body. */
static void store_again(struct run *run, const struct command *command)
{
    struct stored_value old = run->slot->value;
    store(run, command);
    struct stored_value *value = &run->slot->value;
    value->absent = old.absent;
    value->meta = old.meta;
    value->damaged = old.damaged;
    value->key = old.key;
    value->version = old.version;
    run->sim->seen[SEEN_TOUCHED]++;
    keep_check_touched(run->sim, command, &old);
}

static bool is_awaited(const struct run *run, const struct command *command)
{
    bool tells = command->action.shares || (run->sim->params.pushes && !run->slot->waiting.quiet);
    return tells && is_waited_for(run, command);
}

/* What fill and touch have in common. */
static void finish_store(struct run *run, const struct command *command, struct redis_answer *out)
{
    bool stores = may_write(run, true);
    if (run->sim->redis.readonly)
        return; /* the deletions raise the error */
    run->refused = false;
    if (stores && command->action.kind == CORE_TOUCH)
        store_again(run, command);
    else if (stores)
        store(run, command);
    out->pushed = stores && is_awaited(run, command);
    out->value = run->slot->value;
    if (run->slot->lease.there)
        end_lease(run->sim, run->key, LEASE_FILLED, command->token);
    run->slot->failure.there = run->slot->waiting.there = false;
    out->published = true;
    out->code = stores ? 1 : -1;
}

/* Without the lease: have I stored it already? */
static int64_t lost_or_mine(struct run *run, const struct command *command)
{
    const struct stored_value *value = &run->slot->value;
    bool mine = value->there && memcmp(value->filler, command->token, TOKEN_UUID_BYTES) == 0;
    return mine && may_write(run, false) ? 2 : 0;
}

static void fill(struct run *run, const struct command *command, struct redis_answer *out)
{
    if (holds(run, command) || run->sim->mutant == MUTANT_FILL_UNFENCED)
        finish_store(run, command, out);
    else
        out->code = lost_or_mine(run, command);
}

static void touch(struct run *run, const struct command *command, struct redis_answer *out)
{
    const struct stored_value *value = &run->slot->value;
    bool is_it = value->there && strcmp(value->filler, command->wanted) == 0;
    if (!holds(run, command) && run->sim->mutant != MUTANT_TOUCH_UNFENCED)
        out->code = lost_or_mine(run, command);
    else if (is_it)
        finish_store(run, command, out);
    else
        out->code = -2;
    run->sim->seen[SEEN_GONE] += out->code == -2;
}

static void share(struct run *run, const struct command *command, struct redis_answer *out)
{
    out->value = entry_of(run, command);
    out->value.shared = true;
    keep_check_shared(run->sim, command);
}

static void release(struct run *run, const struct command *command, struct redis_answer *out)
{
    const struct core_action *action = &command->action;
    bool any = run->sim->mutant == MUTANT_RELEASE_ANY && run->slot->lease.there;
    if ((!holds(run, command) && !any) || !may_write(run, false))
        return;
    end_lease(run->sim, run->key, LEASE_RELEASED, command->token);
    out->pushed = action->shares && is_awaited(run, command);
    if (out->pushed)
        share(run, command, out);
    run->slot->waiting.there = false;
    if (action->abandoned_ms > 0)
        run->slot->waiting = (struct stored_waiting){
            .there = true,
            .tag = ABANDONED_MARK,
            .expires_ms = redis_now_ms(run->sim) + action->abandoned_ms,
        };
    if ((action->too_big || action->failure != GUARD_FAILURE_NONE) &&
        run->sim->mutant != MUTANT_NO_FAILURE_LEASE)
        run->slot->failure = (struct stored_failure){
            .there = true,
            .too_big = action->too_big,
            .failure = action->failure,
            .load = action->load,
            .own_ms = action->failure_ms,
            .expires_ms = redis_now_ms(run->sim) + action->failure_ms,
        };
    out->published = true;
    out->code = 1;
}

static void invalidate_tag(struct run *run, const struct command *command, struct redis_answer *out)
{
    run->refused = !tags_invalidate(run->sim, command);
    out->code = 1;
    out->published = out->gone = !run->refused;
}

/* It is stale from now on, for no longer than its own stale time; without one it goes. */
static void make_stale(const struct run *run)
{
    struct stored_value *value = &run->slot->value;
    uint64_t limit_ms = run->sim->redis.max_value_ms;
    limit_ms = value->stale_ms < limit_ms ? value->stale_ms : limit_ms;
    if (limit_ms < 1)
        value->there = false;
    else if (ttl_ms(run->sim, value->expires_ms) > (int64_t)limit_ms)
        value->expires_ms = redis_now_ms(run->sim) + (int64_t)limit_ms;
}

static void invalidate(struct run *run, const struct command *command, struct redis_answer *out)
{
    struct slot *slot = run->slot;
    if (!may_write(run, false))
        return;
    out->code = slot->value.there + 2 * slot->lease.there;
    if (command->action.expires) {
        make_stale(run);
        slot->value.expires_ms += run->sim->mutant == MUTANT_EXPIRE_STAYS_FRESH ? 1000 : 0;
    } else {
        slot->value.there = slot->value.there && run->sim->mutant == MUTANT_STALE_STAYS;
        slot->value.expires_ms = redis_now_ms(run->sim) + (int64_t)slot->value.stale_ms;
    }
    slot->failure.there = slot->waiting.there = false;
    bool keeps = run->sim->mutant == MUTANT_INVALIDATE_KEEPS ||
                 (command->action.expires && run->sim->mutant == MUTANT_EXPIRE_KEEPS);
    if (slot->lease.there && !keeps)
        end_lease(run->sim, run->key, LEASE_INVALIDATED, NULL);
    run->sim->row[run->key].failed_us = 0;
    run->sim->row[run->key].changes++;
    out->published = out->gone = true;
}

void redis_execute(struct sim *sim, const struct command *command, struct redis_answer *out)
{
    struct run run = {.sim = sim, .slot = &sim->redis.slot[command->key], .key = command->key};
    *out = (struct redis_answer){.error = false};
    redis_expire(sim, command->key);
    switch (command->action.kind) {
    case CORE_ACQUIRE:
        acquire(&run, command, out);
        break;
    case CORE_RENEW:
        renew(&run, command, out);
        break;
    case CORE_FILL:
        fill(&run, command, out);
        break;
    case CORE_TOUCH:
        touch(&run, command, out);
        break;
    case CORE_RELEASE:
        release(&run, command, out);
        break;
    case CORE_INVALIDATE:
        if (command->action.of_tag)
            invalidate_tag(&run, command, out);
        else
            invalidate(&run, command, out);
        break;
    case CORE_PERMIT_ACQUIRE:
    case CORE_PERMIT_RENEW:
    case CORE_PERMIT_RELEASE:
        permits_execute(sim, command, out);
        return;
    case CORE_LOAD:
    case CORE_CANCEL:
    case CORE_FORGET:
        break;
    }
    out->error = run.refused;
    const struct stored_lease *lease = &run.slot->lease;
    bool clamped = command->action.kind == CORE_ACQUIRE && !run.refused;
    if (clamped && lease->there && ttl_ms(sim, lease->expires_ms) > lease_ms_of(lease->token))
        sim_fail(sim, "an acquire left a lease of k%u with %lld ms to live", command->key,
                 (long long)ttl_ms(sim, lease->expires_ms));
}

void redis_delete(struct sim *sim, struct command *command, bool value)
{
    struct run run = {.sim = sim, .slot = &sim->redis.slot[command->key], .key = command->key};
    struct slot *slot = run.slot;
    redis_expire(sim, command->key);
    command->answer.error = command->answer.error || !may_write(&run, false);
    if (run.refused)
        return;
    if (value) {
        command->answer.code += slot->value.there;
        slot->value.there = false;
        sim->row[command->key].changes++;
        sim->row[command->key].failed_us = 0;
    } else if (slot->lease.there) {
        command->answer.code += 2;
        end_lease(sim, command->key, LEASE_INVALIDATED, NULL);
    }
    sim->seen[SEEN_DELETED] += value;
    command->answer.published = command->answer.gone = !command->answer.error;
}

/* Of the key and the tags. */
static void swap_with_former(struct sim *sim, uint32_t key)
{
    struct slot slot = sim->redis.slot[key];
    struct stored_tags tags = sim->redis.tags;
    sim->redis.slot[key] = sim->redis.former[key];
    sim->redis.former[key] = slot;
    sim->redis.tags = sim->redis.tags_former;
    sim->redis.tags_former = tags;
    sim->redis.at_former = !sim->redis.at_former;
}

bool redis_former_serves(const struct sim *sim, uint32_t shard)
{
    return sim->redis.server[shard].former == FORMER_MASTER;
}

void redis_execute_at_former(struct sim *sim, struct command *command, bool companion)
{
    bool readonly = sim->redis.readonly;
    uint32_t shard = companion ? shard_of_tags(sim) : command->shard;
    swap_with_former(sim, command->key);
    sim->redis.readonly = readonly || !redis_former_serves(sim, shard);
    if (companion)
        tags_run_companion(sim, command);
    else
        redis_execute(sim, command, &command->answer);
    sim->redis.readonly = readonly;
    swap_with_former(sim, command->key);
    sim->seen[SEEN_FENCED] += !companion && command->answer.error;
}
