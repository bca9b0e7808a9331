/* SPDX-License-Identifier: MIT */
/*
 * probe.h - a fleet under a fault: waiting for its states, holding its loads back, judging its answers.
 *
 * Beside fleet.h, for the tests in which something is stopped, killed or full. Nothing here sleeps to make
 * something happen: every wait asks for its condition every few milliseconds and fails after FLEET_LIMIT_MS,
 * naming the condition on stderr.
 *
 * Threads: all from one, see proc.h.
 */
#pragma once

#include "tests/support/fleet.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- waiting ---- */

/* The process that runs a load in this instant; waits for one. */
bool probe_find_leader(size_t *process);

/* Until nobody is connected to the process any more. */
bool probe_wait_quiet(size_t process);

/* Until /readyz says that the process is shutting down. */
bool probe_wait_draining(size_t process);

/* The process ended by itself: reaped, its pid forgotten, *status as waitpid() gives it. */
bool probe_wait_end(size_t process, int *status);

/* ---- Redis ---- */

/* Is its value there? */
bool probe_has(uint32_t product);
bool probe_wait_for(uint32_t product);

/* How many leases there are, of whatever key. */
size_t probe_lease_count(void);

/* ---- PostgreSQL ---- */

/* While the gate is shut, loads of products wait inside PostgreSQL, before their statement is logged. */
bool probe_gate_shut(struct pg_conn **gate);
void probe_gate_open(struct pg_conn **gate); /* leaves NULL; accepts NULL in *gate */

/* ---- bursts ---- */

struct probe_burst {
    struct burst_summary summary;
    uint32_t unadvised; /* 503s without Retry-After */
    uint32_t hits;      /* answers from the cache */
};

/* burst_open(), burst_run(), burst_close(), and a look at every answer. */
bool probe_burst(const struct burst_options *options, struct probe_burst *out);

/* fleet_burst() with that look. */
bool probe_ask_all(const char *path, uint32_t request_count, const struct burst_event *event,
                   struct probe_burst *out);

/* After a fault: waits until what each process loads is stored again; then so many requests on a cold product
 * must make one load and be answered 200. */
bool probe_recovers(uint32_t request_count);

/* ---- processes ---- */

size_t probe_descriptor_count(pid_t pid);

/* The fewest of several looks: the operations listener has a thread for as long as it answers one
 * question. */
uint64_t probe_thread_count(pid_t pid);
