/* SPDX-License-Identifier: MIT */
/*
 * pg_cancel.c - see pg_session.h.
 *
 * Lifetime: the closer frees the canceller, or the thread does if the closer gave up waiting, as `orphaned` says.
 */
#include "app/pg/pg_session.h"

#include "app/base/clock.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

enum { QUEUE_REQUESTS = 64, CLOSE_LIMIT_MS = 1000, ERROR_BYTES = 256 };

struct pg_canceller {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* under lock */
    PGcancel *queue[QUEUE_REQUESTS]; /* owned; a ring */
    size_t first, count;
    bool closing, done, orphaned;
};

static void free_canceller(struct pg_canceller *canceller)
{
    pthread_cond_destroy(&canceller->changed);
    pthread_mutex_destroy(&canceller->lock);
    free(canceller);
}

/* NULL: closing and nothing left. */
static PGcancel *take(struct pg_canceller *canceller)
{
    PGcancel *request = NULL;

    pthread_mutex_lock(&canceller->lock);
    while (canceller->count == 0 && !canceller->closing)
        pthread_cond_wait(&canceller->changed, &canceller->lock);
    if (canceller->count > 0) {
        request = canceller->queue[canceller->first];
        canceller->first = (canceller->first + 1) % QUEUE_REQUESTS;
        canceller->count--;
    }
    pthread_mutex_unlock(&canceller->lock);
    return request;
}

static void *work(void *context)
{
    struct pg_canceller *canceller = context;
    PGcancel *request;

    while ((request = take(canceller)) != NULL) {
        char ignored[ERROR_BYTES];

        PQcancel(request, ignored, sizeof(ignored));
        PQfreeCancel(request);
    }
    pthread_mutex_lock(&canceller->lock);
    canceller->done = true;
    bool orphaned = canceller->orphaned;
    pthread_cond_broadcast(&canceller->changed);
    pthread_mutex_unlock(&canceller->lock);
    if (orphaned)
        free_canceller(canceller);
    return NULL;
}

struct pg_canceller *pg_canceller_open(void)
{
    struct pg_canceller *canceller = calloc(1, sizeof(*canceller));

    if (canceller == NULL)
        return NULL;
    thread_condition_init(&canceller->changed);
    pthread_mutex_init(&canceller->lock, NULL);
    if (!thread_start(&canceller->thread, work, canceller)) {
        free_canceller(canceller);
        return NULL;
    }
    return canceller;
}

/* False: the thread did not end in time and owns the canceller now. */
static bool wait_for_thread(struct pg_canceller *canceller)
{
    const struct timespec until = clock_in_ms(CLOSE_LIMIT_MS);

    pthread_mutex_lock(&canceller->lock);
    canceller->closing = true;
    pthread_cond_broadcast(&canceller->changed);
    int waited = 0;
    while (!canceller->done && waited == 0)
        waited = pthread_cond_timedwait(&canceller->changed, &canceller->lock, &until);
    bool done = canceller->done;
    pthread_t thread = canceller->thread;
    canceller->orphaned = !done;
    /* What is still queued would keep the thread for as long again. */
    while (!done && canceller->count > 0) {
        PQfreeCancel(canceller->queue[canceller->first]);
        canceller->first = (canceller->first + 1) % QUEUE_REQUESTS;
        canceller->count--;
    }
    pthread_mutex_unlock(&canceller->lock);

    if (done)
        pthread_join(thread, NULL);
    else
        pthread_detach(thread);
    return done;
}

void pg_canceller_close(struct pg_canceller **canceller)
{
    if (*canceller != NULL && wait_for_thread(*canceller))
        free_canceller(*canceller);
    *canceller = NULL;
}

void pg_canceller_send(struct pg_canceller *canceller, PGconn *conn)
{
    PGcancel *request = PQgetCancel(conn);

    if (request == NULL)
        return;
    pthread_mutex_lock(&canceller->lock);
    if (canceller->count < QUEUE_REQUESTS) {
        canceller->queue[(canceller->first + canceller->count) % QUEUE_REQUESTS] = request;
        canceller->count++;
        request = NULL;
        pthread_cond_broadcast(&canceller->changed);
    }
    pthread_mutex_unlock(&canceller->lock);
    PQfreeCancel(request);
}
