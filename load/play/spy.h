/* SPDX-License-Identifier: MIT */
/*
 * spy.h - `stampede proxy`: stands between a service and its origin, and writes a log of what passes.
 *
 *     service ---> LISTEN, the proxy ---> ORIGIN
 *                        |
 *                        +---> FILE: a line as PostgreSQL's jsonlog has it, for each statement or request that ended
 *
 * So a witness of any origin is the witness of the log: --count log:FILE. What cannot be read is passed on, and said.
 *
 * Threads: one. Errors: an exit status, and the reason on stderr.
 */
#pragma once

/* "postgres", "mysql" or "http"; "LISTEN=ORIGIN", each HOST:PORT. Until Ctrl-C; the exit status. */
int spy_run(const char *protocol, const char *route, const char *log_path);
