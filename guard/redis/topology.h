/* SPDX-License-Identifier: MIT */
/*
 * redis/topology.h - one URL, opened: where its masters are, for all connections of a process to them.
 *
 *     ONE        a place that never changes
 *     SENTINEL   a place that the Sentinels name
 *     CLUSTER    a place for each node of the Cluster, and which of them has which slots
 *
 * Ownership  It owns what all loops share: places with their reigns, login, what TLS needs. A struct redis (redis.h)
 *            is opened over it for each loop and closed before it.
 * Threads    Opened and closed on the thread of its loop, or before that runs; the rest on any.
 */
#ifndef GUARD_REDIS_TOPOLOGY_H
#define GUARD_REDIS_TOPOLOGY_H

#include "../base/host.h"
#include "cluster.h"
#include "place.h"
#include "server.h"

struct redis_watcher;

/* Its URL, what TLS needs and which of them it has do not change until it is closed. */
struct redis_topology {
    struct redis_url url;
    struct redis_tls *tls;         /* owned; NULL: without TLS */
    struct redis_place place;      /* of the one master of ONE and SENTINEL */
    struct redis_watcher *watcher; /* owned; of SENTINEL; else NULL */
    struct redis_cluster *cluster; /* owned; of CLUSTER; else NULL */
    struct redis_news news;        /* of all its masters */
    /* topology.c's: */
    struct guard_host *host;
    struct host_soon closer;
    struct host_told told;
};

struct redis_topology_hooks {
    void *context;
    /* A master's reign is over: what it said last may be old. On any thread, under a lock; may be NULL. */
    void (*ended)(void *context);
};

/* NULL: INVALID (what the URL asks for is not built in, a file cannot be read), NO_MEMORY. The URL is copied. */
struct redis_topology *redis_topology_open(struct guard_host *host, const struct redis_url *url,
                                           const struct redis_topology_hooks *hooks,
                                           struct guard_error *error);
/* Calls `closed` once, soon. No struct redis over it is left. */
void redis_topology_close(struct redis_topology *topology, void (*closed)(void *context), void *context);

/* How often a master's reign ended. */
uint64_t redis_topology_reigns(const struct redis_topology *topology);

#endif
