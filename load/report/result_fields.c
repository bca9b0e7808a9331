/* SPDX-License-Identifier: MIT */
/* result_fields.c - see result_fields.h. */
#include "load/report/result_fields.h"

#define FIELD(type, member, is)                                                                              \
    .name = #member, .kind = (is), .offset = offsetof(struct type, member),                                  \
    .bytes = sizeof((struct type *)NULL)->member

/* `items` of type `item`, of which count_of says how many are in use. */
#define LIST(type, is, items, item, fields_of, room, count_of)                                               \
    .name = #items, .kind = (is), .offset = offsetof(struct type, items), .bytes = sizeof(struct item),      \
    .fields = (fields_of), .most = (room), .count_offset = offsetof(struct type, count_of)

_Static_assert(sizeof(struct result_quantiles) == 88, "a new field belongs into fields_of_quantiles[], too");
_Static_assert(sizeof(struct result_slice) == 36, "a new field belongs into slice[], too");
_Static_assert(sizeof(struct result_step) == 8, "a new field belongs into step[], too");
_Static_assert(sizeof(struct result_round) == 8 + 3 * (8 + RESULT_STEPS_MAX * sizeof(struct result_step)),
               "a new field belongs into burst[], too");
_Static_assert(sizeof(struct result_sample) == 448, "a new field belongs into sample[], too");
_Static_assert(sizeof(struct result_mark) == 172, "a new field belongs into mark[], too");
_Static_assert(sizeof(struct result_check) == 321, "a new field belongs into check[], too");
_Static_assert(sizeof(struct result_setting) == 336, "a new field belongs into setting[], too");
_Static_assert(sizeof(struct result_hot) == 80, "a new field belongs into hot[], too");
_Static_assert(sizeof(struct herd_strain) == 392, "a new field belongs into fields_of_strain[], too");
_Static_assert(
    sizeof(struct result) - ((size_t)RECORD_OUTCOMES + (size_t)RECORD_CACHES) * sizeof(uint64_t) ==
        118816 + RESULT_SETTINGS_MAX * sizeof(struct result_setting) +
            RESULT_SAMPLES_MAX *
                sizeof(
                    struct
                    result_sample), /* keys_unknown, recovery_unknown and write_count are of the run only */
    "a new field belongs into fields_of_result[], too");
_Static_assert(sizeof(struct report) == 2088, "a new field belongs into fields_of_report[], too");
_Static_assert(sizeof(struct witness_command) == 32, "a new field belongs into command[], too");
_Static_assert(sizeof(size_t) == sizeof(uint64_t), "marks_left_out is written as a FIELD_U64");

/* ---- names of counts ---- */

static const char *status_name(size_t index)
{
    static char name[24];
    snprintf(name, sizeof name, "%zu", index);
    return name;
}

static const char *outcome_name(size_t index)
{
    return record_outcome_name((enum record_outcome)index);
}

static const char *cache_name(size_t index)
{
    return record_cache_name((enum record_cache)index);
}

const char *field_expiry_class(size_t index)
{
    static const char *const classes[RESULT_PER_EXPIRY] = {
        "1", "2", "3", "4", "5 to 9", "10 to 99", "100 to 999", "1000 or more"};
    return classes[index];
}

/* ---- parts of a result ---- */

#define LATENCY_ROW(n, text) .row = {PLACE_LATENCY + (n), text, FIELD_PART, COUNTED, SHOW_MS}

const struct field fields_of_quantiles[] = {
    {FIELD(result_quantiles, count, FIELD_U64)},
    {FIELD(result_quantiles, min_us, FIELD_U64), LATENCY_ROW(0, "min")},
    {FIELD(result_quantiles, p50_us, FIELD_U64), LATENCY_ROW(2, "p50"), 5000, true, true},
    {FIELD(result_quantiles, p75_us, FIELD_U64), LATENCY_ROW(3, "p75"), 7500},
    {FIELD(result_quantiles, p90_us, FIELD_U64), LATENCY_ROW(4, "p90"), 9000},
    {FIELD(result_quantiles, p95_us, FIELD_U64), LATENCY_ROW(5, "p95"), 9500, true},
    {FIELD(result_quantiles, p99_us, FIELD_U64), LATENCY_ROW(6, "p99"), 9900, true, true},
    {FIELD(result_quantiles, p999_us, FIELD_U64), LATENCY_ROW(7, "p99.9"), 9990, true},
    {FIELD(result_quantiles, p9999_us, FIELD_U64), LATENCY_ROW(8, "p99.99"), 9999},
    {FIELD(result_quantiles, max_us, FIELD_U64), LATENCY_ROW(9, "max"), 10000, true, true},
    {FIELD(result_quantiles, mean_us, FIELD_DOUBLE), LATENCY_ROW(1, "mean")},
    {.name = NULL},
};

#define STRAIN_ROW(n, text, owner, show) .row = {PLACE_STRAIN + (n), text, FIELD_PART, owner, show}

const struct field fields_of_strain[] = {
    {FIELD(herd_strain, generator_count, FIELD_U32)},
    {FIELD(herd_strain, busiest, FIELD_DOUBLE), STRAIN_ROW(0, "busiest, of one core", STRAIN, SHOW_PERCENT)},
    {FIELD(herd_strain, starved, FIELD_DOUBLE),
     STRAIN_ROW(1, "ready but without a core", STRAIN, SHOW_PERCENT)},
    {FIELD(herd_strain, late_p99_us, FIELD_U64)},
    {FIELD(herd_strain, late_max_us, FIELD_U64)},
    {FIELD(herd_strain, late_count, FIELD_U64),
     STRAIN_ROW(2, "left later than 1 ms after due", RATES, SHOW_COUNT)},
    {FIELD(herd_strain, waited_count, FIELD_U64),
     STRAIN_ROW(3, "waited for a connection", RATES, SHOW_COUNT)},
    {FIELD(herd_strain, spread_us, FIELD_U64), STRAIN_ROW(4, "first to last sent, ms", BURSTS, SHOW_MS)},
    {FIELD(herd_strain, is_bottleneck, FIELD_BOOL)},
    {FIELD(herd_strain, verdict, FIELD_TEXT)},
    {.name = NULL},
};

static const struct field slice[] = {
    {FIELD(result_slice, due, FIELD_U32)},        {FIELD(result_slice, answered, FIELD_U32)},
    {FIELD(result_slice, failed, FIELD_U32)},     {FIELD(result_slice, p50_us, FIELD_U32)},
    {FIELD(result_slice, p99_us, FIELD_U32)},     {FIELD(result_slice, max_us, FIELD_U32)},
    {FIELD(result_slice, p99_slices, FIELD_U32)}, {FIELD(result_slice, loads, FIELD_U32)},
    {FIELD(result_slice, needed, FIELD_U32)},     {.name = NULL},
};

static const struct field step[] = {
    {FIELD(result_step, us, FIELD_U32)},
    {FIELD(result_step, count, FIELD_U32)},
    {.name = NULL},
};

#define STEPS(items, count_of)                                                                               \
    LIST(result_round, FIELD_LIST, items, result_step, step, RESULT_STEPS_MAX, count_of)

static const struct field burst[] = {
    {FIELD(result_round, at_ms, FIELD_U32)},
    {FIELD(result_round, due, FIELD_U32)},
    {STEPS(answers, answer_count)},
    {STEPS(failures, failure_count)},
    {STEPS(loads, load_count)},
    {.name = NULL},
};

static const struct field sample[] = {
    {FIELD(result_sample, kind, FIELD_TEXT)},   {FIELD(result_sample, at_ms, FIELD_U32)},
    {FIELD(result_sample, took_us, FIELD_U32)}, {FIELD(result_sample, url, FIELD_TEXT)},
    {FIELD(result_sample, text, FIELD_TEXT)},   {.name = NULL},
};

static const struct field mark[] = {
    {FIELD(result_mark, kind, FIELD_MARK_KIND)},
    {FIELD(result_mark, at_ms, FIELD_U32)},
    {FIELD(result_mark, until_ms, FIELD_U32)},
    {FIELD(result_mark, text, FIELD_TEXT)},
    {.name = NULL},
};

static const struct field check[] = {
    {FIELD(result_check, text, FIELD_TEXT)},
    {FIELD(result_check, measured, FIELD_TEXT)},
    {FIELD(result_check, held, FIELD_BOOL)},
    {.name = NULL},
};

static const struct field setting[] = {
    {FIELD(result_setting, name, FIELD_TEXT)},
    {FIELD(result_setting, value, FIELD_TEXT)},
    {.name = NULL},
};

static const struct field hot[] = {
    {FIELD(result_hot, key, FIELD_TEXT)},
    {FIELD(result_hot, loads, FIELD_U64)},
    {FIELD(result_hot, at_ms, FIELD_U32)},
    {.name = NULL},
};

static const struct field command[] = {
    {FIELD(witness_command, name, FIELD_TEXT)},
    {FIELD(witness_command, calls, FIELD_U64)},
    {.name = NULL},
};

static const struct field block[] = {
    {.name = "", .kind = FIELD_BUCKETS},
    {.name = NULL},
};

/* ---- a result, a report ---- */

#define QUANTILES(name_of_it, member)                                                                        \
    .name = (name_of_it), .kind = FIELD_OBJECT, .offset = offsetof(struct result, member),                   \
    .fields = fields_of_quantiles

#define ROW(place, text, weight, owner, show) .row = {place, text, weight, owner, show}

const struct field fields_of_result[] = {
    {FIELD(result, name, FIELD_TEXT)},
    {FIELD(result, what, FIELD_TEXT)},
    {FIELD(result, when, FIELD_TEXT)},
    {FIELD(result, is_partial, FIELD_BOOL),
     ROW(PLACE_REQUESTS, "interrupted", FIELD_WHOLE, PARTIAL, SHOW_YES)},
    {FIELD(result, duration_ms, FIELD_U32),
     ROW(PLACE_REQUESTS + 1, "seconds until the last answer", FIELD_WHOLE, EVERYBODY, SHOW_SECONDS)},
    {FIELD(result, offered_per_s, FIELD_DOUBLE),
     ROW(PLACE_REQUESTS + 2, "offered per second", FIELD_WHOLE, RATES, SHOW_PER_SECOND)},
    {FIELD(result, answered_per_s, FIELD_DOUBLE),
     ROW(PLACE_REQUESTS + 3, "answered per second", FIELD_WHOLE, RATES, SHOW_PER_SECOND)},
    {FIELD(result, has_recovery, FIELD_BOOL)},
    {FIELD(result, has_recovered, FIELD_BOOL)},
    {FIELD(result, recovery_ms, FIELD_U32),
     ROW(PLACE_REQUESTS + 7, "recovery, s", FIELD_WHOLE, RECOVERY, SHOW_RECOVERY)},
    {FIELD(result, requests, FIELD_U64)}, /* its row and those of its parts: result_sheet.c */
    {FIELD(result, has_writes, FIELD_BOOL)},
    {FIELD(result, stale_answers, FIELD_U64),
     ROW(PLACE_REQUESTS + 4, "stale answers after a write", FIELD_WHOLE, WRITES, SHOW_COUNT)},
    {FIELD(result, received_bytes, FIELD_U64),
     ROW(PLACE_REQUESTS + 5, "received, MB", FIELD_WHOLE, RECEIVED, SHOW_MB)},
    {FIELD(result, received_per_s, FIELD_DOUBLE),
     ROW(PLACE_REQUESTS + 6, "received per second, MB", FIELD_WHOLE, RATES, SHOW_MB)},
    {FIELD(result, slice_ms, FIELD_U32)},
    {FIELD(result, connecting, FIELD_TEXT)},
    {FIELD(result, has_loads, FIELD_BOOL)},
    {FIELD(result, has_peak, FIELD_BOOL)},
    {FIELD(result, has_redis, FIELD_BOOL)},
    {FIELD(result, misses_loads, FIELD_BOOL)},
    {FIELD(result, way, FIELD_TEXT)},
    {FIELD(result, caveat, FIELD_TEXT)},
    {FIELD(result, loads, FIELD_U64), ROW(PLACE_LOADS + 2, "queries", FIELD_WHOLE, LOADS, SHOW_LOADS)},
    {FIELD(result, loaded_keys, FIELD_U64),
     ROW(PLACE_LOADS + 4, "different keys", FIELD_PART, LOADS_BY_KEY, SHOW_COUNT)},
    {FIELD(result, ttl_ms, FIELD_U32)},
    {FIELD(result, ttl_seen_ms, FIELD_U32)},
    {FIELD(result, ttl_doubt, FIELD_TEXT)},
    {FIELD(result, expiries, FIELD_U64), ROW(PLACE_LOADS + 3, "expiries", FIELD_PART, EXPIRIES, SHOW_COUNT)},
    {FIELD(result, loads_per_expiry, FIELD_DOUBLE),
     ROW(PLACE_LOADS, "loads per expiry", FIELD_HEADLINE, EXPIRIES, SHOW_EACH)},
    {FIELD(result, most_per_expiry, FIELD_U64),
     ROW(PLACE_LOADS + 1, "most loads per expiry", FIELD_HEADLINE, EXPIRIES, SHOW_COUNT)},
    {FIELD(result, per_expiry, FIELD_COUNTS), .most = RESULT_PER_EXPIRY, .name_of = field_expiry_class},
    {FIELD(result, peak_running, FIELD_U32),
     ROW(PLACE_LOADS + 5, "at the same time, most", FIELD_PART, PEAK, SHOW_COUNT)},
    {FIELD(result, command_sum, FIELD_U64), .row.owner = REDIS},
    {FIELD(result, marks_left_out, FIELD_U64)},
    {FIELD(result, strain, FIELD_OBJECT), .fields = fields_of_strain},
    {QUANTILES("latency", all)},
    {QUANTILES("latency_5xx", errors)},
    {QUANTILES("first_byte", first)},
    {QUANTILES("connect", connect)},
    {.name = "blocks",
     .kind = FIELD_SERIES,
     .offset = offsetof(struct result, blocks),
     .bytes = sizeof *((struct result *)NULL)->blocks,
     .fields = block,
     .most = RESULT_BLOCKS_MAX,
     .count_offset = offsetof(struct result, block_count)},
    {FIELD(result, outcomes, FIELD_COUNTS), .most = RECORD_OUTCOMES, .name_of = outcome_name},
    {FIELD(result, statuses, FIELD_COUNTS), .most = RESULT_STATUSES, .name_of = status_name},
    {FIELD(result, caches, FIELD_COUNTS), .most = RECORD_CACHES, .name_of = cache_name},
    {LIST(result, FIELD_LIST, marks, result_mark, mark, RESULT_MARKS_MAX, mark_count)},
    {LIST(result, FIELD_LIST, checks, result_check, check, RESULT_CHECKS_MAX, check_count)},
    {LIST(result, FIELD_LIST, settings, result_setting, setting, RESULT_SETTINGS_MAX, setting_count)},
    {LIST(result, FIELD_LIST, hot, result_hot, hot, RESULT_HOT_MAX, hot_count)},
    {LIST(result, FIELD_LIST, worst, result_hot, hot, RESULT_WORST_MAX, worst_count)},
    {LIST(result, FIELD_LIST, commands, witness_command, command, WITNESS_COMMANDS_MAX, command_count)},
    {LIST(result, FIELD_SERIES, slices, result_slice, slice, RESULT_SLICES_MAX, slice_count)},
    {LIST(result, FIELD_SERIES, rounds, result_round, burst, RESULT_ROUNDS_MAX, round_count)},
    {LIST(result, FIELD_LIST, samples, result_sample, sample, RESULT_SAMPLES_MAX, sample_count)},
    {.name = NULL},
};

const struct field fields_of_report[] = {
    {FIELD(report, title, FIELD_TEXT)},
    {FIELD(report, about, FIELD_LINES)},
    {FIELD(report, command, FIELD_LINES)},
    {FIELD(report, machine, FIELD_TEXT)},
    {.name = NULL},
};

/* An earlier file may not have had it: no answer takes 0. */
static bool is_known(const struct result_quantiles *quantiles, const struct field *percentile)
{
    return *(const uint64_t *)(const void *)((const char *)quantiles + percentile->offset) > 0;
}

bool field_is_supported(const struct result_quantiles *quantiles, const struct field *figure)
{
    if (figure->per_10000 == 0 || figure->per_10000 == 10000)
        return quantiles->count > 0;
    return result_supports(quantiles->count, figure->per_10000) && is_known(quantiles, figure);
}
