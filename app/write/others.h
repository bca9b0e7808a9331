/* SPDX-License-Identifier: MIT */
/*
 * others.h - where a write waits that its own cache has confirmed and that is owed to other caches, too.
 *
 *     confirmed here -> handed over: due now, the others are notified -> are its rows gone?  yes: visible
 *                                                                        not within the limit: not visible yet
 *
 * Idle while only one cache is registered, which is the rule.
 *
 * Threads: one of its own, with a connection of the store's; it calls `told`. Lifetime: closed before the store.
 */
#ifndef APP_OTHERS_H
#define APP_OTHERS_H

#include "app/write/store.h"
#include "guard/guard.h"

struct others;
struct others_wait;
/* Exactly once; must not block. */
typedef void others_told(struct others_wait *wait, bool all_confirmed);

/* The caller's; lent from others_ask() to told(). */
struct others_wait {
    struct others_wait *prev, *next; /* others.c's, with the next one */
    bool is_handed_over;
    int64_t transaction_id;
    char cache[GUARD_CACHE_ID_BYTES + 1]; /* the one that has confirmed */
    uint64_t deadline_ms;                 /* of clock_ms() */
    others_told *told;
    void *context;
};

/* NULL: no memory or thread. */
struct others *others_open(struct store *store);
/* Writes that still wait are told false. Leaves NULL; accepts NULL in *others. */
void others_close(struct others **others);
/* Never blocks. */
void others_ask(struct others *others, struct others_wait *wait);

#endif
