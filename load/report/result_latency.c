/* SPDX-License-Identifier: MIT */
/*
 * result_latency.c - see result_make.h.
 *
 * Latencies of several groups are sorted in one go: the group stands above the latency in one number.
 */
#include "load/report/result_make.h"

#include "load/base/rank.h"
#include "load/report/result_fields.h"

#include <stdlib.h>
#include <string.h>

enum {
    BLOCK_REQUESTS_LEAST = 50,  /* of a rate */
    SLICES_LEAST = 40,          /* fewer show nothing, however few requests are in one */
    SLICE_REQUESTS_LEAST = 100, /* so that it has a p99 */
};

/* ---- group << 32 | latency ---- */

static const uint64_t KEYED_LEFT_OUT = UINT64_MAX;

/* The number of a record, or KEYED_LEFT_OUT. */
typedef uint64_t (*keyed_number)(const struct record *record, const void *context);

/* Of an answer: the group it belongs to, and its latency. */
static uint64_t answer_in(size_t group, const struct record *record)
{
    return record->outcome == RECORD_ANSWERED ? (uint64_t)group << 32 | record->end_us : KEYED_LEFT_OUT;
}

/* `keyed` has room for all records. How many there are. */
static size_t keyed_collect(const struct records *records, keyed_number number_of, const void *context,
                            uint64_t *keyed)
{
    size_t count = 0;
    for (size_t i = 0; i < records->count; i++) {
        uint64_t number = number_of(&records->at[i], context);
        if (number != KEYED_LEFT_OUT)
            keyed[count++] = number;
    }
    rank_sort(keyed, count);
    return count;
}

/* How many of `keyed` belong to the group of the first. */
static size_t keyed_run(const uint64_t *keyed, size_t count)
{
    size_t length = 0;
    while (length < count && keyed[length] >> 32 == keyed[0] >> 32)
        length++;
    return length;
}

static uint32_t keyed_percentile(const uint64_t *keyed, size_t count, uint32_t per_10000)
{
    return count > 0 ? (uint32_t)keyed[result_rank(count, per_10000) - 1] : 0;
}

/* ---- percentiles ---- */

static uint64_t one_group(const struct record *record, const void *context)
{
    (void)context;
    return answer_in(0, record);
}

static uint64_t only_5xx(const struct record *record, const void *context)
{
    (void)context;
    return record->status >= 500 ? answer_in(0, record) : KEYED_LEFT_OUT;
}

static uint64_t to_first_byte(const struct record *record, const void *context)
{
    (void)context;
    return record->outcome == RECORD_ANSWERED ? record->first_us : KEYED_LEFT_OUT;
}

/* Whatever became of the request. */
static uint64_t to_connect(const struct record *record, const void *context)
{
    (void)context;
    return record->connect_us > 0 ? record->connect_us : KEYED_LEFT_OUT;
}

/* Of one group. */
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
    for (const struct field *field = fields_of_quantiles; field->name != NULL; field++) {
        if (field->per_10000 > 0)
            *(uint64_t *)(void *)((char *)out + field->offset) =
                keyed_percentile(keyed, count, field->per_10000);
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
        source->work->shape == WORK_BURST ? source->work->round_count : records->count / BLOCK_REQUESTS_LEAST;
    cut.block_count = most < RESULT_BLOCKS_MAX ? most : RESULT_BLOCKS_MAX;
    if (records->count > 0)
        cut.span_us = result_offset_us(source, records->at[records->count - 1].due_us);
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
        block = (size_t)(result_offset_us(cut->source, cut->source->records->at[index].due_us) *
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
            out->blocks[block_of(&cut, i)][rank_bucket(record->end_us)]++;
    }
    return true;
}

/* ---- a run over time, cut into slices of one length ---- */

struct series {
    const struct result_source *source;
    struct result *out;
};

/* 1, 2, 5, 10, 20, ... */
static uint64_t longer(uint64_t step)
{
    uint64_t ten = 1;
    while (ten * 10 <= step)
        ten *= 10;
    return step / ten == 2 ? ten * 5 : step * 2;
}

static void choose_slices(const struct result_source *source, struct result *out)
{
    const struct records *records = source->records;
    bool is_rate = source->work->shape == WORK_RATE;
    uint64_t due_ms =
        records->count > 0 ? result_offset_ms(source, records->at[records->count - 1].due_us) : 0;
    uint64_t span_ms = due_ms > out->duration_ms ? due_ms : out->duration_ms, step = 1;
    while (span_ms / step + 1 > RESULT_SLICES_MAX)
        step = longer(step);
    while (is_rate && span_ms / step + 1 > SLICES_LEAST &&
           records->count * step < due_ms * SLICE_REQUESTS_LEAST)
        step = longer(step);
    out->slice_ms = (uint32_t)step;
    out->slice_count = records->count > 0 ? span_ms / step + 1 : 0;
}

static size_t slice_at(const struct series *series, uint64_t offset_us)
{
    uint64_t index = offset_us / ((uint64_t)series->out->slice_ms * 1000);
    return index < series->out->slice_count ? (size_t)index : series->out->slice_count - 1;
}

static uint64_t slice_of(const struct record *record, const void *context)
{
    const struct series *series = context;
    return answer_in(slice_at(series, result_offset_us(series->source, record->due_us)), record);
}

static void count_records(const struct series *series)
{
    const struct records *records = series->source->records;
    struct result_slice *slices = series->out->slices;
    for (size_t i = 0; i < records->count; i++) {
        const struct record *record = &records->at[i];
        uint64_t due_us = result_offset_us(series->source, record->due_us);
        struct result_slice *slice = &slices[slice_at(series, due_us)];
        slice->due++;
        slice->answered += record->outcome == RECORD_ANSWERED;
        slice->failed += result_record_failed(record);
    }
}

/* p99 where answers are few, as in a fault, is that of several slices from `first` on: enough for it. Returns the one
 * behind them; *taken: so many answers were theirs. */
static size_t measure_p99(const struct series *series, uint64_t *keyed, size_t count, size_t first,
                          size_t *taken)
{
    struct result_slice *slices = series->out->slices;
    size_t end = first;
    for (*taken = 0; end < series->out->slice_count && !result_supports(*taken, 9900); end++) {
        while (*taken < count && keyed[*taken] >> 32 == end)
            (*taken)++;
    }
    if (!result_supports(*taken, 9900))
        return series->out->slice_count;
    for (size_t i = 0; i < *taken; i++)
        keyed[i] &= UINT32_MAX;
    rank_sort(keyed, *taken);
    uint32_t p99_us = keyed_percentile(keyed, *taken, 9900);
    for (size_t i = first; i < end; i++) {
        slices[i].p99_us = p99_us;
        slices[i].p99_slices = (uint32_t)(end - first);
    }
    return end;
}

static bool measure(const struct series *series)
{
    const struct records *records = series->source->records;
    uint64_t *keyed = calloc(records->count + 1, sizeof *keyed);
    if (keyed == NULL)
        return false;
    size_t count = keyed_collect(records, slice_of, series, keyed);
    for (size_t at = 0, length; at < count; at += length) {
        struct result_slice *slice = &series->out->slices[keyed[at] >> 32];
        length = keyed_run(keyed + at, count - at);
        slice->p50_us = keyed_percentile(keyed + at, length, 5000);
        slice->max_us = (uint32_t)keyed[at + length - 1];
    }
    for (size_t at = 0, first = 0, length; first < series->out->slice_count; at += length)
        first = measure_p99(series, keyed + at, count - at, first, &length);
    free(keyed);
    return true;
}

static bool make_slices(const struct result_source *source, struct result *out)
{
    struct series series = {.source = source, .out = out};
    const struct witness_view *view = source->view;
    choose_slices(source, out);
    if (out->slice_count == 0)
        return true;
    out->slices = calloc(out->slice_count, sizeof *out->slices);
    if (out->slices == NULL)
        return false;
    count_records(&series);
    for (size_t i = 0; view != NULL && view->loads != NULL && i < view->load_count; i++)
        out->slices[slice_at(&series, result_offset_us(source, view->loads[i].at_us))].loads++;
    return measure(&series);
}

bool latency_make(const struct result_source *source, struct result *out)
{
    uint64_t *keyed = calloc(source->records->count + 1, sizeof *keyed);
    if (keyed == NULL)
        return false;
    size_t count = keyed_collect(source->records, only_5xx, NULL, keyed);
    summarise(keyed, count, &out->errors);
    count = keyed_collect(source->records, to_first_byte, NULL, keyed);
    summarise(keyed, count, &out->first);
    count = keyed_collect(source->records, to_connect, NULL, keyed);
    summarise(keyed, count, &out->connect);
    count = keyed_collect(source->records, one_group, NULL, keyed);
    summarise(keyed, count, &out->all);
    free(keyed);
    return make_blocks(source, out) && make_slices(source, out);
}
