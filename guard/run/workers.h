/* SPDX-License-Identifier: MIT */
/*
 * workers.h - the threads that run loaders.
 *
 * The core never starts more loads than there may be workers, so a job waits here only for a thread to be
 * made or to come back to its queue.
 *
 *     workers_start          a worker takes it        the loader finished it, returned or died
 *   o -------------> QUEUED ------------------> RUNNING ---------------------------------> done() once
 *
 * A nested job (`lender`) goes to the thread whose loader waits in guard_load_get() and runs there, on top.
 * Jobs of one batch are one unit of this: queued by workers_commit(), taken by one worker, told together.
 *
 * Locking   one mutex for the queue, the table of running jobs and the states; done() is called without it.
 * Lifetime  a job belongs to the workers from workers_start() until done() has returned.
 */
#ifndef GUARD_WORKERS_H
#define GUARD_WORKERS_H

#include "load.h"
#include <pthread.h>

/* On the worker's thread; `finished`, a list, is the owner's then, for finished_load_free() of each. Calls no function
 * of the workers: a thread that ends is waited for under their mutex. Not after workers_close() returned. */
typedef void workers_done(void *context, struct finished_load *finished);

struct workers *workers_open(uint32_t count, workers_done *done, void *context);
/* Both texts are copied, and the job has a reference to the asker of its own. */
struct job {
    uint64_t load;
    const char *key;
    size_t key_bytes;
    const struct guard_policy *policy;
    uint64_t deadline_us;
    uint64_t lender;    /* a load that runs, waits and lends its thread; 0: none, any worker takes it */
    struct asker asker; /* of its starter */
    const char *previous_validator; /* NULL: nothing to compare with */
    uint64_t batch;                 /* 0: alone; otherwise it joins the job before, if that had the same */
};
/* False: no memory, or no thread could be made and none runs; then done() is never called. workers_commit() must
 * follow a job with a batch; both on one thread. */
bool workers_start(struct workers *workers, const struct job *job);
/* No more of the batch follow. */
void workers_commit(struct workers *workers);
/* Tells the loader; a load that is over is ignored. */
void workers_cancel(struct workers *workers, uint64_t load);
/* Ends the threads and waits for them. False: a loader still runs; then its thread and this memory are left
 * alone and done() is not called for it. Leaves NULL if true. */
bool workers_close(struct workers **workers);

/* ---- the inside, for nested.c ---- */

/* A loader waits for another key and lends its thread meanwhile; on the stack of guard_load_get(). */
struct nested {
    struct guard_load *parent; /* its loader waits for the answer */
    struct workers *workers;
    pthread_cond_t woken;
    struct guard_load *lent; /* to be run here */
    bool answered;
    bool thread_ends;          /* this thread's own: a loader ended it, none is called any more */
    struct guard_load *within; /* this thread's own: its loader runs */
    struct guard_result *result;
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

#endif
