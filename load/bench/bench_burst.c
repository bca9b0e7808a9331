/* SPDX-License-Identifier: MIT */
/*
 * bench_burst.c - a thousand requests at once on a product that nobody has asked for, half of them on each of
 * two processes.
 *
 * Beside it two nginx, each with proxy_cache_lock on before a catalogd that guards nothing. Every burst takes
 * a product of its own. Queries are counted by PostgreSQL.
 */
#include "load/bench/bench.h"
#include "load/bench/hall.h"

#include <stdio.h>

enum {
    REQUESTS = 1000,
    REPETITIONS = 5,
    QUERY_MS = 100,
    NGINX_KEPT_S = 600,
};

struct side {
    struct service_pair pair;
    struct samples queries, p50_ms, p99_ms, max_ms;
};

static bool burst_once(struct bench *bench, struct side *side)
{
    struct crowd crowd = {.port_count = PAIR, .size = REQUESTS};
    for (size_t i = 0; i < PAIR; i++)
        crowd.ports[i] = service_pair_port(&side->pair, i);
    bench_cold_path(bench, crowd.path);
    uint64_t mark = stack_postgres_mark(&bench->postgres);
    bool good = crowd_open(&crowd) && crowd_ask(&crowd);
    crowd_close(&crowd);
    samples_add(&side->queries, stack_postgres_count(&bench->postgres, mark, bench_query_marker));
    samples_add(&side->p50_ms, (double)crowd.summary.p50_us / 1e3);
    samples_add(&side->p99_ms, (double)crowd.summary.p99_us / 1e3);
    samples_add(&side->max_ms, (double)crowd.summary.max_us / 1e3);
    return good;
}

/* Each has its database connection then. */
static bool start_side(struct bench *bench, struct side *side, const char *const *settings)
{
    bool good = bench_pair_start(bench, &side->pair, settings);
    for (size_t i = 0; good && i < PAIR; i++) {
        char path[BURST_PATH_BYTES];
        bench_cold_path(bench, path);
        good = bench_ask(side->pair.catalogd[i].port, path);
    }
    return good;
}

static void report_burst(const struct side *guard, const struct side *nginx)
{
    struct samples ratio = {.count = 0};
    for (size_t i = 0; i < guard->max_ms.count; i++)
        samples_add(&ratio, guard->max_ms.at[i] / nginx->max_ms.at[i]);
    report_heading("A cold burst: %d requests at once over two processes, the query takes %d ms", REQUESTS,
                   QUERY_MS);
    report_row("guard: queries", "", 0, &guard->queries, all_at_most(1));
    report_row("guard: p50", "ms", 1, &guard->p50_ms, none);
    report_row("guard: p99", "ms", 1, &guard->p99_ms, none);
    report_row("guard: slowest answer", "ms", 1, &guard->max_ms, none);
    report_row("two nginx, proxy_cache_lock on: queries", "", 0, &nginx->queries, none);
    report_row("two nginx: p50", "ms", 1, &nginx->p50_ms, none);
    report_row("two nginx: p99", "ms", 1, &nginx->p99_ms, none);
    report_row("two nginx: slowest answer", "ms", 1, &nginx->max_ms, none);
    report_row("guard / two nginx: slowest answer", "", 2, &ratio, at_most(0.5));
}

bool measure_burst(struct bench *bench)
{
    static struct side guard, nginx;
    char delay[32];
    const char *const fleet[] = {delay, "GUARD_MODE=fleet", NULL};
    const char *const off[] = {delay, "GUARD_MODE=off", NULL};
    snprintf(delay, sizeof delay, "LOAD_DELAY_MS=%d", QUERY_MS);
    progress_begin("cold bursts of 1 000, beside nginx:");
    bool good = start_side(bench, &guard, fleet) && start_side(bench, &nginx, off) &&
                service_pair_start_nginx(&nginx.pair, (struct nginx_options){.valid_s = NGINX_KEPT_S});
    for (size_t i = 0; good && i < REPETITIONS; i++) {
        progress_repetition(i + 1);
        good = burst_once(bench, &guard) && burst_once(bench, &nginx);
    }
    service_pair_stop(&guard.pair);
    service_pair_stop(&nginx.pair);
    if (good)
        report_burst(&guard, &nginx);
    return progress_end(good);
}
