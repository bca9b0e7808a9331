/* SPDX-License-Identifier: MIT */
/* thread_begin.c - see thread_begin.h. */
#include "thread_begin.h"

#include <signal.h>

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
