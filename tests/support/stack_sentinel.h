/* SPDX-License-Identifier: MIT */
/*
 * stack_sentinel.h - private Redis servers, a master and its replicas, and three Sentinels that watch them.
 *
 *     stack_sentinel_start() --> sentinel[0..2] agree on node[0], and know of all its replicas
 *
 * Each server is a struct stack_redis of its own: what befalls it, kill, restart, pause, resume, and any command go
 * there. A server keeps its role over a restart as one with a file of settings does: a master that was killed comes
 * back as a master, empty, until the Sentinels turn it into a replica.
 *
 * Threads, errors: as stack.h has it.
 */
#pragma once

#include "load/stack/stack.h"

enum {
    STACK_SENTINELS = 3,
    STACK_SENTINEL_NODES_MAX = 4,
    STACK_SENTINEL_URL_BYTES = 512,
    STACK_SENTINEL_NOBODY = STACK_SENTINEL_NODES_MAX
};

/* The name that the Sentinels know the master by. */
#define STACK_SENTINEL_NAME "cache"

/* Before a server is started: the address it listens on, lent until stack_sentinel_stop(); the thread may have been
 * moved to where that is (network.h). */
typedef const char *stack_sentinel_host(void *context, bool is_sentinel, size_t at);

/* All texts and lists are lent until stack_sentinel_stop(). NULL: none. */
struct stack_sentinel_options {
    size_t replica_count;
    const char *const *arguments; /* of master and replicas: "--min-replicas-to-write", "1", ..., NULL */
    const char *const *tls;       /* of all servers: "--tls-cert-file", ..., NULL; they use it, too */
    uint32_t down_after_ms;       /* 0: 1000 */
    uint32_t failover_limit_ms;   /* 0: 10000; none begins within twice that after another */
    bool hurried;                 /* the Sentinels ask and tell several times as often as by themselves */
    const char *password;         /* of master and replicas */
    const char *sentinel_user;    /* the only one that may ask a Sentinel; NULL: the default one */
    const char *sentinel_password;
    stack_sentinel_host *host_of; /* NULL: all on 127.0.0.1 */
    void *host_context;
};

struct stack_sentinel {
    struct stack_redis node[STACK_SENTINEL_NODES_MAX]; /* the first one is the master, at first */
    size_t node_count;
    struct stack_redis sentinel[STACK_SENTINELS];
    struct stack_sentinel_options options;
    char url
        [STACK_SENTINEL_URL_BYTES]; /* redis+sentinel:// or, with TLS, rediss+sentinel://; passwords, too */
};

/* Returns when the Sentinels agree, know each other and all replicas, and these have what the master has. */
bool stack_sentinel_start(struct stack_sentinel *fleet, const struct stack_sentinel_options *options);
void stack_sentinel_stop(struct stack_sentinel *fleet);

/* One of the Sentinels again, in as much of a hurry as it was. */
bool stack_sentinel_restart(struct stack_sentinel *fleet, size_t sentinel);

/* For what follows: a Sentinel that finds 2 s missing, because its machine stood still, does nothing for 30
 * s (TILT). */
enum { STACK_SENTINEL_LIMIT_MS = 90000 };

/* Which node the Sentinels, most of all three of them, call the master; STACK_SENTINEL_NOBODY. */
size_t stack_sentinel_master(struct stack_sentinel *fleet);

/* Until they name another than `old`, and that one says of itself that it is a master; STACK_SENTINEL_NOBODY. */
size_t stack_sentinel_wait_switch(struct stack_sentinel *fleet, size_t old, uint32_t limit_ms);

/* Until all is as after the start, with whatever master: servers that do not run are not waited for. */
bool stack_sentinel_wait_settled(struct stack_sentinel *fleet, uint32_t limit_ms);

/* The planned one: SENTINEL FAILOVER at one of them. False: refused. */
bool stack_sentinel_failover(struct stack_sentinel *fleet);
