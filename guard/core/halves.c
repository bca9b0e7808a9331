/* SPDX-License-Identifier: MIT */
/* halves.c - see halves.h. */
#include "halves.h"
#include "flight.h"
#include <stdlib.h>

static void join(struct flight *flight, struct halves *halves)
{
    if (flight == NULL || flight->halves != NULL)
        return;
    flight->halves = halves;
    halves->flights++;
}

bool halves_begin(struct load *load)
{
    if (load->flight->halves != NULL)
        return true;
    struct halves *halves = calloc(1, sizeof *halves);
    if (halves == NULL)
        return false;
    join(load->flight, halves);
    for (const struct load *mate = load->mate_next; mate != load; mate = mate->mate_next)
        join(mate->flight, halves);
    return true;
}

void halves_leave(struct flight *flight)
{
    struct halves *halves = flight->halves;
    flight->halves = NULL;
    flight->half = 0;
    if (halves != NULL && --halves->flights == 0)
        free(halves);
}

bool halves_doubtful(const struct halves *halves)
{
    return halves->failed >= HALVES_MOST && !halves->succeeded;
}

bool halves_run(const struct core *core, const struct halves *halves)
{
    const struct load *load = core->loads.running;
    while (load != NULL && (load->flight == NULL || load->flight->halves != halves))
        load = load->next;
    return load != NULL;
}

static struct flight *queued_in(struct flight *first, const struct halves *halves)
{
    struct flight *flight = first != NULL ? first->queue_prev : NULL;
    while (flight != NULL && flight->halves != halves)
        flight = flight != first ? flight->queue_prev : NULL;
    return flight;
}

struct flight *halves_queued(const struct core *core, const struct halves *halves)
{
    struct flight *found = NULL;
    for (int queue = 0; queue < QUEUES; queue++)
        for (int lane = 0; lane < LANES && found == NULL; lane++)
            found = queued_in(core->loads.queues[queue][lane], halves);
    return found;
}
