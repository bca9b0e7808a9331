/* SPDX-License-Identifier: MIT */
/*
 * workers.h - the threads that run loaders.
 *
 * The core never starts more loads than there are threads, so a job waits here only for a thread to be made or to
 * come back to its queue.
 *
 *     workers_start          a worker takes it        its loader returned, or ended the thread
 *   o -------------> QUEUED ------------------> RUNNING ----------------------------------> told at the desk (load.h)
 *
 * A nested job (`lender`) goes to the thread whose loader waits in guard_load_get() and runs there, on top; one with
 * a `caller` to the thread that waits in guard_get_wait(), if it does not run another.
 * Jobs of one batch are one unit of this: queued by workers_commit(), taken by one worker, told together.
 *
 * Locking   one mutex for the queue and the threads; the desk's comes after it.
 * Hooks     thread_begins before a thread's first load, thread_ends after its last one, before the thread's place can
 *           be used again.
 */
#pragma once

#include "load.h"

struct workers_config {
    uint32_t count;
    struct desk *desk; /* lent until workers_close() has returned true */
    void (*thread_begins)(void *context);
    void (*thread_ends)(void *context);
    void *thread_context;
};

struct workers *workers_open(const struct workers_config *config);
/* False: no memory, or no thread could be made and none runs; then nothing is told of it. workers_commit() must
 * follow a job with a batch; both on one thread. */
bool workers_start(struct workers *workers, const struct job *job);
/* No more of the batch follow. */
void workers_commit(struct workers *workers);
/* Ends the threads and waits for them. False: a loader still runs, or one does elsewhere, on a thread of the host's
 * (not `idle`); then its thread and this memory are left alone. Leaves NULL if true. */
bool workers_close(struct workers **workers, bool idle);
