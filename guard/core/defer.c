/* SPDX-License-Identifier: MIT */
/* defer.c - see defer.h. */
#include "defer.h"
#include "flight.h"
#include "lease.h"
#include "watch.h"
#include <utlist.h>

static void let_go(struct core *core, struct load *load)
{
    core->loads.forgotten++;
    watch_load_ended(core, load, &(struct core_loaded){.outcome = LOAD_FAILED});
    loads_free(core, load);
}

void defer_begins(struct core *core, struct load *load)
{
    load->deferred = true;
    loads_leave_thread(core, load);
    if (load->flight == NULL)
        defer_given_up(core, load);
    else if (core->draining)
        flight_close(load->flight);
    else
        lease_deferred(load->flight);
}

void defer_given_up(struct core *core, struct load *load)
{
    if (core->draining)
        let_go(core, load);
    else
        alarm_set(&core->alarms, &load->hold, load->hold_until_us);
}

void defer_alarm(struct core *core, struct load *load)
{
    core_emit(core, &(struct core_action){.kind = CORE_FORGET, .load = load->id});
    let_go(core, load);
}

/* Another one may go with it: that in whose place it runs. */
static struct load *first_given_up(struct core *core)
{
    struct load *load = core->loads.running;
    while (load != NULL && (load->over || !load->deferred || load->flight != NULL))
        load = load->next;
    return load;
}

void defer_drain(struct core *core)
{
    struct flight *flight = NULL, *next = NULL;
    core->draining = true;
    DL_FOREACH_SAFE (core->flights, flight, next)
        if (flight->load != NULL && flight->load->deferred)
            flight_close(flight);
    for (struct load *load = first_given_up(core); load != NULL; load = first_given_up(core))
        let_go(core, load);
}
