/* SPDX-License-Identifier: MIT */
/*
 * bench_tail.c - what those who ask for something else feel while thousands wait for one cold product.
 *
 * A probe asks for cached products at a fixed rate, see probe.h; in the middle of it 3 000 connections ask
 * for one cold product at once. Only what was due while the burst lasted counts; without a burst, as much
 * from the same stretch of the probe.
 */
#include "load/base/net.h"
#include "load/base/probe.h"
#include "load/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    HERD = 3000,
    QUERY_MS = 100,
    WARM_COUNT = 100,
    PER_SECOND = 2000,
    PROBE_COUNT = 1600, /* 0.8 s */
    BEFORE_MS = 300,    /* the burst comes this long after the probe has begun */
    CALM_MS = 150,      /* without a burst: as long as one lasts */
    CONNECTIONS = 32,
    REPETITIONS = 5,
    LIMIT_MS = 30000,
};

struct tail {
    struct stack_catalogd catalogd;
    char paths[WARM_COUNT][BURST_PATH_BYTES];
    const char *path_list[WARM_COUNT];
    struct probe_answer answers[PROBE_COUNT];
    struct samples calm_p50_ms, calm_p99_ms, p50_ms, p99_ms, max_ms;
};

struct span {
    uint64_t begin_us, end_us;
};

static bool warm_up(struct bench *bench, struct tail *tail)
{
    bool good = true;
    for (size_t i = 0; i < WARM_COUNT && good; i++) {
        bench_cold_path(bench, tail->paths[i]);
        tail->path_list[i] = tail->paths[i];
        good = bench_ask(tail->catalogd.port, tail->paths[i]);
    }
    return good;
}

static bool burst_span(struct burst *burst, struct span *span)
{
    struct burst_summary summary;
    if (!burst_run(burst))
        return false;
    burst_summarise(burst, &summary);
    if (summary.statuses[200] != HERD)
        fprintf(stderr, "bench: only %u of %d requests were answered with 200\n", summary.statuses[200],
                HERD);
    span->begin_us = burst_answers(burst)[0].sent_us;
    span->end_us = span->begin_us + summary.span_us;
    return summary.statuses[200] == HERD;
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* Percentiles of what was due within the span. */
static void judge(const struct tail *tail, struct span span, struct samples *p50_ms, struct samples *p99_ms,
                  struct samples *max_ms)
{
    static uint64_t times_us[PROBE_COUNT];
    size_t count = 0;
    for (size_t i = 0; i < PROBE_COUNT; i++) {
        const struct probe_answer *answer = &tail->answers[i];
        if (answer->due_us >= span.begin_us && answer->due_us <= span.end_us)
            times_us[count++] = answer->end_us - answer->due_us;
    }
    qsort(times_us, count, sizeof *times_us, compare_u64);
    samples_add(p50_ms, count > 0 ? (double)burst_percentile(times_us, count, 50) / 1e3 : 0);
    samples_add(p99_ms, count > 0 ? (double)burst_percentile(times_us, count, 99) / 1e3 : 0);
    if (max_ms != NULL)
        samples_add(max_ms, count > 0 ? (double)times_us[count - 1] / 1e3 : 0);
}

static bool start_probe(struct tail *tail, struct probe **probe)
{
    const struct probe_options options = {.port = tail->catalogd.port,
                                          .paths = tail->path_list,
                                          .path_count = WARM_COUNT,
                                          .connection_count = CONNECTIONS,
                                          .per_second = PER_SECOND,
                                          .request_count = PROBE_COUNT};
    return probe_start(&options, probe);
}

static bool run_calm(struct tail *tail)
{
    struct probe *probe;
    if (!start_probe(tail, &probe))
        return false;
    uint64_t begin_us = net_now_us() + BEFORE_MS * 1000;
    bool good = probe_finish(&probe, tail->answers);
    judge(tail, (struct span){begin_us, begin_us + CALM_MS * 1000}, &tail->calm_p50_ms, &tail->calm_p99_ms,
          NULL);
    return good;
}

static bool run_burst(struct bench *bench, struct tail *tail)
{
    char path[BURST_PATH_BYTES];
    const struct burst_target target = {.host = "127.0.0.1", .port = tail->catalogd.port};
    const struct burst_options options = {.targets = &target,
                                          .target_count = 1,
                                          .connection_count = HERD,
                                          .connect_limit_ms = LIMIT_MS,
                                          .request_limit_ms = LIMIT_MS,
                                          .path = path};
    struct burst *burst = NULL;
    struct probe *probe = NULL;
    struct span span = {0, 0};
    bench_cold_path(bench, path);
    if (!burst_open(&options, &burst))
        return false;
    bool good = start_probe(tail, &probe);
    if (good) {
        net_pause_ms(BEFORE_MS);
        good = burst_span(burst, &span);
        good = probe_finish(&probe, tail->answers) && good;
    }
    burst_close(&burst);
    if (good)
        judge(tail, span, &tail->p50_ms, &tail->p99_ms, &tail->max_ms);
    return good;
}

static void report(const struct tail *tail)
{
    static const struct goal none = {GOAL_NONE, 0};
    report_heading("Hits on other keys, %d a second, while %d wait for one cold key; 2 server loops",
                   PER_SECOND, HERD);
    report_row("without a burst: p50", "ms", 2, &tail->calm_p50_ms, none);
    report_row("without a burst: p99", "ms", 2, &tail->calm_p99_ms, none);
    report_row("during a burst: p50", "ms", 2, &tail->p50_ms, none);
    report_row("during a burst: p99", "ms", 2, &tail->p99_ms, (struct goal){GOAL_AT_MOST, 5});
    report_row("during a burst: slowest", "ms", 2, &tail->max_ms, none);
}

bool measure_tail(struct bench *bench)
{
    static struct tail tail;
    char delay[32];
    const char *const settings[] = {"SERVER_LOOPS=2", delay, NULL};
    static const char *const quick[] = {"SERVER_LOOPS=1", NULL};
    progress_begin("hits during a burst of 3 000:");
    snprintf(delay, sizeof delay, "LOAD_DELAY_MS=%d", QUERY_MS);
    bool good = bench_service_start(bench, &tail.catalogd, quick) && warm_up(bench, &tail) &&
                stack_catalogd_stop(&tail.catalogd) && bench_service_start(bench, &tail.catalogd, settings);
    for (size_t i = 0; good && i < REPETITIONS; i++) {
        progress_repetition(i + 1);
        good = run_calm(&tail) && run_burst(bench, &tail);
    }
    stack_catalogd_stop(&tail.catalogd);
    if (good)
        report(&tail);
    return progress_end(good);
}
