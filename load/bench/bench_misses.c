/* SPDX-License-Identifier: MIT */
/*
 * bench_misses.c - what a hit and a miss ask of Redis.
 *
 * Commands are counted by Redis, one hit after another, so that none shares a lookup; its own count for the
 * scripts of a miss includes what they call. Round trips are counted by catalogd: batches of commands written
 * to Redis and waited for. A miss is also looked at with permits for the fleet, of which one is always free.
 */
#include "load/bench/bench.h"

#include <stdio.h>

enum { HITS = 500, MISSES = 200, REPETITIONS = 3 };

struct costs {
    struct stack_catalogd catalogd;
    struct samples hit_commands, miss_commands, miss_trips;
};

static bool ask_often(uint16_t port, const char *path, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!bench_ask(port, path))
            return false;
    }
    return true;
}

static double round_trips(const struct costs *costs)
{
    return stack_catalogd_metric(&costs->catalogd, "guard_redis_round_trips_total");
}

static bool count_hits(struct bench *bench, struct costs *costs)
{
    char path[BURST_PATH_BYTES];
    bench_cold_path(bench, path);
    if (!bench_ask(costs->catalogd.port, path))
        return false;
    uint64_t before = stack_redis_calls(&bench->redis, NULL);
    bool good = ask_often(costs->catalogd.port, path, HITS);
    samples_add(&costs->hit_commands, (double)(stack_redis_calls(&bench->redis, NULL) - before) / HITS);
    return good;
}

static bool count_misses(struct bench *bench, struct costs *costs)
{
    double trips = round_trips(costs);
    uint64_t commands = stack_redis_calls(&bench->redis, NULL);
    bool good = bench_ask_each(costs->catalogd.port, bench_cold_products(bench, MISSES), MISSES);
    samples_add(&costs->miss_trips, (round_trips(costs) - trips) / MISSES);
    samples_add(&costs->miss_commands, (double)(stack_redis_calls(&bench->redis, NULL) - commands) / MISSES);
    return good;
}

static bool count_one(struct bench *bench, struct costs *costs, const char *permits)
{
    const char *const settings[] = {"SERVER_LOOPS=1", permits, NULL};
    bool good = bench_service_start(bench, &costs->catalogd, settings);
    for (size_t i = 0; good && i < REPETITIONS; i++) {
        progress_repetition(i + 1);
        good = count_hits(bench, costs) && count_misses(bench, costs);
    }
    stack_catalogd_stop(&costs->catalogd);
    return good;
}

bool measure_misses(struct bench *bench)
{
    static struct costs costs, permitted;
    static const struct goal three = {GOAL_AT_MOST, 3};
    progress_begin("Redis commands and round trips:");
    bool good = count_one(bench, &costs, "LOAD_PERMITS=0") && count_one(bench, &permitted, "LOAD_PERMITS=8");
    if (good) {
        report_heading("What one request asks of Redis");
        report_row("commands per hit, its tag included", "", 1, &costs.hit_commands, three);
        report_row("round trips per miss, counted by catalogd", "", 1, &costs.miss_trips, three);
        report_row("commands per miss, scripts' own included", "", 1, &costs.miss_commands, none);
        report_row("round trips per miss with permits", "", 1, &permitted.miss_trips, three);
        report_row("commands per miss with permits", "", 1, &permitted.miss_commands, none);
    }
    return progress_end(good);
}
