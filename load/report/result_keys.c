/* SPDX-License-Identifier: MIT */
/*
 * result_keys.c - are the values of statements the keys of what was asked for?
 *
 * Each URL has one {...} at most, so what was asked for is told apart by URL and number. Statements that differ in more
 * than that (an instant, the number of a request) would make every load an expiry of its own, and then nothing would
 * ever be loaded twice. So there must not be more different statements than things that were asked for; nor, where one
 * value of all statements is or ends with a number that was asked for, more of them with one number than URLs with it.
 */
#include "load/report/result_parts.h"

#include <stdlib.h>
#include <string.h>

enum { VALUES_MAX = 8 };

/* number << 32 | URL, of each thing that was asked for, sorted. */
struct asked {
    uint64_t *at; /* owned */
    size_t count;
};

/* ---- what was asked for ---- */

static int compare_numbers(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* Different targets are asked for the same thing by URLs of the same path. */
static uint64_t first_url(const struct work *work, uint16_t url)
{
    uint16_t first = 0;
    while (first < url && strcmp(work->urls[first].path, work->urls[url].path) != 0)
        first++;
    return first;
}

static bool asked_init(struct asked *asked, const struct result_source *source)
{
    const struct records *records = source->records;
    asked->count = 0;
    asked->at = calloc(records->count + 1, sizeof *asked->at);
    if (asked->at == NULL)
        return false;
    for (size_t i = 0; i < records->count; i++)
        asked->at[i] = (uint64_t)records->at[i].key << 32 | first_url(source->work, records->at[i].url);
    qsort(asked->at, records->count, sizeof *asked->at, compare_numbers);
    for (size_t i = 0; i < records->count; i++) {
        if (i == 0 || asked->at[i] != asked->at[asked->count - 1])
            asked->at[asked->count++] = asked->at[i];
    }
    return true;
}

/* How many URLs were asked for with this number. */
static size_t urls_with(const struct asked *asked, uint64_t number)
{
    size_t low = 0, high = asked->count, last;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (asked->at[middle] >> 32 < number)
            low = middle + 1;
        else
            high = middle;
    }
    for (last = low; last < asked->count && asked->at[last] >> 32 == number; last++)
        ;
    return last - low;
}

/* ---- the values of a key ---- */

/* The value at a place of "7, it's, item:9", if its only digits, at its end, are a number that was asked for. */
static bool number_at(const struct asked *asked, const char *key, size_t place, uint64_t *number)
{
    char *end;
    for (; place > 0 && key != NULL; place--) {
        key = strstr(key, ", ");
        key = key != NULL ? key + 2 : NULL;
    }
    const char *digits = key != NULL ? key + strcspn(key, "0123456789,") : "";
    if (*digits < '0' || *digits > '9')
        return false;
    *number = strtoull(digits, &end, 10);
    return (*end == '\0' || strncmp(end, ", ", 2) == 0) && *number <= UINT32_MAX &&
           urls_with(asked, *number) > 0;
}

/* The numbers at this place of all different keys; false: one is none that was asked for, or all are the same. */
static bool take_numbers(const struct asked *asked, const struct witness_load *const *loads, size_t count,
                         size_t place, uint64_t *numbers, size_t *different)
{
    *different = 0;
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && strcmp(loads[i]->key, loads[i - 1]->key) == 0)
            continue;
        if (!number_at(asked, loads[i]->key, place, &numbers[*different]))
            return false;
        (*different)++;
    }
    qsort(numbers, *different, sizeof *numbers, compare_numbers);
    return *different > 0 && numbers[0] != numbers[*different - 1];
}

static bool fits(const struct asked *asked, const uint64_t *numbers, size_t count)
{
    for (size_t from = 0, until; from < count; from = until) {
        for (until = from + 1; until < count && numbers[until] == numbers[from]; until++)
            ;
        if (until - from > urls_with(asked, numbers[from]))
            return false;
    }
    return true;
}

/* Where several places have numbers that were asked for, one that fits is enough. */
static bool fit(const struct asked *asked, const struct witness_load *const *loads, size_t count,
                uint64_t *numbers)
{
    bool any = false;
    size_t different;
    for (size_t place = 0; place < VALUES_MAX; place++) {
        if (!take_numbers(asked, loads, count, place, numbers, &different))
            continue;
        if (fits(asked, numbers, different))
            return true;
        any = true;
    }
    return !any;
}

bool keys_judge(const struct result_source *source, const struct witness_load *const *loads, size_t count,
                uint64_t different, const char **why)
{
    struct asked asked;
    uint64_t *numbers = calloc(count + 1, sizeof *numbers);
    bool good = asked_init(&asked, source) && numbers != NULL;
    *why = NULL;
    if (source->view->misses_loads)
        *why = "not all loads could be counted";
    else if (source->view->keyless_count > 0)
        *why = "the log does not have the parameters of all loads";
    else if (good && (different > asked.count || !fit(&asked, loads, count, numbers)))
        *why = "more different statements than URLs: they differ in more than the key, or a URL needs "
               "several; choose "
               "another text for queries, or expect loads";
    free(asked.at);
    free(numbers);
    return good;
}
