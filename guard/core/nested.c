/* SPDX-License-Identifier: MIT */
/* nested.c - see nested.h. */
#include "nested.h"
#include "flight.h"
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

/* Appends to the search the loads that this one waits for itself. */
static struct load *visit_awaited(const struct load *load, uint64_t visit, struct load *last)
{
    const struct core_waiter *waiter = load->blocked_on;
    for (; waiter != NULL; waiter = waiter->nested_next) {
        struct load *awaited = waiter->flight->load;
        if (awaited == NULL || awaited->visit == visit)
            continue;
        awaited->visit = visit;
        awaited->visit_next = NULL;
        last = last->visit_next = awaited;
    }
    return last;
}

/* Breadth first: a deferred load may wait for several keys. */
static bool waits_for(struct core *core, struct load *first, const struct load *goal)
{
    struct load *last = first;
    first->visit = ++core->loads.visit;
    first->visit_next = NULL;
    for (const struct load *at = first; at != NULL; at = at->visit_next) {
        if (wait_as_one(at, goal))
            return true;
        const struct load *mate = at;
        do {
            if (wait_as_one(at, mate))
                last = visit_awaited(mate, first->visit, last);
            mate = mate->mate_next;
        } while (mate != at);
    }
    return false;
}

bool nested_is_refused(const struct flight *flight, uint64_t parent_load)
{
    const struct load *parent = loads_find(flight->core, parent_load);
    if (parent == NULL)
        return false;
    bool circle = flight->load != NULL && waits_for(flight->core, flight->load, parent);
    return circle || parent->depth >= GUARD_NESTED_MAX;
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

static bool offers_berth(struct core *core, struct load *outer, struct berth *out)
{
    if (outer->lent_to != NULL)
        return false;
    *out = (struct berth){outer, outer};
    if (!outer->deferred)
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
        if (outer != NULL && offers_berth(core, outer, out))
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
    load->on_thread = berth.lender == NULL;
    if (berth.lender != NULL)
        berth.lender->lent_to = load;
    else
        core->loads.threads_used++;
    flight_counts(flight)->load_nested++;
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
