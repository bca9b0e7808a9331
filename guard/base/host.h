/* SPDX-License-Identifier: MIT */
/*
 * base/host.h - the event loop that the guard lives on, its own or a host's, as the guard uses it: many timers, turns
 * and wakes, while an adapter has one of each. What an adapter is stands in ../host.h.
 *
 *     redis/ wire/ run/                            host.c                        an adapter (adapters/)
 *
 *     host_watch() ------------------------------------------------------------> watch
 *     host_timer_set(), of many   -->  the earliest                        ----> timer
 *     host_soon(), of many        -->  in order, all of a turn at once     ----> soon
 *     host_wake_send(), of many   -->  those that are due                  ----> wake
 *     their callbacks  <-------------------------- watch->ready(), guard_host_rang(), ...
 *
 * Threads    All functions only on the thread of the loop, or on the one that sets it up before it runs;
 *            host_wake_send() on any.
 * Callbacks  Run on the thread of the loop, and only from guard_host_rang(), guard_host_turn_over(),
 *            guard_host_woken(), guard_host_closed() or an adapter's watch. They may call every function here, stop
 *            or clear what has just called them, and free it.
 * Lifetime   The owner keeps the structs; only watching a descriptor may allocate. Once stopped or cleared, a
 *            callback never runs, even if it was already due, and its memory may be reused. If the loop needs time to
 *            let go of a handle, the adapter sees to that; host_close() tells when nothing is left.
 * Time       Instants of clock_now_us().
 */
#pragma once

#include "../host.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* ---- what the guard does with a loop ---- */

/* Watches for READABLE, WRITABLE or both, in place of what it watched for before: `ready` is called again and again
 * as long as one of them holds. 0: stops; do so before the descriptor is closed. Returns 0, or errno's number and
 * nothing is watched; only the first call for a descriptor can fail. */
static inline int host_watch(struct guard_host *host, struct guard_watch *watch, unsigned events)
{
    return host->watch(host, watch, events);
}

/* The owner sets the first two of each of these; zeroed, it is not set. */
struct host_timer {
    void (*run)(void *context);
    void *context;
    uint64_t at_us;
    bool set;
    bool due; /* in this turn */
    struct host_timer *prev, *next;
};
/* Rings once, at that instant or as soon after it as the loop can; in place of the instant that was set before.
 * UINT64_MAX: not at all. One that is set in a timer's callback rings after the loop's other work, even if its
 * instant has passed. */
void host_timer_set(struct guard_host *host, struct host_timer *timer, uint64_t at_us);
void host_timer_stop(struct guard_host *host, struct host_timer *timer);

struct host_soon {
    void (*run)(void *context);
    void *context;
    bool last; /* after those that are not: what they leave to be written leaves at once */
    uint64_t turn;
    struct host_soon **list; /* it is in; NULL: none */
    struct host_soon *prev, *next;
};
/* Runs it once, after what the loop is about to do now, before it waits again. One that asks from inside its own
 * callback runs in the loop's next turn, which does not wait either. */
void host_soon(struct guard_host *host, struct host_soon *soon);
void host_soon_stop(struct host_soon *soon);

struct host_wake {
    void (*run)(void *context);
    void *context;
    struct guard_host *host;
    atomic_bool due;
    bool running; /* in this turn */
    struct host_wake *prev, *next;
};
void host_wake_init(struct guard_host *host, struct host_wake *wake, void (*run)(void *context),
                    void *context);
/* No other thread may be sending, or send from now on. */
void host_wake_clear(struct host_wake *wake);
/* Runs it on the thread of the loop; several may be answered by one run that begins after the last of them. */
void host_wake_send(struct host_wake *wake);

/* Everything has been stopped and cleared: the adapter gives the loop back what it has of it, then calls `closed`
 * (may be NULL), not from inside the call. The host is gone then. */
void host_close(struct guard_host *host, void (*closed)(void *context), void *context);

/* Whom to tell, once, that something is closed and gone; closed may be NULL. */
struct host_told {
    void (*closed)(void *context);
    void *context;
};

static inline void host_tell(struct host_told told)
{
    if (told.closed != NULL)
        told.closed(told.context);
}

/* The end of what was closed. */
static inline void host_free_and_tell(void *self, struct host_told told)
{
    free(self);
    host_tell(told);
}

/* ---- the host of an adapter ---- */

/* Of a host that is in use, for as long as it is. */
struct guard_host_state {
    struct host_timer *timers;
    uint64_t armed_us; /* when the adapter's timer rings; UINT64_MAX: it is not set */
    bool ringing;
    struct host_soon *soons, *last_soons;
    uint64_t turn;
    bool soon_asked;
    struct host_wake *wakes;
    struct guard_watch woken; /* an eventfd, of an adapter that has no `wake`; else unused */
    bool closing;
    struct host_told told;
};
/* The state is the caller's and outlives the host. False: no descriptor or memory to be had. */
bool host_init(struct guard_host *host, struct guard_host_state *state);
/* Of one that was not used: it is as before host_init(). */
void host_clear(struct guard_host *host);

/*
 * ---- the loop of the guard's own thread ----
 *
 * For a thread of ours: adapters/epoll.h with nothing else to watch.
 */

/* NULL: no memory or descriptor. */
struct guard_host *own_host_open(void);
/* On the thread that is the guard's from here on; returns when the host is closed. */
void own_host_run(struct guard_host *host);
/* Of one that does not run, with nothing left on it. */
void own_host_free(struct guard_host **host);
