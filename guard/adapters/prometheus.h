/* SPDX-License-Identifier: MIT */
/*
 * prometheus.h - the guard's numbers as Prometheus reads them: its text format 0.0.4, every number of guard_stats().
 *
 *     struct guard_stats stats;
 *     guard_stats(guard, &stats);
 *     guard_prometheus(out, &(struct guard_sample){"", &stats}, 1, NULL, 0);
 *
 * Names      guard_* of a guard, guard_kind_* of a kind: in a family of its own, so that a sum over the other one
 *            counts nothing twice. A number that no row below names is a family by its own name: new ones need none.
 * Labels     From fixed sets of words, but for what a sample says itself; a key is never one.
 * Threads    Pure, any.
 */
#ifndef GUARD_ADAPTER_PROMETHEUS_H
#define GUARD_ADAPTER_PROMETHEUS_H

#include "../guard.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { GUARD_NUMBER_BYTES = 48, GUARD_REDIS_STATES = 5 };

/* Of one guard or kind: labels that tell it from others, as `worker="0"`; "": none. */
struct guard_sample {
    const char *labels;
    const struct guard_stats *stats;
};

static inline const char *guard_redis_state_name(enum guard_redis_state state)
{
    static const char *const names[GUARD_REDIS_STATES] = {[GUARD_REDIS_DOWN] = "down",
                                                          [GUARD_REDIS_DENIED] = "denied",
                                                          [GUARD_REDIS_UP] = "up",
                                                          [GUARD_REDIS_REPLICA] = "replica",
                                                          [GUARD_REDIS_FENCED] = "fenced"};
    return names[state];
}

/*
 * The next number of a list, which it moves on: "hit near:near_hit" is the number `hit`, and `near_hit` by the name
 * "near". False: there are no more, or the guard has no such number.
 */
static inline bool guard_numbers_next(const char **list, size_t *number, char name[GUARD_NUMBER_BYTES])
{
    char word[2 * GUARD_NUMBER_BYTES];
    *list += strspn(*list, " ");
    const size_t bytes = strcspn(*list, " ");
    snprintf(word, sizeof word, "%.*s", (int)bytes, *list);
    *list += bytes;
    const char *colon = strchr(word, ':'), *field = colon != NULL ? colon + 1 : word;
    snprintf(name, GUARD_NUMBER_BYTES, "%.*s", (int)strcspn(word, ":"), word);
    *number = 0;
    while (guard_stat_info(*number) != NULL && strcmp(guard_stat_info(*number)->name, field) != 0)
        ++*number;
    return guard_stat_info(*number) != NULL;
}

/* Numbers that have another name here, or are one family together, as a list with the label's values. */
struct guard_family {
    const char *name, *label;
    const char *help; /* NULL: the number's own */
    const char *numbers;
};

/* NULL: there are no more. */
static inline const struct guard_family *guard_family(size_t i)
{
    static const struct guard_family families[] = {
        {"gets", "outcome", "Requests to the guard, each counted once, by how it was answered.",
         "hit near:near_hit kept stale absent_hit failed_hit loaded collapsed_process collapsed_fleet failed "
         "shed timeout:timed_out cancelled closed missed"},
        {"loads_started", NULL, NULL, "load_started"},
        {"queries", NULL, NULL, "load_queries"},
        {"loads", "result", "Loads of this process, by how they ended.",
         "ok:load_ok absent:load_absent unchanged:load_unchanged failed:load_failed "
         "cancelled:load_cancelled"},
        {"loads_uncached", NULL, NULL, "load_uncached"},
        {"loads_duplicate", NULL, NULL, "load_duplicate"},
        {"loads_nested", NULL, NULL, "load_nested"},
        {"refreshes", "reason", "Background and early refreshes begun, by reason.",
         "stale:refresh_started early:refresh_early"},
        {"refreshes_failed", NULL, NULL, "refresh_failed"},
        {"refreshes_yielded", NULL, NULL, "refresh_yielded"},
        {"stale_late", "reason", "Stale answers after a wait for a fresh one, by what ended the wait.",
         "soft_limit:stale_soft error:stale_rescued"},
        {"leases", "event", "Leases, by what happened to them.",
         "acquired:lease_acquired busy:lease_busy renewed:lease_renewed lost:lease_lost "
         "released:lease_released"},
        {"fills", "result", "Fills, by Redis's answer.",
         "stored:fill_stored late:fill_late refused:fill_refused unknown:fill_unknown too_big:fill_too_big"},
        {"wakes", "by", "Wake-up messages heard, polls by waiting flights, resynchronisations.",
         "message:wake_messages poll:wake_polls resync:wake_resyncs"},
        {"invalidations", "result", "Invalidations, by whether Redis confirmed them.",
         "done:invalidated unknown:invalidate_unknown"},
        {"replays", "result",
         "Confirmed invalidations sent again to another master, and those too many to be.",
         "done:replayed dropped:replay_dropped"},
        {"entries_rejected", NULL, NULL, "entry_rejected"},
        {"entries_outdated", NULL, NULL, "entry_outdated"},
        {"permits", "result", "Requests for fleet-wide load permits, by Redis's answer.",
         "granted:permit_granted refused:permit_refused"},
        {"permits_lost", NULL, NULL, "permit_lost"},
        {"permits_spared", NULL, NULL, "permit_spared"},
        {"near_lookups", "result", "Near cache lookups, by result.", "hit:near_hit miss:near_miss"},
        {"near_removed", "reason", "Entries that left the near cache early, by reason.",
         "evicted:near_evicted invalidated:near_dropped unheard:near_cleared"},
        {"turn_age", NULL, NULL, "beat_age_ms"},
    };
    return i < sizeof families / sizeof families[0] ? &families[i] : NULL;
}

/* ---- one number ---- */

struct guard_line { /* where it stands */
    FILE *out;
    const char *prefix, *family;
    const char *labels;                 /* the sample's */
    char label[3 * GUARD_NUMBER_BYTES]; /* the family's; "": none */
};

static inline void guard_line_begin(const struct guard_line *line, const char *suffix, const char *bound)
{
    const char *const labels[] = {line->labels, line->label, bound};
    char before = '{';
    fprintf(line->out, "%s%s%s", line->prefix, line->family, suffix);
    for (size_t i = 0; i < 3; i++) {
        if (labels[i][0] == '\0')
            continue;
        fprintf(line->out, "%c%s", before, labels[i]);
        before = ',';
    }
    fputs(before == ',' ? "} " : " ", line->out);
}

/* Seconds without floating point: exact, and the same in every locale. */
static inline void guard_line_end_us(const struct guard_line *line, uint64_t us)
{
    fprintf(line->out, "%" PRIu64 ".%06" PRIu64 "\n", us / 1000000, us % 1000000);
}

static inline void guard_write_histogram(const struct guard_line *line,
                                         const struct guard_histogram *histogram)
{
    static const uint64_t bounds_us[] = GUARD_HISTOGRAM_BOUNDS_US; /* the last bucket has none */
    uint64_t total = 0;
    for (size_t i = 0; i < GUARD_HISTOGRAM_BUCKETS; i++) {
        char bound[GUARD_NUMBER_BYTES] = "le=\"+Inf\"";
        total += histogram->count[i];
        if (i < GUARD_HISTOGRAM_BUCKETS - 1)
            snprintf(bound, sizeof bound, "le=\"%" PRIu64 ".%06" PRIu64 "\"", bounds_us[i] / 1000000,
                     bounds_us[i] % 1000000);
        guard_line_begin(line, "_seconds_bucket", bound);
        fprintf(line->out, "%" PRIu64 "\n", total);
    }
    guard_line_begin(line, "_seconds_sum", "");
    guard_line_end_us(line, histogram->sum_us);
    guard_line_begin(line, "_seconds_count", "");
    fprintf(line->out, "%" PRIu64 "\n", total);
}

static inline const char *guard_suffix(const struct guard_stat_info *info)
{
    if (info->type == GUARD_STAT_HISTOGRAM || strcmp(info->unit, "ms") == 0)
        return "_seconds";
    return info->type == GUARD_STAT_COUNTER ? "_total" : "";
}

static inline void guard_write_number(const struct guard_line *line, const struct guard_stats *stats,
                                      size_t number)
{
    const struct guard_stat_info *info = guard_stat_info(number);
    const struct guard_histogram *histogram = guard_stat_histogram(stats, number);
    const uint64_t value = guard_stat_value(stats, number);
    if (histogram != NULL) {
        guard_write_histogram(line, histogram);
        return;
    }
    guard_line_begin(line, guard_suffix(info), "");
    if (strcmp(info->unit, "ms") == 0)
        guard_line_end_us(line, value * 1000);
    else
        fprintf(line->out, "%" PRIu64 "\n", value);
}

/* ---- a family ---- */

static inline void guard_write_head(FILE *out, const char *prefix, const struct guard_family *family,
                                    const struct guard_stat_info *info)
{
    static const char *const types[] = {
        [GUARD_STAT_COUNTER] = "counter", [GUARD_STAT_GAUGE] = "gauge", [GUARD_STAT_HISTOGRAM] = "histogram"};
    const char *suffix = guard_suffix(info), *help = family->help != NULL ? family->help : info->help;
    fprintf(out, "# HELP %s%s%s %s\n# TYPE %s%s%s %s\n", prefix, family->name, suffix, help, prefix,
            family->name, suffix, types[info->type]);
}

/* Of guards, or of kinds: then only what a kind has. */
static inline void guard_write_samples(FILE *out, const struct guard_family *family,
                                       const struct guard_sample *samples, size_t count, bool of_kinds)
{
    struct guard_line line = {
        .out = out, .prefix = of_kinds ? "guard_kind_" : "guard_", .family = family->name};
    char value[GUARD_NUMBER_BYTES];
    const char *list = family->numbers;
    size_t number = 0, last = 0;
    while (guard_numbers_next(&list, &number, value))
        last = number;
    if (count == 0 || (of_kinds && !guard_stat_info(last)->per_kind))
        return;
    guard_write_head(out, line.prefix, family, guard_stat_info(last));
    for (size_t i = 0; i < count; i++) {
        line.labels = samples[i].labels;
        for (list = family->numbers; guard_numbers_next(&list, &number, value);) {
            if (of_kinds && !guard_stat_info(number)->per_kind)
                continue;
            if (family->label != NULL)
                snprintf(line.label, sizeof line.label, "%s=\"%s\"", family->label, value);
            guard_write_number(&line, samples[i].stats, number);
        }
    }
}

static inline void guard_write_redis_states(FILE *out, const struct guard_sample *samples, size_t count)
{
    static const char *const connections[] = {"commands", "wake"};
    struct guard_line line = {.out = out, .prefix = "guard_", .family = "redis_state"};
    fputs("# HELP guard_redis_state 1 for the state each connection to Redis is in.\n"
          "# TYPE guard_redis_state gauge\n",
          out);
    for (size_t i = 0; i < 2 * GUARD_REDIS_STATES * count; i++) {
        const struct guard_sample *sample = &samples[i / (2 * GUARD_REDIS_STATES)];
        const size_t connection = i / GUARD_REDIS_STATES % 2, state = i % GUARD_REDIS_STATES;
        const size_t is = connection == 0 ? sample->stats->redis_state : sample->stats->wake_state;
        line.labels = sample->labels;
        snprintf(line.label, sizeof line.label, "connection=\"%s\",state=\"%s\"", connections[connection],
                 guard_redis_state_name((enum guard_redis_state)state));
        guard_line_begin(&line, "", "");
        fprintf(out, "%d\n", is == state);
    }
}

static inline bool guard_is_listed(const char *list, size_t wanted)
{
    char value[GUARD_NUMBER_BYTES];
    size_t number = 0;
    while (guard_numbers_next(&list, &number, value))
        if (number == wanted)
            return true;
    return false;
}

/* All of it. */
static inline void guard_prometheus(FILE *out, const struct guard_sample *guards, size_t guard_count,
                                    const struct guard_sample *kinds, size_t kind_count)
{
    for (size_t i = 0; guard_family(i) != NULL; i++) {
        guard_write_samples(out, guard_family(i), guards, guard_count, false);
        guard_write_samples(out, guard_family(i), kinds, kind_count, true);
    }
    for (size_t number = 0; guard_stat_info(number) != NULL; number++) {
        const char *name = guard_stat_info(number)->name;
        const struct guard_family own = {name, NULL, NULL, name};
        size_t i = 0;
        while (guard_family(i) != NULL && !guard_is_listed(guard_family(i)->numbers, number))
            i++;
        if (guard_family(i) != NULL || guard_is_listed("redis_state wake_state", number))
            continue;
        guard_write_samples(out, &own, guards, guard_count, false);
        guard_write_samples(out, &own, kinds, kind_count, true);
    }
    guard_write_redis_states(out, guards, guard_count);
}

#endif
