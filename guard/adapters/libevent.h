/* SPDX-License-Identifier: MIT */
/*
 * libevent.h - the guard on an event_base of libevent 2.1. Link with -levent_core.
 *
 *     struct guard_loop *loop;
 *     guard_libevent_attach(guard, base, &loop, &error);        then guard_get() with this loop in the request
 *     guard_loop_detach(&loop, detached, context);              and the base runs on until detached() was called
 *
 * Threads    On the thread that runs the base, or before it runs; evthread_use_pthreads() is not needed.
 * Lifetime   While the guard is attached event_base_dispatch() does not return by itself.
 * Priority   Its events have the base's middle one.
 * Errors     As guard_loop_attach_host(); nothing is left on the base then.
 */
#ifndef GUARD_ADAPTER_LIBEVENT_H
#define GUARD_ADAPTER_LIBEVENT_H

#include "../host.h"
#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdlib.h>

struct guard_libevent {
    struct guard_host host; /* first */
    struct event_base *base;
    struct event timer, soon;
};

static inline void guard_libevent_on_watch(evutil_socket_t fd, short what, void *context)
{
    struct guard_watch *watch = (struct guard_watch *)context;
    unsigned readable = what & EV_READ ? GUARD_HOST_READABLE : 0;
    (void)fd;
    watch->ready(watch->context, readable | (what & EV_WRITE ? GUARD_HOST_WRITABLE : 0));
}

/* One event for both directions. What it is for may change only while it is not pending. */
static inline int guard_libevent_watch(struct guard_host *host, struct guard_watch *watch, unsigned events)
{
    struct event_base *base = ((struct guard_libevent *)host)->base;
    struct event *event = (struct event *)watch->handle;
    short what = (short)(EV_PERSIST | (events & GUARD_HOST_READABLE ? EV_READ : 0) |
                         (events & GUARD_HOST_WRITABLE ? EV_WRITE : 0));
    if (event == NULL && events != 0)
        event = event_new(base, watch->fd, what, guard_libevent_on_watch, watch);
    else if (event != NULL && event_del(event) == 0)
        event_assign(event, base, watch->fd, what, guard_libevent_on_watch, watch);
    watch->handle = events != 0 && event != NULL && event_add(event, NULL) == 0 ? event : NULL;
    if (event != NULL && watch->handle == NULL)
        event_free(event);
    return events != 0 && watch->handle == NULL ? errno : 0;
}

static inline void guard_libevent_on_timer(evutil_socket_t fd, short what, void *context)
{
    (void)fd, (void)what;
    guard_host_rang((struct guard_host *)context);
}

/* The base counts from when its turn began, unless it is told to look. */
static inline void guard_libevent_timer(struct guard_host *host, uint32_t in_ms)
{
    struct guard_libevent *self = (struct guard_libevent *)host;
    struct timeval in = {(time_t)(in_ms / 1000), (suseconds_t)(in_ms % 1000 * 1000)};
    event_base_update_cache_time(self->base);
    if (in_ms == GUARD_HOST_NEVER)
        event_del(&self->timer);
    else
        event_add(&self->timer, &in);
}

static inline void guard_libevent_on_soon(evutil_socket_t fd, short what, void *context)
{
    (void)fd, (void)what;
    guard_host_turn_over((struct guard_host *)context);
}

/* An active event runs after those that are already, and before the base looks at its descriptors; a timer of 0
 * after. */
static inline void guard_libevent_soon(struct guard_host *host, bool again)
{
    struct guard_libevent *self = (struct guard_libevent *)host;
    struct timeval at_once = {0, 0};
    if (again)
        event_add(&self->soon, &at_once);
    else
        event_active(&self->soon, EV_TIMEOUT, 0);
}

static inline void guard_libevent_free(struct guard_libevent *self)
{
    event_del(&self->timer);
    event_del(&self->soon);
    free(self);
}

static inline void guard_libevent_close(struct guard_host *host)
{
    guard_host_closed(host);
    guard_libevent_free((struct guard_libevent *)host);
}

static inline enum guard_status guard_libevent_attach(struct guard *guard, struct event_base *base,
                                                      struct guard_loop **out, struct guard_error *error)
{
    const struct guard_host host = {
        guard_libevent_watch, guard_libevent_timer, guard_libevent_soon, NULL, guard_libevent_close, NULL};
    struct guard_libevent *self = (struct guard_libevent *)calloc(1, sizeof *self);
    if (self == NULL)
        return guard_loop_attach_host(guard, NULL, out, error);
    self->host = host;
    self->base = base;
    event_assign(&self->timer, base, -1, 0, guard_libevent_on_timer, self);
    event_assign(&self->soon, base, -1, 0, guard_libevent_on_soon, self);
    enum guard_status status = guard_loop_attach_host(guard, &self->host, out, error);
    if (status != GUARD_OK)
        guard_libevent_free(self);
    return status;
}

#endif
