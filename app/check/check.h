/* SPDX-License-Identifier: MIT */
/*
 * check.h - `catalogd check`: is what the service stands on as it must be? Run it with the settings of the service, as
 * its user, on its machine; it starts nothing and leaves nothing behind.
 *
 *     settings --> machine     descriptors, memory, queues of the kernel, clock, token files, addresses
 *              --> redis       a guard of its own does with probe keys what the service's does with all: so every master
 *                              is reached, with every right; then the server's settings, where they may be read
 *              --> database    the schema, the rights of both logins, connections, clock
 *
 * Each of them tells what it finds (findings.h), with what to do about it. This room is where such knowledge lives; what
 * the settings need of the machine is in limits.h.
 *
 * Time: each question is given up after CHECK_LIMIT_MS, whether or not the other side hangs.
 * Exit status: 0: nothing wrong, warnings allowed; 1: something is; 2: wrong settings.
 */
#ifndef APP_CHECK_H
#define APP_CHECK_H

#include "app/base/settings.h"
#include "app/check/findings.h"

enum { CHECK_LIMIT_MS = 3000, CHECK_CLOCK_MS = 1000 /* so far apart may clocks be */ };

/* argv[1] is "check". The rest are settings, and --json. Returns the exit status. */
int check_main(int argc, char **argv, char **env);

/* Its parts. */
void check_machine(const struct settings *settings, struct findings *findings);
void check_redis(const struct settings *settings, struct findings *findings);
void check_database(const struct settings *settings, struct findings *findings);

/* A line about the clock of `what`, which said then_ms when ours was between before_ms and now. */
void check_clock(struct findings *findings, const char *what, int64_t then_ms, int64_t before_ms);

#endif
