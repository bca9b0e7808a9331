/* SPDX-License-Identifier: MIT */
/*
 * bench_waiters.c - ten thousand requests wait in one process for one product: how soon after the fill the
 * last of them is answered, and what memory each takes.
 *
 * Memory is the growth of the process's resident set from before the first of them connected to
 * when all wait: connection, buffers and waiter, but not the kernel's socket. Every repetition has a new
 * process, for one that has held ten thousand before keeps some of their memory.
 */
#include "load/base/net.h"
#include "load/bench/bench.h"
#include "load/bench/filled.h"
#include "load/bench/usage.h"

#include <stdio.h>
#include <string.h>

enum {
    WAITERS = 10000,
    QUERY_MS = 2000,
    LOOK_MS = 1200, /* after the last request was written: all wait by then, and the query still runs */
    REPETITIONS = 3,
    LIMIT_MS = 60000,
};

/* ---- one repetition ---- */

struct crowd {
    struct stack_catalogd catalogd;
    uint64_t alone_kib, waiting_kib;
    double waiters;
    struct samples last_ms, kib_each, cpu_us_each;
};

static void look(void *context)
{
    struct crowd *crowd = context;
    crowd->waiting_kib = proc_status(crowd->catalogd.pid, "VmRSS");
    crowd->waiters = stack_catalogd_metric(&crowd->catalogd, "catalogd_connections_parked");
}

static uint64_t last_end_us(const struct burst *burst)
{
    uint64_t last_us = 0;
    for (uint32_t i = 0; i < WAITERS; i++) {
        if (burst_answers(burst)[i].end_us > last_us)
            last_us = burst_answers(burst)[i].end_us;
    }
    return last_us;
}

static bool judge(struct crowd *crowd, const struct burst *burst, uint64_t filled_us)
{
    struct burst_summary summary;
    burst_summarise(burst, &summary);
    if (summary.statuses[200] != WAITERS || filled_us == 0 || crowd->waiters < WAITERS) {
        fprintf(stderr, "bench: of %d requests %u were answered with 200, %.0f waited at once\n", WAITERS,
                summary.statuses[200], crowd->waiters);
        return false;
    }
    samples_add(&crowd->last_ms, ((double)last_end_us(burst) - (double)filled_us) / 1e3);
    samples_add(&crowd->kib_each, (double)(crowd->waiting_kib - crowd->alone_kib) / WAITERS);
    return true;
}

static bool gather(struct crowd *crowd, const struct bench *bench, const char *path)
{
    const struct burst_target target = {.host = "127.0.0.1", .port = crowd->catalogd.port};
    const struct burst_event event = {.after_ms = LOOK_MS, .run = look, .context = crowd};
    const struct burst_options options = {.targets = &target,
                                          .target_count = 1,
                                          .connection_count = WAITERS,
                                          .connect_limit_ms = LIMIT_MS,
                                          .request_limit_ms = LIMIT_MS,
                                          .path = path,
                                          .events = &event,
                                          .event_count = 1};
    struct burst *burst = NULL;
    struct filled filled;
    crowd->alone_kib = proc_status(crowd->catalogd.pid, "VmRSS");
    if (!burst_open(&options, &burst))
        return false;
    bool good = filled_listen(bench, path, &filled);
    if (good) {
        uint64_t cpu_us = usage_cpu_us(crowd->catalogd.pid);
        good = burst_run(burst);
        samples_add(&crowd->cpu_us_each, (double)(usage_cpu_us(crowd->catalogd.pid) - cpu_us) / WAITERS);
        good = judge(crowd, burst, filled_wait(&filled)) && good;
    }
    burst_close(&burst);
    return good;
}

static bool repeat(struct bench *bench, struct crowd *crowd)
{
    char delay[32], warm[BURST_PATH_BYTES], cold[BURST_PATH_BYTES];
    const char *const settings[] = {delay, NULL};
    snprintf(delay, sizeof delay, "LOAD_DELAY_MS=%d", QUERY_MS);
    bench_cold_path(bench, warm);
    bench_cold_path(bench, cold);
    bool good = bench_service_start(bench, &crowd->catalogd, settings) &&
                bench_ask(crowd->catalogd.port, warm) && gather(crowd, bench, cold);
    stack_catalogd_stop(&crowd->catalogd);
    return good;
}

bool measure_waiters(struct bench *bench)
{
    static struct crowd crowd;
    progress_begin("10 000 waiters in one process:");
    bool good = filled_tell(bench, true);
    for (size_t i = 0; good && i < REPETITIONS; i++) {
        progress_repetition(i + 1);
        good = repeat(bench, &crowd);
    }
    if (good) {
        report_heading("%d requests wait in one process for one product", WAITERS);
        report_row("from the fill to the last answer", "ms", 1, &crowd.last_ms,
                   (struct goal){GOAL_AT_MOST, 120});
        report_row("CPU of the process for each, from request to answer", "us", 1, &crowd.cpu_us_each,
                   (struct goal){GOAL_NONE, 0});
        report_row("memory of the process for each", "KiB", 2, &crowd.kib_each,
                   (struct goal){GOAL_AT_MOST, 10});
    }
    return progress_end(filled_tell(bench, false) && good);
}
