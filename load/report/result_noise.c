/* SPDX-License-Identifier: MIT */
/* result_noise.c - see result.h. */
#include "load/report/result.h"

#include "load/base/dice.h"
#include "load/base/rank.h"

#include <stdlib.h>
#include <string.h>

enum { DRAWS_OUTSIDE = NOISE_DRAWS / 200 }; /* at each end: half a percent */

/* ---- drawing blocks ---- */

static double percentile_of(const uint64_t counts[static RESULT_BUCKETS], uint32_t per_10000)
{
    uint64_t all = 0, below = 0;
    uint32_t bucket = 0;
    for (uint32_t i = 0; i < RESULT_BUCKETS; i++)
        all += counts[i];
    uint64_t rank = result_rank(all, per_10000);
    for (; bucket < RESULT_BUCKETS - 1; bucket++) {
        below += counts[bucket];
        if (below >= rank)
            break;
    }
    return all > 0 ? rank_bucket_us(bucket) : 0;
}

/* As many blocks as there are, each of them any. */
static double draw(const struct result *result, uint32_t per_10000, uint64_t *random)
{
    uint64_t counts[RESULT_BUCKETS] = {0};
    uint32_t times[RESULT_BLOCKS_MAX] = {0};
    for (size_t i = 0; i < result->block_count; i++)
        times[dice_next(random) % result->block_count]++;
    for (size_t i = 0; i < result->block_count; i++) {
        for (size_t bucket = 0; times[i] > 0 && bucket < RESULT_BUCKETS; bucket++)
            counts[bucket] += (uint64_t)times[i] * result->blocks[i][bucket];
    }
    return percentile_of(counts, per_10000);
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

bool noise_of_percentile(const struct result *now, const struct result *earlier, uint32_t per_10000,
                         struct noise_interval *out)
{
    double ratios[NOISE_DRAWS];
    uint64_t random = per_10000;
    if (now->block_count < NOISE_BLOCKS_LEAST || earlier->block_count < NOISE_BLOCKS_LEAST)
        return false;
    for (size_t i = 0; i < NOISE_DRAWS; i++) {
        double mine = draw(now, per_10000, &random), theirs = draw(earlier, per_10000, &random);
        if (mine <= 0 || theirs <= 0)
            return false;
        ratios[i] = mine / theirs;
    }
    qsort(ratios, NOISE_DRAWS, sizeof *ratios, compare);
    *out = (struct noise_interval){.low = ratios[DRAWS_OUTSIDE],
                                   .high = ratios[NOISE_DRAWS - 1 - DRAWS_OUTSIDE]};
    return true;
}
