/* SPDX-License-Identifier: MIT */
/*
 * callback.h - answered gets go back to their callers on their loops, and are counted; those of a request for many
 * keys together.
 *
 * Threads   that of the loop.
 */
#pragma once

#include "kind.h"
#include "state.h"

/* Where a loop counts what becomes of this get. */
static inline struct loop_counters *counters_of(struct loop *loop, const struct get *get)
{
    return &loop->counters[get->kind->index];
}
/* Counts an answer that no waiter of the core has had. */
void callback_count(struct loop *loop, const struct get *get);
/* Some of loop->hits, apart from the others: a hit must not wait behind thousands that are woken together. The rest
 * follows in the next turn of the loop. */
void callback_hits(struct loop *loop);
/* Some of loop->hits and of loop->ready. */
void callback_ready(struct loop *loop);

/*
 * ---- the gets of one request for many keys ----
 *
 *     ask() --+-- near: the answer -------------------+-- the last one is answered: call back, free
 *             +-- get: LOOKUP -- hit -----------------+
 *             +-- get: LOOKUP -- HELD --+-- CORE -- ... --+
 *             +-- get: LOOKUP -- HELD --+
 *                   one write      all lookups answered
 *
 * Its gets are ordinary ones. Those that miss are held until no lookup of the others is outstanding and then enter
 * the core in one turn of the loop, so that their acquires are one write and their loads can be one batch (core.h).
 * All lookups have begun when the first is answered, so this costs no round trip and ends with Redis's limit.
 *
 * Lifetime  until its last get has been called back.
 */

struct many_part {
    struct many *many;
    struct get *get; /* NULL: called back */
    size_t i;        /* of its key and its result */
};

struct many {
    struct loop *loop;
    guard_ticket ticket; /* of all of them, in the loop's many_tickets */
    guard_answered *answered;
    void *context;
    struct get *held;             /* their lookups were no hits */
    uint32_t looking;             /* lookups that are outstanding */
    size_t left, asked;           /* parts: not called back, all */
    size_t count;                 /* of the results; the near cache has answered the others */
    struct guard_result *results; /* in the same allocation; their values are ours */
    struct many_part parts[];
};

/* Of a request that was checked, for so many gets. NULL: no memory. */
struct many *many_new(struct loop *loop, const struct guard_request *request, size_t asked);
/* Key i has this get; the caller's until it is accepted. */
void many_add(struct many *many, struct get *get, size_t i);
/* Before any of its gets is accepted. */
void many_discard(struct many *many);

/* A lookup of one of them, `looking`, has begun. */
/* It was no hit: holds the get. */
void many_missed(struct get *get);
/* It was a hit; or a get that is alone has been answered. */
void many_answered_here(struct get *get);
/* Looked up or held, and cancelled, as all the others are. */
void many_cancelled_here(struct get *get);
