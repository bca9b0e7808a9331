/* SPDX-License-Identifier: MIT */
/*
 * pg_listen.h - one connection to PostgreSQL that only listens (LISTEN, NOTIFY).
 *
 *     CLOSED --pg_listen_connect--> LISTENING --lost--> CLOSED
 *
 * A notification is a hint: the server forgets those for clients that are not connected. So its user looks at the
 * table after every connect, and now and then anyway.
 *
 * A connection may be dead for long before it shows, and silence says nothing: so the server is asked for a sign of
 * life when it has been silent for a while. That is a Sync, of which neither a statement nor a log comes. The session
 * is of the primary, and is replaced when it is old (pg_session.h).
 *
 * A pooler in transaction mode cannot listen; the connection is then refused, or hears nothing.
 *
 * Threads: one at a time. Time: every wait has a limit and ends early when cancel_fd becomes readable.
 */
#pragma once

#include "app/pg/pg_error.h"

#include <stdbool.h>
#include <stdint.h>

struct pg_listener;

/* `conninfo` and `channel` (a plain name) are lent until pg_listener_close(); session_ms: as in pg.h. NULL: no
 * memory. */
struct pg_listener *pg_listener_open(const char *conninfo, const char *channel, uint32_t session_ms);
/* Leaves NULL; accepts NULL in *listener. */
void pg_listener_close(struct pg_listener **listener);

/* Call it while it is not listening. PG_OK: it listens; anything else: `fault` says why. */
enum pg_outcome pg_listener_connect(struct pg_listener *listener, uint32_t limit_ms, int cancel_fd,
                                    struct pg_fault *fault);
bool pg_listener_is_up(const struct pg_listener *listener);

/* To poll for reading; -1 while it is not listening. */
int pg_listener_fd(const struct pg_listener *listener);
/* Returns how many notifications have come; afterwards it may be down. Never blocks. */
uint32_t pg_listener_hear(struct pg_listener *listener);
/* At pg_listener_due_ms() at the latest: asks for a sign of life, or has waited for one long enough. Never blocks.
 * False: it is down, or its session was over: *why, or NULL if there is nothing to complain of. */
bool pg_listener_look(struct pg_listener *listener, const char **why);
uint64_t pg_listener_due_ms(const struct pg_listener *listener);
