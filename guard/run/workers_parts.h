/* SPDX-License-Identifier: MIT */
/* workers_parts.h - what workers.c and nested.c know of each other. Private to them. */
#ifndef GUARD_WORKERS_PARTS_H
#define GUARD_WORKERS_PARTS_H

#include "../wire/envelope.h"
#include "workers.h"
#include <pthread.h>

struct nested;

struct guard_load {
    struct finished_load result;    /* first: what the owner gets is freed as a guard_load */
    struct guard_load *prev, *next; /* queued or running, the first of a batch; under the mutex */
    struct guard_load *mate;        /* the next of its batch; not changed once queued */
    uint64_t deadline_us, start_us;
    const struct guard_policy *policy;
    int cancel_fd; /* the worker's, or its own if it is nested; -1: none; under the mutex until it runs */
    bool has_previous;
    char previous_validator[ENVELOPE_VALIDATOR_MAX + 1];
    atomic_bool cancelled;
    bool unstored; /* only on the worker's thread, like the next four */
    bool finished;
    struct worker *worker;     /* whose thread runs it */
    struct guard_load *parent; /* waits for this one on the same thread; NULL: none */
    uint32_t depth;            /* how many do */
    struct nested *nested;     /* its loader waits for another key; under the mutex; NULL: it does not */
    size_t tags_bytes;
    char *tags; /* room for TAGS_TEXT_MAX and NUL behind the key if its kind is tagged; else NULL */
    char key[]; /* owned */
};

struct worker {
    struct workers *workers;
    pthread_t thread;
    bool made, over;         /* under the mutex */
    int cancel_fd;           /* an eventfd; readable while its job is cancelled */
    struct guard_load *load; /* running; only on its own thread */
};

struct workers {
    workers_done *done;
    void *context;
    pthread_mutex_t mutex;
    pthread_cond_t work;
    struct guard_load *queued, *running;
    struct guard_load *open, *open_last; /* a batch that is not complete yet */
    uint64_t open_batch;
    struct worker *all; /* owned, `count` of them */
    uint32_t count, idle;
    bool closing, abandoned;
};

/* Under the mutex: hands a job to the thread of a load whose loader waits. False: there is no such load. */
bool nested_lend(struct workers *workers, struct guard_load *load, uint64_t lender);
/* Fails a load that is over and has no verdict. */
void load_unfinished(struct guard_load *load, bool thread_ends);

#endif
