/* SPDX-License-Identifier: MIT */
/*
 * redis/tls.h - TLS of one socket of redis/socket.h: begin -> shake hands -> read, write -> end. What all of them
 * share is in redis/tls_context.h.
 *
 *     the socket -- take() --> session -- read() --> its owner
 *                <-- due() --         <-- write() --
 *
 * A session does no I/O: its socket brings what came and fetches what is to go. It ends with its socket and without a
 * word to the other side.
 *
 * Threads   A session is its socket's.
 * Errors    One line, without a path: that is a part of the URL. Nothing of ours stays in OpenSSL's error queue of
 *           the thread. What its host has left there is not taken for ours, and stays, but for a handshake: in that
 *           OpenSSL empties the queue itself.
 */
#pragma once

#include "tls_context.h"
#include <stdbool.h>
#include <sys/types.h>

/* `host`: the name or address that was asked for. Reads the files again if they have changed. NULL: *why says why. */
struct redis_tls_session *redis_tls_begin(struct redis_tls *tls, const char *host, char why[REDIS_WHY_SIZE]);
void redis_tls_end(struct redis_tls_session **session);

/* What came over the socket. False: no memory. */
bool redis_tls_take(struct redis_tls_session *session, const void *data, size_t bytes);
/* What is to go over it, at *data until the next call; 0: nothing. The first `bytes` of it are gone. */
size_t redis_tls_due(const struct redis_tls_session *session, const char **data);
void redis_tls_gone(struct redis_tls_session *session, size_t bytes);

/* 0: both sides are sure of each other. -EAGAIN: the other side has to say more. -EPROTO: session->why. */
int redis_tls_shake_hands(struct redis_tls_session *session);
/* Bytes; 0: the other side's goodbye; -EAGAIN and -EPROTO as above. Either may leave something due. */
ssize_t redis_tls_read(struct redis_tls_session *session, void *data, size_t size);
/* Takes all, up to a record: bytes, or -EPROTO. */
ssize_t redis_tls_write(struct redis_tls_session *session, const void *data, size_t bytes);
/* The next read may find something without more from the socket. */
bool redis_tls_has_more(const struct redis_tls_session *session);
