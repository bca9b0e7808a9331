/* SPDX-License-Identifier: MIT */
/*
 * sim_change.c - operators that expire, clear, refresh and change a policy while requests run, and requests that
 * revalidate or peek. What operators do is an event for each; what a request wants is drawn when it begins.
 *
 * Expire       an invalidation that leaves the value as stale: what is answered to a request that began after it was
 *              confirmed was loaded since, or is marked as stale. Where Redis has lost something since, that is not asked.
 * Refresh      a request for no user: its load begins after those of users, and gives its place to one
 * Revalidate   what answers was loaded after the request began: at least the row that stood then
 */
#include "sim.h"

_Static_assert((int)CHANGE_KEYS == (int)SIM_KEYS, "one for each key");

/* What a confirmed expiry may have been lost with. */
static uint64_t losses_of(const struct sim *sim)
{
    const uint64_t *hit = sim->hit;
    return hit[FAULT_REDIS_EMPTY] + hit[FAULT_REDIS_FAILOVER] + hit[FAULT_REDIS_DEMOTED];
}

/* ---- what a world has ---- */

/* A Redis whose clock steps back lengthens the TTL that makes an expired value stale. */
void change_choose(struct sim *sim)
{
    sim->wishes.may[WISH_EXPIRE] = sim->wishes.may[WISH_EXPIRE] && !sim->params.enabled[FAULT_CLOCK_BACK];
}

void change_schedule(struct sim *sim)
{
    static const enum wish of_operators[] = {WISH_EXPIRE, WISH_EXPIRE_TAG, WISH_CLEAR, WISH_POLICY};
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

void change_happens(struct sim *sim, const struct event *event)
{
    if (!sim_wish(sim, (enum wish)event->subject, 1))
        return;
    switch ((enum wish)event->subject) {
    case WISH_EXPIRE:
    case WISH_EXPIRE_TAG:
    case WISH_CLEAR:
    case WISH_POLICY:
    default:
        break;
    }
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
    request->waiter.refreshes = sim_wish(sim, WISH_REFRESH, ONE_IN);
    if (sim_wish(sim, WISH_REVALIDATE, ONE_IN)) {
        request->change.flags = GUARD_REVALIDATE;
        request->waiter.revalidates = true;
        request->found = false;
        process_enter(sim, process, (uint32_t)(request - sim->request));
        return true;
    }
    if (sim_wish(sim, WISH_PEEK, ONE_IN))
        request->change.flags = GUARD_PEEK;
    return false;
}

bool change_revalidates(const struct load_model *load)
{
    return load->keep.starter != NULL && load->keep.starter->revalidates;
}

/* ---- what must be true of it ---- */

static void check_revalidated(struct sim *sim, const struct request *request, uint32_t version)
{
    enum guard_source source = request->waiter.result.source;
    uint32_t index = (uint32_t)(request - sim->request);
    sim->seen[SEEN_REVALIDATED]++;
    sim->seen[SEEN_REVALIDATED_ELSEWHERE] += source == GUARD_FROM_FLEET;
    if (source == GUARD_FROM_STALE || source == GUARD_FROM_NEAR || source == GUARD_FROM_CACHE)
        sim_fail(sim, "#%u of k%u revalidates and was answered by what was there", index, request->key);
    if (version < request->change.version)
        sim_fail(sim, "#%u of k%u revalidates and got v%u, but the row was v%u when it began", index,
                 request->key, version, request->change.version);
}

static void check_expired(struct sim *sim, const struct request *request, uint32_t version)
{
    bool stale = request->waiter.result.source == GUARD_FROM_STALE;
    bool applies =
        request->change.losses == losses_of(sim) && request->waiter.result.source != GUARD_FROM_NEAR;
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
    if (request->change.flags == GUARD_REVALIDATE)
        check_revalidated(sim, request, version);
}

void change_check_load(struct sim *sim, const struct load_model *load)
{
    (void)sim, (void)load;
}

void change_check_rest(struct sim *sim)
{
    (void)sim;
}
