/* SPDX-License-Identifier: MIT */
/*
 * result_compare.c - this report against an earlier one, see result.h.
 *
 * How it is judged:
 *
 *     counts      loads per expiry and the most of one, failed requests, stale answers: where one of the two is
 *                 perfect (one load per expiry, no failure), exactly: a single one more is worse. Where neither is,
 *                 they are the outcome of a race: a change is more than 3 standard deviations of a Poisson count, and
 *                 more than 10 %. Loads per expiry or stale answers that were known and are not any more are worse.
 *     checks      one that held and does not hold any more is worse.
 *     latency     p50, p95, p99, p99.9 with at least 10 answers above them in both. Noise is the interval of
 *                 result_noise.c, from the blocks of both runs: a change is a ratio whose interval leaves out 1. Two
 *                 runs of the same thing also differ in ways that neither shows by itself (what else the machine did,
 *                 where memory came to lie), so a change is at least 25 % and 0.5 ms, too. A run that has not
 *                 NOISE_BLOCKS_LEAST blocks, a single burst, does not know its noise: a change is a factor of 2.
 *     throughput  answers per second if the same was offered: a change is more than 10 %.
 *
 * The largest latency, the times to connect and to the first byte, the peak of queries and Redis commands per request
 * are only shown. Times are not judged if a run was interrupted or held up by its own generator. Runs of other
 * settings are not comparable, and neither are two of which nothing could be judged: that is no "no change".
 */
#include "load/report/result.h"
#include "load/report/result_fields.h"
#include "load/report/result_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ABOVE_LEAST = 10 };

static const double count_change = 1.1, rate_change = 1.1, latency_change = 1.25, single_change = 2;
static const double latency_change_us = 500, deviations = 3;

enum verdict { SAME, NOISE, BETTER, WORSE, NOT_JUDGED, SHOWN };

struct comparison {
    FILE *out;
    const struct result *now, *earlier;
    bool allows_different, judges_times;
    size_t judged_count, worse_count, better_count, different_count;
};

/* ---- lines ---- */

/* The ratio is left out where it means nothing: to or from zero. */
static void print_line(struct comparison *comparison, const char *label, const char *earlier, const char *now,
                       double ratio, const char *interval, enum verdict verdict)
{
    static const char *const words[] = {[SAME] = "same",   [NOISE] = "noise",           [BETTER] = "better",
                                        [WORSE] = "WORSE", [NOT_JUDGED] = "not judged", [SHOWN] = ""};
    char times[24] = "";
    if (isfinite(ratio) && ratio > 0)
        snprintf(times, sizeof times, ratio < 100 ? "x %.2f" : "x %.0f", ratio);
    fprintf(comparison->out, "  %-25s %10s -> %10s  %8s", label, earlier, now, times);
    if (verdict != SHOWN)
        fprintf(comparison->out, "  %-16s  %s", interval, words[verdict]);
    fputc('\n', comparison->out);
    comparison->judged_count += verdict != NOT_JUDGED && verdict != SHOWN;
    comparison->worse_count += verdict == WORSE;
    comparison->better_count += verdict == BETTER;
}

static enum verdict direction(double ratio, bool more_is_better)
{
    return (ratio > 1) == more_is_better ? BETTER : WORSE;
}

/* ---- counts ---- */

/* So many events in so many chances; perfect_count is how many there must be at the very least. */
struct count {
    uint64_t events, chances, perfect_count;
};

static enum verdict judge_counts(const struct count *now, const struct count *earlier)
{
    double mine = (double)now->events / (double)now->chances;
    double theirs = (double)earlier->events / (double)earlier->chances;
    bool mine_is_perfect = now->events == now->perfect_count;
    bool theirs_is_perfect = earlier->events == earlier->perfect_count;
    double mine_spread = mine / (double)now->chances, theirs_spread = theirs / (double)earlier->chances;
    if ((mine_is_perfect && theirs_is_perfect) ||
        (now->events == earlier->events && now->chances == earlier->chances))
        return SAME;
    if (mine_is_perfect || theirs_is_perfect)
        return mine_is_perfect ? BETTER : WORSE;
    if (mine > theirs / count_change && mine < theirs * count_change)
        return NOISE;
    return fabs(mine - theirs) > deviations * sqrt(mine_spread + theirs_spread)
               ? direction(mine / theirs, false)
               : NOISE;
}

static void print_lost(struct comparison *comparison, const char *label, const char *theirs)
{
    print_line(comparison, label, theirs, "not known", 0, "",
               comparison->now->is_partial ? NOT_JUDGED : WORSE);
}

static void compare_loads(struct comparison *comparison)
{
    const struct result *now = comparison->now, *earlier = comparison->earlier;
    char mine[TEXT_NUMBER_BYTES], theirs[TEXT_NUMBER_BYTES];
    if (earlier->expiries == 0)
        return;
    if (now->expiries == 0) {
        print_lost(comparison, "loads per expiry", text_each(theirs, earlier->loads_per_expiry));
        return;
    }
    enum verdict verdict =
        judge_counts(&(struct count){now->loads, now->expiries, now->expiries},
                     &(struct count){earlier->loads, earlier->expiries, earlier->expiries});
    print_line(comparison, "loads per expiry", text_each(theirs, earlier->loads_per_expiry),
               text_each(mine, now->loads_per_expiry), now->loads_per_expiry / earlier->loads_per_expiry, "",
               verdict);
    verdict = judge_counts(&(struct count){now->most_per_expiry, 1, 1},
                           &(struct count){earlier->most_per_expiry, 1, 1});
    print_line(comparison, "most loads per expiry", text_count(theirs, earlier->most_per_expiry),
               text_count(mine, now->most_per_expiry),
               (double)now->most_per_expiry / (double)earlier->most_per_expiry, "", verdict);
}

static void compare_bad(struct comparison *comparison, const char *label, uint64_t now, uint64_t earlier)
{
    char mine[TEXT_NUMBER_BYTES], theirs[TEXT_NUMBER_BYTES];
    if (comparison->now->requests == 0 || comparison->earlier->requests == 0)
        return;
    enum verdict verdict = judge_counts(&(struct count){now, comparison->now->requests, 0},
                                        &(struct count){earlier, comparison->earlier->requests, 0});
    double ratio = (double)now / (double)comparison->now->requests * (double)comparison->earlier->requests /
                   (double)earlier;
    print_line(comparison, label, text_count(theirs, earlier), text_count(mine, now), ratio, "", verdict);
}

static void compare_stale(struct comparison *comparison)
{
    const struct result *now = comparison->now, *earlier = comparison->earlier;
    char theirs[TEXT_NUMBER_BYTES];
    if (now->has_writes && earlier->has_writes)
        compare_bad(comparison, "stale answers", now->stale_answers, earlier->stale_answers);
    else if (earlier->has_writes)
        print_lost(comparison, "stale answers", text_count(theirs, earlier->stale_answers));
}

/* ---- times ---- */

static bool has_enough_above(const struct result *result, uint32_t per_10000)
{
    return result->all.count - result_rank(result->all.count, per_10000) >= ABOVE_LEAST;
}

static enum verdict judge_latency(const struct comparison *comparison, uint32_t per_10000, double mine_us,
                                  double theirs_us, char interval[static 24])
{
    struct noise_interval noise;
    double ratio = mine_us / theirs_us;
    bool is_small = fabs(mine_us - theirs_us) < latency_change_us;
    if (!comparison->judges_times || !has_enough_above(comparison->now, per_10000) ||
        !has_enough_above(comparison->earlier, per_10000))
        return NOT_JUDGED;
    if (!noise_of_percentile(comparison->now, comparison->earlier, per_10000, &noise))
        return is_small || (ratio < single_change && ratio > 1 / single_change) ? NOISE
                                                                                : direction(ratio, false);
    snprintf(interval, 24, "%.2f to %.2f", noise.low, noise.high);
    if (is_small || (noise.low <= 1 && noise.high >= 1) ||
        (ratio < latency_change && ratio > 1 / latency_change))
        return NOISE;
    return direction(ratio, false);
}

/* A time of requests, where it stands in a result. Only of the latency there are blocks, which judging takes. */
struct timed {
    const char *what;
    size_t offset;
    bool is_judged, is_brief;
};

/* The largest is only shown. */
static void compare_time(struct comparison *comparison, const struct timed *timed, const struct field *field)
{
    const struct result_quantiles *now = (const void *)((const char *)comparison->now + timed->offset);
    const struct result_quantiles *earlier =
        (const void *)((const char *)comparison->earlier + timed->offset);
    char label[32], mine[TEXT_NUMBER_BYTES], theirs[TEXT_NUMBER_BYTES], interval[24] = "";
    bool is_judged = timed->is_judged && field->per_10000 < 10000;
    uint64_t now_us = *(const uint64_t *)(const void *)((const char *)now + field->offset);
    uint64_t earlier_us = *(const uint64_t *)(const void *)((const char *)earlier + field->offset);
    if (!field_is_supported(now, field) || !field_is_supported(earlier, field))
        return;
    enum verdict verdict =
        is_judged ? judge_latency(comparison, field->per_10000, (double)now_us, (double)earlier_us, interval)
                  : SHOWN;
    snprintf(label, sizeof label, "%s %s, ms", timed->what, field->row.label);
    print_line(comparison, label, text_ms(theirs, earlier_us), text_ms(mine, now_us),
               (double)now_us / (double)earlier_us, interval, verdict);
}

static void compare_times(struct comparison *comparison)
{
    static const struct timed all[] = {{"latency", offsetof(struct result, all), true, false},
                                       {"first byte", offsetof(struct result, first), false, true},
                                       {"connect", offsetof(struct result, connect), false, true}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        for (const struct field *field = fields_of_quantiles; field->name != NULL; field++) {
            if (field->is_compared && (field->is_brief || !all[i].is_brief))
                compare_time(comparison, &all[i], field);
        }
    }
}

static void compare_throughput(struct comparison *comparison)
{
    double now = comparison->now->answered_per_s, earlier = comparison->earlier->answered_per_s;
    double ratio = now / earlier;
    double offered = comparison->now->offered_per_s / comparison->earlier->offered_per_s;
    char mine[TEXT_NUMBER_BYTES], theirs[TEXT_NUMBER_BYTES];
    enum verdict verdict = NOISE;
    if (!(now > 0) || !(earlier > 0))
        return;
    if (!comparison->judges_times || fabs(offered - 1) > 0.01)
        verdict = NOT_JUDGED;
    else if (ratio > rate_change || ratio < 1 / rate_change)
        verdict = direction(ratio, true);
    print_line(comparison, "answered per second", text_decimal(theirs, earlier, 0),
               text_decimal(mine, now, 0), ratio, "", verdict);
}

/* ---- what is only shown ---- */

static void show_peak(struct comparison *comparison)
{
    const struct result *now = comparison->now, *earlier = comparison->earlier;
    char mine[TEXT_NUMBER_BYTES], theirs[TEXT_NUMBER_BYTES];
    if (now->has_peak && earlier->has_peak)
        print_line(comparison, "queries at the same time", text_count(theirs, earlier->peak_running),
                   text_count(mine, now->peak_running),
                   (double)now->peak_running / (double)earlier->peak_running, "", SHOWN);
}

static void show_commands(struct comparison *comparison)
{
    const struct result *now = comparison->now, *earlier = comparison->earlier;
    char mine[TEXT_NUMBER_BYTES], theirs[TEXT_NUMBER_BYTES];
    if (!now->has_redis || !earlier->has_redis || now->requests == 0 || earlier->requests == 0)
        return;
    double each = (double)now->command_sum / (double)now->requests;
    double each_earlier = (double)earlier->command_sum / (double)earlier->requests;
    print_line(comparison, "Redis commands / request", text_decimal(theirs, each_earlier, 2),
               text_decimal(mine, each, 2), each / each_earlier, "", SHOWN);
}

/* ---- checks ---- */

static const struct result_check *check_named(const struct result *result, const char *text)
{
    for (size_t i = 0; i < result->check_count; i++) {
        if (strncmp(result->checks[i].text, text, RESULT_TEXT_BYTES) == 0)
            return &result->checks[i];
    }
    return NULL;
}

static void compare_checks(struct comparison *comparison)
{
    for (size_t i = 0; i < comparison->now->check_count; i++) {
        const struct result_check *now = &comparison->now->checks[i];
        const struct result_check *earlier = check_named(comparison->earlier, now->text);
        char text[RESULT_TEXT_BYTES];
        comparison->judged_count += earlier != NULL;
        if (earlier == NULL || earlier->held == now->held)
            continue;
        text_clean(text, sizeof text, now->text, sizeof now->text, false);
        text[text_fit(text, 76)] = '\0';
        fprintf(comparison->out, "  %-76s %s\n", text, now->held ? "holds again" : "WORSE: held before");
        comparison->worse_count += !now->held;
        comparison->better_count += now->held;
    }
}

/* ---- settings ---- */

/* Each has its place in both, with or without a value. */
size_t report_print_differences(const struct result *now, const struct result *earlier, FILE *out)
{
    size_t count = 0;
    for (size_t i = 0; i < RESULT_SETTINGS_MAX; i++) {
        const struct result_setting *mine = &now->settings[i], *theirs = &earlier->settings[i];
        if (strcmp(mine->value, theirs->value) == 0)
            continue;
        fprintf(out, "  %s: %s -> %s\n", mine->name, theirs->value, mine->value);
        count++;
    }
    return count;
}

/* ---- results ---- */

/* What is not judged, and why. */
static void begin_result(struct comparison *comparison)
{
    const struct result *now = comparison->now, *earlier = comparison->earlier;
    const char *why = NULL;
    bool is_single = now->block_count < NOISE_BLOCKS_LEAST || earlier->block_count < NOISE_BLOCKS_LEAST;
    if (now->is_partial || earlier->is_partial)
        why = "One of them was interrupted: times are not judged.";
    else if (now->strain.is_bottleneck || earlier->strain.is_bottleneck)
        why = "The generator was the bottleneck in one of them: times are not judged.";
    comparison->judges_times = why == NULL;
    if (why != NULL)
        fprintf(comparison->out, "  %s\n", why);
    else if (is_single)
        fprintf(
            comparison->out,
            "  Fewer than %d rounds do not show how much they vary: only twice the latency is a change.\n",
            NOISE_BLOCKS_LEAST);
}

static void print_name(FILE *out, const char *before, const struct result *result, const char *after)
{
    char name[RESULT_TEXT_BYTES];
    text_clean(name, sizeof name, result->name, sizeof result->name, false);
    name[text_fit(name, 60)] = '\0';
    fprintf(out, "%s%s%s", before, name, after);
}

static void compare_result(struct comparison *comparison)
{
    print_name(comparison->out, "\n", comparison->now, "");
    fprintf(comparison->out, " (%.20s, now %.20s)\n", comparison->earlier->when, comparison->now->when);
    bool differs = report_print_differences(comparison->now, comparison->earlier, comparison->out) > 0;
    comparison->different_count += differs && !comparison->allows_different;
    if (differs && !comparison->allows_different)
        return;
    begin_result(comparison);
    fprintf(comparison->out, "  %25s %10s -> %10s  %8s  %s\n", "", "earlier", "now", "ratio",
            "99 % interval");
    compare_loads(comparison);
    compare_bad(comparison, "failed requests", result_failed(comparison->now),
                result_failed(comparison->earlier));
    compare_stale(comparison);
    compare_times(comparison);
    compare_throughput(comparison);
    show_peak(comparison);
    show_commands(comparison);
    compare_checks(comparison);
}

struct result *report_find(const struct report *report, const char *name)
{
    for (size_t i = 0; i < report->result_count; i++) {
        if (strcmp(report->results[i]->name, name) == 0)
            return report->results[i];
    }
    return NULL;
}

const char *report_names(const struct report *report, char text[static RESULT_WHY_BYTES])
{
    size_t used = 0;
    snprintf(text, RESULT_WHY_BYTES, "no result");
    for (size_t i = 0; i < report->result_count && used + 4 < RESULT_WHY_BYTES; i++) {
        char name[RESULT_TEXT_BYTES];
        text_clean(name, sizeof name, report->results[i]->name, sizeof report->results[i]->name, false);
        used += (size_t)snprintf(text + used, RESULT_WHY_BYTES - used, "%s%s", i > 0 ? ", " : "", name);
    }
    if (used >= RESULT_WHY_BYTES)
        text[text_fit(text, 60)] = '\0';
    return text;
}

static void print_unmatched(const struct report *report, const struct report *other, const char *before,
                            FILE *out)
{
    for (size_t i = 0; i < report->result_count; i++) {
        if (report_find(other, report->results[i]->name) == NULL)
            print_name(out, before, report->results[i], ": not compared\n");
    }
}

static enum report_verdict print_verdict(const struct comparison *comparison)
{
    bool is_worse = comparison->worse_count > 0;
    const char *word = is_worse ? "WORSE" : comparison->better_count > 0 ? "better" : "no change";
    if (comparison->different_count > 0 || comparison->judged_count == 0) {
        fprintf(comparison->out, "\nverdict: not comparable: %s\n",
                comparison->different_count > 0
                    ? "these runs had other settings; --allow-different compares them all the same"
                    : "nothing that both have could be judged");
        return REPORT_NOT_COMPARABLE;
    }
    fprintf(comparison->out, "\nverdict: %s (%zu worse, %zu better)\n", word, comparison->worse_count,
            comparison->better_count);
    return is_worse ? REPORT_WORSE : REPORT_NOT_WORSE;
}

enum report_verdict report_compare(const struct report *now, const struct report *earlier,
                                   bool allows_different, FILE *out)
{
    struct comparison comparison = {.out = out, .allows_different = allows_different};
    fprintf(out, "compared with an earlier report\n");
    if (strcmp(now->machine, earlier->machine) != 0)
        fprintf(out, "The machine or its servers are not the same: read the times with that in mind.\n");
    for (size_t i = 0; i < now->result_count; i++) {
        comparison.now = now->results[i];
        comparison.earlier = report_find(earlier, comparison.now->name);
        if (comparison.earlier != NULL)
            compare_result(&comparison);
    }
    print_unmatched(now, earlier, "only now: ", out);
    print_unmatched(earlier, now, "only earlier: ", out);
    enum report_verdict verdict = print_verdict(&comparison);
    fflush(out);
    return verdict;
}
