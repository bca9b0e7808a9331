/* SPDX-License-Identifier: MIT */
/* samples.c - see samples.h. */
#include "load/report/samples.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

void samples_add(struct samples *samples, double sample)
{
    assert(samples->count < SAMPLES_MAX);
    samples->at[samples->count++] = sample;
}

static int by_size(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static struct samples sorted(const struct samples *samples)
{
    struct samples copy = *samples;
    qsort(copy.at, copy.count, sizeof *copy.at, by_size);
    return copy;
}

double samples_median(const struct samples *samples)
{
    const struct samples in_order = sorted(samples);
    size_t middle = in_order.count / 2;
    if (in_order.count == 0)
        return 0;
    return in_order.count % 2 != 0 ? in_order.at[middle]
                                   : (in_order.at[middle - 1] + in_order.at[middle]) / 2;
}

double samples_smallest(const struct samples *samples)
{
    return samples->count > 0 ? sorted(samples).at[0] : 0;
}

double samples_largest(const struct samples *samples)
{
    return samples->count > 0 ? sorted(samples).at[samples->count - 1] : 0;
}

double samples_rounded(double number, unsigned decimals)
{
    char text[64];
    snprintf(text, sizeof text, "%.*f", (int)decimals, number);
    return strtod(text, NULL);
}
