/* SPDX-License-Identifier: MIT */
/*
 * bench_hits.c - a hit in Redis and a near hit, beside a constant from the same server loop and beside nginx and
 * Varnish, which serve the same bodies from their own caches.
 *
 * One hot product is kind to the guard: requests for it that arrive within one turn of the loop share a lookup. So
 * the same is asked of ten thousand products, in turn and by Zipf's law. A service with a near cache answers beside
 * the one that asks Redis.
 *
 * One server loop, one nginx worker, one thread of wrk, the same connections and the same script of wrk's for all of
 * a kind, the constant too; Varnish has the threads that it has by default. The ratios are made within a repetition,
 * so what slows the whole machine down cancels out. Throughput depends on what shares which core; the CPU time per
 * request, Redis's own beside it, does so much less.
 */
#include "load/base/http.h"
#include "load/bench/bench.h"
#include "load/stack/rival.h"

#include <stdio.h>
#include <string.h>

enum { CONNECTIONS = 64, SECONDS = 1, REPETITIONS = 9, ASK_LIMIT_MS = 5000, KEPT_MS = 600000 };
enum keys { HOT, IN_TURN, ZIPF, KEYS_COUNT };

enum contender { CONSTANT, NEAR, HIT, NGINX, VARNISH, CONTENDER_COUNT };

struct contenders {
    struct stack_catalogd catalogd, near;
    struct rival nginx, varnish;
    struct {
        pid_t pid;
        uint16_t port;
    } at[CONTENDER_COUNT]; /* where each is asked; 0: it was not started */
};

/* One kind of keys. */
struct trial {
    struct samples rates[CONTENDER_COUNT], cpu_us[CONTENDER_COUNT], redis_us[CONTENDER_COUNT];
    struct samples to_constant[CONTENDER_COUNT],
        cpu_of_constant[CONTENDER_COUNT]; /* of those that are ours */
    struct samples to_nginx[CONTENDER_COUNT], to_varnish[CONTENDER_COUNT];
};

struct contest {
    struct contenders contenders;
    char path[BURST_PATH_BYTES]; /* of the hot product */
    uint32_t first;              /* of the many */
    struct trial trials[KEYS_COUNT];
};

/* ---- what is compared ---- */

static void enter(struct contenders *contenders, enum contender who, pid_t pid, uint16_t port)
{
    contenders->at[who].pid = pid;
    contenders->at[who].port = port;
}

static bool contenders_start(const struct bench *bench, struct contenders *contenders)
{
    static const char *const far[] = {"SERVER_LOOPS=1", NULL};
    static const char *const near[] = {"SERVER_LOOPS=1", "NEAR_BYTES=67108864", "NEAR_MS=60000", NULL};
    bool good = bench_service_start(bench, &contenders->catalogd, far) &&
                bench_service_start(bench, &contenders->near, near);
    enter(contenders, CONSTANT, contenders->catalogd.pid, contenders->catalogd.port);
    enter(contenders, NEAR, contenders->near.pid, contenders->near.port);
    enter(contenders, HIT, contenders->catalogd.pid, contenders->catalogd.port);
    return good;
}

/* nginx and Varnish, before the catalogd that has no near cache. */
static bool contenders_start_rivals(struct contenders *contenders)
{
    const uint16_t origin_port = contenders->catalogd.port;
    const struct nginx_options nginx = {.origin_port = origin_port, .valid_s = KEPT_MS / 1000};
    const struct varnish_options varnish = {.origin_port = origin_port, .ttl_ms = KEPT_MS};
    bool good = nginx_start(&contenders->nginx, &nginx) && varnish_start(&contenders->varnish, &varnish);
    enter(contenders, NGINX, contenders->nginx.pid, contenders->nginx.port);
    enter(contenders, VARNISH, contenders->varnish.pid, contenders->varnish.port);
    return good;
}

static void contenders_stop(struct contenders *contenders)
{
    rival_stop(&contenders->varnish);
    rival_stop(&contenders->nginx);
    stack_catalogd_stop(&contenders->near);
    stack_catalogd_stop(&contenders->catalogd);
}

/* ---- the measurement ---- */

static const char *rival_name(enum contender who)
{
    return who == NGINX ? "nginx" : "Varnish";
}

static bool ask(const struct contest *contest, enum contender who, struct http_answer *answer)
{
    const struct http_request request = {.host = "127.0.0.1",
                                         .port = contest->contenders.at[who].port,
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

/* How often catalogd itself has answered for a product. */
static double origin_count(const struct contest *contest)
{
    return stack_catalogd_metric(&contest->contenders.catalogd,
                                 "catalogd_http_requests_total{route=\"product\",status=\"2xx\"}");
}

static bool ask_with_wrk(const struct contest *contest, enum contender who, enum keys keys,
                         struct wrk_result *result)
{
    static const enum wrk_order orders[] = {[HOT] = WRK_PLAIN, [IN_TURN] = WRK_IN_TURN, [ZIPF] = WRK_BY_ZIPF};
    const char *product = keys == HOT ? contest->path : "/products/*";
    const struct wrk_options options = {.port = contest->contenders.at[who].port,
                                        .path = who == CONSTANT ? "/ping" : product,
                                        .order = orders[keys],
                                        .first = contest->first,
                                        .last = contest->first + BENCH_MANY_PRODUCTS - 1,
                                        .connection_count = CONNECTIONS,
                                        .seconds = SECONDS};
    return wrk_run(&options, result);
}

static bool run_one(struct bench *bench, struct contest *contest, enum contender who, enum keys keys)
{
    pid_t pid = contest->contenders.at[who].pid;
    struct trial *trial = &contest->trials[keys];
    struct wrk_result result;
    double asked = origin_count(contest);
    uint64_t cpu_us = proc_cpu_us(pid), redis_us = proc_cpu_us(bench->redis.pid);
    if (!ask_with_wrk(contest, who, keys, &result))
        return false;
    double requests = (double)result.requests;
    samples_add(&trial->rates[who], result.requests_per_s);
    samples_add(&trial->cpu_us[who], (double)(proc_cpu_us(pid) - cpu_us) / requests);
    samples_add(&trial->redis_us[who], (double)(proc_cpu_us(bench->redis.pid) - redis_us) / requests);
    /* catalogd may still be answering what the run before has left: one request a connection */
    if (who < NGINX || origin_count(contest) <= asked + CONNECTIONS)
        return true;
    fprintf(stderr, "bench: %s did not answer from its cache\n", rival_name(who));
    return false;
}

static void compare(struct trial *trial, size_t i)
{
    const struct samples *rates = trial->rates, *cpu_us = trial->cpu_us;
    for (enum contender who = NEAR; who <= HIT; who++) {
        samples_add(&trial->to_constant[who], rates[who].at[i] / rates[CONSTANT].at[i]);
        samples_add(&trial->to_nginx[who], rates[who].at[i] / rates[NGINX].at[i]);
        samples_add(&trial->to_varnish[who], rates[who].at[i] / rates[VARNISH].at[i]);
        samples_add(&trial->cpu_of_constant[who], cpu_us[who].at[i] / cpu_us[CONSTANT].at[i]);
    }
}

static bool repeat(struct bench *bench, struct contest *contest)
{
    for (size_t i = 0; i < REPETITIONS; i++) {
        progress_repetition(i + 1);
        for (enum keys keys = 0; keys < KEYS_COUNT; keys++) {
            for (enum contender who = 0; who < CONTENDER_COUNT; who++) {
                if (!run_one(bench, contest, who, keys))
                    return false;
            }
            compare(&contest->trials[keys], i);
        }
    }
    return true;
}

/* What one hot product must reach, and what many must. */
static void report_goals(const struct trial *trial, bool many)
{
    report_row("hit / constant", "", 2, &trial->to_constant[HIT], many ? none : at_least(0.6));
    report_row("hit / nginx", "", 2, &trial->to_nginx[HIT], at_least(many ? 1.25 : 1));
    report_row("hit / Varnish", "", 2, &trial->to_varnish[HIT], none);
    report_row("near hit / constant", "", 2, &trial->to_constant[NEAR], many ? none : at_least(0.95));
    report_row("near hit / nginx", "", 2, &trial->to_nginx[NEAR], at_least(many ? 1.25 : 1.6));
    report_row("near hit / Varnish", "", 2, &trial->to_varnish[NEAR], many ? none : at_least(2.7));
    report_row("CPU of a hit / constant's", "", 2, &trial->cpu_of_constant[HIT], many ? at_most(1.45) : none);
    report_row("CPU of a near hit / constant's", "", 2, &trial->cpu_of_constant[NEAR],
               at_most(many ? 1.20 : 1.08));
}

static void report(const struct contest *contest)
{
    static const char *const keys_names[] = {[HOT] = "one hot product",
                                             [IN_TURN] = "10 000 products in turn",
                                             [ZIPF] = "10 000 products by Zipf's law"};
    static const char *const names[] = {[CONSTANT] = "constant (/ping)",
                                        [HIT] = "hits in Redis (/products/ID)",
                                        [NEAR] = "near hits (/products/ID)",
                                        [NGINX] = "nginx proxy_cache, 1 worker",
                                        [VARNISH] = "Varnish, default threads"};
    static const enum contender order[] = {CONSTANT, HIT, NEAR, NGINX, VARNISH};
    for (enum keys keys = 0; keys < KEYS_COUNT; keys++) {
        const struct trial *trial = &contest->trials[keys];
        report_heading("Hits, %s: 1 server loop, %d connections, Redis over TCP", keys_names[keys],
                       CONNECTIONS);
        for (size_t i = 0; i < CONTENDER_COUNT; i++)
            report_row(names[order[i]], "1/s", 0, &trial->rates[order[i]], none);
        report_goals(trial, keys != HOT);
        for (size_t i = 0; i < CONTENDER_COUNT; i++)
            report_row_of("CPU per request", names[order[i]], "us", 2, &trial->cpu_us[order[i]], none);
        report_row("CPU per request: Redis, of a hit", "us", 2, &trial->redis_us[HIT], none);
    }
}

/* Everybody has all of them. */
static bool warm_up(struct bench *bench, struct contest *contest)
{
    bool good = true;
    contest->first = bench_cold_products(bench, BENCH_MANY_PRODUCTS);
    bench_cold_path(bench, contest->path);
    for (enum contender who = NEAR; good && who < CONTENDER_COUNT; who++) {
        const uint16_t port = contest->contenders.at[who].port;
        good = bench_ask_each(port, contest->first, BENCH_MANY_PRODUCTS) && bench_ask(port, contest->path);
    }
    return good;
}

bool measure_hits(struct bench *bench)
{
    static struct contest contest;
    progress_begin("hits, beside a constant, nginx, Varnish:");
    bool good = contenders_start(bench, &contest.contenders) &&
                contenders_start_rivals(&contest.contenders) && warm_up(bench, &contest) &&
                same_body(&contest, NGINX) && same_body(&contest, VARNISH) && repeat(bench, &contest);
    contenders_stop(&contest.contenders);
    if (good)
        report(&contest);
    return progress_end(good);
}
