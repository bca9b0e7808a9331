/* SPDX-License-Identifier: MIT */
/*
 * bench_hits.c - a hit in Redis, beside a constant from the same server loop and beside nginx, which serves
 * the same body from its own cache.
 *
 * One hot product is kind to the guard: requests for it that arrive within one turn of the loop share a
 * lookup. So there is a second run over a thousand products in turn, where hardly any does. A second service has
 * a near cache and hardly asks Redis at all.
 *
 * One server loop, one nginx worker, one thread of wrk, the same connections for all. The ratios are made
 * within a repetition, so what slows the whole machine down cancels out. Throughput depends on who shares
 * which core; the CPU time per request, Redis's own beside it, does so much less.
 */
#include "load/base/http.h"
#include "load/bench/bench.h"
#include "load/bench/nginx.h"
#include "load/bench/usage.h"
#include "load/bench/wrk.h"

#include <stdio.h>
#include <string.h>

enum { CONNECTIONS = 64, SECONDS = 2, REPETITIONS = 5, ASK_LIMIT_MS = 5000, MANY = 1000 };
enum contender { CONSTANT, HIT, MANY_HITS, NEAR, MANY_NEAR, NGINX, CONTENDER_COUNT };

struct contest {
    struct stack_catalogd catalogd, near;
    struct rival nginx;
    char path[BURST_PATH_BYTES];
    uint32_t first; /* of the thousand products */
    struct samples rates[CONTENDER_COUNT], cpu_us[CONTENDER_COUNT], redis_us[CONTENDER_COUNT];
    struct samples hit_to_constant, hit_to_nginx, cpu_to_constant;
    struct samples near_to_constant, near_to_nginx, near_cpu_of_constant;
};

static uint16_t port_of(const struct contest *contest, enum contender who)
{
    if (who == NGINX)
        return contest->nginx.port;
    return who == NEAR || who == MANY_NEAR ? contest->near.port : contest->catalogd.port;
}

static pid_t pid_of(const struct contest *contest, enum contender who)
{
    if (who == NGINX)
        return contest->nginx.pid;
    return who == NEAR || who == MANY_NEAR ? contest->near.pid : contest->catalogd.pid;
}

static bool same_body(const struct contest *contest)
{
    struct http_answer answers[2];
    const uint16_t ports[2] = {contest->catalogd.port, contest->nginx.port};
    for (size_t i = 0; i < 2; i++) {
        const struct http_request request = {
            .host = "127.0.0.1", .port = ports[i], .path = contest->path, .deadline_ms = ASK_LIMIT_MS};
        http_ask(&request, &answers[i]);
    }
    bool same = answers[0].status == 200 && answers[1].status == 200 &&
                answers[0].body_bytes == answers[1].body_bytes &&
                memcmp(answers[0].body, answers[1].body, answers[0].body_bytes) == 0;
    for (size_t i = 0; i < 2; i++)
        http_answer_clear(&answers[i]);
    if (!same)
        fprintf(stderr, "bench: nginx and catalogd do not serve the same body\n");
    return same;
}

/* How often catalogd itself has answered for the product. */
static double origin_count(const struct contest *contest)
{
    return stack_catalogd_metric(&contest->catalogd,
                                 "catalogd_http_requests_total{route=\"product\",status=\"2xx\"}");
}

static struct wrk_options options_of(const struct contest *contest, enum contender who)
{
    const char *const paths[CONTENDER_COUNT] = {
        [CONSTANT] = "/ping",   [HIT] = contest->path,      [MANY_HITS] = "/products/",
        [NEAR] = contest->path, [MANY_NEAR] = "/products/", [NGINX] = contest->path};
    struct wrk_options options = {.port = port_of(contest, who),
                                  .path = paths[who],
                                  .connection_count = CONNECTIONS,
                                  .seconds = SECONDS};
    if (who == MANY_HITS || who == MANY_NEAR) {
        options.first = contest->first;
        options.last = contest->first + MANY - 1;
    }
    return options;
}

static bool run_one(struct bench *bench, struct contest *contest, enum contender who)
{
    pid_t pid = pid_of(contest, who);
    const struct wrk_options options = options_of(contest, who);
    struct wrk_result result;
    uint64_t cpu_us = usage_cpu_us(pid), redis_us = usage_cpu_us(bench->redis.pid);
    if (!wrk_run(&options, &result))
        return false;
    double requests = (double)result.requests;
    samples_add(&contest->rates[who], result.requests_per_s);
    samples_add(&contest->cpu_us[who], (double)(usage_cpu_us(pid) - cpu_us) / requests);
    samples_add(&contest->redis_us[who], (double)(usage_cpu_us(bench->redis.pid) - redis_us) / requests);
    return true;
}

static bool run_nginx(struct bench *bench, struct contest *contest)
{
    double before = origin_count(contest);
    if (!run_one(bench, contest, NGINX))
        return false;
    if (origin_count(contest) > before) {
        fprintf(stderr, "bench: nginx did not answer from its cache\n");
        return false;
    }
    return true;
}

static bool repeat(struct bench *bench, struct contest *contest)
{
    const struct samples *rates = contest->rates, *cpu_us = contest->cpu_us;
    for (size_t i = 0; i < REPETITIONS; i++) {
        progress_repetition(i + 1);
        if (!run_one(bench, contest, CONSTANT) || !run_one(bench, contest, HIT) ||
            !run_one(bench, contest, MANY_HITS) || !run_one(bench, contest, NEAR) ||
            !run_one(bench, contest, MANY_NEAR) || !run_nginx(bench, contest))
            return false;
        samples_add(&contest->hit_to_constant, rates[HIT].at[i] / rates[CONSTANT].at[i]);
        samples_add(&contest->hit_to_nginx, rates[HIT].at[i] / rates[NGINX].at[i]);
        samples_add(&contest->cpu_to_constant, cpu_us[CONSTANT].at[i] / cpu_us[HIT].at[i]);
        samples_add(&contest->near_to_constant, rates[NEAR].at[i] / rates[CONSTANT].at[i]);
        samples_add(&contest->near_to_nginx, rates[NEAR].at[i] / rates[NGINX].at[i]);
        samples_add(&contest->near_cpu_of_constant, cpu_us[NEAR].at[i] / cpu_us[CONSTANT].at[i]);
    }
    return true;
}

static void report(const struct contest *contest)
{
    static const struct goal none = {GOAL_NONE, 0};
    report_heading("A hit: 1 server loop, %d connections, Redis over TCP", CONNECTIONS);
    report_row("constant (/ping)", "1/s", 0, &contest->rates[CONSTANT], none);
    report_row("hit in Redis (/products/ID)", "1/s", 0, &contest->rates[HIT], none);
    report_row("hits in Redis, 1 000 products in turn", "1/s", 0, &contest->rates[MANY_HITS], none);
    report_row("near hit (/products/ID)", "1/s", 0, &contest->rates[NEAR], none);
    report_row("near hits, 1 000 products in turn", "1/s", 0, &contest->rates[MANY_NEAR], none);
    report_row("nginx proxy_cache, same body, 1 worker", "1/s", 0, &contest->rates[NGINX], none);
    report_row("hit / constant", "", 2, &contest->hit_to_constant, (struct goal){GOAL_AT_LEAST, 0.6});
    report_row("hit / nginx", "", 2, &contest->hit_to_nginx, (struct goal){GOAL_AT_LEAST, 1.0});
    report_row("near hit / constant", "", 2, &contest->near_to_constant, (struct goal){GOAL_AT_LEAST, 0.95});
    report_row("near hit / nginx", "", 2, &contest->near_to_nginx, (struct goal){GOAL_AT_LEAST, 1.6});
    report_row("CPU of a near hit / constant's", "", 2, &contest->near_cpu_of_constant,
               (struct goal){GOAL_AT_MOST, 1.08});
    report_row("the same by CPU: constant's / hit's, catalogd", "", 2, &contest->cpu_to_constant, none);
    report_row("CPU per request: constant", "us", 2, &contest->cpu_us[CONSTANT], none);
    report_row("CPU per request: hit, catalogd", "us", 2, &contest->cpu_us[HIT], none);
    report_row("CPU per request: hit, Redis", "us", 2, &contest->redis_us[HIT], none);
    report_row("CPU per request: 1 000 products, catalogd", "us", 2, &contest->cpu_us[MANY_HITS], none);
    report_row("CPU per request: 1 000 products, Redis", "us", 2, &contest->redis_us[MANY_HITS], none);
    report_row("CPU per request: near hit", "us", 2, &contest->cpu_us[NEAR], none);
    report_row("CPU per request: near, 1 000 products", "us", 2, &contest->cpu_us[MANY_NEAR], none);
    report_row("CPU per request: nginx", "us", 2, &contest->cpu_us[NGINX], none);
}

/* Each of the thousand once, so that they are hits. */
static bool warm_up(struct bench *bench, struct contest *contest)
{
    char path[BURST_PATH_BYTES];
    contest->first = bench->next_product;
    for (size_t i = 0; i < MANY; i++) {
        bench_cold_path(bench, path);
        if (!bench_ask(contest->catalogd.port, path))
            return false;
    }
    bench_cold_path(bench, contest->path);
    return bench_ask(contest->catalogd.port, contest->path);
}

static bool start(struct bench *bench, struct contest *contest)
{
    static const char *const settings[] = {"SERVER_LOOPS=1", NULL};
    static const char *const near_settings[] = {"SERVER_LOOPS=1", "NEAR_BYTES=67108864", NULL};
    return bench_service_start(bench, &contest->catalogd, settings) &&
           bench_service_start(bench, &contest->near, near_settings) &&
           nginx_start(&contest->nginx, contest->catalogd.port) && warm_up(bench, contest) &&
           same_body(contest);
}

bool measure_hits(struct bench *bench)
{
    static struct contest contest;
    progress_begin("hits, beside a constant and nginx:");
    bool good = start(bench, &contest) && repeat(bench, &contest);
    rival_stop(&contest.nginx);
    stack_catalogd_stop(&contest.near);
    stack_catalogd_stop(&contest.catalogd);
    if (good)
        report(&contest);
    return progress_end(good);
}
