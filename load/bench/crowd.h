/* SPDX-License-Identifier: MIT */
/*
 * crowd.h - many requests for one product at one instant, all of which must be answered with 200.
 *
 *     crowd_open()    all connect
 *     crowd_ask()     and ask; something may be done meanwhile
 *     crowd_close()
 *
 * Threads: one at a time. Time: as burst.h has it. Errors: false, and the reason on stderr.
 */
#ifndef LOAD_BENCH_CROWD_H
#define LOAD_BENCH_CROWD_H

#include "load/bench/bench.h"

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

#endif
