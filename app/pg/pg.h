/* SPDX-License-Identifier: MIT */
/*
 * pg.h - statements to PostgreSQL and rows back, within a deadline whatever the server does.
 *
 * The room pg/ is all that talks to libpq, except that settings.c parses a URL with it. Reading order: pg (the pool
 * and one query), pg_session (a login at the primary), pg_wait (libpq with a deadline), pg_error (what a fault
 * means), rows and pg_array (results and parameters); pg_cancel and pg_listen have connections, and pg_cancel
 * threads, of their own.
 *
 * A pool holds one connection per thread that may query at a time, opened when first needed:
 *
 *              pg_query                login done, session set up
 *     NONE ----------------> CONNECTING ------------------------> IDLE <-------------+
 *      ^                         |                                 | pg_query        | all results read,
 *      |                         | failure, deadline, cancel       v                 | no transaction open
 *      +-------------------------+<--------------------------- QUERYING -------------+
 *            the connection is closed and never used again
 *
 * Time: libpq is driven non-blocking under our own deadline, the only limit that holds when the server is stopped but
 * its kernel still answers. Behind it stand the server's limits: statement_timeout and, from version 14 on,
 * client_connection_check_interval, which ends the query of a process that is gone. An abandoned query is also
 * cancelled (pg_cancel.c). DNS cannot be limited: libpq resolves host names with a blocking call. Name hosts by
 * hostaddr, or put them into /etc/hosts.
 *
 * Retries: none once a statement has been sent, because a load must be started once. A pooled connection that the
 * server has closed while it was idle is replaced before anything is sent; so is one whose prepared statement the
 * server no longer accepts (it was not run).
 *
 * Sessions are of the primary, and follow it (pg_session.h). A write that finds its session read-only ends all of
 * them and is tried once more in a new one: nothing was run.
 *
 * Without `prepare` nothing is kept in the session, which may be another one next time (pgbouncer in transaction
 * mode): limits and statement travel as one implicit transaction in one round trip. client_connection_check_interval
 * is then up to ALTER ROLE.
 *
 * A statement with a comment of its own (trace.h) is another text to the server, so it is sent unprepared, in every
 * mode; those without one stay prepared.
 *
 * Threads: any; at most `connection_count` in pg_query() at a time.
 */
#pragma once

#include "app/pg/pg_error.h"
#include "app/pg/rows.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pg_pool;

enum { PG_STATEMENTS_MAX = 32 };

struct pg_statement {
    const char *name; /* in the session, and in messages */
    const char *text; /* one statement; parameters are $n with a cast */
    size_t param_count;
};

enum { PG_CANCELS_MAX = 16 }; /* connections that ask for the end of a query, of all pools */

struct pg_config {
    const char *conninfo; /* URL or keyword=value; copied */
    size_t connection_count;
    bool prepare;
    bool standby_will_do;                  /* to read from */
    uint32_t session_ms;                   /* a session is replaced when it is so old; 0: never */
    uint32_t statement_limit_ms;           /* statement_timeout; at least the longest left_ms */
    const struct pg_statement *statements; /* lent until pg_pool_close() */
    size_t statement_count;                /* at most PG_STATEMENTS_MAX */
    bool writes;                           /* otherwise its transactions are read-only */
    uint32_t lock_limit_ms;                /* writing: lock_timeout */
    uint32_t pays_ms;                      /* writing: catalogd.pays_ms, see sql/schema.sql */
};

/* False: no memory. Connects to nothing. */
bool pg_pool_open(const struct pg_config *config, struct pg_pool **out);
/* After the last pg_query() has returned. Leaves NULL; accepts NULL in *pool. */
void pg_pool_close(struct pg_pool **pool);

struct pg_request {
    size_t statement;          /* index */
    const char *const *params; /* texts, as many as the statement has */
    uint32_t left_ms;          /* for everything: connecting, waiting, reading */
    int cancel_fd;             /* readable: give up; -1: none */
    const char *comment;       /* behind the statement's text, as it is; NULL: none */
};

/* Each statement is a transaction of its own; PG_OK means that it was committed. On PG_OK `rows` holds the result and
 * `fault` is empty; otherwise `fault` says why. A result beyond the limit of `rows` is PG_REJECTED. */
enum pg_outcome pg_query(struct pg_pool *pool, const struct pg_request *request, struct rows *rows,
                         struct pg_fault *fault);

enum pg_state {
    PG_STATE_UNTRIED = 0,
    PG_STATE_UP,    /* the server answered last time */
    PG_STATE_DOUBT, /* it did not answer within the limit: slow, or gone */
    PG_STATE_DOWN,  /* not reached, lost, or the login was refused */
};

/* What the last query found; costs nothing. A cancelled query finds nothing. */
enum pg_state pg_pool_state(const struct pg_pool *pool);
