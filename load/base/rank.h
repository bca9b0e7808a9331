/* SPDX-License-Identifier: MIT */
/*
 * rank.h - percentiles by the nearest rank, exact; and where nothing can be kept but counts, the buckets to count in.
 *
 * Pure, any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The smallest first. */
void rank_sort(uint64_t *values, size_t count);

/* The rank of a percentile among `count`, from 1; 0 of none. 0 < percent <= 100. */
uint64_t rank_nearest(uint64_t count, double percent);

/* The value at the given rank of count sorted ones, 0 < percent <= 100; 0: there are none. */
uint64_t rank_percentile(const uint64_t *sorted, size_t count, double percent);

/* How many values it takes for that not to be the largest of them: 100 for 99, 10 000 for 99.99; 1 for 100. */
uint64_t rank_percentile_least(double percent);

/* Of microseconds, all that fit: exact below 64, then 32 for each doubling, 3 % wide. */
enum { RANK_BUCKETS = 896 };
uint32_t rank_bucket(uint32_t us);
double rank_bucket_us(uint32_t bucket); /* its middle */
