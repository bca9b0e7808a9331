/* SPDX-License-Identifier: MIT */
/*
 * lock_owner.c - owners, and what each of them has of a name. See lock_core_state.h.
 *
 * The provider sees at most one claim of an owner and a name that can be granted or is held: while one is being asked
 * for, other requests of the owner queue behind it, and share it or go on without it.
 */
#include "lock_core_state.h"
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* ---- shares ---- */

struct lock_share *lock_share_find(const struct lock_core *core, const struct lock_owner *owner,
                                   const struct lock_name *name)
{
    struct lock_share *found = NULL;
    unsigned hash = lock_hash(core, name->encoded, name->bytes);
    HASH_FIND_BYHASHVALUE(hh, owner->shares, name->encoded, name->bytes, hash, found);
    return found;
}

struct lock_share *lock_share_of(struct lock_core *core, struct lock_owner *owner,
                                 const struct lock_name *name)
{
    struct lock_share *share = lock_share_find(core, owner, name);
    if (share != NULL)
        return share;
    share = calloc(1, sizeof *share + name->bytes + 1);
    if (share == NULL)
        return NULL;
    memcpy(share->encoded, name->encoded, name->bytes);
    share->owner = owner;
    unsigned hash = lock_hash(core, name->encoded, name->bytes);
    HASH_ADD_KEYPTR_BYHASHVALUE(hh, owner->shares, share->encoded, name->bytes, hash, share);
    if (!share->unlisted)
        return share;
    free(share);
    return NULL;
}

bool lock_share_is_open(const struct lock_share *share)
{
    return share != NULL && share->claim != NULL && share->claim->state <= CLAIM_WAITING;
}

void lock_share_queue(struct lock_share *share, struct lock_request *request)
{
    request->queued = share;
    DL_APPEND2(share->queued, request, queued_prev, queued_next);
    if (share->claim->was_refused)
        lock_request_refused(request, share->claim->before);
}

void lock_share_queue_first(struct lock_share *share, struct lock_request *request)
{
    request->queued = share;
    DL_PREPEND2(share->queued, request, queued_prev, queued_next);
}

void lock_share_unqueue(struct lock_request *request)
{
    DL_DELETE2(request->queued->queued, request, queued_prev, queued_next);
    request->queued = NULL;
}

void lock_share_refused(struct lock_share *share)
{
    struct lock_request *request, *next;
    DL_FOREACH_SAFE2 (share->queued, request, next, queued_next)
        lock_request_refused(request, share->claim->before);
}

void lock_share_move(struct lock_share *share)
{
    if (share->is_moving)
        return;
    share->is_moving = true;
    while (share->queued != NULL && !lock_share_is_open(share)) {
        struct lock_request *request = share->queued;
        lock_share_unqueue(request);
        lock_request_advance(request);
    }
    share->is_moving = false;
    if (share->claim != NULL || share->queued != NULL || share->kept)
        return;
    HASH_DEL(share->owner->shares, share);
    free(share);
}

/* ---- owners ---- */

struct lock_owner *lock_core_owner_new(struct lock_core *core)
{
    struct lock_owner *owner = calloc(1, sizeof *owner);
    if (owner != NULL)
        DL_APPEND(core->owners, owner);
    return owner;
}

void lock_owner_end(struct lock_core *core, struct lock_owner *owner, enum guard_lock_status status,
                    const char *why)
{
    owner->is_ending = true;
    while (owner->requests != NULL)
        lock_request_answer(owner->requests, status, NULL);
    while (owner->holds != NULL) {
        struct lock_hold *hold = owner->holds;
        lock_hold_lose(hold, core, why);
        hold->valid_until_us = 0;
        for (size_t i = hold->use_count; i > 0; i--) {
            struct lock_use *use = &hold->uses[i - 1];
            struct lock_claim *claim = use->claim;
            if (claim == NULL)
                continue;
            lock_hold_leave(use);
            if (claim->uses == NULL)
                lock_claim_give(claim, NULL);
        }
        DL_DELETE2(owner->holds, hold, owned_prev, owned_next);
        hold->lock_owner = NULL;
    }
}

void lock_core_owner_free(struct lock_core *core, uint64_t now_us, struct lock_owner **owner)
{
    lock_begin(core, now_us);
    lock_owner_end(core, *owner, GUARD_LOCK_CANCELLED, "its owner was freed");
    DL_DELETE(core->owners, *owner);
    free(*owner);
    *owner = NULL;
}
