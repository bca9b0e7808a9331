/* SPDX-License-Identifier: MIT */
/*
 * ops.h - the operations listener: what operators and their machines ask, apart from what clients ask. What that is
 * app/README.md says (Routes).
 *
 * All but the page, /healthz and /readyz ask for the token, if there is one; ops_reply.h says what pages of other
 * sites are kept from. A thread per connection: an invalidation blocks while Redis is slow, and a stuck server loop
 * must not take this listener with it. There are few; places.c says which makes way when all places are taken.
 *
 * The room ops/: this file asks who may, look.c tells, change.c does what is to be done (paths.h), ops_reply.h
 * answers, metrics.c prints the numbers, places.c says who makes way. The room view/ before it has the page, the
 * samples that it draws and their streams.
 *
 * Threads: open, close and drain on one thread.
 */
#pragma once

#include "app/base/settings.h"
#include "app/ops/paths.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- who makes way: places.c ---- */

/*
 * The connections of a listener that has a thread for each, and which of them makes way when all places are
 * taken and another one comes.
 *
 *     accepted             it may be closed PLACES_HEAD_MS later: by then a whole head has come
 *     its head is there    PLACES_ANSWER_MS later: by then there is an answer
 *     answered             PLACES_READ_MS later: by then that is read
 *
 * The connection whose time comes first goes first, and a newcomer waits for that; a little longer the more of the
 * closed ones are still there. So a client that makes its request at once is answered, however many others come back
 * as often as they are closed. The limits are absolute: neither bytes nor further requests renew them, so a place is
 * kept longer, by doing nothing or by asking for ever, only while no other connection wants it.
 *
 * One that stays is beside the places and counts no more. Of those there are few, and one whose time has come makes
 * way for another that wants to stay.
 *
 * Threads: places_take() and places_leave() on the one that accepts; the rest on that of the connection.
 */

enum {
    PLACES_MAX = 64,
    PLACES_STAYING = STREAM_VIEWERS,
    PLACES_SOCKETS = 4 * PLACES_MAX + PLACES_STAYING, /* with closed ones, until their threads have ended */
    PLACES_HEAD_MS = 100,
    PLACES_ANSWER_MS = 2000,
    PLACES_READ_MS = 100,
};

struct place {
    int fd;
    bool taken, ended;
    bool answered; /* once at least; its own thread's */
    atomic_bool stays;
    _Atomic uint64_t yields_ms; /* when it may be closed */
};

/* All zeros: all are free. */
struct places {
    struct place list[PLACES_SOCKETS];
    atomic_bool closing; /* newcomers do not wait any more */
};

/* May block until the time of a connection has come. NULL: there are more than PLACES_SOCKETS. */
struct place *places_take(struct places *places, int fd);
/* Before its socket is closed. */
void places_leave(struct place *place);

/* Of its first request; later ones change nothing. */
void places_heard(struct place *place);
void places_answered(struct place *place);
/* From its answer on, until it is closed; its time, yields_ms, is its own to put off. False: all that stay are in
 * time. */
bool places_stay(struct places *places, struct place *place, uint64_t until_ms);

/* ---- the listener ---- */

enum { OPS_CONNECTIONS = PLACES_SOCKETS };

struct ops;

/* Everything is lent until ops_close() returns. A socket that was given for it (NULL: none) wins over the setting.
 * False: the reason was logged. *out is NULL for "off". */
bool ops_open(const struct settings *settings, const struct given *given, const struct ops_service *service,
              struct ops **out);
/* The token of OPS_TOKEN_FILE as it is in the file by now. False: the reason was logged, and the old one counts.
 * Accepts NULL. */
bool ops_read_token(struct ops *ops, const char *ops_token_file);
/* /readyz says no from now on. Accepts NULL. */
void ops_drain(struct ops *ops);
/* Leaves NULL. Accepts NULL in *ops. */
void ops_close(struct ops **ops);
