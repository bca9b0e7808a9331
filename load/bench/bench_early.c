/* SPDX-License-Identifier: MIT */
/*
 * bench_early.c - one hot product that expires again and again under 50 clients: how often it is loaded, and how
 * many requests wait for that. The shape is that of the Internet Archive's harness (Nelson, RedisConf 2017): no
 * guard, a lock, and XFetch with a lock that nobody waits for.
 *
 * Loads are counted by PostgreSQL, requests that waited by catalogd (those that a load answered, their own or
 * another's). Both are counts: they depend on how many lives of the product the time holds, not on the machine's
 * speed, except that without a guard every request of a load's duration makes one.
 */
#include "load/bench/bench.h"
#include "load/stack/wrk.h"

#include <stdio.h>

enum { CLIENTS = 50, SECONDS = 12, REPETITIONS = 3 };
enum contender { NO_GUARD, LOCK, XFETCH, CONTENDER_COUNT };

/* A load takes a fiftieth of the product's fresh time. */
#define HOT "FRESH_MS=1000", "JITTER_PERCENT=0", "LOAD_DELAY_MS=20", "MAX_LOADS=50"

static const struct {
    const char *name;
    const char *settings[8];
} contenders[CONTENDER_COUNT] = {
    [NO_GUARD] = {"no guard", {HOT, "GUARD_MODE=off", NULL}},
    [LOCK] = {"lock", {HOT, "GUARD_MODE=fleet", NULL}},
    [XFETCH] = {"XFetch, try-lock", {HOT, "GUARD_MODE=fleet", "EARLY_PERCENT=100", NULL}},
};

struct tally {
    struct samples loads[CONTENDER_COUNT], waits[CONTENDER_COUNT];
};

static double waited(const struct stack_catalogd *catalogd)
{
    static const char *const outcomes[] = {"loaded", "collapsed_process", "collapsed_fleet"};
    double sum = 0;
    for (size_t i = 0; i < sizeof outcomes / sizeof *outcomes; i++) {
        char sample[64];
        snprintf(sample, sizeof sample, "guard_gets_total{outcome=\"%s\"}", outcomes[i]);
        sum += stack_catalogd_metric(catalogd, sample);
    }
    return sum;
}

static bool run_one(struct bench *bench, struct tally *tally, enum contender who)
{
    struct stack_catalogd catalogd = {0};
    struct wrk_result result;
    char path[BURST_PATH_BYTES];
    bench_cold_path(bench, path);
    bool good =
        bench_service_start(bench, &catalogd, contenders[who].settings) && bench_ask(catalogd.port, path);
    uint64_t mark = stack_postgres_mark(&bench->postgres);
    double waits = waited(&catalogd);
    const struct wrk_options options = {
        .port = catalogd.port, .path = path, .connection_count = CLIENTS, .seconds = SECONDS};
    good = good && wrk_run(&options, &result);
    if (good) {
        samples_add(&tally->loads[who],
                    (double)stack_postgres_count(&bench->postgres, mark, bench_query_marker));
        samples_add(&tally->waits[who], waited(&catalogd) - waits);
    }
    stack_catalogd_stop(&catalogd);
    return good;
}

static void report(const struct tally *tally)
{
    report_heading("One hot product, fresh for 1 s, loaded in 0.02 s: %d clients, %d s", CLIENTS, SECONDS);
    for (int who = 0; who < CONTENDER_COUNT; who++) {
        report_row_of(contenders[who].name, "loads", "", 0, &tally->loads[who], none);
        report_row_of(contenders[who].name, "requests that waited", "", 0, &tally->waits[who], none);
    }
}

bool measure_early(struct bench *bench)
{
    static struct tally tally;
    bool good = true;
    progress_begin("early refresh of one hot product:");
    for (size_t i = 0; good && i < REPETITIONS; i++) {
        progress_repetition(i + 1);
        for (int who = 0; good && who < CONTENDER_COUNT; who++)
            good = run_one(bench, &tally, (enum contender)who);
    }
    if (good)
        report(&tally);
    return progress_end(good);
}
