/* SPDX-License-Identifier: MIT */
/*
 * bench_merge.c - requests for as many different products at once, each for one: how many queries, how long; with what has to
 * wait as one query, and with a query for each.
 *
 * Cold: none is in the cache, and each request waits for its row. Stale: all are there and past their time; each request
 * is answered at once, and the refreshes are what is counted. Queries are counted by PostgreSQL's log. Redis has three
 * seconds for a command: a refresh that does not hear of it is none, which is not looked at here.
 */
#include "load/base/clock.h"
#include "load/bench/bench.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    COLD = 400,
    STALE = 800,
    WORKERS = 24,
    QUERY_MS = 20,
    REPETITIONS = 5,
    IDS_AT_A_TIME = 100,
    LIMIT_MS = 60000,
    LOOK_EVERY_MS = 5,
    COLD_QUERIES = 48,
    STALE_QUERIES = 60,
};

enum way { MERGED, APART, WAYS };
static const char *const names[WAYS] = {[MERGED] = "guard", [APART] = "a query for each"};

struct side {
    struct stack_catalogd catalogd;
    struct samples queries, ms;
};

struct merge {
    struct side cold[WAYS], stale[WAYS];
    struct samples cold_ratio, stale_ratio;
};

/* ---- all at once ---- */

static void path_of(void *context, uint32_t index, char *path)
{
    const uint32_t *first = context;
    snprintf(path, BURST_PATH_BYTES, "/products/%" PRIu32, *first + index);
}

/* What is cold, or stale, is asked for; all must be answered with 200. */
static bool ask_for_each(uint16_t port, uint32_t first, uint32_t count, struct burst_summary *out)
{
    const struct burst_target target = {"127.0.0.1", port};
    const struct burst_options options = {.targets = &target,
                                          .target_count = 1,
                                          .connection_count = count,
                                          .connect_limit_ms = LIMIT_MS,
                                          .request_limit_ms = LIMIT_MS,
                                          .path_of = path_of,
                                          .path_context = &first};
    struct burst *burst = NULL;
    bool good = burst_open(&options, &burst) && burst_run(burst);
    if (good)
        burst_summarise(burst, out);
    burst_close(&burst);
    return good && out->statuses[200] == count;
}

bool bench_cold_burst(struct bench *bench, const struct stack_catalogd *catalogd, uint32_t count,
                      double *queries, double *ms)
{
    struct burst_summary summary;
    uint64_t mark = stack_postgres_mark(&bench->postgres);
    if (!ask_for_each(catalogd->port, bench_cold_products(bench, count), count, &summary))
        return false;
    *queries = stack_postgres_count(&bench->postgres, mark, bench_query_marker);
    *ms = (double)summary.span_us / 1e3;
    return true;
}

/* ---- stale ---- */

/* FRESH_MS is over before the last of them is in the cache. */
static bool fill(const struct side *side, uint32_t first)
{
    char path[IDS_AT_A_TIME * 8 + 32];
    for (uint32_t done = 0; done < STALE; done += IDS_AT_A_TIME) {
        size_t used = (size_t)snprintf(path, sizeof path, "/products?ids=");
        for (uint32_t i = 0; i < IDS_AT_A_TIME; i++)
            used += (size_t)snprintf(path + used, sizeof path - used, "%s%" PRIu32, i > 0 ? "," : "",
                                     first + done + i);
        if (!bench_ask(side->catalogd.port, path))
            return false;
    }
    return true;
}

static double loads_of(const struct side *side)
{
    return stack_catalogd_metric(&side->catalogd, "guard_load_duration_seconds_count");
}

/* Until each has been refreshed. */
static bool refresh_all(struct bench *bench, struct side *side)
{
    const uint32_t first = bench_cold_products(bench, STALE);
    struct burst_summary summary;
    if (!fill(side, first))
        return false;
    const double before = loads_of(side);
    const uint64_t mark = stack_postgres_mark(&bench->postgres), begin_us = clock_us(),
                   end_us = clock_after_ms(LIMIT_MS);
    if (!ask_for_each(side->catalogd.port, first, STALE, &summary))
        return false;
    while (loads_of(side) < before + STALE && clock_us() < end_us)
        clock_pause_ms(LOOK_EVERY_MS);
    samples_add(&side->ms, (double)(clock_us() - begin_us) / 1e3);
    samples_add(&side->queries, stack_postgres_count(&bench->postgres, mark, bench_query_marker));
    return clock_us() < end_us;
}

/* ---- the two ways, in turns ---- */

/* Each worker has its database connection then. */
static bool start_side(struct bench *bench, struct side *side, enum way way, bool stale)
{
    char delay[32], workers[32];
    double queries = 0, ms = 0;
    const char *const settings[] = {way == MERGED ? "MERGE_LOADS=on" : "MERGE_LOADS=off",
                                    delay,
                                    workers,
                                    "SERVER_LOOPS=1",
                                    "REDIS_LIMIT_MS=3000",
                                    "LEASE_MS=10000",
                                    "STALE_MS=600000",
                                    stale ? "FRESH_MS=1" : "FRESH_MS=60000",
                                    NULL};
    snprintf(delay, sizeof delay, "LOAD_DELAY_MS=%d", QUERY_MS);
    snprintf(workers, sizeof workers, "MAX_LOADS=%d", WORKERS);
    return bench_service_start(bench, &side->catalogd, settings) &&
           bench_cold_burst(bench, &side->catalogd, WORKERS, &queries, &ms);
}

static bool cold_once(struct bench *bench, struct side *side)
{
    double queries = 0, ms = 0;
    bool good = bench_cold_burst(bench, &side->catalogd, COLD, &queries, &ms);
    samples_add(&side->queries, queries);
    samples_add(&side->ms, ms);
    return good;
}

static void add_ratio(struct samples *ratio, const struct side *sides)
{
    const struct samples *merged = &sides[MERGED].ms, *apart = &sides[APART].ms;
    samples_add(ratio, merged->at[merged->count - 1] / apart->at[apart->count - 1]);
}

static bool measure_once(struct bench *bench, struct merge *merge)
{
    bool good = true;
    for (enum way way = 0; good && way < WAYS; way++)
        good = cold_once(bench, &merge->cold[way]);
    for (enum way way = 0; good && way < WAYS; way++)
        good = refresh_all(bench, &merge->stale[way]);
    if (good) {
        add_ratio(&merge->cold_ratio, merge->cold);
        add_ratio(&merge->stale_ratio, merge->stale);
    }
    return good;
}

static void report_sides(const struct side *sides, uint32_t most, const char *what,
                         const struct samples *ratio, struct goal goal)
{
    for (enum way way = 0; way < WAYS; way++) {
        report_row_of(names[way], "queries", "", 0, &sides[way].queries,
                      way == MERGED ? all_at_most(most) : none);
        report_row_of(names[way], what, "ms", 0, &sides[way].ms, none);
    }
    report_row("guard / a query for each: time", "", 2, ratio, goal);
}

static void report(const struct merge *merge)
{
    report_heading("%d cold products at once, %d workers, the query takes %d ms", COLD, WORKERS, QUERY_MS);
    report_sides(merge->cold, COLD_QUERIES, "slowest answer", &merge->cold_ratio, at_most(0.2));
    report_heading("%d products that are stale, at once; likewise", STALE);
    report_sides(merge->stale, STALE_QUERIES, "all are refreshed", &merge->stale_ratio, none);
}

bool measure_merge(struct bench *bench)
{
    static struct merge merge;
    progress_begin("misses at once, and a query for each:");
    bool good = true;
    for (enum way way = 0; good && way < WAYS; way++)
        good = start_side(bench, &merge.cold[way], way, false) &&
               start_side(bench, &merge.stale[way], way, true);
    for (size_t i = 0; good && i < REPETITIONS; i++) {
        progress_repetition(i + 1);
        good = measure_once(bench, &merge);
    }
    for (enum way way = 0; way < WAYS; way++) {
        stack_catalogd_stop(&merge.cold[way].catalogd);
        stack_catalogd_stop(&merge.stale[way].catalogd);
    }
    if (good)
        report(&merge);
    return progress_end(good);
}
