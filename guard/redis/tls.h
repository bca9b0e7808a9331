/* SPDX-License-Identifier: MIT */
/*
 * redis/tls.h - TLS of one socket of redis/socket.h: begin -> shake hands -> read, write -> end. What all of them share
 * is in redis/tls_context.h.
 *
 * OpenSSL reads and writes through two functions of ours: no SIGPIPE, no second buffer. A session ends with its socket
 * and without a word to the other side.
 *
 * Threads   A session is its socket's.
 * Errors    One line, without a path: that is a part of the URL. Nothing of ours stays in OpenSSL's error queue of the
 *           thread. What its host has left there is not taken for ours, and stays, but for a handshake: in that OpenSSL
 *           empties the queue itself.
 */
#ifndef GUARD_REDIS_TLS_H
#define GUARD_REDIS_TLS_H

#include "tls_context.h"
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

struct redis_tls_session;

/* On a connected socket that does not block; the descriptor stays the caller's. `host`: the name or address it was
 * asked for by. Reads the files again if they have
 * changed. NULL: *why says why. */
struct redis_tls_session *redis_tls_begin(struct redis_tls *tls, int fd, const char *host,
                                          char why[REDIS_WHY_SIZE]);
void redis_tls_end(struct redis_tls_session **session);

/* 0: both sides are sure of each other. -EAGAIN: call again when the socket is ready. Else below 0: redis_tls_why(). */
int redis_tls_shake_hands(struct redis_tls_session *session);

/* As recv() and send(): bytes, 0 for the end, or errno's number below 0. What `write` takes counts as written, though
 * it may hold a piece of it until the socket has room; then it returns -EAGAIN until redis_tls_flush() is done. */
ssize_t redis_tls_read(struct redis_tls_session *session, void *data, size_t size);
ssize_t redis_tls_write(struct redis_tls_session *session, const void *data, size_t bytes);
/* False: it holds something still. */
bool redis_tls_flush(struct redis_tls_session *session);

/* What the socket is to be watched for besides reading: room; and whether a write waits for something to read. */
bool redis_tls_awaits_room(const struct redis_tls_session *session);
bool redis_tls_write_awaits_data(const struct redis_tls_session *session);
/* Something lies in OpenSSL that no readiness of the socket will tell of. */
bool redis_tls_has_more(const struct redis_tls_session *session);
/* The next read would find nothing, as far as can be known without it. */
bool redis_tls_is_drained(const struct redis_tls_session *session);

/* Why the last function failed, in one line that begins with "TLS: "; "": it was the socket, as errno says. */
const char *redis_tls_why(const struct redis_tls_session *session);
/* What its operator should know although it works; "": nothing. */
const char *redis_tls_remark(const struct redis_tls_session *session);
#endif
