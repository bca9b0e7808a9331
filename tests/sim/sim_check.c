/* SPDX-License-Identifier: MIT */
/*
 * sim_check.c - the oracle. It knows what the processes cannot: every version, every lease, every load.
 *
 * Freshness    no answer is older than an invalidation, of its key or a tag, that was confirmed before its request
 *              began; a failover may lose one, and then lowers what may be expected of that key. While two masters
 *              answer, one that is still with the former may get what was good when they began, for a second and
 *              the limit of a command; what the former confirms holds when it has been said again
 * One load     while a load runs under a lease that nothing voided, no other load begins under a lease; none
 *              begins over a fresh value but the early refresh of that very value, or of one that was found before
 *              another master kept the epochs of its tags; one process never runs two loads of a key that it still
 *              wants
 * Bulkhead     a process never runs more loads than it has workers
 * Shares       a request for one key is refused only when such requests hold all places of their share, and exactly
 *              when as many wait as may; a request for many likewise
 * Queues       after every event each load that waits for a worker is in the queue of those that its waiters put it
 *              among
 * Stale        no stale answer is older than fresh and stale time together, none waits beyond its soft limit, and
 *              none is given where the policy accepts none; and each leads to a load
 * Pushed       an entry that came with a message is no older than it says, and still fresh; but for one whose lease a
 *              failover has brought back
 * Once         an accepted get is answered once, by its deadline, with a value of its own key
 * Stores       a fill or touch stores what the load under its lease has read, and the lease stands
 * Leases       none lives longer than its TTL, however Redis's clock is stepped
 * Calm         without faults no request times out, is shed or gets a failure that no load had, and a failed load
 *              is not tried again within its window
 * Rest         when the faults are over, everything ends: no request, load, lease or flight is left
 */
#include "guard/core/flight.h"
#include "sim.h"
#include <stdio.h>
#include <string.h>

/* ---- leases ---- */

void check_lease_gone(struct sim *sim, uint32_t key, const char *token, enum lease_end end, const char *by)
{
    bool foreign = by != NULL && strcmp(by, token) != 0;
    if (end == LEASE_EXPIRED && sim_is_calm(sim))
        sim_fail(sim, "a lease of k%u ran out although nothing is wrong", key);
    if (foreign)
        return; /* no process may do that: the load goes on counting */
    for (uint32_t i = sim->loads; i > 0; i--) {
        struct load_model *load = &sim->load[i - 1];
        if (load->ended || strcmp(load->token, token) != 0)
            continue;
        load->voided = true;
        if (end == LEASE_SUPERSEDED && !load->cancelled)
            sim_fail(sim, "p%u takes the lease of k%u from its own load", load->process, key);
    }
}

/* The reply to a renewal has been that the lease is lost. */
void check_lost(struct sim *sim, const struct command *renewal)
{
    uint64_t half_us = (uint64_t)sim->params.policy.load_limit_ms * 500;
    for (uint32_t i = sim->loads; i > 0; i--) {
        const struct load_model *load = &sim->load[i - 1];
        bool its_own = renewal - sim->command >= load->commands_before;
        bool concerned = its_own && strcmp(load->token, renewal->token) == 0 && load->leased && !load->ended;
        if (concerned && !load->cancelled && sim->course.now_us + half_us + 5000 < load->deadline_us)
            sim_fail(sim, "p%u goes on with a load of k%u whose lease is lost", load->process, load->key);
    }
}

void check_buried(struct sim *sim, const struct process *process)
{
    for (uint32_t i = 0; i < sim->commands && sim->params.calm; i++) {
        const struct command *command = &sim->command[i];
        const struct stored_lease *lease = &sim->redis.slot[command->key].lease;
        bool ours = command->life == process->life && command->granted;
        if (ours && lease->there && strcmp(lease->token, command->token) == 0)
            sim_fail(sim, "p%u is closed and leaves a lease of k%u", process->index, command->key);
    }
}

void check_hold(struct sim *sim, const struct command *renewal)
{
    const struct process *process = &sim->process[renewal->process];
    if (process->stalled_until_us + 5000 > sim->course.now_us)
        return; /* it has only just come back: what it finds first may be a message */
    for (uint32_t i = sim->commands; i > 0; i--) {
        const struct command *acquire = &sim->command[i - 1];
        bool granted = acquire->action.kind == CORE_ACQUIRE && strcmp(acquire->token, renewal->token) == 0;
        if (!granted)
            continue;
        if (sim->course.now_us > acquire->sent_us + (uint64_t)sim->params.policy.max_hold_ms * 1000 + 5000)
            sim_fail(sim, "p%u renews a lease of k%u beyond its hold limit", renewal->process, renewal->key);
        return;
    }
    sim_fail(sim, "p%u renews a lease of k%u that it never asked for", renewal->process, renewal->key);
}

uint32_t check_version_loaded(const struct sim *sim, const char *token)
{
    for (uint32_t i = sim->loads; i > 0; i--)
        if (strcmp(sim->load[i - 1].token, token) == 0 && sim->load[i - 1].leased)
            return sim->load[i - 1].version;
    return 0;
}

void check_stored(struct sim *sim, const struct command *command, bool fenced)
{
    const struct stored_value *value = &sim->redis.slot[command->key].value;
    uint32_t loaded = check_version_loaded(sim, command->token);
    if (value->tagged && value->born.era == 0)
        sim_fail(sim, "p%u stores k%u with tags, and nobody knows when it was born", command->process,
                 command->key);
    if (!fenced)
        sim_fail(sim, "p%u stores v%u of k%u without the lease", command->process, value->version,
                 command->key);
    else if (value->version != loaded)
        sim_fail(sim, "p%u stores v%u of k%u, but its load has read v%u", command->process, value->version,
                 command->key, loaded);
}

/* ---- what was invalidated ---- */

static void lower(uint32_t *floor, uint32_t to)
{
    if (*floor > to)
        *floor = to;
}

static void lower_floor(struct sim *sim, uint32_t key, uint32_t to)
{
    struct row *row = &sim->row[key];
    row->floor = to;
    lower(&row->floor_by_key, to);
    lower(&row->floor_by_tag, to);
    sim_near_failover(sim, key, to);
    for (uint32_t i = 0; i < sim->requests; i++)
        if ((sim->request[i].open || sim->request[i].looking) && sim->request[i].key == key)
            lower(&sim->request[i].floor, to);
}

void raise_floor(struct sim *sim, struct row *row, uint32_t version, bool by_tag)
{
    uint32_t *floor = by_tag ? &row->floor_by_tag : &row->floor_by_key;
    *floor = version > *floor ? version : *floor;
    for (; row->floor < version; row->confirmed_us[row->floor] = sim->course.now_us)
        row->floor++;
}

void check_confirmed(struct sim *sim, const struct command *command)
{
    uint32_t what = command->action.of_tag ? SIM_KEYS + command->key : command->key;
    struct said_model *said = &sim->process[command->process].said[what];
    said->at_former = command->at_former;
    if (!sim->params.replays || command->at_former)
        return;
    sim->seen[SEEN_REPLAYED] += said->owed;
    said->replied_by = command->shard;
    said->shard = said->owed ? command->shard : said->shard;
    said->owed = false;
    for (uint32_t key = 0; key < SIM_KEYS; key++) {
        bool touched = command->action.of_tag ? tags_has(key, command->key) : key == command->key;
        uint32_t version = command->action.of_tag ? command->sent_versions[key] : command->version;
        if (touched && !command->action.expires)
            raise_floor(sim, &sim->row[key], version, command->action.of_tag);
    }
}

/* A key that has left before is none of its losses. */
static bool has_to_say_again(const struct sim *sim, const struct said_model *said, uint32_t what,
                             uint32_t shard)
{
    bool was_there = what >= SIM_KEYS || shard_of_key(sim, what) == shard;
    return said->confirmed && was_there && said->shard == shard && said->replied_by == shard;
}

void check_split(struct sim *sim, uint32_t shard)
{
    enum { HEARD_US = 1000000 };
    sim->redis.server[shard].excused_until_us =
        sim->course.now_us + HEARD_US + (uint64_t)sim->params.redis_limit_ms * 1000;
    for (uint32_t key = 0; key < SIM_KEYS; key++)
        sim->redis.server[shard].split_floor[key] = sim->row[key].floor;
}

/* As it was, for a process that is with the former one. */
static uint32_t floor_at(const struct sim *sim, const struct process *process, uint32_t key, uint32_t shard)
{
    const struct link_model *link = &process->link[shard];
    const struct server_model *server = &sim->redis.server[shard];
    bool excused = (link->at_former || link->loop_at_former) && sim->course.now_us < server->excused_until_us;
    return excused ? server->split_floor[key] : UINT32_MAX;
}

uint32_t check_floor(struct sim *sim, const struct process *process, uint32_t key)
{
    uint32_t floor = sim->row[key].floor, least = floor;
    lower(&least, floor_at(sim, process, key, process->map[key]));
    if (sim->params.tagged)
        lower(&least, floor_at(sim, process, key, shard_of_tags(sim)));
    sim->seen[SEEN_EXCUSED] += least < floor;
    return least;
}

void check_reign(struct sim *sim, uint32_t shard)
{
    for (uint32_t i = 0; i < sim->params.processes; i++) {
        struct said_model *said = sim->process[i].said;
        for (uint32_t what = 0; what < SIM_KEYS + SIM_TAGS; what++)
            said[what].owed |= has_to_say_again(sim, &said[what], what, shard);
    }
}

/* It has tried often enough. */
static bool has_dropped(const struct process *process)
{
    struct guard_stats stats;
    core_stats(process->core, &stats);
    return stats.replay_dropped > 0;
}

static void check_said_again(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->params.processes; i++)
        for (uint32_t what = 0; what < SIM_KEYS + SIM_TAGS; what++)
            if (sim->process[i].said[what].owed && !has_dropped(&sim->process[i]))
                sim_fail(sim, "p%u has not told another master what it had confirmed about %s%u", i,
                         what < SIM_KEYS ? "k" : "t", what < SIM_KEYS ? what : what - SIM_KEYS);
}

/* The replica may bring back values older than what was promised, and leases whose fills are. */
void check_failover(struct sim *sim, uint32_t key)
{
    const struct slot *slot = &sim->redis.slot[key];
    uint32_t oldest = sim->row[key].floor;
    if (slot->value.there)
        lower(&oldest, slot->value.version);
    for (uint32_t i = 0; slot->lease.there && i < sim->loads; i++)
        if (strcmp(sim->load[i].token, slot->lease.token) == 0 && sim->load[i].read)
            lower(&oldest, sim->load[i].version);
    sim->row[key].failed_us = 0;
    lower(&sim->row[key].floor_by_key, oldest); /* even if a tag hides that, until its epoch is lost, too */
    if (shard_of_key(sim, key) != shard_of_tags(sim) && oldest < sim->row[key].floor_by_tag)
        oldest = sim->row[key].floor_by_tag; /* which another master keeps */
    lower_floor(sim, key, oldest);
}

/* What was invalidated by a tag, and lost with its epoch. A value that was loaded since is as good as before. */
void check_tags_failover(struct sim *sim)
{
    for (uint32_t key = 0; key < SIM_KEYS; key++) {
        struct row *row = &sim->row[key];
        if (shard_of_key(sim, key) == shard_of_tags(sim))
            continue;
        sim->seen[SEEN_TAGS_LOST] += row->floor_by_tag > sim->redis.tags.told[key];
        lower(&row->floor_by_tag, sim->redis.tags.told[key]);
        uint32_t floor = row->floor_by_key > row->floor_by_tag ? row->floor_by_key : row->floor_by_tag;
        lower_floor(sim, key, floor < row->floor ? floor : row->floor);
    }
}

/* ---- answers ---- */

void check_request(struct sim *sim, struct request *request)
{
    enum { LASTS_MS = 100 };
    const struct stored_value *value = &sim->redis.slot[request->key].value;
    redis_expire(sim, request->key);
    request->start_us = sim->course.now_us;
    request->changes = sim->row[request->key].changes;
    request->found = value->there && !value->mark && value->expires_ms > redis_now_ms(sim) + LASTS_MS &&
                     tags_good_now(sim, request->key) && keep_is_of_use(sim, request->process, value);
}

/* Its process was busy with a load that it could not yet know to be voided, or that it began without Redis. */
static bool was_misled(const struct sim *sim, const struct request *request)
{
    for (uint32_t i = 0; i < sim->loads; i++) {
        const struct load_model *load = &sim->load[i];
        bool of_ours = load->life == request->life && load->key == request->key;
        of_ours = of_ours && (load->voided || !load->leased);
        if (of_ours && (!load->ended || load->ended_us >= request->start_us))
            return true;
    }
    return false;
}

/* A request that finds a value, fresh or stale, never waits for a load, but for a lookup under way and its own. */
static void check_prompt(struct sim *sim, const struct request *request)
{
    enum { SLOWED_US = 80000 }; /* a flood of messages is not obeyed at once */
    uint64_t prompt_us = (uint64_t)sim->params.latency_us * (sim->params.tagged ? 10 : 5) + SLOWED_US;
    prompt_us += (uint64_t)sim->params.policy.soft_ms * 1000;
    redis_expire(sim, request->key);
    bool found_all_along = request->found && request->changes == sim->row[request->key].changes;
    bool heard = !sim->params.enabled[FAULT_MESSAGE_LOST] && !sim->params.enabled[FAULT_SUBSCRIPTION];
    bool applies = sim_is_calm(sim) && sim->params.mode == GUARD_MODE_FLEET && heard;
    if (applies && found_all_along && !was_misled(sim, request) &&
        sim->course.now_us > request->start_us + prompt_us)
        sim_fail(sim, "#%u of k%u waited %llu us although a value was there",
                 (uint32_t)(request - sim->request), request->key,
                 (unsigned long long)(sim->course.now_us - request->start_us));
}

static void check_stale(struct sim *sim, const struct request *request)
{
    const struct guard_result *result = &request->waiter.result;
    const struct guard_policy *policy = &sim->params.policy;
    uint32_t index = (uint32_t)(request - sim->request);
    uint64_t waited_us = sim->course.now_us - request->start_us;
    if (result->source != GUARD_FROM_STALE)
        return;
    if (keep_check_stale(sim, request))
        return;
    sim->seen[SEEN_STALE]++;
    sim->seen[SEEN_SOFT] += policy->soft_ms > 0 && waited_us >= (uint64_t)policy->soft_ms * 1000;
    if (policy->stale_ms == 0)
        sim_fail(sim, "#%u of k%u got a stale value, which it does not accept", index, request->key);
    if (result->age_ms > policy->fresh_ms + policy->stale_ms)
        sim_fail(sim, "#%u of k%u got a value that is %u ms old", index, request->key, result->age_ms);
    if (result->left_ms != 0)
        sim_fail(sim, "#%u of k%u got a stale value that is fresh for %u ms", index, request->key,
                 result->left_ms);
}

static void check_pushed(struct sim *sim, const struct request *request)
{
    const struct guard_result *result = &request->waiter.result;
    const struct stored_value *entry = sim->pushed;
    bool of_it = entry != NULL && entry->key == request->key && result->source == GUARD_FROM_FLEET;
    if (!of_it)
        return;
    uint32_t index = (uint32_t)(request - sim->request);
    uint64_t age_us = sim->course.now_us - entry->stored_us;
    sim->seen[SEEN_PUSHED]++;
    if (entry->shared)
        return; /* keep_check_answer() */
    if (strcmp(entry->filler, sim->row[entry->key].lease_back) == 0)
        return; /* a waiter may have found that lease after its fill: flight_pushed() */
    if ((uint64_t)result->age_ms * 1000 < age_us)
        sim_fail(sim, "#%u of k%u got a value of %llu us as one of %u ms", index, request->key,
                 (unsigned long long)age_us, result->age_ms);
    if (result->left_ms == 0 ||
        age_us + (uint64_t)result->left_ms * 1000 > (entry->px_ms - entry->stale_ms) * 1000)
        sim_fail(sim, "#%u of k%u got a value of %llu us as one that is fresh for %u ms more", index,
                 request->key, (unsigned long long)age_us, result->left_ms);
}

/* A load runs, or its fill may still be on its way. */
static bool is_loaded(const struct sim *sim, uint32_t key)
{
    enum { FILL_US = 100000 };
    for (uint32_t i = 0; i < sim->loads; i++) {
        const struct load_model *load = &sim->load[i];
        if (load->key == key && (!load->ended || load->ended_us + FILL_US > sim->course.now_us))
            return true;
    }
    return false;
}

/* The process that has its lease has no worker for it: where loads pass, each request may take one. */
static bool is_queued(const struct sim *sim, uint32_t key)
{
    const struct stored_lease *lease = &sim->redis.slot[key].lease;
    for (uint32_t i = lease->there ? sim->commands : 0; i > 0; i--) {
        const struct command *command = &sim->command[i - 1];
        const struct process *process = &sim->process[command->process];
        if (command->granted && strcmp(command->token, lease->token) == 0)
            return !defer_has_place(sim, process) || !defer_has_thread(sim, process);
    }
    return false;
}

enum { SOON_US = 200000 }; /* a flight that rests, and some round trips */

/* Its new row is too big, which is remembered for a time. An expiry leaves the stale value beside that. */
static bool was_too_big(const struct sim *sim, uint32_t key)
{
    uint64_t window_us = (uint64_t)sim->params.policy.failure_ms * 1000 + SOON_US;
    for (uint32_t i = 0; i < sim->loads; i++) {
        const struct load_model *load = &sim->load[i];
        bool recent = load->ended && sim->course.now_us < load->ended_us + window_us;
        if (load->key == key && load->read && recent && sim->row[key].too_big[load->version])
            return true;
    }
    return false;
}

/* What stands there is stale: not so if the refresh has overtaken the answer. */
static bool is_stale(struct sim *sim, uint32_t key)
{
    const struct stored_value *value = &sim->redis.slot[key].value;
    redis_expire(sim, key);
    return value->there && value->expires_ms - redis_now_ms(sim) <= (int64_t)value->stale_ms;
}

/* What holds up a refresh: a load of the key, room for one, or a row that cannot be stored. */
static bool is_held_up(const struct sim *sim, uint32_t key)
{
    return is_loaded(sim, key) || is_queued(sim, key) || was_too_big(sim, key);
}

/* A stale answer leads to a load, soon, here or elsewhere. While that is held up it leads to none, and it need not
 * lead to one later: the first answer after that must. */
static void check_refreshed(struct sim *sim, const struct request *request)
{
    struct row *row = &sim->row[request->key];
    bool disturbed = /* or it waits for a permit */
        sim->hit[FAULT_LOAD_FAILS] + sim->hit[FAULT_SHUTDOWN] + sim->hit[FAULT_REQUEST_LEAVES] > 0 ||
        sim->params.permits > 0 || keep_may_not_store(sim);
    if (request->waiter.result.source != GUARD_FROM_STALE || !sim->params.calm || disturbed ||
        !is_stale(sim, request->key))
        return;
    if (is_held_up(sim, request->key)) {
        row->stale_us = 0;
    } else if (row->stale_us == 0 || row->stale_changes != row->changes || row->load_us >= row->stale_us) {
        row->stale_us = sim->course.now_us;
        row->stale_changes = row->changes;
    } else if (sim->course.now_us > row->stale_us + SOON_US) {
        sim_fail(sim, "k%u has been answered stale for %llu us, and nobody loads it", request->key,
                 (unsigned long long)(sim->course.now_us - row->stale_us));
    }
}

static bool was_absent(const struct row *row, uint32_t floor)
{
    for (uint32_t version = floor; version <= row->version; version++)
        if (row->absent[version])
            return true;
    return false;
}

static void check_value(struct sim *sim, const struct request *request)
{
    const struct row *row = &sim->row[request->key];
    uint32_t key = 0, version = 0, index = (uint32_t)(request - sim->request);
    const struct guard_value *value = request->waiter.result.value;
    if (value == NULL || !body_read(value->body, &key, &version))
        sim_fail(sim, "#%u of k%u was answered without a sound value", index, request->key);
    else if (key != request->key)
        sim_fail(sim, "#%u of k%u got a value of k%u", index, request->key, key);
    else if (version > row->version || row->absent[version])
        sim_fail(sim, "#%u of k%u got v%u, which never was", index, request->key, version);
    else if (version < request->floor)
        sim_fail(sim, "#%u of k%u got v%u, but v%u was invalidated in before it began", index, request->key,
                 version, request->floor);
    else if (request->probe && version != row->version)
        sim_fail(sim, "probe #%u of k%u got v%u instead of v%u", index, request->key, version, row->version);
}

static void check_in_time(struct sim *sim, const struct request *request)
{
    const struct process *process = &sim->process[request->process];
    uint64_t latest_us = request->deadline_us;
    if (process->stalled_until_us + 1000 > latest_us)
        latest_us = process->stalled_until_us + 1000;
    if (sim->course.now_us > latest_us + sim->params.tick_late_us + 1)
        sim_fail(sim, "#%u of k%u is answered %llu us after its deadline", (uint32_t)(request - sim->request),
                 request->key, (unsigned long long)(sim->course.now_us - request->deadline_us));
}

static bool may_happen_in_calm(const struct sim *sim, const struct request *request)
{
    const uint64_t *hit = sim->hit;
    bool load_faults = hit[FAULT_LOAD_FAILS] + hit[FAULT_LOAD_SLOW] + hit[FAULT_LOAD_HANGS] > 0;
    switch (request->waiter.result.status) {
    case GUARD_OK:
    case GUARD_ABSENT:
    case GUARD_CLOSING:
        return true;
    case GUARD_CANCELLED:
        return hit[FAULT_REQUEST_LEAVES] > 0;
    case GUARD_FAILED:
    case GUARD_TIMEOUT:
    case GUARD_SHED: /* a refresh gives way, also to users of other processes; where loads pass, requests queue */
        return load_faults || sim->wishes.may[WISH_PASS] || request->waiter.refreshes;
    case GUARD_UNKNOWN:
    case GUARD_INVALID:
    case GUARD_NO_MEMORY:
    case GUARD_MISS:
    case GUARD_NOW:
        break;
    }
    return false;
}

/* ---- shares ---- */

static bool is_of_share(const struct sim *sim, uint32_t index, const struct request *request)
{
    const struct request *other = &sim->request[index];
    return other != request && other->life == request->life &&
           other->waiter.of_many == request->waiter.of_many;
}

void check_entered(struct sim *sim, const struct request *request, bool refused)
{
    uint32_t waiters = 0;
    if (!refused && sim->requests <= sim->params.max_waiters)
        return;
    for (uint32_t i = 0; i < sim->requests; i++)
        waiters += is_of_share(sim, i, request) && sim->request[i].open;
    if (refused != (waiters >= sim->params.max_waiters))
        sim_fail(sim, "p%u %s #%u beside %u who wait%s", request->process, refused ? "refuses" : "accepts",
                 (uint32_t)(request - sim->request), waiters, request->waiter.of_many ? " together" : "");
}

/* At most so many, in parts of which `whole` are one: of waiters; of loads, which may have outlived their requests
 * and may be of either share if they are in no batch; and of lookups, likewise. Only where each request has its own
 * flight. */
static uint32_t count_places(const struct sim *sim, const struct request *request, uint32_t whole)
{
    uint32_t parts = 0;
    for (uint32_t i = 0; i < sim->requests; i++)
        parts += is_of_share(sim, i, request) && !sim->request[i].waiter.refreshes &&
                 (sim->request[i].open || sim->request[i].over_us == sim->course.now_us);
    for (uint32_t i = 0; i < sim->loads; i++) {
        const struct load_model *load = &sim->load[i];
        bool counts = load->life == request->life && (load->batch == 0 || request->waiter.of_many);
        parts += counts && (!load->ended || load->ended_us == sim->course.now_us) ? whole : 0;
    }
    for (uint32_t i = 0; i < sim->commands; i++) {
        const struct command *command = &sim->command[i];
        parts += command->life == request->life && command->action.kind == CORE_ACQUIRE && !command->answered
                     ? whole
                     : 0;
    }
    return parts;
}

static void check_shed(struct sim *sim, const struct request *request)
{
    const struct params *params = &sim->params;
    uint32_t whole = request->waiter.of_many ? params->policy.batch_max : 1;
    uint32_t places = (params->workers + params->queue) * whole;
    bool applies = request->waiter.result.status == GUARD_SHED && params->mode == GUARD_MODE_OFF;
    bool queued_for_long =
        sim->course.now_us >= request->start_us + (uint64_t)params->policy.max_hold_ms * 1000;
    if (!applies || queued_for_long || request->waiter.refreshes ||
        sim->wishes.may[WISH_PASS]) /* which queue in half of them */
        return;
    uint32_t used = count_places(sim, request, whole);
    sim->seen[request->waiter.of_many ? SEEN_SHED_TOGETHER : SEEN_SHED]++;
    if (used < places)
        sim_fail(sim, "#%u%s is shed, and of %u parts of places of its share %u are used at most",
                 (uint32_t)(request - sim->request), request->waiter.of_many ? " of many" : "", places, used);
}

/* A query that failed as one says nothing about any of its keys. */
static void check_failed_alone(struct sim *sim, const struct request *request)
{
    const struct guard_result *result = &request->waiter.result;
    bool of_load = result->status == GUARD_FAILED && result->source != GUARD_FROM_CACHE && result->load != 0;
    const struct load_model *load =
        of_load ? process_load_of(sim, &sim->process[request->process], result->load) : NULL;
    if (load != NULL && load->as_one && !load->cancelled)
        sim_fail(sim, "#%u of k%u is told of the failure of a query with other keys",
                 (uint32_t)(request - sim->request), request->key);
}

void check_answer(struct sim *sim, const struct request *request)
{
    enum guard_status status = request->waiter.result.status;
    uint32_t index = (uint32_t)(request - sim->request);
    sim->answers[status]++;
    course_note(&sim->course, (uint64_t)index << 32 | (uint64_t)status << 16 | request->waiter.result.source);
    course_note(&sim->course, (uint64_t)request->waiter.result.age_ms << 32 | request->waiter.result.left_ms);
    sim_trace(sim, "p%u  answer #%u k%u: %s from %s %s", request->process, index, request->key,
              status_names[status], source_names[request->waiter.result.source],
              request->waiter.result.value != NULL ? request->waiter.result.value->body : "");
    if (request->answers != 1)
        sim_fail(sim, "#%u is answered %u times", index, request->answers);
    check_in_time(sim, request);
    check_prompt(sim, request);
    check_stale(sim, request);
    check_pushed(sim, request);
    check_refreshed(sim, request);
    check_shed(sim, request);
    check_failed_alone(sim, request);
    if (status == GUARD_OK)
        check_value(sim, request);
    if (status == GUARD_ABSENT && !was_absent(&sim->row[request->key], request->floor))
        sim_fail(sim, "#%u of k%u got absent, which was not so since v%u", index, request->key,
                 request->floor);
    if (status == GUARD_TIMEOUT && sim->course.now_us < request->deadline_us)
        sim_fail(sim, "#%u timed out before its deadline", index);
    if (sim->params.calm && !may_happen_in_calm(sim, request))
        sim_fail(sim, "#%u of k%u: %s although nothing is wrong", index, request->key, status_names[status]);
    if (request->probe && status != GUARD_OK)
        sim_fail(sim, "probe #%u of k%u: %s", index, request->key, status_names[status]);
    wishes_check_answer(sim, request);
}

/* ---- loads ---- */

static bool runs(const struct load_model *load, const struct load_model *other)
{
    return other != load && other->key == load->key && !other->ended;
}

/* What brought its lease; NULL: nothing did. */
static const struct command *acquire_of(const struct sim *sim, const struct load_model *load)
{
    for (uint32_t i = sim->commands; i > 0; i--) {
        const struct command *command = &sim->command[i - 1];
        if (command->action.kind == CORE_ACQUIRE && strcmp(command->token, load->token) == 0)
            return command;
    }
    return NULL;
}

static void check_alone_in_process(struct sim *sim, const struct load_model *load)
{
    for (uint32_t i = 0; i < sim->loads; i++) {
        const struct load_model *other = &sim->load[i];
        bool apart = change_revalidates(load) != change_revalidates(other) || keep_may_pass(sim, load, other);
        if (runs(load, other) && other->life == load->life && !other->cancelled && !apart)
            sim_fail(sim, "p%u runs two loads of k%u at once", load->process, load->key);
    }
}

static void check_alone_in_fleet(struct sim *sim, const struct load_model *load)
{
    for (uint32_t i = 0; i < sim->loads; i++) {
        const struct load_model *other = &sim->load[i];
        if (runs(load, other) && other->leased && !other->voided)
            sim_fail(sim, "p%u and p%u load k%u at once, both under a lease that nothing voided",
                     other->process, load->process, load->key);
    }
}

/* The lease was granted for the early refresh of the value that stands there. */
static bool is_early(struct sim *sim, const struct load_model *load, const struct stored_value *value)
{
    const struct command *acquire = acquire_of(sim, load);
    bool early = acquire != NULL && acquire->action.lookup == LOOKUP_EARLY &&
                 strcmp(acquire->wanted, value->filler) == 0;
    sim->seen[SEEN_EARLY] += early;
    return early;
}

static bool is_store(const struct command *command)
{
    return command->action.kind == CORE_FILL || command->action.kind == CORE_TOUCH;
}

static bool share_tag(uint32_t key, uint32_t other)
{
    for (uint32_t tag = 0; tag < SIM_TAGS; tag++)
        if (tags_has(key, tag) && tags_has(other, tag))
            return true;
    return false;
}

/* Its process has found that value out of date: another master keeps the epochs of its tags, and was asked to, for
 * this entry or another, later than the value was stored. That may be until the load begins: neither the process nor
 * the master of the entry hears of it. */
static bool is_ahead_of_epochs(const struct sim *sim, const struct load_model *load,
                               const struct stored_value *value)
{
    const struct command *acquire = acquire_of(sim, load);
    bool found_old = acquire != NULL && strcmp(acquire->refused, value->filler) == 0;
    bool is_apart = false, is_kept_later = false;
    for (uint32_t i = 0; i < sim->commands && found_old; i++) {
        const struct command *command = &sim->command[i];
        if (!is_store(command))
            continue;
        is_apart |= command->apart && strncmp(command->token, value->filler, TOKEN_UUID_BYTES) == 0;
        is_kept_later |= share_tag(command->key, load->key) && command->tags_us > value->stored_us;
    }
    return is_apart && is_kept_later;
}

static void check_needed(struct sim *sim, const struct load_model *load)
{
    const struct stored_value *value = &sim->redis.slot[load->key].value;
    bool excused =
        sim->hit[FAULT_REDIS_FAILOVER] + sim->hit[FAULT_CLOCK_BACK] > 0 || !value->there || value->damaged;
    /* an entry that was out of date because an epoch was missing may be good again; or it is so at one of two
     * masters */
    excused = excused || (value->tagged && sim->hit[FAULT_EPOCH_GONE] + sim->hit[FAULT_CLOCK_GONE] +
                                                   sim->hit[FAULT_OOM] + sim->hit[FAULT_REDIS_EMPTY] +
                                                   sim->hit[FAULT_TWO_UNFENCED] >
                                               0);
    excused = excused || !tags_good_now(sim, load->key) || is_ahead_of_epochs(sim, load, value) ||
              !keep_is_of_use(sim, load->process, value);
    bool is_fresh = value->there && value->expires_ms - redis_now_ms(sim) > (int64_t)value->stale_ms;
    if (is_fresh && !is_early(sim, load, value) && !excused && !change_revalidates(load))
        sim_fail(sim, "p%u loads k%u although v%u is there and fresh", load->process, load->key,
                 value->version);
}

/* One attempt per failure window: jitter shortens it, the release that opens it may take its time. */
static void check_not_in_window(struct sim *sim, const struct load_model *load)
{
    const struct guard_policy *policy = &sim->params.policy;
    uint64_t window_us = (uint64_t)policy->failure_ms * (100 - policy->jitter_percent) * 10;
    uint64_t failed_us = sim->row[load->key].failed_us;
    if (sim->params.calm && failed_us != 0 && sim->course.now_us < failed_us + window_us)
        sim_fail(sim, "p%u loads k%u again within its failure window", load->process, load->key);
}

void check_load_starts(struct sim *sim, struct load_model *load)
{
    const struct stored_lease *lease = &sim->redis.slot[load->key].lease;
    sim->row[load->key].load_us = sim->course.now_us;
    if (sim->process[load->process].running > sim->params.workers)
        sim_fail(sim, "p%u runs more loads than it has workers", load->process);
    wishes_check_load(sim, load);
    outage_check_load(sim, load);
    if (sim->params.mode != GUARD_MODE_OFF)
        check_alone_in_process(sim, load);
    if (!load->leased)
        return;
    redis_expire(sim, load->key);
    load->voided = !lease->there || strcmp(lease->token, load->token) != 0;
    if (load->voided)
        return;
    check_alone_in_fleet(sim, load);
    check_needed(sim, load);
    check_not_in_window(sim, load);
}

void check_load_failed(struct sim *sim, const struct load_model *load)
{
    redis_expire(sim, load->key);
    if (load->leased && !load->voided && !load->cancelled)
        sim->row[load->key].failed_us = sim->course.now_us;
}

void check_queues(struct sim *sim, const struct process *process)
{
    const struct loads *loads = &process->core->loads;
    for (int queue = QUEUE_USERS; queue < QUEUES; queue++) {
        for (int lane = 0; lane < LANES; lane++) {
            const struct flight *flight = loads->queues[queue][lane];
            for (; flight != NULL; flight = flight->queue_next)
                if (loads_is_for_user(flight) != (queue == QUEUE_USERS))
                    sim_fail(sim, "p%u: a load waits among %s, and its waiters say otherwise", process->index,
                             queue == QUEUE_USERS ? "users" : "refreshes");
        }
    }
}

/* ---- the end ---- */

void check_stats(struct sim *sim, const struct process *process)
{
    struct guard_stats s;
    core_stats(process->core, &s);
    uint64_t answers = s.hit + s.stale + s.absent_hit + s.failed_hit + s.loaded + s.collapsed_process +
                       s.collapsed_fleet + s.failed + s.shed + s.timed_out + s.cancelled + s.closed + s.kept;
    uint64_t gets = (uint64_t)process->accepted + process->refused;
    if (answers != gets)
        sim_fail(sim, "p%u counted %llu answers to %llu gets", process->index, (unsigned long long)answers,
                 (unsigned long long)gets);
    uint32_t gauges = s.waiters + s.flights + s.loads_running + s.loads_queued;
    if (gauges + s.permits_held + s.permits_waiting != 0)
        sim_fail(sim, "p%u is at rest with gauges that are not 0", process->index);
    if (sim->params.mode == GUARD_MODE_FLEET && s.load_duplicate != 0)
        sim_fail(sim, "p%u counted a duplicate load", process->index);
}

void check_rest(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->requests; i++)
        if (sim->request[i].open || sim->request[i].looking)
            sim_fail(sim, "#%u of k%u was never answered", i, sim->request[i].key);
    for (uint32_t i = 0; i < sim->loads; i++)
        if (!sim->load[i].ended && !sim->load[i].defer.returned) /* its process may be over */
            sim_fail(sim, "a load of k%u never ended", sim->load[i].key);
    for (uint32_t i = 0; i < sim->writes; i++)
        if (sim->write[i].open)
            sim_fail(sim, "an invalidation of k%u was never answered", sim->write[i].key);
    if (sim->params.replays && sim->phase == PHASE_HEAL)
        check_said_again(sim);
    check_permits_rest(sim);
}

void check_end(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->params.processes; i++) {
        const struct process *process = &sim->process[i];
        if (!core_idle(process->core))
            sim_fail(sim, "p%u is closed, but its core is not idle", i);
        else
            check_stats(sim, process);
    }
    for (uint32_t key = 0; key < SIM_KEYS; key++) {
        redis_expire(sim, key);
        if (sim->redis.slot[key].lease.there)
            sim_fail(sim, "a lease of k%u is left behind", key);
    }
    check_permits_rest(sim);
}
