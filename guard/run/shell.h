/* SPDX-License-Identifier: MIT */
/*
 * shell.h - the guard's thread: performs what the core decides. Private to shell*.c, api.c, loop*.c,
 * many.c and nested.c.
 *
 *    guard_get(), workers,        async       +------+   actions   protocol.c -> Redis
 *    loops, invalidations  -- mailbox ------> | core | ----------> workers.c -> loader
 *    Redis replies, messages, timer --------> |      |   answers   loop_return() -> callback
 *                                             +------+ ---------->
 *
 * Locking   `mutex` guards the mailbox and what is grouped below it; nobody else's code runs under it. The
 *           order is guard's mutex, then a loop's.
 * Lifetime  made by guard_open(), freed by guard_close() after the thread has ended.
 */
#ifndef GUARD_SHELL_H
#define GUARD_SHELL_H

#include "../base/forked.h"
#include "../base/hot.h"
#include "../base/say.h"
#include "../core/near_use.h"
#include "../wire/protocol.h"
#include "../wire/wake.h"
#include "loop.h"
#include "shadow.h"
#include "workers.h"

struct invalidation {
    struct core_invalidation core; /* first */
    struct invalidation *prev, *next;
    guard_invalidate_done *done;
    void *context;
    char text[]; /* plain key, NUL, encoded key, NUL */
};

/* A hit asked for a refresh behind it. */
struct refresh {
    struct refresh *next;
    const struct guard_policy *policy;
    struct core_key key;               /* points into text */
    bool of_many;                      /* with others; may be loaded in a batch */
    char filler[TOKEN_UUID_BYTES + 1]; /* "": of a stale value */
    char text[];                       /* plain key, NUL, encoded key, NUL */
};

struct guard {
    /* constant once open */
    struct guard_config config; /* redis_url and name_space are owned copies */
    struct redis_address address;
    struct protocol protocol;
    struct protocol answering; /* of the namespace that callers are answered from: mode shadow has another */
    char *answering_name;      /* owned */
    uint8_t hash_key[16];
    unsigned forks; /* forked_count() where it was opened */

    /* any thread, without the mutex */
    atomic_uint loop_count; /* ever made */
    atomic_bool refusing;   /* `draining`, for the loops */
    _Atomic uint64_t shed;  /* gets refused before they were anybody's */
    _Atomic uint64_t beat_us;
    struct redis_counters redis_counters;
    struct redis_reign reign;
    struct near *near; /* NULL: none */
    struct say say;
    atomic_bool forked_said; /* this child was told that it is one */

    /* any thread, under the mutex */
    pthread_mutex_t mutex;
    struct get *incoming, *cancels;
    struct invalidation *invalidations;
    uint32_t invalidation_count; /* accepted and not yet told */
    struct finished_load *finished;
    struct refresh *refreshes;
    struct guard_kind *kinds;
    struct guard_loop *loops;        /* attached by the host */
    struct loop_counters past_loops; /* of those that were */
    struct guard_stats published;
    bool draining, closing_asked, cancelling, ended;
    uint32_t drain_ms;
    bool cache_wanted;                       /* somebody has asked for its name */
    char cache_id[GUARD_CACHE_ID_BYTES + 1]; /* "": not known of the present connection */

    /* the guard's thread writes, any reads */
    pthread_mutex_t hot_mutex; /* the innermost of all */
    struct hot hot[GUARD_HOT_WAIT + 1];

    /* the guard's thread */
    pthread_t thread;
    uv_loop_t loop;
    uv_async_t async;
    uv_timer_t timer, limit, beat;
    struct core *core;     /* answers */
    struct core *fleet;    /* speaks to Redis: the same, but in mode shadow */
    struct shadow *shadow; /* NULL: another mode */
    uv_check_t turn;       /* the end of one */
    uv_idle_t awake;       /* active: the next turn must not block */
    bool sweep_due;        /* near_sweep() has something to do */
    struct guard_loop *own;
    struct wake *wake;
    struct workers *workers;
    char cache_name[GUARD_CACHE_ID_BYTES + 1]; /* the last that was heard, or one to give */
    bool cache_asked;                          /* and not answered */
    uint64_t cache_ask_us;                     /* again from here on */
    enum { SHELL_RUNNING, SHELL_DRAINING, SHELL_CANCELLING, SHELL_ENDING } phase;
};

/* Starts the thread. NO_MEMORY. */
enum guard_status shell_start(struct guard *guard);
/* Drains, ends the thread and waits for it. False: a loader did not end and must keep the memory. */
bool shell_stop(struct guard *guard, uint32_t drain_ms);
/* The own loop has called back all it had. */
void shell_rested(struct guard *guard);
/* The own connection came up or went down. */
void shell_link(struct guard *guard, bool up);
/* Takes the guard's side of a connection's settings; hooks and seed are the caller's. */
void shell_redis_config(struct guard *guard, struct redis_config *config);

/* A load that asks: nested, until its own deadline at most. */
struct parent_load {
    uint64_t load, deadline_us;
};

/* Any thread. guard_get() of a request that was checked; parent NULL: it is nobody's. */
enum guard_status shell_get(struct guard *guard, const struct guard_request *request,
                            const struct parent_load *parent, guard_ticket *ticket);
void shell_post_get(struct guard *guard, struct get *get);
/* A list of them, which the guard's thread finds whole. The caller holds the guard's mutex. */
void shell_add_gets(struct guard *guard, struct get *list);
/* The policy's kind and the texts of a key are copied; for want of memory nothing happens. filler as in
 * core_refresh(). */
void shell_post_refresh(struct guard *guard, const struct get *get, const char *filler);
/* OK, CLOSING, SHED. */
enum guard_status shell_post_invalidation(struct guard *guard, struct invalidation *invalidation);
/* The caller holds the guard's mutex. */
void shell_post_cancel(struct guard *guard, struct get *get);
void shell_forget_cancel(struct guard *guard, struct get *get);

/* This is a child of the process that opened the guard: nothing of it but constants may be touched. */
static inline bool shell_forked(const struct guard *guard)
{
    return guard->forks != forked_count();
}
#define SHELL_FORKED "this guard was opened before fork(), in another process; open one in this process"

/* What is wrong with asking for the key; NULL: nothing. Any thread. */
const char *shell_wrong(const struct guard *guard, const struct guard_kind *kind, const char *key);
/* Says what is wrong with a call; INVALID. Any thread. */
enum guard_status shell_refuse(struct guard *guard, const char *function, const char *wrong);

#endif
