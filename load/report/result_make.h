/* SPDX-License-Identifier: MIT */
/*
 * result_make.h - what result_make() puts a result together from. *out is zeroed before, duration_ms known.
 *
 * Pure. Errors: false, no memory; result_clear() has the rest.
 */
#pragma once

#include "load/report/result.h"

/* Percentiles, the series over time, and the blocks that noise is judged by. */
bool latency_make(const struct result_source *source, struct result *out);
/* The bursts, each from its instant on: how many had been answered, had failed, and had been loaded after so many
 * microseconds. A rate has none. */
bool rounds_make(const struct result_source *source, struct result *out);
/* The database's and Redis's side: loads, the expiries that asked for them, and their marks. After latency_make(). */
bool expiries_make(const struct result_source *source, struct result *out);
/* How long a value lives, by the times of its loads (by key, then by time); 0: they do not show it. *is_bound: it is
 * only known how long it is kept, and it may live shorter. */
bool ttl_seen(const struct result_source *source, const struct witness_load *const *loads, uint32_t *ttl_ms,
              bool *is_bound);
/* How long a service is not itself after a fault, under the same load. */
bool recovery_make(const struct result_source *source, struct result *out);
