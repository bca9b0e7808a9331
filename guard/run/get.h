/* SPDX-License-Identifier: MIT */
/*
 * get.h - one accepted get on its way through the guard.
 *
 *     NEW -> LOOKUP (on its loop) -> CORE (guard's thread) -> called back on its loop, freed
 *               \_________________ hit _________________/
 *
 * One of a request for many is HELD between LOOKUP and CORE, see callback.h.
 *
 * It belongs to the thread of its stage; the hand-over is under a mutex. Small, because there is one for
 * every waiting request.
 */
#pragma once

#include "../core/core.h"
#include <stdlib.h>

enum get_stage {
    GET_NEW,
    GET_LOOKUP,
    GET_HELD, /* its lookup was no hit; waits for the other lookups of its `many` */
    GET_CORE,
};

struct lookup;
struct twin;
struct many;

/* What reaches the load that a get starts. */
struct asker {
    void *what;
    void (*ref)(void *asker);
    void (*unref)(void *asker); /* NULL: none is needed */
    struct guard_loop *loop;    /* where a kind that is GUARD_ON_LOOP loads; else NULL */
};

/* What its answer leaves behind for the load that it wants in the background. */
struct origin {
    struct core_origin core; /* first */
    struct asker asker;      /* counted: one reference is ours; else no more than its loop */
};

/* NULL: there is nothing to leave, or no memory. */
static inline struct origin *origin_new(const struct asker *asker)
{
    bool any = asker->ref != NULL || asker->loop != NULL;
    struct origin *origin = any ? malloc(sizeof *origin) : NULL;
    if (origin == NULL)
        return NULL;
    *origin = (struct origin){.asker = {.loop = asker->loop}};
    if (asker->ref == NULL)
        return origin;
    origin->asker = *asker;
    asker->ref(asker->what);
    return origin;
}

static inline void origin_free(struct origin *origin)
{
    if (origin != NULL && origin->asker.unref != NULL)
        origin->asker.unref(origin->asker.what);
    free(origin);
}

struct get {
    struct core_waiter waiter; /* first: a core_waiter is a get; waiter.result also holds a hit's answer */
    struct get *prev, *next;   /* in the list of its stage */
    struct get *cancel_prev, *cancel_next;
    struct guard_kind *kind;
    const struct guard_policy *policy; /* of the kind, when it was asked for */
    struct loop *loop;                 /* where it is called back */
    guard_answered *answered;
    void *context;
    guard_ticket ticket; /* none if it is one of many */
    uint64_t deadline_us;
    struct asker asker;        /* one reference is ours */
    struct guard_load *within; /* as in the request */
    unsigned flags;            /* likewise */
    struct lookup *lookup;     /* GET_LOOKUP: the one it waits for */
    struct twin *twin;         /* GET_CORE, mode shadow: what a fleet does meanwhile; NULL: nothing */
    struct many *many;         /* it is one of these; NULL: alone */
    enum get_stage stage;
    bool cancelling;               /* in the guard's list of cancels; under its mutex */
    bool cancel_posted;            /* has ever been; the thread of its loop */
    bool in_core, cancelled_early; /* guard's thread */
    uint16_t plain_bytes, encoded_bytes;
    char text[]; /* plain key, NUL, encoded key, NUL */
};

/* One that no list has. */
static inline void get_free(struct get *get)
{
    if (get->asker.unref != NULL)
        get->asker.unref(get->asker.what);
    origin_free((struct origin *)get->waiter.origin);
    free(get);
}

static inline struct core_key get_key(const struct get *get)
{
    return (struct core_key){get->text, get->plain_bytes, get->text + get->plain_bytes + 1,
                             get->encoded_bytes};
}
