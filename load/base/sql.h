/* SPDX-License-Identifier: MIT */
/*
 * sql.h - statements for PostgreSQL, none of which is waited for longer than told: one over a connection of its own,
 * or many over a session.
 *
 * An answer that does not come in time ends the connection, and the next question opens another one. What cannot be
 * bounded is libpq's look-up of names.
 *
 * A statement without values may be several in one text: they are one transaction, unless they say otherwise.
 *
 * Threads: any, a session one at a time. Errors: the outcome, and the server's or libpq's reason as one line; it
 * holds no password.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SQL_WHY_BYTES = 256, SQL_CELLS = 4, SQL_CELL_BYTES = 160 };

/* The first column of the last statement's first row goes into `value` ("" if none); may be NULL. */
bool sql_run(const char *url, const char *statement, uint32_t limit_ms, char *value, size_t value_bytes,
             char why[static SQL_WHY_BYTES]);

enum sql_outcome {
    SQL_ANSWERED = 0,
    SQL_REFUSED, /* the server says no: the statement is wrong, or not allowed */
    SQL_AWAY     /* no connection, or no answer in time */
};

struct pg_conn;

struct sql_session {
    const char *url, *name;     /* lent; the name is for pg_stat_activity */
    const char *greeting;       /* lent: asked on each new connection; NULL: nothing */
    struct pg_conn *connection; /* owned; NULL: none */
    char *value;                /* of sql_run() alone: for the first cell, whole; lent. NULL: none */
    size_t value_bytes;
    char why[SQL_WHY_BYTES];
};

/* The first row; longer cells are cut. */
struct sql_answer {
    char cells[SQL_CELLS][SQL_CELL_BYTES];
    size_t cell_count; /* 0: no row */
};

void sql_session_init(struct sql_session *session, const char *url, const char *name, const char *greeting);

/* One statement with values for $1, $2, ... */
enum sql_outcome sql_session_ask(struct sql_session *session, const char *statement,
                                 const char *const *values, size_t value_count, uint64_t end_us,
                                 struct sql_answer *out);

void sql_session_clear(struct sql_session *session);
