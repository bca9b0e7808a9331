/* SPDX-License-Identifier: MIT */
/*
 * result_noise.h - by how much a figure could differ if the same thing were measured twice.
 *
 * The answers of one run are not independent: they wait for the same query, the same pause of the machine. So it is
 * not single answers but whole blocks of the run (see result.h) that are drawn again, with replacement, both runs
 * apart; the ratio of the two figures is taken each time, and the middle 99 % of these ratios are the interval.
 *
 * Pure: the draws are always the same ones.
 */
#ifndef LOAD_REPORT_RESULT_NOISE_H
#define LOAD_REPORT_RESULT_NOISE_H

#include "load/report/result.h"

enum {
    NOISE_BLOCKS_LEAST = 8, /* with fewer the interval would be too narrow */
    NOISE_DRAWS = 1000,
};

struct noise_interval {
    double low, high; /* of the ratio now / earlier */
};

/* Of a percentile in parts of 10 000. False: too few blocks in one of them, or no answers. */
bool noise_of_percentile(const struct result *now, const struct result *earlier, uint32_t per_10000,
                         struct noise_interval *out);

#endif
