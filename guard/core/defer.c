/* SPDX-License-Identifier: MIT */
/* defer.c - see defer.h. */
#include "defer.h"
#include "../base/digest.h"
#include "flight.h"
#include "lease.h"
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

/* ---- what this process remembers ---- */

static uint8_t *byte_of(const struct flight *flight, uint8_t *bit)
{
    struct core *core = flight->core;
    uint64_t hash =
        digest_siphash(core->config.hash_key, flight->key.encoded, flight->key.encoded_bytes) % ABANDON_BITS;
    *bit = (uint8_t)(1u << hash % 8);
    return &core->abandon.bits[hash / 8];
}

/* ---- a load that nobody waits for ---- */

void abandon_load_starts(struct flight *flight)
{
    uint8_t bit = 0, *byte = byte_of(flight, &bit);
    flight->spared = (*byte & bit) != 0 || flight->abandoned;
    *byte &= (uint8_t)~bit;
    flight->abandoned = false;
}

static bool may_abandon(const struct flight *flight)
{
    return flight->policy->abandon && flight->state == FLIGHT_LOADING && flight->first == NULL &&
           !flight->refreshing && !flight->spared && !flight->load->cancelled;
}

static void abandon_load(struct flight *flight)
{
    flight->round++;
    loads_abandon(flight);
    if (flight->leased) {
        flight->abandoned = true;
        lease_release(flight, GUARD_FAILURE_NONE, false);
        return;
    }
    uint8_t bit = 0, *byte = byte_of(flight, &bit);
    *byte |= bit; /* the next load of its key is not abandoned */
    flight_settle(flight);
}

void abandon_left(struct flight *flight)
{
    if (!may_abandon(flight))
        return;
    if (!flight->leased || flight->core->config.mode != GUARD_MODE_FLEET)
        abandon_load(flight);
    else if (flight->renew_op == 0)
        lease_doubt(flight);
}

bool abandon_alone(struct flight *flight)
{
    if (!may_abandon(flight))
        return false;
    abandon_load(flight);
    return true;
}

uint32_t abandon_note_ms(const struct flight *flight)
{
    return flight->abandoned ? flight->policy->fresh_ms + flight->policy->stale_ms : 0;
}
