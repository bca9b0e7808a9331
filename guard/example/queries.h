/* SPDX-License-Identifier: MIT */
/*
 * queries.h - a loader that asks PostgreSQL without a thread: libpq's asynchronous calls on any epoll loop.
 *
 *     queries_load(), a load thread        the loop
 *     defer, put into the list, wake ----> queries_ready(): an idle connection sends it
 *                                          ...its answer comes: the load is finished
 *
 * Threads   queries_load() any; the rest on the thread of the loop.
 * Loop      Watch `fd` for reading, level-triggered, and call queries_ready() when it is. Nothing blocks it, except
 *           libpq's look-up of a host's name: give hostaddr.
 * Limits    A query that its load does not wait for any more keeps its connection until PostgreSQL has answered. Put
 *           options='-c statement_timeout=10000' and tcp_user_timeout=10000 into the conninfo.
 * Outage    A connection is made when the first query needs it. If it breaks, its query fails, and the next one makes
 *           another.
 * Close     After guard_close(): what is left is finished as failed.
 */
#pragma once

#include "guard.h"
#include <libpq-fe.h>
#include <pthread.h>

struct query {
    struct query *next;
    struct guard_load *load; /* NULL: cancelled, its answer is of no interest */
    struct queries *queries;
};

struct connection {
    PGconn *pg;            /* NULL: none */
    bool connecting, busy; /* busy: also while it connects; otherwise it is in the list of idle ones */
    uint32_t events;       /* epoll waits for them */
    struct query *query;   /* NULL: answered */
    struct connection *next;
};

struct queries {
    int fd;               /* an epoll descriptor: what follows is watched in it */
    int wake_fd;          /* an eventfd */
    const char *conninfo; /* lent until queries_close(), like the next one */
    const char *text;     /* SELECT one column ... WHERE ... = $1 */
    struct guard_loop *loop;
    struct connection *connections, *idle;
    size_t count;
    pthread_mutex_t mutex;
    struct query *first; /* not sent yet; under the mutex, like the next one */
    struct query **last;
};

/* count: connections at most. loop: where queries_ready() is called. False: no memory or no descriptor. */
bool queries_open(struct queries *queries, const char *conninfo, const char *text, size_t count,
                  struct guard_loop *loop);
void queries_close(struct queries *queries);
/* A guard_loader; its context is the queries. */
void queries_load(struct guard_load *load, void *queries);
void queries_ready(struct queries *queries);
