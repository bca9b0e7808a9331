/* SPDX-License-Identifier: MIT */
/*
 * loop.h - one server loop: a thread, a libuv loop, a libmicrohttpd daemon and the guard's connection to it.
 *
 * libmicrohttpd runs in external epoll mode: libuv polls its epoll descriptor, and MHD_run() is called once a turn,
 * after libuv has delivered everything else, if anything made it due:
 *
 *     uv_run: I/O callbacks ---------------------------------------------------> turn
 *               its epoll fd is readable -> due                                    MHD_run
 *               the guard answered a client -> due                                 wake some, MHD_run
 *               the look timer, the drain -> due                                   still due? do not block
 *               the tick -> due                                                    sweep
 *
 * No callback of libuv, nor one of the guard's, runs libmicrohttpd, suspends or resumes a connection, or frees what
 * libmicrohttpd still knows: that is done between the turns of libuv.
 *
 *     RUNNING --stop--> DRAINING --none left to answer, or time up--> DETACHING --guard let go--> FLUSHING --> CLOSED
 *
 *     DRAINING    nothing more is accepted. Running requests go on, and so do those that come on the connections that
 *                 there are; each answer is the last of its connection and says so. A connection without a request is
 *                 kept open for a fifth of the time (the grace): its client may be sending in this moment, and what
 *                 is closed then loses a request. After that it is told the end and drained, not reset.
 *     DETACHING   the guard answers all remaining waiters with CLOSING
 *     FLUSHING    those answers go out and clients hang up, for at most a second; writes that have begun are waited
 *                 for
 *
 * A listening socket of our own is emptied before it is closed. One that was given is only let go of: what waits
 * there belongs to the next process.
 *
 * Threads: everything here on the loop's own thread, except loop_start/stop/join (the thread that owns the server)
 * and the atomics.
 */
#pragma once

#include "app/http/client.h"

#include <pthread.h>
#include <semaphore.h>
#include <uv.h>

enum {
    LOOP_WAKE_BATCH = 128,
    LOOP_WAKE_FEW = 12, /* while others make requests */
    LOOP_ALONE_MS = 20, /* without a request line of anybody's: a whole batch bothers none */
    /* suspended connections that may be walked over for each one that is woken: at 12 ns each, what
     * answering takes */
    LOOP_WALKED_FOR_ONE = 1024,
    LOOP_TICK_MS = 250,
    LOOP_FLUSH_MS = 1000,
    LOOP_GRACE_PART = 5, /* of the drain's time */
};

enum loop_phase { LOOP_RUNNING, LOOP_DRAINING, LOOP_DETACHING, LOOP_FLUSHING, LOOP_CLOSED };

struct server_loop {
    /* filled in before loop_start(), with clients.shared */
    size_t index;
    int listen_fd; /* ours; -1 once it was let go of */
    bool keeps_backlog;

    /* fixed while the thread runs */
    pthread_t thread;
    sem_t opened;
    bool is_open;            /* valid after `opened` */
    uv_async_t stop_request; /* with the clients' written_request the only handles others may touch */

    /* the loop's thread */
    uv_loop_t uv;
    uv_poll_t poll;
    uv_check_t check; /* ends each uv_run() after one turn */
    uv_timer_t tick;  /* sweeps; later the end of a phase */
    bool stop_wanted; /* noted, not begun */
    struct MHD_Daemon *daemon;
    enum loop_phase phase;
    uint64_t phase_ends_ms, grace_ends_ms;
    bool lookups_leave; /* in the latest turn with a waiter to wake */
    bool sweep_due;     /* behind the next turn to begin */

    /* set before the stop is requested */
    uint32_t drain_ms;

    struct clients clients;   /* theirs */
    _Atomic uint64_t beat_ms; /* clock_ms() of the latest tick; any thread may read it */
};

/* Starts the thread and waits until it answers. What is not filled in is zero. Takes listen_fd in any case. False:
 * the reason was logged. */
bool loop_start(struct server_loop *loop);
/* Returns at once; the loop goes through its phases and its thread ends. */
void loop_stop(struct server_loop *loop, uint32_t drain_ms);
void loop_join(struct server_loop *loop);
