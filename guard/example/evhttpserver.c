/* SPDX-License-Identifier: MIT */
/*
 * evhttpserver.c - the guard in libevent's evhttp: one thread, and a loader that is asynchronous as well.
 *
 *     evhttpserver PORT FOLDER [REDIS_URL [DELAY_MS]]       see files.h; link with -levent -levent_pthreads
 *
 *   on_request() -> guard_get() -> a load thread: begin_load() -> base: end_load() -> on_answered() of all that wait
 *
 * The loader only begins: it defers its load, hands the work to the base, here a timer in place of a query, and
 * returns. So a thousand slow queries need no more than one load thread. A request whose client has left stays valid
 * until it is answered; evhttp then throws the answer away.
 */
#include "adapters/libevent.h"
#include "files.h"
#include <event2/buffer.h>
#include <event2/http.h>
#include <event2/thread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { DRAIN_MS = 5000, LAST_ANSWERS_US = 100000 };

static struct files files;
static struct event_base *base;
static struct evhttp *http;
static struct evhttp_bound_socket *listener;
static struct guard_loop *loop;
static size_t asked_count;     /* waiting for their answers */
static atomic_uint load_count; /* on the base */
static bool ending;

/* ---- the loader ---- */

static void end_load(evutil_socket_t fd, short what, void *load)
{
    (void)fd, (void)what;
    files_answer(load, &files);
    atomic_fetch_sub(&load_count, 1);
}

/* Finished exactly once in any case: here if it cannot be deferred, or if there is no timer to be had. */
static void begin_load(struct guard_load *load, void *context)
{
    struct timeval delay = {files.delay_ms / 1000, files.delay_ms % 1000 * 1000};
    (void)context;
    fprintf(stderr, "load %s\n", guard_load_key(load));
    atomic_fetch_add(&load_count, 1);
    if (guard_load_defer(load, NULL, NULL, NULL) != GUARD_OK ||
        event_base_once(base, -1, EV_TIMEOUT, end_load, load, &delay) != 0)
        end_load(-1, 0, load);
}

/* ---- requests ---- */

/* The last answers are still in evhttp's buffers. */
static void on_detached(void *unused)
{
    static const struct timeval sent = {0, LAST_ANSWERS_US};
    (void)unused;
    event_base_loopexit(base, &sent);
}

/* With the last answer. */
static void leave_base(void)
{
    if (ending && asked_count == 0 && loop != NULL)
        guard_loop_detach(&loop, on_detached, NULL);
}

static void on_answered(void *request, const struct guard_result *result)
{
    struct evbuffer *body = evbuffer_new();
    if (result->status == GUARD_OK && body != NULL)
        evbuffer_add(body, result->value->body, result->value->body_bytes);
    if (result->status == GUARD_OK)
        evhttp_send_reply(request, 200, "OK", body);
    else if (result->status == GUARD_ABSENT)
        evhttp_send_reply(request, 404, "Not Found", NULL);
    else
        evhttp_send_reply(request, 503, "Service Unavailable", NULL);
    if (body != NULL)
        evbuffer_free(body);
    asked_count--;
    leave_base();
}

static void on_request(struct evhttp_request *request, void *unused)
{
    const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(request));
    char key[FILES_KEY_BYTES];
    (void)unused;
    if (evhttp_request_get_command(request) != EVHTTP_REQ_GET || !files_key(path, strlen(path), key)) {
        evhttp_send_reply(request, 400, "Bad Request", NULL);
        return;
    }
    struct guard_request get = {
        .kind = files.kind, .key = key, .loop = loop, .answered = on_answered, .context = request};
    asked_count++;
    if (guard_get(files.guard, &get, NULL, NULL) != GUARD_OK)
        on_answered(request, &(struct guard_result){.status = GUARD_CLOSING});
}

/* ---- the server ---- */

static void on_signal(evutil_socket_t fd, short what, void *unused)
{
    (void)fd, (void)what, (void)unused;
    ending = true;
    guard_drain(files.guard);
    evhttp_del_accept_socket(http, listener);
    leave_base();
}

int main(int argc, char **argv)
{
    struct guard_error error;
    evthread_use_pthreads(); /* begin_load() is on another thread */
    base = event_base_new();
    http = evhttp_new(base);
    files.loader = begin_load;
    int signal_fd = files_signals();
    files_open(&files, argc, argv);
    struct event *signals = event_new(base, signal_fd, EV_READ, on_signal, NULL);
    event_add(signals, NULL);
    int listening = files_listen(argv[1]);
    evutil_make_socket_nonblocking(listening);
    listener = evhttp_accept_socket_with_handle(http, listening);
    evhttp_set_gencb(http, on_request, NULL);
    if (listener == NULL || guard_libevent_attach(files.guard, base, &loop, &error) != GUARD_OK)
        return 1;
    event_base_dispatch(base);
    bool closed = guard_close(&files.guard, DRAIN_MS) == GUARD_OK;
    while (atomic_load(&load_count) > 0) /* a deferred load is finished in any case, also after that */
        event_base_loop(base, EVLOOP_ONCE);
    event_free(signals);
    evhttp_free(http);
    event_base_free(base);
    return closed ? 0 : 1;
}
