/* SPDX-License-Identifier: MIT */
/*
 * places.h - the connections of a listener that has a thread for each, and which of them makes way when all places are
 * taken and another one comes.
 *
 *     accepted             it may be closed PLACES_HEAD_MS later: by then a whole head has come
 *     its head is there    PLACES_ANSWER_MS later: by then there is an answer
 *     answered             PLACES_READ_MS later: by then that is read
 *
 * The connection whose time comes first goes first, and a newcomer waits for that; a little longer the more of the
 * closed ones are still there. So a client that makes its request at once is answered, however many others come back as
 * often as they are closed. The limits are absolute: neither bytes nor further requests renew them, so a place is kept
 * longer, by doing nothing or by asking for ever, only while no other connection wants it.
 *
 * One that stays is beside the places: it counts no more and never makes way. What lets it stay bounds how many do.
 *
 * Threads: places_take() and places_leave() on the one that accepts; heard and answered on that of the connection.
 */
#ifndef APP_PLACES_H
#define APP_PLACES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    PLACES_MAX = 64,
    PLACES_STAYING = 4,
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
/* From its answer on, until it is closed. */
void places_stay(struct place *place);

#endif
