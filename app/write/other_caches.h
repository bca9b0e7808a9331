/* SPDX-License-Identifier: MIT */
/*
 * other_caches.h - where a write waits that its own cache has confirmed and that is owed to other caches, too.
 *
 *     confirmed here -> handed over: due now, the others are notified -> are its rows gone?  yes: visible
 *                                                        one of the others is silent, or the limit: not visible yet
 *
 * Silent is a cache that has missed three beats: stopped, cut off from the database, or gone. Not to wait for it
 * costs nothing but `visible`: its rows stay until it has confirmed them or is dropped.
 *
 * Idle while only one cache is registered, which is the rule.
 *
 * Threads: one of its own, with a connection of the store's; it calls `told`. Lifetime: closed before the store.
 */
#ifndef APP_OTHER_CACHES_H
#define APP_OTHER_CACHES_H

#include "app/write/store.h"
#include "guard/guard.h"

struct other_caches;
struct other_caches_wait;
/* Exactly once; must not block. */
typedef void other_caches_told(struct other_caches_wait *wait, bool all_confirmed);

/* The caller's; lent from other_caches_await() to told(). */
struct other_caches_wait {
    struct other_caches_wait *prev, *next; /* other_caches.c's, with the next one */
    bool is_handed_over;
    int64_t transaction_id;
    char cache[GUARD_CACHE_ID_BYTES + 1]; /* the one that has confirmed */
    uint64_t deadline_ms;                 /* of clock_ms() */
    other_caches_told *told;
    void *context;
};

/* NULL: no memory or thread. */
struct other_caches *other_caches_open(struct store *store);
/* Writes that still wait are told false. Leaves NULL; accepts NULL in *others. */
void other_caches_close(struct other_caches **others);
/* Never blocks. */
void other_caches_await(struct other_caches *others, struct other_caches_wait *wait);

#endif
