/* SPDX-License-Identifier: MIT */
/*
 * loop.h - the guard's part on one libuv loop: look up over a connection of the loop's own, answer hits,
 * pass the rest to the guard's thread and call back what it answered.
 *
 * The guard's own thread has one of these for guard_get(); every loop that a host attaches has another. The
 * lookup is `PTTL` first, then `GETEX`, in one write: the pair is not atomic, and in this order a value replaced
 * between the two looks too old, never too fresh. Gets of one key share a lookup until it is written; a get
 * that comes later gets a new one, so nobody is given what was read before he asked.
 *
 * A stale value that its policy lets be served at once is a hit, too. A hit may ask for a refresh behind it (hit.h);
 * it is answered without waiting for that, and nothing more is sent from here.
 *
 * An entry with tags is a hit only if their epochs say so (tags.h): they are asked for with one MGET more, in the same
 * write if the loop remembers which tags the key had, else behind it. What no answer came for is not answered from here.
 *
 * Threads   everything on the thread of the loop, except loop_return().
 * Locking   `mutex` guards only the list that loop_return() fills.
 */
#ifndef GUARD_LOOP_H
#define GUARD_LOOP_H

#include "../base/chance.h"
#include "../base/tickets.h"
#include "../redis/redis.h"
#include "get.h"
#include "tag_memory.h"
#include <pthread.h>
#include <stdatomic.h>

/* Written by one thread, read by any. */
struct loop_counters {
    _Atomic uint64_t hit, stale, absent_hit, cancelled, closed, failed, entry_rejected, entry_outdated;
    _Atomic uint64_t duration_count[GUARD_HISTOGRAM_BUCKETS], duration_sum_us;
};

/* Which keys had a refresh asked for lately, by hash: a hot one needs not ask with every hit. */
enum { LOOP_RECENT_REFRESHES = 64 };
struct recent_refresh {
    uint64_t key_hash, until_us;
};

struct guard_loop {
    struct guard_loop *prev, *next; /* all of the guard, under its mutex */
    struct guard *guard;
    uv_loop_t *loop;
    uv_async_t async;
    struct redis *redis;
    enum guard_redis_state redis_state;
    struct lookup *lookups; /* those that can still be joined, by key */
    struct get *hits;       /* answered by a lookup, to be called back; first */
    struct get *ready;      /* answered otherwise, likewise */
    struct chance chance;   /* for the lots of early refreshes */
    struct recent_refresh recent_refreshes[LOOP_RECENT_REFRESHES];
    struct tag_memory *tag_memory; /* NULL until an entry with tags has been seen */
    struct tickets tickets;        /* the guard's own loop: under the guard's mutex */
    uint32_t many_count;           /* of those, no requests but the stand-ins of many */
    uint32_t gets_of_many;         /* of those, gets that stand-ins stand for */
    uint32_t count;                /* accepted and not yet called back */
    bool attached;                 /* by a host; what was not may outlive the guard while its handles close */
    bool detaching, handles_closed;
    struct get *outbox; /* the guard's thread: what it has answered since it last told the loop */
    struct guard_loop *outbox_next;
    unsigned closing; /* handles and connections that are not closed yet */
    void (*detached)(void *context);
    void *detached_context;
    struct loop_counters counters;
    pthread_mutex_t mutex;
    struct get *returned;
};

/* NO_MEMORY. */
enum guard_status loop_open(struct guard *guard, uv_loop_t *uv, struct guard_loop **out);
/* When the last get has been called back and the handles are closed, frees the loop and calls `detached`. */
void loop_close(struct guard_loop *loop, void (*detached)(void *context), void *context);

/* A new get for this loop, of a request that was checked, with its key copied; not yet known to anybody. NO_MEMORY. */
enum guard_status loop_new_get(struct guard_loop *loop, const struct guard_request *request,
                               struct get **out);
/* Accepts it: it will be called back once. */
void loop_accept(struct guard_loop *loop, struct get *get);
/* False: no connection, no time or no memory; the core is next. */
bool loop_look_up(struct guard_loop *loop, struct get *get);
/* Counts an answer that no waiter of the core has had. On the loop's thread. */
void loop_count(struct guard_loop *loop, const struct get *get);
/* On the loop's thread, with the guard's mutex held. A get that is answered already stays so. */
void loop_cancel(struct guard_loop *loop, struct get *get);
/* The guard's thread has answered these (a list by prev, next). */
void loop_return(struct guard_loop *loop, struct get *list);

#endif
