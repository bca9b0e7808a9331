/* SPDX-License-Identifier: MIT */
/*
 * places.h - the connections of a listener that has a thread for each of them, and which of them makes way when somebody
 * new comes and all places are taken.
 *
 *     accepted             it may be hung up on PLACES_HEAD_MS later: by then a whole head has come
 *     its head is there    PLACES_ANSWER_MS later: by then there is an answer
 *     answered             PLACES_READ_MS later: by then that is read
 *
 * Whose time came first goes first, and a newcomer waits until somebody's has come; a little longer the more of those
 * who are to go are still there. So whoever says at once what he wants is answered, however many come back as often as
 * they are hung up on. The limits are absolute: neither bytes nor further requests renew them, so that a place is kept
 * for longer, by doing nothing or by asking for ever, only while nobody else wants it.
 *
 * Threads: places_take() and places_leave() on the one that accepts; heard and answered on that of the connection.
 */
#ifndef APP_PLACES_H
#define APP_PLACES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PLACES_MAX = 64,
    PLACES_SOCKETS = 4 * PLACES_MAX, /* with those that are hung up on, until their threads have ended */
    PLACES_HEAD_MS = 100,
    PLACES_ANSWER_MS = 2000,
    PLACES_READ_MS = 100,
};

struct place {
    int fd;
    bool taken, ended;
    bool answered;              /* once at least; its own thread's */
    _Atomic uint64_t yields_ms; /* when it may be hung up on */
};

/* All zeros: all are free. */
struct places {
    struct place list[PLACES_SOCKETS];
    atomic_bool closing; /* nobody waits any more */
};

/* May block as long as nobody's time has come. NULL: there are more than PLACES_SOCKETS. */
struct place *places_take(struct places *places, int fd);
/* Before its socket is closed. */
void places_leave(struct place *place);

/* Of its first request; what comes behind that changes nothing. */
void places_heard(struct place *place);
void places_answered(struct place *place);

#endif
