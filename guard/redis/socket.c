/* SPDX-License-Identifier: MIT */
/* redis/socket.c - a stream socket: DNS, connect, reset; TCP or Unix. See redis/socket.h. */
#include "socket.h"
#include "resolve.h"
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    ADDRESSES_MAX = 8,
    KEEPALIVE_IDLE_S = 15,
    KEEPALIVE_INTERVAL_S = 5,
    KEEPALIVE_PROBES = 3,
    UNACKNOWLEDGED_MS = 20000, /* TCP_USER_TIMEOUT: a peer that is gone, seen also while nothing is awaited */
};

struct endpoint {
    struct sockaddr_storage address;
    socklen_t address_bytes;
};

struct redis_socket {
    struct guard_host *host;
    struct redis_socket_hooks hooks;
    uint16_t port;
    uint32_t attempt;
    struct resolve *resolve; /* NULL: none runs */
    struct endpoint endpoints[ADDRESSES_MAX];
    size_t endpoint_count, endpoint_next;
    struct host_watch watch; /* its descriptor is owned; -1: none */
    bool reached, broken, awaits_room;
};

/* ---- watching ---- */

/* Ends the current descriptor. The loop lets go of it first, for its number is used again. */
static void hang_up(struct redis_socket *socket)
{
    int fd = socket->watch.fd;

    host_watch(socket->host, &socket->watch, 0);
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1, .l_linger = 0},
                   sizeof(struct linger));
        close(fd);
    }
    socket->watch.fd = -1;
}

/* As host_watch(): only the first time can fail. */
static int watch(struct redis_socket *socket)
{
    unsigned events = !socket->reached      ? HOST_WRITABLE
                      : socket->awaits_room ? HOST_READABLE | HOST_WRITABLE
                                            : HOST_READABLE;

    return host_watch(socket->host, &socket->watch, events);
}

/* ---- connecting ---- */

/* Best effort: none of them decides whether the connection works. */
static void set_options(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S},
        {IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS},
    };

    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof options[i].value);
}

static int open_descriptor(int family)
{
    return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* False leaves the descriptor to hang_up(). */
static bool dial(struct redis_socket *socket, const struct endpoint *to, char why[REDIS_WHY_SIZE])
{
    int family = to->address.ss_family, fd = open_descriptor(family), failed = 0;

    socket->watch.fd = fd;
    if (fd < 0) {
        redis_explain_errno("socket", errno, why);
        return false;
    }
    if (family != AF_UNIX)
        set_options(fd);
    if (connect(fd, (const struct sockaddr *)&to->address, to->address_bytes) != 0 && errno != EINPROGRESS)
        failed = errno;
    else
        failed = watch(socket);
    if (failed != 0)
        redis_explain_errno("connect", failed, why);
    return failed == 0;
}

/* False: no address is left; *why is about the last one. */
static bool dial_next(struct redis_socket *socket, char why[REDIS_WHY_SIZE])
{
    while (socket->endpoint_next < socket->endpoint_count) {
        if (dial(socket, &socket->endpoints[socket->endpoint_next++], why))
            return true;
        hang_up(socket);
    }
    return false;
}

static void connect_settled(struct redis_socket *socket)
{
    char why[REDIS_WHY_SIZE];
    int error = 0;
    socklen_t error_bytes = sizeof error;

    if (getsockopt(socket->watch.fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes) != 0)
        error = errno;
    if (error == 0) {
        socket->reached = true;
        watch(socket);
        socket->hooks.reached(socket->hooks.context);
        return;
    }
    redis_explain_errno("connect", error, why);
    hang_up(socket);
    if (!dial_next(socket, why))
        socket->hooks.failed(socket->hooks.context, why);
}

/* The hook comes last, for it may reset the socket. */
static void on_event(void *context, unsigned events)
{
    struct redis_socket *socket = context;
    bool room = (events & HOST_WRITABLE) != 0;

    if (!socket->reached) {
        connect_settled(socket);
        return;
    }
    socket->broken = socket->broken || (events & HOST_BROKEN) != 0;
    socket->awaits_room = socket->awaits_room && !room;
    if (room)
        watch(socket);
    socket->hooks.ready(socket->hooks.context, room);
}

/* ---- addresses ---- */

static void add_endpoint(struct redis_socket *socket, const void *address, size_t address_bytes)
{
    struct endpoint *endpoint = &socket->endpoints[socket->endpoint_count++];

    memcpy(&endpoint->address, address, address_bytes);
    endpoint->address_bytes = (socklen_t)address_bytes;
}

static void add_unix(struct redis_socket *socket, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    assert(strlen(path) < sizeof address.sun_path); /* redis_url_read() refuses longer ones */
    memcpy(address.sun_path, path, strlen(path) + 1);
    add_endpoint(socket, &address, sizeof address);
}

/* An address in digits needs no thread, so it works also while many of them hang. */
static bool add_digits(struct redis_socket *socket, const char *host)
{
    struct sockaddr_storage address;
    socklen_t bytes = resolve_digits(host, socket->port, &address);

    if (bytes > 0)
        add_endpoint(socket, &address, bytes);
    return bytes > 0;
}

/* The addresses in their order, beginning with another one at each attempt. */
static void add_found(struct redis_socket *socket, const struct addrinfo *found)
{
    const struct addrinfo *list[ADDRESSES_MAX];
    size_t count = 0;

    for (; found != NULL && count < ADDRESSES_MAX; found = found->ai_next)
        if (found->ai_addrlen <= sizeof(struct sockaddr_storage))
            list[count++] = found;
    for (size_t i = 0; i < count; i++) {
        const struct addrinfo *next = list[(socket->attempt + i) % count];
        add_endpoint(socket, next->ai_addr, next->ai_addrlen);
    }
}

static void on_resolved_host(void *context, const struct addrinfo *found, const char *problem)
{
    struct redis_socket *socket = context;
    char why[REDIS_WHY_SIZE] = "DNS: no address";

    socket->resolve = NULL;
    if (problem != NULL)
        redis_explain_problem("DNS", problem, why);
    add_found(socket, found);
    if (!dial_next(socket, why))
        socket->hooks.failed(socket->hooks.context, why);
}

static bool resolve_host(struct redis_socket *socket, const char *host, char why[REDIS_WHY_SIZE])
{
    socket->resolve = resolve_start(socket->host, host, socket->port, on_resolved_host, socket);
    if (socket->resolve == NULL && errno == EAGAIN)
        snprintf(why, REDIS_WHY_SIZE,
                 "DNS: too many names are still being resolved, or no thread is to be had");
    else if (socket->resolve == NULL)
        redis_explain_errno("DNS", errno, why);
    return socket->resolve != NULL;
}

/* ---- the functions of the header ---- */

static bool start_socket(struct redis_socket *socket, const struct redis_endpoint *to,
                         char why[REDIS_WHY_SIZE])
{
    if (to->is_unix)
        add_unix(socket, to->host);
    else if (!add_digits(socket, to->host))
        return resolve_host(socket, to->host, why);
    return dial_next(socket, why);
}

struct redis_socket *redis_socket_open(struct guard_host *host, const struct redis_endpoint *to,
                                       uint32_t attempt, const struct redis_socket_hooks *hooks,
                                       char why[REDIS_WHY_SIZE])
{
    struct redis_socket *socket = calloc(1, sizeof *socket);

    if (socket == NULL) {
        redis_explain_errno("connect", ENOMEM, why);
        return NULL;
    }
    socket->host = host;
    socket->hooks = *hooks;
    socket->port = to->port;
    socket->attempt = attempt;
    socket->watch = (struct host_watch){.ready = on_event, .context = socket, .fd = -1};
    if (!start_socket(socket, to, why))
        redis_socket_reset(&socket);
    return socket;
}

void redis_socket_reset(struct redis_socket **socket)
{
    struct redis_socket *old = *socket;

    if (old == NULL)
        return;
    *socket = NULL;
    resolve_forget(&old->resolve);
    hang_up(old);
    free(old);
}

bool redis_socket_awaits_dns(const struct redis_socket *socket)
{
    return socket->resolve != NULL;
}

ssize_t redis_socket_read(struct redis_socket *socket, void *data, size_t size)
{
    ssize_t got;

    assert(socket->reached);
    do
        got = recv(socket->watch.fd, data, size, 0);
    while (got < 0 && errno == EINTR);
    if (got >= 0)
        return got;
    if (errno == EAGAIN && socket->broken)
        return -ECONNRESET;
    return -errno;
}

ssize_t redis_socket_write(struct redis_socket *socket, const void *data, size_t bytes)
{
    ssize_t put;

    assert(socket->reached);
    do
        put = send(socket->watch.fd, data, bytes, MSG_NOSIGNAL);
    while (put < 0 && errno == EINTR);
    return put >= 0 ? put : -errno;
}

void redis_socket_await_room(struct redis_socket *socket)
{
    if (!socket->awaits_room) {
        socket->awaits_room = true;
        watch(socket);
    }
}
