/* SPDX-License-Identifier: MIT */
/*
 * lock_pg.h - one connection to PostgreSQL on the loop of a host: one statement at a time, its result in a callback.
 *
 *            lock_pg_connect()            UP               lock_pg_run()
 *   CLOSED ----------------> CONNECTING ------> IDLE <----------------------> RUNNING
 *     ^                          |               |     ROWS, or REFUSED          |
 *     +----- LOST, and by lock_pg_close() -------+-------------------------------+
 *
 * The only file of guard/ that knows libpq is lock_pg.c.
 *
 * Time       It has no limits of its own: the owner closes what takes too long. A connection that was closed with a
 *            statement under way is never used again, so nothing of it can come late. libpq looks host names up with
 *            a call that blocks the loop: name hosts by their numbers, or by hostaddr.
 * Callbacks  Never from inside the call that began it. They may run the next statement and close the connection, but
 *            not free its memory.
 * Secrets    No text has a password in it.
 * Threads    the loop's.
 */
#pragma once

#include "../../base/host.h"
#include <stddef.h>

enum { LOCK_PG_WHY_SIZE = 320, LOCK_PG_STATE_SIZE = 6 /* an SQLSTATE and its NUL */ };

struct lock_pg_rows; /* a PGresult */

enum lock_pg_kind {
    LOCK_PG_UP,      /* logged in */
    LOCK_PG_ROWS,    /* the statement has run: rows */
    LOCK_PG_REFUSED, /* the server did not run it; the connection goes on */
    LOCK_PG_LOST,    /* the connection is closed */
};
struct lock_pg_event {
    enum lock_pg_kind kind;
    const struct lock_pg_rows *rows; /* lent */
    const char *why;                 /* REFUSED, LOST: one line with the server's address; lent */
    const char *sqlstate;            /* the same; "" if the server named none */
};

enum lock_pg_state { LOCK_PG_CLOSED, LOCK_PG_CONNECTING, LOCK_PG_IDLE, LOCK_PG_RUNNING };

struct lock_pg {
    /* set by the owner, the rest zeroed */
    struct guard_host *host;
    void (*heard)(void *context, const struct lock_pg_event *event);
    void *context;

    /* lock_pg.c's */
    enum lock_pg_state state;
    struct pg_conn *conn; /* owned; NULL: closed */
    const char *url;      /* lent while it connects */
    size_t host_count;    /* at least 1; anybody may read it */
    size_t tried, first;
    struct pg_result *result; /* owned: of the statement under way, the first error if there is one */
    struct guard_watch watch;
    struct host_soon failing;        /* what could not even begin */
    char farewell[LOCK_PG_WHY_SIZE]; /* the server's last word to an idle connection; "" if none */
    char farewell_state[LOCK_PG_STATE_SIZE];
};

/* False: libpq cannot make anything of this connection string; `why` says what. */
bool lock_pg_check(const char *url, char why[LOCK_PG_WHY_SIZE]);

/* It is CLOSED. The answer is UP or LOST. `url` is lent until it is UP. */
void lock_pg_connect(struct lock_pg *pg, const char *url);
/* All hosts of the connection string, and all addresses of each: libpq goes from one that refuses to the next, and
 * waits for one that is silent for ever. So the owner, who knows when that was too long, sends it on while it is
 * CONNECTING. False: all have been tried. */
bool lock_pg_try_next(struct lock_pg *pg);
/* It is IDLE. Parameters are texts. The answer is ROWS, REFUSED or LOST. */
void lock_pg_run(struct lock_pg *pg, const char *statement, const char *const *params, size_t param_count);
/* Nothing is heard of it any more. Accepts one that is closed. */
void lock_pg_close(struct lock_pg *pg);

/* "" for NULL. */
const char *lock_pg_text(const struct lock_pg_rows *rows, size_t row, size_t column);
bool lock_pg_true(const struct lock_pg_rows *rows, size_t row, size_t column);
size_t lock_pg_row_count(const struct lock_pg_rows *rows);

/* Of a connection that is not closed. 150000: version 15. */
int lock_pg_version(const struct lock_pg *pg);
/* The backend that the login spoke of. */
int lock_pg_backend(const struct lock_pg *pg);
/* `what` about this server, as all texts here begin: "PostgreSQL 10.0.0.7:5432: what". */
void lock_pg_explain(const struct lock_pg *pg, const char *what, char why[LOCK_PG_WHY_SIZE]);
