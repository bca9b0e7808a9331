/* SPDX-License-Identifier: MIT */
/* redis/socket.c - a stream socket on a libuv loop: DNS, connect, reset; TCP or Unix. */
#include "socket.h"
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
    PORT_TEXT_SIZE = 8,
};

struct endpoint {
    struct sockaddr_storage address;
    socklen_t address_bytes;
};

/* A running getaddrinfo cannot be stopped; it outlives a socket that is reset. */
struct host_lookup {
    uv_getaddrinfo_t request;
    struct redis_socket *socket; /* NULL: nobody waits any more */
};

struct redis_socket {
    uv_loop_t *loop;
    struct redis_socket_hooks hooks;
    uint16_t port;
    uint32_t attempt;
    struct host_lookup *lookup; /* frees itself; NULL: none runs */
    struct endpoint endpoints[ADDRESSES_MAX];
    size_t endpoint_count, endpoint_next;
    int fd;             /* owned, -1: none */
    uv_poll_t *watcher; /* frees itself once closed; NULL: none */
    bool reached, broken, awaits_room;
};

static void explain(char why[REDIS_WHY_SIZE], const char *what, int uv_error)
{
    char text[128];

    snprintf(why, REDIS_WHY_SIZE, "%s: %s", what, uv_strerror_r(uv_error, text, sizeof text));
}

/* ---- watching ---- */

static void free_watcher(uv_handle_t *handle)
{
    free(handle);
}

/* Ends the current descriptor. The watcher is closed first: libuv may not see the number reused. */
static void hang_up(struct redis_socket *socket)
{
    if (socket->watcher != NULL)
        uv_close((uv_handle_t *)socket->watcher, free_watcher);
    if (socket->fd >= 0) {
        setsockopt(socket->fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1, .l_linger = 0},
                   sizeof(struct linger));
        close(socket->fd);
    }
    socket->watcher = NULL;
    socket->fd = -1;
}

static void on_event(uv_poll_t *watcher, int status, int events);

static void watch(struct redis_socket *socket)
{
    int events = !socket->reached      ? UV_WRITABLE
                 : socket->awaits_room ? UV_READABLE | UV_WRITABLE
                                       : UV_READABLE;
    int failed = uv_poll_start(socket->watcher, events, on_event);

    assert(failed == 0); /* it refuses only a descriptor that another handle watches */
    (void)failed;
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

/* A watched descriptor for socket->fd; false leaves the descriptor to hang_up(). */
static bool make_watcher(struct redis_socket *socket, char why[REDIS_WHY_SIZE])
{
    uv_poll_t *watcher = malloc(sizeof *watcher);
    int failed = watcher != NULL ? uv_poll_init(socket->loop, watcher, socket->fd) : UV_ENOMEM;

    if (failed != 0) {
        free(watcher);
        explain(why, "connect", failed);
        return false;
    }
    watcher->data = socket;
    socket->watcher = watcher;
    return true;
}

static int open_descriptor(int family)
{
    return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static bool dial(struct redis_socket *socket, const struct endpoint *to, char why[REDIS_WHY_SIZE])
{
    int family = to->address.ss_family;

    socket->fd = open_descriptor(family);
    if (socket->fd < 0) {
        explain(why, "socket", uv_translate_sys_error(errno));
        return false;
    }
    if (family != AF_UNIX)
        set_options(socket->fd);
    if (connect(socket->fd, (const struct sockaddr *)&to->address, to->address_bytes) != 0 &&
        errno != EINPROGRESS) {
        explain(why, "connect", uv_translate_sys_error(errno));
        return false;
    }
    if (!make_watcher(socket, why))
        return false;
    watch(socket);
    return true;
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

    if (getsockopt(socket->fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes) != 0)
        error = errno;
    if (error == 0) {
        socket->reached = true;
        watch(socket);
        socket->hooks.reached(socket->hooks.context);
        return;
    }
    explain(why, "connect", uv_translate_sys_error(error));
    hang_up(socket);
    if (!dial_next(socket, why))
        socket->hooks.failed(socket->hooks.context, why);
}

/* The hook comes last, for it may reset the socket. */
static void on_event(uv_poll_t *watcher, int status, int events)
{
    struct redis_socket *socket = watcher->data;
    bool room = (events & UV_WRITABLE) != 0;

    if (!socket->reached) {
        connect_settled(socket);
        return;
    }
    socket->broken = socket->broken || status < 0;
    socket->awaits_room = socket->awaits_room && !room;
    if (room || socket->broken) /* libuv has stopped watching a broken one, but replies may be left to read */
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

    assert(strlen(path) < sizeof address.sun_path); /* redis_address_parse() refuses longer ones */
    memcpy(address.sun_path, path, strlen(path) + 1);
    add_endpoint(socket, &address, sizeof address);
}

/* An address in digits needs no lookup, so it works also while libuv's threads are all stuck in one. */
static bool add_literal(struct redis_socket *socket, const char *host)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    if (uv_ip4_addr(host, socket->port, &v4) == 0)
        add_endpoint(socket, &v4, sizeof v4);
    else if (uv_ip6_addr(host, socket->port, &v6) == 0)
        add_endpoint(socket, &v6, sizeof v6);
    return socket->endpoint_count > 0;
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

static void on_found(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    struct host_lookup *lookup = request->data;
    struct redis_socket *socket = lookup->socket;
    char why[REDIS_WHY_SIZE] = "DNS: no address";

    if (socket != NULL) {
        socket->lookup = NULL;
        if (status != 0)
            explain(why, "DNS", status);
        else
            add_found(socket, found);
    }
    uv_freeaddrinfo(found);
    free(lookup);
    if (socket != NULL && !dial_next(socket, why))
        socket->hooks.failed(socket->hooks.context, why);
}

static bool look_up(struct redis_socket *socket, const char *host, char why[REDIS_WHY_SIZE])
{
    struct host_lookup *lookup = malloc(sizeof *lookup);
    char port[PORT_TEXT_SIZE];
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    int failed = UV_ENOMEM;

    snprintf(port, sizeof port, "%u", (unsigned)socket->port);
    if (lookup != NULL) {
        lookup->request.data = lookup;
        lookup->socket = socket;
        failed = uv_getaddrinfo(socket->loop, &lookup->request, on_found, host, port, &hints);
    }
    if (failed != 0) {
        free(lookup);
        explain(why, "DNS", failed);
        return false;
    }
    socket->lookup = lookup;
    return true;
}

/* ---- the functions of the header ---- */

static bool start_socket(struct redis_socket *socket, const struct redis_address *address,
                         char why[REDIS_WHY_SIZE])
{
    if (address->is_unix)
        add_unix(socket, address->host);
    else if (!add_literal(socket, address->host))
        return look_up(socket, address->host, why);
    return dial_next(socket, why);
}

struct redis_socket *redis_socket_open(uv_loop_t *loop, const struct redis_address *address, uint32_t attempt,
                                       const struct redis_socket_hooks *hooks, char why[REDIS_WHY_SIZE])
{
    struct redis_socket *socket = calloc(1, sizeof *socket);

    if (socket == NULL) {
        explain(why, "connect", UV_ENOMEM);
        return NULL;
    }
    socket->loop = loop;
    socket->hooks = *hooks;
    socket->port = address->port;
    socket->attempt = attempt;
    socket->fd = -1;
    if (!start_socket(socket, address, why))
        redis_socket_reset(&socket);
    return socket;
}

void redis_socket_reset(struct redis_socket **socket)
{
    struct redis_socket *old = *socket;

    if (old == NULL)
        return;
    *socket = NULL;
    if (old->lookup != NULL) {
        old->lookup->socket = NULL;
        uv_cancel((uv_req_t *)&old->lookup->request); /* refused once it runs; on_found() comes either way */
    }
    hang_up(old);
    free(old);
}

bool redis_socket_awaits_dns(const struct redis_socket *socket)
{
    return socket->lookup != NULL;
}

ssize_t redis_socket_read(struct redis_socket *socket, void *data, size_t size)
{
    ssize_t got;

    assert(socket->reached);
    do
        got = recv(socket->fd, data, size, 0);
    while (got < 0 && errno == EINTR);
    if (got >= 0)
        return got;
    if (errno == EAGAIN && socket->broken)
        return UV_ECONNRESET;
    return uv_translate_sys_error(errno);
}

ssize_t redis_socket_write(struct redis_socket *socket, const void *data, size_t bytes)
{
    ssize_t put;

    assert(socket->reached);
    do
        put = send(socket->fd, data, bytes, MSG_NOSIGNAL);
    while (put < 0 && errno == EINTR);
    return put >= 0 ? put : uv_translate_sys_error(errno);
}

void redis_socket_await_room(struct redis_socket *socket)
{
    if (!socket->awaits_room) {
        socket->awaits_room = true;
        watch(socket);
    }
}
