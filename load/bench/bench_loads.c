/* SPDX-License-Identifier: MIT */
/*
 * bench_loads.c - the two ways to load with libpq: a thread that waits for each query, and deferred loads on the loop
 * that asks (guard/example/queries.h).
 *
 * Each run is a process of its own with a guard and an epoll loop, which asks for cold keys and has as many
 * connections as loads. Only the loader differs. A first round connects, and makes the threads; the second one is
 * measured.
 */
#include "guard/example/queries.h"
#include "load/base/clock.h"
#include "load/base/proc.h"
#include "load/bench/bench.h"
#include "load/bench/host.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LIMIT_MS = 60000, TEXT_BYTES = 192 };
enum way { THREADS, DEFERRED, WAY_COUNT };

static const struct course {
    uint32_t loads, load_threads[WAY_COUNT];
    uint32_t open;          /* requests at a time */
    uint32_t first, second; /* keys of the two rounds */
    uint32_t query_ms;
    size_t repetitions;
} quick = {.loads = 8, .load_threads = {8, 1}, .open = 64, .first = 500, .second = 3000, .repetitions = 15},
  slow = {.loads = 1000,
          .load_threads = {1000, 2},
          .open = 1000,
          .first = 1000,
          .second = 1000,
          .query_ms = 1000,
          .repetitions = 5};

/* What a process found. */
struct outcome {
    double misses_per_s, elapsed_ms;
    double cpu_us, switches; /* for each miss */
    double kib, threads;     /* for each load: memory at the peak, beyond what it began with */
};

struct measured {
    struct samples misses_per_s[WAY_COUNT], elapsed_ms[WAY_COUNT], cpu_us[WAY_COUNT], switches[WAY_COUNT],
        kib[WAY_COUNT], threads[WAY_COUNT];
    struct samples misses_ratio, cpu_ratio, kib_ratio;
};

/* ---- a thread for each query ---- */

struct blocking {
    const char *conninfo, *text;
};

static _Thread_local PGconn *mine;

static void thread_begins(void *context)
{
    const struct blocking *blocking = context;
    mine = PQconnectdb(blocking->conninfo);
}

static void thread_ends(void *context)
{
    (void)context;
    PQfinish(mine);
}

static void load_blocking(struct guard_load *load, void *context)
{
    const struct blocking *blocking = context;
    const char *key = guard_load_key(load);
    PGresult *result = PQexecParams(mine, blocking->text, 1, NULL, &key, NULL, NULL, 0);
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        guard_load_fail(load, GUARD_FAILURE_UNAVAILABLE);
    else if (PQntuples(result) == 0)
        guard_load_absent(load);
    else
        guard_load_done(load, PQgetvalue(result, 0, 0), (size_t)PQgetlength(result, 0, 0), NULL);
    PQclear(result);
}

/* ---- the process ---- */

/* What one process is to do. */
struct plan {
    const struct course *course;
    enum way way;
};

static void queries_are_ready(void *context)
{
    queries_ready(context);
}

static bool open_host(struct host *host, const struct bench *bench, const struct plan *plan, const char *text)
{
    static struct queries queries;
    static struct blocking blocking;
    struct guard_config config = GUARD_CONFIG_DEFAULTS;
    struct guard_policy policy = GUARD_POLICY_DEFAULTS;
    char name_space[32];
    blocking = (struct blocking){bench->postgres.url, text};
    snprintf(name_space, sizeof name_space, "loads.%d", (int)getpid());
    config.redis_url = bench->redis.url;
    config.name_space = name_space;
    config.max_loads = plan->course->loads;
    config.load_threads = plan->course->load_threads[plan->way];
    policy.load_limit_ms = policy.deadline_ms = policy.max_hold_ms = LIMIT_MS;
    policy.loader = queries_load;
    policy.context = &queries;
    if (plan->way == THREADS) {
        config.thread_begins = thread_begins;
        config.thread_ends = thread_ends;
        config.thread_context = policy.context = &blocking;
        policy.loader = load_blocking;
    }
    return host_open(host, config, &policy) &&
           (plan->way == THREADS ||
            (queries_open(&queries, bench->postgres.url, text, plan->course->loads, host->loop) &&
             host_watch(host, queries.fd, queries_are_ready, &queries)));
}

/* Keys that nobody has asked for. */
static bool ask_cold(struct host *host, const struct course *course, uint32_t first, uint32_t count)
{
    bool good = host_ask_all(host, first, count, course->open) && host->loaded == count;
    if (!good)
        fprintf(stderr, "bench: %u of %u requests were answered with a row\n", (unsigned)host->loaded,
                (unsigned)host->asked);
    return good;
}

static bool be_host(struct bench *bench, const void *of, void *outcome)
{
    static struct host host;
    const struct plan *plan = of;
    const struct course *course = plan->course;
    struct outcome *out = outcome;
    char text[TEXT_BYTES];
    struct rusage before, after;
    const uint64_t began_kib = proc_status(getpid(), "VmRSS");
    snprintf(
        text, sizeof text,
        course->query_ms > 0
            ? "SELECT row_to_json(p)::text FROM products AS p, pg_sleep(%u / 1000.0) WHERE p.id = $1::bigint"
            : "SELECT row_to_json(p)::text FROM products AS p WHERE p.id = $1::bigint",
        (unsigned)course->query_ms);
    if (!open_host(&host, bench, plan, text) || !ask_cold(&host, course, 1, course->first))
        return false;
    const uint64_t began_us = clock_us(), cpu_us = clock_cpu_us();
    getrusage(RUSAGE_SELF, &before);
    if (!ask_cold(&host, course, 1 + course->first, course->second))
        return false;
    getrusage(RUSAGE_SELF, &after);
    out->cpu_us = (double)(clock_cpu_us() - cpu_us) / course->second;
    out->elapsed_ms = (double)(clock_us() - began_us) / 1000;
    out->misses_per_s = course->second / out->elapsed_ms * 1000;
    out->switches = (double)(after.ru_nvcsw - before.ru_nvcsw) / course->second;
    out->kib = (double)(proc_status(getpid(), "VmHWM") - began_kib) / course->loads;
    out->threads = (double)proc_status(getpid(), "Threads");
    return true;
}

/* ---- both ways in turns ---- */

/* PostgreSQL has room for the connections of one process, not of two. */
static bool wait_disconnected(const struct bench *bench)
{
    enum { PIDS = 64, OWN = 20 };
    pid_t pids[PIDS];
    const uint64_t end_us = clock_after_ms(LIMIT_MS);
    while (proc_family(bench->postgres.pid, pids, PIDS) > OWN) {
        if (clock_us() > end_us)
            return false;
        clock_pause_ms(10);
    }
    return true;
}

static bool run(struct bench *bench, const struct course *course, enum way way, struct outcome *outcome)
{
    const struct plan plan = {course, way};
    return bench_apart(bench, be_host, &plan, outcome, sizeof *outcome, LIMIT_MS) && wait_disconnected(bench);
}

static bool repeat(struct bench *bench, const struct course *course, bool turned, struct measured *out)
{
    struct outcome outcome[WAY_COUNT];
    for (enum way i = 0; i < WAY_COUNT; i++) {
        enum way way = turned ? (enum way)(DEFERRED - i) : i;
        if (!run(bench, course, way, &outcome[way]))
            return false;
        samples_add(&out->misses_per_s[way], outcome[way].misses_per_s);
        samples_add(&out->elapsed_ms[way], outcome[way].elapsed_ms);
        samples_add(&out->cpu_us[way], outcome[way].cpu_us);
        samples_add(&out->switches[way], outcome[way].switches);
        samples_add(&out->kib[way], outcome[way].kib);
        samples_add(&out->threads[way], outcome[way].threads);
    }
    samples_add(&out->misses_ratio, outcome[DEFERRED].misses_per_s / outcome[THREADS].misses_per_s);
    samples_add(&out->cpu_ratio, outcome[DEFERRED].cpu_us / outcome[THREADS].cpu_us);
    samples_add(&out->kib_ratio, outcome[DEFERRED].kib / outcome[THREADS].kib);
    return true;
}

static bool run_course(struct bench *bench, const struct course *course, const char *name,
                       struct measured *out)
{
    progress_begin(name);
    bool good = true;
    for (size_t i = 0; good && i < course->repetitions; i++) {
        progress_repetition(i + 1);
        good = repeat(bench, course, i % 2 == 1, out);
    }
    return progress_end(good);
}

static const char *const names[WAY_COUNT] = {"threads", "deferred"};

static void report_both(const char *what, const char *unit, unsigned decimals, const struct samples *samples)
{
    for (enum way way = 0; way < WAY_COUNT; way++)
        report_row_of(names[way], what, unit, decimals, &samples[way], none);
}

static void report(const struct measured *many, const struct measured *once)
{
    report_heading(
        "Loads by libpq: %d threads, or deferred to the loop; 8 connections, %d requests at a time",
        (int)quick.loads, (int)quick.open);
    report_both("misses", "1/s", 0, many->misses_per_s);
    report_both("CPU of the process for each miss", "us", 1, many->cpu_us);
    report_both("times that one of its threads waits, for each", "", 1, many->switches);
    report_row("deferred / threads: misses", "", 2, &many->misses_ratio, none);
    report_row("deferred / threads: CPU", "", 2, &many->cpu_ratio, none);
    report_heading("%d loads at once, a connection each, the query takes %d ms", (int)slow.loads,
                   (int)slow.query_ms);
    report_both("threads of the process", "", 0, once->threads);
    report_both("from the first request to the last answer", "ms", 0, once->elapsed_ms);
    report_both("CPU of the process for each load", "us", 1, once->cpu_us);
    report_both("memory for each, its connection included", "KiB", 1, once->kib);
    report_row("deferred / threads: CPU", "", 2, &once->cpu_ratio, none);
    report_row("deferred / threads: memory", "", 2, &once->kib_ratio, none);
}

bool measure_loads(struct bench *bench)
{
    static struct measured many, once;
    if (!run_course(bench, &quick, "loads by threads and deferred:", &many) ||
        !run_course(bench, &slow, "1 000 loads at once:", &once))
        return false;
    report(&many, &once);
    return true;
}
