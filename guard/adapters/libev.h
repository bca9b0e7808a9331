/* SPDX-License-Identifier: MIT */
/*
 * libev.h - the guard on an ev_loop of libev 4. Link with -lev.
 *
 *     struct guard_loop *loop;
 *     guard_libev_attach(guard, EV_DEFAULT, &loop, &error);     then guard_get() with this loop in the request
 *     guard_loop_detach(&loop, detached, context);              and the loop runs on until detached() was called
 *
 * Threads    On the thread that runs the loop, or before it runs.
 * Lifetime   While the guard is attached ev_run() does not return by itself.
 * Priority   Its watchers have 0; what it gathers in a turn leaves at EV_MINPRI, after all other work of that turn.
 * Errors     As guard_loop_attach_host(); nothing is left on the loop then.
 */
#ifndef GUARD_ADAPTER_LIBEV_H
#define GUARD_ADAPTER_LIBEV_H

#include "../host.h"
#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <stdlib.h>

struct guard_libev {
    struct guard_host host; /* first */
    struct ev_loop *loop;
    ev_timer timer, soon;
};

/* libev stops a watcher whose descriptor it cannot watch. */
static inline void guard_libev_on_watch(struct ev_loop *loop, ev_io *io, int what)
{
    struct guard_watch *watch = (struct guard_watch *)io->data;
    unsigned broken = what & EV_ERROR ? GUARD_HOST_BROKEN : 0;
    unsigned readable = what & EV_READ ? GUARD_HOST_READABLE : 0;
    if (broken != 0)
        ev_io_start(loop, io);
    watch->ready(watch->context, broken | readable | (what & EV_WRITE ? GUARD_HOST_WRITABLE : 0));
}

/* One watcher for both directions. libev by itself finds a bad descriptor only later. */
static inline int guard_libev_watch(struct guard_host *host, struct guard_watch *watch, unsigned events)
{
    struct ev_loop *loop = ((struct guard_libev *)host)->loop;
    int what = (events & GUARD_HOST_READABLE ? EV_READ : 0) | (events & GUARD_HOST_WRITABLE ? EV_WRITE : 0);
    ev_io *io = (ev_io *)watch->handle;
    if (io != NULL)
        ev_io_stop(loop, io);
    else if (events != 0 && fcntl(watch->fd, F_GETFD) != -1)
        io = (ev_io *)malloc(sizeof *io);
    watch->handle = events != 0 ? io : NULL;
    if (watch->handle == NULL) {
        free(io);
        return events != 0 ? errno : 0;
    }
    ev_io_init(io, guard_libev_on_watch, watch->fd, what);
    io->data = watch;
    ev_io_start(loop, io);
    return 0;
}

static inline void guard_libev_on_timer(struct ev_loop *loop, ev_timer *timer, int what)
{
    struct guard_libev *self = (struct guard_libev *)timer->data;
    (void)loop, (void)what;
    if (timer == &self->timer)
        guard_host_rang(&self->host);
    else
        guard_host_turn_over(&self->host);
}

/* The loop counts from when its turn began, unless it is told to look. */
static inline void guard_libev_timer(struct guard_host *host, uint32_t in_ms)
{
    struct guard_libev *self = (struct guard_libev *)host;
    ev_timer_stop(self->loop, &self->timer);
    if (in_ms == GUARD_HOST_NEVER)
        return;
    ev_now_update(self->loop);
    ev_timer_set(&self->timer, in_ms / 1000., 0.);
    ev_timer_start(self->loop, &self->timer);
}

/* A watcher that is fed an event runs before the loop looks at its descriptors, this one after all others: an idle
 * one would wait for a turn without work. A timer of 0 runs after the loop has looked. */
static inline void guard_libev_soon(struct guard_host *host, bool again)
{
    struct guard_libev *self = (struct guard_libev *)host;
    ev_timer_set(&self->soon, 0., 0.);
    if (again)
        ev_timer_start(self->loop, &self->soon);
    else
        ev_feed_event(self->loop, &self->soon, EV_TIMER);
}

static inline void guard_libev_free(struct guard_libev *self)
{
    ev_timer_stop(self->loop, &self->timer);
    ev_timer_stop(self->loop, &self->soon);
    free(self);
}

static inline void guard_libev_close(struct guard_host *host)
{
    guard_host_closed(host);
    guard_libev_free((struct guard_libev *)host);
}

static inline enum guard_status guard_libev_attach(struct guard *guard, struct ev_loop *loop,
                                                   struct guard_loop **out, struct guard_error *error)
{
    const struct guard_host host = {
        guard_libev_watch, guard_libev_timer, guard_libev_soon, NULL, guard_libev_close, NULL};
    struct guard_libev *self = (struct guard_libev *)calloc(1, sizeof *self);
    if (self == NULL)
        return guard_loop_attach_host(guard, NULL, out, error);
    self->host = host;
    self->loop = loop;
    ev_timer_init(&self->timer, guard_libev_on_timer, 0., 0.);
    ev_timer_init(&self->soon, guard_libev_on_timer, 0., 0.);
    ev_set_priority(&self->soon, EV_MINPRI);
    self->timer.data = self->soon.data = self;
    enum guard_status status = guard_loop_attach_host(guard, &self->host, out, error);
    if (status != GUARD_OK)
        guard_libev_free(self);
    return status;
}

#endif
