/* SPDX-License-Identifier: MIT */
/*
 * bench_secure.c - what TLS to Redis costs a hit: two services over one Redis, one of them over its port for TLS, in
 * turns. P-256, TLS 1.3, verified.
 */
#include "load/bench/bench.h"
#include "load/stack/stack_certificates.h"
#include "load/stack/wrk.h"

#include <stdio.h>

enum { CONNECTIONS = 64, SECONDS = 2, REPETITIONS = 5, MANY = 1000, URL_BYTES = 256 };
enum way { PLAIN, SECURE, WAY_COUNT };

struct ways {
    struct stack_certificates certificates;
    struct stack_redis redis;
    struct stack_catalogd catalogd[WAY_COUNT];
    uint32_t first; /* of the thousand */
    struct samples one[WAY_COUNT], many[WAY_COUNT], redis_us[WAY_COUNT], one_ratio, many_ratio;
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
    return stack_redis_start_as(&ways->redis, &(struct stack_redis_options){.tls = tls});
}

static bool start_services(const struct bench *bench, struct ways *ways)
{
    char url[URL_BYTES];
    const char *const plain[] = {"NAMESPACE=secure", "FRESH_MS=3600000", "SERVER_LOOPS=1", NULL};
    const char *const secure[] = {"NAMESPACE=secure", "FRESH_MS=3600000", "SERVER_LOOPS=1", url, NULL};
    snprintf(url, sizeof url, "REDIS_URL=rediss://127.0.0.1:%u?ssl_ca_certs=%s",
             (unsigned)ways->redis.tls_port, ways->certificates.ca);
    return service_start(&ways->catalogd[PLAIN], &ways->redis, &bench->postgres, plain) &&
           service_start(&ways->catalogd[SECURE], &ways->redis, &bench->postgres, secure);
}

/* Each of the thousand once, so that they are hits. */
static bool fill(struct bench *bench, struct ways *ways)
{
    char path[BURST_PATH_BYTES];
    ways->first = bench->next_product;
    for (size_t i = 0; i < MANY; i++) {
        bench_cold_path(bench, path);
        if (!bench_ask(ways->catalogd[PLAIN].port, path))
            return false;
    }
    return true;
}

static bool measure(struct ways *ways, enum way way, uint32_t count, double *per_s)
{
    const struct wrk_options options = {.port = ways->catalogd[way].port,
                                        .path = "/products/",
                                        .first = ways->first,
                                        .last = ways->first + count - 1,
                                        .connection_count = CONNECTIONS,
                                        .seconds = SECONDS};
    uint64_t redis_us = proc_cpu_us(ways->redis.pid);
    struct wrk_result result;
    if (!wrk_run(&options, &result))
        return false;
    *per_s = result.requests_per_s;
    if (count == MANY)
        samples_add(&ways->redis_us[way],
                    (double)(proc_cpu_us(ways->redis.pid) - redis_us) / (double)result.requests);
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
    samples_add(&ways->one_ratio, one[SECURE] / one[PLAIN]);
    samples_add(&ways->many_ratio, many[SECURE] / many[PLAIN]);
    return true;
}

static void report(const struct ways *ways)
{
    static const struct goal none = {GOAL_NONE, 0}, goal = {GOAL_AT_LEAST, 0.6};
    report_heading("A hit in Redis over TLS: 1 server loop, %d connections, P-256, TLS 1.3", CONNECTIONS);
    report_row("hit in Redis, plain", "1/s", 0, &ways->one[PLAIN], none);
    report_row("hit in Redis, TLS", "1/s", 0, &ways->one[SECURE], none);
    report_row("1 000 products in turn, plain", "1/s", 0, &ways->many[PLAIN], none);
    report_row("1 000 products in turn, TLS", "1/s", 0, &ways->many[SECURE], none);
    report_row("hit over TLS / plain", "", 2, &ways->one_ratio, goal);
    report_row("1 000 products over TLS / plain", "", 2, &ways->many_ratio, goal);
    report_row("CPU per request: 1 000 products, Redis, plain", "us", 2, &ways->redis_us[PLAIN], none);
    report_row("CPU per request: 1 000 products, Redis, TLS", "us", 2, &ways->redis_us[SECURE], none);
}

bool measure_secure(struct bench *bench)
{
    static struct ways ways;
    progress_begin("hits over TLS:");
    bool good = start_redis(&ways) && start_services(bench, &ways) && fill(bench, &ways);
    for (size_t i = 0; good && i < REPETITIONS; i++) {
        progress_repetition(i + 1);
        good = repeat(&ways);
    }
    for (enum way way = 0; way < WAY_COUNT; way++)
        stack_catalogd_stop(&ways.catalogd[way]);
    stack_redis_stop(&ways.redis);
    stack_certificates_stop(&ways.certificates);
    if (good)
        report(&ways);
    return progress_end(good);
}
