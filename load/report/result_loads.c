/* SPDX-License-Identifier: MIT */
/* result_loads.c - loads, the expiries that asked for them, and what else the database and Redis say. */
#include "load/report/result_parts.h"
#include "load/report/result_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
        result_mark(out, RESULT_EXPIRY, source_offset_ms(grouping->source, group->first->at_us), 0, text);
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
        good = keys_judge(source, grouping.loads, source->view->load_count, out->loaded_keys, &why);
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

bool loads_make(const struct result_source *source, struct result *out)
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
