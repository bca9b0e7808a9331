/* SPDX-License-Identifier: MIT */
/*
 * outage_test.c - catalogd while Redis is killed for five seconds: how many queries that costs, with writes and without.
 */
#include "load/base/clock.h"
#include "tests/support/fleet.h"
#include "tests/support/test.h"
#include "tests/support/writes.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { PROCESSES = 2, PRODUCTS = 300, AWAY_MS = 5000, CLIENTS = 8, COLD_REQUESTS = 2000 };

#define LIMITS "REDIS_LIMIT_MS=250", "LEASE_MS=3000", "LOAD_DELAY_MS=20", "SERVER_LOOPS=1"
#define WARM LIMITS, "NEAR_MS=60000", "FRESH_MS=120000", "OUTAGE_MS=10000"

static char paths[PRODUCTS][BURST_PATH_BYTES];

static bool up(void)
{
    return fleet_up() && writes_make_logins();
}

static void start(const char *const *settings, bool writes)
{
    assert_true(fleet_start(PROCESSES, writes ? writes_settings(settings) : settings));
    for (size_t i = 0; writes && i < PROCESSES; i++)
        assert_true(fleet_wait_registered(i));
    for (size_t i = 0; i < PRODUCTS; i++)
        fleet_cold_product(paths[i]);
}

static void ask(size_t process, size_t product)
{
    assert_int_equal(fleet_ask_status(process, paths[product]), 200);
}

/* What was stored, or found stored, is warm; the second time it comes from Redis. */
static void warm(size_t products)
{
    for (size_t i = 0; i < 3 * PROCESSES * products; i++)
        ask(i / products % PROCESSES, i % products);
}

/* Where a process must look, and finds a detail. */
static void assert_detail(size_t process, const char *detail)
{
    struct http_answer answer;
    char value[160];
    fleet_ask(process, NULL, paths[0], &answer);
    http_header(&answer, "Cache-Status", value, sizeof value);
    if (strstr(value, detail) == NULL)
        fail_msg("\"%s\" has no \"%s\"", value, detail);
    http_answer_clear(&answer);
}

/* For so long as Redis is away. */
static uint32_t queries_of_warm(size_t products)
{
    size_t requests = 0;
    warm(products);
    fleet_mark();
    stack_redis_kill(&fleet.redis);
    const uint64_t end_us = clock_us() + (uint64_t)AWAY_MS * 1000;
    for (; clock_us() < end_us; requests++)
        ask(requests % PROCESSES, requests / PROCESSES % products);
    assert_detail(0, "; hit");
    assert_detail(0, "detail=outage");
    const uint32_t queries = fleet_loads(FLEET_LOAD_PRODUCT);
    printf("%u queries for %zu requests for %zu products\n", (unsigned)queries, requests, products);
    return queries;
}

static atomic_uint asked, good;

static void *ask_cold(void *context)
{
    (void)context;
    for (unsigned i = 0; (i = atomic_fetch_add(&asked, 1)) < COLD_REQUESTS;)
        atomic_fetch_add(&good, fleet_ask_status(i % PROCESSES, paths[i / PROCESSES % PRODUCTS]) == 200);
    return NULL;
}

static void queries_of_cold(bool writes)
{
    pthread_t clients[CLIENTS];
    start((const char *const[]){LIMITS, "OUTAGE_MS=10000", NULL}, writes);
    fleet_mark();
    stack_redis_kill(&fleet.redis);
    asked = good = 0;
    const uint64_t begun_us = clock_us();
    for (size_t i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&clients[i], NULL, ask_cold, NULL), 0);
    for (size_t i = 0; i < CLIENTS; i++)
        pthread_join(clients[i], NULL);
    assert_int_equal(good, COLD_REQUESTS);
    const uint32_t queries = fleet_loads(FLEET_LOAD_PRODUCT);
    printf("%u queries for %d requests for %d cold products in %.1f s\n", (unsigned)queries, COLD_REQUESTS,
           PRODUCTS, (double)(clock_us() - begun_us) / 1e6);
    assert_in_range(queries, PRODUCTS, PROCESSES * PRODUCTS);
}

TEST(what_is_warm_costs_no_query)
{
    for (int writes = 0; writes < 2; writes++) {
        start((const char *const[]){WARM, NULL}, writes == 1);
        assert_int_equal(queries_of_warm(PRODUCTS), 0);
        assert_true(fleet_end());
    }
}

TEST(with_all_defaults_a_hot_product_costs_two_queries_a_process_at_most)
{
    for (int writes = 0; writes < 2; writes++) {
        start((const char *const[]){LIMITS, NULL}, writes == 1);
        assert_in_range(queries_of_warm(1), 0, 2 * PROCESSES);
        assert_true(fleet_end());
    }
}

TEST(what_is_cold_costs_one_query_in_each_process)
{
    for (int writes = 0; writes < 2; writes++) {
        queries_of_cold(writes == 1);
        assert_true(fleet_end());
    }
}

static void set_outage(size_t process, const char *value)
{
    char path[64];
    struct http_answer answer;
    snprintf(path, sizeof path, "/policy?OUTAGE_MS=%s", value);
    fleet_ask_ops(process, "POST", path, &answer);
    assert_int_equal(answer.status, 200);
    http_answer_clear(&answer);
}

TEST(it_can_be_switched_off_and_on_while_the_process_runs)
{
    start((const char *const[]){WARM, NULL}, false);
    warm(1);
    stack_redis_kill(&fleet.redis);
    while (fleet_metric(0, "guard_redis_state{connection=\"commands\",state=\"up\"}") > 0)
        ask(0, 0);
    assert_detail(0, "detail=outage");
    set_outage(0, "0");
    assert_detail(0, "fwd=miss");
    set_outage(0, "10000");
    ask(0, 0);
    assert_detail(0, "detail=outage");
    assert_true(fleet_metric(0, "guard_gets_total{outcome=\"kept\"}") >= 2);
}

TEST_GROUP(.up = up, .down = fleet_down, .after = fleet_end);
