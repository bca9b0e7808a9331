/* SPDX-License-Identifier: MIT */
/*
 * bench_few.c - what a request costs when few come: nothing is shared with others, and each wakes the service by itself.
 *
 * System calls are strace's, of the whole process at 300 requests a second, ticks included. A busy machine moves them
 * both ways: requests that were held up come together and share a turn, and when Redis answers late a request is parked.
 * A constant takes four by itself; where it shows fewer, believe the hit's of bench_gate.c, one after another. CPU and
 * latency are those of services that nothing watches, at 1 000 a second, beside nginx and Varnish with the same body.
 *
 * A hit waits for Redis, so what a round trip to Redis costs any client stands beside it: one thread that blocks, with
 * hiredis, asks for as many bytes at the same rate.
 */
#include "load/base/clock.h"
#include "load/base/rank.h"
#include "load/bench/bench.h"
#include "load/bench/contenders.h"
#include "load/bench/watched.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    WATCHED_PER_SECOND = 300,
    WATCHED_MS = 3000,
    PER_SECOND = 1000,
    PACE_MS = 4000,
    CONNECTIONS = 8,
    REPETITIONS = 3,
    LIMIT_MS = 10000,
    TRIPS = 1000,
    VALUE_BYTES = 1500, /* an entry with its body */
};

static const char *const names[CONTENDER_COUNT] = {"constant (/ping)", "near hit", "hit in Redis",
                                                   "nginx proxy_cache", "Varnish"};

struct few {
    struct contenders contenders;
    char path[BURST_PATH_BYTES];
    struct samples calls[CONTENDER_COUNT], p50_us[CONTENDER_COUNT], cpu_us[CONTENDER_COUNT];
    struct samples trip_us, hit_to_constant, near_to_constant, cpu_to_constant, more_in_trips;
};

static const char *path_of(const struct few *few, enum contender who)
{
    return who == CONSTANT ? "/ping" : few->path;
}

/* What it took from the first request to the last answer. */
static bool ask(uint16_t port, const char *path, uint32_t per_second, uint32_t duration_ms,
                struct latencies *out)
{
    const struct pace pace = {.ports = {port},
                              .port_count = 1,
                              .path = path,
                              .per_second = per_second,
                              .duration_ms = duration_ms,
                              .connection_count = CONNECTIONS,
                              .limit_ms = LIMIT_MS};
    return bench_pace(&pace, out);
}

/* ---- system calls ---- */

static bool count_calls(struct few *few, const struct watched *watched, enum contender who)
{
    char counted[64];
    uint64_t calls = 0;
    struct latencies latencies;
    bool good = watched_mark(watched) &&
                ask(watched->catalogd.port, path_of(few, who), WATCHED_PER_SECOND, WATCHED_MS, &latencies) &&
                watched_count(watched, counted, sizeof counted) && sscanf(counted, "%" SCNu64, &calls) == 1;
    if (good)
        samples_add(&few->calls[who], (double)calls / (double)latencies.count);
    return good;
}

static bool watch(struct bench *bench, struct few *few, bool is_near)
{
    static const char *const near[] = {"NEAR_BYTES=67108864", NULL}, *const far[] = {"NEAR_BYTES=0", NULL};
    struct watched watched = {.folder = ""};
    bool good = watched_start(bench, &watched, "strace", is_near ? near : far) &&
                bench_ask(watched.catalogd.port, few->path);
    for (size_t i = 0; good && i < REPETITIONS; i++)
        good = count_calls(few, &watched, is_near ? NEAR : HIT) &&
               (is_near || count_calls(few, &watched, CONSTANT));
    watched_stop(&watched);
    return good;
}

/* ---- CPU and latency ---- */

static bool run_one(struct few *few, enum contender who)
{
    const pid_t pid = few->contenders.at[who].pid;
    struct latencies latencies;
    uint64_t cpu_us = proc_cpu_us(pid);
    if (!ask(few->contenders.at[who].port, path_of(few, who), PER_SECOND, PACE_MS, &latencies))
        return false;
    samples_add(&few->cpu_us[who], (double)(proc_cpu_us(pid) - cpu_us) / (double)latencies.count);
    samples_add(&few->p50_us[who], latencies.p50_ms * 1000);
    return true;
}

static bool set_value(struct bench *bench)
{
    char value[VALUE_BYTES];
    memset(value, 'x', sizeof value);
    return stack_redis_do(&bench->redis, "SET few %b", value, sizeof value);
}

/* Each is due a millisecond after the one before, as the requests are. */
static bool time_trips(struct bench *bench, struct few *few)
{
    static uint64_t spans_us[TRIPS];
    uint64_t due_us = clock_us();
    for (size_t i = 0; i < TRIPS; i++) {
        for (due_us += 1000000 / PER_SECOND; clock_us() < due_us;) {
            uint64_t left_us = due_us - clock_us();
            nanosleep(&(struct timespec){.tv_nsec = (long)(left_us < 1000 ? left_us : 1000) * 1000}, NULL);
        }
        uint64_t begin_us = clock_us();
        struct redisReply *reply = stack_redis_command(&bench->redis, "GET few");
        spans_us[i] = clock_us() - begin_us;
        bool good = reply != NULL && reply->type == REDIS_REPLY_STRING;
        freeReplyObject(reply);
        if (!good)
            return false;
    }
    rank_sort(spans_us, TRIPS);
    samples_add(&few->trip_us, (double)rank_percentile(spans_us, TRIPS, 50));
    return true;
}

static bool repeat(struct bench *bench, struct few *few)
{
    bool good = set_value(bench);
    for (size_t i = 0; good && i < REPETITIONS; i++) {
        progress_repetition(i + 1);
        for (enum contender who = 0; good && who < CONTENDER_COUNT; who++)
            good = run_one(few, who);
        good = good && time_trips(bench, few);
        if (!good)
            break;
        double constant_us = few->p50_us[CONSTANT].at[i];
        samples_add(&few->hit_to_constant, few->p50_us[HIT].at[i] / constant_us);
        samples_add(&few->near_to_constant, few->p50_us[NEAR].at[i] / constant_us);
        samples_add(&few->cpu_to_constant, few->cpu_us[HIT].at[i] / few->cpu_us[CONSTANT].at[i]);
        samples_add(&few->more_in_trips, (few->p50_us[HIT].at[i] - constant_us) / few->trip_us.at[i]);
    }
    return good;
}

/* ---- all of it ---- */

static bool start(struct bench *bench, struct few *few)
{
    bool good = contenders_start(bench, &few->contenders, "NEAR_BYTES=67108864") &&
                contenders_start_rivals(&few->contenders);
    for (enum contender who = NEAR; good && who < CONTENDER_COUNT; who++)
        good = bench_ask(few->contenders.at[who].port, few->path);
    return good;
}

static void report(const struct few *few)
{
    report_heading("Few requests: 1 server loop, %d connections", CONNECTIONS);
    for (enum contender who = CONSTANT; who <= HIT; who++)
        report_row_of(names[who], "system calls, 300 a second", "", 1, &few->calls[who],
                      who == HIT ? at_most(8) : none);
    for (enum contender who = 0; who < CONTENDER_COUNT; who++)
        report_row_of(names[who], "p50, 1 000 a second", "us", 0, &few->p50_us[who], none);
    report_row("a bare round trip to Redis: p50", "us", 0, &few->trip_us, none);
    report_row("p50: hit / constant", "", 2, &few->hit_to_constant, at_most(1.5));
    report_row("p50: near hit / constant", "", 2, &few->near_to_constant, none);
    report_row("p50: (hit - constant) / a bare round trip", "", 2, &few->more_in_trips, none);
    for (enum contender who = 0; who < CONTENDER_COUNT; who++)
        report_row_of(names[who], "CPU, 1 000 a second", "us", 1, &few->cpu_us[who], none);
    report_row("CPU: hit / constant", "", 2, &few->cpu_to_constant, none);
}

bool measure_few(struct bench *bench)
{
    static struct few few;
    progress_begin("few requests, under strace and without:");
    bench_cold_path(bench, few.path);
    bool good =
        watch(bench, &few, false) && watch(bench, &few, true) && start(bench, &few) && repeat(bench, &few);
    contenders_stop(&few.contenders);
    if (good)
        report(&few);
    return progress_end(good);
}
