/* SPDX-License-Identifier: MIT */
/*
 * result_ttl.c - see result_make.h.
 *
 *     loads of a key    |||  |           ||           |            ||||
 *     periods           |--------------->|----------->|----------->|
 *
 * A period goes from the first of a crowd of loads to the first of the next, and a crowd is what comes less than
 * RESULT_LIFE_LEAST_MS apart. It is the life of a value and the wait for whoever asks next. That wait may be long,
 * but no period is shorter than a life: taken together, those of all keys begin at it, all at once. Where they do
 * not, loads have other reasons, and nothing is seen.
 *
 * A Redis that was asked knows for how long it keeps the values of loaded keys, those whose names end with the number
 * of one. No value lives longer; it may live shorter, and be kept beyond that. So loads are believed first, and what
 * is kept may explain a load but never condemn one.
 *
 * It is not seen in loads where a fault, a write or a drop had values loaded anew, where all are asked for at once,
 * or where most answers needed a load: then loads come as often as requests.
 */
#include "load/report/result_make.h"

#include "load/base/rank.h"

#include <stdlib.h>
#include <string.h>

enum { PERIODS_LEAST = 3, EARLY_PERCENT = 5, CROWDED_PERCENT = 20, CROWD_WIDTH_PERCENT = 125 };

static bool shows_lives(const struct result_source *source)
{
    uint64_t answered = 0;
    for (size_t i = 0; i < source->records->count; i++)
        answered += source->records->at[i].outcome == RECORD_ANSWERED;
    return source->work->shape == WORK_RATE && source->fault_from_us == 0 && source->write_count == 0 &&
           source->drop_count == 0 && 2 * source->view->load_count <= answered;
}

static size_t find_periods(const struct witness_load *const *loads, size_t count, uint64_t *periods_us)
{
    size_t found = 0;
    const struct witness_load *first = NULL;
    for (size_t i = 0; i < count; i++) {
        bool is_same = i > 0 && strcmp(loads[i]->key, loads[i - 1]->key) == 0;
        if (is_same && !witness_outlived(loads[i - 1], loads[i], (uint64_t)RESULT_LIFE_LEAST_MS * 1000))
            continue;
        if (is_same)
            periods_us[found++] = loads[i]->at_us - first->at_us;
        first = loads[i];
    }
    return found;
}

/* "7" of "product:7" and of "7, 200"; false: it has none. */
static bool number_in(const char *name, uint64_t *number)
{
    const char *last = NULL;
    for (const char *at = name; *at != '\0'; at += *at != '\0') {
        if (*at >= '0' && *at <= '9')
            last = at;
        at += strspn(at, "0123456789");
    }
    *number = last != NULL ? strtoull(last, NULL, 10) : 0;
    return last != NULL;
}

static bool is_loaded(const struct witness_view *view, uint64_t number)
{
    for (size_t i = 0; i < view->load_count; i++) {
        const char *key = view->loads[i].key;
        if (key[0] >= '0' && key[0] <= '9' && strtoull(key, NULL, 10) == number)
            return true;
    }
    return false;
}

/* A lock, say, has the number of the key, too: of keys with one number the one that is kept longest counts. */
static bool is_longest(const struct witness_view *view, size_t index, uint64_t number)
{
    uint64_t other;
    for (size_t i = 0; i < view->kept_count; i++) {
        if (number_in(view->kept[i].key, &other) && other == number &&
            view->kept[i].most_ms > view->kept[index].most_ms)
            return false;
    }
    return true;
}

/* The middle one of those that are about loaded keys; 0: none is. */
static uint32_t kept_ms(const struct witness_view *view)
{
    uint64_t all_ms[WITNESS_KEPT_MAX], number;
    size_t count = 0;
    for (size_t i = 0; i < view->kept_count; i++) {
        if (number_in(view->kept[i].key, &number) && is_longest(view, i, number) && is_loaded(view, number))
            all_ms[count++] = view->kept[i].most_ms;
    }
    rank_sort(all_ms, count);
    return count > 0 ? (uint32_t)rank_percentile(all_ms, count, 50) : 0;
}

bool ttl_seen(const struct result_source *source, const struct witness_load *const *loads, uint32_t *ttl_ms,
              bool *is_bound)
{
    size_t count = source->view->load_count, near = 0;
    *ttl_ms = kept_ms(source->view);
    *is_bound = true;
    if (source->ttl_ms > 0 && *ttl_ms > source->ttl_ms)
        *ttl_ms = 0; /* it is kept for longer than it is fresh */
    if (!shows_lives(source))
        return true;
    uint64_t *periods_us = calloc(count + 1, sizeof *periods_us);
    if (periods_us == NULL)
        return false;
    count = find_periods(loads, count, periods_us);
    rank_sort(periods_us, count);
    size_t first = count * EARLY_PERCENT / 100;
    while (first + near < count && periods_us[first + near] * 100 <= periods_us[first] * CROWD_WIDTH_PERCENT)
        near++;
    *is_bound = near < PERIODS_LEAST || near * 100 < count * CROWDED_PERCENT;
    if (!*is_bound)
        *ttl_ms = (uint32_t)(periods_us[first] / 1000);
    free(periods_us);
    return true;
}
