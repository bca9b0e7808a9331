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
 * Every process with the right to write pays every row, whoever owes it: a client's write whose process died
 * between COMMIT and invalidation, one whose Redis was away, a change made by hand in psql. Two never pay the
 * same row at once (FOR UPDATE SKIP LOCKED); one that dies while paying holds a row up for CLAIM_MS. A row is
 * deleted only after Redis has confirmed; paying twice is harmless.
 *
 * Redis away: claimed rows are tried until it is back; the guard repeats each attempt by itself.
 *
 * Threads: one of its own. open and close on one thread, the rest on any. Lifetime: closed before
 * guard_close(), whose callbacks it may still be waiting for.
 */
#ifndef APP_OUTBOX_H
#define APP_OUTBOX_H

#include "app/store.h"
#include "guard/guard.h"

struct outbox;

struct outbox_config {
    const char *conninfo; /* to listen with; lent until outbox_close(), like the next two */
    struct store *store;
    struct guard *guard;
    uint32_t poll_ms; /* looks at the table at least this often */
};

/* NULL: no memory, descriptor or thread. */
struct outbox *outbox_open(const struct outbox_config *config);
/* Ends the thread, after one more attempt to settle. Leaves NULL; accepts NULL in *outbox. */
void outbox_close(struct outbox **outbox);

/* Redis has confirmed all that this transaction owes: its rows may go. Never blocks. */
void outbox_settle(struct outbox *outbox, int64_t transaction_id);
/* A write could not be paid by its own process: look soon. Never blocks. */
void outbox_look(struct outbox *outbox);

struct outbox_stats {
    uint64_t paid, unpaid;             /* rows by whether Redis confirmed; unpaid ones are tried again */
    uint64_t settled;                  /* writes paid by this process before they were answered */
    uint64_t notified;                 /* notifications heard */
    uint64_t row_count, oldest_age_ms; /* as last measured; counted to 10 000 */
    bool listening;
};
void outbox_stats(struct outbox *outbox, struct outbox_stats *out);

#endif
