/* SPDX-License-Identifier: MIT */
/*
 * bench_waiters.c - ten thousand requests wait in one process for one product: how soon after the fill the
 * last of them is answered, and what memory each takes.
 *
 * Memory is the growth of the process's resident set from before the first of them connected to
 * when all wait: connection, buffers and waiter, but not the kernel's socket. Every repetition has a new
 * process, for one that has held ten thousand before keeps some of their memory.
 */
#include "load/bench/bench.h"
#include "load/bench/crowd.h"
#include "load/bench/filled.h"

#include <stdio.h>

enum {
    WAITERS = 10000,
    QUERY_MS = 2000,
    LOOK_MS = 1200, /* after the last request was written: all wait by then, and the query still runs */
    REPETITIONS = 3,
};

/* ---- one repetition ---- */

struct hall {
    struct stack_catalogd catalogd;
    struct crowd crowd;
    uint64_t alone_kib, waiting_kib;
    bool all_wait;
    struct samples last_ms, kib_each, cpu_us_each;
};

static void look(void *context)
{
    struct hall *hall = context;
    hall->waiting_kib = proc_status(hall->catalogd.pid, "VmRSS");
    hall->all_wait = crowd_waits(&hall->crowd, &hall->catalogd);
}

static bool wait_for_fill(struct hall *hall, const struct bench *bench)
{
    struct filled filled;
    if (!filled_listen(bench, hall->crowd.path, &filled))
        return false;
    uint64_t cpu_us = proc_cpu_us(hall->catalogd.pid);
    bool good = crowd_ask(&hall->crowd) && hall->all_wait;
    cpu_us = proc_cpu_us(hall->catalogd.pid) - cpu_us;
    uint64_t filled_us = filled_wait(&filled);
    if (!good || filled_us == 0)
        return false;
    samples_add(&hall->cpu_us_each, (double)cpu_us / WAITERS);
    samples_add(&hall->last_ms, ((double)hall->crowd.last_us - (double)filled_us) / 1e3);
    samples_add(&hall->kib_each, (double)(hall->waiting_kib - hall->alone_kib) / WAITERS);
    return true;
}

static bool gather(struct hall *hall, struct bench *bench)
{
    hall->crowd = (struct crowd){
        .ports = {hall->catalogd.port},
        .port_count = 1,
        .size = WAITERS,
        .meanwhile = {.after_ms = LOOK_MS, .run = look, .context = hall},
    };
    hall->all_wait = false;
    bench_cold_path(bench, hall->crowd.path);
    hall->alone_kib = proc_status(hall->catalogd.pid, "VmRSS");
    bool good = crowd_open(&hall->crowd) && wait_for_fill(hall, bench);
    crowd_close(&hall->crowd);
    return good;
}

static bool repeat(struct bench *bench, struct hall *hall)
{
    char delay[32], warm[BURST_PATH_BYTES];
    const char *const settings[] = {delay, NULL};
    snprintf(delay, sizeof delay, "LOAD_DELAY_MS=%d", QUERY_MS);
    bench_cold_path(bench, warm);
    bool good = bench_service_start(bench, &hall->catalogd, settings) &&
                bench_ask(hall->catalogd.port, warm) && gather(hall, bench);
    stack_catalogd_stop(&hall->catalogd);
    return good;
}

bool measure_waiters(struct bench *bench)
{
    static struct hall hall;
    progress_begin("10 000 waiters in one process:");
    bool good = filled_tell(bench, true);
    for (size_t i = 0; good && i < REPETITIONS; i++) {
        progress_repetition(i + 1);
        good = repeat(bench, &hall);
    }
    if (good) {
        report_heading("%d requests wait in one process for one product", WAITERS);
        report_row("from the fill to the last answer", "ms", 1, &hall.last_ms,
                   (struct goal){GOAL_AT_MOST, 120});
        report_row("CPU of the process for each, from request to answer", "us", 1, &hall.cpu_us_each,
                   (struct goal){GOAL_NONE, 0});
        report_row("memory of the process for each", "KiB", 2, &hall.kib_each,
                   (struct goal){GOAL_AT_MOST, 10});
    }
    return progress_end(filled_tell(bench, false) && good);
}
