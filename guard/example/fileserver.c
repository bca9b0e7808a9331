/* SPDX-License-Identifier: MIT */
/*
 * fileserver.c - the guard in the plainest kind of backend: a thread per connection, which may block.
 *
 *     fileserver PORT FOLDER [REDIS_URL [DELAY_MS]]
 *
 * GET /name answers with FOLDER/name, read once for the whole fleet, however many clients ask. DELAY_MS
 * makes the reading as slow as a database would be. Port 0 takes a free one; either way a line on stdout names it.
 * Each load is a line on stderr. SIGTERM and SIGINT let running requests finish.
 *
 *   main: accept -> thread: serve() -> guard_get_wait() -> load worker: files_load() -> every waiting thread
 */
#include "files.h"
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { IDLE_S = 5, DRAIN_MS = 5000 };

struct server {
    struct files files;

    pthread_mutex_t mutex;
    pthread_cond_t left;
    unsigned connections; /* under the mutex */
};

struct connection {
    struct server *server;
    int fd;
};

/* ---- a connection ---- */

static void send_all(int fd, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t sent = send(fd, bytes, count, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        bytes += sent;
        count -= (size_t)sent;
    }
}

static void answer(int fd, const char *status, const char *source, const char *body, size_t body_bytes)
{
    char head[256];
    int bytes = snprintf(head, sizeof head,
                         "HTTP/1.0 %s\r\nContent-Length: %zu\r\nX-From: %s\r\nConnection: close\r\n\r\n",
                         status, body_bytes, source);
    send_all(fd, head, (size_t)bytes);
    send_all(fd, body, body_bytes);
}

static void serve(struct server *server, int fd, const char *key)
{
    struct guard_result result;
    struct guard_request request = {.kind = server->files.kind, .key = key};
    guard_get_wait(server->files.guard, &request, &result);
    const char *source = guard_source_name(result.source);
    if (result.status == GUARD_OK)
        answer(fd, "200 OK", source, result.value->body, result.value->body_bytes);
    else if (result.status == GUARD_ABSENT)
        answer(fd, "404 Not Found", source, "", 0);
    else
        answer(fd, "503 Service Unavailable", guard_status_name(result.status), "", 0);
    guard_value_unref(&result.value);
}

static bool read_request(int fd, char request[FILES_REQUEST_BYTES])
{
    size_t bytes = 0;
    while (bytes < FILES_REQUEST_BYTES - 1) {
        ssize_t got = recv(fd, request + bytes, FILES_REQUEST_BYTES - 1 - bytes, 0);
        if (got <= 0)
            return false;
        bytes += (size_t)got;
        request[bytes] = '\0';
        if (strstr(request, "\r\n\r\n") != NULL)
            return true;
    }
    return false;
}

static void *run_connection(void *context)
{
    struct connection *connection = context;
    struct server *server = connection->server;
    char request[FILES_REQUEST_BYTES], key[FILES_KEY_BYTES];
    if (read_request(connection->fd, request)) {
        if (files_requested(request, key))
            serve(server, connection->fd, key);
        else
            answer(connection->fd, "400 Bad Request", "nowhere", "", 0);
    }
    close(connection->fd);
    free(connection);
    pthread_mutex_lock(&server->mutex);
    server->connections--;
    pthread_cond_signal(&server->left);
    pthread_mutex_unlock(&server->mutex);
    return NULL;
}

/* ---- the server ---- */

static bool start_thread(struct connection *connection)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_connection, connection) != 0)
        return false;
    pthread_detach(thread);
    return true;
}

static void accept_one(struct server *server, int listener)
{
    struct timeval idle = {.tv_sec = IDLE_S};
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    struct connection *connection = fd >= 0 ? malloc(sizeof *connection) : NULL;
    if (connection == NULL) {
        if (fd >= 0)
            close(fd);
        return;
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &idle, sizeof idle);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &idle, sizeof idle);
    *connection = (struct connection){server, fd};
    pthread_mutex_lock(&server->mutex);
    server->connections++;
    if (!start_thread(connection)) {
        server->connections--;
        close(fd);
        free(connection);
    }
    pthread_mutex_unlock(&server->mutex);
}

static void run(struct server *server, int listener, int signals)
{
    struct pollfd fds[] = {{listener, POLLIN, 0}, {signals, POLLIN, 0}};
    while (fds[1].revents == 0) {
        if (poll(fds, 2, -1) > 0 && fds[0].revents != 0)
            accept_one(server, listener);
    }
}

/* Answers the threads that still wait, lets all of them end, and closes the guard. */
static int end(struct server *server)
{
    guard_drain(server->files.guard);
    pthread_mutex_lock(&server->mutex);
    while (server->connections > 0)
        pthread_cond_wait(&server->left, &server->mutex);
    pthread_mutex_unlock(&server->mutex);
    return guard_close(&server->files.guard, DRAIN_MS) == GUARD_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    static struct server server = {.mutex = PTHREAD_MUTEX_INITIALIZER, .left = PTHREAD_COND_INITIALIZER};
    int signals = files_signals();
    files_open(&server.files, argc, argv);
    int listener = files_listen(argv[1]);
    run(&server, listener, signals);
    close(listener);
    return end(&server);
}
