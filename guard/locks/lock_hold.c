/* SPDX-License-Identifier: MIT */
/* lock_hold.c - what was granted, until it is given back. See lock_core_state.h. */
#include "lock_core_state.h"
#include <assert.h>
#include <utlist.h>

void lock_hold_add(struct lock_hold *hold, struct lock_claim *claim)
{
    for (size_t i = 0; i < hold->use_count; i++)
        if (hold->uses[i].claim == claim)
            return;
    assert(hold->use_count < GUARD_LOCK_NAMES_MAX);
    struct lock_use *use = &hold->uses[hold->use_count++];
    *use = (struct lock_use){.claim = claim, .hold = hold};
    DL_PREPEND(claim->uses, use);
    lock_claim_set_alarm(claim);
}

void lock_hold_leave(struct lock_use *use)
{
    DL_DELETE(use->claim->uses, use);
    use->claim = NULL;
}

void lock_hold_drop(struct lock_hold *hold)
{
    while (hold->use_count > 0) {
        struct lock_use *use = &hold->uses[--hold->use_count];
        struct lock_claim *claim = use->claim;
        if (claim == NULL)
            continue;
        lock_hold_leave(use);
        if (claim->uses == NULL)
            lock_claim_give(claim, NULL);
        else
            lock_claim_left(claim);
    }
}

void lock_hold_refresh(struct lock_hold *hold)
{
    if (hold->request != NULL || hold->is_lost)
        return;
    uint64_t valid_until_us = UINT64_MAX;
    for (size_t i = 0; i < hold->use_count; i++)
        valid_until_us = lock_earlier(valid_until_us, hold->uses[i].claim->valid_until_us);
    hold->valid_until_us = valid_until_us; /* at once: others read it meanwhile */
}

void lock_hold_grant(struct lock_hold *hold, struct lock_owner *owner, uint32_t hold_ms)
{
    struct lock_core *core = hold->request->core;
    hold->request = NULL;
    hold->lock_owner = owner;
    DL_APPEND2(owner->holds, hold, owned_prev, owned_next);
    core->stats.held++;
    if (hold_ms > 0)
        hold->renew_until_us = core->now_us + lock_us(hold_ms);
    for (size_t i = 0; i < hold->use_count; i++)
        lock_claim_set_alarm(hold->uses[i].claim);
    lock_hold_refresh(hold);
}

/* ---- lost ---- */

void lock_hold_lose(struct lock_hold *hold, struct lock_core *core, const char *why)
{
    if (hold->is_lost)
        return;
    hold->is_lost = hold->is_to_tell = true;
    hold->lost_us = core->now_us;
    hold->why = why;
    core->stats.lost++;
    DL_APPEND(core->lost, hold);
}

struct lock_hold *lock_core_next_lost(struct lock_core *core)
{
    struct lock_hold *hold = core->lost;
    if (hold == NULL)
        return NULL;
    DL_DELETE(core->lost, hold);
    hold->is_to_tell = false;
    return hold;
}

/* ---- given back ---- */

static enum guard_lock_status worse_of(enum guard_lock_status a, enum guard_lock_status b)
{
    if (a == GUARD_LOCK_LOST || b == GUARD_LOCK_LOST)
        return GUARD_LOCK_LOST;
    return a == GUARD_LOCK_OK ? b : a;
}

void lock_hold_given(struct lock_hold *hold, struct lock_core *core, enum guard_lock_status status)
{
    hold->given = worse_of(hold->given, status);
    if (--hold->giving_count > 0)
        return;
    core->stats.given_back += hold->given == GUARD_LOCK_OK;
    DL_APPEND(core->given, hold);
}

/* Only the last hold of a claim gives it back. */
static void give_use(struct lock_hold *hold, struct lock_use *use)
{
    struct lock_claim *claim = use->claim;
    if (claim == NULL) {
        /* Given back in time, but lost before that was heard of: what the provider had by then nobody asks any
         * more. */
        const bool timely = hold->given_us < hold->lost_us && hold->given_us < hold->valid_until_us;
        hold->given = worse_of(hold->given, timely ? GUARD_LOCK_UNKNOWN : GUARD_LOCK_LOST);
        return;
    }
    if (hold->given_us >= claim->valid_until_us)
        hold->given = GUARD_LOCK_LOST; /* it ended before */
    lock_hold_leave(use);
    if (claim->uses == NULL) {
        hold->giving_count++;
        lock_claim_give(claim, hold);
    } else if (claim->state == CLAIM_LOST) {
        hold->given = GUARD_LOCK_LOST;
    } else {
        lock_claim_left(claim);
    }
}

void lock_core_give(struct lock_core *core, uint64_t now_us, struct lock_hold *hold)
{
    lock_begin(core, now_us);
    assert(!hold->is_given && hold->request == NULL);
    hold->is_given = true;
    if (hold->given_us == 0)
        hold->given_us = now_us;
    if (hold->is_to_tell)
        DL_DELETE(core->lost, hold);
    hold->is_to_tell = false;
    if (hold->lock_owner != NULL)
        DL_DELETE2(hold->lock_owner->holds, hold, owned_prev, owned_next);
    hold->lock_owner = NULL;
    core->stats.held--;
    hold->giving_count = 1; /* until all are asked */
    while (hold->use_count > 0)
        give_use(hold, &hold->uses[--hold->use_count]);
    lock_hold_given(hold, core, GUARD_LOCK_OK);
}

struct lock_hold *lock_core_next_given(struct lock_core *core)
{
    struct lock_hold *hold = core->given;
    if (hold != NULL)
        DL_DELETE(core->given, hold);
    return hold;
}
