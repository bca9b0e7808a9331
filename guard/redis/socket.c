/* SPDX-License-Identifier: MIT */
/* redis/socket.c - a stream socket: DNS, connect, TLS, reset; TCP or Unix. See redis/socket.h. */
#include "socket.h"
#include "../base/process.h"
#include "../base/resolve.h"
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

/* How a server that expects TLS answers what is none: an alert. */
enum { TLS_ALERT = 0x15, TLS_MAJOR = 3 };

struct redis_socket {
    struct guard_host *host;
    struct redis_socket_hooks hooks;
    uint16_t port;
    uint32_t attempt;
    struct redis_tls *tls;          /* NULL: without */
    char name[REDIS_TLS_NAME_SIZE]; /* that was asked for; with TLS only */
    struct resolve *resolve;        /* NULL: none runs */
    struct endpoint endpoints[ADDRESSES_MAX];
    size_t endpoint_count, endpoint_next;
    struct guard_watch watch; /* its descriptor is owned; -1: none */
    unsigned watched;
    /* of this descriptor: */
    struct redis_tls_session *session; /* owned; NULL: without, or not connected yet */
    struct host_soon rest;             /* what lies in the session will be read */
    bool reached, broken, awaits_room, heard, drained;
    bool wants_tls; /* it answered without TLS as one that wants it */
};

/* ---- watching ---- */

/* Ends the current descriptor. The loop lets go of it first, for its number is used again. */
static void hang_up(struct redis_socket *socket)
{
    int fd = socket->watch.fd;
    host_soon_stop(&socket->rest);
    redis_tls_end(&socket->session);
    host_watch(socket->host, &socket->watch, 0);
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1, .l_linger = 0},
                   sizeof(struct linger));
        close(fd);
    }
    socket->watch.fd = -1;
    socket->watched = 0;
    socket->broken = false;
}

static ssize_t receive_some(int fd, void *data, size_t size)
{
    ssize_t got;
    do
        got = recv(fd, data, size, 0);
    while (got < 0 && errno == EINTR);
    return got >= 0 ? got : -errno;
}

static ssize_t send_some(int fd, const void *data, size_t bytes)
{
    ssize_t put;
    do
        put = send(fd, data, bytes, MSG_NOSIGNAL);
    while (put < 0 && errno == EINTR);
    return put >= 0 ? put : -errno;
}

static bool needs_room(const struct redis_socket *socket)
{
    const char *due;
    return socket->awaits_room || (socket->session != NULL && redis_tls_due(socket->session, &due) > 0);
}

/* As host_watch(): only the first time can fail. */
static int watch(struct redis_socket *socket)
{
    bool connects = !socket->reached && socket->session == NULL;
    unsigned events = connects             ? GUARD_HOST_WRITABLE
                      : needs_room(socket) ? GUARD_HOST_READABLE | GUARD_HOST_WRITABLE
                                           : GUARD_HOST_READABLE;
    if (events == socket->watched)
        return 0;
    socket->watched = events;
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
    return descriptor_not_standard(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
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

static void try_next(struct redis_socket *socket, char why[REDIS_WHY_SIZE])
{
    hang_up(socket);
    if (!dial_next(socket, why))
        socket->hooks.failed(socket->hooks.context, why);
}

/* Over TLS: 0: nothing is due any more; else errno's number below 0. */
static int send_due(struct redis_socket *socket)
{
    const char *data;
    for (size_t bytes; (bytes = redis_tls_due(socket->session, &data)) > 0;) {
        ssize_t put = send_some(socket->watch.fd, data, bytes);
        if (put < 0)
            return (int)put;
        redis_tls_gone(socket->session, (size_t)put);
    }
    return 0;
}

/* As receive_some(), for the session; `room` is for what comes, and may be written over. */
static ssize_t take_some(struct redis_socket *socket, void *room, size_t size)
{
    ssize_t got = receive_some(socket->watch.fd, room, size);
    socket->drained = got < (ssize_t)size;
    if (got > 0 && !redis_tls_take(socket->session, room, (size_t)got))
        return -ENOMEM;
    return got;
}

/* What OpenSSL was given and has not yet given back. */
static void mind_the_rest(struct redis_socket *socket)
{
    if (redis_tls_has_more(socket->session))
        host_soon(socket->host, &socket->rest);
    else
        host_soon_stop(&socket->rest);
}

/* 0: done; -EAGAIN: not yet; else below 0: *why says why. */
static int go_on_with_handshake(struct redis_socket *socket, char why[REDIS_WHY_SIZE])
{
    char room[4096];
    ssize_t came = 1;
    int failed = -EAGAIN;
    while (failed == -EAGAIN && came > 0) {
        failed = redis_tls_shake_hands(socket->session);
        send_due(socket); /* what fails is told by what comes */
        if (failed == -EAGAIN)
            came = take_some(socket, room, sizeof room);
    }
    if (failed == -EAGAIN && came == -EAGAIN && !socket->broken)
        return -EAGAIN;
    if (failed == -EAGAIN && came == 0)
        snprintf(why, REDIS_WHY_SIZE, "TLS: the other side hangs up in the handshake");
    else if (failed == -EAGAIN)
        redis_explain_errno("TLS handshake", came == -EAGAIN ? ECONNRESET : (int)-came, why);
    else if (failed != 0)
        redis_socket_explain(socket, "TLS handshake", -failed, why);
    return failed == -EAGAIN ? -EPROTO : failed;
}

static void shake_hands(struct redis_socket *socket)
{
    char why[REDIS_WHY_SIZE];
    int failed = go_on_with_handshake(socket, why);
    if (failed == -EAGAIN) {
        watch(socket);
        return;
    }
    if (failed != 0) {
        try_next(socket, why);
        return;
    }
    socket->reached = true;
    watch(socket);
    mind_the_rest(socket);
    socket->hooks.reached(socket->hooks.context);
}

static void secure(struct redis_socket *socket)
{
    char why[REDIS_WHY_SIZE];
    socket->session = redis_tls_begin(socket->tls, socket->name, why);
    if (socket->session == NULL) {
        try_next(socket, why);
        return;
    }
    shake_hands(socket);
}

static void connect_settled(struct redis_socket *socket)
{
    char why[REDIS_WHY_SIZE];
    int error = 0;
    socklen_t error_bytes = sizeof error;
    if (getsockopt(socket->watch.fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes) != 0)
        error = errno;
    if (error != 0) {
        redis_explain_errno("connect", error, why);
        try_next(socket, why);
        return;
    }
    if (socket->tls != NULL) {
        secure(socket);
        return;
    }
    socket->reached = true;
    watch(socket);
    socket->hooks.reached(socket->hooks.context);
}

/* The hook comes last, for it may reset the socket. */
static void on_event(void *context, unsigned events)
{
    struct redis_socket *socket = context;
    socket->broken = socket->broken || (events & GUARD_HOST_BROKEN) != 0;
    if (!socket->reached && socket->session == NULL) {
        connect_settled(socket);
        return;
    }
    if (!socket->reached) {
        shake_hands(socket);
        return;
    }
    bool room = (events & GUARD_HOST_WRITABLE) != 0 && (socket->session == NULL || send_due(socket) == 0);
    socket->awaits_room = socket->awaits_room && !room;
    watch(socket);
    socket->hooks.ready(socket->hooks.context, room);
}

static void on_rest(void *context)
{
    struct redis_socket *socket = context;
    socket->hooks.ready(socket->hooks.context, false);
}

/* ---- addresses ---- */

static void add_endpoint(struct redis_socket *socket, const void *address, size_t address_bytes)
{
    struct endpoint *endpoint = &socket->endpoints[socket->endpoint_count++];
    memcpy(&endpoint->address, address, address_bytes);
    endpoint->address_bytes = (socklen_t)address_bytes;
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
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    struct sockaddr_storage digits;
    /* An address in digits needs no thread, so it works also while many of them hang. */
    const socklen_t bytes = to->is_unix ? 0 : resolve_digits(to->host, socket->port, &digits);
    if (!to->is_unix && bytes == 0)
        return resolve_host(socket, to->host, why);
    assert(!to->is_unix ||
           strlen(to->host) < sizeof path.sun_path); /* redis_url_read() refuses longer ones */
    if (to->is_unix)
        memcpy(path.sun_path, to->host, strlen(to->host) + 1);
    add_endpoint(socket, to->is_unix ? (void *)&path : &digits, to->is_unix ? sizeof path : bytes);
    return dial_next(socket, why);
}

static void set_up(struct redis_socket *socket, struct guard_host *host,
                   const struct redis_socket_target *target, const struct redis_socket_hooks *hooks)
{
    socket->host = host;
    socket->hooks = *hooks;
    socket->port = target->endpoint->port;
    socket->attempt = target->attempt;
    socket->tls = target->tls;
    if (target->tls != NULL)
        snprintf(socket->name, sizeof socket->name, "%s", target->endpoint->host);
    socket->watch = (struct guard_watch){.ready = on_event, .context = socket, .fd = -1};
    socket->rest = (struct host_soon){.run = on_rest, .context = socket};
}

struct redis_socket *redis_socket_open(struct guard_host *host, const struct redis_socket_target *target,
                                       const struct redis_socket_hooks *hooks, char why[REDIS_WHY_SIZE])
{
    struct redis_socket *socket = calloc(1, sizeof *socket);
    if (socket == NULL) {
        redis_explain_errno("connect", ENOMEM, why);
        return NULL;
    }
    set_up(socket, host, target, hooks);
    if (!start_socket(socket, target->endpoint, why))
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

bool redis_socket_awaits_tls(const struct redis_socket *socket)
{
    return socket->session != NULL && !socket->reached;
}

/* -EPROTO: it wants TLS. */
static ssize_t read_plain(struct redis_socket *socket, char *data, size_t size)
{
    ssize_t got = receive_some(socket->watch.fd, data, size);
    socket->drained = got < (ssize_t)size;
    if (got < 0)
        return got;
    socket->wants_tls = !socket->heard && got >= 2 && data[0] == TLS_ALERT && data[1] == TLS_MAJOR;
    socket->heard = socket->heard || got > 0;
    return socket->wants_tls ? -EPROTO : got;
}

/* A read may answer the other side, too, which asks for new keys. */
static ssize_t read_secure(struct redis_socket *socket, void *data, size_t size)
{
    ssize_t came = 1, got = -EAGAIN;
    while (got == -EAGAIN && came > 0) {
        got = redis_tls_read(socket->session, data, size);
        if (got == -EAGAIN)
            came = take_some(socket, data, size);
    }
    send_due(socket);
    socket->drained = socket->drained && !redis_tls_has_more(socket->session);
    mind_the_rest(socket);
    watch(socket);
    return got == -EAGAIN ? came : got;
}

ssize_t redis_socket_read(struct redis_socket *socket, void *data, size_t size)
{
    ssize_t got;
    assert(socket->reached);
    if (socket->session != NULL)
        got = read_secure(socket, data, size);
    else
        got = read_plain(socket, data, size);
    return got == -EAGAIN && socket->broken ? -ECONNRESET : got;
}

/* What OpenSSL has taken counts as written: its owner may take the bytes back meanwhile. */
static ssize_t write_secure(struct redis_socket *socket, const void *data, size_t bytes)
{
    int failed = send_due(socket);
    ssize_t put = failed == 0 ? redis_tls_write(socket->session, data, bytes) : failed;
    failed = put > 0 ? send_due(socket) : 0;
    watch(socket);
    return failed == 0 || failed == -EAGAIN ? put : failed;
}

ssize_t redis_socket_write(struct redis_socket *socket, const void *data, size_t bytes)
{
    assert(socket->reached);
    return socket->session != NULL ? write_secure(socket, data, bytes)
                                   : send_some(socket->watch.fd, data, bytes);
}

void redis_socket_await_room(struct redis_socket *socket)
{
    socket->awaits_room = true;
    watch(socket);
}

bool redis_socket_is_drained(const struct redis_socket *socket)
{
    return socket->drained;
}

bool redis_socket_wants_tls(const struct redis_socket *socket)
{
    return socket->wants_tls;
}

/* TCP without TLS, over which nothing has come. */
static bool is_mute(const struct redis_socket *socket)
{
    bool is_tcp = socket->endpoints[0].address.ss_family != AF_UNIX;
    return socket->session == NULL && !socket->heard && is_tcp;
}

void redis_socket_explain(const struct redis_socket *socket, const char *what, int error,
                          char why[REDIS_WHY_SIZE])
{
    const char *tls = socket->session != NULL ? socket->session->why : "";
    if (tls[0] != '\0')
        snprintf(why, REDIS_WHY_SIZE, "%s", tls);
    else if (socket->wants_tls)
        snprintf(why, REDIS_WHY_SIZE, "an alert of TLS is the answer: begin the URL with rediss, not redis");
    else if ((error == ECONNRESET || error == 0) && is_mute(socket))
        snprintf(why, REDIS_WHY_SIZE,
                 "closed by the other side before it answered anything; a port for TLS does that (use "
                 "rediss://), and what is no Redis (correct host and port)");
    else if (error == 0)
        snprintf(why, REDIS_WHY_SIZE, "closed by the other side");
    else
        redis_explain_errno(what, error, why);
}

const char *redis_socket_remark(const struct redis_socket *socket)
{
    return socket->session != NULL ? socket->session->remark : "";
}
