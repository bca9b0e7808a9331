/* SPDX-License-Identifier: MIT */
/*
 * fileserver.c - the guard in a backend of the plainest kind: a thread per connection that may block.
 *
 *     fileserver PORT FOLDER [REDIS_URL [DELAY_MS]]
 *
 * GET /name answers with FOLDER/name, read once for the whole fleet however many ask. DELAY_MS makes the
 * reading as slow as a database would be. Port 0 takes a free one; either way a line on stdout names it. Each
 * load is a line on stderr. SIGTERM and SIGINT let what runs finish.
 *
 *   main: accept -> thread: serve() -> guard_get_wait() -> load worker: load_file() -> every waiting thread
 */
#include "guard.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { REQUEST_BYTES = 4096, NAME_BYTES = 256, IDLE_S = 5, DRAIN_MS = 5000 };

struct server {
    const char *folder;
    int delay_ms;
    struct guard *guard;
    struct guard_kind *files;

    pthread_mutex_t mutex;
    pthread_cond_t left;
    unsigned connections; /* under the mutex */
};

struct connection {
    struct server *server;
    int fd;
};

/* ---- the source: what happens once per key, however many ask ---- */

static void load_open_file(struct guard_load *load, int fd)
{
    struct stat about;
    char version[48];
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        guard_load_fail(load, GUARD_FAILURE_REJECTED);
        return;
    }
    size_t bytes = (size_t)about.st_size;
    char *body = malloc(bytes + 1);
    if (body == NULL || read(fd, body, bytes) != (ssize_t)bytes) {
        guard_load_fail(load, GUARD_FAILURE_UNAVAILABLE);
    } else {
        snprintf(version, sizeof version, "\"%lld\"", (long long)about.st_mtime);
        guard_load_done(load, body, bytes, version);
    }
    free(body);
}

static void load_file(struct guard_load *load, void *context)
{
    const struct server *server = context;
    const char *name = guard_load_key(load) + strlen("file:");
    char path[4096];
    struct pollfd cancelled = {guard_load_cancel_fd(load), POLLIN, 0};
    fprintf(stderr, "load %s\n", name);
    if (poll(&cancelled, 1, server->delay_ms) > 0) {
        guard_load_fail(load, GUARD_FAILURE_UNAVAILABLE);
        return;
    }
    snprintf(path, sizeof path, "%s/%s", server->folder, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0) {
        load_open_file(load, fd);
        close(fd);
    } else if (errno == ENOENT) {
        guard_load_absent(load);
    } else {
        guard_load_fail(load, GUARD_FAILURE_UNAVAILABLE);
    }
}

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

static void serve(struct server *server, int fd, const char *name)
{
    char key[REQUEST_BYTES];
    struct guard_result result;
    snprintf(key, sizeof key, "file:%s", name);
    struct guard_request request = {.kind = server->files, .key = key};
    guard_get_wait(server->guard, &request, &result);
    const char *source = guard_source_name(result.source);
    if (result.status == GUARD_OK)
        answer(fd, "200 OK", source, result.value->body, result.value->body_bytes);
    else if (result.status == GUARD_ABSENT)
        answer(fd, "404 Not Found", source, "", 0);
    else
        answer(fd, "503 Service Unavailable", guard_status_name(result.status), "", 0);
    guard_value_unref(&result.value);
}

/* The name in "GET /name HTTP/1.x", or NULL: letters, digits, ".", "_" and "-", no dot in front. */
static const char *requested_name(char *request)
{
    static const char LEGAL[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    char *name = request + strlen("GET /");
    if (strncmp(request, "GET /", strlen("GET /")) != 0)
        return NULL;
    size_t bytes = strspn(name, LEGAL);
    if (bytes == 0 || bytes > NAME_BYTES || name[0] == '.' || name[bytes] != ' ')
        return NULL;
    name[bytes] = '\0';
    return name;
}

static bool read_request(int fd, char request[REQUEST_BYTES])
{
    size_t bytes = 0;
    while (bytes < REQUEST_BYTES - 1) {
        ssize_t got = recv(fd, request + bytes, REQUEST_BYTES - 1 - bytes, 0);
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
    char request[REQUEST_BYTES];
    if (read_request(connection->fd, request)) {
        const char *name = requested_name(request);
        if (name != NULL)
            serve(server, connection->fd, name);
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

static int listen_on(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 1024) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &bytes) != 0) {
        perror("fileserver: listen");
        exit(1);
    }
    printf("listening on 127.0.0.1:%u\n", (unsigned)ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

/* Blocked before any thread exists, so that all inherit it: the signals come out of this descriptor only. */
static int catch_signals(void)
{
    sigset_t ending;
    sigemptyset(&ending);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ending, NULL);
    return signalfd(-1, &ending, SFD_CLOEXEC);
}

static void open_guard(struct server *server, const char *redis_url)
{
    struct guard_config config = GUARD_CONFIG_DEFAULTS;
    struct guard_policy policy = GUARD_POLICY_DEFAULTS;
    struct guard_error error;
    config.name_space = "fileserver";
    if (redis_url != NULL)
        config.redis_url = redis_url;
    policy.loader = load_file;
    policy.context = server;
    if (guard_open(&config, &server->guard, &error) != GUARD_OK ||
        guard_kind_add(server->guard, &policy, &server->files, &error) != GUARD_OK) {
        fprintf(stderr, "fileserver: %s\n", error.text);
        exit(1);
    }
}

static void run(struct server *server, int listener, int signals)
{
    struct pollfd fds[] = {{listener, POLLIN, 0}, {signals, POLLIN, 0}};
    while (fds[1].revents == 0) {
        if (poll(fds, 2, -1) > 0 && fds[0].revents != 0)
            accept_one(server, listener);
    }
}

/* Those who still wait are answered, then nobody uses the guard any more, then it closes. */
static int end(struct server *server)
{
    guard_drain(server->guard);
    pthread_mutex_lock(&server->mutex);
    while (server->connections > 0)
        pthread_cond_wait(&server->left, &server->mutex);
    pthread_mutex_unlock(&server->mutex);
    return guard_close(&server->guard, DRAIN_MS) == GUARD_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    static struct server server = {.mutex = PTHREAD_MUTEX_INITIALIZER, .left = PTHREAD_COND_INITIALIZER};
    if (argc < 3) {
        fprintf(stderr, "usage: fileserver PORT FOLDER [REDIS_URL [DELAY_MS]]\n");
        return 2;
    }
    server.folder = argv[2];
    server.delay_ms = argc > 4 ? atoi(argv[4]) : 0;
    int signals = catch_signals();
    open_guard(&server, argc > 3 ? argv[3] : NULL);
    int listener = listen_on((uint16_t)atoi(argv[1]));
    run(&server, listener, signals);
    close(listener);
    return end(&server);
}
