/* SPDX-License-Identifier: MIT */
/*
 * check.h - `catalogd check`: is what the service stands on as it must be? Run it with the settings of the service,
 * as its user, on its machine; it starts nothing and leaves nothing behind.
 *
 *     settings --> machine     descriptors, memory, queues of the kernel, clock, token files, addresses
 *              --> redis       a guard of its own does with probe keys what the service's does with all: so every
 *                              master is reached, with every right; then the server's settings, where they may
 *                              be read
 *              --> database    the schema, the rights of both logins, connections, clock
 *
 * Each of them tells what it finds, with what to do about it. This room is where such knowledge lives; what
 * the settings need of the machine is below.
 *
 * Time: each question is given up after CHECK_LIMIT_MS, whether or not the other side hangs.
 * Exit status: 0: nothing wrong, warnings allowed; 1: something is; 2: wrong settings.
 */
#pragma once

#include "app/base/settings.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { CHECK_LIMIT_MS = 3000, CHECK_CLOCK_MS = 1000 /* so far apart may clocks be */ };

/* argv[1] is "check". The rest are settings. Returns the exit status. */
int check_main(int argc, char **argv, char **env);

/* ---- findings ---- */

/*
 * What a check has found: a line each on stdout.
 *
 *     ok       database: PostgreSQL 15.18, 93 of 97 connections free
 *     warning  clock: not kept in step with others; run chrony or systemd-timesyncd
 *     wrong    redis: appendonly is yes; CONFIG SET appendonly no: a restart must not bring back what was invalidated
 */

enum verdict { VERDICT_OK, VERDICT_WARNING, VERDICT_WRONG, VERDICT_COUNT };

struct findings {
    unsigned count[VERDICT_COUNT];
};

/* What was found, and what to do about it (NULL: nothing). No text of a setting that may hold a password. */
void findings_add(struct findings *findings, enum verdict verdict, const char *what, const char *advice,
                  const char *format, ...) __attribute__((format(printf, 5, 6)));
/* format and arguments as above */
#define findings_ok(findings, what, ...) findings_add(findings, VERDICT_OK, what, NULL, __VA_ARGS__)

/* ---- the parts of a check ---- */

void check_machine(const struct settings *settings, struct findings *findings);
void check_redis(const struct settings *settings, struct findings *findings);
void check_database(const struct settings *settings, struct findings *findings);

/* A line about the clock of `what`, which said then_ms when ours was between before_ms and now. */
void check_clock(struct findings *findings, const char *what, int64_t then_ms, int64_t before_ms);

/* ---- limits ---- */

/*
 * What the settings need of the machine, and the limits that the process sets itself.
 *
 * Threads: the main thread, before there are others.
 */

/* SERVER_LOOPS, or one per core. */
uint32_t limits_loops(const struct settings *settings);
/* Of what is open at the most. */
uint64_t limits_descriptors_needed(const struct settings *settings);
/* Of the database: loads and writes, what listens for changes, what other caches are waited for with. */
uint32_t limits_database_connections(const struct settings *settings);

/* As many descriptors as the hard limit allows, and no core file unless the settings want one: values and passwords
 * would be in it. False: not enough descriptors; the reason was logged. */
bool limits_raise(const struct settings *settings);
