/* SPDX-License-Identifier: MIT */
/*
 * sim_change.c - operators that expire and refresh while requests run, and requests that
 * revalidate. What operators do is an event for each; what a request wants is drawn when it begins.
 *
 * Expire       an invalidation that leaves the value as stale: what is answered to a request that began after it was
 *              confirmed was loaded since, or is marked as stale. Where Redis has lost something since, that is not
 *              asked.
 * Refresh      a request for no user: its load begins after those of users, and gives its place to one
 * Warm-up      a process refreshes all keys, on so few places that they queue, and users ask for the same keys: no
 *              load begins for no user while a user's is queued, and a lease is held while its load is queued for no
 *              user only for as long as a lease lasts
 * Revalidate   what answers was loaded after the request began: at least the row that stood then
 */
#include "guard/core/flight.h"
#include "sim.h"
#include <string.h>

_Static_assert((int)CHANGE_KEYS == (int)SIM_KEYS, "one for each key");

/* What a confirmed expiry may have been lost with. */
static uint64_t losses_of(const struct sim *sim)
{
    const uint64_t *hit = sim->hit;
    return hit[FAULT_REDIS_EMPTY] + hit[FAULT_REDIS_FAILOVER] + hit[FAULT_REDIS_DEMOTED];
}

/* ---- what a world has ---- */

/* So few that refreshes queue, and so long a queue that they are not shed instead. */
static void choose_few_places(struct sim *sim)
{
    enum { PLACES = 2, QUEUE = 12 };
    sim->params.workers = (uint32_t)sim_wish_between(sim, WISH_WARM, 1, PLACES);
    sim->params.queue = QUEUE;
}

/* A Redis whose clock steps back lengthens the TTL that makes an expired value stale; and while two are masters, the
 * value is expired at one of them. */
void change_choose(struct sim *sim)
{
    const bool *enabled = sim->params.enabled;
    for (int fault = FAULT_REDIS_WAKES; fault <= FAULT_TWO_UNFENCED; fault++)
        sim->wishes.may[WISH_EXPIRE] = sim->wishes.may[WISH_EXPIRE] && !enabled[fault];
    sim->wishes.may[WISH_EXPIRE] = sim->wishes.may[WISH_EXPIRE] && !enabled[FAULT_CLOCK_BACK];
    if (sim->wishes.may[WISH_WARM] && !sim->params.calm)
        choose_few_places(sim);
}

void change_schedule(struct sim *sim)
{
    static const enum wish of_operators[] = {WISH_EXPIRE, WISH_WARM};
    enum { MOST = 8 };
    for (size_t i = 0; i < sizeof of_operators / sizeof *of_operators; i++) {
        enum wish wish = of_operators[i];
        uint64_t times = sim->wishes.may[wish] ? sim_wish_between(sim, wish, 1, MOST) : 0;
        for (; times > 0; times--) {
            struct event event = {.kind = EVENT_CHANGE, .subject = wish};
            event.key = (uint32_t)sim_wish_between(sim, wish, 0, sim->params.keys - 1);
            sim_at(sim, sim_wish_between(sim, wish, 0, sim->params.chaos_us), event);
        }
    }
}

/* ---- operators ---- */

/* All its keys, one after the other; and soon users, here and elsewhere. */
static void warm_up(struct sim *sim)
{
    enum { USERS = 6, SOON_US = 400000 };
    const struct params *params = &sim->params;
    struct process *process = &sim->process[sim_wish_between(sim, WISH_WARM, 0, params->processes - 1)];
    if (!process_runs(process) || process->stalled_until_us > sim->course.now_us)
        return;
    sim->wishes.change.warms = true;
    for (uint32_t key = 0; key < params->keys; key++)
        process_get(sim, process, key, params->policy.deadline_ms);
    sim->wishes.change.warms = false;
    for (uint32_t n = 0; n < USERS; n++) {
        struct event event = {.kind = EVENT_REQUEST, .process = process->index};
        event.key = (uint32_t)sim_wish_between(sim, WISH_WARM, 0, params->keys - 1);
        if (n % 3 == 2)
            event.process = (uint32_t)sim_wish_between(sim, WISH_WARM, 0, params->processes - 1);
        sim_at(sim, sim->course.now_us + sim_wish_between(sim, WISH_WARM, 0, SOON_US), event);
    }
}

void change_happens(struct sim *sim, const struct event *event)
{
    if (sim_wish(sim, (enum wish)event->subject, 1) && event->subject == WISH_WARM)
        warm_up(sim);
}

bool change_expires(struct sim *sim, const struct write *write)
{
    enum { ONE_IN = 2 };
    return !write->of_tag && !write->probe && sim_wish(sim, WISH_EXPIRE, ONE_IN);
}

void change_expired(struct sim *sim, const struct write *write)
{
    struct change_world *world = &sim->wishes.change;
    uint32_t version = write->versions[write->key];
    sim->seen[SEEN_EXPIRED]++;
    if (world->floor[write->key] < version)
        world->floor[write->key] = version;
    world->losses[write->key] = losses_of(sim);
}

/* ---- requests ---- */

bool change_request_begins(struct sim *sim, struct process *process, struct request *request)
{
    enum { ONE_IN = 5 };
    const struct change_world *world = &sim->wishes.change;
    request->change.version = sim->row[request->key].version;
    request->change.floor = world->floor[request->key];
    request->change.losses = world->losses[request->key];
    if (request->probe)
        return false;
    request->waiter.refreshes = world->warms || sim_wish(sim, WISH_REFRESH, ONE_IN);
    if (sim_wish(sim, WISH_REVALIDATE, ONE_IN)) {
        request->waiter.revalidates = true;
        request->found = false;
        process_enter(sim, process, (uint32_t)(request - sim->request));
        return true;
    }
    return false;
}

bool change_revalidates(const struct load_model *load)
{
    return load->keep.starter != NULL && load->keep.starter->revalidates;
}

/* In its queue for a worker: what refreshes a value may yet be answered by that one, and a batch waits for its
 * turn. */
static bool is_queued(const struct flight *flight)
{
    return flight->state == FLIGHT_QUEUED && !flight->refreshing && !flight->batched;
}

void change_entered(struct sim *sim, const struct request *request)
{
    const struct flight *flight = request->waiter.flight;
    sim->seen[SEEN_WARMED_FOR_USER] +=
        flight != NULL && is_queued(flight) && flight->first->refreshes && !request->waiter.refreshes;
}

/* ---- what must be true of it ---- */

static void check_revalidated(struct sim *sim, const struct request *request, uint32_t version)
{
    enum guard_source source = request->waiter.result.source;
    uint32_t index = (uint32_t)(request - sim->request);
    sim->seen[SEEN_REVALIDATED]++;
    sim->seen[SEEN_REVALIDATED_ELSEWHERE] += source == GUARD_FROM_FLEET;
    if (source == GUARD_FROM_STALE || source == GUARD_FROM_NEAR || source == GUARD_FROM_CACHE ||
        source == GUARD_FROM_KEPT)
        sim_fail(sim, "#%u of k%u revalidates and was answered by what was there", index, request->key);
    if (version < request->change.version)
        sim_fail(sim, "#%u of k%u revalidates and got v%u, but the row was v%u when it began", index,
                 request->key, version, request->change.version);
}

static void check_expired(struct sim *sim, const struct request *request, uint32_t version)
{
    bool stale = request->waiter.result.source == GUARD_FROM_STALE;
    bool is_there =
        request->waiter.result.source == GUARD_FROM_NEAR || request->waiter.result.source == GUARD_FROM_KEPT;
    bool applies = request->change.losses == losses_of(sim) && !is_there;
    sim->seen[SEEN_EXPIRED_STALE] += stale && version < request->change.floor;
    if (applies && !stale && version < request->change.floor)
        sim_fail(sim, "#%u of k%u got v%u as fresh, but v%u was expired in before it began",
                 (uint32_t)(request - sim->request), request->key, version, request->change.floor);
}

void change_check_answer(struct sim *sim, const struct request *request)
{
    uint32_t key = 0, version = 0;
    const struct guard_result *result = &request->waiter.result;
    sim->seen[SEEN_REFRESH_SHED] += request->waiter.refreshes && result->status == GUARD_SHED;
    if (result->status != GUARD_OK || result->value == NULL ||
        !body_read(result->value->body, &key, &version))
        return;
    check_expired(sim, request, version);
    if (request->waiter.revalidates)
        check_revalidated(sim, request, version);
}

static bool is_user_of(const struct request *request, uint32_t life)
{
    return request->life == life && request->open && !request->waiter.refreshes;
}

static bool is_flight_of(const struct flight *flight, const struct load_model *load)
{
    return flight->load != NULL && flight->load->id == load->id;
}

/* Users before refreshes. A nested load takes the place of nobody who is queued, nor does one that its starter runs
 * take a thread. */
void change_check_load(struct sim *sim, const struct load_model *load)
{
    const struct request *queued = NULL;
    bool lent = load->defer.apart && sim->params.policy.loads_on == GUARD_ON_CALLER;
    if (load->depth > 0 || load->batch != 0 || lent)
        return;
    for (uint32_t i = 0; i < sim->requests; i++) {
        const struct request *request = &sim->request[i];
        if (!is_user_of(request, load->life) || request->waiter.flight == NULL)
            continue;
        if (is_flight_of(request->waiter.flight, load))
            return;
        queued = is_queued(request->waiter.flight) ? request : queued;
    }
    sim->seen[SEEN_REFRESH_LAST] += queued == NULL && sim->wishes.may[WISH_WARM];
    if (queued != NULL)
        sim_fail(sim, "p%u loads k%u for no user while the load of k%u is queued for #%u", load->process,
                 load->key, queued->key, (uint32_t)(queued - sim->request));
}

/* Or left before its lease, whose renewal it is, may have run out. */
static bool is_late_user_of(const struct sim *sim, const struct request *request, uint32_t life)
{
    uint64_t lease_us = (uint64_t)sim->params.policy.lease_ms * 1000;
    bool of_life = request->life == life && !request->waiter.refreshes;
    return of_life && (request->open || request->over_us + lease_us > sim->course.now_us);
}

/* Its load has not begun, and nobody waits for it who does not only refresh. */
static bool is_held_for_no_user(const struct sim *sim, const struct command *renewal)
{
    for (uint32_t i = sim->loads; i > 0; i--)
        if (strcmp(sim->load[i - 1].token, renewal->token) == 0)
            return false;
    for (uint32_t i = 0; i < sim->requests; i++) {
        const struct request *request = &sim->request[i];
        if (is_late_user_of(sim, request, renewal->life) && request->key == renewal->key)
            return false;
    }
    return true;
}

/* A message may make it look whether it has the lease at any time. */
void change_check_renewal(struct sim *sim, const struct command *renewal)
{
    const struct process *process = &sim->process[renewal->process];
    uint64_t most_us = 2 * (uint64_t)sim->params.policy.lease_ms * 1000;
    if (!is_held_for_no_user(sim, renewal) || process->stalled_until_us + most_us > sim->course.now_us)
        return;
    for (uint32_t i = sim->commands; i > 0; i--) {
        const struct command *acquire = &sim->command[i - 1];
        if (acquire->action.kind != CORE_ACQUIRE || strcmp(acquire->token, renewal->token) != 0)
            continue;
        if (sim->course.now_us > acquire->sent_us + most_us)
            sim_fail(sim, "p%u still renews a lease of k%u, whose load is queued for no user",
                     renewal->process, renewal->key);
        return;
    }
}
