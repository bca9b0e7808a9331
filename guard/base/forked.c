/* SPDX-License-Identifier: MIT */
/* forked.c - see forked.h. */
#include "forked.h"
#include <pthread.h>

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
