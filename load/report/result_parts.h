/* SPDX-License-Identifier: MIT */
/*
 * result_parts.h - the parts of result_make(), each of which fills its own fields; nobody else includes this.
 *
 *     result_make() --> latency_make()  percentiles, the curve, the blocks
 *                   --> slices_make()   the series
 *                   --> loads_make()    the database's and Redis's side, expiries, their marks
 *                                         keys_judge(): are they of keys at all?
 *                   --> stale_make()    answers older than a write that was over
 *
 * *out is zeroed before, and duration_ms known. False: no memory; result_clear() has the rest.
 */
#ifndef LOAD_REPORT_RESULT_PARTS_H
#define LOAD_REPORT_RESULT_PARTS_H

#include "load/report/result.h"

bool latency_make(const struct result_source *source, struct result *out);
bool slices_make(const struct result_source *source, struct result *out);
bool loads_make(const struct result_source *source, struct result *out);
bool stale_make(const struct result_source *source, struct result *out);

/* `loads` by key, so many of them `different`. *why: they are not known, a constant; NULL: they are. */
bool keys_judge(const struct result_source *source, const struct witness_load *const *loads, size_t count,
                uint64_t different, const char **why);

/* Since the barrier; what happened before it happened at it. */
uint64_t source_offset_us(const struct result_source *source, uint64_t instant_us);
uint32_t source_offset_ms(const struct result_source *source, uint64_t instant_us);

/* No answer, or 5xx; not who left as told, nor what an interrupted run left under way. */
bool record_failed(const struct record *record);

/* ---- latencies by group, sorted: group << 32 | latency ---- */

enum { KEYED_LEFT_OUT = 0x7fffffff };

/* Which group an answered request belongs to. */
typedef uint32_t (*keyed_group)(const struct record *record, const void *context);

/* `keyed` has room for all records. How many there are. */
size_t keyed_collect(const struct records *records, keyed_group group, const void *context, uint64_t *keyed);

/* How many of `keyed` belong to the group of the first. */
size_t keyed_run(const uint64_t *keyed, size_t count);

/* The latency at a percentile among `count` sorted ones of one group. */
uint32_t keyed_percentile(const uint64_t *keyed, size_t count, uint32_t per_10000);

#endif
