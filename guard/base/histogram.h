/* SPDX-License-Identifier: MIT */
/*
 * histogram.h - the histograms of guard_stats: how many spans fell into each bucket of GUARD_HISTOGRAM_BOUNDS_US.
 *
 * Threads  histogram_bucket(): any. A histogram has one owner.
 */
#ifndef GUARD_HISTOGRAM_H
#define GUARD_HISTOGRAM_H

#include "../guard.h"

size_t histogram_bucket(uint64_t span_us);
void histogram_add(struct guard_histogram *histogram, uint64_t span_us);

#endif
