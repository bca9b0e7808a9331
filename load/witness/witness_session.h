/* SPDX-License-Identifier: MIT */
/*
 * witness_session.h - one session with PostgreSQL that is never waited for longer than told.
 *
 *     no connection --(ask)--> connected --(ask)--> asked --> answered
 *           ^                                         |
 *           +--- broken, or silent for 3 s -----------+--- end_us has passed: AWAY; the answer is waited for by the
 *                                                          next ask, and forgotten
 *
 * So a server that is stopped for a while costs its askers their limits and gets no pile of new connections. Names
 * are looked up for the first connection only.
 *
 * Threads: one at a time. Errors: the outcome, and the reason as one line in `why`.
 */
#ifndef LOAD_WITNESS_WITNESS_SESSION_H
#define LOAD_WITNESS_WITNESS_SESSION_H

#include "load/witness/witness_view.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WITNESS_CELLS = 4, WITNESS_CELL_BYTES = 160 };

enum witness_outcome {
    WITNESS_ANSWERED = 0,
    WITNESS_REFUSED, /* the server says no: the statement is wrong, or not allowed */
    WITNESS_AWAY     /* no connection, or no answer in time */
};

struct pg_conn;

struct witness_session {
    const char *url;            /* lent */
    const char *greeting;       /* lent: asked on each new connection; NULL: nothing */
    int end_fd;                 /* every wait is over when it is readable; -1: none */
    struct pg_conn *connection; /* owned; NULL: none */
    char address[64];           /* of the first connection's server; "": a socket, or several hosts */
    bool is_busy;               /* an answer is outstanding, since ... */
    uint64_t asked_us;
    char why[WITNESS_WHY_BYTES];
};

/* The first row; longer cells are cut. */
struct witness_answer {
    char cells[WITNESS_CELLS][WITNESS_CELL_BYTES];
    size_t cell_count; /* 0: no row */
};

void witness_session_init(struct witness_session *session, const char *url, const char *greeting);

/* One statement with values for $1, $2, ... */
enum witness_outcome witness_session_ask(struct witness_session *session, const char *statement,
                                         const char *const *values, size_t value_count, uint64_t end_us,
                                         struct witness_answer *out);

void witness_session_clear(struct witness_session *session);

#endif
