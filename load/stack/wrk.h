/* SPDX-License-Identifier: MIT */
/*
 * wrk.h - one run of wrk, the HTTP load generator: one thread, connections that stay open, as fast as the
 * server answers.
 *
 * Threads: as proc.h has it. Errors: false, and the reason on stderr.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* How the numbers are taken, and so what a request costs wrk: with any of them a script hands it each request. */
enum wrk_order {
    WRK_PLAIN = 0, /* no numbers, no script: the path as it is */
    WRK_IN_TURN,
    WRK_BY_ZIPF, /* the lower the oftener, see dice.h; the exponent is 0.99 */
};

struct wrk_options {
    uint16_t port;    /* on 127.0.0.1 */
    const char *path; /* begins with '/'; a number goes where it has a '*', if it has one */
    enum wrk_order order;
    uint32_t first, last;
    uint32_t connection_count;
    uint32_t seconds;
};

struct wrk_result {
    uint64_t requests;
    double requests_per_s;
};

/* False also if a single answer was not 2xx or a connection failed: then nothing was measured. */
bool wrk_run(const struct wrk_options *options, struct wrk_result *out);
