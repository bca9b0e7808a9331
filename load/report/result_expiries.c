/* SPDX-License-Identifier: MIT */
/*
 * result_expiries.c - see result_make.h.
 *
 * Are the values of statements the keys of what was asked for? Each URL has one {...} at most, so what was asked for
 * is told apart by URL and number. Statements that differ in more than that (an instant, the number of a request)
 * would make every load an expiry of its own, and then nothing would ever be loaded twice. So there must not be more
 * different statements than things that were asked for.
 *
 * Instants of loads are those of a log: cut to a millisecond. What happened within the millisecond after such an
 * instant may have been before the load.
 */
#include "load/report/result_make.h"

#include "load/base/rank.h"
#include "load/report/result_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOG_GRAIN_US = 1000, SEEN_JITTER_PERCENT = 25 };

struct group {
    const struct witness_load *first, *last;
    uint64_t loads;
};

struct grouping {
    const struct result_source *source;
    const struct witness_load **loads; /* by key, then by time */
    struct result_write *writes;       /* by key, then by begun_us */
    uint64_t *drops_us;                /* in order */
    uint64_t *rounds;                  /* when those of a burst were due, in order */
    size_t round_count;
    struct group *groups;
    size_t group_count;
    uint64_t life_us;     /* a value lives at least so long; 0: not known */
    bool has_late_reload; /* of the same group; where the life is not known it may be of another expiry */
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
    if (left->word != NULL && right->word != NULL && strcmp(left->word, right->word) != 0)
        return strcmp(left->word, right->word);
    if ((left->word != NULL) != (right->word != NULL))
        return left->word != NULL ? 1 : -1;
    if (left->word == NULL && left->key != right->key)
        return left->key > right->key ? 1 : -1;
    return (left->begun_us > right->begun_us) - (left->begun_us < right->begun_us);
}

static bool allocate(struct grouping *grouping)
{
    const struct result_source *source = grouping->source;
    size_t load_count = source->view->load_count;
    grouping->loads = calloc(load_count + 1, sizeof(struct witness_load *));
    grouping->groups = calloc(load_count + 1, sizeof *grouping->groups);
    grouping->writes = calloc(source->write_count + 1, sizeof *grouping->writes);
    grouping->drops_us = calloc(source->drop_count + 1, sizeof *grouping->drops_us);
    grouping->rounds = calloc((size_t)source->work->round_count + 1, sizeof *grouping->rounds);
    return grouping->loads != NULL && grouping->groups != NULL && grouping->writes != NULL &&
           grouping->drops_us != NULL && grouping->rounds != NULL;
}

/* All requests of a round are due at the same instant, and records are by it. */
static void find_rounds(struct grouping *grouping)
{
    const struct result_source *source = grouping->source;
    const struct records *records = source->records;
    if (source->work->shape != WORK_BURST)
        return;
    for (size_t i = 0; i < records->count && grouping->round_count < source->work->round_count; i++) {
        if (i == 0 || records->at[i].due_us != records->at[i - 1].due_us)
            grouping->rounds[grouping->round_count++] = records->at[i].due_us;
    }
}

static bool grouping_init(struct grouping *grouping, const struct result_source *source)
{
    const struct witness_view *view = source->view;
    *grouping = (struct grouping){.source = source};
    if (!allocate(grouping))
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
    for (size_t i = 0; i < source->drop_count; i++)
        grouping->drops_us[i] = source->drops_us[i];
    rank_sort(grouping->drops_us, source->drop_count);
    find_rounds(grouping);
    return true;
}

static void grouping_clear(struct grouping *grouping)
{
    free(grouping->loads);
    free(grouping->groups);
    free(grouping->writes);
    free(grouping->drops_us);
    free(grouping->rounds);
}

/* ---- what was asked for ---- */

/* Different targets are asked for the same thing by URLs of the same path. */
static uint64_t first_url(const struct work *work, uint16_t url)
{
    uint16_t first = 0;
    while (first < url && strcmp(work->urls[first].path, work->urls[url].path) != 0)
        first++;
    return first;
}

/* How many different things: each is a number and a URL. False: no memory. */
static bool count_asked(const struct result_source *source, uint64_t *count)
{
    const struct records *records = source->records;
    uint64_t *asked = calloc(records->count + 1, sizeof *asked);
    *count = 0;
    if (asked == NULL)
        return false;
    for (size_t i = 0; i < records->count; i++)
        asked[i] = (uint64_t)records->at[i].key << 32 | first_url(source->work, records->at[i].url);
    rank_sort(asked, records->count);
    for (size_t i = 0; i < records->count; i++)
        *count += i == 0 || asked[i] != asked[i - 1];
    free(asked);
    return true;
}

/* So many of the loads are `different`. *why: their keys are not known, a constant; NULL: they are. */
static bool judge_keys(const struct result_source *source, uint64_t different, const char **why)
{
    uint64_t asked;
    *why = NULL;
    if (!count_asked(source, &asked))
        return false;
    if (source->view->misses_loads)
        *why = "not all loads could be counted";
    else if (source->view->keyless_count > 0)
        *why = "the log does not have the parameters of all loads";
    else if (source->view->is_coarse)
        *why = "the access log has whole seconds; let it write JSON with fractions, nginx's $msec for one";
    else if (different > asked)
        *why = "more different statements than URLs: they differ in more than the key, or a URL needs "
               "several; choose another text for queries, or expect loads";
    return true;
}

/* ---- groups ---- */

/* What may explain the loads of one key, and how much of it lies behind the load that is looked at. */
struct causes {
    const char *key;
    bool has_number;
    uint64_t number; /* the statement's first value: "7", or "7, 200" if it has others */
    size_t next_write, next_drop;
};

static bool is_of_key(const struct result_write *write, const struct causes *causes)
{
    const size_t kept = WITNESS_KEY_BYTES - 1 - WITNESS_TAIL_BYTES;
    size_t bytes = write->word != NULL ? strlen(write->word) : 0;
    if (write->word == NULL)
        return causes->has_number && write->key == causes->number;
    if (bytes > kept && strlen(causes->key) == WITNESS_KEY_BYTES - 1 && causes->key[kept] == '~')
        return strncmp(causes->key, write->word, kept) == 0;
    return strncmp(causes->key, write->word, bytes) == 0 &&
           (causes->key[bytes] == '\0' || strncmp(causes->key + bytes, ", ", 2) == 0);
}

static struct causes causes_of(const struct grouping *grouping, const char *key)
{
    char *end;
    struct causes causes = {.key = key, .number = strtoull(key, &end, 10)};
    causes.has_number =
        key[0] >= '0' && key[0] <= '9' && (*end == '\0' || *end == ',') && causes.number <= UINT32_MAX;
    while (causes.next_write < grouping->source->write_count &&
           !is_of_key(&grouping->writes[causes.next_write], &causes))
        causes.next_write++;
    return causes;
}

/* Did anything that makes the value be loaded again happen until then? Each is asked about once. */
static bool take_causes(const struct grouping *grouping, struct causes *causes, uint64_t until_us)
{
    bool any = false;
    for (; causes->next_write < grouping->source->write_count; causes->next_write++) {
        const struct result_write *write = &grouping->writes[causes->next_write];
        if (!is_of_key(write, causes) || write->begun_us >= until_us)
            break;
        any = true;
    }
    size_t dropped = causes->next_drop;
    while (causes->next_drop < grouping->source->drop_count &&
           grouping->drops_us[causes->next_drop] < until_us)
        causes->next_drop++;
    return any || causes->next_drop > dropped;
}

static uint64_t shortest_life_us(uint32_t ttl_ms, uint32_t jitter_percent)
{
    uint32_t jitter = jitter_percent < 100 ? jitter_percent : 100;
    return (uint64_t)ttl_ms * 10 * (100 - jitter);
}

static bool is_later_round(const struct grouping *grouping, const struct witness_load *load,
                           const struct witness_load *first)
{
    size_t low = 0, high = grouping->round_count; /* after the last round that was due by the load */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (grouping->rounds[middle] < load->at_us + LOG_GRAIN_US)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && grouping->rounds[low - 1] >= first->at_us + LOG_GRAIN_US;
}

/*
 * All who ask in a round ask at its instant: as long as their loads follow one another nobody has a value that could
 * expire. Clients of a rate ask anew all the time.
 */
static bool has_expired(const struct grouping *grouping, const struct group *group,
                        const struct witness_load *load, uint64_t life_us)
{
    if (!witness_outlived(group->first, load, life_us))
        return false;
    return grouping->round_count == 0 || witness_outlived(group->last, load, life_us) ||
           is_later_round(grouping, load, group->first);
}

/* Without a life: may its value have expired? Within a round, a crowd is slow at most. */
static bool may_have_expired(const struct grouping *grouping, const struct group *group,
                             const struct witness_load *load)
{
    if (grouping->round_count > 0)
        return is_later_round(grouping, load, group->first);
    return witness_outlived(group->first, load, (uint64_t)RESULT_LIFE_LEAST_MS * 1000);
}

/* Cuts the loads of one key. A write or a drop explains one load: that which had to come after it. */
static void group_key(struct grouping *grouping, size_t from, size_t until)
{
    const uint64_t life_us = grouping->life_us;
    struct causes causes = causes_of(grouping, grouping->loads[from]->key);
    struct group *group = NULL;
    for (size_t i = from; i < until; i++) {
        const struct witness_load *load = grouping->loads[i];
        bool is_new = take_causes(grouping, &causes, load->at_us + LOG_GRAIN_US) || group == NULL;
        is_new = is_new || (life_us > 0 && has_expired(grouping, group, load, life_us));
        if (is_new) {
            group = &grouping->groups[grouping->group_count++];
            *group = (struct group){.first = load};
        } else if (may_have_expired(grouping, group, load)) {
            grouping->has_late_reload = true;
        }
        group->last = load;
        group->loads++;
    }
}

/* Where the loads of one key end that begin with `from`. */
static size_t end_of_key(const struct grouping *grouping, size_t from)
{
    size_t until = from + 1;
    while (until < grouping->source->view->load_count &&
           strcmp(grouping->loads[until]->key, grouping->loads[from]->key) == 0)
        until++;
    return until;
}

static void group_all(struct grouping *grouping, uint64_t life_us)
{
    grouping->life_us = life_us;
    grouping->group_count = 0;
    grouping->has_late_reload = false;
    for (size_t from = 0, until; from < grouping->source->view->load_count; from = until) {
        until = end_of_key(grouping, from);
        group_key(grouping, from, until);
    }
}

/* ---- how long a value lives ---- */

/* "5 s" of what was told, "1.0 s" of what was seen. */
static void doubt_ttl(struct result *out, uint32_t seen_ms)
{
    static const char unsaid[] = "how long a value lives was not said (--ttl)";
    char seen[TEXT_NUMBER_BYTES];
    text_decimal(seen, seen_ms / 1e3, seen_ms < 1000 ? 2 : seen_ms < 10000);
    if (out->ttl_ms > 0 && seen_ms > 0)
        snprintf(
            out->ttl_doubt, sizeof out->ttl_doubt,
            "a value lives %g s by what was said (--ttl), and %s s by what was seen: one of them is wrong",
            out->ttl_ms / 1e3, seen);
    else if (seen_ms > 0)
        snprintf(out->ttl_doubt, sizeof out->ttl_doubt, "%s: expiries are judged by the %s s that was seen",
                 unsaid, seen);
    else
        snprintf(out->ttl_doubt, sizeof out->ttl_doubt,
                 "%s: a load after an expiry cannot be told from one too many", unsaid);
}

/* A crowd takes its time, and whoever is early may be so by design. */
static bool is_about(uint32_t seen_ms, uint32_t ttl_ms, uint64_t shortest_us)
{
    return (uint64_t)seen_ms * 1000 >= shortest_us / 10 * 7 && seen_ms <= (uint64_t)ttl_ms * 14 / 10;
}

/* By the life that was told; without one by that which is seen, if it matters. False: no memory. */
static bool group_by_life(struct grouping *grouping, struct result *out)
{
    const struct result_source *source = grouping->source;
    const uint64_t told_us = shortest_life_us(source->ttl_ms, source->jitter_percent);
    uint32_t seen_ms;
    bool is_bound;
    group_all(grouping, told_us);
    size_t told_count = grouping->group_count;
    if (told_us == 0 && !grouping->has_late_reload)
        return true;
    if (!ttl_seen(source, grouping->loads, &seen_ms, &is_bound))
        return false;
    if (told_us > 0 && (seen_ms == 0 || is_about(seen_ms, source->ttl_ms, told_us)))
        return true;
    group_all(grouping, shortest_life_us(seen_ms, SEEN_JITTER_PERCENT));
    if (told_us == 0 && is_bound && grouping->has_late_reload)
        seen_ms = 0;
    if (told_us == 0 || grouping->group_count != told_count)
        doubt_ttl(out, seen_ms);
    if (told_us > 0)
        group_all(grouping, told_us);
    else if (seen_ms == 0)
        grouping->group_count = 0;
    out->ttl_seen_ms = told_us == 0 ? seen_ms : 0;
    return true;
}

/* ---- figures ---- */

/* The most loads first. */
static void keep_most(struct result_hot *list, size_t *count, size_t room, const struct result_hot *one)
{
    size_t at = *count;
    while (at > 0 && list[at - 1].loads < one->loads)
        at--;
    if (at == room)
        return;
    *count += *count < room;
    memmove(&list[at + 1], &list[at], (*count - 1 - at) * sizeof *list);
    list[at] = *one;
}

static struct result_hot hot_of(const struct grouping *grouping, const struct witness_load *first,
                                uint64_t loads)
{
    struct result_hot hot = {.loads = loads, .at_ms = result_offset_ms(grouping->source, first->at_us)};
    text_clean(hot.key, sizeof hot.key, first->key, WITNESS_KEY_BYTES, false);
    return hot;
}

static void count_keys(const struct grouping *grouping, struct result *out)
{
    for (size_t from = 0, until; from < grouping->source->view->load_count; from = until) {
        until = end_of_key(grouping, from);
        struct result_hot hot = hot_of(grouping, grouping->loads[from], until - from);
        keep_most(out->hot, &out->hot_count, RESULT_HOT_MAX, &hot);
        out->loaded_keys++;
    }
}

static void count_needed(const struct result_source *source, const struct witness_load *first,
                         struct result *out)
{
    if (out->slice_count == 0)
        return;
    size_t slice = result_offset_ms(source, first->at_us) / out->slice_ms;
    out->slices[slice < out->slice_count ? slice : out->slice_count - 1].needed++;
}

static void count_groups(const struct grouping *grouping, struct result *out)
{
    static const uint64_t least[RESULT_PER_EXPIRY] = {1, 2, 3, 4, 5, 10, 100, 1000};
    for (size_t i = 0; i < grouping->group_count; i++) {
        const struct group *group = &grouping->groups[i];
        size_t kind = RESULT_PER_EXPIRY - 1;
        while (group->loads < least[kind])
            kind--;
        out->per_expiry[kind]++;
        count_needed(grouping->source, group->first, out);
        if (group->loads > out->most_per_expiry)
            out->most_per_expiry = group->loads;
        if (group->loads == 1)
            continue;
        struct result_hot worst = hot_of(grouping, group->first, group->loads);
        keep_most(out->worst, &out->worst_count, RESULT_WORST_MAX, &worst);
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

static bool group_loads(const struct result_source *source, struct result *out)
{
    struct grouping grouping;
    bool good = grouping_init(&grouping, source);
    if (good) {
        count_keys(&grouping, out);
        good = judge_keys(source, out->loaded_keys, &out->keys_unknown);
    }
    if (good && out->keys_unknown != NULL) {
        out->loaded_keys = out->hot_count = 0;
    } else if (good) {
        good = group_by_life(&grouping, out);
        count_groups(&grouping, out);
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
    static const char *const ways[] = {
        [WITNESS_NONE] = "", [WITNESS_LOG] = "log", [WITNESS_STATEMENTS] = "statements"};
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
    out->has_peak = view->has_ends;
    out->loads = view->load_count;
    out->peak_running = view->at_once;
    copy_commands(view, out);
    if (view->loads == NULL && out->has_loads)
        out->keys_unknown = "this way of counting knows neither keys nor instants: only the statement log "
                            "does, or expect loads";
    else if (view->loads != NULL && !group_loads(source, out))
        return false;
    describe(source, out);
    if (out->expiries > 0)
        out->loads_per_expiry = (double)out->loads / (double)out->expiries;
    return true;
}
