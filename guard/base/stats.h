/* SPDX-License-Identifier: MIT */
/*
 * stats.h - the table of the numbers in struct guard_stats: guard_stat_info(), guard_stat_value() and
 * guard_stat_histogram() read it, and so do sums of several of these structs. A number that is not in it does not exist
 * for a page of metrics: stats_test.c finds it.
 *
 * Pure.
 */
#ifndef GUARD_STATS_H
#define GUARD_STATS_H

#include "../guard.h"

/* Number by number; a flag that is set in one is set in the sum. At most one part has states. */
void stats_add(struct guard_stats *sum, const struct guard_stats *part);
/* Where the i-th number stands in struct guard_stats; i as in guard_stat_info(). For tests. */
void stats_place(size_t i, size_t *offset, size_t *bytes);

#endif
