/* SPDX-License-Identifier: MIT */
/*
 * bench_rolling.c - one hot product that expires every second, asked for 2 000 times a second over two processes:
 * how often it is loaded, and what requests feel that come when it expires.
 *
 * The measure is a constant of the same two processes at the same rate, within the same repetition: /ping. Beside it two
 * nginx before a catalogd that guards nothing (proxy_cache_lock, proxy_cache_use_stale updating,
 * proxy_cache_background_update) and two Varnish with grace, so that nobody waits for a renewal there either. The times
 * of nginx are whole seconds: what is valid for 1 s expires 1 to 2 s later. Queries are counted by PostgreSQL; those that
 * began within the TTL of the first of them are for the same expiry.
 */
#include "load/base/clock.h"
#include "load/bench/bench.h"

#include <stdio.h>

enum {
    TTL_MS = 1000,
    QUERY_MS = 100,
    PER_SECOND = 2000,
    SECONDS = 10,
    CONNECTIONS = 200,
    LIMIT_MS = 5000,
    STALE_MS = 10000,
    REPETITIONS = 7,
    SETTLE_MS = 2 * QUERY_MS, /* a load under way has ended by then */
};
enum contender { CONSTANT, GUARD, NEAR, NGINX, VARNISH, CONTENDER_COUNT };

struct side {
    struct service_pair pair;
    struct samples queries, queries_per_expiry, p50_ms, p99_ms, p999_ms, max_ms;
};

struct contest {
    struct side sides[CONTENDER_COUNT];
    struct samples p99[CONTENDER_COUNT], p999[CONTENDER_COUNT]; /* as a multiple of the constant's */
};

static bool ask_both(const struct pace *pace)
{
    bool good = true;
    for (size_t i = 0; good && i < PAIR; i++)
        good = bench_ask(pace->ports[i], pace->path);
    return good;
}

static void keep(struct side *side, const struct latencies *latencies)
{
    samples_add(&side->p50_ms, latencies->p50_ms);
    samples_add(&side->p99_ms, latencies->p99_ms);
    samples_add(&side->p999_ms, latencies->p999_ms);
    samples_add(&side->max_ms, latencies->max_ms);
}

static bool roll(struct bench *bench, struct contest *contest, enum contender who)
{
    char path[BURST_PATH_BYTES] = "/ping";
    struct side *side = &contest->sides[who];
    const struct service_pair *pair = &contest->sides[who == CONSTANT ? GUARD : who].pair;
    struct pace pace = {.port_count = PAIR,
                        .path = path,
                        .per_second = PER_SECOND,
                        .duration_ms = SECONDS * 1000,
                        .connection_count = CONNECTIONS,
                        .limit_ms = LIMIT_MS};
    struct latencies latencies;
    for (size_t i = 0; i < PAIR; i++)
        pace.ports[i] = service_pair_port(pair, i);
    if (who != CONSTANT)
        bench_cold_path(bench, path);
    if (!ask_both(&pace))
        return false;
    uint64_t mark = stack_postgres_mark(&bench->postgres);
    if (!bench_pace(&pace, &latencies))
        return false;
    clock_pause_ms(SETTLE_MS);
    double queries = stack_postgres_count(&bench->postgres, mark, bench_query_marker);
    double expiries = stack_postgres_expiries(&bench->postgres, mark, bench_query_marker, TTL_MS);
    samples_add(&side->queries, queries);
    samples_add(&side->queries_per_expiry, expiries > 0 ? queries / expiries : 0);
    keep(side, &latencies);
    return true;
}

static bool repeat(struct bench *bench, struct contest *contest)
{
    const struct side *sides = contest->sides;
    for (size_t i = 0; i < REPETITIONS; i++) {
        progress_repetition(i + 1);
        for (enum contender who = 0; who < CONTENDER_COUNT; who++) {
            if (!roll(bench, contest, who))
                return false;
            samples_add(&contest->p99[who], sides[who].p99_ms.at[i] / sides[CONSTANT].p99_ms.at[i]);
            samples_add(&contest->p999[who], sides[who].p999_ms.at[i] / sides[CONSTANT].p999_ms.at[i]);
        }
    }
    return true;
}

static bool start(struct bench *bench, struct contest *contest)
{
    char fresh[32], delay[32], stale[32];
    const char *const guard[] = {"SERVER_LOOPS=1", "JITTER_PERCENT=0", stale, fresh, delay, NULL};
    const char *const near[] = {"SERVER_LOOPS=1",      "JITTER_PERCENT=0", stale, fresh, delay,
                                "NEAR_BYTES=67108864", "NEAR_MS=1000",     NULL};
    const char *const off[] = {"GUARD_MODE=off", "FRESH_MS=1", "JITTER_PERCENT=0", delay, NULL};
    struct service_pair *nginx = &contest->sides[NGINX].pair, *varnish = &contest->sides[VARNISH].pair;
    snprintf(fresh, sizeof fresh, "FRESH_MS=%d", TTL_MS);
    snprintf(stale, sizeof stale, "STALE_MS=%d", STALE_MS);
    snprintf(delay, sizeof delay, "LOAD_DELAY_MS=%d", QUERY_MS);
    return bench_pair_start(bench, &contest->sides[GUARD].pair, guard) &&
           bench_pair_start(bench, &contest->sides[NEAR].pair, near) && bench_pair_start(bench, nginx, off) &&
           bench_pair_start(bench, varnish, off) &&
           service_pair_start_nginx(nginx,
                                    (struct nginx_options){.valid_s = TTL_MS / 1000, .serves_stale = true}) &&
           service_pair_start_varnish(varnish,
                                      (struct varnish_options){.ttl_ms = TTL_MS, .grace_ms = STALE_MS});
}

static void stop(struct contest *contest)
{
    for (enum contender who = 0; who < CONTENDER_COUNT; who++)
        service_pair_stop(&contest->sides[who].pair);
}

static void report_side(const struct contest *contest, enum contender who, const char *name)
{
    static const struct goal one = {GOAL_ALL_AT_MOST, 1};
    static const struct goal ratios[CONTENDER_COUNT] = {
        [GUARD] = {GOAL_AT_MOST, 2.5}, [NEAR] = {GOAL_AT_MOST, 1.5}};
    const struct side *side = &contest->sides[who];
    bool is_ours = who == GUARD || who == NEAR;
    if (who != CONSTANT) {
        report_row_of(name, "queries", "", 0, &side->queries, none);
        report_row_of(name, "queries per expiry", "", 2, &side->queries_per_expiry, is_ours ? one : none);
    }
    report_row_of(name, "p50", "ms", 2, &side->p50_ms, none);
    report_row_of(name, "p99", "ms", 2, &side->p99_ms, none);
    report_row_of(name, "p99.9", "ms", 2, &side->p999_ms, none);
    report_row_of(name, "slowest answer", "ms", 2, &side->max_ms, none);
    if (who == CONSTANT)
        return;
    report_row_of(name, "p99 / constant's", "", 2, &contest->p99[who], ratios[who]);
    report_row_of(name, "p99.9 / constant's", "", 2, &contest->p999[who], ratios[who]);
}

static void report(const struct contest *contest)
{
    static const char *const names[] = {[CONSTANT] = "constant (/ping)",
                                        [GUARD] = "guard",
                                        [NEAR] = "guard, near cache",
                                        [NGINX] = "two nginx, use_stale updating",
                                        [VARNISH] = "two Varnish, grace"};
    report_heading("Rolling expiry: one product, TTL %d s, %d requests a second over two processes for %d s",
                   TTL_MS / 1000, PER_SECOND, SECONDS);
    for (enum contender who = 0; who < CONTENDER_COUNT; who++)
        report_side(contest, who, names[who]);
}

bool measure_rolling(struct bench *bench)
{
    static struct contest contest;
    progress_begin("rolling expiry, beside a constant, nginx, Varnish:");
    bool good = start(bench, &contest) && repeat(bench, &contest);
    stop(&contest);
    if (good)
        report(&contest);
    return progress_end(good);
}
