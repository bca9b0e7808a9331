/* SPDX-License-Identifier: MIT */
/*
 * strain.h - was the generator itself the bottleneck? From what the generators measured of themselves.
 *
 * What is said is what was measured. That a generator was late does not tell who took the core: on a machine that
 * also runs the service, or other programs, `starved` says how much of it was waiting for one.
 */
#ifndef LOAD_HERD_STRAIN_H
#define LOAD_HERD_STRAIN_H

#include "load/herd/herd.h"
#include "load/herd/herd_shared.h"

/* All but the verdict. `jobs`: generator_count of them; `records`: of all, by due time. */
void strain_measure(const struct work *work, const struct herd_job *jobs, const struct records *records,
                    struct herd_strain *out);

/* Adds the verdict. The latencies of all answers are what a lag, or a burst's spread, is large or small against. */
void strain_judge(const struct work *work, uint64_t median_us, uint64_t p99_us, struct herd_strain *strain);

/* The smallest number that `percent` of count numbers do not exceed (nearest rank), less 1; zeros do not count. */
uint32_t strain_rank(const uint32_t *const *lists, const uint32_t *counts, size_t list_count, double percent);

#endif
