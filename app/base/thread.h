/* SPDX-License-Identifier: MIT */
/* thread.h - how every thread of app/ is started, and the condition it waits on. Any thread. */
#ifndef APP_THREAD_H
#define APP_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* With all signals blocked: they belong to the main thread, which waits for them. */
bool thread_start(pthread_t *thread, void *(*run)(void *), void *context);
/* Timed waits on it take clock_in_ms(). */
void thread_condition_init(pthread_cond_t *condition);

#endif
