/* SPDX-License-Identifier: MIT */
/*
 * servers.h - the servers that only some schemes need, each started when the first trial asks for it.
 *
 *     masters     three Redis that know nothing of each other. The first worker reaches them through a proxy (see
 *                 proxy.h), all others directly: so a network fails for one process only
 *     pooler      a PgBouncer in transaction mode: its clients share the sessions of the server
 *     ZooKeeper   one server; the first worker reaches it through a proxy, too
 *
 * The wall clock of master SERVERS_CLOCKED is what servers_step_clock() says: a library is preloaded into it, which the
 * variable CHAOS_SHIM of the environment names (make sets it).
 *
 * Threads: one, see proc.h. Errors: false, and the reason on stderr.
 */
#ifndef LOAD_LAB_SERVERS_H
#define LOAD_LAB_SERVERS_H

#include "load/lab/scheme.h"
#include "load/stack/proxy.h"
#include "load/stack/stack.h"

#include <stdbool.h>
#include <stdint.h>

enum { SERVERS_MASTERS = 3, SERVERS_CLOCKED = 1 };

struct servers {
    struct stack_redis masters[SERVERS_MASTERS];
    size_t routes[SERVERS_MASTERS]; /* of the proxy, to each */
    struct proxy *proxy;            /* NULL: no masters yet */
    char clock_folder[PROC_PATH_BYTES];
    _Atomic int64_t *offset_s; /* mapped; of the clocked master. NULL: it has the machine's clock */
    struct stack_pgbouncer pooler;
    struct stack_zookeeper zookeeper;
    struct proxy *zookeeper_proxy; /* one route */
};

/* Their URLs, separated by spaces; for the first worker those of the proxy. */
bool servers_masters(struct servers *servers, bool is_first, char urls[static LAB_URLS_BYTES]);

/* The URL of the pooler before this PostgreSQL. */
bool servers_pooler(struct servers *servers, const struct stack_postgres *postgres,
                    char url[static LAB_URLS_BYTES]);

/* "127.0.0.1:port"; for the first worker that of the proxy. */
bool servers_zookeeper(struct servers *servers, bool is_first, char url[static LAB_URLS_BYTES]);

/* What befalls the first worker's connections to a master from here on. */
void servers_fault(struct servers *servers, size_t master, enum proxy_fault fault);

/* The clocked master's wall clock is so far ahead from here on; 0: it is right again. */
bool servers_step_clock(struct servers *servers, int64_t ahead_s);

/* No fault, and the machine's time. */
void servers_mend(struct servers *servers);

/* Accepts a struct that is all zeros. */
void servers_stop(struct servers *servers);

#endif
