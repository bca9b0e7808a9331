/* SPDX-License-Identifier: MIT */
/*
 * pg_session.h - a login at the primary of a database, whichever of its hosts that is, and until when it is worth
 * anything.
 *
 * Hosts     All of the connection string's, and all addresses of each, are tried as RFC 8305 has it: each has a head
 *           start of 250 ms, or of its share of the time if that is less, before the next one is tried beside it,
 *           and the first session wins. PQconnectPoll() alone waits for the first silent one for ever, and an address
 *           that is given up after its share may be one that is only slow. The one that answered last is tried first.
 * Primary   A standby is refused at the login, unless it will do. That it is one may change only by a restart, or by
 *           its becoming the primary.
 * Reigns    A session outlives the reign of its primary if the old one lives on: fenced, by being read-only, or
 *           because only the name has moved away. What finds its session read-only ends the reign, for all pools and
 *           listeners of the process, and each session is replaced when it is old.
 *
 * Threads: any.
 */
#pragma once

#include "app/pg/pg_error.h"

#include <libpq-fe.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* ---- waiting ---- */

/* libpq's non-blocking calls with a deadline and a way to give up: everything that waits for the server. A failed
 * wait leaves the connection in an unknown state: it is to be closed. */

struct pg_wait {
    PGconn *conn;
    uint64_t deadline_ms;
    int cancel_fd; /* readable: give up; -1: none */
    struct pg_fault *fault;
    const char *late; /* what is said when the deadline passes */
};

/* Until everything is sent. */
enum pg_outcome pg_wait_flush(const struct pg_wait *wait);
/* Until the next result is here: *out, yours; NULL: the statement has no more. */
enum pg_outcome pg_wait_result(const struct pg_wait *wait, PGresult **out);
/* PG_UNAVAILABLE, with libpq's message. */
enum pg_outcome pg_wait_lost(const struct pg_wait *wait);

/* ---- logins ---- */

/* Where logins lead; one for all those of a pool. */
struct pg_place {
    const char *conninfo; /* lent */
    bool standby_will_do;
    uint32_t session_ms;  /* 0: a session does not age */
    _Atomic size_t first; /* of its addresses, to be tried */
};

/* Until when a session is of use. */
struct pg_life {
    uint64_t reign, until_ms;
};

struct pg_login {
    struct pg_place *place;
    struct pg_wait *wait; /* its connection is replaced, by NULL unless there is a session */
    PQnoticeReceiver hear_notice;
    void *context;
    struct pg_life life; /* PG_OK: what has begun */
};
enum pg_outcome pg_session_log_in(struct pg_login *login);

/* It is of no use any more: to be replaced once nothing runs in it. */
bool pg_session_is_over(const struct pg_life *life);
/* It was found read-only. */
void pg_session_end_reign(const struct pg_life *life);

/* ---- taking a statement back: pg_cancel.c ---- */

/*
 * Asks the server to end the query of an abandoned connection.
 *
 * Before PostgreSQL 17 libpq can only do this with PQcancel(), which opens a second connection and waits for its end
 * without any limit: for minutes if packets are lost, for as long as the server is stopped. So each request waits in
 * a thread of its own, and never in a load worker. Beyond PG_CANCELS_MAX of those it is dropped; it is a courtesy,
 * because the server ends an unwanted query by itself when it sees the connection gone
 * (client_connection_check_interval) or at statement_timeout.
 *
 * A late request cannot hit another query: it names the backend of a connection that is never used again.
 */

/* Never blocks. The connection may be finished right after. */
void pg_cancel_send(PGconn *conn);
/* Gives those under way, of all pools, one second; a thread that is then still inside PQcancel() is left to
 * itself. */
void pg_cancel_wait(void);
