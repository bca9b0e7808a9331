/* SPDX-License-Identifier: MIT */
/*
 * bench_merge.c - requests for as many different keys at once, each for one: how many queries, how long; with what has to wait
 * as one query, and with a query for each key.
 *
 * The library alone: each run is a process of its own with a guard and an epoll loop. A query is the loader, which sleeps as
 * long as one takes. Cold: nothing is in the cache, and each request waits for its row. Stale: all are there and past
 * their time; each request is answered at once, and the refreshes are what is counted. With permits: what an avalanche is to a
 * process that is asked for all of it at once (bench_avalanche.c has what comes over HTTP, one after the other). Redis has three seconds for a command:
 * what does without it is not looked at here.
 */
#include "load/base/clock.h"
#include "load/bench/bench.h"
#include "load/bench/host.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum {
    COLD = 400,
    STALE = 800,
    WORKERS = 24,
    AVALANCHE = 3000,
    PERMITS = 8,
    QUERY_MS = 20,
    KEY_US = 100, /* of a query, for each of its keys */
    REPETITIONS = 5,
    LIMIT_MS = 60000,
    LOOK_EVERY_MS = 1,
    COLD_QUERIES = 48,
    STALE_QUERIES = 60,
    AVALANCHE_QUERIES = 64,
};

static const struct bench_keys_at_once courses[] = {
    {.count = COLD, .workers = WORKERS, .apart = false},
    {.count = COLD, .workers = WORKERS, .apart = true},
    {.count = STALE, .workers = WORKERS, .stale = true, .apart = false},
    {.count = STALE, .workers = WORKERS, .stale = true, .apart = true},
    {.count = AVALANCHE, .workers = WORKERS, .permits = PERMITS, .apart = false},
    {.count = AVALANCHE, .workers = WORKERS, .permits = PERMITS, .apart = true},
};
enum { COURSES = sizeof courses / sizeof *courses };

struct merge {
    struct samples queries[COURSES], at_once[COURSES], ms[COURSES];
    struct samples ratios[COURSES / 2]; /* of the time of both ways */
};

/* ---- one run, in a process of its own ---- */

static atomic_uint begun, running, most_running;

static void begin_query(void)
{
    unsigned now = atomic_fetch_add(&running, 1) + 1, most = atomic_load(&most_running);
    atomic_fetch_add(&begun, 1);
    while (now > most && !atomic_compare_exchange_weak(&most_running, &most, now))
        continue;
}

static void load_many(struct guard_load *const *loads, size_t count, void *context)
{
    (void)context;
    begin_query();
    usleep((useconds_t)(QUERY_MS * 1000 + KEY_US * count));
    atomic_fetch_sub(&running, 1);
    for (size_t i = 0; i < count; i++)
        guard_load_done(loads[i], "row", 3, NULL);
}

static void load_one(struct guard_load *load, void *context)
{
    load_many(&load, 1, context);
}

/* So many loads have begun, and none runs: the refreshes. */
static bool wait_for_loads(struct host *host, uint64_t count)
{
    struct guard_stats stats = {.loads_running = 1};
    uint64_t end_us = clock_after_ms(LIMIT_MS);
    while ((stats.load_started < count || stats.loads_running > 0) && clock_us() < end_us) {
        clock_pause_ms(LOOK_EVERY_MS);
        guard_stats(host->guard, &stats);
    }
    return clock_us() < end_us;
}

static bool run(struct bench *bench, const void *of, void *outcome)
{
    const struct bench_keys_at_once *course = of;
    struct bench_at_once *out = outcome;
    static struct host host;
    char name[32];
    struct guard_config config = GUARD_CONFIG_DEFAULTS;
    struct guard_policy policy = GUARD_POLICY_DEFAULTS;
    snprintf(name, sizeof name, "merge%d", (int)getpid());
    config.name_space = name;
    config.redis_url = bench->redis.url;
    config.max_loads = course->workers;
    config.load_queue = 100000;
    config.load_permits = course->permits;
    config.permit_ms = 9000;
    policy.loader = load_one;
    policy.batch_loader = load_many;
    policy.apart = course->apart;
    policy.lease_ms = 9000;
    policy.fresh_ms = course->stale ? 1 : 60000;
    policy.stale_ms = 600000;
    if (!host_open(&host, config, &policy))
        return false;
    /* What is stale has been loaded. Else another key has been, and the connections are up. */
    const uint32_t first = course->stale ? 0 : course->count, before = course->stale ? course->count : 1;
    if (!host_ask_all(&host, first, before, before))
        return false;
    atomic_store(&begun, 0);
    atomic_store(&most_running, 0);
    const uint64_t begin_us = clock_us();
    if (!host_ask_all(&host, 0, course->count, course->count) ||
        (course->stale && !wait_for_loads(&host, 2 * (uint64_t)course->count)))
        return false;
    out->ms = (double)(clock_us() - begin_us) / 1e3;
    out->queries = atomic_load(&begun);
    out->at_once = atomic_load(&most_running);
    return true;
}

bool bench_at_once(struct bench *bench, const struct bench_keys_at_once *course, struct bench_at_once *out)
{
    return bench_apart(bench, run, course, out, sizeof *out, LIMIT_MS);
}

/* ---- both ways in turns ---- */

static bool measure_once(struct bench *bench, struct merge *merge)
{
    struct bench_at_once found[COURSES];
    for (size_t i = 0; i < COURSES; i++) {
        if (!bench_at_once(bench, &courses[i], &found[i]))
            return false;
        samples_add(&merge->queries[i], found[i].queries);
        samples_add(&merge->at_once[i], found[i].at_once);
        samples_add(&merge->ms[i], found[i].ms);
    }
    for (size_t i = 0; i < COURSES; i += 2)
        samples_add(&merge->ratios[i / 2], found[i].ms / found[i + 1].ms);
    return true;
}

/* Both ways of the course, that of the guard first. */
static void report_pair(const struct merge *merge, size_t first, const char *what, struct goal queries,
                        struct goal ratio)
{
    for (size_t i = first; i < first + 2; i++) {
        const char *name = courses[i].apart ? "a query for each" : "guard";
        report_row_of(name, "queries", "", 0, &merge->queries[i], courses[i].apart ? none : queries);
        if (courses[i].permits > 0)
            report_row_of(name, "queries at once", "", 0, &merge->at_once[i],
                          all_at_most(courses[i].permits));
        report_row_of(name, what, "ms", 0, &merge->ms[i], none);
    }
    report_row("guard / a query for each: time", "", 2, &merge->ratios[first / 2], ratio);
}

static void report(const struct merge *merge)
{
    report_heading("%d cold keys at once, %d workers, the query takes %d ms and %d us a key", COLD, WORKERS,
                   QUERY_MS, KEY_US);
    report_pair(merge, 0, "slowest answer", all_at_most(COLD_QUERIES), at_most(0.2));
    report_heading("%d keys that are stale, at once; likewise", STALE);
    report_pair(merge, 2, "all are refreshed", all_at_most(STALE_QUERIES), none);
    report_heading("%d cold keys at once, %d permits; likewise", AVALANCHE, PERMITS);
    report_pair(merge, 4, "slowest answer", all_at_most(AVALANCHE_QUERIES), at_most(1.0 / 6));
}

bool measure_merge(struct bench *bench)
{
    static struct merge merge;
    bool good = true;
    progress_begin("different keys at once:");
    for (size_t i = 0; good && i < REPETITIONS; i++) {
        progress_repetition(i + 1);
        good = measure_once(bench, &merge);
    }
    if (good)
        report(&merge);
    return progress_end(good);
}
