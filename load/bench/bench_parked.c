/* SPDX-License-Identifier: MIT */
/*
 * bench_parked.c - what hits cost while nine thousand others wait in the same server loop for one slow load.
 *
 * Near hits and hits in Redis, each of a service of its own, alone and with the nine thousand, in turns. They wait
 * for a query that takes four seconds; the hits are measured while it runs, and all of them must still be waiting
 * when that is over.
 */
#include "load/bench/bench.h"
#include "load/bench/crowd.h"
#include "load/stack/wrk.h"

#include <stdio.h>

enum {
    PARKED = 9000,
    QUERY_MS = 4000,
    SETTLE_MS = 500, /* after the last request was written: all wait by then */
    CONNECTIONS = 64,
    SECONDS = 2,
    REPETITIONS = 3,
};

/* One kind of hit. */
struct kind {
    struct stack_catalogd catalogd;
    char path[BURST_PATH_BYTES]; /* cached */
    struct crowd crowd;          /* that waits beside */
    struct samples alone, crowded, ratio;
    bool measured; /* with the nine thousand, in this repetition */
};

static bool measure(const struct kind *kind, double *per_s)
{
    const struct wrk_options options = {
        .port = kind->catalogd.port, .path = kind->path, .connection_count = CONNECTIONS, .seconds = SECONDS};
    struct wrk_result result;
    if (!wrk_run(&options, &result))
        return false;
    *per_s = result.requests_per_s;
    return true;
}

/* While the round is under way: nobody is answered before the query ends, so nothing is missed meanwhile. */
static void measure_crowded(void *context)
{
    struct kind *kind = context;
    double per_s;
    kind->measured = crowd_waits(&kind->crowd, &kind->catalogd) && measure(kind, &per_s) &&
                     crowd_waits(&kind->crowd, &kind->catalogd);
    if (kind->measured)
        samples_add(&kind->crowded, per_s);
}

static bool gather(struct bench *bench, struct kind *kind)
{
    kind->crowd = (struct crowd){
        .ports = {kind->catalogd.port},
        .port_count = 1,
        .size = PARKED,
        .meanwhile = {.after_ms = SETTLE_MS, .run = measure_crowded, .context = kind},
    };
    bench_cold_path(bench, kind->crowd.path);
    kind->measured = false;
    bool good = crowd_open(&kind->crowd) && crowd_ask(&kind->crowd) && kind->measured;
    crowd_close(&kind->crowd);
    return good;
}

static bool repeat(struct bench *bench, struct kind *kind)
{
    double alone;
    if (!measure(kind, &alone) || !gather(bench, kind))
        return false;
    samples_add(&kind->alone, alone);
    samples_add(&kind->ratio, kind->crowded.at[kind->crowded.count - 1] / alone);
    return true;
}

/* Its hot product is loaded by a service whose queries are quick. */
static bool start(struct bench *bench, struct kind *kind, const char *const *settings)
{
    static const char *const quick[] = {"SERVER_LOOPS=1", NULL};
    bench_cold_path(bench, kind->path);
    return bench_service_start(bench, &kind->catalogd, quick) && bench_ask(kind->catalogd.port, kind->path) &&
           stack_catalogd_stop(&kind->catalogd) && bench_service_start(bench, &kind->catalogd, settings);
}

static void report(const struct kind *near, const struct kind *redis)
{
    report_heading("Hits while %d requests wait in the same server loop for one slow load", PARKED);
    report_row("near hits alone", "1/s", 0, &near->alone, none);
    report_row("near hits beside them", "1/s", 0, &near->crowded, none);
    report_row("hits in Redis alone", "1/s", 0, &redis->alone, none);
    report_row("hits in Redis beside them", "1/s", 0, &redis->crowded, none);
    report_row("near hits beside them / alone", "", 2, &near->ratio, at_least(0.9));
    report_row("hits in Redis beside them / alone", "", 2, &redis->ratio, none);
}

bool measure_parked(struct bench *bench)
{
    static struct kind near, redis;
    char delay[32];
    const char *const near_settings[] = {"SERVER_LOOPS=1", "NEAR_BYTES=67108864", delay, NULL};
    const char *const redis_settings[] = {"SERVER_LOOPS=1", delay, NULL};
    progress_begin("hits beside 9 000 who wait:");
    snprintf(delay, sizeof delay, "LOAD_DELAY_MS=%d", QUERY_MS);
    bool good = start(bench, &near, near_settings) && start(bench, &redis, redis_settings);
    for (size_t i = 0; good && i < REPETITIONS; i++) {
        progress_repetition(i + 1);
        good = repeat(bench, &near) && repeat(bench, &redis);
    }
    stack_catalogd_stop(&redis.catalogd);
    stack_catalogd_stop(&near.catalogd);
    if (good)
        report(&near, &redis);
    return progress_end(good);
}
