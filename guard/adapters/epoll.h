/* SPDX-License-Identifier: MIT */
/*
 * epoll.h - the guard on a loop of your own: epoll, poll, io_uring, whatever can watch one descriptor.
 *
 *     guard_epoll_attach(guard, &ours, &loop, &error);          then guard_get() with this loop in the request
 *     ...watch ours->fd for reading, level-triggered, beside your own descriptors, then in each turn:
 *     count = epoll_wait(epoll, events, EVENTS, guard_epoll_before_wait(ours, -1));
 *     ...for each event your own work, or guard_epoll_ready(ours)...
 *     guard_loop_detach(&loop, detached, context);              and the loop runs on until detached() was called
 *
 * Threads    All of it on the thread of the loop, or before it runs.
 * Waiting    What is asked in a turn leaves in guard_epoll_before_wait(): a loop that waits without it waits in vain.
 *            It takes how long the loop means to wait, in ms (-1: for ever), and returns how long it may.
 * Order      An answer may free what another event of the same batch points to: call guard_epoll_ready() last.
 * Lifetime   detached() is called in guard_epoll_before_wait(), at its end; `ours` is gone then.
 * Errors     As guard_loop_attach_host(); nothing is left then.
 */
#ifndef GUARD_ADAPTER_EPOLL_H
#define GUARD_ADAPTER_EPOLL_H

#include "../host.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

struct guard_epoll {
    struct guard_host host; /* first */
    int fd;                 /* becomes readable when one of the guard's does */
    int count;
    struct epoll_event events[16]; /* to be reported; their data is a watch, or NULL: stopped meanwhile */
    uint64_t rings_ms;             /* 0: never */
    bool soon, closed;
};

static inline int guard_epoll_watch(struct guard_host *host, struct guard_watch *watch, unsigned events)
{
    struct guard_epoll *self = (struct guard_epoll *)host;
    int what = watch->handle == NULL ? EPOLL_CTL_ADD : events != 0 ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;
    struct epoll_event event = {events & GUARD_HOST_READABLE ? EPOLLIN : 0u, {watch}};
    event.events |= events & GUARD_HOST_WRITABLE ? EPOLLOUT : 0u;
    if (watch->handle == NULL && events == 0)
        return 0;
    if (epoll_ctl(self->fd, what, watch->fd, &event) != 0)
        return errno;
    watch->handle = events != 0 ? self : NULL;
    for (int i = 0; i < self->count && events == 0; i++)
        if (self->events[i].data.ptr == watch)
            self->events[i].data.ptr = NULL;
    return 0;
}

/* One ms more, for the part of this one that has passed. */
static inline void guard_epoll_timer(struct guard_host *host, uint32_t in_ms)
{
    struct guard_epoll *self = (struct guard_epoll *)host;
    self->rings_ms = in_ms != GUARD_HOST_NEVER ? guard_host_now_ms() + in_ms + 1 : 0;
}

static inline void guard_epoll_soon(struct guard_host *host, bool again)
{
    (void)again;
    ((struct guard_epoll *)host)->soon = true;
}

static inline void guard_epoll_close(struct guard_host *host)
{
    ((struct guard_epoll *)host)->closed = true;
}

static inline void guard_epoll_free(struct guard_epoll *self)
{
    if (self->fd != -1)
        close(self->fd);
    free(self);
}

/* Waits itself: for a loop that has nothing else to watch. */
static inline void guard_epoll_wait(struct guard_epoll *self, int wait_ms)
{
    self->count = epoll_wait(self->fd, self->events, 16, wait_ms);
    for (int i = 0; i < self->count; i++) {
        struct guard_watch *watch = (struct guard_watch *)self->events[i].data.ptr;
        uint32_t what = self->events[i].events;
        unsigned ready = what & (EPOLLIN | EPOLLERR | EPOLLHUP) ? GUARD_HOST_READABLE : 0;
        ready |= what & (EPOLLOUT | EPOLLERR | EPOLLHUP) ? GUARD_HOST_WRITABLE : 0;
        if (watch != NULL)
            watch->ready(watch->context, ready | (what & EPOLLERR ? GUARD_HOST_BROKEN : 0));
    }
    self->count = 0;
}

static inline void guard_epoll_ready(struct guard_epoll *self)
{
    guard_epoll_wait(self, 0);
}

static inline int guard_epoll_before_wait(struct guard_epoll *self, int wait_ms)
{
    if (self->rings_ms != 0 && self->rings_ms <= guard_host_now_ms()) {
        self->rings_ms = 0;
        guard_host_rang(&self->host);
    }
    if (self->soon) {
        self->soon = false;
        guard_host_turn_over(&self->host);
    }
    if (self->closed) {
        guard_host_closed(&self->host);
#ifndef __clang_analyzer__ /* does not see that `detached` has told the loop */
        guard_epoll_free(self);
#endif
        return 0;
    }
    if (self->soon)
        return 0;
    uint64_t now_ms = guard_host_now_ms(), left_ms = INT32_MAX;
    if (self->rings_ms != 0)
        left_ms = self->rings_ms > now_ms ? self->rings_ms - now_ms : 0;
    return wait_ms >= 0 && (uint64_t)wait_ms < left_ms ? wait_ms : (int)left_ms;
}

static inline enum guard_status guard_epoll_attach(struct guard *guard, struct guard_epoll **out,
                                                   struct guard_loop **loop, struct guard_error *error)
{
    struct guard_epoll *self = (struct guard_epoll *)calloc(1, sizeof *self);
    if (self == NULL)
        return guard_loop_attach_host(guard, NULL, loop, error);
    self->host.watch = guard_epoll_watch;
    self->host.timer = guard_epoll_timer;
    self->host.soon = guard_epoll_soon;
    self->host.close = guard_epoll_close;
    self->fd = epoll_create1(EPOLL_CLOEXEC);
    enum guard_status status = guard_loop_attach_host(guard, &self->host, loop, error);
    if (status == GUARD_OK)
        *out = self;
    else
        guard_epoll_free(self);
    return status;
}

#endif
