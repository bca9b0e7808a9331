/* SPDX-License-Identifier: MIT */
/*
 * loops_rig.h - the five loops that the guard has an adapter for, as one kind of loop that a test can drive.
 *
 * loops_main() runs all tests of a program on each of them: `rig_kind` is the one at present.
 *
 * A loop has a wake of the test's own, which keeps it going. loop_rig_leave() takes that off: what runs on then is
 * something that the guard has left on it.
 */
#pragma once

#include "guard/adapters/epoll.h"
#include "guard/adapters/glib.h"
#include "guard/adapters/libev.h"
#include "guard/adapters/libevent.h"
#include "guard/adapters/libuv.h"
#include "tests/support/test.h"
#include <glib-unix.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

struct loop_rig {
    void (*woken)(void *context); /* on the thread of the loop, after loop_rig_wake() */
    void *context;
    struct guard_epoll *ours; /* of a loop of one's own; NULL: not attached, or detached() was called */
    union {
        struct {
            uv_loop_t loop;
            uv_async_t async;
        } uv;
        struct {
            struct event_base *base;
            struct event *woken;
            int wake_fd;
        } event;
        struct {
            struct ev_loop *loop;
            ev_async async;
        } ev;
        struct {
            int epoll, wake_fd;
            bool leaving;
        } epoll;
        struct {
            GMainContext *context;
            GSource *woken;
            int wake_fd;
        } glib;
    };
};

struct loop_kind {
    const char *name;
    void (*open)(struct loop_rig *rig);
    enum guard_status (*attach)(struct loop_rig *rig, struct guard *guard, struct guard_loop **out,
                                struct guard_error *error);
    void (*wake)(struct loop_rig *rig); /* any thread */
    void (*turn)(struct loop_rig *rig, bool waits);
    void (*run)(struct loop_rig *rig);   /* until it has been left and nothing is on it */
    void (*leave)(struct loop_rig *rig); /* in woken() */
    void (*close)(struct loop_rig *rig);
};

/* ---- libuv ---- */

static inline void uv_rig_woken(uv_async_t *async)
{
    struct loop_rig *rig = async->data;
    rig->woken(rig->context);
}

static inline void uv_rig_open(struct loop_rig *rig)
{
    assert_int_equal(uv_loop_init(&rig->uv.loop), 0);
    assert_int_equal(uv_async_init(&rig->uv.loop, &rig->uv.async, uv_rig_woken), 0);
    rig->uv.async.data = rig;
}

static inline enum guard_status uv_rig_attach(struct loop_rig *rig, struct guard *guard,
                                              struct guard_loop **out, struct guard_error *error)
{
    return guard_loop_attach(guard, &rig->uv.loop, out, error);
}

static inline void uv_rig_wake(struct loop_rig *rig)
{
    uv_async_send(&rig->uv.async);
}

static inline void uv_rig_turn(struct loop_rig *rig, bool waits)
{
    uv_run(&rig->uv.loop, waits ? UV_RUN_ONCE : UV_RUN_NOWAIT);
}

static inline void uv_rig_run(struct loop_rig *rig)
{
    uv_run(&rig->uv.loop, UV_RUN_DEFAULT);
}

static inline void uv_rig_leave(struct loop_rig *rig)
{
    uv_close((uv_handle_t *)&rig->uv.async, NULL);
}

static inline void uv_rig_close(struct loop_rig *rig)
{
    assert_int_equal(uv_loop_close(&rig->uv.loop), 0);
}

/* ---- libevent ---- */

static inline void event_rig_woken(evutil_socket_t fd, short what, void *context)
{
    struct loop_rig *rig = context;
    eventfd_t count = 0;
    (void)what;
    eventfd_read(fd, &count);
    rig->woken(rig->context);
}

/* A test watches what cannot be watched: libevent need not tell stderr. */
static inline void event_rig_say(int severity, const char *text)
{
    (void)severity, (void)text;
}

static inline void event_rig_open(struct loop_rig *rig)
{
    event_set_log_callback(event_rig_say);
    rig->event.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    rig->event.base = event_base_new();
    assert_non_null(rig->event.base);
    rig->event.woken =
        event_new(rig->event.base, rig->event.wake_fd, EV_READ | EV_PERSIST, event_rig_woken, rig);
    assert_int_equal(event_add(rig->event.woken, NULL), 0);
}

static inline enum guard_status event_rig_attach(struct loop_rig *rig, struct guard *guard,
                                                 struct guard_loop **out, struct guard_error *error)
{
    return guard_libevent_attach(guard, rig->event.base, out, error);
}

static inline void event_rig_wake(struct loop_rig *rig)
{
    eventfd_write(rig->event.wake_fd, 1);
}

static inline void event_rig_turn(struct loop_rig *rig, bool waits)
{
    event_base_loop(rig->event.base, waits ? EVLOOP_ONCE : EVLOOP_ONCE | EVLOOP_NONBLOCK);
}

static inline void event_rig_run(struct loop_rig *rig)
{
    assert_int_equal(event_base_dispatch(rig->event.base), 1); /* it has nothing left to do */
}

static inline void event_rig_leave(struct loop_rig *rig)
{
    event_del(rig->event.woken);
}

static inline void event_rig_close(struct loop_rig *rig)
{
    event_free(rig->event.woken);
    assert_int_equal(event_base_get_num_events(rig->event.base, EVENT_BASE_COUNT_ADDED), 0);
    event_base_free(rig->event.base);
    close(rig->event.wake_fd);
}

/* ---- libev ---- */

static inline void ev_rig_woken(struct ev_loop *loop, ev_async *async, int what)
{
    struct loop_rig *rig = async->data;
    (void)loop, (void)what;
    rig->woken(rig->context);
}

static inline void ev_rig_open(struct loop_rig *rig)
{
    rig->ev.loop = ev_loop_new(EVFLAG_AUTO);
    assert_non_null(rig->ev.loop);
    ev_async_init(&rig->ev.async, ev_rig_woken);
    rig->ev.async.data = rig;
    ev_async_start(rig->ev.loop, &rig->ev.async);
}

static inline enum guard_status ev_rig_attach(struct loop_rig *rig, struct guard *guard,
                                              struct guard_loop **out, struct guard_error *error)
{
    return guard_libev_attach(guard, rig->ev.loop, out, error);
}

static inline void ev_rig_wake(struct loop_rig *rig)
{
    ev_async_send(rig->ev.loop, &rig->ev.async);
}

static inline void ev_rig_turn(struct loop_rig *rig, bool waits)
{
    if (waits && ev_pending_count(rig->ev.loop) > 0) /* ev_run() would do this, and then wait */
        ev_invoke_pending(rig->ev.loop);
    else
        ev_run(rig->ev.loop, waits ? EVRUN_ONCE : EVRUN_NOWAIT);
}

static inline void ev_rig_run(struct loop_rig *rig)
{
    assert_false(ev_run(rig->ev.loop, 0)); /* it has nothing left to do */
}

static inline void ev_rig_leave(struct loop_rig *rig)
{
    ev_async_stop(rig->ev.loop, &rig->ev.async);
}

static inline void ev_rig_close(struct loop_rig *rig)
{
    assert_int_equal(ev_pending_count(rig->ev.loop), 0);
    ev_loop_destroy(rig->ev.loop);
}

/* ---- a loop of one's own ---- */

enum { EPOLL_RIG_EVENTS = 8 };

static inline void epoll_rig_watch(struct loop_rig *rig, int fd, void *data)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = data};
    assert_int_equal(epoll_ctl(rig->epoll.epoll, EPOLL_CTL_ADD, fd, &event), 0);
}

static inline void epoll_rig_open(struct loop_rig *rig)
{
    rig->epoll.epoll = epoll_create1(EPOLL_CLOEXEC);
    rig->epoll.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    epoll_rig_watch(rig, rig->epoll.wake_fd, rig);
}

static inline enum guard_status epoll_rig_attach(struct loop_rig *rig, struct guard *guard,
                                                 struct guard_loop **out, struct guard_error *error)
{
    enum guard_status status = guard_epoll_attach(guard, &rig->ours, out, error);
    if (status == GUARD_OK)
        epoll_rig_watch(rig, rig->ours->fd, NULL);
    return status;
}

static inline void epoll_rig_wake(struct loop_rig *rig)
{
    eventfd_write(rig->epoll.wake_fd, 1);
}

static inline void epoll_rig_event(struct loop_rig *rig, const struct epoll_event *event)
{
    eventfd_t count = 0;
    if (event->data.ptr == NULL) {
        guard_epoll_ready(rig->ours);
        return;
    }
    eventfd_read(rig->epoll.wake_fd, &count);
    rig->woken(rig->context);
}

static inline void epoll_rig_turn(struct loop_rig *rig, bool waits)
{
    struct epoll_event events[EPOLL_RIG_EVENTS];
    int wait_ms = waits ? -1 : 0;
    bool works =
        rig->ours != NULL &&
        (rig->ours->soon || (rig->ours->rings_ms != 0 && rig->ours->rings_ms <= guard_host_now_ms()));
    if (rig->ours != NULL)
        wait_ms = guard_epoll_before_wait(rig->ours, wait_ms);
    if (works && wait_ms != 0) /* that was a turn */
        return;
    int count = epoll_wait(rig->epoll.epoll, events, EPOLL_RIG_EVENTS, wait_ms);
    for (int i = 0; i < count; i++)
        epoll_rig_event(rig, &events[i]);
}

static inline void epoll_rig_run(struct loop_rig *rig)
{
    while (!rig->epoll.leaving || rig->ours != NULL)
        epoll_rig_turn(rig, true);
}

static inline void epoll_rig_leave(struct loop_rig *rig)
{
    rig->epoll.leaving = true;
}

static inline void epoll_rig_close(struct loop_rig *rig)
{
    close(rig->epoll.wake_fd);
    close(rig->epoll.epoll);
}

/* ---- GLib ---- */

static inline GSource *glib_rig_attach_source(struct loop_rig *rig, GSource *source)
{
    g_source_attach(source, rig->glib.context);
    return source;
}

static inline gboolean glib_rig_woken(gint fd, GIOCondition what, gpointer context)
{
    struct loop_rig *rig = context;
    eventfd_t count = 0;
    (void)what;
    eventfd_read(fd, &count);
    rig->woken(rig->context);
    return G_SOURCE_CONTINUE;
}

static inline void glib_rig_open(struct loop_rig *rig)
{
    rig->glib.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    rig->glib.context = g_main_context_new();
    rig->glib.woken = glib_rig_attach_source(rig, g_unix_fd_source_new(rig->glib.wake_fd, G_IO_IN));
    g_source_set_callback(rig->glib.woken, G_SOURCE_FUNC(glib_rig_woken), rig, NULL);
}

static inline enum guard_status glib_rig_attach(struct loop_rig *rig, struct guard *guard,
                                                struct guard_loop **out, struct guard_error *error)
{
    return guard_glib_attach(guard, rig->glib.context, out, error);
}

static inline void glib_rig_wake(struct loop_rig *rig)
{
    eventfd_write(rig->glib.wake_fd, 1);
}

static inline void glib_rig_turn(struct loop_rig *rig, bool waits)
{
    g_main_context_iteration(rig->glib.context, waits);
}

/* A context numbers its sources from 1: has it any? */
static inline bool glib_rig_has_sources(struct loop_rig *rig)
{
    GSource *probe = glib_rig_attach_source(rig, g_idle_source_new());
    guint end = g_source_get_id(probe), id = 1;
    g_source_destroy(probe);
    g_source_unref(probe);
    while (id < end && g_main_context_find_source_by_id(rig->glib.context, id) == NULL)
        id++;
    return id < end;
}

static inline void glib_rig_run(struct loop_rig *rig)
{
    while (glib_rig_has_sources(rig))
        glib_rig_turn(rig, true);
}

static inline void glib_rig_leave(struct loop_rig *rig)
{
    g_source_destroy(rig->glib.woken);
}

static inline void glib_rig_close(struct loop_rig *rig)
{
    g_source_unref(rig->glib.woken);
    g_main_context_unref(rig->glib.context);
    close(rig->glib.wake_fd);
}

/* ---- all of them ---- */

static const struct loop_kind loop_kinds[] = {
    {"libuv", uv_rig_open, uv_rig_attach, uv_rig_wake, uv_rig_turn, uv_rig_run, uv_rig_leave, uv_rig_close},
    {"libevent", event_rig_open, event_rig_attach, event_rig_wake, event_rig_turn, event_rig_run,
     event_rig_leave, event_rig_close},
    {"libev", ev_rig_open, ev_rig_attach, ev_rig_wake, ev_rig_turn, ev_rig_run, ev_rig_leave, ev_rig_close},
    {"epoll", epoll_rig_open, epoll_rig_attach, epoll_rig_wake, epoll_rig_turn, epoll_rig_run,
     epoll_rig_leave, epoll_rig_close},
    {"GLib", glib_rig_open, glib_rig_attach, glib_rig_wake, glib_rig_turn, glib_rig_run, glib_rig_leave,
     glib_rig_close},
};
static const struct loop_kind *rig_kind;

/* The loop is this thread's, or that of the one which runs it next. */
static inline void loop_rig_open(struct loop_rig *rig, void (*woken)(void *context), void *context)
{
    memset(rig, 0, sizeof *rig);
    rig->woken = woken;
    rig->context = context;
    rig_kind->open(rig);
}

static inline int loops_main(int argc, char **argv)
{
    int failed = 0;
    for (size_t i = 0; i < sizeof loop_kinds / sizeof loop_kinds[0]; i++) {
        rig_kind = &loop_kinds[i];
        fprintf(stderr, "on %s\n", rig_kind->name);
        failed += test_main(argc, argv);
    }
    return failed;
}
