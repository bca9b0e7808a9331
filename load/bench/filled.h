/* SPDX-License-Identifier: MIT */
/*
 * filled.h - the instant at which Redis stores a product's value: a listener of its own hears of it by a keyspace
 * notification.
 *
 * Threads: filled_listen() starts one that filled_wait() joins; both from one thread.
 * Errors: false, and the reason on stderr.
 */
#ifndef LOAD_BENCH_FILLED_H
#define LOAD_BENCH_FILLED_H

#include "load/bench/bench.h"

#include <pthread.h>

struct redisContext;

struct filled {
    pthread_t thread;
    struct redisContext *context; /* owned */
    uint64_t heard_us;            /* 0: never; valid once the thread is joined */
};

/* Whether Redis tells of such things at all. */
bool filled_tell(struct bench *bench, bool tells);

/* From now on, for the product of this path ("/products/{id}"). */
bool filled_listen(const struct bench *bench, const char *path, struct filled *filled);

/* When it was stored, by clock_us(); 0: not within a minute. Ends the listening. */
uint64_t filled_wait(struct filled *filled);

#endif
