/* SPDX-License-Identifier: MIT */
/*
 * result_expiries.c - see result_expiries.h.
 *
 * Are the values of statements the keys of what was asked for? Each URL has one {...} at most, so what was asked for is
 * told apart by URL and number. Statements that differ in more than that (an instant, the number of a request) would
 * make every load an expiry of its own, and then nothing would ever be loaded twice. So there must not be more
 * different statements than things that were asked for; nor, where one value of all statements is or ends with a number
 * that was asked for, more of them with one number than URLs with it.
 */
#include "load/report/result_expiries.h"

#include "load/base/rank.h"
#include "load/report/result_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_MAX = 8 };

struct group {
    const struct witness_load *first;
    uint64_t loads;
};

struct grouping {
    const struct result_source *source;
    const struct witness_load **loads; /* by key, then by time */
    struct result_write *writes;       /* by key, then by begun_us */
    struct group *groups;
    size_t group_count;
};

/* ---- order ---- */

static int compare_loads(const void *a, const void *b)
{
    const struct witness_load *left = *(const struct witness_load *const *)a;
    const struct witness_load *right = *(const struct witness_load *const *)b;
    int by_key = strcmp(left->key, right->key);
    return by_key != 0 ? by_key : (left->at_us > right->at_us) - (left->at_us < right->at_us);
}

static int compare_writes(const void *a, const void *b)
{
    const struct result_write *left = a, *right = b;
    if (left->key != right->key)
        return left->key > right->key ? 1 : -1;
    return (left->begun_us > right->begun_us) - (left->begun_us < right->begun_us);
}

static bool grouping_init(struct grouping *grouping, const struct result_source *source)
{
    const struct witness_view *view = source->view;
    *grouping = (struct grouping){.source = source};
    grouping->loads = calloc(view->load_count + 1, sizeof(struct witness_load *));
    grouping->groups = calloc(view->load_count + 1, sizeof *grouping->groups);
    grouping->writes = calloc(source->write_count + 1, sizeof *grouping->writes);
    if (grouping->loads == NULL || grouping->groups == NULL || grouping->writes == NULL)
        return false;
    for (size_t i = 0; i < view->load_count; i++)
        grouping->loads[i] = &view->loads[i];
    qsort(grouping->loads, view->load_count, sizeof(struct witness_load *), compare_loads);
    for (size_t i = 0; i < source->write_count; i++) {
        struct result_write write = source->writes[i];
        write.begun_us = write.begun_us != 0 ? write.begun_us : write.over_us;
        grouping->writes[i] = write;
    }
    qsort(grouping->writes, source->write_count, sizeof *grouping->writes, compare_writes);
    return true;
}

static void grouping_clear(struct grouping *grouping)
{
    free(grouping->loads);
    free(grouping->groups);
    free(grouping->writes);
}

/* number << 32 | URL, of each thing that was asked for, sorted. */
struct asked {
    uint64_t *at; /* owned */
    size_t count;
};

/* ---- what was asked for ---- */

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
    rank_sort(asked->at, records->count);
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
    rank_sort(numbers, *different);
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

/* `loads` by key, so many of them `different`. *why: they are not known, a constant; NULL: they are. */
static bool judge_keys(const struct result_source *source, const struct witness_load *const *loads,
                       size_t count, uint64_t different, const char **why)
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

/* ---- groups ---- */

/* The writes of one key. It is the statement's first value: "7", or "7, 200" if it has others. */
static struct result_write *writes_of(const struct grouping *grouping, const char *key, size_t *count)
{
    char *end;
    unsigned long long number = strtoull(key, &end, 10);
    size_t first = 0, last;
    *count = 0;
    if (key[0] < '0' || key[0] > '9' || (*end != '\0' && *end != ',') || number > UINT32_MAX)
        return NULL;
    while (first < grouping->source->write_count && grouping->writes[first].key < number)
        first++;
    for (last = first; last < grouping->source->write_count && grouping->writes[last].key == number; last++)
        ;
    *count = last - first;
    return &grouping->writes[first];
}

static uint64_t shortest_life_us(const struct result_source *source)
{
    uint32_t jitter = source->jitter_percent < 100 ? source->jitter_percent : 100;
    return (uint64_t)source->ttl_ms * 10 * (100 - jitter);
}

/* Cuts the loads of one key. A write explains one load: that which had to come after it. */
static void group_key(struct grouping *grouping, size_t from, size_t until)
{
    const struct result_source *source = grouping->source;
    uint64_t life_us = shortest_life_us(source);
    size_t write_count, next_write = 0;
    const struct result_write *writes = writes_of(grouping, grouping->loads[from]->key, &write_count);
    struct group *group = NULL;
    for (size_t i = from; i < until; i++) {
        const struct witness_load *load = grouping->loads[i];
        bool written = false;
        for (; next_write < write_count && writes[next_write].begun_us <= load->at_us; next_write++)
            written = true;
        bool expired = group == NULL || (source->ttl_ms > 0 && load->at_us - group->first->at_us >= life_us);
        if (expired || written) {
            group = &grouping->groups[grouping->group_count++];
            group->first = load;
        }
        group->loads++;
    }
}

static void keep_if_hot(struct result *out, const char *key, uint64_t loads)
{
    size_t at = out->hot_count;
    while (at > 0 && out->hot[at - 1].loads < loads)
        at--;
    if (at == RESULT_HOT_MAX)
        return;
    size_t kept = out->hot_count < RESULT_HOT_MAX ? out->hot_count : RESULT_HOT_MAX - 1;
    memmove(&out->hot[at + 1], &out->hot[at], (kept - at) * sizeof *out->hot);
    text_clean(out->hot[at].key, sizeof out->hot[at].key, key, WITNESS_KEY_BYTES, false);
    out->hot[at].loads = loads;
    out->hot_count = kept + 1;
}

static void group_all(struct grouping *grouping, struct result *out)
{
    size_t count = grouping->source->view->load_count;
    for (size_t from = 0, until; from < count; from = until) {
        const char *key = grouping->loads[from]->key;
        until = from + 1;
        while (until < count && strcmp(grouping->loads[until]->key, key) == 0)
            until++;
        group_key(grouping, from, until);
        out->loaded_keys++;
        keep_if_hot(out, key, until - from);
    }
    out->expiries = grouping->group_count;
}

static void mark_groups(const struct grouping *grouping, struct result *out)
{
    if (grouping->group_count > RESULT_MARKS_MAX / 2)
        return;
    for (size_t i = 0; i < grouping->group_count; i++) {
        const struct group *group = &grouping->groups[i];
        char text[RESULT_TEXT_BYTES];
        snprintf(text, sizeof text, "%s%s%s%" PRIu64 " load%s", group->first->key[0] != '\0' ? "key " : "",
                 group->first->key, group->first->key[0] != '\0' ? ": " : "", group->loads,
                 group->loads == 1 ? "" : "s");
        result_mark(out, RESULT_EXPIRY, result_offset_ms(grouping->source, group->first->at_us), 0, text);
    }
}

static void forget_keys(struct result *out, const char *why)
{
    out->keys_unknown = why;
    out->loaded_keys = out->expiries = 0;
    out->hot_count = 0;
}

static bool group_loads(const struct result_source *source, struct result *out)
{
    struct grouping grouping;
    bool good = grouping_init(&grouping, source);
    if (good) {
        const char *why;
        group_all(&grouping, out);
        good = judge_keys(source, grouping.loads, source->view->load_count, out->loaded_keys, &why);
        if (why != NULL)
            forget_keys(out, why);
        else
            mark_groups(&grouping, out);
    }
    grouping_clear(&grouping);
    return good;
}

/* ---- the rest ---- */

static void copy_commands(const struct witness_view *view, struct result *out)
{
    out->has_redis = view->has_redis;
    out->command_sum = view->command_sum;
    out->command_count =
        view->command_count < WITNESS_COMMANDS_MAX ? view->command_count : WITNESS_COMMANDS_MAX;
    for (size_t i = 0; i < out->command_count; i++) {
        out->commands[i].calls = view->commands[i].calls;
        text_clean(out->commands[i].name, sizeof out->commands[i].name, view->commands[i].name,
                   sizeof view->commands[i].name, false);
    }
}

/* What the result itself adds to what the witness could not see; "" if nothing. */
static const char *own_caveat(const struct result_source *source, const struct result *result)
{
    const struct witness_view *view = source->view;
    bool has_text = view->way == WITNESS_LOG || view->way == WITNESS_STATEMENTS;
    if (view->load_count == 0 && has_text)
        return "no query was seen: nothing was loaded, or the text is not in what the service asks";
    return result->keys_unknown != NULL ? result->keys_unknown : "";
}

static void describe(const struct result_source *source, struct result *out)
{
    static const char *const ways[] = {[WITNESS_NONE] = "",
                                       [WITNESS_LOG] = "log",
                                       [WITNESS_STATEMENTS] = "statements",
                                       [WITNESS_SQL] = "sql"};
    const struct witness_view *view = source->view;
    char caveat[RESULT_CAVEAT_BYTES];
    const char *own = own_caveat(source, out);
    snprintf(out->way, sizeof out->way, "%s", ways[view->way]);
    snprintf(caveat, sizeof caveat, "%.*s%s%s", (int)strnlen(view->caveat, sizeof view->caveat), view->caveat,
             own[0] != '\0' && view->caveat[0] != '\0' ? "; " : "", own);
    text_clean(out->caveat, sizeof out->caveat, caveat, sizeof caveat, false);
}

bool expiries_make(const struct result_source *source, struct result *out)
{
    const struct witness_view *view = source->view;
    if (view == NULL)
        return true;
    out->has_loads = view->way != WITNESS_NONE;
    out->has_samples = view->sample_count > 0;
    out->loads = view->load_count;
    out->peak_running = view->peak_running;
    out->gaps = view->gaps;
    copy_commands(view, out);
    if (view->loads == NULL && out->has_loads)
        forget_keys(
            out,
            "this way of counting knows neither keys nor instants: only the statement log does, or expect "
            "loads");
    else if (view->loads != NULL && !group_loads(source, out))
        return false;
    describe(source, out);
    if (out->expiries > 0)
        out->loads_per_expiry = (double)out->loads / (double)out->expiries;
    return true;
}
