/* SPDX-License-Identifier: MIT */
/*
 * samples.h - the repetitions of one measured number: the median stands for it, the smallest and the largest show how
 * far it spreads.
 *
 * Pure. Threads: any.
 */
#ifndef LOAD_REPORT_SAMPLES_H
#define LOAD_REPORT_SAMPLES_H

#include <stddef.h>

enum { SAMPLES_MAX = 64 };

struct samples {
    double at[SAMPLES_MAX];
    size_t count;
};

void samples_add(struct samples *samples, double sample);

/* 0 without samples. */
double samples_median(const struct samples *samples);
double samples_smallest(const struct samples *samples);
double samples_largest(const struct samples *samples);

/* With so many decimals: what is judged is what is printed. */
double samples_rounded(double number, unsigned decimals);

#endif
