/* SPDX-License-Identifier: MIT */
/* figures.c - see figures.h. */
#include "load/peers/figures.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct figure_text texts[FIGURE_COUNT] = {
    [FIGURE_ORIGIN_CALLS] = {"origin_calls", "origin calls", "", 0, LOWER_IS_BETTER, true},
    [FIGURE_CALLS_PER_EXPIRY] = {"origin_calls_per_expiry", "origin calls per expiry", "", 2, LOWER_IS_BETTER,
                                 true},
    [FIGURE_GOOD] = {"good_percent", "answered, 200", "%", 1, HIGHER_IS_BETTER, false},
    [FIGURE_P50] = {"p50_ms", "p50", "ms", 2, LOWER_IS_BETTER, false},
    [FIGURE_P99] = {"p99_ms", "p99", "ms", 2, LOWER_IS_BETTER, true},
    [FIGURE_P999] = {"p999_ms", "p99.9", "ms", 2, LOWER_IS_BETTER, false},
    [FIGURE_MAX] = {"max_ms", "slowest answer", "ms", 2, LOWER_IS_BETTER, true},
    [FIGURE_RATE] = {"answers_per_s", "answers per second", "1/s", 0, HIGHER_IS_BETTER, false},
    [FIGURE_CPU] = {"cpu_us", "CPU per request", "us", 1, LOWER_IS_BETTER, false},
    [FIGURE_REDIS] = {"redis_cpu_us", "    of it in Redis", "us", 1, NEITHER_IS_BETTER, false},
    [FIGURE_FULL_RATE] = {"wrk_per_s", "wrk, one instance", "1/s", 0, HIGHER_IS_BETTER, true},
    [FIGURE_FULL_CPU] = {"wrk_cpu_us", "CPU per request", "us", 1, LOWER_IS_BETTER, false},
    [FIGURE_FULL_REDIS] = {"wrk_redis_cpu_us", "    of it in Redis", "us", 1, NEITHER_IS_BETTER, false},
};

const struct figure_text *figure_text(enum figure figure)
{
    assert(figure < FIGURE_COUNT);
    return &texts[figure];
}

/* ---- comparing ---- */

/* Positive: `left` is the better median; negative: worse; 0: equal as printed. */
static int compare(enum figure figure, const struct samples *left, const struct samples *right)
{
    const unsigned decimals = texts[figure].decimals;
    double a = samples_rounded(samples_median(left), decimals);
    double b = samples_rounded(samples_median(right), decimals);
    int higher = (a > b) - (a < b);
    if (texts[figure].direction == NEITHER_IS_BETTER)
        return 0;
    return texts[figure].direction == HIGHER_IS_BETTER ? higher : -higher;
}

static bool overlap(const struct samples *left, const struct samples *right)
{
    return samples_smallest(left) <= samples_largest(right) &&
           samples_smallest(right) <= samples_largest(left);
}

/* ---- words ---- */

static void append(char *text, size_t text_bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void append(char *text, size_t text_bytes, const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, text_bytes - used, format, arguments);
    va_end(arguments);
}

static size_t best_of(const struct figure_row *row)
{
    size_t best = 0;
    for (size_t i = 1; i < row->count; i++) {
        if (compare(row->figure, row->samples[i], row->samples[best]) > 0)
            best = i;
    }
    return best;
}

static bool is_best(const struct figure_row *row, size_t index)
{
    return compare(row->figure, row->samples[index], row->samples[best_of(row)]) == 0;
}

static size_t best_count(const struct figure_row *row)
{
    size_t count = 0;
    for (size_t i = 0; i < row->count; i++)
        count += is_best(row, i);
    return count;
}

void figure_best(const struct figure_row *row, char *text, size_t text_bytes)
{
    size_t named = 0;
    text[0] = '\0';
    if (texts[row->figure].direction == NEITHER_IS_BETTER)
        return;
    if (row->count > 1 && best_count(row) == row->count) {
        append(text, text_bytes, "all");
        return;
    }
    for (size_t i = 0; i < row->count; i++) {
        if (is_best(row, i))
            append(text, text_bytes, "%s%s", named++ > 0 ? ", " : "", row->names[i]);
    }
}

static void append_value(const struct figure_row *row, size_t index, char *text, size_t text_bytes)
{
    const struct figure_text *about = &texts[row->figure];
    append(text, text_bytes, "%.*f%s%s", (int)about->decimals, samples_median(row->samples[index]),
           about->unit[0] != '\0' ? " " : "", about->unit);
}

/* "2.4 times"; nothing where a ratio says nothing. */
static void append_ratio(const struct figure_row *row, size_t better, size_t worse, char *text,
                         size_t text_bytes)
{
    double a = samples_median(row->samples[better]), b = samples_median(row->samples[worse]);
    double ratio = texts[row->figure].direction == HIGHER_IS_BETTER ? a / b : b / a;
    if (a > 0 && b > 0 && ratio >= 1.05)
        append(text, text_bytes, ", %.*f times", ratio < 10 ? 1 : 0, ratio);
}

static size_t index_of_ours(const struct figure_row *row)
{
    size_t i = 0;
    while (i < row->count && strcmp(row->names[i], row->ours) != 0)
        i++;
    return i;
}

/* The best of those that are not best; row->count if all are. */
static size_t runner_up(const struct figure_row *row)
{
    size_t next = row->count;
    for (size_t i = 0; i < row->count; i++) {
        if (!is_best(row, i) &&
            (next == row->count || compare(row->figure, row->samples[i], row->samples[next]) > 0))
            next = i;
    }
    return next;
}

static void append_lead(const struct figure_row *row, char *text, size_t text_bytes)
{
    size_t best = best_of(row), next = runner_up(row);
    char names[FIGURE_SENTENCE_BYTES / 2];
    figure_best(row, names, sizeof names);
    append(text, text_bytes, "%s %s best with ", names, best_count(row) > 1 ? "are" : "is");
    append_value(row, best, text, text_bytes);
    if (next == row->count)
        return;
    append(text, text_bytes, "; next is %s with ", row->names[next]);
    append_value(row, next, text, text_bytes);
    append_ratio(row, best, next, text, text_bytes);
    if (overlap(row->samples[best], row->samples[next]))
        append(text, text_bytes, " (repetitions overlap)");
}

static void append_one_better(const struct figure_row *row, size_t index, size_t ours, char *text,
                              size_t text_bytes)
{
    append(text, text_bytes, "%s with ", row->names[index]);
    append_value(row, index, text, text_bytes);
    append_ratio(row, index, ours, text, text_bytes);
    if (overlap(row->samples[index], row->samples[ours]))
        append(text, text_bytes, " (repetitions overlap)");
}

/* The best of those that are better than ours and not named yet; row->count: none is left. */
static size_t next_better(const struct figure_row *row, size_t ours, const bool *named)
{
    size_t next = row->count;
    for (size_t i = 0; i < row->count; i++) {
        if (named[i] || compare(row->figure, row->samples[i], row->samples[ours]) <= 0)
            continue;
        if (next == row->count || compare(row->figure, row->samples[i], row->samples[next]) > 0)
            next = i;
    }
    return next;
}

static void append_better(const struct figure_row *row, size_t ours, char *text, size_t text_bytes)
{
    bool named[FIGURE_PEERS_MAX] = {false};
    const char *between = ": ";
    append(text, text_bytes, "better than %s with ", row->ours);
    append_value(row, ours, text, text_bytes);
    for (size_t i = next_better(row, ours, named); i < row->count; i = next_better(row, ours, named)) {
        append(text, text_bytes, "%s", between);
        append_one_better(row, i, ours, text, text_bytes);
        named[i] = true;
        between = "; ";
    }
}

void figure_sentence(const struct figure_row *row, char *text, size_t text_bytes)
{
    size_t ours = index_of_ours(row);
    text[0] = '\0';
    if (texts[row->figure].direction == NEITHER_IS_BETTER)
        return;
    append(text, text_bytes, "%s: ", texts[row->figure].name);
    if (row->count == 0)
        append(text, text_bytes, "nobody has it");
    else if (best_count(row) == row->count) {
        append(text, text_bytes, row->count > 1 ? "equal, " : "");
        append_value(row, 0, text, text_bytes);
    } else if (ours < row->count && !is_best(row, ours))
        append_better(row, ours, text, text_bytes);
    else
        append_lead(row, text, text_bytes);
    append(text, text_bytes, ".");
}
