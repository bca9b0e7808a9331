/* SPDX-License-Identifier: MIT */
/*
 * redis/socket.h - a stream socket on a libuv loop: DNS, connect, reset; TCP or Unix.
 *
 * Not a uv_tcp_t: libuv 1.44 writes with write(2), which raises SIGPIPE in a host that has not ignored it,
 * and reads only when its loop polls, so that after a stall a timer would run before the reply that is
 * already there. uv_poll_t leaves both to us.
 *
 *   open -> lookup (names only, on libuv's threads) -> connect, address by address -> reached -> reset
 *
 * Lifetime  The socket is gone when redis_socket_reset() returns, and no hook is called any more. What libuv
 *           still holds (a watcher that closes, a lookup that runs) frees itself.
 * Threads   The loop's.
 */
#ifndef GUARD_REDIS_SOCKET_H
#define GUARD_REDIS_SOCKET_H

#include "redis.h"
#include <sys/types.h>

enum { REDIS_WHY_SIZE = 320 }; /* of one line that says why; without the address */

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
struct redis_socket *redis_socket_open(uv_loop_t *loop, const struct redis_address *address, uint32_t attempt,
                                       const struct redis_socket_hooks *hooks, char why[REDIS_WHY_SIZE]);
/* Drops the connection with a RST, so that the other side stops working for it. Leaves NULL. */
void redis_socket_reset(struct redis_socket **socket);

/* It has no address yet. */
bool redis_socket_awaits_dns(const struct redis_socket *socket);

/* As recv() and send(), once reached: bytes, 0 for end of file, or a negative libuv error (UV_EAGAIN). */
ssize_t redis_socket_read(struct redis_socket *socket, void *data, size_t size);
ssize_t redis_socket_write(struct redis_socket *socket, const void *data, size_t bytes);
void redis_socket_await_room(struct redis_socket *socket);

#endif
