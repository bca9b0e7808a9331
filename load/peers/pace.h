/* SPDX-License-Identifier: MIT */
/*
 * pace.h - requests at a fixed rate over several instances in turn, whether they keep up or not.
 *
 * Request k is due k intervals after the start. When no connection is free by then it leaves late, but its time
 * counts from the instant at which it was due. Connections stay open; one that fails is opened again.
 *
 * Threads: one at a time, that of proc.h. Time: CLOCK_MONOTONIC in microseconds.
 * Errors: false only if nothing could be asked at all; what happens to a request stands in its answer.
 */
#ifndef LOAD_PEERS_PACE_H
#define LOAD_PEERS_PACE_H

#include "load/burst.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pace_options {
    const uint16_t *ports; /* on 127.0.0.1 */
    size_t port_count;
    const char *path;
    uint32_t connection_count; /* over all instances */
    uint32_t per_second;
    uint32_t request_count;
    uint32_t request_limit_ms; /* from when it was due */
};

struct pace_answer {
    uint64_t due_us, end_us;
    uint64_t body_bytes;
    enum burst_outcome outcome;
    uint16_t status; /* 0 unless BURST_ANSWERED */
};

/* Returns when each request has its answer or its limit has passed; request_count of them go into `answers`. */
bool pace_run(const struct pace_options *options, struct pace_answer *answers);

#endif
