/* SPDX-License-Identifier: MIT */
/*
 * redis/fence.h - what a connection does so that only a working master answers over it.
 *
 * GETEX without options returns what GET does at the same cost, and is a write to Redis: a replica refuses it
 * (READONLY), and so does a master that has lost its replicas (NOREPLICAS).
 *
 *     WRITE  a value is read with GETEX
 *     ROLE   ROLE, then GET. GETEX is of no use here (MISCONF, an ACL or a server without it), or the URL says
 *            fence=role, so that a pause of all writes does not delay hits. With fence=role only a script that is
 *            refused tells that the replicas are lost
 *     SHUT   NOREPLICAS, or neither may be asked: no value is read over this connection
 *
 * ROLE comes before GET in the same write: a server that is the master at some instant after a request began tells
 * that request all that was confirmed before. READONLY, or a ROLE that is not "master", ends the connection.
 *
 * The heartbeat is a GETEX of a key that is never there, when nothing was sent for a while (and unless values are
 * read with GETEX, always: only that opens the fence again): a server that was stopped is noticed before it can have
 * been replaced. Where GETEX itself is refused it is a ZREM, a write that scripts need anyway. Every tenth time, busy
 * or not, it is ROLE, for replicas that take writes; with fence=role, every time.
 *
 * What an ACL refuses for good may have been a slip of its writer: GETEX and ROLE are asked again every 15 to 30 s,
 * beside the heartbeat, and a refusal of that is no news.
 *
 * A master that stays without its replicas may have been replaced, and then its address leads elsewhere: every
 * REDIS_REDIAL_MS the connection is made anew; its greeting asks for replicas, too.
 *
 * Pure; the owner's thread. The instants are the owner's.
 */
#pragma once

#include "types.h"

enum { REDIS_BEAT_MS = 500, REDIS_ROLE_MS = 10 * REDIS_BEAT_MS, REDIS_REDIAL_MS = 10 * REDIS_BEAT_MS };
enum { REDIS_AGAIN_MS = 60 * REDIS_BEAT_MS }; /* less up to half of it, by chance */

enum redis_fence_mode { REDIS_FENCE_WRITE, REDIS_FENCE_ROLE, REDIS_FENCE_SHUT };

struct redis_fence {
    enum redis_fence_mode mode;
    bool by_role; /* asked for by the URL: GETEX only where ROLE may not be asked; the owner's, kept */
    bool no_getex, no_role;    /* this login or server, when it was last asked */
    uint64_t again_ms;         /* when they are; 0: none is lacking, or no heartbeat has found it so */
    uint32_t sooner_ms;        /* below half of REDIS_AGAIN_MS; the owner's, kept */
    bool no_replicas;          /* NOREPLICAS was the last word */
    uint64_t shut_ms;          /* no_replicas: since the first heartbeat of then; else 0 */
    uint64_t sent_ms;          /* the last command */
    uint64_t beat_ms, role_ms; /* the last heartbeat; the last that was ROLE */
};

/* A new connection, of which nothing is known yet. */
void redis_fence_begin(struct redis_fence *fence);

/* What the error means to a GETEX, or a heartbeat in its place. A class that ends the connection leaves it alone. */
void redis_fence_refused(struct redis_fence *fence, enum redis_error_class class);
/* It was answered; by_getex: and was no other in its place. */
void redis_fence_passed(struct redis_fence *fence, bool by_getex);
/* What the error means to a ROLE. */
void redis_fence_no_role(struct redis_fence *fence, enum redis_error_class class);
/* ROLE was answered. */
void redis_fence_role_passed(struct redis_fence *fence);

/* A greeted connection comes up; what the greeting has learned stays. */
void redis_fence_up(struct redis_fence *fence, uint64_t now_ms);
/* Time to see where the address leads. */
bool redis_fence_redials(const struct redis_fence *fence, uint64_t now_ms);

enum redis_beat {
    REDIS_BEAT_NONE,
    REDIS_BEAT_WRITE,
    REDIS_BEAT_ROLE,
    REDIS_BEAT_AGAIN, /* what is lacking: GETEX, ROLE; the heartbeat is still due */
};
/* What is to be asked now. */
enum redis_beat redis_fence_beat(struct redis_fence *fence, uint64_t now_ms);
/* When to look again. */
uint64_t redis_fence_next_ms(const struct redis_fence *fence);
