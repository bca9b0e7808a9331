/* SPDX-License-Identifier: MIT */
/*
 * redis/socket.h - a stream socket: DNS, connect, TLS, reset; TCP or Unix.
 *
 * The loop only watches the descriptor. Writing is ours, with MSG_NOSIGNAL: a host may not have ignored SIGPIPE. So
 * is reading: after a stall it can be done before a timer declares late what has already arrived.
 *
 *   open -> resolve (names only, base/resolve.h) -> connect, address by address -> reached -> reset
 *                                                       |   ^         ^
 *                                             with TLS  v   | failed  | done
 *                                               shake hands (redis/tls.h)
 *
 * A loop sees what lies in the socket, not what OpenSSL has taken out of it and not yet given: as long as there is
 * such a rest, `ready` is called in every turn.
 *
 * Lifetime  The socket is gone when redis_socket_reset() returns, and no hook is called any more.
 * Threads   The loop's.
 */
#pragma once

#include "../base/host.h"
#include "tls.h"
#include "types.h"
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

/* Where to, and how. */
struct redis_socket_target {
    const struct redis_endpoint *endpoint; /* lent until redis_socket_open() returns */
    uint32_t
        attempt; /* with which of several addresses to begin, so that one that swallows packets does not use
                            * up the limit of every attempt */
    struct redis_tls *tls; /* NULL: without; lent until the socket is reset */
};

/* NULL: *why says why. */
struct redis_socket *redis_socket_open(struct guard_host *host, const struct redis_socket_target *target,
                                       const struct redis_socket_hooks *hooks, char why[REDIS_WHY_SIZE]);
/* Drops the connection with a RST, so that the other side stops working for it. Leaves NULL. */
void redis_socket_reset(struct redis_socket **socket);

/* It has no address yet. */
bool redis_socket_awaits_dns(const struct redis_socket *socket);
/* It was asked in plain, and has answered with an alert of TLS. */
bool redis_socket_wants_tls(const struct redis_socket *socket);
/* It is connected, and the other side has to answer in the handshake. */
bool redis_socket_awaits_tls(const struct redis_socket *socket);

/* As recv() and send(), once reached: bytes, 0 for end of file, or errno's number below 0 (-EAGAIN). */
ssize_t redis_socket_read(struct redis_socket *socket, void *data, size_t size);
ssize_t redis_socket_write(struct redis_socket *socket, const void *data, size_t bytes);
void redis_socket_await_room(struct redis_socket *socket);
/* As far as the last read can tell, all that had arrived has been read. */
bool redis_socket_is_drained(const struct redis_socket *socket);

/* Why reading or writing (`what`) failed with this number of errno's; 0: it was the end of file. */
void redis_socket_explain(const struct redis_socket *socket, const char *what, int error,
                          char why[REDIS_WHY_SIZE]);
/* What an operator should know although it works; "": nothing. */
const char *redis_socket_remark(const struct redis_socket *socket);
