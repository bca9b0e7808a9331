/* SPDX-License-Identifier: MIT */
/*
 * bench_growth.c - how cost grows: with keys, keys at once, tags, the size of values, waiters, connections, processes.
 *
 * Each curve is a row with a bar for each point. What the library alone can show is measured in processes that hold
 * nothing else (growth.h): there is no HTTP in it, and a million of something fits. A fleet of a thousand is a thousand
 * guards in one process: each has threads, a login and a subscription of its own, and Redis cannot tell them from a thousand
 * processes. What happens around the guard, catalogd shows over HTTP.
 *
 * One point is measured once: read the shape of a curve, not its last digit.
 */
#include "load/base/clock.h"
#include "load/base/net.h"
#include "load/bench/contenders.h"
#include "load/bench/growth.h"
#include "load/bench/hall.h"
#include "load/stack/wrk.h"

#include <stdio.h>
#include <sys/resource.h>

enum {
    POINTS_MAX = 6,
    LINES_MAX = 8,
    QUERY_MS = 3000,
    LOOK_MS = 2000,
    REQUESTS_EACH = 16,
    WRK_CONNECTIONS = 16,
    SECONDS = 1,
    SETTLE_MS = 300,
};

/* What a point has, in the order of its curve's lines. */
typedef bool measure_point(struct bench *bench, double at, double *numbers);

struct line {
    const char *what, *unit;
    unsigned decimals;
};

struct curve {
    const char *name, *heading;
    measure_point *measure;
    const struct line *lines;
    size_t line_count;
    const char *of; /* what there are so many of */
    size_t count;
    double at[POINTS_MAX];
};

static bool grow(struct bench *bench, const struct curve *curve)
{
    double numbers[POINTS_MAX][LINES_MAX] = {{0}};
    bool good = true;
    progress_begin(curve->name);
    for (size_t i = 0; good && i < curve->count; i++) {
        progress_repetition(i + 1);
        good = curve->measure(bench, curve->at[i], numbers[i]);
        if (!good)
            fprintf(stderr, "bench: growth: a point was not measured\n");
    }
    if (good)
        report_heading("Growth: %s", curve->heading);
    for (size_t line = 0; good && line < curve->line_count; line++) {
        double ys[POINTS_MAX];
        for (size_t i = 0; i < curve->count; i++)
            ys[i] = numbers[i][line];
        report_curve(curve->lines[line].what, curve->lines[line].unit, curve->lines[line].decimals, curve->of,
                     curve->at, ys, curve->count);
    }
    return progress_end(good);
}

/* ---- the library alone ---- */

static bool keys_of(struct bench *bench, struct growth_keys_of of, double *numbers)
{
    struct growth_keys keys;
    if (!growth_keys(bench, of, &keys))
        return false;
    numbers[0] = keys.load_us;
    numbers[1] = keys.hit_us;
    numbers[2] = keys.near_us;
    numbers[3] = keys.redis_bytes;
    numbers[4] = keys.near_bytes;
    numbers[5] = keys.rss_bytes;
    return true;
}

static bool so_many_at_once(struct bench *bench, double keys, double *numbers)
{
    const struct bench_keys_at_once course = {.count = (uint32_t)keys, .workers = 8};
    struct bench_at_once found;
    if (!bench_at_once(bench, &course, &found))
        return false;
    numbers[0] = found.queries;
    numbers[1] = found.ms;
    return true;
}

static bool so_many_keys(struct bench *bench, double keys, double *numbers)
{
    return keys_of(bench, (struct growth_keys_of){.keys = (uint32_t)keys, .value_bytes = 300}, numbers);
}

static bool so_many_tags(struct bench *bench, double tags, double *numbers)
{
    return keys_of(bench, (struct growth_keys_of){.keys = 10000, .value_bytes = 300, .tags = (uint32_t)tags},
                   numbers);
}

/* Some 250 MiB of each size at the most. */
static bool so_many_bytes(struct bench *bench, double bytes, double *numbers)
{
    const uint32_t keys = bytes > 250000 ? 250 : 1000;
    return keys_of(bench, (struct growth_keys_of){.keys = keys, .value_bytes = (uint32_t)bytes}, numbers);
}

static bool so_many_waiters(struct bench *bench, double count, double *numbers)
{
    struct growth_waiters waiters;
    if (!growth_waiters(bench, (uint32_t)count, &waiters))
        return false;
    numbers[0] = waiters.ask_us;
    numbers[1] = waiters.answer_us;
    numbers[2] = waiters.bytes;
    return true;
}

static bool so_many_guards(struct bench *bench, double guards, double *numbers)
{
    struct growth_fleet fleet;
    if (!growth_fleet(bench, (uint32_t)guards, &fleet))
        return false;
    numbers[0] = fleet.loads;
    numbers[1] = fleet.miss_commands;
    numbers[2] = fleet.miss_messages;
    numbers[3] = fleet.miss_polls;
    numbers[4] = fleet.miss_ms;
    numbers[5] = fleet.invalidate_commands;
    numbers[6] = fleet.invalidate_messages;
    numbers[7] = fleet.invalidate_ms;
    return true;
}

/* ---- over HTTP ---- */

/* How many connections the service may have: it and we have a descriptor each for every one of them. */
static uint32_t most_connections(void)
{
    enum { WANTED = 28000, SPARE = 600 };
    struct rlimit limit = {.rlim_cur = 0};
    if (net_raise_file_limit(WANTED + SPARE))
        return WANTED;
    getrlimit(RLIMIT_NOFILE, &limit);
    return (uint32_t)limit.rlim_cur - SPARE;
}

/* Before it is full it closes some: a tenth is left free. */
static double most_waiters(void)
{
    uint32_t connections = most_connections();
    return connections >= 28000 ? 25000 : connections / 10 * 9;
}

/* What the process takes for nothing while a query would run. */
static double idle_us(const struct stack_catalogd *catalogd)
{
    const uint64_t before_us = proc_cpu_us(catalogd->pid);
    clock_pause_ms(QUERY_MS);
    return (double)(proc_cpu_us(catalogd->pid) - before_us);
}

/* From the fill to the last answer; CPU and memory of each. */
static bool wait_over_http(struct bench *bench, double waiters, double *numbers)
{
    struct stack_catalogd catalogd = {.pid = 0};
    struct hall hall = {.catalogd = &catalogd};
    char delay[32], waiting[32], connected[32], warm[BURST_PATH_BYTES];
    const char *const settings[] = {delay, waiting, connected, "SERVER_LOOPS=1", NULL};
    snprintf(delay, sizeof delay, "LOAD_DELAY_MS=%d", QUERY_MS);
    snprintf(waiting, sizeof waiting, "MAX_WAITERS=%u", (unsigned)most_connections());
    snprintf(connected, sizeof connected, "MAX_CONNECTIONS=%u", (unsigned)most_connections());
    bench_cold_path(bench, warm);
    bool good = filled_tell(bench, true) && bench_service_start(bench, &catalogd, settings) &&
                bench_ask(catalogd.port, warm) &&
                hall_open(bench, &hall, &catalogd, (uint32_t)waiters, LOOK_MS) && hall_wait(bench, &hall);
    numbers[0] = hall.last_ms;
    numbers[1] = hall.cpu_us_each - (good ? idle_us(&catalogd) / waiters : 0);
    numbers[2] = hall.kib_each;
    hall_close(&hall);
    stack_catalogd_stop(&catalogd);
    return filled_tell(bench, false) && good;
}

/* What a hit costs the service, by wrk. */
static bool time_hits(const struct stack_catalogd *catalogd, const char *path, double *us)
{
    const struct wrk_options options = {
        .port = catalogd->port, .path = path, .connection_count = WRK_CONNECTIONS, .seconds = SECONDS};
    struct wrk_result result;
    uint64_t before_us = proc_cpu_us(catalogd->pid);
    if (!wrk_run(&options, &result))
        return false;
    *us = (double)(proc_cpu_us(catalogd->pid) - before_us) / (double)result.requests;
    return true;
}

/* Connections that have asked once and stay. */
static bool keep_connections(const struct stack_catalogd *catalogd, uint32_t count, const char *path,
                             double *hit_us, double *kib)
{
    struct crowd crowd = {.ports = {catalogd->port}, .port_count = 1, .size = count, .path = "/ping"};
    const double before_kib = (double)proc_status(catalogd->pid, "VmRSS");
    bool good = crowd_open(&crowd) && crowd_ask(&crowd);
    *kib = ((double)proc_status(catalogd->pid, "VmRSS") - before_kib) / count;
    good = good && bench_ask(catalogd->port, path) && time_hits(catalogd, path, hit_us);
    crowd_close(&crowd);
    return good;
}

static bool connect_many(struct bench *bench, double count, double *numbers)
{
    struct contenders contenders = {.catalogd = {.pid = 0}};
    char path[BURST_PATH_BYTES];
    bench_cold_path(bench, path);
    bool good = contenders_start(bench, &contenders, "NEAR_BYTES=67108864") &&
                keep_connections(&contenders.catalogd, (uint32_t)count, path, &numbers[1], &numbers[2]) &&
                keep_connections(&contenders.near, (uint32_t)count, path, &numbers[0], &numbers[2]);
    contenders_stop(&contenders);
    return good;
}

static bool ask_processes(struct bench *bench, double processes, double *numbers)
{
    enum { PROCESSES_MAX = 32 };
    const uint32_t count = (uint32_t)processes;
    static struct stack_catalogd catalogd[PROCESSES_MAX];
    struct burst_target targets[PROCESSES_MAX];
    char delay[32], path[BURST_PATH_BYTES];
    const char *const settings[] = {delay, "SERVER_LOOPS=1", NULL};
    bool good = true;
    snprintf(delay, sizeof delay, "LOAD_DELAY_MS=%d", QUERY_MS / 10);
    for (uint32_t i = 0; i < count && good; i++) {
        good = bench_service_start(bench, &catalogd[i], settings);
        targets[i] = (struct burst_target){"127.0.0.1", catalogd[i].port};
    }
    bench_cold_path(bench, path);
    const struct burst_options options = {.targets = targets,
                                          .target_count = count,
                                          .connection_count = count * REQUESTS_EACH,
                                          .connect_limit_ms = 60000,
                                          .request_limit_ms = 60000,
                                          .path = path};
    struct burst *burst = NULL;
    struct burst_summary summary = {.requests = 0};
    good = good && burst_open(&options, &burst);
    if (good) {
        uint64_t mark = stack_postgres_mark(&bench->postgres),
                 commands = stack_redis_calls(&bench->redis, NULL);
        good = burst_run(burst);
        burst_summarise(burst, &summary);
        clock_pause_ms(SETTLE_MS); /* a query that nobody should have made is in the log by then */
        numbers[1] = (double)(stack_redis_calls(&bench->redis, NULL) - commands);
        numbers[0] = stack_postgres_count(&bench->postgres, mark, bench_query_marker);
        numbers[2] = (double)summary.max_us / 1e3 - QUERY_MS / 10.0;
        good = good && summary.statuses[200] == options.connection_count;
    }
    burst_close(&burst);
    for (uint32_t i = 0; i < count; i++)
        stack_catalogd_stop(&catalogd[i]);
    return good;
}

/* ---- all of it ---- */

static const struct line key_lines[] = {{"CPU of a miss", "us", 1},
                                        {"CPU of a hit in Redis", "us", 2},
                                        {"CPU of a near hit", "us", 2},
                                        {"memory of Redis for each", "B", 0},
                                        {"of the near cache for each", "B", 0},
                                        {"of the process for each", "B", 0}};
static const struct line waiter_lines[] = {
    {"CPU to begin to wait", "us", 2}, {"CPU to be answered", "us", 2}, {"memory for each", "B", 0}};
static const struct line fleet_lines[] = {{"loads", "", 0},
                                          {"commands of a miss", "", 0},
                                          {"messages heard of a miss", "", 0},
                                          {"polls of a miss", "", 0},
                                          {"from the load's end to the last answer", "ms", 1},
                                          {"commands of an invalidation", "", 0},
                                          {"messages heard of an invalidation", "", 0},
                                          {"invalidation confirmed", "ms", 1}};
static const struct line http_lines[] = {{"from the fill to the last answer", "ms", 1},
                                         {"CPU of each, from request to answer", "us", 1},
                                         {"memory for each, its connection too", "KiB", 2}};
static const struct line connection_lines[] = {{"CPU of a near hit beside", "us", 2},
                                               {"CPU of a hit in Redis beside", "us", 2},
                                               {"memory for each", "KiB", 2}};
static const struct line process_lines[] = {
    {"queries", "", 0}, {"commands of Redis", "", 0}, {"slowest answer, without the query", "ms", 1}};

static const struct line at_once_lines[] = {{"queries", "", 0}, {"slowest answer", "ms", 1}};

#define LINES(list) list, sizeof(list) / sizeof *(list)

/* The library alone. */
static const struct curve inside[] = {
    {"keys:",
     "keys of 300 bytes; the library alone, 256 requests at a time",
     so_many_keys,
     LINES(key_lines),
     "keys",
     6,
     {1, 100, 1000, 10000, 100000, 1000000}},
    {"keys at once:",
     "cold keys asked for at once, each by itself; 8 workers, the query takes 20 ms and 0.1 ms a key",
     so_many_at_once,
     LINES(at_once_lines),
     "keys",
     4,
     {1, 10, 100, 1000}},
    {"tags:", "tags of each of 10 000 entries", so_many_tags, LINES(key_lines), "tags", 5, {0, 1, 2, 4, 8}},
    {"sizes of values:",
     "bytes of a value",
     so_many_bytes,
     LINES(key_lines),
     "bytes",
     5,
     {100, 1024, 16384, 262144, 1000000}},
    {"waiters of one process:",
     "requests of one process that wait for one load; the library alone",
     so_many_waiters,
     LINES(waiter_lines),
     "waiters",
     6,
     {1, 100, 1000, 10000, 100000, 1000000}},
    {"guards of a fleet:",
     "a fleet that asks for one cold key at once, and is told of its invalidation",
     so_many_guards,
     LINES(fleet_lines),
     "guards",
     5,
     {1, 10, 100, 300, 1000}},
};

bool measure_growth(struct bench *bench)
{
    const struct curve over_http[] = {
        {"waiters over HTTP:",
         "requests over HTTP that wait for one load, in one server loop",
         wait_over_http,
         LINES(http_lines),
         "waiters",
         5,
         {1, 100, 1000, 10000, most_waiters()}},
        {"connections:",
         "idle connections, one server loop",
         connect_many,
         LINES(connection_lines),
         "connections",
         4,
         {1, 100, 1000, 10000}},
        {"processes:",
         "processes of catalogd, asked 16 times each for one cold product at once",
         ask_processes,
         LINES(process_lines),
         "processes",
         6,
         {1, 2, 4, 8, 16, 32}},
    };
    bool good = true;
    for (size_t i = 0; good && i < sizeof inside / sizeof *inside; i++)
        good = grow(bench, &inside[i]);
    for (size_t i = 0; good && i < sizeof over_http / sizeof *over_http; i++)
        good = grow(bench, &over_http[i]);
    return good;
}
