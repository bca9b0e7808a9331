/* SPDX-License-Identifier: MIT */
/* abandon.c - see abandon.h. */
#include "abandon.h"
#include "../base/digest.h"
#include "flight.h"
#include "lease.h"

/* ---- what this process remembers ---- */

static uint8_t *byte_of(const struct flight *flight, uint8_t *bit)
{
    struct core *core = flight->core;
    uint64_t hash =
        digest_siphash(core->config.hash_key, flight->key.encoded, flight->key.encoded_bytes) % ABANDON_BITS;
    *bit = (uint8_t)(1u << hash % 8);
    return &core->abandon.bits[hash / 8];
}

static void remember(const struct flight *flight)
{
    uint8_t bit = 0, *byte = byte_of(flight, &bit);
    *byte |= bit;
}

static bool recall(const struct flight *flight)
{
    uint8_t bit = 0, *byte = byte_of(flight, &bit);
    bool was = (*byte & bit) != 0;
    *byte &= (uint8_t)~bit;
    return was;
}

/* ---- a load ---- */

void abandon_load_starts(struct flight *flight)
{
    flight->spared = recall(flight) || flight->abandoned;
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
    remember(flight);
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
