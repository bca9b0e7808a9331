/* SPDX-License-Identifier: MIT */
/*
 * store.h - the statements of writing: products, purchases, and the outbox that comes with them.
 *
 * Each is one statement and one transaction (sql/), over connections of its own and with the rights of
 * WRITE_DATABASE_URL, apart from those of the loads.
 *
 * Threads: any, at most `connection_count` at a time. Time: instants are uv_hrtime() in ms.
 * Errors are logged here, once, with their SQLSTATE.
 */
#ifndef APP_STORE_H
#define APP_STORE_H

#include "app/pg.h"
#include "app/write.h"

struct store;

struct store_config {
    const char *conninfo; /* lent until store_close() */
    bool prepare;
    size_t connection_count;
    uint32_t limit_ms;      /* longest that a statement may be given */
    uint32_t lock_limit_ms; /* longest wait for a row's lock */
    uint32_t pays_ms;       /* so long nobody else is asked to pay what a write owes */
};

/* False: no memory or no thread. Connects to nothing. */
bool store_open(const struct store_config *config, struct store **out);
void store_close(struct store **store);

struct store_write {
    enum write_kind kind;
    uint64_t id;                       /* product */
    const struct write_fields *fields; /* lent, like the texts */
    const char *versions;              /* WRITE_PRODUCT: as write_versions_text(); NULL: any */
    const char *key;                   /* WRITE_PURCHASE: NULL: none */
    uint64_t deadline_ms;
};

/* Sets all of *result but `visible`. *transaction_id: DONE, REPEATED: the one that owes invalidations. */
void store_write(struct store *store, const struct store_write *write, struct write_result *result,
                 int64_t *transaction_id);

/* ---- the outbox; false: it did not work this time ---- */

/* One row per target: target. */
bool store_owed(struct store *store, int64_t transaction_id, uint64_t deadline_ms, struct rows *rows);
/* One row per claim: id, target. They are ours for lease_ms. */
bool store_claim(struct store *store, uint32_t count_max, uint32_t lease_ms, int cancel_fd,
                 struct rows *rows);
/* `ids`, `transactions`: as PostgreSQL writes arrays: "{}", "{1,2}". */
bool store_settle(struct store *store, const char *ids, const char *transactions);
bool store_return(struct store *store, const char *ids);
/* Purchases whose time is over, count_max of them at the most. */
bool store_forget(struct store *store, uint32_t count_max, int cancel_fd, uint32_t *count);

struct store_owing {
    uint64_t row_count, oldest_ms; /* rows: counted to 10 000 */
    uint32_t next_ms;              /* until the next is due; UINT32_MAX: none is */
};
bool store_measure(struct store *store, int cancel_fd, struct store_owing *out);

#endif
