/* SPDX-License-Identifier: MIT */
/*
 * metrics.h - everything that is counted, in Prometheus's text format 0.0.4.
 *
 * Names: guard_* is the guard's, catalogd_* the service's, process_* what every Prometheus process calls so.
 * guard_kind_* is of one kind of data, with its name as a label: what guard_* is the sum of. Labels come from fixed sets of
 * words; a key or an id is never one.
 *
 * Pure, any thread.
 */
#ifndef APP_METRICS_H
#define APP_METRICS_H

#include "app/http/server.h"
#include "guard/guard.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct metrics_kind {
    const char *name;
    struct guard_stats stats;
};

struct metrics {
    struct guard_stats guard;
    const struct metrics_kind *kinds; /* lent until metrics_write() returns */
    size_t kind_count;
    struct server_stats server;
    enum guard_mode mode;
    bool database_ready;
    uint64_t log_dropped;
    uint64_t started_at_ms, uptime_ms; /* the first since 1970 */
    uint64_t resident_bytes;
    uint32_t open_fds;
    uint32_t max_fds;
};

void metrics_write(const struct metrics *metrics, FILE *out);
/* "up", "down", ... */
const char *metrics_redis_state_name(enum guard_redis_state state);

#endif
