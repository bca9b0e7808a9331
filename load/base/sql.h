/* SPDX-License-Identifier: MIT */
/*
 * sql.h - one statement over a PostgreSQL connection of its own, within a limit.
 *
 * A server that is stopped in the middle of it costs limit_ms and no more; only the look-up of a host's name by
 * libpq cannot be bounded. Several statements in one text are one transaction, unless they say otherwise.
 *
 * Threads: any. Errors: false, and the server's or libpq's reason as one line; it holds no password.
 */
#ifndef LOAD_BASE_SQL_H
#define LOAD_BASE_SQL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SQL_WHY_BYTES = 256 };

/* The first column of the last statement's first row goes into `value` ("" if none); may be NULL. */
bool sql_run(const char *url, const char *statement, uint32_t limit_ms, char *value, size_t value_bytes,
             char why[static SQL_WHY_BYTES]);

#endif
