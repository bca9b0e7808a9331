/* SPDX-License-Identifier: MIT */
/*
 * store.h - the statements of writing: products, purchases, and the outbox that comes with them.
 *
 * Each is one statement and one transaction (sql/), over a pool with the rights of WRITE_DATABASE_URL, apart from
 * that of the loads.
 *
 * Threads: any, at most so many at a time as the pool has connections. Errors are logged here, once, with their
 * SQLSTATE.
 */
#pragma once

#include "app/base/settings.h"
#include "app/base/trace.h"
#include "app/pg/pg.h"
#include "app/write/write.h"

/* False: no memory. Connects to nothing. `pays_ms`: for this long no other process pays what a write owes. */
bool store_open(const struct settings *settings, uint32_t pays_ms, struct pg_pool **out);

struct store_write {
    enum write_kind kind;
    uint64_t id;                       /* product */
    const struct write_fields *fields; /* lent, like the texts */
    const char *versions;              /* WRITE_PRODUCT: as write_versions_text(); NULL: any */
    const char *key;                   /* WRITE_PURCHASE: NULL: none */
    const struct trace *trace;         /* of its request; NULL: of none */
    uint64_t deadline_ms;
};

/* Sets all of *result except `visible`. *transaction_id: DONE, REPEATED: the one that owes invalidations. */
void store_write(struct pg_pool *store, const struct store_write *write, struct write_result *result,
                 int64_t *transaction_id);

/* ---- the outbox; false: it did not work this time ---- */

struct store_beat {
    const char *cache, *label;
    uint64_t beat_ms, silence_ms;
};

/* `cache`: the id of the one that is paid; NULL, for store_owed() and store_measure(): not known. `ids`,
 * `transactions`: texts of a pg_array. */

/* One row per target: target, and "t" if other caches are owed it too. */
bool store_owed(struct pg_pool *store, int64_t transaction_id, const char *cache, uint64_t deadline_ms,
                struct rows *rows);
/* At most count_max rows, one per claim: id, target. They are ours for lease_ms. */
bool store_claim(struct pg_pool *store, const char *cache, uint32_t count_max, uint32_t lease_ms,
                 int cancel_fd, struct rows *rows);
/* The cache has confirmed them. */
bool store_settle(struct pg_pool *store, const char *ids, const char *transactions, const char *cache);
bool store_return(struct pg_pool *store, const char *ids, const char *cache);
/* Those of the transactions that still owe something to some cache. One row each: its id, and if it owes to a silent
 * cache, one for each of those: its id, the cache's, its label, for how many ms it has been silent. */
bool store_unpaid(struct pg_pool *store, const char *transactions, uint64_t deadline_ms, struct rows *rows);
/* Purchases that need not be remembered any more, at most count_max of them. */
bool store_forget(struct pg_pool *store, uint32_t count_max, int cancel_fd, uint32_t *count);

struct store_owing {
    uint64_t row_count, oldest_ms; /* rows: counted to 10 000 */
    uint32_t next_ms;              /* until the next is due; UINT32_MAX: none is */
};
bool store_measure(struct pg_pool *store, const char *cache, int cancel_fd, struct store_owing *out);

/* ---- the caches ---- */

/* Says that this cache is in use. *cache_count: how many are registered. */
bool store_beat(struct pg_pool *store, const struct store_beat *beat, int cancel_fd, bool *is_new,
                uint32_t *cache_count);
/* Drops caches that have been silent for too long; one row each: id, label, ms of silence. */
bool store_drop_caches(struct pg_pool *store, int cancel_fd, struct rows *rows);
