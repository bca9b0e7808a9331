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

#include "load/bench/crowd.h"

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
