/* SPDX-License-Identifier: MIT */
/*
 * outbox.h - pays what committed changes owe: rows of the table `invalidations`, see sql/schema.sql.
 *
 *                 +------------------------------------------------------------------+
 *                 v                                                                  |
 *     settle what writers paid -> claim what is due -> invalidate in Redis -> delete, or give back
 *                                       | nothing more
 *                                       v
 *               wait for: NOTIFY, a paid write, the next row to fall due, poll_ms, the end
 *
 * Every process with the right to write pays every row, whatever left it: a client's write whose process died between
 * COMMIT and invalidation, one during which Redis was away, a change made by hand in psql. Two processes never pay
 * the same row at once (FOR UPDATE SKIP LOCKED); one that dies while paying holds a row up for CLAIM_MS. A row is
 * deleted only after Redis has confirmed; paying twice is harmless.
 *
 * Several caches (sql/schema.sql, "caches"): a process pays for its own, renews its registration, and drops those
 * that have been silent for longer than anything in them can live. A row that its cache has confirmed is left to the
 * others and deleted by the last of them.
 *
 * Redis away: the process does not know which cache this is, and claims nothing; where Redis hangs, claimed rows are
 * tried until it is back, and the guard repeats each attempt by itself.
 *
 * Threads: one of its own. open and close on one thread, the rest on any. Lifetime: closed before guard_close(),
 * whose callbacks it may still be waiting for.
 */
#pragma once

#include "app/catalog/cache_gate.h"
#include "app/write/store.h"
#include "guard/guard.h"

struct outbox;

/* Everything is lent until outbox_close(); the gate is told of every beat. NULL: no memory, descriptor or thread. */
struct outbox *outbox_open(const struct settings *settings, struct pg_pool *store, struct guard *guard,
                           struct cache_gate *gate);
/* Ends the thread, after one last attempt to settle. Leaves NULL; accepts NULL in *outbox. */
void outbox_close(struct outbox **outbox);

/* This cache has confirmed all that the transaction owes, and there is no other: its rows may go. Never blocks. */
void outbox_settle(struct outbox *outbox, int64_t transaction_id, const char *cache);
/* A write was not paid before its answer: look soon. Never blocks. */
void outbox_wake(struct outbox *outbox);

/* Invalidates the target of a row, a key or a tag (document.h). As guard_invalidate(). */
enum guard_status outbox_invalidate(struct guard *guard, const char *target, uint32_t limit_ms,
                                    guard_invalidate_done *done, void *context);

struct outbox_stats {
    uint64_t paid, unpaid;             /* rows by whether Redis confirmed; unpaid ones are tried again */
    uint64_t settled;                  /* writes paid by this process before they were answered */
    uint64_t notified;                 /* notifications heard */
    uint64_t row_count, oldest_age_ms; /* as last measured; counted to 10 000 */
    bool listening;
    uint64_t cache_count, caches_dropped; /* registered at the last beat; dropped by this process */
};
void outbox_stats(struct outbox *outbox, struct outbox_stats *out);

/* ---- the other caches: other_caches.c ---- */

/*
 * Where a write waits that its own cache has confirmed and that is owed to other caches, too.
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
struct other_caches *other_caches_open(struct pg_pool *store);
/* Writes that still wait are told false. Leaves NULL; accepts NULL in *others. */
void other_caches_close(struct other_caches **others);
/* Never blocks. */
void other_caches_await(struct other_caches *others, struct other_caches_wait *wait);
