/* SPDX-License-Identifier: MIT */
/*
 * stats.h - the table of the numbers in struct guard_stats: guard_stat_info(), guard_stat_value() and
 * guard_stat_histogram() read it, and so do sums of several of these structs. A number that is not in it does not
 * exist for a page of metrics: stats_test.c finds it. And the histograms among them: how many spans fell into each
 * bucket of GUARD_HISTOGRAM_BOUNDS_US. stats.c also has the names of what guard.h enumerates.
 *
 * Pure; a histogram has one owner.
 */
#pragma once

#include "../guard.h"

/* Number by number; a flag that is set in one is set in the sum. At most one part has states. */
void stats_add(struct guard_stats *sum, const struct guard_stats *part);
/* Where the i-th number stands in struct guard_stats; i as in guard_stat_info(). For tests. */
void stats_place(size_t i, size_t *offset, size_t *bytes);

/* What becomes of requests, and of entries that lookups find: the names of what each counts as. */
#define STATS_REQUESTS(COUNT)                                                                                \
    COUNT(hit)                                                                                               \
    COUNT(stale)                                                                                             \
    COUNT(absent_hit)                                                                                        \
    COUNT(failed_hit)                                                                                        \
    COUNT(loaded)                                                                                            \
    COUNT(collapsed_process)                                                                                 \
    COUNT(collapsed_fleet)                                                                                   \
    COUNT(failed)                                                                                            \
    COUNT(shed)                                                                                              \
    COUNT(timed_out)                                                                                         \
    COUNT(cancelled)                                                                                         \
    COUNT(closed)                                                                                            \
    COUNT(missed)                                                                                            \
    COUNT(kept)                                                                                              \
    COUNT(entry_rejected)                                                                                    \
    COUNT(entry_outdated)
enum stats_request {
#define STATS_REQUEST(name) STATS_##name,
    STATS_REQUESTS(STATS_REQUEST)
#undef STATS_REQUEST
        STATS_REQUEST_COUNT
};
enum stats_request stats_request_of(const struct guard_result *result);
uint64_t *stats_request(struct guard_stats *stats, enum stats_request request);

size_t histogram_bucket(uint64_t span_us);
void histogram_add(struct guard_histogram *histogram, uint64_t span_us);
