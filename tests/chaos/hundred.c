/* SPDX-License-Identifier: MIT */
/* hundred.c - see hundred.h. */
#include "tests/chaos/hundred.h"

#include "load/base/clock.h"
#include "load/base/net.h"
#include "load/base/proc.h"
#include "load/herd/burst.h"
#include "tests/support/network.h"
#include "tests/support/stack_cluster.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    PORT = 8080, /* each has its own network */
    QUARTERS = 4,
    QUARTER = HUNDRED / QUARTERS,
    REQUESTS = 2 * HUNDRED,
    PRODUCTS = 20000,
    POSTGRES_CONNECTIONS = 5 * HUNDRED,
    READY_LIMIT_MS = 60000,
    ANSWER_LIMIT_MS = 10000,
    PAUSE_MS = 50,
};

struct hundred {
    struct network network; /* place 0: Redis; 1 and on: a process each */
    struct stack_cluster cluster;
    struct stack_postgres postgres;
    struct stack_catalogd catalogd[HUNDRED];
    uint32_t bursts, requests, loads, most_loads, unanswered;
    uint64_t slowest_us, p50_sum_us;
};

/* ---- start ---- */

static bool start_servers(struct hundred *all)
{
    if (!network_open(&all->network, HUNDRED + 1) || !network_enter(&all->network, 0))
        return false;
    const struct stack_cluster_options options = {.host = all->network.place[0].address,
                                                  .replicas_per_master = 1};
    bool good = stack_cluster_start(&all->cluster, &options) &&
                stack_postgres_start(&all->postgres, POSTGRES_CONNECTIONS) &&
                stack_postgres_load(all->postgres.url, PRODUCTS);
    return network_leave(&all->network) && good;
}

static bool start_process(struct hundred *all, size_t at)
{
    char listen[64], redis[STACK_CLUSTER_URL_BYTES + 16], database[256];
    snprintf(listen, sizeof listen, "LISTEN=%s:%d", all->network.place[at + 1].address, (int)PORT);
    snprintf(redis, sizeof redis, "REDIS_URL=%s", all->cluster.url);
    snprintf(database, sizeof database, "DATABASE_URL=%s", all->postgres.socket_url);
    const char *const settings[] = {listen,
                                    redis,
                                    database,
                                    "SERVER_LOOPS=1",
                                    "MAX_LOADS=2",
                                    "FRESH_MS=600000",
                                    "NAMESPACE=hundred",
                                    "LOAD_DELAY_MS=20",
                                    "REDIS_LIMIT_MS=2000",
                                    "DEADLINE_MS=10000",
                                    "LOAD_LIMIT_MS=5000",
                                    "LEASE_MS=6000",
                                    "MAX_HOLD_MS=10000",
                                    NULL};
    bool good = network_enter(&all->network, at + 1) && stack_catalogd_start(&all->catalogd[at], settings);
    return network_leave(&all->network) && good;
}

static bool wait_ready(struct hundred *all, size_t at)
{
    static const char up[] = "guard_redis_state{connection=\"wake\",state=\"up\"}";
    bool good =
        network_enter(&all->network, at + 1) && stack_catalogd_wait_ready(&all->catalogd[at], READY_LIMIT_MS);
    for (uint64_t end_us = clock_after_ms(READY_LIMIT_MS);
         good && stack_catalogd_metric(&all->catalogd[at], up) < 1; clock_pause_ms(PAUSE_MS))
        good = clock_us() < end_us;
    return network_leave(&all->network) && good;
}

static bool open_all(struct hundred *all)
{
    if (!network_is_possible()) {
        fprintf(stderr, "hundred: networks of their own need root and the program ip (sh load/deps.sh "
                        "networks): try again as root\n");
        return false;
    }
    bool good = net_raise_file_limit(8192) && start_servers(all);
    for (size_t i = 0; good && i < HUNDRED; i++)
        good = start_process(all, i);
    for (size_t i = 0; good && i < HUNDRED; i++)
        good = wait_ready(all, i);
    return good;
}

static bool close_all(struct hundred *all)
{
    bool good = true;
    for (size_t i = 0; i < HUNDRED; i++)
        good = stack_catalogd_stop(&all->catalogd[i]) && good;
    stack_postgres_stop(&all->postgres);
    stack_cluster_stop(&all->cluster);
    network_close(&all->network);
    return good;
}

/* ---- bursts ---- */

/* A quarter of the processes, on a thread of its own: a burst has no more targets. */
struct quarter {
    struct burst *burst;
    struct burst_target targets[QUARTER];
    pthread_t thread;
    bool ran;
};

static void *run_quarter(void *context)
{
    struct quarter *quarter = context;
    quarter->ran = burst_run(quarter->burst);
    return NULL;
}

static bool open_quarter(struct hundred *all, struct quarter *quarter, size_t first, const char *path)
{
    for (size_t i = 0; i < QUARTER; i++)
        quarter->targets[i] =
            (struct burst_target){.host = all->network.place[first + i + 1].address, .port = PORT};
    const struct burst_options options = {.targets = quarter->targets,
                                          .target_count = QUARTER,
                                          .connection_count = REQUESTS / QUARTERS,
                                          .connect_limit_ms = ANSWER_LIMIT_MS,
                                          .request_limit_ms = ANSWER_LIMIT_MS,
                                          .path = path};
    return burst_open(&options, &quarter->burst);
}

static void add_up(struct hundred *all, struct quarter *quarter)
{
    struct burst_summary summary;
    burst_summarise(quarter->burst, &summary);
    all->unanswered += REQUESTS / QUARTERS - summary.statuses[200];
    all->slowest_us = summary.max_us > all->slowest_us ? summary.max_us : all->slowest_us;
    all->p50_sum_us += summary.p50_us / QUARTERS;
}

/* Everybody is connected before anybody asks. Threads are where the one that starts them is. */
static bool burst_on(struct hundred *all, uint32_t product)
{
    struct quarter quarters[QUARTERS] = {{.burst = NULL}};
    char path[48];
    bool good = true;
    uint64_t mark = stack_postgres_mark(&all->postgres);
    snprintf(path, sizeof path, "/products/%" PRIu32, product);
    for (size_t i = 0; good && i < QUARTERS; i++)
        good = open_quarter(all, &quarters[i], i * QUARTER, path);
    for (size_t i = 0; good && i < QUARTERS; i++) {
        if (pthread_create(&quarters[i].thread, NULL, run_quarter, &quarters[i]) != 0)
            abort();
    }
    for (size_t i = 0; good && i < QUARTERS; i++)
        pthread_join(quarters[i].thread, NULL);
    for (size_t i = 0; i < QUARTERS; i++) {
        if (good && quarters[i].ran)
            add_up(all, &quarters[i]);
        good = good && quarters[i].ran;
        if (quarters[i].burst != NULL)
            burst_close(&quarters[i].burst);
    }
    uint32_t loads = stack_postgres_count(&all->postgres, mark, "/* load product */");
    if (loads != 1)
        fprintf(stderr, "hundred: product %" PRIu32 " was loaded %" PRIu32 " times\n", product, loads);
    all->bursts++;
    all->requests += REQUESTS;
    all->loads += loads;
    all->most_loads = loads > all->most_loads ? loads : all->most_loads;
    return good;
}

/* Of all processes that say it. */
static double sum_of(struct hundred *all, const char *sample)
{
    double sum = 0;
    for (size_t i = 0; i < HUNDRED; i++) {
        network_enter(&all->network, i + 1);
        double value = stack_catalogd_metric(&all->catalogd[i], sample);
        network_leave(&all->network);
        sum += value > 0 ? value : 0;
    }
    return sum;
}

static void print_excuses(struct hundred *all, FILE *out)
{
    fprintf(out, "hundred: %.0f loads without a lease, %.0f leases lost, %.0f fills refused\n",
            sum_of(all, "guard_loads_uncached_total"), sum_of(all, "guard_leases_total{event=\"lost\"}"),
            sum_of(all, "guard_fills_total{result=\"refused\"}"));
}

static void print(struct hundred *all, bool good, FILE *out)
{
    uint64_t memory_kib = 0;
    for (size_t i = 0; i < HUNDRED; i++)
        memory_kib += proc_status(all->catalogd[i].pid, "VmRSS");
    fprintf(out,
            "hundred: %d processes in networks of their own, %" PRIu32 " bursts of %d requests: %" PRIu32
            " loads, at most %" PRIu32 " for one product, %" PRIu32 " requests not answered with 200\n"
            "hundred: half of a burst is answered after %" PRIu64
            " ms on average, the slowest answer after %" PRIu64 " ms; %" PRIu64
            " MiB of memory; connections to the masters:",
            (int)HUNDRED, all->bursts, (int)REQUESTS, all->loads, all->most_loads, all->unanswered,
            all->bursts > 0 ? all->p50_sum_us / all->bursts / 1000 : 0, all->slowest_us / 1000,
            memory_kib / 1024);
    for (size_t i = 0; i < all->cluster.master_count; i++)
        fprintf(out, " %lld", stack_redis_info(&all->cluster.node[i], "clients", "connected_clients"));
    fprintf(out, "\n");
    print_excuses(all, out);
    fprintf(out, "verdict  %s\n", good ? "one load per product" : "BROKEN");
}

bool hundred_run(uint32_t seconds, FILE *out)
{
    struct hundred *all = calloc(1, sizeof *all);
    if (all == NULL)
        return false;
    bool good = open_all(all);
    if (good) {
        network_enter(&all->network, 0);
        for (uint64_t end_us = clock_after_ms((uint64_t)seconds * 1000); good && clock_us() < end_us;
             clock_pause_ms(PAUSE_MS))
            good = all->bursts < PRODUCTS && burst_on(all, all->bursts + 1);
        network_leave(&all->network);
        good = good && all->most_loads == 1 && all->loads == all->bursts && all->unanswered == 0;
        print(all, good, out);
    }
    good = close_all(all) && good;
    free(all);
    return good;
}
