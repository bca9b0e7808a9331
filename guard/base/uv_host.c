/* SPDX-License-Identifier: MIT */
/* uv_host.c - see uv_host.h. */
#include "uv_host.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <uv.h>

enum { LOOP_DESCRIPTORS = 6 /* epoll, two pipes, eventfd */ };

struct uv_host {
    struct guard_host host; /* first */
    struct guard_host_state state;
    uv_loop_t *loop;
    uv_loop_t own;
    uv_timer_t timer;
    uv_idle_t idle;
    uv_async_t async;
    unsigned handles; /* not closed yet */
};

/* Frees itself once libuv has closed it. */
struct watcher {
    uv_poll_t poll;
    struct uv_host *host;
    int events;
};

static struct uv_host *uv_host_of(struct guard_host *host)
{
    return (struct uv_host *)host;
}

/* The one with a loop of its own is freed by its owner, for that loop still runs. */
static void one_handle_less(struct uv_host *self)
{
    bool attached = self->loop != &self->own;
    if (--self->handles > 0)
        return;
    guard_host_closed(&self->host);
    if (attached)
        free(self);
}

/* ---- descriptors ---- */

static void on_watcher_closed(uv_handle_t *handle)
{
    struct watcher *watcher = (struct watcher *)handle;
    struct uv_host *self = watcher->host;
    free(watcher);
    one_handle_less(self);
}

static void on_poll(uv_poll_t *poll, int status, int events);

static void start_watcher(struct watcher *watcher)
{
    int failed = uv_poll_start(&watcher->poll, watcher->events, on_poll);
    assert(failed == 0); /* it refuses only a descriptor that another handle watches */
    (void)failed;
}

/* libuv stops what is broken. */
static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct watcher *watcher = (struct watcher *)poll;
    struct guard_watch *watch = poll->data;
    unsigned ready = 0;
    if ((events & UV_READABLE) != 0)
        ready |= GUARD_HOST_READABLE;
    if ((events & UV_WRITABLE) != 0)
        ready |= GUARD_HOST_WRITABLE;
    if (status < 0) {
        ready |= GUARD_HOST_BROKEN;
        start_watcher(watcher);
    }
    watch->ready(watch->context, ready);
}

static int new_watcher(struct uv_host *self, struct guard_watch *watch)
{
    struct watcher *watcher = malloc(sizeof *watcher);
    if (watcher == NULL)
        return ENOMEM;
    int failed = uv_poll_init(self->loop, &watcher->poll, watch->fd);
    if (failed != 0) {
        free(watcher);
        return -failed; /* on Unix libuv's numbers are errno's below 0 */
    }
    watcher->host = self;
    watcher->poll.data = watch;
    watch->handle = watcher;
    self->handles++;
    return 0;
}

static int watch_on_uv(struct guard_host *host, struct guard_watch *watch, unsigned events)
{
    int failed = watch->handle == NULL && events != 0 ? new_watcher(uv_host_of(host), watch) : 0;
    struct watcher *watcher = watch->handle;
    if (failed != 0 || watcher == NULL)
        return failed;
    if (events == 0) {
        watch->handle = NULL;
        uv_close((uv_handle_t *)&watcher->poll, on_watcher_closed);
        return 0;
    }
    watcher->events =
        (events & GUARD_HOST_READABLE ? UV_READABLE : 0) | (events & GUARD_HOST_WRITABLE ? UV_WRITABLE : 0);
    start_watcher(watcher);
    return 0;
}

/* ---- one of each ---- */

static void on_timer(uv_timer_t *timer)
{
    guard_host_rang(timer->data);
}

/* libuv counts from when its turn began, which may be long ago. */
static void set_timer_on_uv(struct guard_host *host, uint32_t in_ms)
{
    struct uv_host *self = uv_host_of(host);
    if (in_ms == GUARD_HOST_NEVER) {
        uv_timer_stop(&self->timer);
        return;
    }
    uv_update_time(self->loop);
    uv_timer_start(&self->timer, on_timer, in_ms, 0);
}

static void on_idle(uv_idle_t *idle)
{
    uv_idle_stop(idle);
    guard_host_turn_over(idle->data);
}

/* An idle handle runs when all that was to be read in a turn has been read; a loop that has one active does not wait,
 * also if it was started just before. */
static void soon_on_uv(struct guard_host *host, bool again)
{
    (void)again;
    uv_idle_start(&uv_host_of(host)->idle, on_idle);
}

static void on_async(uv_async_t *async)
{
    guard_host_woken(async->data);
}

static void wake_on_uv(struct guard_host *host)
{
    uv_async_send(&uv_host_of(host)->async);
}

/* ---- the end ---- */

static void on_handle_closed(uv_handle_t *handle)
{
    one_handle_less(uv_host_of(handle->data));
}

static void close_on_uv(struct guard_host *host)
{
    struct uv_host *self = uv_host_of(host);
    uv_close((uv_handle_t *)&self->timer, on_handle_closed);
    uv_close((uv_handle_t *)&self->idle, on_handle_closed);
    uv_close((uv_handle_t *)&self->async, on_handle_closed);
}

/* ---- the beginning ---- */

static bool begin_on_uv(struct uv_host *self, uv_loop_t *loop)
{
    self->host = (struct guard_host){.watch = watch_on_uv,
                                     .timer = set_timer_on_uv,
                                     .soon = soon_on_uv,
                                     .wake = wake_on_uv,
                                     .close = close_on_uv};
    host_init(&self->host, &self->state);
    self->loop = loop;
    if (uv_async_init(loop, &self->async, on_async) != 0)
        return false;
    uv_timer_init(loop, &self->timer);
    uv_idle_init(loop, &self->idle);
    self->async.data = self->timer.data = self->idle.data = &self->host;
    self->handles = 3;
    return true;
}

struct guard_host *uv_host_attach(struct uv_loop_s *loop)
{
    struct uv_host *self = calloc(1, sizeof *self);
    if (self == NULL || !begin_on_uv(self, loop)) {
        free(self);
        return NULL;
    }
    return &self->host;
}

/* Of 0, 1 and 2 those that are closed: they come first. */
static int count_standard(const int *fds, int count)
{
    int standard = 0;
    while (standard < count && fds[standard] <= STDERR_FILENO)
        standard++;
    return standard;
}

/* uv_loop_init() of libuv 1.44 leaks the descriptor of its epoll when it has none for its two pipes and its eventfd:
 * those it needs are tried first. It aborts when it closes one of 0, 1 and 2: those are held meanwhile. */
static bool init_loop(struct uv_loop_s *loop)
{
    int fds[STDERR_FILENO + 1 + LOOP_DESCRIPTORS];
    int count = 0, standard = 0;
    while (count < standard + LOOP_DESCRIPTORS && (fds[count] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) >= 0)
        standard = count_standard(fds, ++count);
    bool enough = count == standard + LOOP_DESCRIPTORS;
    while (count > standard)
        close(fds[--count]);
    bool done = enough && uv_loop_init(loop) == 0;
    while (count > 0)
        close(fds[--count]);
    return done;
}

struct guard_host *uv_host_open(void)
{
    struct uv_host *self = calloc(1, sizeof *self);
    if (self == NULL || !init_loop(&self->own)) {
        free(self);
        return NULL;
    }
    if (!begin_on_uv(self, &self->own)) {
        uv_loop_close(&self->own);
        free(self);
        return NULL;
    }
    return &self->host;
}

void uv_host_run(struct guard_host *host)
{
    uv_run(uv_host_of(host)->loop, UV_RUN_DEFAULT);
}

void uv_host_free(struct guard_host **host)
{
    struct uv_host *self = uv_host_of(*host);
    *host = NULL;
    uv_loop_close(&self->own);
    free(self);
}
