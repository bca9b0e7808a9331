/* SPDX-License-Identifier: MIT */
/*
 * pgbouncer.h - a private PgBouncer before one PostgreSQL: what stands between a web application and its database.
 *
 * Transaction mode with one connection to the server, so that all its clients share one session.
 *
 * Threads: as proc.h has it. Errors: false, and the reason with the end of the log on stderr.
 */
#ifndef LOAD_STACK_PGBOUNCER_H
#define LOAD_STACK_PGBOUNCER_H

#include "load/stack/rival.h"

/* Returns when it takes connections. rival_stop() stops it. */
bool pgbouncer_start(struct rival *pgbouncer, uint16_t postgres_port);

#endif
