/* SPDX-License-Identifier: MIT */
/*
 * many_test.c - GET /products?ids=: what PostgreSQL and Redis see of it, what clients get, and what remains for other
 * clients while some ask for very many.
 */
#include "load/witness/witness_log.h"
#include "tests/support/probe.h"
#include "tests/support/test.h"

#include <jansson.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOAD_PRODUCTS "/* load products */"
#define ROUND_TRIPS "guard_redis_round_trips_total"

enum { IDS = 50, TRIES = 5, PATH_BYTES = 1024 };

/* ---- asking ---- */

/* So many that nobody has asked for; returns the first. */
static uint32_t cold_products(uint32_t count)
{
    uint32_t first = fleet.next_product;
    fleet.next_product += count;
    return first;
}

/* "/products?ids=" of first, first + 1, ... or backwards. */
static void path_of_ids(char path[PATH_BYTES], uint32_t first, uint32_t count, bool backwards)
{
    strcpy(path, "/products?ids=");
    for (uint32_t i = 0; i < count; i++) {
        size_t used = strlen(path);
        snprintf(path + used, PATH_BYTES - used, "%s%" PRIu32, i > 0 ? "," : "",
                 backwards ? first + count - 1 - i : first + i);
    }
}

static json_t *document_of(const struct http_answer *answer)
{
    if (answer->status != 200)
        fail_msg("%u: %s", answer->status, answer->body);
    json_t *document = json_loadb(answer->body, answer->body_bytes, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(document);
    return document;
}

static bool lists_ids(json_t *document, uint32_t first, uint32_t count, bool backwards)
{
    json_t *products = json_object_get(document, "products");
    bool right = json_array_size(products) == count;
    for (uint32_t i = 0; i < count && right; i++) {
        json_int_t id = json_integer_value(json_object_get(json_array_get(products, i), "id"));
        right = id == (json_int_t)(backwards ? first + count - 1 - i : first + i);
    }
    return right && json_array_size(json_object_get(document, "absent")) == 0;
}

static void ask_ids(size_t process, uint32_t first, uint32_t count)
{
    char path[PATH_BYTES];
    struct http_answer answer;
    path_of_ids(path, first, count, false);
    fleet_ask(process, NULL, path, &answer);
    json_t *document = document_of(&answer);
    assert_true(lists_ids(document, first, count, false));
    json_decref(document);
    http_answer_clear(&answer);
}

static void assert_header(const struct http_answer *answer, const char *name, const char *value)
{
    char found[160];
    assert_string_equal(http_header(answer, name, found, sizeof found), value);
}

/* ---- queries and round trips ---- */

/* One loop, so that its connection to Redis is up once it has answered; and the scripts are in Redis. */
static void start_warm(size_t count, const char *const *settings)
{
    assert_true(fleet_start(count, settings));
    for (size_t i = 0; i < count; i++)
        for (int again = 0; again < 2; again++)
            ask_ids(i, cold_products(2), 2);
    fleet_mark();
}

static unsigned trips_of(uint32_t first)
{
    double before = fleet_metric(0, ROUND_TRIPS);
    assert_true(before > 0);
    ask_ids(0, first, IDS);
    return (unsigned)(fleet_metric(0, ROUND_TRIPS) - before);
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* The guard also talks to Redis by itself now and then, so the least of some is what a request takes. */
TEST(fifty_cold_ids_are_one_query_and_fifty_warm_ones_none)
{
    const char *const settings[] = {"SERVER_LOOPS=1", NULL};
    unsigned cold = UINT32_MAX, warm = UINT32_MAX;
    start_warm(1, settings);
    for (uint32_t i = 0; i < TRIES; i++) {
        uint32_t first = cold_products(IDS);
        cold = least(cold, trips_of(first));
        assert_int_equal(fleet_loads(LOAD_PRODUCTS), i + 1);
        warm = least(warm, trips_of(first));
        assert_int_equal(fleet_loads(LOAD_PRODUCTS), i + 1);
    }
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), 0);
    assert_in_range(cold, 1, 3);
    assert_int_equal(warm, 1);
}

/* ---- the answer ---- */

TEST(found_and_absent_ids_come_in_the_order_asked)
{
    struct http_answer answer;
    uint32_t first = cold_products(3);
    char path[PATH_BYTES], etag[64], found[64];
    assert_true(fleet_start(2, NULL));
    snprintf(path, sizeof path, "/products?ids=%u,900000002,%u,900000001,%u", first + 2, first, first + 1);
    fleet_ask(0, NULL, path, &answer);
    json_t *document = document_of(&answer);
    json_t *products = json_object_get(document, "products"), *absent = json_object_get(document, "absent");
    assert_int_equal(json_array_size(products), 3);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(products, 0), "id")), first + 2);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(products, 1), "id")), first);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(products, 2), "id")), first + 1);
    assert_int_equal(json_array_size(absent), 2);
    assert_int_equal(json_integer_value(json_array_get(absent, 0)), 900000002);
    assert_int_equal(json_integer_value(json_array_get(absent, 1)), 900000001);
    assert_header(&answer, "Content-Type", "application/json; charset=utf-8");
    assert_header(&answer, "Cache-Control", "no-cache");
    http_header(&answer, "ETag", etag, sizeof etag);
    assert_int_equal(strlen(etag), 18);
    json_decref(document);
    http_answer_clear(&answer);

    /* the other process, which finds all in Redis, makes the same document */
    fleet_ask(1, NULL, path, &answer);
    assert_int_equal(answer.status, 200);
    assert_string_equal(http_header(&answer, "ETag", found, sizeof found), etag);
    char status[128];
    assert_non_null(strstr(http_header(&answer, "Cache-Status", status, sizeof status), "catalogd; hit"));
    http_answer_clear(&answer);
}

/* As each of its products is answered alone, byte for byte, whichever statement loaded it. */
TEST(a_product_is_the_same_alone_and_among_others)
{
    struct http_answer many, one;
    uint32_t first = cold_products(2);
    char path[PATH_BYTES], key[32];
    struct fleet_invalidated done;
    assert_true(fleet_start(1, NULL));
    path_of_ids(path, first, 2, false);
    fleet_ask(0, NULL, path, &many);
    assert_int_equal(many.status, 200);
    assert_int_equal(fleet_loads(LOAD_PRODUCTS), 1);
    snprintf(key, sizeof key, "product:%u", first);
    fleet_invalidate(0, key, &done);
    assert_int_equal(done.status, 200);
    snprintf(path, sizeof path, "/products/%u", first);
    fleet_ask(0, NULL, path, &one);
    assert_int_equal(one.status, 200);
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), 1);
    assert_memory_equal(many.body + strlen("{\"products\":["), one.body, one.body_bytes);
    http_answer_clear(&many);
    http_answer_clear(&one);
}

TEST(who_holds_the_document_is_told_so)
{
    struct http_answer answer;
    char path[PATH_BYTES], etag[64], headers[128];
    assert_true(fleet_start(1, NULL));
    path_of_ids(path, cold_products(3), 3, false);
    fleet_ask(0, NULL, path, &answer);
    assert_int_equal(answer.status, 200);
    http_header(&answer, "ETag", etag, sizeof etag);
    http_answer_clear(&answer);
    snprintf(headers, sizeof headers, "If-None-Match: %s\r\n", etag);
    const struct http_request request = {.host = "127.0.0.1",
                                         .port = fleet.catalogd[0].port,
                                         .path = path,
                                         .headers = headers,
                                         .deadline_ms = FLEET_LIMIT_MS};
    assert_true(http_ask(&request, &answer));
    assert_int_equal(answer.status, 304);
    assert_int_equal(answer.body_bytes, 0);
    http_answer_clear(&answer);
    fleet_ask(0, "HEAD", path, &answer);
    assert_int_equal(answer.status, 200);
    assert_header(&answer, "ETag", etag);
    http_answer_clear(&answer);
}

TEST(a_database_that_is_away_is_one_problem_for_all)
{
    struct http_answer answer;
    char path[PATH_BYTES], retry[16];
    assert_true(fleet_start(1, NULL));
    stack_postgres_kill(&fleet.postgres);
    path_of_ids(path, cold_products(3), 3, false);
    fleet_ask(0, NULL, path, &answer);
    assert_int_equal(answer.status, 503);
    assert_non_null(strstr(answer.body, "/problems/load-failed"));
    assert_true(atoi(http_header(&answer, "Retry-After", retry, sizeof retry)) > 0);
    http_answer_clear(&answer);
}

/* ---- many who ask for many, beside those who ask for one ---- */

enum { CROWD = 12, CROWD_IDS = 100, CROWD_WARM = 2 * CROWD, SINGLES = 50, BURSTS = 4 };

/* Clients that ask for random ids, again and again. */
struct crowd {
    pthread_t threads[CROWD];
    size_t count;
    atomic_bool over;
    atomic_uint seed, served, refused; /* answers: 200, others */
};

static void path_of_random_ids(char path[PATH_BYTES], unsigned *seed)
{
    size_t used = (size_t)snprintf(path, PATH_BYTES, "/products?ids=");
    for (int i = 0; i < CROWD_IDS; i++)
        used += (size_t)snprintf(path + used, PATH_BYTES - used, "%s%d", i > 0 ? "," : "",
                                 10000000 + i * 900000 + rand_r(seed) % 900000);
}

static void *run_crowd(void *context)
{
    struct crowd *crowd = context;
    unsigned seed = atomic_fetch_add(&crowd->seed, 1);
    char path[PATH_BYTES];
    while (!atomic_load(&crowd->over)) {
        path_of_random_ids(path, &seed);
        atomic_fetch_add(fleet_ask_status(0, path) == 200 ? &crowd->served : &crowd->refused, 1);
    }
    return NULL;
}

static bool is_warm(void *context)
{
    struct crowd *crowd = context;
    return atomic_load(&crowd->served) + atomic_load(&crowd->refused) >= CROWD_WARM;
}

static void crowd_start(struct crowd *crowd, size_t count)
{
    *crowd = (struct crowd){.count = count};
    for (size_t i = 0; i < count; i++)
        assert_int_equal(pthread_create(&crowd->threads[i], NULL, run_crowd, crowd), 0);
    assert_true(probe_wait("the crowd is answered", is_warm, crowd));
}

static void crowd_stop(struct crowd *crowd)
{
    atomic_store(&crowd->over, true);
    for (size_t i = 0; i < crowd->count; i++)
        pthread_join(crowd->threads[i], NULL);
}

static void path_of_single(void *context, uint32_t index, char *path)
{
    const uint32_t *first = context;
    snprintf(path, BURST_PATH_BYTES, "/products/%" PRIu32, *first + index);
}

/* So many cold products at once, each asked for alone; returns how many were served. */
static uint32_t ask_for_singles(uint32_t count)
{
    struct burst_target targets[FLEET_PROCESSES_MAX];
    struct probe_burst burst;
    uint32_t first = cold_products(count);
    struct burst_options options = fleet_options(targets, NULL, count);
    options.path_of = path_of_single;
    options.path_context = &first;
    assert_true(probe_burst(&options, &burst));
    assert_int_equal(burst.summary.statuses[200] + burst.summary.statuses[503], count);
    assert_int_equal(burst.unadvised, 0);
    return burst.summary.statuses[200];
}

static uint32_t ask_beside(struct crowd *crowd, uint32_t count)
{
    uint32_t served = 0;
    for (int i = 0; i < BURSTS; i++)
        served += ask_for_singles(count);
    crowd_stop(crowd);
    print_message("%d asked for alone, %" PRIu32 " served; for %d at a time %u, %u refused\n",
                  BURSTS * (int)count, served, CROWD_IDS, atomic_load(&crowd->served),
                  atomic_load(&crowd->refused));
    return served;
}

/* One worker, one permit: the two take turns, or one of them would never be served. */
TEST(with_one_worker_and_one_permit_both_are_served, P95)
{
    struct crowd crowd;
    const char *const settings[] = {"MAX_LOADS=1",
                                    "LOAD_PERMITS=1",
                                    "PERMIT_MS=15000",
                                    "LOAD_DELAY_MS=20",
                                    FLEET_PATIENT,
                                    "DEADLINE_MS=28000",
                                    NULL};
    assert_true(fleet_start(1, settings));
    crowd_start(&crowd, CROWD);
    assert_int_equal(ask_beside(&crowd, SINGLES), BURSTS * SINGLES);
    assert_int_equal(atomic_load(&crowd.refused), 0);
}

TEST_GROUP(.up = fleet_up, .down = fleet_down, .after = fleet_end);
