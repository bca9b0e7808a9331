/* SPDX-License-Identifier: MIT */
/* redis/fence.c - see redis/fence.h. */
#include "fence.h"

static enum redis_fence_mode without_getex(const struct redis_fence *fence)
{
    return fence->no_role ? REDIS_FENCE_SHUT : REDIS_FENCE_ROLE;
}

static enum redis_fence_mode usual(const struct redis_fence *fence)
{
    if (fence->by_role && !fence->no_role)
        return REDIS_FENCE_ROLE;
    return fence->no_getex ? without_getex(fence) : REDIS_FENCE_WRITE;
}

void redis_fence_begin(struct redis_fence *fence)
{
    *fence = (struct redis_fence){.by_role = fence->by_role, .sooner_ms = fence->sooner_ms};
    fence->mode = usual(fence);
}

void redis_fence_refused(struct redis_fence *fence, enum redis_error_class class)
{
    switch (class) {
    case REDIS_ERROR_FENCED:
        fence->no_replicas = true;
        fence->mode = REDIS_FENCE_SHUT;
        break;
    case REDIS_ERROR_DENIED:
        fence->no_getex = true;
        fence->mode = without_getex(fence);
        break;
    case REDIS_ERROR_REFUSED:
        fence->mode = without_getex(fence);
        break;
    case REDIS_ERROR_NOSCRIPT:
    case REDIS_ERROR_FULL:
    case REDIS_ERROR_READONLY:
    case REDIS_ERROR_LOADING:
    case REDIS_ERROR_CROWDED:
    case REDIS_ERROR_MOVED:
    case REDIS_ERROR_ASK:
    case REDIS_ERROR_MOVING:
    case REDIS_ERROR_STRAYED:
    case REDIS_ERROR_OTHER: /* of the key, not of the command */
        break;
    }
}

void redis_fence_passed(struct redis_fence *fence, bool by_getex)
{
    fence->no_getex = fence->no_getex && !by_getex;
    fence->no_replicas = false;
    fence->shut_ms = 0;
    fence->mode = usual(fence);
}

void redis_fence_no_role(struct redis_fence *fence, enum redis_error_class class)
{
    if (class != REDIS_ERROR_DENIED && class != REDIS_ERROR_OTHER)
        return;
    fence->no_role = true;
    if (fence->mode == REDIS_FENCE_ROLE)
        fence->mode = fence->by_role && !fence->no_getex ? REDIS_FENCE_WRITE : REDIS_FENCE_SHUT;
}

void redis_fence_role_passed(struct redis_fence *fence)
{
    if (fence->no_role && !fence->no_replicas && (fence->by_role || fence->mode == REDIS_FENCE_SHUT))
        fence->mode = REDIS_FENCE_ROLE;
    fence->no_role = false;
}

void redis_fence_up(struct redis_fence *fence, uint64_t now_ms)
{
    fence->sent_ms = fence->beat_ms = fence->role_ms = now_ms;
}

bool redis_fence_redials(const struct redis_fence *fence, uint64_t now_ms)
{
    return fence->no_replicas && fence->shut_ms != 0 && now_ms >= fence->shut_ms + REDIS_REDIAL_MS;
}

static uint64_t beat_due_ms(const struct redis_fence *fence)
{
    bool idle_only = fence->mode == REDIS_FENCE_WRITE && fence->sent_ms > fence->beat_ms;
    return (idle_only ? fence->sent_ms : fence->beat_ms) + REDIS_BEAT_MS;
}

static uint64_t role_due_ms(const struct redis_fence *fence)
{
    return fence->no_role ? UINT64_MAX : fence->role_ms + REDIS_ROLE_MS;
}

uint64_t redis_fence_next_ms(const struct redis_fence *fence)
{
    uint64_t beat_ms = beat_due_ms(fence), role_ms = role_due_ms(fence);
    uint64_t first_ms = beat_ms < role_ms ? beat_ms : role_ms;
    return fence->again_ms != 0 && fence->again_ms < first_ms ? fence->again_ms : first_ms;
}

/* Not while the replicas are away: a refusal by the ACL would hide that. */
static bool asks_again(struct redis_fence *fence, uint64_t now_ms)
{
    bool lacks = (fence->no_getex || fence->no_role) && !fence->no_replicas;
    bool due = lacks && fence->again_ms != 0 && now_ms >= fence->again_ms;
    if (!lacks)
        fence->again_ms = 0;
    else if (due || fence->again_ms == 0)
        fence->again_ms = now_ms + REDIS_AGAIN_MS - fence->sooner_ms;
    return due;
}

enum redis_beat redis_fence_beat(struct redis_fence *fence, uint64_t now_ms)
{
    bool role = now_ms >= role_due_ms(fence) || (fence->by_role && !fence->no_role);
    if (asks_again(fence, now_ms))
        return REDIS_BEAT_AGAIN;
    if (now_ms < redis_fence_next_ms(fence))
        return REDIS_BEAT_NONE;
    fence->beat_ms = now_ms;
    if (fence->no_replicas && fence->shut_ms == 0)
        fence->shut_ms = now_ms;
    if (role)
        fence->role_ms = now_ms;
    return role ? REDIS_BEAT_ROLE : REDIS_BEAT_WRITE;
}
