/* SPDX-License-Identifier: MIT */
/* histogram.c - see histogram.h. */
#include "histogram.h"

static const uint64_t HISTOGRAM_BOUNDS_US[] = GUARD_HISTOGRAM_BOUNDS_US;
_Static_assert(sizeof HISTOGRAM_BOUNDS_US / sizeof *HISTOGRAM_BOUNDS_US == GUARD_HISTOGRAM_BUCKETS - 1,
               "the last bucket has no bound");

size_t histogram_bucket(uint64_t span_us)
{
    size_t bucket = 0;
    while (bucket < GUARD_HISTOGRAM_BUCKETS - 1 && span_us > HISTOGRAM_BOUNDS_US[bucket])
        bucket++;
    return bucket;
}

void histogram_add(struct guard_histogram *histogram, uint64_t span_us)
{
    histogram->count[histogram_bucket(span_us)]++;
    histogram->sum_us += span_us;
}
