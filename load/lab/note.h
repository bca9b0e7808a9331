/* SPDX-License-Identifier: MIT */
/*
 * note.h - what a worker and the controller tell each other: small structs over a SOCK_SEQPACKET socket.
 *
 *     controller                                  worker
 *        starts it, with one end            <---  NOTE_ADDRESS, NOTE_READY
 *        ORDER_ASK [stop at this step]      --->
 *                                           <---  NOTE_ASKED, NOTE_HELD, NOTE_STOPPED, NOTE_RELEASED ...
 *                                           <---  NOTE_ANSWERED
 *        ORDER_INVALIDATE                   --->
 *                                           <---  NOTE_INVALIDATED
 *        closes                             --->  ends
 *
 * A packet is whole or not there, so several threads of a worker may send. Instants are clock_us(), the same
 * clock in every process of a machine.
 *
 * Errors: false, nothing printed: the other end is gone.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum note_kind {
    NOTE_ADDRESS = 0, /* value: the local port of its connection to Redis, after each connect */
    NOTE_READY,       /* waits for orders */
    NOTE_ASKED,       /* a request begins */
    NOTE_HELD,        /* it took the lock; value: how much of it, of LAB_ALL or LAB_PERMITS */
    NOTE_STOPPED,     /* value: the step at which it now stops itself */
    NOTE_RELEASED,    /* it has what it took the lock for, and begins to give it back */
    NOTE_LOST,        /* it was told, or saw, that the lock is no longer its own */
    NOTE_WAITING,     /* value: so many of a crowd wait */
    NOTE_WROTE,       /* value: 1 the row took its write, 0 the row refused it */
    NOTE_ANSWERED,    /* value: the row's version, LAB_FAILED or LAB_REFUSED */
    NOTE_INVALIDATED, /* value: 1 confirmed, 0 not */
    NOTE_KILLED,      /* never sent: the controller's own entry for a worker that it killed */
};

struct note {
    enum note_kind kind;
    int32_t value;
    uint64_t at_us;
};

enum order_kind { ORDER_ASK = 0, ORDER_INVALIDATE };

struct order {
    enum order_kind kind;
    int32_t stop_at;         /* enum lab_step */
    int32_t mode;            /* enum lab_mode */
    uint32_t fixed_lease_ms; /* as in struct lab_client */
    uint32_t crowd;          /* so many ask at once; 0: one */
    uint32_t rounds;         /* the request is made so often, one after the other; 0: once */
    uint32_t rounds_ms;      /* ... but for no longer than this; 0: without a limit */
};

bool note_send(int fd, enum note_kind kind, int32_t value);
bool note_receive(int fd, struct note *out);
bool order_send(int fd, const struct order *order);
bool order_receive(int fd, struct order *out);

/* ---- a worker: worker.c ---- */

/*
 * One prefork worker: this same program, executed again by the controller (see fleet.h).
 *
 *     lab worker INDEX SCHEME KEY REDIS_PORT POSTGRES_URL LEASE_S LOCK_URLS
 *
 * Serves one request after the other, as ordered over the socket, and ends when it is closed.
 */
enum { WORKER_ARGUMENTS = 9 }; /* argv[0] and "worker" included */
enum { WORKER_LINK = 3 };      /* the descriptor that the socket is */

/* argv as above; returns the exit status. */
int worker_main(char **argv);
