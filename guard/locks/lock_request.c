/* SPDX-License-Identifier: MIT */
/*
 * lock_request.c - what a request still needs, and how it is answered. See lock_core_state.h.
 *
 * Names are taken in steps: all in one if the provider takes several at once, else one after the other in the order
 * of their encoded bytes. A step takes what the owner has already, queues behind what the owner is asking for, and
 * makes a claim for the rest. What a request has is in the uses of its hold, from the first step on; when it loses
 * some of it before it has all, it begins again.
 */
#include "lock_core_state.h"
#include <stdio.h>
#include <string.h>
#include <utlist.h>

bool lock_kind_excludes(enum guard_lock_kind kind)
{
    return kind == GUARD_LOCK_FAIR || kind == GUARD_LOCK_MUTEX || kind == GUARD_LOCK_WRITE;
}

bool lock_kind_reenters(enum guard_lock_kind kind)
{
    return lock_kind_excludes(kind) || kind == GUARD_LOCK_READ;
}

static struct lock_owner *owner_of(const struct lock_request *request)
{
    return request->lock_owner != NULL ? request->lock_owner : &request->core->nobody;
}

/* ---- answering ---- */

static uint64_t *count_of_status(struct guard_locks_stats *stats, enum guard_lock_status status)
{
    switch (status) {
    case GUARD_LOCK_BUSY:
        return &stats->busy;
    case GUARD_LOCK_UNREACHABLE:
        return &stats->unreachable;
    case GUARD_LOCK_CANCELLED:
        return &stats->cancelled;
    case GUARD_LOCK_CLOSING:
        return &stats->closed;
    case GUARD_LOCK_OK: /* counted where it is granted */
    case GUARD_LOCK_LOST:
    case GUARD_LOCK_UNKNOWN:
    case GUARD_LOCK_SHED:
    case GUARD_LOCK_INVALID:
    case GUARD_LOCK_NO_MEMORY:
        break;
    }
    return NULL;
}

static void finish_request(struct lock_request *request, enum guard_lock_status status, const char *why)
{
    struct lock_core *core = request->core;
    struct lock_owner *owner = owner_of(request);
    uint64_t *count = count_of_status(&core->stats, status);
    request->is_answered = true;
    alarm_unset(&core->alarms, &request->deadline);
    alarms_unreserve(&core->alarms);
    DL_DELETE(owner->requests, request);
    DL_APPEND(core->answered, request);
    core->stats.waiting--;
    if (count != NULL)
        ++*count;
    request->result.status = status;
    request->result.why = why;
    request->result.before = request->before;
}

/* Gives back the place, or the claim that may be on its way. */
static void drop_claim(struct lock_request *request)
{
    struct lock_claim *claim = request->claim;
    request->claim = NULL;
    if (claim != NULL)
        lock_claim_give(claim, NULL);
}

void lock_request_answer(struct lock_request *request, enum guard_lock_status status, const char *why)
{
    finish_request(request, status, lock_why_kept(request->core, why));
    if (request->queued != NULL)
        lock_share_unqueue(request);
    drop_claim(request);
    if (request->hold != NULL)
        lock_hold_drop(request->hold);
}

static uint64_t fence_of(const struct lock_request *request, const struct lock_name *name)
{
    for (size_t i = 0; i < request->hold->use_count; i++) {
        const struct lock_claim *claim = request->hold->uses[i].claim;
        for (size_t at = 0; at < claim->count; at++)
            if (claim->names[at].bytes == name->bytes &&
                memcmp(claim->names[at].encoded, name->encoded, name->bytes) == 0)
                return claim->places[at].fence;
    }
    return 0;
}

static void grant_request(struct lock_request *request)
{
    struct lock_core *core = request->core;
    if (request->has_asked)
        core->stats.granted++;
    else
        core->stats.reentered++;
    finish_request(request, GUARD_LOCK_OK, NULL);
    if (request->hold == NULL)
        return;
    for (size_t i = 0; i < request->count; i++)
        request->result.fence[i] = fence_of(request, &request->names[i]);
    lock_hold_grant(request->hold, owner_of(request), request->hold_ms);
}

/* ---- the next step ---- */

struct step {
    size_t count; /* names of this step */
    struct lock_claim *shared[GUARD_LOCK_NAMES_MAX];
    size_t shared_count;
    const struct lock_name *lacking[GUARD_LOCK_NAMES_MAX];
    size_t lacking_count;
    struct lock_share *open; /* the owner asks for it already */
    bool is_upgrade;         /* of the owner's own READ */
};

static const char UPGRADE[] =
    "its owner holds the name as READ, so it would wait for itself; give that hold back first";

static void look_at_name(const struct lock_request *request, const struct lock_name *name, struct step *step)
{
    struct lock_share *share = NULL;
    if (request->lock_owner != NULL && lock_kind_reenters(request->kind))
        share = lock_share_find(request->core, request->lock_owner, name);
    if (lock_share_is_open(share)) {
        step->open = share;
    } else if (share != NULL && share->claim != NULL) {
        step->shared[step->shared_count++] = share->claim;
        step->is_upgrade =
            step->is_upgrade || (lock_kind_excludes(request->kind) && share->claim->units != LOCK_ALL);
    } else {
        step->lacking[step->lacking_count++] = name;
    }
}

static void plan_step(const struct lock_request *request, struct step *step)
{
    bool all_at_once = request->core->config.all_at_once && request->kind != GUARD_LOCK_LATCH;
    *step = (struct step){.count = all_at_once ? request->count - request->taken : 1};
    for (size_t i = 0; i < step->count; i++)
        look_at_name(request, &request->names[request->order[request->taken + i]], step);
}

static void claim_lacking(struct lock_request *request, const struct step *step)
{
    request->claim = lock_claim_new(request, step->lacking, step->lacking_count);
    request->asked = step->count;
    request->has_asked = true;
    if (request->claim != NULL)
        lock_claim_ask(request->claim);
    else
        lock_request_answer(request, GUARD_LOCK_NO_MEMORY, NULL);
}

/* True: some of it is lost, and it begins again. */
static bool loses_what_is_late(struct lock_request *request)
{
    for (size_t i = 0; request->hold != NULL && i < request->hold->use_count; i++)
        if (lock_claim_is_late(request->hold->uses[i].claim)) {
            lock_claim_alarm(request->hold->uses[i].claim);
            return true;
        }
    return false;
}

void lock_request_advance(struct lock_request *request)
{
    struct step step;
    if (request->core->is_closed || owner_of(request)->is_ending)
        return; /* it is about to be answered */
    while (request->taken < request->count) {
        plan_step(request, &step);
        if (step.open != NULL) {
            lock_share_queue(step.open, request);
            return;
        }
        if (step.is_upgrade) {
            lock_request_answer(request, GUARD_LOCK_INVALID, UPGRADE);
            return;
        }
        for (size_t i = 0; i < step.shared_count; i++)
            lock_hold_add(request->hold, step.shared[i]);
        if (step.lacking_count == 0)
            request->taken += step.count;
        if (step.lacking_count > 0) {
            claim_lacking(request, &step);
            return;
        }
    }
    if (!loses_what_is_late(request))
        grant_request(request);
}

/* ---- what became of its claim ---- */

void lock_request_granted(struct lock_request *request)
{
    struct lock_claim *claim = request->claim;
    if (claim->kind == GUARD_LOCK_LATCH) {
        drop_claim(request);
    } else {
        request->claim = NULL;
        lock_hold_add(request->hold, claim);
    }
    request->taken += request->asked;
    lock_request_advance(request);
}

bool lock_request_refused(struct lock_request *request, uint32_t before)
{
    request->was_refused = true;
    request->before = before;
    if (!request->once)
        return true;
    lock_request_answer(request, GUARD_LOCK_BUSY, NULL);
    return false;
}

void lock_request_again(struct lock_request *request)
{
    struct lock_share *share = request->claim->places[0].share;
    if (share != NULL)
        lock_share_queue_first(share, request);
    drop_claim(request);
    if (share == NULL)
        lock_request_advance(request);
}

void lock_request_restart(struct lock_request *request)
{
    if (request->queued != NULL)
        lock_share_unqueue(request);
    drop_claim(request);
    lock_hold_drop(request->hold);
    request->taken = 0;
    lock_request_advance(request);
}

void lock_request_deadline(struct lock_request *request)
{
    if (request->was_refused)
        lock_request_answer(request, GUARD_LOCK_BUSY, NULL);
    else
        lock_request_answer(request, GUARD_LOCK_UNREACHABLE, request->core->link_why);
}

/* ---- accepting and cancelling ---- */

static int compare_names(const struct lock_name *a, const struct lock_name *b)
{
    int order = memcmp(a->encoded, b->encoded, a->bytes < b->bytes ? a->bytes : b->bytes);
    return order != 0 ? order : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static void sort_names(struct lock_request *request)
{
    for (size_t i = 0; i < request->count; i++) {
        size_t at = i;
        for (; at > 0 && compare_names(&request->names[i], &request->names[request->order[at - 1]]) < 0; at--)
            request->order[at] = request->order[at - 1];
        request->order[at] = (uint8_t)i;
    }
}

static enum guard_lock_status check_request(struct lock_core *core, const struct lock_request *request,
                                            const char **why)
{
    if (core->is_closed)
        return GUARD_LOCK_CLOSING;
    if ((core->config.kinds & 1u << request->kind) == 0) {
        *why = "this provider has no locks of this kind";
        return GUARD_LOCK_INVALID;
    }
    struct step step = {.count = request->count};
    for (size_t i = 0; i < request->count; i++)
        look_at_name(request, &request->names[i], &step);
    if (step.is_upgrade) {
        *why = UPGRADE;
        return GUARD_LOCK_INVALID;
    }
    if (core->stats.waiting >= core->config.max_requests) {
        core->stats.shed++;
        return GUARD_LOCK_SHED;
    }
    return alarms_reserve(&core->alarms) ? GUARD_LOCK_OK : GUARD_LOCK_NO_MEMORY;
}

static void reset_request(struct lock_core *core, struct lock_request *request)
{
    request->core = core;
    request->queued = NULL;
    request->claim = NULL;
    request->taken = request->asked = 0;
    request->deadline = (struct alarm){.owner = LOCK_ALARM_REQUEST};
    request->was_refused = request->is_answered = request->has_asked = false;
    request->before = 0;
    request->result = (struct guard_lock_result){.status = GUARD_LOCK_OK};
    if (request->hold != NULL)
        *request->hold = (struct lock_hold){.request = request, .renew_until_us = UINT64_MAX};
}

enum guard_lock_status lock_core_ask(struct lock_core *core, uint64_t now_us, struct lock_request *request,
                                     const char **why)
{
    lock_begin(core, now_us);
    *why = NULL;
    request->core = core;
    /* No owner enters again what it is about to lose. */
    for (size_t i = 0; i < request->count && request->lock_owner != NULL; i++) {
        const struct lock_share *share = lock_share_find(core, request->lock_owner, &request->names[i]);
        if (share != NULL && share->claim != NULL && lock_claim_is_late(share->claim))
            lock_claim_alarm(share->claim);
    }
    enum guard_lock_status status = check_request(core, request, why);
    if (status != GUARD_LOCK_OK)
        return status;
    reset_request(core, request);
    sort_names(request);
    core->stats.waiting++;
    DL_APPEND(owner_of(request)->requests, request);
    uint64_t once_us = request->once ? now_us + lock_us(core->config.once_ms) : UINT64_MAX;
    lock_set_alarm(core, &request->deadline, lock_earlier(request->deadline_us, once_us));
    lock_request_advance(request);
    if (!request->is_answered || request->result.status != GUARD_LOCK_NO_MEMORY)
        return GUARD_LOCK_OK;
    DL_DELETE(core->answered, request);
    return GUARD_LOCK_NO_MEMORY;
}

void lock_core_cancel(struct lock_core *core, uint64_t now_us, struct lock_request *request)
{
    lock_begin(core, now_us);
    if (!request->is_answered)
        lock_request_answer(request, GUARD_LOCK_CANCELLED, NULL);
}

struct lock_request *lock_core_next_answer(struct lock_core *core)
{
    struct lock_request *request = core->answered;
    if (request != NULL)
        DL_DELETE(core->answered, request);
    return request;
}
