/* SPDX-License-Identifier: MIT */
/*
 * thread_begin.h - how every thread of the guard and of the locks begins: with all signals blocked, SIGPIPE among them,
 * since those belong to threads of the host that expect them; and with a stack of at least so many bytes, since musl
 * gives 128 KiB, which a loader, a log function or a name service of the host need not be content with.
 *
 * Threads   any.
 */
#ifndef GUARD_THREAD_BEGIN_H
#define GUARD_THREAD_BEGIN_H

#include <pthread.h>

enum { THREAD_STACK_BYTES = 1 << 20 }; /* where the default is less */

/* As pthread_create(): 0, or errno's number. To be joined or detached. */
int thread_begin(pthread_t *out, void *(*run)(void *context), void *context);

#endif
