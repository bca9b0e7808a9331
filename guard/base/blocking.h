/* SPDX-License-Identifier: MIT */
/*
 * blocking.h - a thread waits for one callback, unless it is one that must not. It lies on the stack of that thread.
 *
 *     init -> ask -> wait .............................................
 *                         callback: the answer to *out, then over --'
 *
 * A thread that runs a callback would wait for those that come after it on the same thread, and for ever if its
 * answer is one of them; a loader for loads that queue behind it. So each thread knows what it is doing.
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

/* Of the calling thread. */
struct blocking_here {
    unsigned callbacks;    /* it is inside so many; one that runs nothing else is inside one from its start */
    const void *loads_for; /* this guard's loaders run on it; NULL: none do */
};
extern _Thread_local struct blocking_here blocking_here;

static inline void blocking_callback_begins(void)
{
    blocking_here.callbacks++;
}

static inline void blocking_callback_ends(void)
{
    blocking_here.callbacks--;
}

static inline bool blocking_in_callback(void)
{
    return blocking_here.callbacks > 0;
}
#define CALLBACK_TEXT "it blocks, and this is a callback; use the form that does not wait, or another thread"

/* Takes nothing: if what was asked for is refused, there is nothing to wait for or to clear. */
void blocking_init(struct blocking *blocking, void *out);
/* The last that the callback does with it, and with *out. */
void blocking_over(struct blocking *blocking);
/* Once; it is no more afterwards. */
void blocking_wait(struct blocking *blocking);

#endif
