/* SPDX-License-Identifier: MIT */
/*
 * source.h - the slow source behind the cache: one table in PostgreSQL whose queries last as long as told.
 *
 * A load reads the row's version and then waits, inside the same statement, for an advisory lock that stands
 * for its worker. The row is read from the statement's snapshot: a query that was held answers with what was
 * true when it began, as every slow query does. The controller holds the locks of the workers whose queries
 * are to last, and lets go when it has seen what it wants to see.
 *
 *     source_hold(key, 0, 3)   the next queries of workers 0 to 3 last ...
 *     source_let_go(key, 0)    ... until here
 *
 * The work under a lock reads the row and writes back what it read plus 1. The row counts its writes itself: what it
 * counts above its version is an update that another one overwrote. It also keeps the highest fencing number that it
 * has been shown, and takes no write with a lower one.
 *
 * Every load begins with the comment source_marker() and is counted by it in the server's statement log.
 *
 * Threads: a connection belongs to one thread at a time. Errors: false or LAB_FAILED, and the reason on
 * stderr.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pg_conn;

enum { SOURCE_MARKER_BYTES = 96 };
/* Versions of the row begin with 1. */
enum { LAB_FAILED = 0, LAB_REFUSED = -1 /* the scheme says that it cannot work here */ };

/* NULL: refused. */
struct pg_conn *source_open(const char *url);
/* Leaves NULL; accepts NULL in it. */
void source_close(struct pg_conn **connection);

/* ---- a worker's ---- */

int32_t source_load(struct pg_conn *connection, const char *key, uint32_t worker);

/* Shows the row a fencing number; false: it has seen a higher one. */
bool source_claim(struct pg_conn *connection, const char *key, uint64_t fence);
/* Writes the row; `fence` 0: whatever it has seen. False: it refused a lower number. */
bool source_store(struct pg_conn *connection, const char *key, int32_t version, uint64_t fence);

/* ---- the controller's ---- */

bool source_prepare(struct pg_conn *connection);                 /* an empty table */
bool source_insert(struct pg_conn *connection, const char *key); /* a row of version 1 */
bool source_change(struct pg_conn *connection, const char *key); /* its version grows by 1, committed */
int32_t source_version(struct pg_conn *connection, const char *key);
/* Writes that another one has overwritten unseen; -1: no answer. */
int32_t source_lost_updates(struct pg_conn *connection, const char *key);

/* How many sessions wait for, and have, an advisory lock with a key of 64 bits, as locks here do; -1: no answer. */
int32_t source_waiting(struct pg_conn *connection);
/* Ends all sessions that have such a lock: pg_terminate_backend(). False: there is none. */
bool source_end_holders(struct pg_conn *connection);

bool source_hold(struct pg_conn *connection, const char *key, uint32_t first, uint32_t last);
bool source_let_go(struct pg_conn *connection, const char *key, uint32_t worker);
bool source_let_go_all(struct pg_conn *connection);

/* Waits until so many loads are held inside PostgreSQL: their snapshots are taken. False also after the limit. */
bool source_wait_held(struct pg_conn *connection, uint32_t wanted, uint32_t limit_ms);

/* What a load of this key has in its text. Returns `marker`. */
const char *source_marker(const char *key, char marker[static SOURCE_MARKER_BYTES]);
