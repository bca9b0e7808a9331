/* SPDX-License-Identifier: MIT */
/*
 * pg_cancel.h - asks the server to end the query of an abandoned connection.
 *
 * Before PostgreSQL 17 libpq can only do this with PQcancel(), which opens a second connection and waits for its end
 * without any limit: for minutes if packets are lost, for as long as the server is stopped. So one thread does the
 * waiting, and never a load worker. A request that finds the queue full is dropped; it is a courtesy, because the
 * server ends an unwanted query by itself when it sees the connection gone (client_connection_check_interval) or at
 * statement_timeout.
 *
 * A late request cannot hit another query: it names the backend of a connection that is never used again.
 *
 * Threads: any.
 */
#ifndef APP_PG_CANCEL_H
#define APP_PG_CANCEL_H

#include <libpq-fe.h>

struct pg_canceller;

/* NULL: no memory or no thread. */
struct pg_canceller *pg_canceller_open(void);

/* Gives the queue one second; a thread that is then still inside PQcancel() is left to itself and frees the rest when
 * it returns. Leaves NULL; accepts NULL in *canceller. */
void pg_canceller_close(struct pg_canceller **canceller);

/* Never blocks. The connection may be finished right after. */
void pg_canceller_send(struct pg_canceller *canceller, PGconn *conn);

#endif
