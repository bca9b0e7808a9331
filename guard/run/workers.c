/* SPDX-License-Identifier: MIT */
/* workers.c - see workers.h. */
#include "workers.h"
#include "../base/clock.h"
#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

enum { STACK_BYTES = 1 << 20 };

/* ---- one worker ---- */

static void quiet_cancel_fd(int fd)
{
    uint64_t count = 0;
    if (fd >= 0 && read(fd, &count, sizeof count) < 0)
        return; /* was not set */
}

static bool all_cancelled(const struct guard_load *first)
{
    const struct guard_load *load = first;
    while (load != NULL && atomic_load(&load->cancelled))
        load = load->mate;
    return load == NULL;
}

/* Under the mutex. */
static void take_cancel_fd(struct guard_load *first, int cancel_fd)
{
    for (struct guard_load *load = first; load != NULL; load = load->mate)
        load->cancel_fd = cancel_fd;
    if (cancel_fd >= 0 && all_cancelled(first))
        eventfd_write(cancel_fd, 1);
}

static struct guard_load *next_job(struct worker *worker)
{
    struct workers *workers = worker->workers;
    pthread_mutex_lock(&workers->mutex);
    workers->idle++;
    while (workers->queued == NULL && !workers->closing)
        pthread_cond_wait(&workers->work, &workers->mutex);
    workers->idle--;
    struct guard_load *load = workers->queued;
    if (load != NULL) {
        DL_DELETE(workers->queued, load);
        DL_APPEND(workers->running, load);
        take_cancel_fd(load, worker->cancel_fd);
    }
    pthread_mutex_unlock(&workers->mutex);
    return load;
}

/* After this no other thread knows the job, and the place of a thread that is over can be used again: the job
 * must not be reported before that, because the next one may come at once. False: the report is not wanted. */
static bool retire(struct worker *worker, struct guard_load *load, bool over)
{
    struct workers *workers = worker->workers;
    pthread_mutex_lock(&workers->mutex);
    if (load != NULL)
        DL_DELETE(workers->running, load);
    worker->over = over;
    bool abandoned = workers->abandoned;
    pthread_mutex_unlock(&workers->mutex);
    quiet_cancel_fd(worker->cancel_fd);
    return !abandoned;
}

static void free_finished(struct finished_load *list)
{
    while (list != NULL) {
        struct finished_load *finished = list;
        list = finished->next;
        finished_load_free(finished);
    }
}

static void report(struct worker *worker, bool over)
{
    struct guard_load *load = worker->load;
    worker->load = NULL;
    bool wanted = retire(worker, load, over);
    if (load == NULL)
        return;
    for (struct guard_load *at = load; at != NULL; at = at->mate) {
        load_unfinished(at, over);
        at->result.next = at->mate != NULL ? &at->mate->result : NULL;
    }
    if (wanted)
        worker->workers->done(worker->workers->context, &load->result);
    else
        free_finished(&load->result);
}

/* Also when a loader ends the thread: then its job has failed. */
static void worker_over(void *context)
{
    report(context, true);
}

static size_t list_batch(struct guard_load *first, struct guard_load *loads[GUARD_MANY_MAX])
{
    size_t count = 0;
    for (struct guard_load *load = first; load != NULL; load = load->mate) {
        assert(count < GUARD_MANY_MAX);
        loads[count++] = load;
    }
    return count;
}

/* A batch has one limit, the earliest of its keys'. */
static void run_batch(struct guard_load *first)
{
    struct guard_load *loads[GUARD_MANY_MAX];
    size_t count = list_batch(first, loads);
    uint64_t start_us = clock_now_us(), deadline_us = first->deadline_us;
    for (size_t i = 1; i < count; i++)
        if (loads[i]->deadline_us < deadline_us)
            deadline_us = loads[i]->deadline_us;
    for (size_t i = 0; i < count; i++) {
        loads[i]->start_us = start_us;
        loads[i]->deadline_us = deadline_us;
    }
    first->policy->batch_loader(loads, count, first->policy->context);
}

static void run_load(struct worker *worker, struct guard_load *load)
{
    for (struct guard_load *at = load; at != NULL; at = at->mate)
        at->worker = worker;
    if (load->mate != NULL) {
        run_batch(load);
        return;
    }
    load->start_us = clock_now_us();
    load->policy->loader(load, load->policy->context);
}

static void *worker_run(void *context)
{
    struct worker *worker = context;
    pthread_cleanup_push(worker_over, worker);
    for (struct guard_load *load = next_job(worker); load != NULL; load = next_job(worker)) {
        worker->load = load;
        run_load(worker, load);
        report(worker, false);
    }
    pthread_cleanup_pop(1);
    return NULL;
}

/* ---- the pool ---- */

struct workers *workers_open(uint32_t count, workers_done *done, void *context)
{
    struct workers *workers = calloc(1, sizeof *workers);
    struct worker *all = calloc(count, sizeof *all);
    if (workers == NULL || all == NULL) {
        free(workers);
        free(all);
        return NULL;
    }
    workers->done = done;
    workers->context = context;
    workers->all = all;
    workers->count = count;
    pthread_mutex_init(&workers->mutex, NULL);
    pthread_cond_init(&workers->work, NULL);
    for (uint32_t i = 0; i < count; i++)
        all[i] = (struct worker){.workers = workers, .cancel_fd = -1};
    return workers;
}

/* Loaders get no signals of the host's: those belong to threads that expect them. */
static bool make_thread(struct worker *worker)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    worker->over = false;
    worker->made = pthread_create(&worker->thread, &attributes, worker_run, worker) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return worker->made;
}

/* A place whose thread was never made, or is over. Under the mutex. */
static struct worker *vacancy(struct workers *workers)
{
    for (uint32_t i = 0; i < workers->count; i++) {
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

static uint32_t made_count(const struct workers *workers)
{
    uint32_t made = 0;
    for (uint32_t i = 0; i < workers->count; i++)
        made += workers->all[i].made && !workers->all[i].over;
    return made;
}

/* Under the mutex: a thread for the newest job, unless one is idle. False: none will ever take it. */
static bool staff(struct workers *workers, uint32_t queued)
{
    if (workers->idle >= queued)
        return true;
    struct worker *worker = vacancy(workers);
    if (worker == NULL)
        return true;
    if (worker->cancel_fd < 0)
        worker->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return make_thread(worker) || made_count(workers) > 0;
}

static struct guard_load *new_load(const struct job *job)
{
    size_t tags_size = job->policy->tagged ? TAGS_TEXT_MAX + 1 : 0;
    struct guard_load *load = calloc(1, sizeof *load + job->key_bytes + 1 + tags_size);
    if (load == NULL)
        return NULL;
    load->result.load = job->load;
    load->result.key = load->key;
    load->policy = job->policy;
    load->deadline_us = job->deadline_us;
    load->cancel_fd = -1;
    load->has_previous = job->previous_validator != NULL;
    if (load->has_previous)
        memcpy(load->previous_validator, job->previous_validator,
               strnlen(job->previous_validator, ENVELOPE_VALIDATOR_MAX));
    memcpy(load->key, job->key, job->key_bytes);
    load->asker = job->asker;
    if (load->asker.ref != NULL)
        load->asker.ref(load->asker.what);
    load->tags = job->policy->tagged ? load->key + job->key_bytes + 1 : NULL;
    return load;
}

/* Under the mutex. */
static void commit_batch(struct workers *workers)
{
    struct guard_load *open = workers->open;
    if (open == NULL)
        return;
    workers->open = NULL;
    DL_APPEND(workers->queued, open);
    pthread_cond_signal(&workers->work);
}

void workers_commit(struct workers *workers)
{
    pthread_mutex_lock(&workers->mutex);
    commit_batch(workers);
    pthread_mutex_unlock(&workers->mutex);
}

/* Under the mutex. The first of a batch stays open for the others. */
static bool enqueue_job(struct workers *workers, const struct job *job, struct guard_load *load)
{
    int queued = 0;
    struct guard_load *each = NULL;
    if (workers->open != NULL && job->batch != 0 && workers->open_batch == job->batch) {
        workers->open_last->mate = load;
        workers->open_last = load;
        return true;
    }
    commit_batch(workers);
    DL_COUNT(workers->queued, each, queued);
    if (!staff(workers, (uint32_t)queued + 1))
        return false;
    workers->open = workers->open_last = load;
    workers->open_batch = job->batch;
    if (job->batch == 0)
        commit_batch(workers);
    return true;
}

/* Batches are in the list by their first. */
static struct guard_load *running_load(const struct workers *workers, uint64_t id)
{
    for (struct guard_load *first = workers->running; first != NULL; first = first->next) {
        for (struct guard_load *load = first; load != NULL; load = load->mate) {
            if (load->result.load == id)
                return load;
        }
    }
    return NULL;
}

/* Under the mutex: hands a job to the thread of a load whose loader waits. False: there is no such load. */
static bool lend(struct workers *workers, struct guard_load *load, uint64_t lender)
{
    struct guard_load *parent = running_load(workers, lender);
    if (parent == NULL || parent->nested == NULL || parent->nested->lent != NULL)
        return false;
    DL_APPEND(workers->running, load);
    parent->nested->lent = load;
    pthread_cond_signal(&parent->nested->woken);
    return true;
}

bool workers_start(struct workers *workers, const struct job *job)
{
    struct guard_load *load = new_load(job);
    if (load == NULL)
        return false;
    pthread_mutex_lock(&workers->mutex);
    bool taken = job->lender != 0 ? lend(workers, load, job->lender) : enqueue_job(workers, job, load);
    pthread_mutex_unlock(&workers->mutex);
    if (!taken)
        finished_load_free(&load->result);
    return taken;
}

/* The one descriptor of a batch speaks when no load of it is wanted any more. */
static bool cancel_load(struct guard_load *first, uint64_t id)
{
    struct guard_load *load = first;
    while (load != NULL && load->result.load != id)
        load = load->mate;
    if (load == NULL)
        return false;
    atomic_store(&load->cancelled, true);
    if (load->cancel_fd >= 0 && all_cancelled(first))
        eventfd_write(load->cancel_fd, 1);
    return true;
}

static void cancel_in(struct guard_load *list, uint64_t id)
{
    struct guard_load *load = list;
    while (load != NULL && !cancel_load(load, id))
        load = load->next;
}

void workers_cancel(struct workers *workers, uint64_t id)
{
    pthread_mutex_lock(&workers->mutex);
    cancel_in(workers->open, id);
    cancel_in(workers->queued, id);
    cancel_in(workers->running, id);
    pthread_mutex_unlock(&workers->mutex);
}

/* A thread whose loader still runs keeps what it uses and is never joined. */
static void abandon(struct workers *workers)
{
    workers->abandoned = true;
    for (uint32_t i = 0; i < workers->count; i++)
        if (workers->all[i].made)
            pthread_detach(workers->all[i].thread);
}

/* False: a loader still runs. */
static bool end_all(struct workers *workers)
{
    pthread_mutex_lock(&workers->mutex);
    workers->closing = true;
    pthread_cond_broadcast(&workers->work);
    bool ended = workers->running == NULL && workers->queued == NULL;
    if (!ended)
        abandon(workers);
    pthread_mutex_unlock(&workers->mutex);
    return ended;
}

static void join_all(struct workers *workers)
{
    for (uint32_t i = 0; i < workers->count; i++)
        if (workers->all[i].made)
            pthread_join(workers->all[i].thread, NULL);
}

bool workers_close(struct workers **closing)
{
    struct workers *workers = *closing;
    if (workers == NULL)
        return true;
    if (!end_all(workers))
        return false;
    *closing = NULL;
    join_all(workers);
    for (uint32_t i = 0; i < workers->count; i++)
        if (workers->all[i].cancel_fd >= 0)
            close(workers->all[i].cancel_fd);
    pthread_cond_destroy(&workers->work);
    pthread_mutex_destroy(&workers->mutex);
    free(workers->all);
    free(workers);
    return true;
}
