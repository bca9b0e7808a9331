/* SPDX-License-Identifier: MIT */
/*
 * pace.h - requests at a fixed rate over the services of this machine, by one generator of the herd's; what a
 * measurement does meanwhile is its own business.
 *
 *     pace_begin() ---> other things may happen ---> herd_end() ---> pace_latencies()
 *
 * The generator runs before others where that is allowed, so that what is measured shares what it leaves.
 *
 * Threads: as herd.h has it. Time: that of struct record, from the instant at which a request was due. Errors: false,
 * and one line of text.
 */
#ifndef LOAD_HERD_PACE_H
#define LOAD_HERD_PACE_H

#include "load/herd/herd.h"

enum { PACE_TARGETS_MAX = 4 };

struct pace {
    uint16_t ports[PACE_TARGETS_MAX]; /* on 127.0.0.1, in turn */
    size_t port_count;
    const char *path; /* may hold a {...} of work.h */
    /* So many clients of every port go through {each:...} side by side; 0: one, in turn over the ports. */
    uint32_t walks;
    uint32_t per_second, duration_ms;
    uint32_t connection_count; /* at most */
    uint32_t limit_ms;         /* of a request */
};

/* The first request is due at *begin_us, a few milliseconds from now. If true, herd_end() must follow. */
bool pace_begin(const struct pace *pace, struct herd **out, uint64_t *begin_us,
                char why[static WORK_WHY_BYTES]);

/* The whole of it, when nothing else is to happen. *records is yours to clear, whatever it returns. */
bool pace_run(const struct pace *pace, struct records *records, struct herd_strain *strain,
              char why[static WORK_WHY_BYTES]);

struct latencies {
    size_t count; /* answered with 200 */
    double p50_ms, p99_ms, p999_ms, max_ms;
};

/* Nearest rank. False: one of them was not answered with 200, or there are none. */
bool pace_latencies(const struct records *records, struct latencies *out);

#endif
