/* SPDX-License-Identifier: MIT */
/*
 * state.h - the room run/: threads and loops. What they share, grouped by which thread may touch it.
 *
 *   any thread             a host's loop, or the guard's own         the guard's thread
 *
 *   ask -----------------> loop -> lookup -> callback (a hit)
 *     |                              | no hit
 *     +------------------> mailbox <-+
 *                             |  taken out
 *                             +------------------------------------> thread <-> core
 *   workers (loaders) ---> mailbox                                     |  |
 *     ^                                                                |  +-> calls -> wire, redis
 *     +-----------------------------------------------<----------------+
 *                          callback <- loop <- answers <---------------+
 *
 * Read in this order: kind.h, get.h (one request inside), ask, mailbox, lookup, callback, loop, thread, calls, load,
 * workers; then expire (an entry whose tag was expired), defer (a load without a thread), shadow, connected (Redis's
 * first word, and what its data is called), numbers (what a host can watch), life (start, stop), clear; tag_memory
 * stands by itself, tag_batch below lookup and calls.
 *
 * Locking   the guard's mutex, then a loop's; that of the loads (load.h) comes after the workers', and those of the
 *           hot keys and of the near cache stand by themselves. No host code is called with a lock held.
 * Lifetime  a guard is made by guard_open() and freed by guard_close() after its thread has ended; a loop lives from
 *           loop_open() until nothing of it is left on its host, and its name as long as the guard.
 */
#pragma once

#include "../base/chance.h"
#include "../base/digest.h"
#include "../base/host.h"
#include "../base/hot.h"
#include "../base/process.h"
#include "../base/say.h"
#include "../base/stats.h"
#include "../base/tickets.h"
#include "../redis/redis.h"
#include "../wire/protocol.h"
#include "get.h"
#include <pthread.h>
#include <stdatomic.h>

struct clear;
struct clearing;
struct connecting;
struct desk;
struct lookup;
struct near;
struct shadow;
struct subscription;
struct tag_batch;
struct tag_memory;
struct workers;

/* What the host's hook has not heard yet: numbers.h. */
struct told_event;
struct events {
    struct told_event *first; /* owned */
    enum guard_redis_state redis_state;
    bool breaker_open; /* both as the hook last heard */
};

/* What a loop counts of the gets that it answers itself, of one kind. Written by one thread, read by any. */
struct loop_counters {
    _Atomic uint64_t requests[STATS_REQUEST_COUNT];
    _Atomic uint64_t duration_count[GUARD_HISTOGRAM_BUCKETS], duration_sum_us;
};

/* Keys that a refresh was posted for lately, by hash: not every hit of a hot one posts another. */
enum { LOOP_RECENT_REFRESHES = 64, LOOP_LOOKUP_LISTS = 128 };
struct recent_refresh {
    uint64_t key_hash, until_us;
};

/* What a host calls its loop by. It stays until guard_close(), because a loader may still name a loop that
 * is gone. */
struct guard_loop {
    struct guard_loop *next; /* all that there ever were, under the guard's mutex */
    struct guard *guard;
    struct loop
        *there; /* NULL: gone; written on its thread under desk_lock(), for others to read under that */
    _Atomic(pthread_t) thread; /* where it was last asked */
};

struct loop {
    struct loop *prev, *next; /* all of the guard, under its mutex */
    struct guard *guard;
    struct guard_loop *name;            /* the guard's; NULL: its own loop */
    struct guard_host *host;            /* its own, unless it is the guard's */
    struct guard_host_state host_state; /* of one that an adapter of the host's made */
    struct host_wake mail;              /* something was returned, or is left to be called back */
    struct redis *redis;
    enum guard_redis_state redis_state;
    bool away;                                 /* it cannot ask Redis, for any key */
    struct lookup *lookups[LOOP_LOOKUP_LISTS]; /* those that can still be joined, by the hash of the key */
    struct get *hits;                          /* answered by a lookup, to be called back; first */
    struct get *ready;                         /* answered otherwise, likewise */
    struct chance chance;                      /* for the lots of early refreshes */
    struct recent_refresh recent_refreshes[LOOP_RECENT_REFRESHES];
    struct tag_memory *tag_memory; /* NULL until an entry with tags has been seen */
    struct host_soon sender;       /* when the turn is over: sends the next two */
    struct tag_batch *tag_batches;
    struct lookup *unsent;
    struct tag_batch *spare_batch; /* owned; the last that was answered, for the next */
    struct lookup *flying;         /* sent, not answered, and not late yet; oldest first */
    struct host_timer late;        /* for the first of them */
    bool late_set;
    struct tickets tickets;      /* the guard's own loop: under the guard's mutex */
    struct tickets many_tickets; /* likewise, of requests for many */
    uint32_t gets_of_many;       /* gets that these are for */
    uint32_t count;              /* accepted and not yet called back, changes too */
    bool detaching, parts_closed;
    void (*stated)(struct guard *guard); /* after redis_state was told; NULL: of no interest */
    struct get *outbox; /* the guard's thread: what it has answered since it last told the loop */
    struct loop *outbox_next;
    void (*detached)(void *context);
    void *detached_context;
    struct loop_counters counters[GUARD_KINDS_MAX]; /* by kind: the whole is their sum */
    pthread_mutex_t mutex;
    struct get *returned;
    struct change *changed; /* likewise under it: over, to be told */
    /* under the desk's mutex: loads that are to begin on it; that are deferred to it; that are to be called back */
    struct running_load *unbegun, *deferred, *cancelled;
    bool detaching_loads;
    bool overdue;          /* it has not begun a load in time, and has not been through its mail since */
    atomic_bool any_loads; /* of the first or the last, since its thread last looked: most mail brings none */
};

/* One call, of one or several keys and tags. Once it is posted the guard's thread's. */
struct change {
    struct invalidation *first;  /* which it is part of, and which is freed last */
    guard_invalidate_done *done; /* NULL: nobody is told */
    void *context;
    struct loop *loop;               /* where it is told; NULL: on the guard's thread */
    struct change *next;             /* in that one's list */
    size_t left;                     /* of them, to be confirmed */
    struct guard_invalidated result; /* of those that are */
};

/* One of them. */
struct invalidation {
    struct core_invalidation core; /* first */
    struct invalidation *prev, *next;
    struct change *change; /* the first one's own */
    struct change own;
    char text[]; /* plain key, NUL, encoded key, NUL */
};

/* A hit that calls for a background refresh. */
struct refresh {
    struct refresh *next;
    struct core_refresh core; /* points to the next two; its origin is owned until the core has it */
    char filler[TOKEN_UUID_BYTES + 1];
    char text[]; /* plain key, NUL, encoded key, NUL */
};

/* Handed over to the guard's thread, which has not taken it out yet. */
struct posted {
    struct get *gets;
    struct invalidation *invalidations;
    struct finished_load *finished;
    struct refresh *refreshes;
    struct clearing *clearings;
};

/* The end: DRAINING until no waiter is left or the drain time is over; CANCELLING, every waiter answered and every
 * load told to stop, until the core is idle or its loaders have had their time; ENDING, connections closing. */
enum phase { PHASE_RUNNING, PHASE_DRAINING, PHASE_CANCELLING, PHASE_ENDING };

struct guard {
    /* constant once open */
    struct guard_config config; /* redis_url and name_space are owned copies */
    struct protocol protocol;
    struct protocol answering; /* of the namespace that callers are answered from: mode shadow has another */
    char *answering_name;      /* owned */
    uint8_t hash_key[16];
    unsigned forks; /* forked_count() where it was opened */

    /* any thread, without the mutex */
    atomic_uint ticket_tables; /* ever made: two of each loop */
    atomic_bool refusing;      /* `draining`, for the loops */
    _Atomic uint64_t beat_us;
    atomic_bool doubts;                            /* a breaker is open: hits are told */
    _Atomic uint64_t heard[REDIS_SHARDS_MAX / 64]; /* the shards they came from, since the last beat */
    struct redis_counters redis_counters;
    struct redis_topology *topology; /* owned; the guard's thread opens and closes it */
    struct near *near;               /* NULL: none */
    atomic_bool away;                /* the guard's own loop cannot ask Redis, for any key */
    atomic_bool masterless;          /* a master said that it is none, and none has worked since */
    struct say say;
    atomic_bool forked_said;  /* this child was told that it is one */
    atomic_bool cache_wanted; /* guard_cache() has been called */

    /* any thread, under the mutex */
    pthread_mutex_t mutex;
    struct posted posted;
    struct get *cancels;
    uint32_t invalidation_count;               /* accepted and not yet told */
    struct connecting *connectings;            /* that wait for the first word of Redis */
    struct guard_kind *kinds[GUARD_KINDS_MAX]; /* by index; set once, before any request of it */
    unsigned kind_count;
    struct loop *loops;            /* attached by the host */
    struct guard_loop *loop_names; /* owned */
    struct guard_stats published;  /* of no kind */
    bool draining, closing_asked, cancelling, ended;
    uint32_t drain_ms;
    char cache_id[GUARD_CACHE_ID_BYTES + 1]; /* "": not known of the present connection */

    /* the guard's thread writes, any reads */
    pthread_mutex_t hot_mutex; /* nothing is taken or called under it */
    struct hot hot[GUARD_HOT_WAIT + 1];

    /* the guard's thread */
    pthread_t thread;
    struct guard_host *host; /* owned */
    struct host_wake mail;
    struct host_timer timer, limit, beat, first_word;
    bool redis_spoke; /* it is up, or said why not, or its time is over */
    struct host_soon turn_over;
    struct get *refused;   /* by the core; told with what it has answered, when that is counted */
    unsigned parts_open;   /* once it ends: of own, wake and the call that closes them */
    struct core *core;     /* answers */
    struct core *fleet;    /* speaks to Redis: the same, but in mode shadow */
    struct shadow *shadow; /* NULL: another mode */
    bool sweep_due;        /* near_sweep() has something to do */
    bool resync_due;       /* every flight that waits is to look again */
    struct events events;  /* not told yet */
    struct loop *own;
    struct subscription *wake;
    enum guard_redis_state wake_state; /* as it last said */
    struct workers *workers;
    struct desk *desk;                         /* where loads are handed in */
    struct clear *clear;                       /* owned */
    struct chance_secret secret;               /* of its tokens, once the kernel gives no chance any more */
    char cache_name[GUARD_CACHE_ID_BYTES + 1]; /* the last that was heard, or one to give */
    bool cache_asked;                          /* and not answered */
    uint64_t cache_ask_us;                     /* again from here on */
    enum phase phase;
    uint64_t cancelled_us; /* when it became CANCELLING */
};

/* This is a child of the process that opened the guard: nothing of it but constants may be touched. */
static inline bool is_forked(const struct guard *guard)
{
    return guard->forks != forked_count();
}
#define FORKED_TEXT "this guard was opened before fork(), in another process; open one in this process"

static inline bool is_own_loop(const struct loop *loop)
{
    return loop == loop->guard->own;
}

/* Of its key, for the tables of a loop. */
static inline uint64_t get_hash(const struct get *get)
{
    const struct core_key key = get_key(get);
    return digest_siphash(get->loop->guard->hash_key, key.encoded, key.encoded_bytes);
}

/* A counter has one writer. */
static inline void counter_add(_Atomic uint64_t *counter, uint64_t by)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by,
                          memory_order_relaxed);
}
