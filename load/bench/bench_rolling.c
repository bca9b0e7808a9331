/* SPDX-License-Identifier: MIT */
/*
 * bench_rolling.c - one hot product that expires every second, asked for 2 000 times a second over two processes:
 * how often it is loaded, and what requests feel that come when it expires.
 *
 * Beside it two nginx before a catalogd that guards nothing: proxy_cache_lock, proxy_cache_use_stale updating and
 * proxy_cache_background_update, so that nobody waits for a renewal there either. Its times are whole seconds: what
 * is valid for 1 s expires 1 to 2 s later. Queries are counted by PostgreSQL; those that began within the TTL of the
 * first of them are for the same expiry.
 *
 * The goals for the latencies are ratios, since both depend on the machine: 0.35 ms where nginx shows 0.3 ms for the
 * 99th percentile, 1.5 ms where it shows 1.5 ms for the 99.9th.
 */
#include "load/base/clock.h"
#include "load/bench/bench.h"
#include "load/herd/pace.h"

#include <stdio.h>

enum {
    TTL_MS = 1000,
    QUERY_MS = 100,
    PER_SECOND = 2000,
    SECONDS = 10,
    CONNECTIONS = 200,
    LIMIT_MS = 5000,
    REPETITIONS = 3,
    SETTLE_MS = 2 * QUERY_MS, /* a load under way has ended by then */
};
enum contender { GUARD, NEAR, NGINX, CONTENDER_COUNT };

struct side {
    struct service_pair pair;
    struct samples queries, queries_per_expiry, p50_ms, p99_ms, p999_ms, max_ms;
};

struct contest {
    struct side sides[CONTENDER_COUNT];
    struct samples p99[CONTENDER_COUNT], p999[CONTENDER_COUNT]; /* as a multiple of nginx's */
};

static bool ask_both(const struct pace *pace)
{
    bool good = true;
    for (size_t i = 0; good && i < PAIR; i++)
        good = bench_ask(pace->ports[i], pace->path);
    return good;
}

/* All were answered with 200, or nothing was measured. */
static bool ask_at_pace(const struct pace *pace, struct latencies *out)
{
    struct records records;
    struct herd_strain strain;
    char why[WORK_WHY_BYTES] = "not every request was answered with 200";
    bool good = pace_run(pace, &records, &strain, why) && pace_latencies(&records, 0, UINT64_MAX, out);
    if (!good)
        fprintf(stderr, "bench: %s\n", why);
    records_clear(&records);
    return good;
}

static bool roll(struct bench *bench, struct side *side)
{
    char path[BURST_PATH_BYTES];
    struct pace pace = {.port_count = PAIR,
                        .path = path,
                        .per_second = PER_SECOND,
                        .duration_ms = SECONDS * 1000,
                        .connection_count = CONNECTIONS,
                        .limit_ms = LIMIT_MS};
    struct latencies latencies;
    for (size_t i = 0; i < PAIR; i++)
        pace.ports[i] = service_pair_port(&side->pair, i);
    bench_cold_path(bench, path);
    if (!ask_both(&pace))
        return false;
    uint64_t mark = stack_postgres_mark(&bench->postgres);
    if (!ask_at_pace(&pace, &latencies))
        return false;
    clock_pause_ms(SETTLE_MS);
    double queries = stack_postgres_count(&bench->postgres, mark, bench_query_marker);
    double expiries = stack_postgres_expiries(&bench->postgres, mark, bench_query_marker, TTL_MS);
    samples_add(&side->queries, queries);
    samples_add(&side->queries_per_expiry, expiries > 0 ? queries / expiries : 0);
    samples_add(&side->p50_ms, latencies.p50_ms);
    samples_add(&side->p99_ms, latencies.p99_ms);
    samples_add(&side->p999_ms, latencies.p999_ms);
    samples_add(&side->max_ms, latencies.max_ms);
    return true;
}

static bool repeat(struct bench *bench, struct contest *contest)
{
    for (size_t i = 0; i < REPETITIONS; i++) {
        progress_repetition(i + 1);
        for (enum contender who = 0; who < CONTENDER_COUNT; who++) {
            if (!roll(bench, &contest->sides[who]))
                return false;
        }
        for (enum contender who = 0; who < NGINX; who++) {
            const struct side *ours = &contest->sides[who], *nginx = &contest->sides[NGINX];
            samples_add(&contest->p99[who], ours->p99_ms.at[i] / nginx->p99_ms.at[i]);
            samples_add(&contest->p999[who], ours->p999_ms.at[i] / nginx->p999_ms.at[i]);
        }
    }
    return true;
}

static bool start(struct bench *bench, struct contest *contest)
{
    char fresh[32], delay[32];
    const char *const guard[] = {
        "SERVER_LOOPS=1", "GUARD_MODE=fleet", "JITTER_PERCENT=0", "STALE_MS=10000", fresh, delay, NULL};
    const char *const near[] = {"SERVER_LOOPS=1",
                                "GUARD_MODE=fleet",
                                "JITTER_PERCENT=0",
                                "STALE_MS=10000",
                                fresh,
                                "NEAR_BYTES=67108864",
                                delay,
                                NULL};
    const char *const off[] = {"GUARD_MODE=off", "FRESH_MS=1", "JITTER_PERCENT=0", delay, NULL};
    struct service_pair *nginx = &contest->sides[NGINX].pair;
    snprintf(fresh, sizeof fresh, "FRESH_MS=%d", TTL_MS);
    snprintf(delay, sizeof delay, "LOAD_DELAY_MS=%d", QUERY_MS);
    return bench_pair_start(bench, &contest->sides[GUARD].pair, guard) &&
           bench_pair_start(bench, &contest->sides[NEAR].pair, near) && bench_pair_start(bench, nginx, off) &&
           service_pair_start_nginx(nginx,
                                    (struct nginx_options){.valid_s = TTL_MS / 1000, .serves_stale = true});
}

static void stop(struct contest *contest)
{
    for (enum contender who = 0; who < CONTENDER_COUNT; who++)
        service_pair_stop(&contest->sides[who].pair);
}

static void report_side(const char *name, const struct side *side, struct goal goal)
{
    static const struct goal none = {GOAL_NONE, 0};
    report_row_of(name, "queries", "", 0, &side->queries, none);
    report_row_of(name, "queries per expiry", "", 2, &side->queries_per_expiry, goal);
    report_row_of(name, "p50", "ms", 2, &side->p50_ms, none);
    report_row_of(name, "p99", "ms", 2, &side->p99_ms, none);
    report_row_of(name, "p99.9", "ms", 2, &side->p999_ms, none);
    report_row_of(name, "slowest answer", "ms", 2, &side->max_ms, none);
}

static void report(const struct contest *contest)
{
    static const struct goal none = {GOAL_NONE, 0}, one = {GOAL_ALL_AT_MOST, 1};
    static const struct goal p99 = {GOAL_AT_MOST, 1.17}, p999 = {GOAL_AT_MOST, 1};
    report_heading("Rolling expiry: one product, TTL %d s, %d requests a second over two processes for %d s",
                   TTL_MS / 1000, PER_SECOND, SECONDS);
    report_side("guard", &contest->sides[GUARD], one);
    report_side("guard, near cache", &contest->sides[NEAR], one);
    report_side("two nginx, use_stale updating", &contest->sides[NGINX], none);
    report_row("guard / nginx: p99", "", 2, &contest->p99[GUARD], p99);
    report_row("guard / nginx: p99.9", "", 2, &contest->p999[GUARD], p999);
    report_row("guard, near cache / nginx: p99", "", 2, &contest->p99[NEAR], p99);
    report_row("guard, near cache / nginx: p99.9", "", 2, &contest->p999[NEAR], p999);
}

bool measure_rolling(struct bench *bench)
{
    static struct contest contest;
    progress_begin("rolling expiry, beside nginx:");
    bool good = start(bench, &contest) && repeat(bench, &contest);
    stop(&contest);
    if (good)
        report(&contest);
    return progress_end(good);
}
