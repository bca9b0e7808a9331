/* SPDX-License-Identifier: MIT */
/*
 * bench_growth.c - how cost grows: with keys, tags, the size of values, waiters, connections, processes.
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
#include "load/bench/crowd.h"
#include "load/bench/filled.h"
#include "load/bench/growth.h"
#include "load/stack/wrk.h"

#include <stdio.h>
#include <sys/resource.h>

enum {
    POINTS_MAX = 9,
    QUERY_MS = 3000,
    LOOK_MS = 2000,
    REQUESTS_EACH = 16,
    WRK_CONNECTIONS = 16,
    SECONDS = 1,
    SETTLE_MS = 300,
};

/* One curve's abscissa. */
struct axis {
    const char *of;
    size_t count;
    double at[POINTS_MAX];
};

struct line {
    const char *what, *unit;
    unsigned decimals;
};

/* Rows of `struct line`, in the order in which a point has its numbers. */
static void report_lines(const struct axis *axis, const struct line *lines, size_t line_count,
                         const double *points, size_t stride)
{
    for (size_t line = 0; line < line_count; line++) {
        double ys[POINTS_MAX];
        for (size_t i = 0; i < axis->count; i++)
            ys[i] = points[i * stride + line];
        report_curve(lines[line].what, lines[line].unit, lines[line].decimals, axis->of, axis->at, ys,
                     axis->count);
    }
}

#define COUNT_OF(list) (sizeof(list) / sizeof *(list))

/* ---- the library alone ---- */

static const struct line key_lines[] = {
    {"CPU of a miss", "us", 1},
    {"CPU of a hit in Redis", "us", 2},
    {"CPU of a near hit", "us", 2},
    {"memory of Redis for each", "B", 0},
    {"of the near cache for each", "B", 0},
    {"of the process for each", "B", 0},
};
_Static_assert(sizeof(struct growth_keys) == sizeof(double) * COUNT_OF(key_lines),
               "one line for each number");

static bool grow_each(struct bench *bench, const struct axis *axis,
                      bool (*of)(double at, struct growth_keys_of *out), struct growth_keys *points)
{
    for (size_t i = 0; i < axis->count; i++) {
        struct growth_keys_of what = {.keys = 10000, .value_bytes = 300};
        progress_repetition(i + 1);
        if (!of(axis->at[i], &what) || !growth_keys(bench, what, &points[i]))
            return false;
    }
    return true;
}

static bool so_many_keys(double at, struct growth_keys_of *out)
{
    out->keys = (uint32_t)at;
    return true;
}

static bool so_many_tags(double at, struct growth_keys_of *out)
{
    out->tags = (uint32_t)at;
    return true;
}

/* Some 250 MiB of each size at the most. */
static bool so_many_bytes(double at, struct growth_keys_of *out)
{
    out->value_bytes = (uint32_t)at;
    out->keys = at > 250000 ? 250 : 1000;
    return true;
}

static bool grow_keys(struct bench *bench)
{
    static const struct {
        const char *name, *heading;
        struct axis axis;
        bool (*of)(double at, struct growth_keys_of *out);
    } curves[] = {
        {"keys:",
         "Growth: keys of 300 bytes; the library alone, 256 requests at a time",
         {"keys", 6, {1, 100, 1000, 10000, 100000, 1000000}},
         so_many_keys},
        {"tags:", "Growth: tags of each of 10 000 entries", {"tags", 5, {0, 1, 2, 4, 8}}, so_many_tags},
        {"sizes of values:",
         "Growth: bytes of a value",
         {"bytes", 5, {100, 1024, 16384, 262144, 1000000}},
         so_many_bytes},
    };
    for (size_t i = 0; i < COUNT_OF(curves); i++) {
        struct growth_keys points[POINTS_MAX];
        progress_begin(curves[i].name);
        if (!progress_end(grow_each(bench, &curves[i].axis, curves[i].of, points)))
            return false;
        report_heading("%s", curves[i].heading);
        report_lines(&curves[i].axis, key_lines, COUNT_OF(key_lines), &points[0].load_us,
                     COUNT_OF(key_lines));
    }
    return true;
}

static bool grow_waiters(struct bench *bench)
{
    static const struct axis axis = {"waiters", 6, {1, 100, 1000, 10000, 100000, 1000000}};
    static const struct line lines[] = {
        {"CPU to begin to wait", "us", 2}, {"CPU to be answered", "us", 2}, {"memory for each", "B", 0}};
    struct growth_waiters points[POINTS_MAX];
    bool good = true;
    progress_begin("waiters of one process:");
    for (size_t i = 0; good && i < axis.count; i++) {
        progress_repetition(i + 1);
        good = growth_waiters(bench, (uint32_t)axis.at[i], &points[i]);
    }
    if (good) {
        report_heading("Growth: requests of one process that wait for one load; the library alone");
        report_lines(&axis, lines, COUNT_OF(lines), &points[0].ask_us, COUNT_OF(lines));
    }
    return progress_end(good);
}

static bool grow_fleet(struct bench *bench)
{
    static const struct axis axis = {"guards", 5, {1, 10, 100, 300, 1000}};
    static const struct line lines[] = {{"commands of a miss", "", 0},
                                        {"messages heard of a miss", "", 0},
                                        {"polls of a miss", "", 0},
                                        {"loads", "", 0},
                                        {"from the load's end to the last answer", "ms", 1},
                                        {"invalidation confirmed", "ms", 1},
                                        {"commands of an invalidation", "", 0},
                                        {"messages heard of an invalidation", "", 0}};
    struct growth_fleet points[POINTS_MAX];
    bool good = true;
    progress_begin("guards of a fleet:");
    for (size_t i = 0; good && i < axis.count; i++) {
        progress_repetition(i + 1);
        good = growth_fleet(bench, (uint32_t)axis.at[i], &points[i]);
    }
    if (good) {
        report_heading("Growth: a fleet that asks for one cold key at once, and is told of its invalidation");
        report_lines(&axis, lines, COUNT_OF(lines), &points[0].miss_commands, COUNT_OF(lines));
    }
    return progress_end(good);
}

/* ---- over HTTP ---- */

struct hall {
    struct stack_catalogd catalogd;
    struct crowd crowd;
    double alone_kib, waiting_kib;
    bool all_wait;
};

static void look(void *context)
{
    struct hall *hall = context;
    hall->waiting_kib = (double)proc_status(hall->catalogd.pid, "VmRSS");
    hall->all_wait = crowd_waits(&hall->crowd, &hall->catalogd);
}

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

struct http_waiters {
    double last_ms, cpu_us, kib;
};

static bool wait_over_http(struct bench *bench, uint32_t waiters, struct http_waiters *out)
{
    static struct hall hall;
    char delay[32], waiting[32], connected[32], warm[BURST_PATH_BYTES];
    struct filled filled;
    const char *const settings[] = {delay, waiting, connected, "SERVER_LOOPS=1", NULL};
    snprintf(delay, sizeof delay, "LOAD_DELAY_MS=%d", QUERY_MS);
    snprintf(waiting, sizeof waiting, "MAX_WAITERS=%u", (unsigned)most_connections());
    snprintf(connected, sizeof connected, "MAX_CONNECTIONS=%u", (unsigned)most_connections());
    hall = (struct hall){.crowd = {.port_count = 1,
                                   .size = waiters,
                                   .meanwhile = {.after_ms = LOOK_MS, .run = look, .context = &hall}}};
    bench_cold_path(bench, warm);
    bool good = bench_service_start(bench, &hall.catalogd, settings) && bench_ask(hall.catalogd.port, warm);
    hall.crowd.ports[0] = hall.catalogd.port;
    hall.alone_kib = (double)proc_status(hall.catalogd.pid, "VmRSS");
    bench_cold_path(bench, hall.crowd.path);
    good = good && crowd_open(&hall.crowd) && filled_listen(bench, hall.crowd.path, &filled);
    if (good) {
        uint64_t before_us = proc_cpu_us(hall.catalogd.pid);
        good = crowd_ask(&hall.crowd) && hall.all_wait;
        uint64_t filled_us = filled_wait(&filled);
        out->last_ms = ((double)hall.crowd.last_us - (double)filled_us) / 1e3;
        out->cpu_us = (double)(proc_cpu_us(hall.catalogd.pid) - before_us) / waiters;
        out->kib = (hall.waiting_kib - hall.alone_kib) / waiters;
        good = good && filled_us != 0;
    }
    crowd_close(&hall.crowd);
    stack_catalogd_stop(&hall.catalogd);
    return good;
}

static bool grow_http_waiters(struct bench *bench)
{
    struct axis axis = {"waiters", 5, {1, 100, 1000, 10000, most_waiters()}};
    static const struct line lines[] = {{"from the fill to the last answer", "ms", 1},
                                        {"CPU of each, from request to answer", "us", 1},
                                        {"memory for each, its connection too", "KiB", 2}};
    struct http_waiters points[POINTS_MAX];
    bool good = filled_tell(bench, true);
    progress_begin("waiters over HTTP:");
    for (size_t i = 0; good && i < axis.count; i++) {
        progress_repetition(i + 1);
        good = wait_over_http(bench, (uint32_t)axis.at[i], &points[i]);
    }
    if (good) {
        report_heading("Growth: requests over HTTP that wait for one load, in one server loop");
        report_lines(&axis, lines, COUNT_OF(lines), &points[0].last_ms, COUNT_OF(lines));
    }
    return progress_end(filled_tell(bench, false) && good);
}

struct connections {
    double near_us, hit_us, kib;
};

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

static bool connect_many(struct bench *bench, uint32_t count, struct connections *out)
{
    static const char *const far[] = {"SERVER_LOOPS=1", "NEAR_BYTES=0", NULL};
    static const char *const near[] = {"SERVER_LOOPS=1", "NEAR_BYTES=67108864", "NEAR_MS=60000", NULL};
    struct stack_catalogd catalogd[2] = {{.pid = 0}, {.pid = 0}};
    char path[BURST_PATH_BYTES];
    bench_cold_path(bench, path);
    bool good = bench_service_start(bench, &catalogd[0], far) &&
                bench_service_start(bench, &catalogd[1], near) &&
                keep_connections(&catalogd[0], count, path, &out->hit_us, &out->kib) &&
                keep_connections(&catalogd[1], count, path, &out->near_us, &out->kib);
    stack_catalogd_stop(&catalogd[0]);
    stack_catalogd_stop(&catalogd[1]);
    return good;
}

static bool grow_connections(struct bench *bench)
{
    static const struct axis axis = {"connections", 4, {1, 100, 1000, 10000}};
    static const struct line lines[] = {{"CPU of a near hit beside", "us", 2},
                                        {"CPU of a hit in Redis beside", "us", 2},
                                        {"memory for each", "KiB", 2}};
    struct connections points[POINTS_MAX];
    bool good = true;
    progress_begin("connections:");
    for (size_t i = 0; good && i < axis.count; i++) {
        progress_repetition(i + 1);
        good = connect_many(bench, (uint32_t)axis.at[i], &points[i]);
    }
    if (good) {
        report_heading("Growth: idle connections, one server loop");
        report_lines(&axis, lines, COUNT_OF(lines), &points[0].near_us, COUNT_OF(lines));
    }
    return progress_end(good);
}

struct processes {
    double queries, commands, last_ms;
};

static bool ask_processes(struct bench *bench, uint32_t count, struct processes *out)
{
    enum { PROCESSES_MAX = 32 };
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
        out->commands = (double)(stack_redis_calls(&bench->redis, NULL) - commands);
        out->queries = stack_postgres_count(&bench->postgres, mark, bench_query_marker);
        out->last_ms = (double)summary.max_us / 1e3 - QUERY_MS / 10.0;
        good = good && summary.statuses[200] == options.connection_count;
    }
    burst_close(&burst);
    for (uint32_t i = 0; i < count; i++)
        stack_catalogd_stop(&catalogd[i]);
    return good;
}

static bool grow_processes(struct bench *bench)
{
    static const struct axis axis = {"processes", 6, {1, 2, 4, 8, 16, 32}};
    static const struct line lines[] = {
        {"queries", "", 0}, {"commands of Redis", "", 0}, {"slowest answer, without the query", "ms", 1}};
    struct processes points[POINTS_MAX];
    bool good = true;
    progress_begin("processes:");
    for (size_t i = 0; good && i < axis.count; i++) {
        progress_repetition(i + 1);
        good = ask_processes(bench, (uint32_t)axis.at[i], &points[i]);
    }
    if (good) {
        report_heading("Growth: processes of catalogd, asked %d times each for one cold product at once",
                       REQUESTS_EACH);
        report_lines(&axis, lines, COUNT_OF(lines), &points[0].queries, COUNT_OF(lines));
    }
    return progress_end(good);
}

bool measure_growth(struct bench *bench)
{
    return grow_keys(bench) && grow_waiters(bench) && grow_fleet(bench) && grow_http_waiters(bench) &&
           grow_connections(bench) && grow_processes(bench);
}
