/* SPDX-License-Identifier: MIT */
/* expect_judge.c - what a run shows about an expectation; see expect.h. */
#include "load/play/expect.h"

#include "load/base/rank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A figure as measured; `unknown` is the reason why there is none. */
struct figure {
    const char *unknown;   /* a constant, or ... */
    char why[80];          /* ... this */
    double value;          /* number, percent or microseconds: what is compared */
    uint64_t count, total; /* of a share */
    enum { NUMBER, DECIMAL, SHARE, TIME, SECONDS } kind;
    char beside[RESULT_TEXT_BYTES / 2]; /* the value, where it is known */
};

/* ---- which requests ---- */

static bool is_in_window(const struct expect *expect, uint64_t begin_us, uint64_t at_us)
{
    if (!expect->has_window)
        return true;
    uint64_t since_us = at_us > begin_us ? at_us - begin_us : 0;
    return since_us >= (uint64_t)expect->from_ms * 1000 && since_us < (uint64_t)expect->to_ms * 1000;
}

static bool has_status(const struct record *record, unsigned number)
{
    return record->outcome == RECORD_ANSWERED &&
           (number < 100 ? record->status / 100 == number : record->status == number);
}

static bool is_of_part(const struct expect *expect, const struct record *record)
{
    switch (expect->part) {
    case EXPECT_PART_STATUS:
        return has_status(record, expect->part_number);
    case EXPECT_PART_URL:
        return record->url == expect->part_number;
    case EXPECT_ALL:
        break;
    }
    return true;
}

static bool is_counted(const struct expect *expect, const struct record *record)
{
    switch (expect->figure) {
    case EXPECT_REQUESTS:
        return true;
    case EXPECT_OUTCOME:
        return record->outcome == expect->number;
    case EXPECT_FAILED:
        return has_status(record, 5) ||
               (record->outcome != RECORD_ANSWERED && record->outcome != RECORD_LEFT);
    case EXPECT_STATUS:
        return has_status(record, expect->number);
    case EXPECT_CACHE:
        return record->outcome == RECORD_ANSWERED && record->cache == expect->number;
    default:
        return record->outcome == RECORD_ANSWERED; /* the latencies */
    }
}

/* ---- requests ---- */

static void measure_requests(const struct expect *expect, const struct expect_source *source,
                             struct figure *out)
{
    uint64_t refused = 0, served = 0, named = 0;
    for (size_t i = 0; i < source->records->count; i++) {
        const struct record *record = &source->records->at[i];
        if (!is_in_window(expect, source->begin_us, record->due_us) || !is_of_part(expect, record))
            continue;
        out->total++;
        out->count += is_counted(expect, record);
        served += record->outcome == RECORD_ANSWERED && result_status_serves(record->status);
        refused += record->outcome == RECORD_ANSWERED && record->status < 500;
        named += record->outcome == RECORD_ANSWERED && record->cache != RECORD_CACHE_NONE;
    }
    out->kind = expect->figure == EXPECT_REQUESTS ? NUMBER : SHARE;
    out->value = (double)out->count;
    if (expect->is_share && out->total > 0)
        out->value = 100.0 * (double)out->count / (double)out->total;
    if (out->total == 0 && expect->figure != EXPECT_REQUESTS)
        out->unknown = "no such request was made";
    else if (expect->figure == EXPECT_CACHE && expect->number != RECORD_CACHE_NONE && named == 0)
        out->unknown = "no answer has a Cache-Status, CF-Cache-Status, X-Cache-Status or X-Cache";
    else if (expect->figure == EXPECT_FAILED && refused > 0 && served == 0 && !expect->takes_unserved)
        out->unknown =
            "nothing was served: no answer is a 2xx or 304; where another is right, expect that status";
}

/* p99 of five answers is the slowest of them, whatever the hundredth would have been. */
static void refuse_few(const struct expect *expect, size_t count, struct figure *out)
{
    uint64_t least = rank_percentile_least(expect->percentile);
    if (!(expect->percentile > 0) || count >= least)
        return;
    snprintf(out->why, sizeof out->why, "it takes %llu answers, and there are %zu", (unsigned long long)least,
             count);
    out->unknown = out->why;
}

static bool measure_latency(const struct expect *expect, const struct expect_source *source,
                            struct figure *out)
{
    size_t count = 0;
    uint64_t *latencies_us = malloc((source->records->count + 1) * sizeof *latencies_us);
    if (latencies_us == NULL)
        return false;
    for (size_t i = 0; i < source->records->count; i++) {
        const struct record *record = &source->records->at[i];
        if (is_in_window(expect, source->begin_us, record->due_us) && is_of_part(expect, record) &&
            is_counted(expect, record))
            latencies_us[count++] = record->end_us;
    }
    rank_sort(latencies_us, count);
    out->kind = TIME;
    if (count == 0)
        out->unknown = "no such request was answered";
    else if (expect->percentile > 0)
        out->value = (double)rank_percentile(latencies_us, count, expect->percentile);
    else
        out->value = (double)latencies_us[0];
    if (count > 0)
        refuse_few(expect, count, out);
    free(latencies_us);
    return true;
}

/* ---- the database ---- */

static int by_key(const void *a, const void *b)
{
    const char *const *left = a, *const *right = b;
    return strcmp(*left, *right);
}

/* `keys` is sorted: equal ones stand together. */
static void count_keys(const char *const *keys, size_t count, uint64_t *different, uint64_t *most)
{
    uint64_t run = 0;
    *different = *most = 0;
    for (size_t i = 0; i < count; i++) {
        bool is_new = i == 0 || strcmp(keys[i], keys[i - 1]) != 0;
        *different += is_new;
        run = is_new ? 1 : run + 1;
        if (run > *most)
            *most = run;
    }
}

static bool measure_log(const struct expect *expect, const struct expect_source *source, struct figure *out)
{
    const struct witness_view *view = source->view;
    uint64_t different, most;
    size_t count = 0;
    if (view == NULL || view->way != WITNESS_LOG)
        out->unknown = "only the statement log knows keys and instants";
    else if (expect->figure != EXPECT_LOADS)
        out->unknown = source->result->keys_unknown;
    if (out->unknown != NULL)
        return true;
    const char **keys = malloc((view->load_count + 1) * sizeof *keys);
    if (keys == NULL)
        return false;
    for (size_t i = 0; i < view->load_count; i++) {
        if (is_in_window(expect, source->begin_us, view->loads[i].at_us))
            keys[count++] = view->loads[i].key;
    }
    qsort(keys, count, sizeof *keys, by_key);
    count_keys(keys, count, &different, &most);
    free(keys);
    out->value = expect->figure == EXPECT_LOADS ? (double)count : (double)different;
    if (expect->figure == EXPECT_LOADS_PER_KEY)
        out->value = (double)most;
    return true;
}

/* By starts and ends, which no sample has to see. */
/* ---- the whole run ---- */

static void measure_at_once(const struct expect_source *source, struct figure *out)
{
    if (source->view == NULL || !source->view->has_ends)
        out->unknown = "the log does not say when loads ended: log_duration = on";
    else
        out->value = source->view->at_once;
}

/* What the figure is made of. */
static void measure_expiries(const struct expect *expect, const struct result *result, struct figure *out)
{
    const struct result_hot *worst = &result->worst[0];
    out->unknown = result->ttl_doubt[0] != '\0'                                 ? result->ttl_doubt
                   : result->expiries == 0 && expect->figure != EXPECT_EXPIRIES ? "there was no load"
                                                                                : NULL;
    if (expect->figure == EXPECT_EXPIRIES) {
        out->value = (double)result->expiries;
    } else if (expect->figure == EXPECT_MOST_PER_EXPIRY) {
        out->value = (double)result->most_per_expiry;
        if (result->worst_count > 0)
            snprintf(out->beside, sizeof out->beside, " (key %.40s at %.2f s)", worst->key,
                     worst->at_ms / 1e3);
    } else {
        out->kind = DECIMAL;
        out->value = result->loads_per_expiry;
        if (result->loads > result->expiries)
            snprintf(out->beside, sizeof out->beside, ": %llu loads of %llu expiries, at most %llu of one",
                     (unsigned long long)result->loads, (unsigned long long)result->expiries,
                     (unsigned long long)result->most_per_expiry);
    }
}

static void measure_result(const struct expect *expect, const struct expect_source *source,
                           struct figure *out)
{
    const struct result *result = source->result;
    if ((expect_needs(expect) & EXPECT_NEEDS_REDIS) != 0 && !result->has_redis)
        out->unknown = "Redis was not asked";
    else if (expect->figure == EXPECT_RATE && !(result->offered_per_s > 0))
        out->unknown = "only requests at a rate have it";
    else if (expect->figure == EXPECT_REDIS_COMMANDS)
        out->value = (double)result->command_sum;
    else if (expect->figure == EXPECT_RATE)
        out->value = result->answered_per_s;
    else if (!result->has_loads)
        out->unknown = "loads were not counted";
    else if (expect->figure == EXPECT_LOADS)
        out->value = (double)result->loads;
    else if (result->keys_unknown != NULL)
        out->unknown = result->keys_unknown;
    else
        measure_expiries(expect, result, out);
    if (expect->figure == EXPECT_RATE)
        out->kind = DECIMAL;
}

static void measure_stale(const struct expect *expect, const struct expect_source *source, struct figure *out)
{
    const struct result *result = source->result;
    out->count = result->stale_answers;
    out->total = result->outcomes[RECORD_ANSWERED];
    out->kind = SHARE;
    if (result->write_count == 0)
        out->unknown = "nothing was written";
    else if (out->total == 0)
        out->unknown = "nothing was answered";
    else if (!result->has_writes)
        out->unknown =
            "no answer has the version of a key that was written before: is its text in the bodies?";
    else
        out->value = expect->is_share ? 100.0 * (double)out->count / (double)out->total : (double)out->count;
}

static bool measure(const struct expect *expect, const struct expect_source *source, struct figure *out)
{
    switch (expect->figure) {
    case EXPECT_REQUESTS:
    case EXPECT_OUTCOME:
    case EXPECT_FAILED:
    case EXPECT_STATUS:
    case EXPECT_CACHE:
        measure_requests(expect, source, out);
        return true;
    case EXPECT_PERCENTILE:
        return measure_latency(expect, source, out);
    case EXPECT_LOADS_PER_KEY:
    case EXPECT_LOADED_KEYS:
        return measure_log(expect, source, out);
    case EXPECT_LOADS:
        if (expect->has_window)
            return measure_log(expect, source, out);
        break;
    case EXPECT_LOADS_AT_ONCE:
        measure_at_once(source, out);
        return true;
    case EXPECT_STALE:
        measure_stale(expect, source, out);
        return true;
    case EXPECT_RECOVERY:
        out->kind = SECONDS;
        out->unknown = source->result->recovery_unknown;
        out->value = source->result->has_recovered ? (double)source->result->recovery_ms * 1e3 : INFINITY;
        return true;
    case EXPECT_LOADS_PER_EXPIRY:
    case EXPECT_MOST_PER_EXPIRY:
    case EXPECT_EXPIRIES:
    case EXPECT_REDIS_COMMANDS:
    case EXPECT_RATE:
    case EXPECT_FIGURES:
        break;
    }
    measure_result(expect, source, out);
    return true;
}

/* ---- the verdict ---- */

static bool holds(enum expect_operator operator, double value, double wanted)
{
    switch (operator) {
    case EXPECT_LESS:
        return value < wanted;
    case EXPECT_AT_MOST:
        return value <= wanted;
    case EXPECT_EQUAL:
        return !(value < wanted) && !(value > wanted);
    case EXPECT_AT_LEAST:
        return value >= wanted;
    case EXPECT_MORE:
        return value > wanted;
    }
    return false;
}

bool expect_wants_unserved(const struct expect *expect)
{
    unsigned class = expect->number < 100 ? expect->number : expect->number / 100;
    return expect->figure == EXPECT_STATUS && (class == 3 || class == 4) &&
           !holds(expect->operator, 0, expect->wanted);
}

/* It holds where there is nothing, and nowhere else. */
static bool wants_none(const struct expect *expect)
{
    return holds(expect->operator, 0, expect->wanted) && !holds(expect->operator, 1, expect->wanted);
}

/* If there may have been more, what "at least" was seen holds; a ratio may be anything. */
static bool holds_for_more(const struct expect *expect, double value)
{
    bool is_at_least = expect->operator== EXPECT_AT_LEAST || expect->operator== EXPECT_MORE;
    return is_at_least && expect->figure != EXPECT_LOADS_PER_EXPIRY &&
           holds(expect->operator, value, expect->wanted);
}

/* What was counted is a figure only if all could be, and if the text that is counted by is one. */
static void doubt(const struct expect *expect, const struct expect_source *source, struct figure *figure)
{
    const struct witness_view *view = source->view;
    unsigned needs = expect_needs(expect);
    bool is_of_loads = (needs & EXPECT_NEEDS_LOADS) != 0;
    bool is_of_redis = (needs & EXPECT_NEEDS_REDIS) != 0;
    if (view == NULL || figure->unknown != NULL)
        return;
    bool saw_nothing = view->load_count == 0 && !view->knows_text;
    bool misses_some = (is_of_loads && view->misses_loads) || (is_of_redis && view->misses_commands);
    if (misses_some && !holds_for_more(expect, figure->value))
        figure->unknown = "some may not have been counted: see \"counting\"";
    else if (is_of_loads && saw_nothing && !wants_none(expect))
        figure->unknown = "no load was seen: see \"counting\"; where none is right, expect loads = 0";
    else if (is_of_redis && view->command_sum == 0 && !wants_none(expect))
        figure->unknown = "this Redis ran nothing: is it the service's? Where that is right, expect = 0";
}

/* With so many decimals that what is shown is judged as what was measured. */
static void show_value(const struct expect *expect, const struct figure *figure, double unit, int decimals,
                       char *text, size_t text_bytes)
{
    bool is_held = holds(expect->operator, figure->value, expect->wanted);
    do
        snprintf(text, text_bytes, "%.*f", decimals, figure->value / unit);
    while (holds(expect->operator, strtod(text, NULL), expect->wanted / unit) != is_held && decimals++ < 9);
}

/* A share of 99.96 % must not be shown as 100 %: rounded down. */
static void show_share(const struct expect *expect, const struct figure *figure, char *text,
                       size_t text_bytes)
{
    double percent = 100.0 * (double)figure->count / (double)figure->total, shown, scale = 100;
    bool is_held = holds(expect->operator, percent, expect->wanted);
    do {
        shown = (double)(uint64_t)(percent * scale) / scale;
        scale *= 10;
    } while (expect->is_share && holds(expect->operator, shown, expect->wanted) != is_held && scale < 1e10);
    snprintf(text, text_bytes, "%llu of %llu (%.10g%%)", (unsigned long long)figure->count,
             (unsigned long long)figure->total, shown);
}

static void show(const struct expect *expect, const struct figure *figure, char *text, size_t text_bytes)
{
    static const struct {
        double unit;
        int decimals;
        const char *name;
    } shapes[] = {
        [NUMBER] = {1, 0, ""}, [DECIMAL] = {1, 2, ""}, [TIME] = {1e3, 1, " ms"}, [SECONDS] = {1e6, 2, " s"}};
    char number[64];
    if (figure->unknown != NULL) {
        snprintf(text, text_bytes, "not known: %s", figure->unknown);
    } else if (figure->kind == SHARE) {
        show_share(expect, figure, text, text_bytes);
    } else if (isinf(figure->value)) {
        snprintf(text, text_bytes, "never");
    } else {
        show_value(expect, figure, shapes[figure->kind].unit, shapes[figure->kind].decimals, number,
                   sizeof number);
        snprintf(text, text_bytes, "%s%s%s", number, shapes[figure->kind].name, figure->beside);
    }
}

bool expect_judge(const struct expect *expect, const struct expect_source *source, struct result_check *out)
{
    struct figure figure = {.unknown = NULL};
    if (!measure(expect, source, &figure))
        return false;
    doubt(expect, source, &figure);
    snprintf(out->text, sizeof out->text, "%s", expect->text);
    show(expect, &figure, out->measured, sizeof out->measured);
    out->held = figure.unknown == NULL && holds(expect->operator, figure.value, expect->wanted);
    return true;
}
