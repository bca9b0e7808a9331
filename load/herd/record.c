/* SPDX-License-Identifier: MIT */
/* record.c - see record.h. */
#include "load/herd/record.h"

#include <stdlib.h>
#include <string.h>

const char *record_outcome_name(enum record_outcome outcome)
{
    static const char *const names[RECORD_OUTCOMES] = {
        [RECORD_ANSWERED] = "answered", [RECORD_REFUSED] = "refused", [RECORD_UNCONNECTED] = "unconnected",
        [RECORD_RESET] = "reset",       [RECORD_TIMEOUT] = "timeout", [RECORD_RUBBISH] = "rubbish",
        [RECORD_LEFT] = "left",         [RECORD_UNSENT] = "unsent",   [RECORD_CUT] = "cut",
    };
    return names[outcome];
}

const char *record_cache_name(enum record_cache cache)
{
    static const char *const names[RECORD_CACHES] = {
        [RECORD_CACHE_NONE] = "none",           [RECORD_CACHE_HIT] = "hit",
        [RECORD_CACHE_STALE] = "stale",         [RECORD_CACHE_MISS] = "miss",
        [RECORD_CACHE_COLLAPSED] = "collapsed", [RECORD_CACHE_BYPASS] = "bypass",
        [RECORD_CACHE_OTHER] = "other",
    };
    return names[cache];
}

/* ---- samples ---- */

bool record_is_sampled(enum record_outcome outcome, uint16_t status)
{
    if (outcome == RECORD_ANSWERED)
        return status >= 400;
    return outcome != RECORD_LEFT && outcome != RECORD_CUT;
}

struct record_sample *record_samples_take(struct record_samples *samples, uint32_t slot,
                                          enum record_outcome outcome, uint16_t status)
{
    size_t alike = 0;
    for (size_t i = 0; i < samples->count; i++) {
        struct record_sample *sample = &samples->at[i];
        if (sample->slot == slot)
            return sample;
        alike += sample->record.outcome == outcome && sample->record.status == status;
    }
    if (alike == RECORD_SAMPLES_EACH || samples->count == RECORD_SAMPLES_MAX)
        return NULL;
    struct record_sample *sample = &samples->at[samples->count++];
    sample->slot = slot;
    sample->record.outcome = (uint8_t)outcome;
    sample->record.status = status;
    return sample;
}

void record_sample_add(struct record_sample *sample, const char *bytes, size_t count)
{
    size_t room = sizeof sample->text - sample->text_bytes, taken = count < room ? count : room;
    memcpy(sample->text + sample->text_bytes, bytes, taken);
    sample->text_bytes += (uint32_t)taken;
}

/* ---- all of them ---- */

/* The part whose next record was due first; part_count if all are empty. */
static size_t first_due(const struct records *left, size_t part_count)
{
    size_t first = part_count;
    for (size_t i = 0; i < part_count; i++) {
        if (left[i].count > 0 && (first == part_count || left[i].at->due_us < left[first].at->due_us))
            first = i;
    }
    return first;
}

bool records_merge(const struct records *parts, size_t part_count, struct records *out)
{
    struct records *left = calloc(part_count + 1, sizeof *left);
    struct records all = {.count = 0};
    for (size_t i = 0; left != NULL && i < part_count; i++) {
        left[i] = parts[i];
        all.count += parts[i].count;
    }
    all.at = left != NULL ? malloc((all.count + 1) * sizeof *all.at) : NULL;
    for (size_t i = 0; all.at != NULL && i < all.count; i++) {
        struct records *from = &left[first_due(left, part_count)];
        all.at[i] = *from->at++;
        from->count--;
    }
    free(left);
    if (all.at == NULL)
        return false;
    *out = all;
    return true;
}

void records_clear(struct records *records)
{
    free(records->at);
    free(records->samples);
    *records = (struct records){.count = 0};
}
