/* SPDX-License-Identifier: MIT */
/* workers.c - see workers.h. */
#include "workers.h"
#include "../base/clock.h"
#include "../base/process.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct worker {
    struct workers *workers;
    pthread_t thread;
    bool made, over, busy;     /* under the mutex */
    struct running_load *load; /* this thread's own: the first of the batch that it runs; NULL: none */
};

struct workers {
    struct workers_config config;
    pthread_mutex_t mutex;
    pthread_cond_t work;
    struct running_load *queued;           /* the first of each batch */
    struct running_load *open, *open_last; /* a batch that is not complete yet */
    uint64_t open_batch;
    struct worker *all; /* owned, config.count of them */
    uint32_t idle, busy, queued_count;
    bool closing;
};

/* ---- one worker ---- */

static struct running_load *next_job(struct worker *worker)
{
    struct workers *workers = worker->workers;
    pthread_mutex_lock(&workers->mutex);
    workers->idle++;
    while (workers->queued == NULL && !workers->closing)
        pthread_cond_wait(&workers->work, &workers->mutex);
    workers->idle--;
    struct running_load *load = workers->queued;
    if (load != NULL) {
        DL_DELETE(workers->queued, load);
        workers->queued_count--;
        workers->busy++;
    }
    worker->busy = load != NULL;
    pthread_mutex_unlock(&workers->mutex);
    return load;
}

/* The place of a thread that is over can be used again. */
static void stand_down(struct worker *worker, bool over)
{
    struct workers *workers = worker->workers;
    pthread_mutex_lock(&workers->mutex);
    workers->busy -= worker->busy;
    worker->busy = false;
    worker->over = over;
    pthread_mutex_unlock(&workers->mutex);
}

/* Stands down first: once the load is reported the next one may come. */
static void report(struct worker *worker, bool over)
{
    struct running_load *load = worker->load;
    worker->load = NULL;
    stand_down(worker, over);
    if (load != NULL)
        load_returned(load, over);
}

/* Also when a loader ends the thread: then its job has failed. */
static void worker_over(void *context)
{
    struct worker *worker = context;
    const struct workers_config *config = &worker->workers->config;
    if (config->thread_ends != NULL)
        config->thread_ends(config->thread_context);
    report(worker, true);
}

static size_t list_batch(const struct running_load *first, struct guard_load *handles[GUARD_MANY_MAX])
{
    size_t count = 0;
    for (const struct running_load *load = first; load != NULL; load = load->mate) {
        assert(count < GUARD_MANY_MAX);
        handles[count++] = load->handle;
    }
    return count;
}

/* A batch has one limit, the earliest of its keys'. */
static void run_batch(struct running_load *first)
{
    struct guard_load *handles[GUARD_MANY_MAX];
    size_t count = list_batch(first, handles);
    uint64_t start_us = clock_now_us(), deadline_us = first->deadline_us;
    for (const struct running_load *load = first->mate; load != NULL; load = load->mate)
        if (load->deadline_us < deadline_us)
            deadline_us = load->deadline_us;
    for (struct running_load *load = first; load != NULL; load = load->mate) {
        load->start_us = start_us;
        load->deadline_us = deadline_us;
    }
    first->policy->batch_loader(handles, count, first->policy->context);
}

static void run_load(struct running_load *load)
{
    for (struct running_load *at = load; at != NULL; at = at->mate)
        at->first = load;
    if (load->mate != NULL) {
        run_batch(load);
        return;
    }
    load->start_us = clock_now_us();
    load->policy->loader(load->handle, load->policy->context);
}

static void *worker_run(void *context)
{
    struct worker *worker = context;
    const struct workers_config *config = &worker->workers->config;
    blocking_here.loads_for = config->desk->context;
    pthread_cleanup_push(worker_over, worker);
    if (config->thread_begins != NULL)
        config->thread_begins(config->thread_context);
    for (struct running_load *load = next_job(worker); load != NULL; load = next_job(worker)) {
        worker->load = load;
        run_load(load);
        report(worker, false);
    }
    pthread_cleanup_pop(1);
    return NULL;
}

/* ---- the pool ---- */

struct workers *workers_open(const struct workers_config *config)
{
    struct workers *workers = calloc(1, sizeof *workers);
    struct worker *all = calloc(config->count, sizeof *all);
    if (workers == NULL || all == NULL) {
        free(workers);
        free(all);
        return NULL;
    }
    workers->config = *config;
    workers->all = all;
    pthread_mutex_init(&workers->mutex, NULL);
    pthread_cond_init(&workers->work, NULL);
    for (uint32_t i = 0; i < config->count; i++)
        all[i].workers = workers;
    return workers;
}

/* A place whose thread was never made, or is over. Under the mutex. */
static struct worker *vacancy(struct workers *workers)
{
    for (uint32_t i = 0; i < workers->config.count; i++) {
        struct worker *worker = &workers->all[i];
        if (worker->made && worker->over) {
            pthread_join(worker->thread, NULL);
            worker->made = false;
        }
        if (!worker->made)
            return worker;
    }
    return NULL;
}

/* Under the mutex: a thread for the newest job, unless one is idle. False: none will ever take it. */
static bool staff(struct workers *workers, uint32_t queued)
{
    if (workers->idle >= queued)
        return true;
    struct worker *worker = vacancy(workers);
    if (worker == NULL)
        return true;
    worker->over = false;
    worker->made = thread_begin(&worker->thread, worker_run, worker) == 0;
    bool any = worker->made;
    for (uint32_t i = 0; i < workers->config.count && !any; i++)
        any = workers->all[i].made && !workers->all[i].over;
    return any;
}

/* Under the mutex. */
static void commit_batch(struct workers *workers)
{
    struct running_load *open = workers->open;
    if (open == NULL)
        return;
    workers->open = NULL;
    DL_APPEND(workers->queued, open);
    workers->queued_count++;
    pthread_cond_signal(&workers->work);
}

void workers_commit(struct workers *workers)
{
    pthread_mutex_lock(&workers->mutex);
    commit_batch(workers);
    pthread_mutex_unlock(&workers->mutex);
}

/* Under the mutex. The first of a batch stays open for the others. */
static bool enqueue_load(struct workers *workers, uint64_t batch, struct running_load *load)
{
    if (workers->open != NULL && batch != 0 && workers->open_batch == batch) {
        workers->open_last->mate = load;
        workers->open_last = load;
        return true;
    }
    commit_batch(workers);
    if (!staff(workers, workers->queued_count + 1))
        return false;
    workers->open = workers->open_last = load;
    workers->open_batch = batch;
    if (batch == 0)
        commit_batch(workers);
    return true;
}

/* Hands a job to the thread of a load whose loader waits. False: there is no such load. */
static bool lend(const struct workers *workers, struct running_load *load, uint64_t lender)
{
    desk_lock(); /* where its loader does not wait, it may be over at any moment */
    const struct running_load *outer = load_find(workers->config.desk, lender);
    bool lent = outer != NULL && outer->waits != NULL && blocking_give(outer->waits, load, true);
    desk_unlock();
    return lent;
}

bool workers_start(struct workers *workers, const struct job *job)
{
    struct running_load *load = load_new(workers->config.desk, job);
    if (load == NULL)
        return false;
    if (job->caller != NULL && blocking_give(job->caller, load, false))
        return true;
    pthread_mutex_lock(&workers->mutex);
    const struct core_action *action = job->action;
    bool taken = action->lender != 0 ? lend(workers, load, action->lender)
                                     : enqueue_load(workers, action->batch, load);
    pthread_mutex_unlock(&workers->mutex);
    if (!taken)
        load_free(load);
    return taken;
}

/* A thread whose loader still runs keeps what it uses and is never joined. */
static void leave_busy(struct workers *workers)
{
    for (uint32_t i = 0; i < workers->config.count; i++) {
        struct worker *worker = &workers->all[i];
        if (!worker->busy)
            continue;
        pthread_detach(worker->thread);
        worker->made = false;
    }
}

/* False: a loader still runs, or would. */
static bool end_all(struct workers *workers)
{
    pthread_mutex_lock(&workers->mutex);
    workers->closing = true;
    pthread_cond_broadcast(&workers->work);
    bool ended = workers->busy == 0 && workers->queued == NULL;
    leave_busy(workers);
    pthread_mutex_unlock(&workers->mutex);
    return ended;
}

bool workers_close(struct workers **closing, bool idle)
{
    struct workers *workers = *closing;
    if (workers == NULL)
        return true;
    bool ended = end_all(workers) && idle;
    for (uint32_t i = 0; i < workers->config.count; i++)
        if (workers->all[i].made)
            pthread_join(workers->all[i].thread, NULL);
    if (!ended)
        return false;
    *closing = NULL;
    pthread_cond_destroy(&workers->work);
    pthread_mutex_destroy(&workers->mutex);
    free(workers->all);
    free(workers);
    return true;
}
