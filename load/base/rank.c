/* SPDX-License-Identifier: MIT */
/* rank.c - see rank.h. */
#include "load/base/rank.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

void rank_sort(uint64_t *values, size_t count)
{
    qsort(values, count, sizeof *values, by_value);
}

/* 99.9 % of 1 000 is 999, not 999.0000001; and what is below 100 % does not become it. */
static uint64_t millionths_of(double percent)
{
    uint64_t millionths = (uint64_t)(percent * 1e4 + 0.5);
    return percent < 100 && millionths == 1000000 ? 999999 : millionths;
}

uint64_t rank_percentile_least(double percent)
{
    uint64_t above = 1000000 - millionths_of(percent);
    return above > 0 ? (1000000 + above - 1) / above : 1;
}

uint64_t rank_nearest(uint64_t count, double percent)
{
    uint64_t rank = (count * millionths_of(percent) + 999999) / 1000000;
    return rank > 0 || count == 0 ? rank : 1;
}

uint64_t rank_percentile(const uint64_t *sorted, size_t count, double percent)
{
    return count > 0 ? sorted[rank_nearest(count, percent) - 1] : 0;
}

/* ---- buckets ---- */

enum {
    FINE = 64,         /* buckets of 1 us each */
    PER_DOUBLING = 32, /* after that */
    FINE_BITS = 6,
};

_Static_assert(FINE + (32 - FINE_BITS) * PER_DOUBLING == RANK_BUCKETS, "they reach to UINT32_MAX");

uint32_t rank_bucket(uint32_t us)
{
    if (us < FINE)
        return us;
    uint32_t bits = 31 - (uint32_t)__builtin_clz(us);
    return FINE + (bits - FINE_BITS) * PER_DOUBLING + (us >> (bits - FINE_BITS + 1)) - PER_DOUBLING;
}

double rank_bucket_us(uint32_t bucket)
{
    if (bucket < FINE)
        return bucket;
    uint32_t doubling = (bucket - FINE) / PER_DOUBLING, step = (bucket - FINE) % PER_DOUBLING;
    double width = (double)(UINT64_C(2) << doubling);
    return (PER_DOUBLING + step) * width + width / 2;
}
