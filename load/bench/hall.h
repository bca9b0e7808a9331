/* SPDX-License-Identifier: MIT */
/*
 * hall.h - a crowd that waits in one process for one product until Redis stores it: how soon after that the last of it
 * is answered, and what each takes of the process.
 *
 *     hall_open()           a cold product; all connect, and ask a constant
 *     hall_wait()           all ask, all wait, all are answered
 *     hall_ask_constant()   all ask a constant, as before
 *     hall_close()
 *
 * The constant is /ping. That of hall_open() is there for the memory of each connection: the server library touches the last
 * of it when it has answered the first request. That has nothing to do with waiting, and is dear where a page fault is:
 * 11 us in some virtual machines.
 *
 * Memory is the growth of the process's resident set from before the first connected to when all wait: connection, buffers
 * and waiter, but not the kernel's socket. What asking the process costs how many wait in it is in no number.
 *
 * Threads: as proc.h has it. Errors: false, and the reason on stderr.
 */
#ifndef LOAD_BENCH_HALL_H
#define LOAD_BENCH_HALL_H

#include "load/bench/bench.h"

#include <pthread.h>

/* ---- a crowd ---- */

/*
 * Many requests for one product at one instant, all of which must be answered with 200.
 *
 *     crowd_open()    all connect
 *     crowd_ask()     and ask; something may be done meanwhile
 *     crowd_close()
 *
 * Threads: one at a time. Time: as burst.h has it. Errors: false, and the reason on stderr.
 */

enum { CROWD_PORTS_MAX = 2 };

/* What is not said below is the caller's to set, before crowd_open(). */
struct crowd {
    uint16_t ports[CROWD_PORTS_MAX]; /* on 127.0.0.1, in turn */
    size_t port_count;
    uint32_t size;
    char path[BURST_PATH_BYTES];
    struct burst_event meanwhile; /* run NULL: nothing */

    struct burst_target targets[CROWD_PORTS_MAX]; /* crowd_open()'s, like the next one */
    struct burst *burst;                          /* owned */

    struct burst_summary summary; /* crowd_ask()'s, like the others */
    uint64_t sent_us;             /* the first request */
    uint64_t last_us;             /* the last answer */
};

bool crowd_open(struct crowd *crowd);
bool crowd_ask(struct crowd *crowd);
/* Accepts one that was never opened. */
void crowd_close(struct crowd *crowd);

/* Do all of them wait in this process, by its own count? */
bool crowd_waits(const struct crowd *crowd, const struct stack_catalogd *catalogd);

/* ---- when a value is stored ---- */

/*
 * The instant at which Redis stores a product's value: a listener of its own hears of it by a keyspace
 * notification.
 *
 * Threads: filled_listen() starts one that filled_wait() joins; both from one thread.
 * Errors: false, and the reason on stderr.
 */

struct redisContext;

struct filled {
    pthread_t thread;
    struct redisContext *context; /* owned */
    uint64_t heard_us;            /* 0: never; valid once the thread is joined */
};

/* Whether Redis tells of such things at all. */
bool filled_tell(struct bench *bench, bool tells);

/* From now on, for the product of this path ("/products/{id}"). */
bool filled_listen(const struct bench *bench, const char *path, struct filled *filled);

/* When it was stored, by clock_us(); 0: not within a minute. Ends the listening. */
uint64_t filled_wait(struct filled *filled);

/* ---- the crowd that waits ---- */

struct hall {
    const struct stack_catalogd *catalogd; /* they wait in it; lent until hall_close() */
    struct crowd crowd;                    /* may ask for something else afterwards */

    double last_ms;        /* hall_wait()'s, like the next ones: from the fill to the last answer */
    double cpu_us_each;    /* from request to answer */
    double answer_us_each; /* of that: from when all wait */
    double kib_each;

    double constant_last_ms, constant_us_each; /* hall_ask_constant()'s: from the first request */

    bool asked, all_wait; /* private, like the rest */
    uint64_t alone_kib, waiting_kib, looking_us, waiting_us;
};

/* All must wait `look_ms` after the last request was written, and the product must not be loaded yet. Close it also if it did
 * not open. */
bool hall_open(struct bench *bench, struct hall *hall, const struct stack_catalogd *catalogd, uint32_t size,
               uint32_t look_ms);
/* filled_tell() goes before. */
bool hall_wait(const struct bench *bench, struct hall *hall);
bool hall_ask_constant(struct hall *hall);
void hall_close(struct hall *hall);

#endif
