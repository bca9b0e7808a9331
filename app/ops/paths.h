/* SPDX-License-Identifier: MIT */
/*
 * paths.h - what there is behind the paths of ops.c, and the parts of the service that it asks and changes.
 *
 * Threads: that of the connection. What returns bool is false if nothing could be queued: close the connection.
 */
#pragma once

#include "app/base/settings.h"
#include "app/catalog/cache_gate.h"
#include "app/catalog/catalog.h"
#include "app/http/server.h"
#include "app/view/stream.h"
#include "guard/guard.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* What operators ask and change. All lent. */
struct ops_service {
    struct guard *guard;
    struct catalog *catalog;
    struct cache_gate *gate;
    struct server *server;
    struct running *running; /* NULL: running loads are not kept */
};

/* The times of this process, which POST /policy changes. */
struct policy {
    pthread_mutex_t lock;
    struct settings settings; /* under lock: as they are now; texts are lent */
};

/* All lent. */
struct ops_parts {
    struct ops_service of; /* as ops_open() was told */
    const char *name_space;
    enum guard_mode mode;
    uint64_t started_ms, started_at_ms; /* the second since 1970 */
    const atomic_bool *draining;
    struct policy *policy;
    struct stream *stream;
    struct places *places; /* ops.h */
};

/* ---- look.c ---- */

/* Does the process do its work? Only that its threads turn: what it talks to may be away. On any thread. */
struct health {
    bool is_well;
    uint32_t server_loops;
    uint32_t server_turn_ms, guard_turn_ms; /* since the one that turned longest ago did */
};
struct health ops_health(const struct server *server, struct guard *guard);

bool look_healthz(const struct ops_parts *parts, struct MHD_Connection *connection);
bool look_readyz(const struct ops_parts *parts, struct MHD_Connection *connection);
bool look_metrics(const struct ops_parts *parts, struct MHD_Connection *connection);
bool look_hot(const struct ops_parts *parts, struct MHD_Connection *connection);
/* For struct stream; `context` is a struct ops_parts. */
void look_sample(void *context, struct live_sample *out);

/* ---- metrics.c ---- */

/*
 * Everything that is counted, in Prometheus's text format 0.0.4.
 *
 * Names: guard_* is the guard's, catalogd_* the service's, process_* what every Prometheus process calls so.
 * guard_kind_* is of one kind of data, with its name as a label: what guard_* is the sum of. Labels come from fixed
 * sets of words; a key or an id is never one.
 *
 * Pure, any thread.
 */

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

/* ---- change.c ---- */

bool change_invalidate(const struct ops_parts *parts, struct MHD_Connection *connection);
bool change_expire(const struct ops_parts *parts, struct MHD_Connection *connection);
bool change_refresh(const struct ops_parts *parts, struct MHD_Connection *connection);
bool change_clear(const struct ops_parts *parts, struct MHD_Connection *connection);

void policy_init(struct policy *policy, const struct settings *settings);
void policy_clear(struct policy *policy);
/*
 * Answers with the times as they are then; without arguments they only are told. All of them change or none: checked
 * as at the start (settings_change()), then the cache is told how long its entries may live (cache_gate_set_life()),
 * then the kinds follow, then the answers. It is this process's alone and ends with it: who means it to last changes
 * the settings too.
 */
bool change_policy(const struct ops_parts *parts, struct MHD_Connection *connection);
