/* SPDX-License-Identifier: MIT */
/* strain.c - see herd.h. */
#include "load/herd/herd.h"

#include "load/herd/herd_shared.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LATE_US = 1000,             /* counted as late */
    SPREAD_HARMLESS_US = 20000, /* so far apart the requests of a burst may be */
    DIGITS = 65536,
};
static const double BUSY = 0.9; /* with less than a tenth of a core left, nothing is certain */

/* ---- the numbers ---- */

struct digit_count {
    uint64_t counts[DIGITS];
};

/* Counts the numbers by 16 bits of them; with `high`, only those that have these upper 16 bits. */
static uint64_t count_digits(struct digit_count *digits, const uint32_t *const *lists, const uint32_t *counts,
                             size_t list_count, const uint32_t *high)
{
    uint64_t sum = 0;
    memset(digits, 0, sizeof *digits);
    for (size_t i = 0; i < list_count; i++) {
        for (uint32_t j = 0; j < counts[i]; j++) {
            uint32_t number = lists[i][j];
            if (number == 0 || (high != NULL && number >> 16 != *high))
                continue;
            digits->counts[high != NULL ? number & 0xffff : number >> 16]++;
            sum++;
        }
    }
    return sum;
}

/* The digit in which the rank falls; *rank then counts from its begin. */
static uint32_t digit_of(const struct digit_count *digits, uint64_t *rank)
{
    uint32_t digit = 0;
    while (*rank > digits->counts[digit])
        *rank -= digits->counts[digit++];
    return digit;
}

uint32_t strain_rank(const uint32_t *const *lists, const uint32_t *counts, size_t list_count, double percent)
{
    struct digit_count *digits = malloc(sizeof *digits);
    uint32_t number = 0;
    uint64_t sum = digits != NULL ? count_digits(digits, lists, counts, list_count, NULL) : 0;
    if (sum > 0) {
        uint64_t rank = (uint64_t)ceil(percent / 100 * (double)sum);
        rank = rank == 0 ? 1 : rank;
        uint32_t high = digit_of(digits, &rank);
        count_digits(digits, lists, counts, list_count, &high);
        number = (high << 16 | digit_of(digits, &rank)) - 1;
    }
    free(digits);
    return number;
}

static void measure_late(const struct work *work, const struct herd_job *jobs, struct herd_strain *out)
{
    const uint32_t *lists[WORK_GENERATORS_MAX];
    uint32_t counts[WORK_GENERATORS_MAX];
    for (uint32_t i = 0; i < work->generator_count; i++) {
        lists[i] = jobs[i].late_us;
        counts[i] = (uint32_t)atomic_load(&jobs[i].shared->posts[i].due);
        for (uint32_t j = 0; j < counts[i]; j++)
            out->late_count += lists[i][j] > LATE_US + 1;
    }
    out->late_p99_us = strain_rank(lists, counts, work->generator_count, 99);
    out->late_max_us = strain_rank(lists, counts, work->generator_count, 100);
}

static void measure_cores(const struct work *work, const struct herd_shared *shared, struct herd_strain *out)
{
    for (uint32_t i = 0; i < work->generator_count; i++) {
        const struct herd_post *post = &shared->posts[i];
        double active_us = (double)atomic_load(&post->active_us);
        out->waited_count += atomic_load(&post->waited_count);
        if (active_us <= 0)
            continue;
        out->busiest = fmax(out->busiest, fmin(1, (double)atomic_load(&post->cpu_us) / active_us));
        out->starved = fmax(out->starved, fmin(1, (double)atomic_load(&post->starved_us) / active_us));
    }
}

/* Records of one round are due at the same instant and stand together. */
static uint64_t widest_round_us(const struct records *records)
{
    uint64_t widest_us = 0, round_us = 0;
    uint32_t first_us = 0, last_us = 0;
    for (size_t i = 0; i < records->count; i++) {
        const struct record *record = &records->at[i];
        if (record->sent_us == 0)
            continue;
        if (record->due_us != round_us)
            first_us = last_us = record->sent_us;
        round_us = record->due_us;
        first_us = record->sent_us < first_us ? record->sent_us : first_us;
        last_us = record->sent_us > last_us ? record->sent_us : last_us;
        widest_us = last_us - first_us > widest_us ? last_us - first_us : widest_us;
    }
    return widest_us;
}

void strain_measure(const struct work *work, const struct herd_job *jobs, const struct records *records,
                    struct herd_strain *out)
{
    *out = (struct herd_strain){.generator_count = work->generator_count};
    measure_late(work, jobs, out);
    measure_cores(work, jobs[0].shared, out);
    if (work->shape == WORK_BURST)
        out->spread_us = widest_round_us(records);
}

/* ---- the words ---- */

__attribute__((format(printf, 2, 3))) static void say(struct herd_strain *strain, const char *format, ...)
{
    size_t used = strlen(strain->verdict);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(strain->verdict + used, sizeof strain->verdict - used, format, arguments);
    va_end(arguments);
}

static void say_cores(struct herd_strain *strain)
{
    say(strain, " (busiest of %u: %.0f %% of a core", strain->generator_count, strain->busiest * 100);
    if (strain->starved >= 0.05)
        say(strain, ", %.0f %% waiting for one", strain->starved * 100);
    say(strain, ").");
}

static void judge_burst(const struct work *work, uint64_t median_us, struct herd_strain *strain)
{
    strain->is_bottleneck = strain->spread_us > SPREAD_HARMLESS_US && strain->spread_us > median_us / 2;
    say(strain, "The %u requests of a round left within %.1f ms", work->connection_count,
        (double)strain->spread_us / 1000);
    say_cores(strain);
    if (strain->is_bottleneck)
        say(strain, " With a median of %.1f ms that is not one instant: use more cores or fewer connections.",
            (double)median_us / 1000);
}

/* A lag that is a tenth of the latencies spoils them, whether a core or a connection was missing. */
static void judge_rate(const struct work *work, uint64_t request_count, uint64_t p99_us,
                       struct herd_strain *strain)
{
    bool is_late = strain->late_p99_us > LATE_US && strain->late_p99_us > p99_us / 10;
    bool is_prompt = strain->late_p99_us <= LATE_US; /* otherwise it may still be harmless */
    bool lacks_connections = is_late && strain->waited_count > strain->late_count / 2;
    strain->is_bottleneck = is_late || strain->busiest > BUSY;
    if (is_late)
        say(strain,
            "The generator did NOT keep up: %" PRIu64 " of %" PRIu64
            " requests (%.3g %%) were more than 1 ms "
            "late, 1 %% of all by %.3g s or more",
            strain->late_count, request_count, 100.0 * (double)strain->late_count / (double)request_count,
            (double)strain->late_p99_us / 1e6);
    else
        say(strain, "%s99 %% of the requests left within %.3g ms of their time%s",
            is_prompt ? "The generator kept up: " : "", (double)strain->late_p99_us / 1000,
            is_prompt ? "" : ", a tenth of the latency or less");
    say_cores(strain);
    if (lacks_connections)
        say(strain, " %" PRIu64 " found all %u connections taken: allow more of them, or ask for less.",
            strain->waited_count, work->connection_count);
    else if (!is_prompt && !is_late && strain->waited_count > 0)
        say(strain, " %" PRIu64 " found all %u connections taken.", strain->waited_count,
            work->connection_count);
    else if (strain->is_bottleneck)
        say(strain, " The latencies contain its lag: ask for less, or give it cores of its own.");
}

void strain_judge(const struct work *work, uint64_t request_count, uint64_t median_us, uint64_t p99_us,
                  struct herd_strain *strain)
{
    strain->verdict[0] = '\0';
    if (work->shape == WORK_BURST)
        judge_burst(work, median_us, strain);
    else
        judge_rate(work, request_count, p99_us, strain);
}
