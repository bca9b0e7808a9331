/* SPDX-License-Identifier: MIT */
/*
 * bench_avalanche.c - thousands of products that are in the cache expire at one instant, and two processes are asked
 * for all of them, each for every product twice: how many queries run at once, how many in all, how long it takes.
 *
 * The guard with permits, the same with a query for each product, single flight in each process alone, and no guard, with
 * the same workers and limits. Redis has three seconds for a command: a process that does not hear of it goes on without
 * permits, which is not looked at here.
 *
 * Queries, and how many of them ran at once, are counted by PostgreSQL's log, which has the begin and the end of each.
 * An answer counts from when it was due; all are fresh again when each product has been answered once. At best that takes
 * as long as the loads would if no permit were ever idle: their number, times their mean time as catalogd has measured it,
 * by the permits; that is looked at where each product has a query. A query takes 20 ms: with 5 ms two cores for clients,
 * servers and PostgreSQL together are the limit, not the permits.
 *
 * The products come within the 1.2 s in which they are asked for, and no load waits for company while a permit is free. So the
 * guard's queries are the more, the faster clients and services are: at most 8 every 20 ms. bench_merge.c asks for as many
 * keys at one instant, and holds the guard to full queries.
 */
#include "load/base/clock.h"
#include "load/bench/bench.h"
#include "load/herd/pace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    CLIENTS = 2, /* that go through all products, of each process */
    PERMITS = 8,
    QUERIES = 300, /* most, of the guard */
    QUERY_MS = 20,
    PRODUCTS = BENCH_AVALANCHE_PRODUCTS,
    REQUESTS = PRODUCTS * PAIR * CLIENTS,
    PER_SECOND = 10000,
    CONNECTIONS = 4000,
    REPETITIONS = 3,
    LIMIT_MS = 60000,
    AHEAD_MS = 50, /* the instant is named so long before */
    GONE_LIMIT_MS = 5000,
    IDS_AT_A_TIME = 100,
};
_Static_assert(PRODUCTS % IDS_AT_A_TIME == 0, "no more products are loaded than are asked for");

enum contender { GUARD, APART, LOCAL, NO_GUARD, CONTENDER_COUNT };

static const struct {
    const char *name, *mode, *merges;
    uint32_t permits;
} contenders[CONTENDER_COUNT] = {
    [GUARD] = {"guard", "GUARD_MODE=fleet", "MERGE_LOADS=on", PERMITS},
    [APART] = {"a query for each", "GUARD_MODE=fleet", "MERGE_LOADS=off", PERMITS},
    [LOCAL] = {"single flight in each process", "GUARD_MODE=local", "MERGE_LOADS=off", 0},
    [NO_GUARD] = {"no guard", "GUARD_MODE=off", "MERGE_LOADS=off", 0},
};

struct side {
    struct samples at_once, queries, fresh_s, p99_s;
};

struct avalanche {
    uint32_t first; /* of the products */
    struct side sides[CONTENDER_COUNT];
    struct samples refused_each, load_ms, of_best; /* of those with a query for each */
    struct samples ratio;
};

/* ---- all in the cache, and gone at one instant ---- */

static bool fill(const struct avalanche *avalanche, uint16_t port)
{
    char path[IDS_AT_A_TIME * 8 + 32];
    for (uint32_t done = 0; done < PRODUCTS; done += IDS_AT_A_TIME) {
        size_t used = (size_t)snprintf(path, sizeof path, "/products?ids=");
        for (uint32_t i = 0; i < IDS_AT_A_TIME; i++)
            used += (size_t)snprintf(path + used, sizeof path - used, "%s%" PRIu32, i > 0 ? "," : "",
                                     avalanche->first + done + i);
        if (!bench_ask(port, path))
            return false;
    }
    return true;
}

static long long ask_redis(struct bench *bench, const char *script, uint32_t first)
{
    return stack_redis_number(&bench->redis, "EVAL %s 0 %u %d %d", script, (unsigned)first, PRODUCTS,
                              AHEAD_MS);
}

static bool expire(struct bench *bench, uint32_t first)
{
    static const char all_expire[] = "local t = redis.call('TIME') "
                                     "local at = t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[3] "
                                     "local count = 0 "
                                     "for id = ARGV[1], ARGV[1] + ARGV[2] - 1 do "
                                     "count = count + redis.call('PEXPIREAT', "
                                     "string.format('csg1:{bench:product:%d}:v', id), at) end "
                                     "return count";
    static const char how_many[] = "local count = 0 "
                                   "for id = ARGV[1], ARGV[1] + ARGV[2] - 1 do "
                                   "count = count + redis.call('EXISTS', "
                                   "string.format('csg1:{bench:product:%d}:v', id)) end "
                                   "return count";
    long long cached = ask_redis(bench, all_expire, first);
    if (cached != PRODUCTS) {
        fprintf(stderr, "bench: %lld of %d products are in the cache\n", cached, PRODUCTS);
        return false;
    }
    uint64_t end_us = clock_after_ms(GONE_LIMIT_MS);
    while (ask_redis(bench, how_many, first) != 0) {
        if (clock_us() >= end_us) {
            fprintf(stderr, "bench: the products do not expire in Redis\n");
            return false;
        }
        clock_pause_ms(10);
    }
    return true;
}

/* ---- asking for all of them ---- */

/* From the first request to the answer, the first for its product, that is the last of those. 0: one has none. */
static uint64_t fresh_us(const struct records *records, uint32_t first)
{
    const uint64_t begin_us = records->at[0].due_us;
    uint64_t *answered_us = calloc(PRODUCTS, sizeof *answered_us), last_us = begin_us;
    if (answered_us == NULL)
        abort();
    for (size_t i = 0; i < records->count; i++) {
        const struct record *record = &records->at[i];
        uint64_t *known_us = &answered_us[record->key - first], end_us = record->due_us + record->end_us;
        if (*known_us == 0 || end_us < *known_us)
            *known_us = end_us;
    }
    for (size_t i = 0; i < PRODUCTS && last_us > 0; i++) {
        if (answered_us[i] == 0 || answered_us[i] > last_us)
            last_us = answered_us[i];
    }
    free(answered_us);
    return last_us > 0 ? last_us - begin_us : 0;
}

static bool ask_for_all(const struct avalanche *avalanche, const struct service_pair *pair, struct side *side)
{
    char path[64], why[WORK_WHY_BYTES] = "not every request was answered with 200";
    const struct pace pace = {.ports = {pair->catalogd[0].port, pair->catalogd[1].port},
                              .port_count = PAIR,
                              .path = path,
                              .walks = CLIENTS,
                              .per_second = PER_SECOND,
                              .duration_ms = (uint32_t)((uint64_t)REQUESTS * 1000 / PER_SECOND),
                              .connection_count = CONNECTIONS,
                              .limit_ms = LIMIT_MS};
    struct records records;
    struct herd_strain strain;
    struct latencies latencies;
    snprintf(path, sizeof path, "/products/{each:%" PRIu32 "-%" PRIu32 "}", avalanche->first,
             avalanche->first + PRODUCTS - 1);
    bool good = pace_run(&pace, &records, &strain, why) && pace_latencies(&records, &latencies);
    uint64_t all_us = good ? fresh_us(&records, avalanche->first) : 0;
    records_clear(&records);
    if (all_us == 0) {
        fprintf(stderr, "bench: %s\n", good ? "not every product was asked for" : why);
        return false;
    }
    samples_add(&side->fresh_s, (double)all_us / 1e6);
    samples_add(&side->p99_s, latencies.p99_ms / 1e3);
    return true;
}

/* ---- one repetition ---- */

static double sum_of(const struct service_pair *pair, const char *metric)
{
    double sum = 0;
    for (size_t i = 0; i < PAIR; i++)
        sum += stack_catalogd_metric(&pair->catalogd[i], metric);
    return sum;
}

/* Of both processes so far. */
struct sums {
    double refused, loads, loading_s;
};

static struct sums read_sums(const struct service_pair *pair)
{
    return (struct sums){
        .refused = sum_of(pair, "guard_permits_total{result=\"refused\"}"),
        .loads = sum_of(pair, "guard_load_duration_seconds_count"),
        .loading_s = sum_of(pair, "guard_load_duration_seconds_sum"),
    };
}

static void add_permits(struct avalanche *avalanche, const struct sums *before,
                        const struct service_pair *pair)
{
    const struct sums after = read_sums(pair);
    const struct samples *fresh_s = &avalanche->sides[APART].fresh_s;
    double loads = after.loads - before->loads, loading_s = after.loading_s - before->loading_s;
    samples_add(&avalanche->refused_each, (after.refused - before->refused) / loads);
    samples_add(&avalanche->load_ms, loading_s / loads * 1e3);
    samples_add(&avalanche->of_best, fresh_s->at[fresh_s->count - 1] / (loading_s / PERMITS));
}

static bool measure(struct bench *bench, struct avalanche *avalanche, enum contender who,
                    const struct service_pair *pair)
{
    struct side *side = &avalanche->sides[who];
    uint32_t at_once;
    uint64_t mark = stack_postgres_mark(&bench->postgres);
    struct sums before = read_sums(pair);
    if (!ask_for_all(avalanche, pair, side) ||
        !stack_postgres_at_once(&bench->postgres, mark, bench_query_marker, &at_once))
        return false;
    double queries = stack_postgres_count(&bench->postgres, mark, bench_query_marker);
    samples_add(&side->at_once, at_once);
    samples_add(&side->queries, queries);
    if (who == APART)
        add_permits(avalanche, &before, pair);
    return true;
}

static bool start_pair(const struct bench *bench, enum contender who, struct service_pair *pair)
{
    char delay[32], permits[32];
    const char *const settings[] = {contenders[who].mode,
                                    contenders[who].merges,
                                    permits,
                                    delay,
                                    "SERVER_LOOPS=1",
                                    "MAX_LOADS=24",
                                    "LOAD_QUEUE=20000",
                                    "DEADLINE_MS=60000",
                                    "MAX_HOLD_MS=60000",
                                    "REDIS_LIMIT_MS=3000",
                                    "LEASE_MS=10000",
                                    "PERMIT_MS=10000",
                                    NULL};
    snprintf(delay, sizeof delay, "LOAD_DELAY_MS=%d", QUERY_MS);
    snprintf(permits, sizeof permits, "LOAD_PERMITS=%" PRIu32, contenders[who].permits);
    return bench_pair_start(bench, pair, settings);
}

/* Each pair runs alone: an idle one would hear of the others' fills, too. */
static bool run_one(struct bench *bench, struct avalanche *avalanche, enum contender who)
{
    struct service_pair pair = {0};
    bool good = start_pair(bench, who, &pair) && fill(avalanche, pair.catalogd[0].port) &&
                expire(bench, avalanche->first) && measure(bench, avalanche, who, &pair);
    service_pair_stop(&pair);
    return good;
}

static void report(const struct avalanche *avalanche)
{
    report_heading(
        "An avalanche: %d products expire together; two processes, %d permits, the query takes %d ms",
        PRODUCTS, PERMITS, QUERY_MS);
    const struct goal goals[CONTENDER_COUNT] = {
        [GUARD] = all_at_most(QUERIES), [APART] = all_at_most(PRODUCTS), [LOCAL] = none, [NO_GUARD] = none};
    for (enum contender who = 0; who < CONTENDER_COUNT; who++) {
        const char *name = contenders[who].name;
        const struct side *side = &avalanche->sides[who];
        report_row_of(name, "queries at once", "", 0, &side->at_once,
                      contenders[who].permits > 0 ? all_at_most(PERMITS) : none);
        report_row_of(name, "queries", "", 0, &side->queries, goals[who]);
        report_row_of(name, "all are fresh again", "s", 2, &side->fresh_s, none);
        report_row_of(name, "p99", "s", 2, &side->p99_s, none);
    }
    report_row("guard / a query for each: all are fresh again", "", 2, &avalanche->ratio, at_most(1.0 / 6));
    report_row("a query for each: mean load", "ms", 2, &avalanche->load_ms, none);
    report_row("a query for each: took / (loads x mean load / permits)", "", 2, &avalanche->of_best,
               at_most(1.25));
    report_row("a query for each: refused acquires of a permit per load", "", 2, &avalanche->refused_each,
               none);
}

bool measure_avalanche(struct bench *bench)
{
    static struct avalanche avalanche;
    char text[48];
    snprintf(text, sizeof text, "an avalanche of %d products:", PRODUCTS);
    progress_begin(text);
    avalanche.first = bench_cold_products(bench, PRODUCTS);
    bool good = stack_postgres_log_ends(&bench->postgres, true);
    for (size_t i = 0; good && i < REPETITIONS; i++) {
        progress_repetition(i + 1);
        for (enum contender who = 0; good && who < CONTENDER_COUNT; who++)
            good = run_one(bench, &avalanche, who);
        if (good)
            samples_add(&avalanche.ratio,
                        avalanche.sides[GUARD].fresh_s.at[i] / avalanche.sides[APART].fresh_s.at[i]);
    }
    if (good)
        report(&avalanche);
    return progress_end(stack_postgres_log_ends(&bench->postgres, false) && good);
}
