/* SPDX-License-Identifier: MIT */
/*
 * pg_wait.h - libpq's non-blocking calls with a deadline and a way to give up: everything that waits for the server.
 *
 * A failed wait leaves the connection in an unknown state: it is to be closed.
 *
 * Threads: that of the connection.
 */
#ifndef APP_PG_WAIT_H
#define APP_PG_WAIT_H

#include "app/pg/pg_error.h"

#include <libpq-fe.h>
#include <stdint.h>

struct pg_wait {
    PGconn *conn;
    uint64_t deadline_ms;
    int cancel_fd; /* readable: give up; -1: none */
    struct pg_fault *fault;
    const char *late; /* what is said when the deadline passes */
};

/* Until the login is done. PG_UNAVAILABLE without a fault: libpq's message says why. */
enum pg_outcome pg_wait_login(const struct pg_wait *wait);
/* Until everything is sent. */
enum pg_outcome pg_wait_flush(const struct pg_wait *wait);
/* Until the next result is here: *out, yours; NULL: the statement has no more. */
enum pg_outcome pg_wait_result(const struct pg_wait *wait, PGresult **out);
/* PG_UNAVAILABLE, with libpq's message. */
enum pg_outcome pg_wait_lost(const struct pg_wait *wait);

#endif
