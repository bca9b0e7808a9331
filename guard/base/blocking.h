/* SPDX-License-Identifier: MIT */
/*
 * blocking.h - a thread waits for one callback. It lies on the stack of that thread.
 *
 *     init -> ask -> wait .............................................
 *                         callback: the answer to *out, then over --'
 *
 * Threads  over on that of the callback, the others on that which waits.
 */
#ifndef GUARD_BLOCKING_H
#define GUARD_BLOCKING_H

#include <pthread.h>
#include <stdbool.h>

struct blocking {
    pthread_mutex_t mutex;
    pthread_cond_t done;
    bool is_done;
    void *out; /* lent; the callback knows what it is */
};

/* Takes nothing: if what was asked for is refused, there is nothing to wait for or to clear. */
void blocking_init(struct blocking *blocking, void *out);
/* The last that the callback does with it, and with *out. */
void blocking_over(struct blocking *blocking);
/* Once; it is no more afterwards. */
void blocking_wait(struct blocking *blocking);

#endif
