/* SPDX-License-Identifier: MIT */
/*
 * pg_error.h - what an error of PostgreSQL means to its caller, by its SQLSTATE, and how it is told.
 *
 * Pure, any thread.
 */
#pragma once

#include <stdbool.h>

enum pg_outcome {
    PG_OK = 0,
    PG_UNAVAILABLE, /* not reached, lost, or refuses work now; may pass by itself */
    PG_TIMEOUT,     /* our deadline, the server's statement_timeout, or a lock wait */
    PG_REJECTED,    /* login, schema, statement or data; will not pass by itself */
    PG_CANCELLED,   /* the caller's cancel descriptor */
};

enum { PG_STATE_SIZE = 6 /* an SQLSTATE and its NUL */, PG_TEXT_BYTES = 256 };

struct pg_fault {
    char sqlstate[PG_STATE_SIZE]; /* "" if the server did not name one */
    char text[PG_TEXT_BYTES];     /* one line for the log: never a password, never a row's data */
    bool in_doubt;                /* it was sent and its end was not heard: it may have been committed */
};

/* Returns the outcome. The first fault wins: another one changes nothing. */
enum pg_outcome pg_fault_set(struct pg_fault *fault, enum pg_outcome outcome, const char *sqlstate,
                             const char *text);

/* "ok", "unavailable", ... */
const char *pg_outcome_name(enum pg_outcome outcome);

/* Never PG_OK or PG_CANCELLED. An unknown state is PG_REJECTED. */
enum pg_outcome pg_error_classify(const char *sqlstate);

/* libpq has no accessor for the SQLSTATE of a refused login; at full verbosity its text has one, as in
 * "FATAL:  28P01: password ...". False: there is none, the server was not reached. The last one counts: a
 * list of hosts is tried in order. */
bool pg_error_find_state(const char *text, char out[PG_STATE_SIZE]);
