/* SPDX-License-Identifier: MIT */
/* pass.c - see pass.h. */
#include "pass.h"
#include "flight.h"
#include "lease.h"
#include "watch.h"
#include <utlist.h>

/* ---- one for each ---- */

static void pass_move(struct core_waiter *waiter, struct flight *to)
{
    flight_unlist(waiter);
    flight_list(to, waiter);
    waiter->passes = true;
    waiter->first_round = to->round;
}

static void pass_set_apart(struct core_waiter *waiter)
{
    struct flight *from = waiter->flight;
    struct flight *own = core_new_flight(from->core, &from->key, from->policy, FLIGHT_FOR_ONE);
    if (own == NULL) {
        core_answer(waiter, &(struct guard_result){.status = GUARD_NO_MEMORY});
        return;
    }
    loads_choose_lane(own, waiter->of_many);
    pass_move(waiter, own);
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

/* NULL: it has left. */
static struct core_waiter *pass_starter(const struct flight *flight)
{
    struct core_waiter *waiter = flight->first;
    while (waiter != NULL && waiter->joined != flight->starter_stamp)
        waiter = waiter->next;
    return waiter;
}

void pass_loaded(struct flight *flight, const struct guard_keep *keep)
{
    struct core_waiter *starter = pass_starter(flight);
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
        watch_fill_refused(flight);
    flight_settle(flight);
}
