/* SPDX-License-Identifier: MIT */
/*
 * bench_waiters.c - ten thousand requests wait in one process for one product: how soon after the fill the
 * last of them is answered, what answering them costs, and what memory each takes.
 *
 * The measure is a constant: /ping, asked at once on the same ten thousand connections, after they have been answered.
 * Answering is what the process does from when all wait to the last answer; a constant is also read and parsed.
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
    uint64_t waiting_cpu_us;
    bool all_wait;
    struct samples last_ms, kib_each, cpu_us_each, answer_us_each;
    struct samples ping_last_ms, ping_us_each, last_ratio, answer_ratio, whole_ratio;
};

static void look(void *context)
{
    struct hall *hall = context;
    if (hall->all_wait) /* a round of constants, for which nobody waits */
        return;
    hall->waiting_kib = proc_status(hall->catalogd.pid, "VmRSS");
    hall->all_wait = crowd_waits(&hall->crowd, &hall->catalogd);
    hall->waiting_cpu_us = proc_cpu_us(hall->catalogd.pid);
}

static bool wait_for_fill(struct hall *hall, const struct bench *bench)
{
    struct filled filled;
    if (!filled_listen(bench, hall->crowd.path, &filled))
        return false;
    uint64_t before_us = proc_cpu_us(hall->catalogd.pid);
    bool good = crowd_ask(&hall->crowd) && hall->all_wait;
    uint64_t after_us = proc_cpu_us(hall->catalogd.pid);
    uint64_t filled_us = filled_wait(&filled);
    if (!good || filled_us == 0)
        return false;
    samples_add(&hall->cpu_us_each, (double)(after_us - before_us) / WAITERS);
    samples_add(&hall->answer_us_each, (double)(after_us - hall->waiting_cpu_us) / WAITERS);
    samples_add(&hall->last_ms, ((double)hall->crowd.last_us - (double)filled_us) / 1e3);
    samples_add(&hall->kib_each, (double)(hall->waiting_kib - hall->alone_kib) / WAITERS);
    return true;
}

static double newest(const struct samples *samples)
{
    return samples->at[samples->count - 1];
}

/* The same connections; each ratio is to the round before. */
static bool ask_constants(struct hall *hall)
{
    snprintf(hall->crowd.path, sizeof hall->crowd.path, "/ping");
    uint64_t before_us = proc_cpu_us(hall->catalogd.pid);
    if (!crowd_ask(&hall->crowd))
        return false;
    samples_add(&hall->ping_us_each, (double)(proc_cpu_us(hall->catalogd.pid) - before_us) / WAITERS);
    samples_add(&hall->ping_last_ms, (double)(hall->crowd.last_us - hall->crowd.sent_us) / 1e3);
    samples_add(&hall->last_ratio, newest(&hall->last_ms) / newest(&hall->ping_last_ms));
    samples_add(&hall->answer_ratio, newest(&hall->answer_us_each) / newest(&hall->ping_us_each));
    samples_add(&hall->whole_ratio, newest(&hall->cpu_us_each) / newest(&hall->ping_us_each));
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
    bool good = crowd_open(&hall->crowd) && wait_for_fill(hall, bench) && ask_constants(hall);
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
        static const struct goal none = {GOAL_NONE, 0};
        report_row("from the fill to the last answer", "ms", 1, &hall.last_ms, none);
        report_row("constants at once: from the first request to the last answer", "ms", 1,
                   &hall.ping_last_ms, none);
        report_row("last answer / constants'", "", 2, &hall.last_ratio, (struct goal){GOAL_AT_MOST, 1.5});
        report_row("CPU of the process to answer each that waits", "us", 1, &hall.answer_us_each, none);
        report_row("CPU of the process for each, from request to answer", "us", 1, &hall.cpu_us_each, none);
        report_row("CPU of the process for each constant", "us", 1, &hall.ping_us_each, none);
        report_row("CPU to answer / constants'", "", 2, &hall.answer_ratio, (struct goal){GOAL_AT_MOST, 1.2});
        report_row("CPU from request to answer / constants'", "", 2, &hall.whole_ratio, none);
        report_row("memory of the process for each", "KiB", 2, &hall.kib_each,
                   (struct goal){GOAL_AT_MOST, 10});
    }
    return progress_end(filled_tell(bench, false) && good);
}
