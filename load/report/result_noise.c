/* SPDX-License-Identifier: MIT */
/* result_noise.c - see result_noise.h. */
#include "load/report/result_noise.h"

#include "load/base/dice.h"

#include <stdlib.h>
#include <string.h>

enum {
    FINE = 64,         /* buckets of 1 us each */
    PER_DOUBLING = 32, /* after that */
    FINE_BITS = 6,
    DRAWS_OUTSIDE = NOISE_DRAWS / 200, /* at each end: half a percent */
};

_Static_assert(FINE + (32 - FINE_BITS) * PER_DOUBLING == RESULT_BUCKETS, "they reach to UINT32_MAX");

uint32_t noise_bucket(uint32_t us)
{
    if (us < FINE)
        return us;
    uint32_t bits = 31 - (uint32_t)__builtin_clz(us);
    return FINE + (bits - FINE_BITS) * PER_DOUBLING + (us >> (bits - FINE_BITS + 1)) - PER_DOUBLING;
}

double noise_bucket_us(uint32_t bucket)
{
    if (bucket < FINE)
        return bucket;
    uint32_t doubling = (bucket - FINE) / PER_DOUBLING, step = (bucket - FINE) % PER_DOUBLING;
    double width = (double)(UINT64_C(2) << doubling);
    return (PER_DOUBLING + step) * width + width / 2;
}

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
    return all > 0 ? noise_bucket_us(bucket) : 0;
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
