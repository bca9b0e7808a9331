/* SPDX-License-Identifier: MIT */
/*
 * pg_listen.h - one connection to PostgreSQL that only listens (LISTEN, NOTIFY).
 *
 *     CLOSED --pg_listen_connect--> LISTENING --lost--> CLOSED
 *
 * A notification is a hint: the server forgets those for clients that are not connected, and a connection may be dead
 * for long before it shows. So its user looks at the table after every connect, and now and then anyway.
 *
 * A pooler in transaction mode cannot listen; the connection is then refused, or hears nothing.
 *
 * Threads: one at a time. Time: every wait has a limit and ends early when cancel_fd becomes readable.
 */
#ifndef APP_PG_LISTEN_H
#define APP_PG_LISTEN_H

#include "app/pg/pg_error.h"

#include <stdbool.h>
#include <stdint.h>

struct pg_listener;

/* `conninfo` and `channel` (a plain name) are lent until pg_listener_close(). NULL: no memory. */
struct pg_listener *pg_listener_open(const char *conninfo, const char *channel);
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

#endif
