/* SPDX-License-Identifier: MIT */
/* process.c - see process.h. */
#include "process.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

int thread_begin(pthread_t *out, void *(*run)(void *context), void *context)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    size_t stack_bytes = 0;
    int failed = pthread_attr_init(&attributes);
    if (failed != 0)
        return failed;
    if (pthread_attr_getstacksize(&attributes, &stack_bytes) != 0 || stack_bytes < THREAD_STACK_BYTES)
        pthread_attr_setstacksize(&attributes, THREAD_STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(out, &attributes, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return failed;
}

int descriptor_not_standard(int fd)
{
    if (fd == -1 || fd > STDERR_FILENO)
        return fd;
    int other = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), failed = errno;
    close(fd);
    errno = failed;
    return other;
}

atomic_uint forked_times;

static pthread_once_t forked_once = PTHREAD_ONCE_INIT;
static bool is_watched;

/* The child's only thread. */
static void count_fork(void)
{
    atomic_fetch_add_explicit(&forked_times, 1, memory_order_relaxed);
}

static void watch_forks(void)
{
    is_watched = pthread_atfork(NULL, NULL, count_fork) == 0;
}

bool forked_watch(void)
{
    pthread_once(&forked_once, watch_forks);
    return is_watched;
}

/* ---- a thread that waits for a callback ---- */

_Thread_local struct blocking_here blocking_here;

/* Every near hit of a blocking get does. */
void blocking_init(struct blocking *blocking, void *out)
{
    *blocking = (struct blocking){PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, .out = out};
}

/* Signals under the mutex: the waiting thread destroys both as soon as it has seen is_done. */
void blocking_over(struct blocking *blocking)
{
    pthread_mutex_lock(&blocking->mutex);
    blocking->is_done = true;
    pthread_cond_signal(&blocking->done);
    pthread_mutex_unlock(&blocking->mutex);
}

void blocking_answer(struct blocking *blocking, const void *answer, size_t bytes)
{
    memcpy(blocking->out, answer, bytes);
    blocking_over(blocking);
}

bool blocking_give(struct blocking *blocking, void *work, bool next)
{
    pthread_mutex_lock(&blocking->mutex);
    bool free = blocking->work == NULL && (next || !blocking->at_work);
    if (free)
        blocking->work = work;
    pthread_cond_signal(&blocking->done);
    pthread_mutex_unlock(&blocking->mutex);
    return free;
}

void *blocking_next(struct blocking *blocking)
{
    pthread_mutex_lock(&blocking->mutex);
    blocking->at_work = false;
    while (blocking->work == NULL && !blocking->is_done)
        pthread_cond_wait(&blocking->done, &blocking->mutex);
    void *work = blocking->work;
    blocking->work = NULL;
    blocking->at_work = work != NULL;
    pthread_mutex_unlock(&blocking->mutex);
    if (work != NULL)
        return work;
    pthread_cond_destroy(&blocking->done);
    pthread_mutex_destroy(&blocking->mutex);
    return NULL;
}

void blocking_wait(struct blocking *blocking)
{
    blocking_next(blocking);
}
