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
 * Every load begins with the comment source_marker() and is counted by it in the server's statement log.
 *
 * Threads: a connection belongs to one thread at a time. Errors: false or LAB_FAILED, and the reason on
 * stderr.
 */
#ifndef LOAD_LAB_SOURCE_H
#define LOAD_LAB_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pg_conn;

enum { SOURCE_MARKER_BYTES = 96 };
enum { LAB_FAILED = 0 }; /* versions of the row begin with 1 */

/* NULL: refused. */
struct pg_conn *source_open(const char *url);
/* Leaves NULL; accepts NULL in it. */
void source_close(struct pg_conn **connection);

/* ---- a worker's ---- */

int32_t source_load(struct pg_conn *connection, const char *key, uint32_t worker);

/* ---- the controller's ---- */

bool source_prepare(struct pg_conn *connection);                 /* an empty table */
bool source_insert(struct pg_conn *connection, const char *key); /* a row of version 1 */
bool source_change(struct pg_conn *connection, const char *key); /* its version grows by 1, committed */
int32_t source_version(struct pg_conn *connection, const char *key);

bool source_hold(struct pg_conn *connection, const char *key, uint32_t first, uint32_t last);
bool source_let_go(struct pg_conn *connection, const char *key, uint32_t worker);
bool source_let_go_all(struct pg_conn *connection);

/* Waits until so many loads are held inside PostgreSQL: their snapshots are taken. False also after the limit. */
bool source_wait_held(struct pg_conn *connection, uint32_t wanted, uint32_t limit_ms);

/* What a load of this key has in its text. Returns `marker`. */
const char *source_marker(const char *key, char marker[static SOURCE_MARKER_BYTES]);

#endif
