/* SPDX-License-Identifier: MIT */
/* herd_rig.h - what the tests of the herd share: the server, and a run from start to end. */
#pragma once

#include "load/base/clock.h"
#include "load/base/http.h"
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

/* What is asked, by whom, and what came of it: of the test that runs. */
static struct work work;
static struct herd *herd;
static struct run {
    struct records records;
    struct herd_strain strain;
    struct herd_progress progress;
    uint64_t begin_us;
    bool good;
    char why[WORK_WHY_BYTES];
} run;

static bool start_server(void)
{
    return herd_server_start(&server);
}

static bool stop_server(void)
{
    herd_server_stop(&server);
    return true;
}

static void add_target(uint16_t port)
{
    char text[32], why[WORK_WHY_BYTES];
    snprintf(text, sizeof text, "127.0.0.1:%u", (unsigned)port);
    assert_true(work_target_parse(text, &work.targets[work.target_count++], why));
}

/* Connections of the run before may still wait to be accepted: whoever comes behind them is answered after that. */
static void forget_all_runs(void)
{
    struct http_answer answer;
    assert_true(http_ask(&(struct http_request){.host = "127.0.0.1",
                                                .port = server.ports[HERD_SERVER_HTTP],
                                                .path = "/ok",
                                                .deadline_ms = RUN_LIMIT_MS},
                         &answer));
    http_answer_clear(&answer);
    herd_server_forget(&server);
}

/* Two generators; one target, unless more are added. */
static void burst_of(uint32_t connections, const char *path)
{
    char why[WORK_WHY_BYTES] = "";
    work_init(&work);
    add_target(server.ports[HERD_SERVER_HTTP]);
    assert_true(work_url_add(&work, path, why));
    work.connection_count = connections;
    work.request_limit_ms = RUN_LIMIT_MS; /* nobody is too late whom the test does not want to be */
    work.generator_count = connections > 1 ? 2 : 1;
    forget_all_runs();
}

static void rate_of(uint32_t per_second, uint32_t duration_ms, const char *path)
{
    burst_of(50, path);
    work.shape = WORK_RATE;
    work.per_second = per_second;
    work.duration_ms = duration_ms;
}

static void run_clear(void)
{
    records_clear(&run.records);
    run = (struct run){.good = false};
}

static void run_begin(void)
{
    run_clear();
    if (!herd_start(&work, &herd, run.why) || !herd_release(herd, &run.begin_us, run.why))
        fail_msg("%s", run.why);
}

static void watch_until(const bool *is_so)
{
    uint64_t end_us = clock_after_ms(RUN_LIMIT_MS);
    do {
        clock_pause_ms(1);
        herd_watch(herd, &run.progress);
    } while (!*is_so && clock_us() < end_us);
    assert_true(*is_so);
}

static void run_watch(void)
{
    watch_until(&run.progress.finished);
}

/* Watches until one of run.progress's counters is that large. */
static void wait_until(const uint64_t *counter, uint64_t count)
{
    uint64_t end_us = clock_after_ms(RUN_LIMIT_MS);
    do {
        clock_pause_ms(1);
        herd_watch(herd, &run.progress);
    } while (*counter < count && clock_us() < end_us);
    assert_true(*counter >= count);
}

static void wait_until_sent(uint64_t count)
{
    wait_until(&run.progress.sent, count);
}

static void wait_until_connected(void)
{
    watch_until(&run.progress.connected);
}

static void run_end(void)
{
    run.good = herd_end(&herd, &run.records, &run.strain, run.why);
    assert_null(herd);
    for (size_t i = 1; i < run.records.count; i++)
        assert_true(run.records.at[i - 1].due_us <= run.records.at[i].due_us);
}

static void run_all(void)
{
    run_begin();
    run_watch();
    run_end();
    if (!run.good)
        fail_msg("%s", run.why);
}

static uint32_t count_outcome(enum record_outcome outcome)
{
    uint32_t count = 0;
    for (size_t i = 0; i < run.records.count; i++)
        count += run.records.at[i].outcome == outcome;
    return count;
}

static bool clear_run(void)
{
    run_clear();
    return true;
}
