/* SPDX-License-Identifier: MIT */
/*
 * result_latency.h - the latencies of a result: percentiles, the curve of the distribution, the series over time, and
 * the blocks that noise is judged by.
 */
#ifndef LOAD_REPORT_RESULT_LATENCY_H
#define LOAD_REPORT_RESULT_LATENCY_H

#include "load/report/result.h"

/* *out is zeroed before, and duration_ms known. False: no memory; result_clear() has the rest. */
bool latency_make(const struct result_source *source, struct result *out);

#endif
