/* SPDX-License-Identifier: MIT */
/*
 * bench_hits.c - a hit in Redis, beside a constant from the same server loop and beside nginx and Varnish, which
 * serve the same body from their own caches.
 *
 * One hot product is kind to the guard: requests for it that arrive within one turn of the loop share a
 * lookup. So there is a second run over a thousand products in turn, where hardly any does. A second service has
 * a near cache and hardly asks Redis at all.
 *
 * One server loop, one nginx worker, one thread of wrk, the same connections for all; Varnish has the threads that it
 * has by default. The ratios are made within a repetition, so what slows the whole machine down cancels out.
 * Throughput depends on what shares which core; the CPU time per request, Redis's own beside it, does so much less.
 */
#include "load/base/http.h"
#include "load/bench/bench.h"
#include "load/stack/nginx.h"
#include "load/stack/varnish.h"
#include "load/stack/wrk.h"

#include <stdio.h>
#include <string.h>

enum { CONNECTIONS = 64, SECONDS = 2, REPETITIONS = 5, ASK_LIMIT_MS = 5000, MANY = 1000, KEPT_MS = 600000 };
enum contender { CONSTANT, HIT, MANY_HITS, NEAR, MANY_NEAR, NGINX, VARNISH, CONTENDER_COUNT };

struct contest {
    struct stack_catalogd catalogd, near;
    struct rival nginx, varnish;
    char path[BURST_PATH_BYTES];
    uint32_t first; /* of the thousand products */
    struct samples rates[CONTENDER_COUNT], cpu_us[CONTENDER_COUNT], redis_us[CONTENDER_COUNT];
    struct samples hit_to_constant, hit_to_nginx, cpu_to_constant;
    struct samples near_to_constant, near_to_nginx, near_to_varnish, near_cpu_of_constant;
};

static const struct rival *rival_of(const struct contest *contest, enum contender who)
{
    return who == NGINX ? &contest->nginx : who == VARNISH ? &contest->varnish : NULL;
}

static const char *rival_name(enum contender who)
{
    return who == NGINX ? "nginx" : "Varnish";
}

static const struct stack_catalogd *service_of(const struct contest *contest, enum contender who)
{
    return who == NEAR || who == MANY_NEAR ? &contest->near : &contest->catalogd;
}

static uint16_t port_of(const struct contest *contest, enum contender who)
{
    const struct rival *rival = rival_of(contest, who);
    return rival != NULL ? rival->port : service_of(contest, who)->port;
}

static pid_t pid_of(const struct contest *contest, enum contender who)
{
    const struct rival *rival = rival_of(contest, who);
    return rival != NULL ? rival->pid : service_of(contest, who)->pid;
}

static bool ask(const struct contest *contest, enum contender who, struct http_answer *answer)
{
    const struct http_request request = {.host = "127.0.0.1",
                                         .port = port_of(contest, who),
                                         .path = contest->path,
                                         .deadline_ms = ASK_LIMIT_MS};
    return http_ask(&request, answer) && answer->status == 200;
}

static bool same_body(const struct contest *contest, enum contender who)
{
    struct http_answer ours, theirs;
    bool same = ask(contest, HIT, &ours);
    same = ask(contest, who, &theirs) && same && ours.body_bytes == theirs.body_bytes &&
           memcmp(ours.body, theirs.body, ours.body_bytes) == 0;
    http_answer_clear(&ours);
    http_answer_clear(&theirs);
    if (!same)
        fprintf(stderr, "bench: %s and catalogd do not serve the same body\n", rival_name(who));
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
        [CONSTANT] = "/ping",     [HIT] = contest->path,      [MANY_HITS] = "/products/",
        [NEAR] = contest->path,   [MANY_NEAR] = "/products/", [NGINX] = contest->path,
        [VARNISH] = contest->path};
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
    uint64_t cpu_us = proc_cpu_us(pid), redis_us = proc_cpu_us(bench->redis.pid);
    if (!wrk_run(&options, &result))
        return false;
    double requests = (double)result.requests;
    samples_add(&contest->rates[who], result.requests_per_s);
    samples_add(&contest->cpu_us[who], (double)(proc_cpu_us(pid) - cpu_us) / requests);
    samples_add(&contest->redis_us[who], (double)(proc_cpu_us(bench->redis.pid) - redis_us) / requests);
    return true;
}

static bool run_rival(struct bench *bench, struct contest *contest, enum contender who)
{
    double before = origin_count(contest);
    if (!run_one(bench, contest, who))
        return false;
    if (origin_count(contest) > before) {
        fprintf(stderr, "bench: %s did not answer from its cache\n", rival_name(who));
        return false;
    }
    return true;
}

static bool run_all(struct bench *bench, struct contest *contest)
{
    bool good = true;
    for (enum contender who = 0; good && who < CONTENDER_COUNT; who++)
        good = rival_of(contest, who) != NULL ? run_rival(bench, contest, who) : run_one(bench, contest, who);
    return good;
}

static bool repeat(struct bench *bench, struct contest *contest)
{
    const struct samples *rates = contest->rates, *cpu_us = contest->cpu_us;
    for (size_t i = 0; i < REPETITIONS; i++) {
        progress_repetition(i + 1);
        if (!run_all(bench, contest))
            return false;
        samples_add(&contest->hit_to_constant, rates[HIT].at[i] / rates[CONSTANT].at[i]);
        samples_add(&contest->hit_to_nginx, rates[HIT].at[i] / rates[NGINX].at[i]);
        samples_add(&contest->cpu_to_constant, cpu_us[CONSTANT].at[i] / cpu_us[HIT].at[i]);
        samples_add(&contest->near_to_constant, rates[NEAR].at[i] / rates[CONSTANT].at[i]);
        samples_add(&contest->near_to_nginx, rates[NEAR].at[i] / rates[NGINX].at[i]);
        samples_add(&contest->near_to_varnish, rates[NEAR].at[i] / rates[VARNISH].at[i]);
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
    report_row("Varnish, same body, default threads", "1/s", 0, &contest->rates[VARNISH], none);
    report_row("hit / constant", "", 2, &contest->hit_to_constant, (struct goal){GOAL_AT_LEAST, 0.6});
    report_row("hit / nginx", "", 2, &contest->hit_to_nginx, (struct goal){GOAL_AT_LEAST, 1.0});
    report_row("near hit / constant", "", 2, &contest->near_to_constant, (struct goal){GOAL_AT_LEAST, 0.95});
    report_row("near hit / nginx", "", 2, &contest->near_to_nginx, (struct goal){GOAL_AT_LEAST, 1.6});
    report_row("near hit / Varnish", "", 2, &contest->near_to_varnish, (struct goal){GOAL_AT_LEAST, 2.7});
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
    report_row("CPU per request: Varnish", "us", 2, &contest->cpu_us[VARNISH], none);
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
    if (!bench_service_start(bench, &contest->catalogd, settings) ||
        !bench_service_start(bench, &contest->near, near_settings))
        return false;
    const struct varnish_options varnish = {.origin_port = contest->catalogd.port, .ttl_ms = KEPT_MS};
    const struct nginx_options nginx = {.origin_port = contest->catalogd.port, .valid_s = KEPT_MS / 1000};
    return nginx_start(&contest->nginx, &nginx) && varnish_start(&contest->varnish, &varnish) &&
           warm_up(bench, contest) && same_body(contest, NGINX) && same_body(contest, VARNISH);
}

bool measure_hits(struct bench *bench)
{
    static struct contest contest;
    progress_begin("hits, beside a constant, nginx, Varnish:");
    bool good = start(bench, &contest) && repeat(bench, &contest);
    rival_stop(&contest.varnish);
    rival_stop(&contest.nginx);
    stack_catalogd_stop(&contest.near);
    stack_catalogd_stop(&contest.catalogd);
    if (good)
        report(&contest);
    return progress_end(good);
}
