/* SPDX-License-Identifier: MIT */
/*
 * bench_ways.c - what the way to Redis costs: a service over one Redis, one over its port for TLS (P-256, TLS 1.3,
 * verified), and one over a Redis Cluster of three masters, in turns.
 */
#include "load/bench/bench.h"
#include "load/stack/stack_certificates.h"
#include "load/stack/stack_cluster.h"
#include "load/stack/wrk.h"

#include <stdio.h>

enum { CONNECTIONS = 64, SECONDS = 2, REPETITIONS = 5, MANY = BENCH_MANY_PRODUCTS, URL_BYTES = 256 };
enum way { PLAIN, SECURE, CLUSTER, WAY_COUNT };

struct ways {
    struct stack_certificates certificates;
    struct stack_redis redis;
    struct stack_cluster cluster;
    struct stack_catalogd catalogd[WAY_COUNT];
    uint32_t first; /* of many products */
    struct samples one[WAY_COUNT], many[WAY_COUNT], redis_us[WAY_COUNT], service_us[WAY_COUNT];
    struct samples one_ratio[WAY_COUNT], many_ratio[WAY_COUNT], miss_trips[WAY_COUNT];
};

static bool start_redis(struct ways *ways)
{
    static char cert[CERTIFICATES_PATH_BYTES], key[CERTIFICATES_PATH_BYTES];
    static const char *tls[] = {"--tls-cert-file",
                                cert,
                                "--tls-key-file",
                                key,
                                "--tls-ca-cert-file",
                                NULL,
                                "--tls-auth-clients",
                                "no",
                                NULL};
    if (!stack_certificates_start(&ways->certificates) ||
        !stack_certificates_issue(&ways->certificates, "server", "IP:127.0.0.1", -1, 30))
        return false;
    stack_certificates_path(&ways->certificates, "server.pem", cert);
    stack_certificates_path(&ways->certificates, "server.key", key);
    tls[5] = ways->certificates.ca;
    return stack_redis_start_as(&ways->redis, &(struct stack_redis_options){.tls = tls}) &&
           stack_cluster_start(&ways->cluster, &(struct stack_cluster_options){.master_count = 3});
}

static bool start_services(const struct bench *bench, struct ways *ways)
{
    char url[WAY_COUNT][URL_BYTES];
    bool good = true;
    snprintf(url[PLAIN], URL_BYTES, "REDIS_URL=%s", ways->redis.url);
    snprintf(url[SECURE], URL_BYTES, "REDIS_URL=rediss://127.0.0.1:%u?ssl_ca_certs=%s",
             (unsigned)ways->redis.tls_port, ways->certificates.ca);
    snprintf(url[CLUSTER], URL_BYTES, "REDIS_URL=%.200s", ways->cluster.url);
    for (enum way way = 0; good && way < WAY_COUNT; way++) {
        const char *const settings[] = {"FRESH_MS=3600000", "SERVER_LOOPS=1", url[way], NULL};
        good = service_start(&ways->catalogd[way], &ways->redis, &bench->postgres, settings);
    }
    return good;
}

static double trips_of(const struct ways *ways, enum way way)
{
    return stack_catalogd_metric(&ways->catalogd[way], "guard_redis_round_trips_total");
}

/* Each product once, so that they are hits; with TLS and without they are the same entries. */
static bool fill(struct bench *bench, struct ways *ways)
{
    double trips[WAY_COUNT] = {[PLAIN] = trips_of(ways, PLAIN), [CLUSTER] = trips_of(ways, CLUSTER)};
    ways->first = bench_cold_products(bench, MANY);
    if (!bench_ask_each(ways->catalogd[PLAIN].port, ways->first, MANY) ||
        !bench_ask_each(ways->catalogd[CLUSTER].port, ways->first, MANY))
        return false;
    for (enum way way = PLAIN; way < WAY_COUNT; way++)
        samples_add(&ways->miss_trips[way], (trips_of(ways, way) - trips[way]) / MANY);
    return true;
}

static uint64_t redis_cpu_us(const struct ways *ways, enum way way)
{
    uint64_t us = 0;
    if (way != CLUSTER)
        return proc_cpu_us(ways->redis.pid);
    for (size_t i = 0; i < ways->cluster.count; i++)
        us += proc_cpu_us(ways->cluster.node[i].pid);
    return us;
}

static bool measure(struct ways *ways, enum way way, uint32_t count, double *per_s)
{
    const struct wrk_options options = {.port = ways->catalogd[way].port,
                                        .path = "/products/*",
                                        .order = WRK_IN_TURN,
                                        .first = ways->first,
                                        .last = ways->first + count - 1,
                                        .connection_count = CONNECTIONS,
                                        .seconds = SECONDS};
    uint64_t redis_us = redis_cpu_us(ways, way), service_us = proc_cpu_us(ways->catalogd[way].pid);
    struct wrk_result result;
    if (!wrk_run(&options, &result))
        return false;
    *per_s = result.requests_per_s;
    redis_us = redis_cpu_us(ways, way) - redis_us;
    service_us = proc_cpu_us(ways->catalogd[way].pid) - service_us;
    if (count == MANY) {
        samples_add(&ways->redis_us[way], (double)redis_us / (double)result.requests);
        samples_add(&ways->service_us[way], (double)service_us / (double)result.requests);
    }
    return true;
}

static bool repeat(struct ways *ways)
{
    double one[WAY_COUNT], many[WAY_COUNT];
    for (enum way way = 0; way < WAY_COUNT; way++) {
        if (!measure(ways, way, 1, &one[way]) || !measure(ways, way, MANY, &many[way]))
            return false;
        samples_add(&ways->one[way], one[way]);
        samples_add(&ways->many[way], many[way]);
    }
    for (enum way way = SECURE; way < WAY_COUNT; way++) {
        samples_add(&ways->one_ratio[way], one[way] / one[PLAIN]);
        samples_add(&ways->many_ratio[way], many[way] / many[PLAIN]);
    }
    return true;
}

static void report(const struct ways *ways)
{
    static const char *const names[WAY_COUNT] = {"one Redis", "over TLS", "Cluster of three"};
    static const struct goal goals[WAY_COUNT] = {
        [SECURE] = {GOAL_AT_LEAST, 0.6}, [CLUSTER] = {GOAL_AT_LEAST, 0.9}};
    char text[96];
    report_heading("The way to Redis: 1 server loop, %d connections, %d products", CONNECTIONS, MANY);
    for (enum way way = 0; way < WAY_COUNT; way++) {
        snprintf(text, sizeof text, "one hot product, %s", names[way]);
        report_row(text, "1/s", 0, &ways->one[way], none);
        snprintf(text, sizeof text, "all products in turn, %s", names[way]);
        report_row(text, "1/s", 0, &ways->many[way], none);
        snprintf(text, sizeof text, "CPU of a hit, service, %s", names[way]);
        report_row(text, "us", 2, &ways->service_us[way], none);
        snprintf(text, sizeof text, "CPU of a hit, Redis, %s", names[way]);
        report_row(text, "us", 2, &ways->redis_us[way], none);
    }
    for (enum way way = SECURE; way < WAY_COUNT; way++) {
        snprintf(text, sizeof text, "one hot product, %s / one Redis", names[way]);
        report_row(text, "", 2, &ways->one_ratio[way], goals[way]);
        snprintf(text, sizeof text, "all products in turn, %s / one Redis", names[way]);
        report_row(text, "", 2, &ways->many_ratio[way], goals[way]);
    }
    report_row("round trips per miss, one Redis", "", 2, &ways->miss_trips[PLAIN], at_most(3));
    report_row("the same, Cluster, those at once to several masters counted each", "", 2,
               &ways->miss_trips[CLUSTER], none);
}

bool measure_ways(struct bench *bench)
{
    static struct ways ways;
    progress_begin("hits by the way to Redis:");
    bool good = start_redis(&ways) && start_services(bench, &ways) && fill(bench, &ways);
    for (size_t i = 0; good && i < REPETITIONS; i++) {
        progress_repetition(i + 1);
        good = repeat(&ways);
    }
    for (enum way way = 0; way < WAY_COUNT; way++)
        stack_catalogd_stop(&ways.catalogd[way]);
    stack_redis_stop(&ways.redis);
    stack_cluster_stop(&ways.cluster);
    stack_certificates_stop(&ways.certificates);
    if (good)
        report(&ways);
    return progress_end(good);
}
