/* SPDX-License-Identifier: MIT */
/*
 * host.h - the guard on any event loop: the five functions that an adapter writes. See guard.h for all else.
 *
 * adapters/ has libuv, libevent, libev, GLib and one for loops of your own: begin with that for another loop. An
 * adapter's struct begins with `struct guard_host`; it sets the five, and attaches it:
 *
 *     the guard asks for                       the adapter's       which then calls, on the loop's thread
 *     a descriptor to be watched               watch               the watch's ready(), again and again
 *     the earliest of all its timers           timer               guard_host_rang(), once
 *     a turn for what it has gathered          soon                guard_host_turn_over(), once
 *     a turn, from another thread              wake                guard_host_woken()
 *     nothing any more                         close               guard_host_closed(), once, and nothing after it
 *
 * Threads    The loop belongs to one thread. All of this is called on it, or before it runs, but `wake` on any.
 * Inside     What the adapter calls may call any of the five from inside: ready() may stop the watch that was ready,
 *            and guard_host_turn_over() may close the host, so an adapter does nothing after it in a callback. Of the
 *            five only `close` calls back from inside.
 * Failing    Only `watch` may fail. So acquire all that the others need before you attach.
 * Ownership  The host is yours until guard_loop_attach_host() has returned OK, and again when `close` is called.
 */
#ifndef GUARD_HOST_H
#define GUARD_HOST_H

#include "guard.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a descriptor is watched for, or ready for. BROKEN: the loop reports an error of the descriptor. */
enum { GUARD_HOST_READABLE = 1, GUARD_HOST_WRITABLE = 2, GUARD_HOST_BROKEN = 4 };
enum { GUARD_HOST_NEVER = INT32_MAX }; /* for `timer` */

/* A descriptor of the guard's, and a place for what the adapter has of it. */
struct guard_watch {
    void (*ready)(void *context, unsigned events);
    void *context;
    int fd;       /* that no other watch has */
    void *handle; /* the adapter's; NULL: not watched, and so it is at first */
};

struct guard_host_state;

struct guard_host {
    /* Watches for READABLE, WRITABLE or both, instead of what it watched for before: calls
     * watch->ready(watch->context, events) as long as one of them holds. 0 events: stops, and never calls it again,
     * even if the loop has noticed something already; the descriptor is closed then. What is broken or hung up is
     * ready, whatever it is watched for: a loop that has no BROKEN reports what it watches for. Returns 0, or errno's
     * number: it is not watched; only for a watch that was not watched before. */
    int (*watch)(struct guard_host *host, struct guard_watch *watch, unsigned events);
    /* Calls guard_host_rang() once, in_ms from this very moment, instead of the call that was to come. NEVER: not at
     * all. (Many loops count from when their turn began, which may be long ago.) A little early does no harm. Any
     * order in the turn will do, before or after its descriptors and its guard_host_turn_over(). */
    void (*timer)(struct guard_host *host, uint32_t in_ms);
    /* Calls guard_host_turn_over() once, however busy the loop is: after what it is about to do already, before it
     * waits. Not called again before that. `again`: called from inside guard_host_turn_over(); the loop looks at its
     * descriptors once before the next one, without waiting. */
    void (*soon)(struct guard_host *host, bool again);
    /* Any thread: calls guard_host_woken(), once for several calls will do. May be NULL: the guard watches an eventfd
     * of its own, which is right for every loop that has no cheaper way. */
    void (*wake)(struct guard_host *host);
    /* The last of the five to be called, and the last that guard_host_turn_over() does: nothing is watched any more.
     * Gives the loop back all that the adapter has of it, then calls guard_host_closed(), at once or later. */
    void (*close)(struct guard_host *host);

    struct guard_host_state *state; /* the guard's; NULL until it is attached */
};

/*
 * Attaches the guard to the loop of this host: before the loop runs, or on its thread. If it fails the host stays
 * the caller's: give back what it has of the loop before the loop runs on, because a timer or a turn may have been
 * asked for. INVALID: one of the five is missing, or it is attached already. NO_MEMORY, also if `host` is NULL: pass
 * on what calloc() gave you.
 */
GUARD_API enum guard_status guard_loop_attach_host(struct guard *guard, struct guard_host *host,
                                                   struct guard_loop **out, struct guard_error *error);

/* Milliseconds of the guard's own clock, which runs on while the machine sleeps; for a loop without one.
 * Any thread. */
GUARD_API uint64_t guard_host_now_ms(void);

GUARD_API void guard_host_rang(struct guard_host *host);
GUARD_API void guard_host_turn_over(struct guard_host *host);
GUARD_API void guard_host_woken(struct guard_host *host);
/* The last call: calls what was given to guard_loop_detach(). The adapter frees its struct after it. */
GUARD_API void guard_host_closed(struct guard_host *host);

#ifdef __cplusplus
}
#endif

#endif
