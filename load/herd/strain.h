/* SPDX-License-Identifier: MIT */
/*
 * strain.h - was the generator itself the bottleneck? From what the generators measured of themselves.
 *
 * What is said is what was measured. That a generator was late does not tell who took the core: on a machine that
 * also runs the service, or other programs, `starved` says how much of it was waiting for one.
 */
#pragma once

#include "load/herd/record.h"
#include "load/herd/work.h"

#include <stdbool.h>
#include <stdint.h>

struct herd_job;

/* Was the generator itself the bottleneck? Measured where it cannot hide: in the generators. */
struct herd_strain {
    uint32_t generator_count;
    double busiest; /* CPU time / time of the busiest generator, 0 to 1; burst: of the rounds' time */
    double starved; /* ready to run without a free core / time, of the one worst off, 0 to 1 */
    /* Of all requests: how long after its due time one left, or that it waited in vain. */
    uint64_t late_p99_us;
    uint64_t late_max_us;  /* ... in rate; in a burst the same as spread_us, from the barrier on */
    uint64_t late_count;   /* those that were later than 1 ms */
    uint64_t waited_count; /* rate: those for which no connection was free */
    uint64_t spread_us;    /* burst: from the first request written to the last; worst round */
    bool is_bottleneck;
    char verdict[320]; /* one or two sentences with the numbers; what to do about it */
};

/* All but the verdict. `jobs`: generator_count of them; `records`: of all, by due time. */
void strain_measure(const struct work *work, const struct herd_job *jobs, const struct records *records,
                    struct herd_strain *out);

/* Adds the verdict. The latencies of all answers are what a lag, or a burst's spread, is large or small against. */
void strain_judge(const struct work *work, uint64_t request_count, uint64_t median_us, uint64_t p99_us,
                  struct herd_strain *strain);

/* The smallest number that `percent` of count numbers do not exceed (nearest rank), less 1; zeros do not count. */
uint32_t strain_rank(const uint32_t *const *lists, const uint32_t *counts, size_t list_count, double percent);
