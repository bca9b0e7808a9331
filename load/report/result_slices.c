/* SPDX-License-Identifier: MIT */
/* result_slices.c - a run over time, cut into slices of one length. */
#include "load/report/result_parts.h"

#include <stdlib.h>

enum {
    SLICES_LEAST = 40,    /* fewer show nothing, however few requests are in one */
    REQUESTS_LEAST = 100, /* in a slice, so that it has a p99 */
};

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
        records->count > 0 ? source_offset_ms(source, records->at[records->count - 1].due_us) : 0;
    uint64_t span_ms = due_ms > out->duration_ms ? due_ms : out->duration_ms, step = 1;
    while (span_ms / step + 1 > RESULT_SLICES_MAX)
        step = longer(step);
    while (is_rate && span_ms / step + 1 > SLICES_LEAST && records->count * step < due_ms * REQUESTS_LEAST)
        step = longer(step);
    out->slice_ms = (uint32_t)step;
    out->slice_count = records->count > 0 ? span_ms / step + 1 : 0;
}

static size_t slice_at(const struct series *series, uint64_t offset_us)
{
    uint64_t index = offset_us / ((uint64_t)series->out->slice_ms * 1000);
    return index < series->out->slice_count ? (size_t)index : series->out->slice_count - 1;
}

static uint32_t slice_of(const struct record *record, const void *context)
{
    const struct series *series = context;
    return (uint32_t)slice_at(series, source_offset_us(series->source, record->due_us));
}

/* `waiting` counts who comes less who goes, and is summed up afterwards. */
static void count_records(const struct series *series)
{
    const struct records *records = series->source->records;
    struct result_slice *slices = series->out->slices;
    for (size_t i = 0; i < records->count; i++) {
        const struct record *record = &records->at[i];
        uint64_t due_us = source_offset_us(series->source, record->due_us);
        struct result_slice *slice = &slices[slice_at(series, due_us)];
        slice->due++;
        slice->answered += record->outcome == RECORD_ANSWERED;
        slice->failed += record_failed(record);
        slice->waiting++;
        slices[slice_at(series, due_us + record->end_us)].waiting--;
    }
    for (size_t i = 1; i < series->out->slice_count; i++)
        slices[i].waiting += slices[i - 1].waiting;
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
        slice->p99_us = keyed_percentile(keyed + at, length, 9900);
        slice->max_us = (uint32_t)keyed[at + length - 1];
    }
    free(keyed);
    return true;
}

static void raise_running(struct result_slice *slice, uint32_t running)
{
    if (running > slice->running)
        slice->running = running;
}

/* A sample stands for the time until the next one, but not across a gap. */
static void count_samples(const struct series *series, const struct witness_view *view)
{
    for (size_t i = 0; i < view->sample_count; i++) {
        uint64_t from_us = source_offset_us(series->source, view->samples[i].at_us);
        uint64_t until_us = from_us + (uint64_t)WITNESS_SAMPLE_EVERY_MS * 1000 - 1;
        size_t last = slice_at(series, until_us);
        for (size_t slice = slice_at(series, from_us); slice <= last; slice++)
            raise_running(&series->out->slices[slice], view->samples[i].running);
    }
}

bool slices_make(const struct result_source *source, struct result *out)
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
        out->slices[slice_at(&series, source_offset_us(source, view->loads[i].at_us))].loads++;
    if (view != NULL)
        count_samples(&series, view);
    return measure(&series);
}
