/* SPDX-License-Identifier: MIT */
/*
 * probe.h - requests at a fixed rate, whether the server keeps up or not.
 *
 * Request k is due at the start plus k intervals. When no connection is free by then it is sent late, but its
 * time still counts from the instant at which it was due: a server that stalls is charged for everybody who
 * would have come meanwhile.
 *
 *     probe_start() ---> a thread of its own asks ---> probe_finish()
 *
 * Threads: one probe may be started and finished by any one thread. Time: CLOCK_MONOTONIC in microseconds.
 * Errors: false, and the reason on stderr.
 */
#ifndef LOAD_BASE_PROBE_H
#define LOAD_BASE_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PROBE_CONNECTIONS_MAX = 256 };

struct probe_options {
    uint16_t port;            /* on 127.0.0.1 */
    const char *const *paths; /* asked in turn; lent until probe_finish() */
    size_t path_count;
    uint32_t connection_count;
    uint32_t per_second;
    uint32_t request_count; /* in all */
};

struct probe_answer {
    uint64_t due_us, end_us;
};

struct probe;

/* Connects and begins. */
bool probe_start(const struct probe_options *options, struct probe **out);

/* Waits for the last answer; request_count of them go into `answers`. False: not every answer was a 200.
 * Leaves NULL. */
bool probe_finish(struct probe **probe, struct probe_answer *answers);

#endif
