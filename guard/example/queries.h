/* SPDX-License-Identifier: MIT */
/*
 * queries.h - a loader that asks PostgreSQL without a thread: libpq's asynchronous calls on any epoll loop.
 *
 *     queries_load(), a load thread        the loop
 *     defer, put into the list, wake ----> queries_ready(): an idle connection sends it
 *                                          ...its answer comes: the load is finished
 *
 * Threads   queries_load() any; the rest on the thread of the loop.
 * Loop      Watch `fd` for reading, level-triggered, and call queries_ready() when it is.
 * Close     After guard_close(): what is left is finished as failed.
 */
#ifndef QUERIES_H
#define QUERIES_H

#include "guard.h"
#include <libpq-fe.h>
#include <pthread.h>

enum { QUERIES_CONNECTIONS = 4 };

struct query {
    struct query *next;
    struct guard_load *load; /* NULL: cancelled, its answer is of no interest */
    struct queries *queries;
};

struct queries {
    int fd;           /* an epoll descriptor: what follows is watched in it */
    int wake_fd;      /* an eventfd */
    const char *text; /* SELECT one column ... WHERE ... = $1; lent */
    struct guard_loop *loop;
    PGconn *connections[QUERIES_CONNECTIONS];
    struct query *running[QUERIES_CONNECTIONS]; /* NULL: idle */
    pthread_mutex_t mutex;
    struct query *first; /* not sent yet; under the mutex, like the next one */
    struct query **last;
};

/* False: PostgreSQL cannot be reached. `loop`: where queries_ready() is called; NULL: the guard does not know it. */
bool queries_open(struct queries *queries, const char *conninfo, const char *text, struct guard_loop *loop);
void queries_close(struct queries *queries);
/* A guard_loader; its context is the queries. */
void queries_load(struct guard_load *load, void *queries);
void queries_ready(struct queries *queries);

#endif
