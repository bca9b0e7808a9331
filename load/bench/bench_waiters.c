/* SPDX-License-Identifier: MIT */
/*
 * bench_waiters.c - ten thousand requests wait in one process for one product: how soon after the fill the
 * last of them is answered, what answering them costs, and what memory each takes.
 *
 * The measure is a constant: /ping, asked at once on the same ten thousand connections, after they have been answered.
 * Answering is what the process does from when all wait to the last answer; a constant is also read and parsed.
 * Every repetition has a new process, for one that has held ten thousand before keeps some of their memory.
 */
#include "load/bench/bench.h"
#include "load/bench/hall.h"

#include <stdio.h>

enum {
    WAITERS = 10000,
    QUERY_MS = 2000,
    LOOK_MS = 1200, /* after the last request was written: all wait by then, and the query still runs */
    REPETITIONS = 3,
};

/* ---- one repetition ---- */

struct waiters {
    struct stack_catalogd catalogd;
    struct hall hall;
    struct samples last_ms, kib_each, cpu_us_each, answer_us_each;
    struct samples constant_last_ms, constant_us_each, last_ratio, answer_ratio, whole_ratio;
};

static bool gather(struct bench *bench, struct waiters *waiters)
{
    struct hall *hall = &waiters->hall;
    bool good = hall_open(bench, hall, &waiters->catalogd, WAITERS, LOOK_MS) && hall_wait(bench, hall) &&
                hall_ask_constant(hall);
    hall_close(hall);
    if (!good)
        return false;
    samples_add(&waiters->cpu_us_each, hall->cpu_us_each);
    samples_add(&waiters->answer_us_each, hall->answer_us_each);
    samples_add(&waiters->last_ms, hall->last_ms);
    samples_add(&waiters->kib_each, hall->kib_each);
    samples_add(&waiters->constant_us_each, hall->constant_us_each);
    samples_add(&waiters->constant_last_ms, hall->constant_last_ms);
    samples_add(&waiters->last_ratio, hall->last_ms / hall->constant_last_ms);
    samples_add(&waiters->answer_ratio, hall->answer_us_each / hall->constant_us_each);
    samples_add(&waiters->whole_ratio, hall->cpu_us_each / hall->constant_us_each);
    return true;
}

static bool repeat(struct bench *bench, struct waiters *waiters)
{
    char delay[32], warm[BURST_PATH_BYTES];
    const char *const settings[] = {delay, NULL};
    snprintf(delay, sizeof delay, "LOAD_DELAY_MS=%d", QUERY_MS);
    bench_cold_path(bench, warm);
    bool good = bench_service_start(bench, &waiters->catalogd, settings) &&
                bench_ask(waiters->catalogd.port, warm) && gather(bench, waiters);
    stack_catalogd_stop(&waiters->catalogd);
    return good;
}

bool measure_waiters(struct bench *bench)
{
    static struct waiters waiters;
    progress_begin("10 000 waiters in one process:");
    bool good = filled_tell(bench, true);
    for (size_t i = 0; good && i < REPETITIONS; i++) {
        progress_repetition(i + 1);
        good = repeat(bench, &waiters);
    }
    if (good) {
        report_heading("%d requests wait in one process for one product", WAITERS);
        report_row("from the fill to the last answer", "ms", 1, &waiters.last_ms, none);
        report_row("constants at once: from the first request to the last answer", "ms", 1,
                   &waiters.constant_last_ms, none);
        report_row("last answer / constants'", "", 2, &waiters.last_ratio, at_most(1.5));
        report_row("CPU of the process to answer each that waits", "us", 1, &waiters.answer_us_each, none);
        report_row("CPU of the process for each, from request to answer", "us", 1, &waiters.cpu_us_each,
                   none);
        report_row("CPU of the process for each constant", "us", 1, &waiters.constant_us_each, none);
        report_row("CPU to answer / constants'", "", 2, &waiters.answer_ratio, at_most(1.2));
        report_row("CPU from request to answer / constants'", "", 2, &waiters.whole_ratio, none);
        report_row("memory of the process for each", "KiB", 2, &waiters.kib_each, at_most(10));
    }
    return progress_end(filled_tell(bench, false) && good);
}
