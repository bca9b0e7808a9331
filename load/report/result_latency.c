/* SPDX-License-Identifier: MIT */
/*
 * result_latency.c - percentiles, the curve of the distribution, and the blocks that noise is judged by.
 *
 * Latencies of several groups are sorted in one go: the group stands above the latency in one number.
 */
#include "load/report/result_noise.h"
#include "load/report/result_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    REQUESTS_PER_BLOCK = 50, /* of a rate, at least */
    FIFTY = 5000,
    NINETY = 9000,
    NINETY_FIVE = 9500,
    NINETY_NINE = 9900,
    THREE_NINES = 9990,
    FOUR_NINES = 9999,
};

/* ---- keyed ---- */

static int compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

size_t keyed_collect(const struct records *records, keyed_group group, const void *context, uint64_t *keyed)
{
    size_t count = 0;
    for (size_t i = 0; i < records->count; i++) {
        const struct record *record = &records->at[i];
        if (record->outcome != RECORD_ANSWERED)
            continue;
        uint32_t number = group(record, context);
        if (number != KEYED_LEFT_OUT)
            keyed[count++] = (uint64_t)number << 32 | record->end_us;
    }
    qsort(keyed, count, sizeof *keyed, compare);
    return count;
}

size_t keyed_run(const uint64_t *keyed, size_t count)
{
    size_t length = 0;
    while (length < count && keyed[length] >> 32 == keyed[0] >> 32)
        length++;
    return length;
}

uint32_t keyed_percentile(const uint64_t *keyed, size_t count, uint32_t per_10000)
{
    return count > 0 ? (uint32_t)keyed[result_rank(count, per_10000) - 1] : 0;
}

/* ---- percentiles ---- */

static uint32_t one_group(const struct record *record, const void *context)
{
    (void)record, (void)context;
    return 0;
}

static uint32_t only_5xx(const struct record *record, const void *context)
{
    (void)context;
    return record->status >= 500 ? 0 : KEYED_LEFT_OUT;
}

static uint32_t by_cache(const struct record *record, const void *context)
{
    (void)context;
    return record->cache < RECORD_CACHES ? record->cache : RECORD_CACHE_OTHER;
}

static void summarise(const uint64_t *keyed, size_t count, struct result_quantiles *out)
{
    double sum_us = 0;
    *out = (struct result_quantiles){.count = count};
    if (count == 0)
        return;
    for (size_t i = 0; i < count; i++)
        sum_us += (double)(uint32_t)keyed[i];
    out->mean_us = sum_us / (double)count;
    out->min_us = (uint32_t)keyed[0];
    out->p50_us = keyed_percentile(keyed, count, FIFTY);
    out->p90_us = keyed_percentile(keyed, count, NINETY);
    out->p95_us = keyed_percentile(keyed, count, NINETY_FIVE);
    out->p99_us = keyed_percentile(keyed, count, NINETY_NINE);
    out->p999_us = keyed_percentile(keyed, count, THREE_NINES);
    out->p9999_us = keyed_percentile(keyed, count, FOUR_NINES);
    out->max_us = (uint32_t)keyed[count - 1];
}

/* Ranks evenly spread over the logarithm of what is above them: the rare, slow answers get as many points as the
 * common ones. */
static void draw_curve(const uint64_t *keyed, size_t count, struct result *out)
{
    size_t last = 0;
    for (size_t i = 0; i < RESULT_CURVE_MAX && count > 0; i++) {
        double above = pow((double)count, -(double)i / (RESULT_CURVE_MAX - 1));
        size_t rank = i == RESULT_CURVE_MAX - 1 ? count : (size_t)ceil((double)count * (1 - above));
        if (rank <= last && i > 0)
            continue;
        last = rank > 0 ? rank : 1;
        out->curve[out->curve_count++] = (struct result_point){.percent = 100 * (double)last / (double)count,
                                                               .us = (uint32_t)keyed[last - 1]};
    }
}

/* ---- blocks ---- */

struct cut {
    const struct result_source *source;
    size_t block_count;
    uint64_t span_us; /* rate: until the last was due */
};

static struct cut choose_cut(const struct result_source *source)
{
    const struct records *records = source->records;
    struct cut cut = {.source = source};
    size_t most =
        source->work->shape == WORK_BURST ? source->work->round_count : records->count / REQUESTS_PER_BLOCK;
    cut.block_count = most < RESULT_BLOCKS_MAX ? most : RESULT_BLOCKS_MAX;
    if (records->count > 0)
        cut.span_us = source_offset_us(source, records->at[records->count - 1].due_us);
    return cut;
}

/* The records are in the order in which they were due, so those of a round stand together. */
static size_t block_of(const struct cut *cut, size_t index)
{
    const struct work *work = cut->source->work;
    size_t block;
    if (work->shape == WORK_BURST)
        block = index / (work->connection_count > 0 ? work->connection_count : 1) * cut->block_count /
                work->round_count;
    else
        block = (size_t)(source_offset_us(cut->source, cut->source->records->at[index].due_us) *
                         cut->block_count / (cut->span_us + 1));
    return block < cut->block_count ? block : cut->block_count - 1;
}

static bool make_blocks(const struct result_source *source, struct result *out)
{
    struct cut cut = choose_cut(source);
    if (cut.block_count < 2)
        return true;
    out->blocks = calloc(cut.block_count, sizeof *out->blocks);
    if (out->blocks == NULL)
        return false;
    out->block_count = cut.block_count;
    for (size_t i = 0; i < source->records->count; i++) {
        const struct record *record = &source->records->at[i];
        if (record->outcome == RECORD_ANSWERED)
            out->blocks[block_of(&cut, i)][noise_bucket(record->end_us)]++;
    }
    return true;
}

bool latency_make(const struct result_source *source, struct result *out)
{
    uint64_t *keyed = calloc(source->records->count + 1, sizeof *keyed);
    if (keyed == NULL)
        return false;
    size_t count = keyed_collect(source->records, only_5xx, NULL, keyed);
    summarise(keyed, count, &out->errors);
    count = keyed_collect(source->records, by_cache, NULL, keyed);
    for (size_t at = 0, length; at < count; at += length) {
        length = keyed_run(keyed + at, count - at);
        summarise(keyed + at, length, &out->by_cache[keyed[at] >> 32]);
    }
    count = keyed_collect(source->records, one_group, NULL, keyed);
    summarise(keyed, count, &out->all);
    draw_curve(keyed, count, out);
    free(keyed);
    return make_blocks(source, out);
}
