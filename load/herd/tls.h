/* SPDX-License-Identifier: MIT */
/*
 * tls.h - TLS to targets that are named https://, over sockets that do not block.
 *
 *     tls_check()   before the run: is each certificate trusted, and for the host that was named?
 *     tls_open()    a process's settings --> tls_begin() a connection's --> tls_shake() until DONE --> tls_receive(),
 *                   tls_send() --> tls_end()
 *
 * A server is asked for by its name (SNI), and for HTTP/1.1 (ALPN). TLS 1.2 or later.
 *
 * Threads: one at a time. Errors: false, and the reason in `why`.
 */
#pragma once

#include "load/herd/work.h"

#include <sys/types.h>

struct ssl_ctx_st;
struct ssl_st;

/* *out is NULL where no target speaks TLS; otherwise it is yours. */
bool tls_open(const struct work *work, struct ssl_ctx_st **out, char why[static WORK_WHY_BYTES]);
/* Leaves NULL. */
void tls_close(struct ssl_ctx_st **tls);

/* Of a TCP connection that is there. NULL: no memory. */
struct ssl_st *tls_begin(struct ssl_ctx_st *tls, const struct work_target *target, int fd);
/* Leaves NULL; the socket stays. */
void tls_end(struct ssl_st **connection);

enum tls_step { TLS_DONE = 0, TLS_READS, TLS_WRITES, TLS_FAILED };
enum tls_step tls_shake(struct ssl_st *connection);

/* As recv() and send() with MSG_DONTWAIT; those themselves where the connection is NULL. An end without TLS's own is
 * none in order. */
ssize_t tls_receive(struct ssl_st *connection, int fd, char *bytes, size_t room);
ssize_t tls_send(struct ssl_st *connection, int fd, const char *bytes, size_t count);
/* There is more to receive, of which the socket does not tell. */
bool tls_has_more(const struct ssl_st *connection);

/* Asks each target that speaks TLS; one that takes no connection is not judged. Blocks for some seconds at most. */
bool tls_check(const struct work *work, char why[static WORK_WHY_BYTES]);
