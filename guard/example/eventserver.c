/* SPDX-License-Identifier: MIT */
/*
 * eventserver.c - the guard in a backend with an event loop of its own: one thread, epoll, nothing that blocks.
 *
 *     eventserver PORT FOLDER [REDIS_URL [DELAY_MS]]
 *
 * Does what fileserver does, see files.h. A connection:
 *
 *     READING --request--> ASKING --on_answered()--> WRITING --> closed
 *                            |                          ^
 *                            +--- the client hangs up: guard_cancel(), on_answered() is called all the same
 *
 * Threads: everything runs on the loop's thread. While ASKING the connection belongs to the guard's callback: the loop
 * may cancel, but frees it only after on_answered().
 */
#include "adapters/epoll.h"
#include "files.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

enum { EVENTS_AT_ONCE = 64, HEAD_BYTES = 256, DRAIN_MS = 5000, IDLE_S = 5, SWEEP_MS = 1000 };

enum state { READING = 0, ASKING, WRITING };

struct connection {
    struct server *server;
    struct connection *prev, *next; /* in `all` */
    time_t since;                   /* when it last did something */
    enum state state;
    int fd;
    char request[FILES_REQUEST_BYTES];
    size_t request_bytes;
    guard_ticket ticket;
    struct guard_result result; /* while WRITING; its value is ours: guard_value_unref() */
    char head[HEAD_BYTES];
    size_t head_bytes, written;
};

struct server {
    struct files files;
    struct guard_epoll *ours; /* NULL: it is detached */
    struct guard_loop *loop;
    int epoll, listener, signals;
    struct connection *all;
    bool ending;
};

/* ---- a connection ---- */

static time_t now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static void watch(struct server *server, int operation, int fd, uint32_t events, void *data)
{
    struct epoll_event event = {.events = events, .data.ptr = data};
    epoll_ctl(server->epoll, operation, fd, &event);
}

static void end_connection(struct connection *connection)
{
    DL_DELETE(connection->server->all, connection);
    close(connection->fd);
    guard_value_unref(&connection->result.value);
    free(connection);
}

static void write_on(struct connection *connection)
{
    const struct guard_value *value = connection->result.value;
    size_t body_bytes = value != NULL ? value->body_bytes : 0;
    while (connection->written < connection->head_bytes + body_bytes) {
        size_t at = connection->written;
        bool in_head = at < connection->head_bytes;
        const char *bytes = in_head ? connection->head + at : value->body + (at - connection->head_bytes);
        size_t count = in_head ? connection->head_bytes - at : body_bytes - (at - connection->head_bytes);
        ssize_t sent = send(connection->fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0) {
            watch(connection->server, EPOLL_CTL_MOD, connection->fd, EPOLLOUT | EPOLLONESHOT, connection);
            return; /* a broken connection shows as EPOLLERR */
        }
        connection->written += (size_t)sent;
    }
    end_connection(connection);
}

static void answer(struct connection *connection, const char *status, const char *from)
{
    const struct guard_value *value = connection->result.value;
    connection->state = WRITING;
    connection->head_bytes =
        (size_t)snprintf(connection->head, sizeof connection->head,
                         "HTTP/1.0 %s\r\nContent-Length: %zu\r\nX-From: %s\r\nConnection: close\r\n\r\n",
                         status, value != NULL ? value->body_bytes : 0, from);
    write_on(connection);
}

/* Its value is lent; it ends with this call. */
static void on_answered(void *context, const struct guard_result *result)
{
    struct connection *connection = context;
    connection->since = now_s();
    connection->result = *result;
    if (result->value != NULL)
        connection->result.value = guard_value_ref(result->value);
    if (result->status == GUARD_CANCELLED)
        end_connection(connection);
    else if (result->status == GUARD_OK)
        answer(connection, "200 OK", guard_source_name(result->source));
    else if (result->status == GUARD_ABSENT)
        answer(connection, "404 Not Found", guard_source_name(result->source));
    else
        answer(connection, "503 Service Unavailable", guard_status_name(result->status));
}

/* Refused at once: on_answered() is never called. */
static void ask(struct connection *connection, const char *key)
{
    struct server *server = connection->server;
    struct guard_request request = {.kind = server->files.kind,
                                    .key = key,
                                    .loop = server->loop,
                                    .answered = on_answered,
                                    .context = connection};
    connection->state = ASKING;
    watch(server, EPOLL_CTL_MOD, connection->fd, EPOLLRDHUP | EPOLLONESHOT, connection);
    enum guard_status status = guard_get(server->files.guard, &request, NULL, &connection->ticket);
    if (status != GUARD_OK)
        answer(connection, "503 Service Unavailable", guard_status_name(status));
}

static void read_on(struct connection *connection)
{
    char *at = connection->request + connection->request_bytes;
    size_t room = sizeof connection->request - 1 - connection->request_bytes;
    ssize_t got = recv(connection->fd, at, room, MSG_DONTWAIT);
    if (got <= 0) {
        end_connection(connection);
        return;
    }
    connection->request_bytes += (size_t)got;
    at[got] = '\0';
    if (strstr(connection->request, "\r\n\r\n") == NULL && (size_t)got < room) {
        watch(connection->server, EPOLL_CTL_MOD, connection->fd, EPOLLIN | EPOLLONESHOT, connection);
        return;
    }
    char key[FILES_KEY_BYTES];
    if (files_requested(connection->request, key))
        ask(connection, key);
    else
        answer(connection, "400 Bad Request", "nowhere");
}

static void on_connection(struct connection *connection)
{
    connection->since = now_s();
    if (connection->state == READING)
        read_on(connection);
    else if (connection->state == ASKING)
        guard_cancel(connection->server->files.guard, connection->server->loop,
                     connection->ticket); /* hung up */
    else
        write_on(connection);
}

/* ---- the loop ---- */

static void accept_one(struct server *server)
{
    int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct connection *connection = fd >= 0 ? calloc(1, sizeof *connection) : NULL;
    if (connection == NULL) {
        if (fd >= 0)
            close(fd);
        return;
    }
    connection->server = server;
    connection->fd = fd;
    connection->since = now_s();
    DL_APPEND(server->all, connection);
    watch(server, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLONESHOT, connection);
}

/* No new connections; those that wait are answered. */
static void begin_to_end(struct server *server)
{
    server->ending = true;
    guard_drain(server->files.guard);
    epoll_ctl(server->epoll, EPOLL_CTL_DEL, server->signals, NULL);
    epoll_ctl(server->epoll, EPOLL_CTL_DEL, server->listener, NULL);
    close(server->listener);
}

static void on_event(struct server *server, void *data)
{
    if (data == &server->listener)
        accept_one(server);
    else if (data == &server->signals)
        begin_to_end(server);
    else
        on_connection(data);
}

/* A client that neither sends nor reads for too long, or has not made its request when the end comes, must go. */
static void sweep(struct server *server)
{
    struct connection *connection = NULL, *next = NULL;
    time_t now = now_s();
    DL_FOREACH_SAFE (server->all, connection, next) {
        bool idle = connection->state != ASKING && now - connection->since >= IDLE_S;
        if (idle || (server->ending && connection->state == READING))
            end_connection(connection);
    }
}

static void detached(void *context)
{
    ((struct server *)context)->ours = NULL;
}

/* A connection is watched once at a time (EPOLLONESHOT), so no event of a batch outlives what it points to. */
static void run(struct server *server)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    while (server->ours != NULL) {
        int wait_ms = guard_epoll_before_wait(server->ours, SWEEP_MS);
        int count = epoll_wait(server->epoll, events, EVENTS_AT_ONCE, wait_ms);
        bool ready = false;
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr == server->ours)
                ready = true; /* answers free connections: last of all */
            else
                on_event(server, events[i].data.ptr);
        }
        if (ready)
            guard_epoll_ready(server->ours);
        sweep(server);
        if (server->ending && server->all == NULL && server->loop != NULL)
            guard_loop_detach(&server->loop, detached, server);
    }
}

int main(int argc, char **argv)
{
    static struct server server;
    struct guard_error error;
    server.signals = files_signals();
    server.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (server.signals < 0 || server.epoll < 0) {
        perror("eventserver");
        return 1;
    }
    files_open(&server.files, argc, argv);
    if (guard_epoll_attach(server.files.guard, &server.ours, &server.loop, &error) != GUARD_OK) {
        fprintf(stderr, "eventserver: %s\n", error.text);
        return 1;
    }
    server.listener = files_listen(argv[1]);
    watch(&server, EPOLL_CTL_ADD, server.listener, EPOLLIN, &server.listener);
    watch(&server, EPOLL_CTL_ADD, server.ours->fd, EPOLLIN, server.ours);
    watch(&server, EPOLL_CTL_ADD, server.signals, EPOLLIN, &server.signals);
    run(&server);
    bool closed = guard_close(&server.files.guard, DRAIN_MS) == GUARD_OK;
    close(server.signals);
    close(server.epoll);
    return closed ? 0 : 1;
}
