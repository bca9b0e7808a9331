/* SPDX-License-Identifier: MIT */
/*
 * libuv.h - the guard on a loop of libuv 1.x. Link with -luv.
 *
 *     struct guard_loop *loop;
 *     guard_loop_attach(guard, uv_default_loop(), &loop, &error);   then guard_get() with this loop in the request
 *     guard_loop_detach(&loop, detached, context);                  and the loop runs on until detached() was called
 *
 * Threads    On the thread that runs the loop, or before it runs.
 * Lifetime   While the guard is attached uv_run() does not return by itself.
 * Errors     As guard_loop_attach_host(). Run the loop once more before you close it: libuv closes handles only then.
 */
#ifndef GUARD_ADAPTER_LIBUV_H
#define GUARD_ADAPTER_LIBUV_H

#include "../host.h"
#include <assert.h>
#include <stdlib.h>
#include <uv.h>

struct guard_libuv {
    struct guard_host host; /* first */
    uv_loop_t *loop;
    uv_timer_t timer;
    uv_idle_t idle;
    uv_async_t async;
    unsigned handles; /* not closed yet */
};

/* Frees itself once libuv has closed it. */
struct guard_libuv_watcher {
    uv_poll_t poll; /* first */
    struct guard_libuv *of;
    int events;
};

static inline void guard_libuv_one_less(struct guard_libuv *self)
{
    if (--self->handles > 0)
        return;
    if (self->host.state != NULL) /* it was attached */
        guard_host_closed(&self->host);
    free(self);
}

/* ---- descriptors ---- */

static inline void guard_libuv_on_watcher_closed(uv_handle_t *handle)
{
    struct guard_libuv_watcher *watcher = (struct guard_libuv_watcher *)handle;
    struct guard_libuv *self = watcher->of;
    free(watcher);
    guard_libuv_one_less(self);
}

/* libuv stops what is broken: it is started again, which is refused only if another handle watches the descriptor. */
static inline void guard_libuv_on_poll(uv_poll_t *poll, int status, int events)
{
    struct guard_watch *watch = (struct guard_watch *)poll->data;
    unsigned ready = events & UV_READABLE ? GUARD_HOST_READABLE : 0;
    ready |= events & UV_WRITABLE ? GUARD_HOST_WRITABLE : 0;
    if (status < 0) {
        ready |= GUARD_HOST_BROKEN;
        uv_poll_start(poll, ((struct guard_libuv_watcher *)poll)->events, guard_libuv_on_poll);
    }
    watch->ready(watch->context, ready);
}

static inline int guard_libuv_watch_first(struct guard_libuv *self, struct guard_watch *watch)
{
    struct guard_libuv_watcher *watcher = (struct guard_libuv_watcher *)malloc(sizeof *watcher);
    int failed = watcher != NULL ? uv_poll_init(self->loop, &watcher->poll, watch->fd) : UV_ENOMEM;
    if (failed != 0) {
        free(watcher);
        return -failed; /* on Unix libuv's numbers are errno's below 0 */
    }
    watcher->of = self;
    watcher->poll.data = watch;
    watch->handle = watcher;
    self->handles++;
    return 0;
}

static inline int guard_libuv_watch(struct guard_host *host, struct guard_watch *watch, unsigned events)
{
    struct guard_libuv *self = (struct guard_libuv *)host;
    int failed = watch->handle == NULL && events != 0 ? guard_libuv_watch_first(self, watch) : 0;
    struct guard_libuv_watcher *watcher = (struct guard_libuv_watcher *)watch->handle;
    if (failed != 0 || watcher == NULL)
        return failed;
    if (events == 0) {
        watch->handle = NULL;
        uv_close((uv_handle_t *)&watcher->poll, guard_libuv_on_watcher_closed);
        return 0;
    }
    watcher->events =
        (events & GUARD_HOST_READABLE ? UV_READABLE : 0) | (events & GUARD_HOST_WRITABLE ? UV_WRITABLE : 0);
    failed = uv_poll_start(&watcher->poll, watcher->events, guard_libuv_on_poll);
    assert(failed == 0); /* it refuses only a descriptor that another handle watches */
    return 0;
}

/* ---- one of each ---- */

static inline void guard_libuv_on_timer(uv_timer_t *timer)
{
    guard_host_rang((struct guard_host *)timer->data);
}

/* libuv counts from when its turn began, which may be long ago. */
static inline void guard_libuv_timer(struct guard_host *host, uint32_t in_ms)
{
    struct guard_libuv *self = (struct guard_libuv *)host;
    if (in_ms == GUARD_HOST_NEVER) {
        uv_timer_stop(&self->timer);
        return;
    }
    uv_update_time(self->loop);
    uv_timer_start(&self->timer, guard_libuv_on_timer, in_ms, 0);
}

static inline void guard_libuv_on_idle(uv_idle_t *idle)
{
    uv_idle_stop(idle);
    guard_host_turn_over((struct guard_host *)idle->data);
}

/* An idle handle runs when all that was to be read in a turn has been read; a loop that has one active does not wait,
 * also if it was started just before. */
static inline void guard_libuv_soon(struct guard_host *host, bool again)
{
    (void)again;
    uv_idle_start(&((struct guard_libuv *)host)->idle, guard_libuv_on_idle);
}

static inline void guard_libuv_on_async(uv_async_t *async)
{
    guard_host_woken((struct guard_host *)async->data);
}

static inline void guard_libuv_wake(struct guard_host *host)
{
    uv_async_send(&((struct guard_libuv *)host)->async);
}

/* ---- from attach to detach ---- */

static inline void guard_libuv_on_closed(uv_handle_t *handle)
{
    guard_libuv_one_less((struct guard_libuv *)handle->data);
}

static inline void guard_libuv_close(struct guard_host *host)
{
    struct guard_libuv *self = (struct guard_libuv *)host;
    uv_close((uv_handle_t *)&self->timer, guard_libuv_on_closed);
    uv_close((uv_handle_t *)&self->idle, guard_libuv_on_closed);
    uv_close((uv_handle_t *)&self->async, guard_libuv_on_closed);
}

/* NULL: no memory. */
static inline struct guard_libuv *guard_libuv_new(uv_loop_t *loop)
{
    const struct guard_host host = {guard_libuv_watch, guard_libuv_timer, guard_libuv_soon,
                                    guard_libuv_wake,  guard_libuv_close, NULL};
    struct guard_libuv *self = (struct guard_libuv *)calloc(1, sizeof *self);
    if (self == NULL || uv_async_init(loop, &self->async, guard_libuv_on_async) != 0) {
        free(self);
        return NULL;
    }
    self->host = host;
    self->loop = loop;
    uv_timer_init(loop, &self->timer);
    uv_idle_init(loop, &self->idle);
    self->async.data = self->timer.data = self->idle.data = self;
    self->handles = 3;
    return self;
}

static inline enum guard_status guard_loop_attach(struct guard *guard, uv_loop_t *loop,
                                                  struct guard_loop **out, struct guard_error *error)
{
    struct guard_libuv *self = guard_libuv_new(loop);
    enum guard_status status = guard_loop_attach_host(guard, self != NULL ? &self->host : NULL, out, error);
    if (status != GUARD_OK && self != NULL)
        guard_libuv_close(&self->host);
    return status;
}

#endif
