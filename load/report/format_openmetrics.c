/* SPDX-License-Identifier: MIT */
/*
 * format_openmetrics.c - a report as OpenMetrics text, for node_exporter's folder of text files or a Pushgateway. It is
 * what one run came to, so all but the latency are gauges. Each sample has the labels `report` and `result`.
 */
#include "load/report/format.h"

#include "load/report/result_fields.h"

#include <inttypes.h>
#include <string.h>

/* Where samples go, and whose they are. */
struct metrics {
    FILE *out;
    const struct report *report;
    const struct result *result;
    const char *family;
};

/* ---- samples ---- */

static void print_label(const struct metrics *metrics, const char *name, const char *value)
{
    fprintf(metrics->out, "%s=\"", name);
    for (; *value != '\0'; value++) {
        if (*value == '\n')
            fputs("\\n", metrics->out);
        else
            fprintf(metrics->out, strchr("\\\"", *value) != NULL ? "\\%c" : "%c", *value);
    }
    fputc('"', metrics->out);
}

/* `label` NULL: none of its own. */
static void sample_of(const struct metrics *metrics, const char *suffix, const char *label, const char *value,
                      double number)
{
    fprintf(metrics->out, "%s%s{", metrics->family, suffix);
    print_label(metrics, "report", metrics->report->title);
    fputc(',', metrics->out);
    print_label(metrics, "result", metrics->result->name);
    if (label != NULL) {
        fputc(',', metrics->out);
        print_label(metrics, label, value);
    }
    fprintf(metrics->out, "} %.12g\n", number);
}

static void sample(const struct metrics *metrics, double number)
{
    sample_of(metrics, "", NULL, NULL, number);
}

/* ---- families ---- */

static void print_outcomes(const struct metrics *metrics)
{
    for (size_t i = 0; i < RECORD_OUTCOMES; i++)
        sample_of(metrics, "", "outcome", record_outcome_name((enum record_outcome)i),
                  (double)metrics->result->outcomes[i]);
}

static void print_statuses(const struct metrics *metrics)
{
    for (size_t i = 0; i < RESULT_STATUSES; i++) {
        if (metrics->result->statuses[i] > 0)
            sample_of(metrics, "", "status", i > 0 ? field_status_name(i) : "600+",
                      (double)metrics->result->statuses[i]);
    }
}

static void print_caches(const struct metrics *metrics)
{
    for (size_t i = RECORD_CACHE_NONE + 1; i < RECORD_CACHES; i++) {
        if (metrics->result->caches[i] > 0)
            sample_of(metrics, "", "cache", record_cache_name((enum record_cache)i),
                      (double)metrics->result->caches[i]);
    }
}

static void print_failed(const struct metrics *metrics)
{
    sample(metrics, (double)result_failed(metrics->result));
}

static void print_latency(const struct metrics *metrics)
{
    const struct result_quantiles *all = &metrics->result->all;
    for (const struct field *field = fields_of_quantiles; field->name != NULL; field++) {
        char share[16];
        if (field->per_10000 == 0 || !field_is_supported(all, field))
            continue;
        snprintf(share, sizeof share, "%.4g", field->per_10000 / 1e4);
        sample_of(metrics, "", "quantile", share,
                  (double)*(const uint64_t *)(const void *)((const char *)all + field->offset) / 1e6);
    }
    sample_of(metrics, "_count", NULL, NULL, (double)all->count);
    sample_of(metrics, "_sum", NULL, NULL, all->mean_us * (double)all->count / 1e6);
}

static void print_duration(const struct metrics *metrics)
{
    sample(metrics, metrics->result->duration_ms / 1e3);
}

static void print_interrupted(const struct metrics *metrics)
{
    sample(metrics, metrics->result->is_partial);
}

static void print_offered(const struct metrics *metrics)
{
    if (metrics->result->offered_per_s > 0)
        sample(metrics, metrics->result->offered_per_s);
}

static void print_loads(const struct metrics *metrics)
{
    if (metrics->result->has_loads)
        sample(metrics, (double)metrics->result->loads);
}

static void print_expiries(const struct metrics *metrics)
{
    if (metrics->result->expiries > 0)
        sample(metrics, (double)metrics->result->expiries);
}

static void print_headline(const struct metrics *metrics)
{
    if (metrics->result->expiries > 0)
        sample(metrics, metrics->result->loads_per_expiry);
}

static void print_commands(const struct metrics *metrics)
{
    for (size_t i = 0; metrics->result->has_redis && i < metrics->result->command_count; i++)
        sample_of(metrics, "", "command", metrics->result->commands[i].name,
                  (double)metrics->result->commands[i].calls);
}

static void print_stale(const struct metrics *metrics)
{
    if (metrics->result->has_writes)
        sample(metrics, (double)metrics->result->stale_answers);
}

/* The same expectation twice would be one sample twice. */
static bool is_said_before(const struct result *result, size_t check)
{
    for (size_t i = 0; i < check; i++) {
        if (strcmp(result->checks[i].text, result->checks[check].text) == 0)
            return true;
    }
    return false;
}

static void print_checks(const struct metrics *metrics)
{
    for (size_t i = 0; i < metrics->result->check_count; i++) {
        const struct result_check *check = &metrics->result->checks[i];
        if (!is_said_before(metrics->result, i))
            sample_of(metrics, "", "check", check->text, check->held);
    }
}

static const struct {
    const char *name, *type, *unit, *help; /* unit "": none */
    void (*print)(const struct metrics *metrics);
} families[] = {
    {"stampede_requests", "gauge", "", "Requests by what became of them.", print_outcomes},
    {"stampede_answers", "gauge", "", "Answers by HTTP status.", print_statuses},
    {"stampede_cache_answers", "gauge", "", "Answers by their Cache-Status.", print_caches},
    {"stampede_failed_requests", "gauge", "", "Requests without an answer, or with 5xx.", print_failed},
    {"stampede_latency_seconds", "summary", "seconds", "From when a request was due to its answer.",
     print_latency},
    {"stampede_duration_seconds", "gauge", "seconds", "From the first request to the last answer.",
     print_duration},
    {"stampede_offered_per_second", "gauge", "", "Requests due in each second.", print_offered},
    {"stampede_loads", "gauge", "", "Loads that the database saw.", print_loads},
    {"stampede_expiries", "gauge", "", "Times that a value had to be loaded.", print_expiries},
    {"stampede_loads_per_expiry", "gauge", "", "Loads for each of these times; a guard leaves 1.",
     print_headline},
    {"stampede_redis_commands", "gauge", "", "Commands that Redis ran, the most frequent ones.",
     print_commands},
    {"stampede_stale_answers", "gauge", "", "Answers older than a write that was over.", print_stale},
    {"stampede_check_held", "gauge", "", "Whether what was expected held.", print_checks},
    {"stampede_interrupted", "gauge", "", "Whether the run was ended early.", print_interrupted},
};

bool openmetrics_print(const struct report *report, FILE *out)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        struct metrics metrics = {.out = out, .report = report, .family = families[i].name};
        fprintf(out, "# TYPE %s %s\n", families[i].name, families[i].type);
        if (families[i].unit[0] != '\0')
            fprintf(out, "# UNIT %s %s\n", families[i].name, families[i].unit);
        fprintf(out, "# HELP %s %s\n", families[i].name, families[i].help);
        for (size_t j = 0; j < report->result_count; j++) {
            metrics.result = report->results[j];
            families[i].print(&metrics);
        }
    }
    fputs("# EOF\n", out);
    return true;
}
