/* SPDX-License-Identifier: MIT */
/*
 * redis/socket.h - a stream socket: DNS, connect, reset; TCP or Unix.
 *
 * The loop only watches the descriptor. Writing is ours, with MSG_NOSIGNAL: a host may not have ignored SIGPIPE. So
 * is reading: after a stall it can be done before a timer declares late what has already arrived.
 *
 *   open -> resolve (names only, redis/resolve.h) -> connect, address by address -> reached -> reset
 *
 * Lifetime  The socket is gone when redis_socket_reset() returns, and no hook is called any more.
 * Threads   The loop's.
 */
#ifndef GUARD_REDIS_SOCKET_H
#define GUARD_REDIS_SOCKET_H

#include "../base/host.h"
#include "error.h"
#include "url.h"
#include <sys/types.h>

struct redis_socket;

/* None is called from inside the functions below. Each may reset the socket. */
struct redis_socket_hooks {
    void *context;
    void (*reached)(void *context);
    void (*failed)(void *context, const char *why); /* no address could be reached; reset it */
    /* Something can be read, or reading will tell what is broken. `room`: also, or only, the room that was
     * awaited is there. */
    void (*ready)(void *context, bool room);
};

/* Several addresses are tried one after another; `attempt` says with which to begin, so that one that
 * swallows packets does not use up the limit of every attempt. NULL: *why says why. */
struct redis_socket *redis_socket_open(struct guard_host *host, const struct redis_endpoint *to,
                                       uint32_t attempt, const struct redis_socket_hooks *hooks,
                                       char why[REDIS_WHY_SIZE]);
/* Drops the connection with a RST, so that the other side stops working for it. Leaves NULL. */
void redis_socket_reset(struct redis_socket **socket);

/* It has no address yet. */
bool redis_socket_awaits_dns(const struct redis_socket *socket);

/* As recv() and send(), once reached: bytes, 0 for end of file, or errno's number below 0 (-EAGAIN). */
ssize_t redis_socket_read(struct redis_socket *socket, void *data, size_t size);
ssize_t redis_socket_write(struct redis_socket *socket, const void *data, size_t bytes);
void redis_socket_await_room(struct redis_socket *socket);

#endif
