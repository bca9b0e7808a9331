/* SPDX-License-Identifier: MIT */
/*
 * sample.h - results and reports for tests of what reads them, out of a small simulated service: no clock, no chance
 * but the seed's. They go through result_make() like those of a run.
 *
 * Three kinds of service: SAMPLE_OFF (every miss queries, and queries slow each other down), SAMPLE_LOCAL (one query
 * per process, of which there are two) and SAMPLE_FLEET (one query).
 */
#pragma once

#include "load/report/result.h"

enum sample_guard { SAMPLE_OFF = 0, SAMPLE_LOCAL, SAMPLE_FLEET };

struct sample {
    const char *name;
    enum sample_guard guard;
    uint64_t seed;
    uint32_t round_count, connection_count; /* a burst; or */
    uint32_t per_second, duration_ms;       /* a rate */
    uint32_t ttl_ms;
    double slowness;                      /* of every answer; 0 as 1 */
    uint32_t fault_at_ms, fault_until_ms; /* the cache is away: every request queries, some fail; 0: never */
};

/* Yours, from malloc(). */
struct result *sample_result(const struct sample *sample);

/* A cold burst of 1 000, and a rate of 2 000 a second for 10 s with a fault: off, local and fleet, with checks. */
void sample_burst_report(struct report *report);
void sample_rate_report(struct report *report);
