/* SPDX-License-Identifier: MIT */
/*
 * pass.c - loads whose value is for one request alone.
 *
 *     load says PASS --+--> its starter gets the value
 *                      +--> under a lease: a mark is stored in place of the value, for pass_ms
 *                      +--> each other waiter gets a flight of its own, which passes
 *
 *     mark found by a lookup, an acquire, or in a message --> each waiter gets a flight of its own, which passes
 *
 * A passing flight takes no lease, is not found by its key and has one waiter: nothing can be delivered to another
 * one. Its load stores nothing, whatever it says, and a failure of it is nobody else's. So none lines up behind
 * another: they only share workers, permits and half of the queue (loads.h).
 *
 * A mark is no answer, so it may part waiters that joined after what found it was sent.
 */
#include "flight.h"
#include "lease.h"
#include <utlist.h>

/* ---- one for each ---- */

static void pass_set_apart(struct core_waiter *waiter)
{
    struct flight *from = waiter->flight;
    struct flight *own = core_new_flight(from->core, &from->key, from->policy, FLIGHT_FOR_ONE);
    if (own == NULL) {
        core_answer(waiter, &(struct guard_result){.status = GUARD_NO_MEMORY});
        return;
    }
    loads_choose_lane(own, waiter->of_many);
    flight_unlist(waiter);
    flight_list(own, waiter);
    waiter->passes = true;
    waiter->first_round = own->round;
    flight_bypass(own);
}

void pass_part(struct flight *flight)
{
    while (flight->first != NULL)
        pass_set_apart(flight->first);
}

/* ---- a load has said so ---- */

/* Those that wait in other processes part, too, when they see the mark, or hear of it. */
static void pass_mark(struct flight *flight, const struct guard_keep *keep)
{
    struct core *core = flight->core;
    struct spans spans = keep_pass_spans(keep, flight->policy, core->config.max_value_ms);
    flight_counts(flight)->keep_cut += spans.cut;
    flight->mark = true;
    flight->absent = flight->unchanged = false;
    flight->life = (struct entry_life){.own_fresh = false};
    if (spans.fresh_ms > 0 && !lease_lacks_tag_clock(flight)) {
        lease_fill(flight, spans.fresh_ms, 0);
        return;
    }
    flight_counts(flight)->fill_refused += spans.fresh_ms > 0;
    lease_share(flight);
}

void pass_loaded(struct flight *flight, const struct guard_keep *keep)
{
    struct core_waiter *starter = flight->first;
    while (starter != NULL && starter->joined != flight->starter_stamp)
        starter = starter->next;
    if (starter != NULL) {
        struct guard_result result = lease_loaded_result(flight, false);
        core_answer(starter, &result);
    }
    pass_part(flight);
    if (flight->leased) {
        pass_mark(flight, keep);
        return;
    }
    flight_counts(flight)->fill_late += flight->lost;
    if (flight->lost)
        watch_flight(flight, GUARD_EVENT_FILL_REFUSED, 0);
    flight_settle(flight);
}
