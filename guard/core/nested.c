/* SPDX-License-Identifier: MIT */
/* nested.c - see nested.h. */
#include "nested.h"
#include "flight.h"
#include "lease.h"
#include <utlist.h>

/* ---- waiting ---- */

void nested_block(struct core_waiter *waiter)
{
    struct core *core = waiter->flight->core;
    struct load *load = loads_find(core, waiter->parent_load);
    core->loads.nested_waiters++;
    waiter->blocks = load != NULL;
    if (waiter->blocks)
        DL_APPEND2(load->blocked_on, waiter, nested_prev, nested_next);
}

void nested_unblock(struct core_waiter *waiter)
{
    struct core *core = waiter->flight->core;
    core->loads.nested_waiters--;
    if (waiter->blocks)
        DL_DELETE2(loads_find(core, waiter->parent_load)->blocked_on, waiter, nested_prev, nested_next);
    waiter->blocks = false;
}

void nested_forget_waiters(struct load *load)
{
    while (load->blocked_on != NULL) {
        struct core_waiter *waiter = load->blocked_on;
        DL_DELETE2(load->blocked_on, waiter, nested_prev, nested_next);
        waiter->blocks = false;
    }
}

/* ---- circles ---- */

/* What one of them waits for keeps the other from going on. */
static bool wait_as_one(const struct load *one, const struct load *other)
{
    return one == other ||
           (one->batch != 0 && one->batch == other->batch && !one->deferred && !other->deferred);
}

/* Appends to the search the loads that this one waits for itself; it came to it from `at`. */
static struct load *visit_awaited(struct load *at, const struct load *load, struct load *last)
{
    const struct core_waiter *waiter = load->blocked_on;
    for (; waiter != NULL; waiter = waiter->nested_next) {
        struct load *awaited = waiter->flight->load;
        if (awaited == NULL || awaited->visit == at->visit)
            continue;
        awaited->visit = at->visit;
        awaited->visit_next = NULL;
        awaited->visit_from = at;
        awaited->visit_by_mate = load != at;
        last = last->visit_next = awaited;
    }
    return last;
}

/* Breadth first: a deferred load may wait for several keys. Where the way from a load to what it waits for, in the
 * end, comes to this goal; over_mates: waiting also for what its mates wait for. NULL: it does not. */
static struct load *find_way(struct core *core, struct load *first, const struct load *goal, bool over_mates)
{
    struct load *last = first;
    first->visit = ++core->loads.visit;
    first->visit_next = first->visit_from = NULL;
    for (struct load *at = first; at != NULL; at = at->visit_next) {
        if (at == goal || (over_mates && wait_as_one(at, goal)))
            return at;
        const struct load *mate = at;
        do {
            if (at == mate || (over_mates && wait_as_one(at, mate)))
                last = visit_awaited(at, mate, last);
            mate = mate->mate_next;
        } while (mate != at);
    }
    return NULL;
}

/* On that way back, the first that waits for nothing itself: a mate of it does. There is one. */
static struct load *neighbour_on_way(struct load *at, const struct load *goal)
{
    bool by_mate = at != goal;
    while (!by_mate) {
        by_mate = at->visit_by_mate;
        at = at->visit_from;
    }
    return at;
}

bool nested_admit(struct flight *flight, uint64_t parent_load)
{
    struct core *core = flight->core;
    const struct load *parent = loads_find(core, parent_load);
    if (parent == NULL)
        return true;
    if (parent->depth >= GUARD_NESTED_MAX)
        return false;
    while (flight->load != NULL && find_way(core, flight->load, parent, true) != NULL) {
        if (find_way(core, flight->load, parent, false) != NULL)
            return false;
        lease_leave_query(neighbour_on_way(find_way(core, flight->load, parent, true), parent)->flight);
    }
    return true;
}

/* ---- berths ---- */

struct berth {
    struct load *outer, *lender;
};

/* A thread that stands still and waits, in the end, for this load. */
static struct load *thread_behind(const struct load *load, unsigned steps)
{
    const struct flight *flight = load->flight;
    const struct core_waiter *waiter = flight != NULL && flight->nested_waiters > 0 ? flight->first : NULL;
    for (; waiter != NULL; waiter = waiter->next) {
        struct load *behind = waiter->parent_load != 0 ? loads_find(flight->core, waiter->parent_load) : NULL;
        if (behind == NULL)
            continue;
        if (behind->deferred)
            behind = steps > 0 ? thread_behind(behind, steps - 1) : NULL;
        if (behind != NULL && behind->lent_to == NULL)
            return behind;
    }
    return NULL;
}

static bool offers_berth(const struct flight *flight, struct load *outer, struct berth *out)
{
    struct core *core = flight->core;
    if (outer->lent_to != NULL)
        return false;
    *out = (struct berth){outer, outer};
    if (!outer->deferred)
        return true;
    out->lender = NULL;
    if (!loads_needs_thread(flight))
        return true;
    out->lender = loads_thread_free(core) ? NULL : thread_behind(outer, GUARD_NESTED_MAX);
    return out->lender != NULL || loads_thread_free(core);
}

static bool find_berth(const struct flight *flight, struct berth *out)
{
    struct core *core = flight->core;
    const struct core_waiter *waiter = flight->nested_waiters > 0 ? flight->first : NULL;
    for (; waiter != NULL; waiter = waiter->next) {
        struct load *outer = waiter->parent_load != 0 ? loads_find(core, waiter->parent_load) : NULL;
        if (outer != NULL && offers_berth(flight, outer, out))
            return true;
    }
    return false;
}

bool nested_has_berth(const struct flight *flight)
{
    struct berth berth;
    return find_berth(flight, &berth);
}

bool nested_take_berth(const struct flight *flight, struct load *load)
{
    struct core *core = flight->core;
    struct berth berth;
    if (!find_berth(flight, &berth))
        return false;
    load->outer = berth.outer;
    load->lender = berth.lender;
    load->depth = berth.outer->depth + 1;
    uint64_t until_us = berth.outer->deadline_us;
    if (berth.lender != NULL)
        until_us = earlier_us(until_us, berth.lender->deadline_us);
    load->cut_short = until_us < load->deadline_us;
    load->deadline_us = earlier_us(until_us, load->deadline_us);
    berth.outer->guests++;
    berth.outer->lent_to = load;
    load->on_thread = berth.lender == NULL && loads_needs_thread(flight);
    core->loads.threads_used += load->on_thread;
    if (berth.lender != NULL)
        berth.lender->lent_to = load;
    flight_counts(flight)->load_nested++;
    flight_counts(flight)->load_queries++;
    return true;
}

void nested_leave_thread(struct load *load)
{
    if (load->lender != NULL && load->lender->lent_to == load)
        load->lender->lent_to = NULL;
    load->lender = NULL;
}

void nested_leave_place(struct load *load)
{
    load->outer->guests--;
    if (load->outer->lent_to == load)
        load->outer->lent_to = NULL;
}
