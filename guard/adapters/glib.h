/* SPDX-License-Identifier: MIT */
/*
 * glib.h - the guard on a GMainContext of GLib 2.58: GTK, libsoup, GStreamer. Link with -lglib-2.0.
 *
 *     struct guard_loop *loop;
 *     guard_glib_attach(guard, NULL, &loop, &error);            then guard_get() with this loop in the request
 *     guard_loop_detach(&loop, detached, context);              and the context runs on until detached() was called
 *
 * Threads    On the thread that runs the context (NULL: the default one), or before it runs.
 * Lifetime   It holds the context until detached() was called.
 * Priority   Its sources have G_PRIORITY_DEFAULT: a source that is always ready with a higher one starves it.
 * Nesting    Do not run this context from inside answered(), as a modal dialog does: begin that in an idle source.
 * Errors     As guard_loop_attach_host(); nothing is left on the context then. GLib ends the process without memory.
 */
#ifndef GUARD_ADAPTER_GLIB_H
#define GUARD_ADAPTER_GLIB_H

#include "../host.h"
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <stdlib.h>

struct guard_glib {
    struct guard_host host; /* first */
    GMainContext *context;
    GSource *timer, *soon;
};

/* A descriptor (`watch` and `tag`), or a timer (`run` and `host`). */
struct guard_glib_source {
    GSource source; /* first */
    struct guard_watch *watch;
    gpointer tag;
    void (*run)(struct guard_host *host);
    struct guard_host *host;
};

/* What is broken or hung up is ready for both. */
static inline unsigned guard_glib_events(GIOCondition what)
{
    const unsigned broken = G_IO_ERR | G_IO_HUP | G_IO_NVAL;
    return ((unsigned)what & (G_IO_IN | broken) ? GUARD_HOST_READABLE : 0u) |
           ((unsigned)what & (G_IO_OUT | broken) ? GUARD_HOST_WRITABLE : 0u) |
           ((unsigned)what & (G_IO_ERR | G_IO_NVAL) ? GUARD_HOST_BROKEN : 0u);
}

/* The source may be destroyed by what it calls; the context holds it until this has returned. */
static inline gboolean guard_glib_dispatch(GSource *source, GSourceFunc unused, gpointer context)
{
    struct guard_glib_source *self = (struct guard_glib_source *)source;
    (void)unused, (void)context;
    if (self->watch != NULL) {
        struct guard_watch *watch = self->watch;
        watch->ready(watch->context, guard_glib_events(g_source_query_unix_fd(source, self->tag)));
    } else {
        g_source_set_ready_time(source, -1);
        self->run(self->host);
    }
    return G_SOURCE_CONTINUE;
}

static inline GSource *guard_glib_source_new(GMainContext *context)
{
    static GSourceFuncs functions = {NULL, NULL, guard_glib_dispatch, NULL, NULL, NULL};
    GSource *source = g_source_new(&functions, sizeof(struct guard_glib_source));
    g_source_set_name(source, "stampede-guard");
    g_source_attach(source, context);
    return source;
}

static inline void guard_glib_source_end(GSource *source)
{
    g_source_destroy(source);
    g_source_unref(source);
}

/* A source for each descriptor. GLib by itself finds a bad one only later. */
static inline int guard_glib_watch(struct guard_host *host, struct guard_watch *watch, unsigned events)
{
    struct guard_glib *self = (struct guard_glib *)host;
    struct guard_glib_source *source = (struct guard_glib_source *)watch->handle;
    GIOCondition what = (GIOCondition)((events & GUARD_HOST_READABLE ? G_IO_IN : 0) |
                                       (events & GUARD_HOST_WRITABLE ? G_IO_OUT : 0));
    if (events == 0) {
        watch->handle = NULL;
        if (source != NULL)
            guard_glib_source_end(&source->source);
    } else if (source != NULL) {
        g_source_modify_unix_fd(&source->source, source->tag, what);
    } else if (fcntl(watch->fd, F_GETFD) == -1) {
        return errno;
    } else {
        source = (struct guard_glib_source *)guard_glib_source_new(self->context);
        source->watch = watch;
        source->tag = g_source_add_unix_fd(&source->source, watch->fd, what);
        watch->handle = source;
    }
    return 0;
}

static inline void guard_glib_timer(struct guard_host *host, uint32_t in_ms)
{
    struct guard_glib *self = (struct guard_glib *)host;
    gint64 at_us = g_get_monotonic_time() + (gint64)in_ms * 1000;
    g_source_set_ready_time(self->timer, in_ms != GUARD_HOST_NEVER ? at_us : -1);
}

/* The context looks at its descriptors before each round of what is ready, and does not wait for them then. */
static inline void guard_glib_soon(struct guard_host *host, bool again)
{
    (void)again;
    g_source_set_ready_time(((struct guard_glib *)host)->soon, 0);
}

static inline void guard_glib_free(struct guard_glib *self)
{
    guard_glib_source_end(self->timer);
    guard_glib_source_end(self->soon);
    g_main_context_unref(self->context);
    free(self);
}

static inline void guard_glib_close(struct guard_host *host)
{
    guard_host_closed(host);
    guard_glib_free((struct guard_glib *)host);
}

static inline GSource *guard_glib_timer_new(struct guard_glib *self, void (*run)(struct guard_host *host))
{
    struct guard_glib_source *source = (struct guard_glib_source *)guard_glib_source_new(self->context);
    source->run = run;
    source->host = &self->host;
    return &source->source;
}

static inline enum guard_status guard_glib_attach(struct guard *guard, GMainContext *context,
                                                  struct guard_loop **out, struct guard_error *error)
{
    const struct guard_host host = {
        guard_glib_watch, guard_glib_timer, guard_glib_soon, NULL, guard_glib_close, NULL};
    struct guard_glib *self = (struct guard_glib *)calloc(1, sizeof *self);
    if (self == NULL)
        return guard_loop_attach_host(guard, NULL, out, error);
    self->host = host;
    self->context = g_main_context_ref(context != NULL ? context : g_main_context_default());
    self->timer = guard_glib_timer_new(self, guard_host_rang);
    self->soon = guard_glib_timer_new(self, guard_host_turn_over);
    enum guard_status status = guard_loop_attach_host(guard, &self->host, out, error);
    if (status != GUARD_OK)
        guard_glib_free(self);
    return status;
}

#endif
