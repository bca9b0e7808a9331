/* SPDX-License-Identifier: MIT */
/*
 * h2oserver.c - the guard in h2o on libuv: one thread, and no hand-over at all.
 *
 *     h2oserver PORT FOLDER [REDIS_URL [DELAY_MS]]          see files.h; link with -lh2o -lssl -lcrypto -luv
 *
 * The guard sits on h2o's own loop. A hit is looked up and answered there. A request may end before its answer comes,
 * because the client left: then the guard forgets it, and `asked` goes with it.
 */
#include "adapters/libuv.h"
#include "files.h"
#include <h2o.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { DRAIN_MS = 5000 };

static struct files files;
static struct guard_loop *ours;
static size_t asked_count; /* waiting for their answers */
static bool ending;
static uv_loop_t loop;
static uv_tcp_t listener;
static uv_poll_t signals;
static h2o_globalconf_t config;
static h2o_context_t context;
static h2o_accept_ctx_t accepting = {.ctx = &context};

/* In its request's memory. */
struct asked {
    h2o_req_t *request;
    guard_ticket ticket;
    bool waits;
};

static void on_detached(void *unused)
{
    (void)unused;
    uv_stop(&loop);
}

/* With the last answer. */
static void leave_loop(void)
{
    if (ending && asked_count == 0 && ours != NULL)
        guard_loop_detach(&ours, on_detached, NULL);
}

static void answer(h2o_req_t *request, int status, const char *reason, const struct guard_value *value)
{
    request->res.status = status;
    request->res.reason = reason;
    request->res.content_length = value != NULL ? value->body_bytes : 0;
    h2o_send_inline(request, value != NULL ? value->body : "", value != NULL ? value->body_bytes : 0);
}

/* Its request has ended. If it still waits, no answer comes any more. */
static void on_ended(void *given)
{
    struct asked *asked = given;
    if (!asked->waits)
        return;
    guard_forget(files.guard, ours, asked->ticket);
    asked_count--;
    leave_loop();
}

static void on_answered(void *given, const struct guard_result *result)
{
    struct asked *asked = given;
    asked->waits = false;
    asked_count--;
    if (result->status == GUARD_OK)
        answer(asked->request, 200, "OK", result->value);
    else if (result->status == GUARD_ABSENT)
        answer(asked->request, 404, "Not Found", NULL);
    else
        answer(asked->request, 503, "Service Unavailable", NULL);
    leave_loop();
}

static int ask(h2o_req_t *request, const char *key)
{
    struct asked *asked = h2o_mem_alloc_shared(&request->pool, sizeof *asked, on_ended);
    *asked = (struct asked){.request = request, .waits = true};
    struct guard_request get = {
        .kind = files.kind, .key = key, .loop = ours, .answered = on_answered, .context = asked};
    asked_count++;
    if (ours == NULL || guard_get(files.guard, &get, NULL, &asked->ticket) != GUARD_OK)
        on_answered(asked, &(struct guard_result){.status = GUARD_CLOSING});
    return 0;
}

static int on_request(h2o_handler_t *handler, h2o_req_t *request)
{
    char key[FILES_KEY_BYTES];
    (void)handler;
    if (h2o_memis(request->method.base, request->method.len, H2O_STRLIT("GET")) &&
        files_key(request->input.path.base, request->input.path.len, key))
        return ask(request, key);
    answer(request, 400, "Bad Request", NULL);
    return 0;
}

/* ---- the server ---- */

static void on_connection(uv_stream_t *stream, int status)
{
    uv_tcp_t *connection = h2o_mem_alloc(sizeof *connection);
    uv_tcp_init(&loop, connection);
    if (status != 0 || uv_accept(stream, (uv_stream_t *)connection) != 0)
        uv_close((uv_handle_t *)connection, (uv_close_cb)free);
    else
        h2o_accept(&accepting, h2o_uv_socket_create((uv_stream_t *)connection, (uv_close_cb)free));
}

static void on_signal(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    ending = true;
    guard_drain(files.guard);
    uv_close((uv_handle_t *)poll, NULL);
    uv_close((uv_handle_t *)&listener, NULL);
    leave_loop();
}

int main(int argc, char **argv)
{
    struct guard_error error;
    int signal_fd = files_signals();
    files_open(&files, argc, argv);
    uv_loop_init(&loop);
    uv_tcp_init(&loop, &listener);
    uv_poll_init(&loop, &signals, signal_fd);
    uv_poll_start(&signals, UV_READABLE, on_signal);

    h2o_config_init(&config);
    h2o_hostconf_t *host = h2o_config_register_host(&config, h2o_iovec_init(H2O_STRLIT("default")), 65535);
    h2o_create_handler(h2o_config_register_path(host, "/", 0), sizeof(h2o_handler_t))->on_req = on_request;
    h2o_context_init(&context, &loop, &config);
    accepting.hosts = config.hosts;

    if (guard_loop_attach(files.guard, &loop, &ours, &error) != GUARD_OK ||
        uv_tcp_open(&listener, files_listen(argv[1])) != 0 ||
        uv_listen((uv_stream_t *)&listener, 1024, on_connection) != 0)
        return 1;
    uv_run(&loop, UV_RUN_DEFAULT);
    close(signal_fd);
    return guard_close(&files.guard, DRAIN_MS) == GUARD_OK ? 0 : 1;
}
