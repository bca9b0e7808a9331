/* SPDX-License-Identifier: MIT */
/* blocking.c - see blocking.h. */
#include "blocking.h"

_Thread_local struct blocking_here blocking_here;

/* Every near hit of a blocking get does. */
void blocking_init(struct blocking *blocking, void *out)
{
    *blocking = (struct blocking){PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, out};
}

/* Signals under the mutex: the waiting thread destroys both as soon as it has seen is_done. */
void blocking_over(struct blocking *blocking)
{
    pthread_mutex_lock(&blocking->mutex);
    blocking->is_done = true;
    pthread_cond_signal(&blocking->done);
    pthread_mutex_unlock(&blocking->mutex);
}

void blocking_wait(struct blocking *blocking)
{
    pthread_mutex_lock(&blocking->mutex);
    while (!blocking->is_done)
        pthread_cond_wait(&blocking->done, &blocking->mutex);
    pthread_mutex_unlock(&blocking->mutex);
    pthread_cond_destroy(&blocking->done);
    pthread_mutex_destroy(&blocking->mutex);
}
