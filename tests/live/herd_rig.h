/* SPDX-License-Identifier: MIT */
/* herd_rig.h - what the tests of the herd share: the server, and a run from start to end. */
#ifndef TESTS_LIVE_HERD_RIG_H
#define TESTS_LIVE_HERD_RIG_H

#include "load/base/clock.h"
#include "load/herd/herd.h"
#include "tests/support/herd_server.h"
#include "tests/support/test.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUN_LIMIT_MS = 60000 };

static struct herd_server server;

static int start_server(void **state)
{
    (void)state;
    return herd_server_start(&server) ? 0 : -1;
}

static int stop_server(void **state)
{
    (void)state;
    herd_server_stop(&server);
    return 0;
}

static void add_target(struct work *work, uint16_t port)
{
    char text[32], why[WORK_WHY_BYTES];
    snprintf(text, sizeof text, "127.0.0.1:%u", (unsigned)port);
    assert_true(work_target_parse(text, &work->targets[work->target_count++], why));
}

/* Two generators; one target, unless more are added. */
static void burst_of(struct work *work, uint32_t connections, const char *path)
{
    char why[WORK_WHY_BYTES] = "";
    work_init(work);
    add_target(work, server.ports[HERD_SERVER_HTTP]);
    assert_true(work_url_add(work, path, why));
    work->connection_count = connections;
    work->generator_count = connections > 1 ? 2 : 1;
    herd_server_forget(&server);
}

static void rate_of(struct work *work, uint32_t per_second, uint32_t duration_ms, const char *path)
{
    burst_of(work, 50, path);
    work->shape = WORK_RATE;
    work->per_second = per_second;
    work->duration_ms = duration_ms;
}

struct run {
    struct records records;
    struct herd_strain strain;
    struct herd_progress progress;
    uint64_t begin_us;
    bool good;
    char why[WORK_WHY_BYTES];
};

static struct herd *run_begin(const struct work *work, struct run *run)
{
    struct herd *herd = NULL;
    *run = (struct run){.good = false};
    if (!herd_start(work, &herd, run->why) || !herd_release(herd, &run->begin_us, run->why))
        fail_msg("%s", run->why);
    return herd;
}

static void run_watch(struct herd *herd, struct run *run)
{
    uint64_t end_us = clock_after_ms(RUN_LIMIT_MS);
    do {
        clock_pause_ms(1);
        herd_watch(herd, &run->progress);
    } while (!run->progress.finished && clock_us() < end_us);
    assert_true(run->progress.finished);
}

/* Watches until one of run->progress's counters is that large. */
static void wait_until(struct herd *herd, struct run *run, const uint64_t *counter, uint64_t count)
{
    uint64_t end_us = clock_after_ms(RUN_LIMIT_MS);
    do {
        clock_pause_ms(1);
        herd_watch(herd, &run->progress);
    } while (*counter < count && clock_us() < end_us);
    assert_true(*counter >= count);
}

static void wait_until_sent(struct herd *herd, struct run *run, uint64_t count)
{
    wait_until(herd, run, &run->progress.sent, count);
}

static void wait_until_connected(struct herd *herd, struct run *run)
{
    uint64_t end_us = clock_after_ms(RUN_LIMIT_MS);
    do {
        clock_pause_ms(1);
        herd_watch(herd, &run->progress);
    } while (!run->progress.connected && clock_us() < end_us);
    assert_true(run->progress.connected);
}

static void run_end(struct herd *herd, struct run *run)
{
    run->good = herd_end(&herd, &run->records, &run->strain, run->why);
    assert_null(herd);
    for (size_t i = 1; i < run->records.count; i++)
        assert_true(run->records.at[i - 1].due_us <= run->records.at[i].due_us);
}

static void run_all(const struct work *work, struct run *run)
{
    struct herd *herd = run_begin(work, run);
    run_watch(herd, run);
    run_end(herd, run);
    if (!run->good)
        fail_msg("%s", run->why);
}

static uint32_t count_outcome(const struct run *run, enum record_outcome outcome)
{
    uint32_t count = 0;
    for (size_t i = 0; i < run->records.count; i++)
        count += run->records.at[i].outcome == outcome;
    return count;
}

static void run_clear(struct run *run)
{
    records_clear(&run->records);
}

#endif
