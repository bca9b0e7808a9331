/* SPDX-License-Identifier: MIT */
/* result_fields.c - see result_fields.h. */
#include "load/report/result_fields.h"

#define FIELD(type, member, is)                                                                              \
    .name = #member, .kind = (is), .offset = offsetof(struct type, member),                                  \
    .bytes = sizeof((struct type *)NULL)->member

_Static_assert(sizeof(struct result_quantiles) == 80, "a new field belongs into fields_of_quantiles[], too");
_Static_assert(sizeof(struct result_point) == 16, "a new field belongs into point[], too");
_Static_assert(sizeof(struct result_slice) == 36, "a new field belongs into fields_of_slice[], too");
_Static_assert(sizeof(struct result_mark) == 172, "a new field belongs into mark[], too");
_Static_assert(sizeof(struct result_check) == 321, "a new field belongs into check[], too");
_Static_assert(sizeof(struct result_hot) == 72, "a new field belongs into hot[], too");
_Static_assert(sizeof(struct herd_strain) == 392, "a new field belongs into fields_of_strain[], too");
_Static_assert(sizeof(struct result) - RECORD_OUTCOMES * sizeof(uint64_t) -
                       RECORD_CACHES * (sizeof(uint64_t) + sizeof(struct result_quantiles)) ==
                   121208 + 2 * 8 + 320, /* keys_unknown and write_count are of the run only */
               "a new field belongs into fields_of_result[] or field_lists[], too");
_Static_assert(sizeof(struct report) == 2088, "a new field belongs into fields_of_report[], too");
_Static_assert(sizeof(struct witness_command) == 32, "a new field belongs into command[], too");

const struct field fields_of_quantiles[] = {
    {FIELD(result_quantiles, count, FIELD_U64)},
    {FIELD(result_quantiles, min_us, FIELD_U64)},
    {FIELD(result_quantiles, p50_us, FIELD_U64)},
    {FIELD(result_quantiles, p90_us, FIELD_U64)},
    {FIELD(result_quantiles, p95_us, FIELD_U64)},
    {FIELD(result_quantiles, p99_us, FIELD_U64)},
    {FIELD(result_quantiles, p999_us, FIELD_U64)},
    {FIELD(result_quantiles, p9999_us, FIELD_U64)},
    {FIELD(result_quantiles, max_us, FIELD_U64)},
    {FIELD(result_quantiles, mean_us, FIELD_DOUBLE)},
    {.name = NULL},
};

static const struct field point[] = {
    {FIELD(result_point, percent, FIELD_DOUBLE)},
    {FIELD(result_point, us, FIELD_U64)},
    {.name = NULL},
};

const struct field fields_of_slice[] = {
    {FIELD(result_slice, due, FIELD_U32)},     {FIELD(result_slice, answered, FIELD_U32)},
    {FIELD(result_slice, failed, FIELD_U32)},  {FIELD(result_slice, waiting, FIELD_U32)},
    {FIELD(result_slice, p50_us, FIELD_U32)},  {FIELD(result_slice, p99_us, FIELD_U32)},
    {FIELD(result_slice, max_us, FIELD_U32)},  {FIELD(result_slice, loads, FIELD_U32)},
    {FIELD(result_slice, running, FIELD_U32)}, {.name = NULL},
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

static const struct field hot[] = {
    {FIELD(result_hot, key, FIELD_TEXT)},
    {FIELD(result_hot, loads, FIELD_U64)},
    {.name = NULL},
};

static const struct field command[] = {
    {FIELD(witness_command, name, FIELD_TEXT)},
    {FIELD(witness_command, calls, FIELD_U64)},
    {.name = NULL},
};

const struct field fields_of_strain[] = {
    {FIELD(herd_strain, generator_count, FIELD_U32)},
    {FIELD(herd_strain, busiest, FIELD_DOUBLE)},
    {FIELD(herd_strain, starved, FIELD_DOUBLE)},
    {FIELD(herd_strain, late_p99_us, FIELD_U64)},
    {FIELD(herd_strain, late_max_us, FIELD_U64)},
    {FIELD(herd_strain, late_count, FIELD_U64)},
    {FIELD(herd_strain, waited_count, FIELD_U64)},
    {FIELD(herd_strain, spread_us, FIELD_U64)},
    {FIELD(herd_strain, is_bottleneck, FIELD_BOOL)},
    {FIELD(herd_strain, verdict, FIELD_TEXT)},
    {.name = NULL},
};

const struct field fields_of_result[] = {
    {FIELD(result, name, FIELD_TEXT)},
    {FIELD(result, what, FIELD_TEXT)},
    {FIELD(result, when, FIELD_TEXT)},
    {FIELD(result, is_partial, FIELD_BOOL)},
    {FIELD(result, duration_ms, FIELD_U32)},
    {FIELD(result, offered_per_s, FIELD_DOUBLE)},
    {FIELD(result, answered_per_s, FIELD_DOUBLE)},
    {FIELD(result, requests, FIELD_U64)},
    {FIELD(result, has_writes, FIELD_BOOL)},
    {FIELD(result, stale_answers, FIELD_U64)},
    {FIELD(result, slice_ms, FIELD_U32)},
    {FIELD(result, has_loads, FIELD_BOOL)},
    {FIELD(result, has_samples, FIELD_BOOL)},
    {FIELD(result, has_redis, FIELD_BOOL)},
    {FIELD(result, way, FIELD_TEXT)},
    {FIELD(result, caveat, FIELD_TEXT)},
    {FIELD(result, loads, FIELD_U64)},
    {FIELD(result, loaded_keys, FIELD_U64)},
    {FIELD(result, ttl_ms, FIELD_U32)},
    {FIELD(result, expiries, FIELD_U64)},
    {FIELD(result, loads_per_expiry, FIELD_DOUBLE)},
    {FIELD(result, peak_running, FIELD_U32)},
    {FIELD(result, gaps, FIELD_U32)},
    {FIELD(result, command_sum, FIELD_U64)},
    {FIELD(result, marks_left_out, FIELD_U64)},
    {.name = NULL},
};

_Static_assert(sizeof(size_t) == sizeof(uint64_t), "marks_left_out is written as a FIELD_U64");

const struct field fields_of_report[] = {
    {FIELD(report, title, FIELD_TEXT)},
    {FIELD(report, about, FIELD_LINES)},
    {FIELD(report, command, FIELD_LINES)},
    {FIELD(report, machine, FIELD_TEXT)},
    {.name = NULL},
};

/* Lists of a result with room for so many. */
const struct field_list field_lists[] = {
    {"curve", point, offsetof(struct result, curve), sizeof(struct result_point), RESULT_CURVE_MAX,
     offsetof(struct result, curve_count)},
    {"marks", mark, offsetof(struct result, marks), sizeof(struct result_mark), RESULT_MARKS_MAX,
     offsetof(struct result, mark_count)},
    {"checks", check, offsetof(struct result, checks), sizeof(struct result_check), RESULT_CHECKS_MAX,
     offsetof(struct result, check_count)},
    {"hot", hot, offsetof(struct result, hot), sizeof(struct result_hot), RESULT_HOT_MAX,
     offsetof(struct result, hot_count)},
    {"commands", command, offsetof(struct result, commands), sizeof(struct witness_command),
     WITNESS_COMMANDS_MAX, offsetof(struct result, command_count)},
    {NULL, NULL, 0, 0, 0, 0},
};

/* Lent until the next call. */
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

const struct field_counts field_counts[] = {
    {"outcomes", outcome_name, offsetof(struct result, outcomes), RECORD_OUTCOMES},
    {"statuses", status_name, offsetof(struct result, statuses), 600},
    {"caches", cache_name, offsetof(struct result, caches), RECORD_CACHES},
    {NULL, NULL, 0, 0},
};
