/* SPDX-License-Identifier: MIT */
/*
 * process.h - what the guard owes to the process it lives in, and a thread of it that waits for a callback.
 *
 * Threads      Every thread of the guard and of the locks begins with all signals blocked, SIGPIPE among them, since
 *              those belong to threads of the host that expect them; and with a stack of at least so many bytes,
 *              since musl gives 128 KiB, which a loader, a log function or a name service of the host need not be
 *              content with.
 * Descriptors  None of the guard's is 0, 1 or 2. A host may have closed those: what it or a library prints would go
 *              into a connection to Redis, and a host that reads 0 would read from it.
 * Forks        A guard that was opened at another count of forks belongs to another process: its threads and
 *              connections are not here, and a mutex of it may be locked for ever. Costs no system call. What only
 *              _Fork() or clone(2) makes is not seen.
 *
 * All functions on any thread.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { THREAD_STACK_BYTES = 1 << 20 }; /* where the default is less */

/* As pthread_create(): 0, or errno's number. To be joined or detached. */
int thread_begin(pthread_t *out, void *(*run)(void *context), void *context);

/* The descriptor, or another one of the same in its place; -1, and errno: it was -1, or there is no other. */
int descriptor_not_standard(int fd);

extern atomic_uint forked_times; /* for forked_count() alone */

/* Counts from now on. False: no memory. */
bool forked_watch(void);
/* How many forks lie between this process and the one that first called forked_watch(). */
static inline unsigned forked_count(void)
{
    return atomic_load_explicit(&forked_times, memory_order_relaxed);
}

/*
 * ---- a thread that waits for a callback ----
 *
 * A thread may wait, unless it runs callbacks or loaders itself (below). struct blocking lies on its stack.
 *
 *     init -> ask -> wait .............................................
 *                         callback: the answer to *out, then over --'
 *
 * A thread that runs a callback would wait for those that come after it on the same thread, and for ever if its
 * answer is one of them; a loader for loads that queue behind it. So each thread knows what it is doing.
 *
 * Threads  over on that of the callback, the others on that which waits.
 */

struct blocking {
    pthread_mutex_t mutex;
    pthread_cond_t done;
    bool is_done;
    void *out;    /* lent; the callback knows what it is */
    void *work;   /* what it is given to do next; NULL: nothing */
    bool at_work; /* on what it was given before */
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
/* The same, when *out is this. */
void blocking_answer(struct blocking *blocking, const void *answer, size_t bytes);
/* Once; it is no more afterwards. */
void blocking_wait(struct blocking *blocking);
/* In place of that: what the thread is given to do, as often as there is something; NULL: it is no more. */
void *blocking_next(struct blocking *blocking);
/* Before over. False: it has something to do already. `next`: it may be at work, and does this afterwards. */
bool blocking_give(struct blocking *blocking, void *work, bool next);
