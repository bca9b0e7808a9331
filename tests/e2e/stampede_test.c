/* SPDX-License-Identifier: MIT */
/*
 * stampede_test.c - many requests at once on two processes: how many queries reach PostgreSQL.
 *
 * The row is there; or its load is so quick that requests meet its end.
 */
#include "tests/support/probe.h"

#include "load/base/clock.h"
#include "tests/support/test.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PROCESSES = 2,
    REQUESTS = 1000, /* 500 on each */
    BURSTS = 30,
    RACES = 150,
    RACERS = 40,
};

static const char *const SLOW[] = {"LOAD_DELAY_MS=150", NULL};

/* ---- reading a round ---- */

/* How many answers have this text in this header. */
static uint32_t answers_with(const struct burst *burst, uint32_t count, const char *name, const char *text)
{
    const struct burst_answer *answers = burst_answers(burst);
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        char value[256];
        found += strstr(burst_header(&answers[i], name, value, sizeof value), text) != NULL;
    }
    return found;
}

/* ---- the row is there ---- */

/* burst_path: all connections ask for what `context` names in this round. */
static void write_path(void *context, uint32_t index, char *path)
{
    (void)index;
    snprintf(path, BURST_PATH_BYTES, "%s", (const char *)context);
}

static struct burst *open_burst(const char *const *settings, uint32_t count, char *path)
{
    struct burst_target targets[FLEET_PROCESSES_MAX];
    struct burst *burst = NULL;
    assert_true(fleet_start(PROCESSES, settings));
    struct burst_options options = fleet_options(targets, NULL, count);
    options.path_of = write_path;
    options.path_context = path;
    assert_true(burst_open(&options, &burst));
    return burst;
}

/* Each process names the product of the first burst among the keys it worked for. */
static void assert_hot(const char *path)
{
    char key[BURST_PATH_BYTES + 32];
    snprintf(key, sizeof key, "\"key\":\"product:%s\"", path + strlen("/products/"));
    for (size_t i = 0; i < PROCESSES; i++) {
        struct http_answer answer;
        assert_true(fleet_ask_ops(i, NULL, "/hot", &answer));
        assert_int_equal(answer.status, 200);
        const char *saved = strstr(answer.body, "\"loads_saved\""),
                   *waited = strstr(answer.body, "\"waited_ms\"");
        assert_non_null(saved);
        assert_non_null(waited);
        assert_non_null(strstr(saved, key));
        assert_non_null(strstr(waited, key));
        http_answer_clear(&answer);
    }
}

/* All answers, the leader's and the waiters' of both processes, say that this one load made them. */
static void assert_one_load(const struct burst *burst, uint32_t count)
{
    char value[256];
    burst_header(&burst_answers(burst)[0], "Cache-Status", value, sizeof value);
    const char *load = strstr(value, "; load=\"");
    assert_non_null(load);
    assert_int_equal(strlen(load), strlen("; load=\"0123456789abcdef\""));
    assert_int_equal(answers_with(burst, count, "Cache-Status", load), count);
}

TEST(thirty_bursts_on_cold_keys_make_one_query_each, P13)
{
    struct burst_summary summary;
    char path[BURST_PATH_BYTES];
    struct burst *burst = open_burst(SLOW, REQUESTS, path);
    for (uint32_t i = 1; i <= BURSTS; i++) {
        fleet_cold_product(path);
        assert_true(burst_run(burst));
        burst_summarise(burst, &summary);
        assert_int_equal(summary.statuses[200], REQUESTS);
        assert_int_equal(summary.bodies, 1);
        assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), i);
        assert_int_equal(answers_with(burst, REQUESTS, "Cache-Status", "fwd=miss; stored; ttl="), 1);
        assert_one_load(burst, REQUESTS);
        if (i == 1)
            assert_hot(path);
    }
    burst_close(&burst);
    assert_true(fleet_sum("guard_push_answered_total") >
                fleet_sum("guard_gets_total{outcome=\"collapsed_fleet\"}") /
                    2); /* the rest polled just then */
    assert_int_equal(fleet_sum("guard_loads_duplicate_total"), 0);
    assert_int_equal(fleet_sum("guard_loads_uncached_total"), 0);
}

/* Without a delay the answer is there while requests still come in: some find the flight, some its end, some
 * the value. */
TEST(wherever_a_request_meets_a_quick_load_there_is_one_query, P18)
{
    struct burst_summary summary;
    char path[BURST_PATH_BYTES];
    struct burst *burst = open_burst(NULL, RACERS, path);
    for (uint32_t i = 1; i <= RACES; i++) {
        fleet_cold_product(path);
        assert_true(burst_run(burst));
        burst_summarise(burst, &summary);
        assert_int_equal(summary.statuses[200], RACERS);
    }
    burst_close(&burst);
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), RACES);
}

/* ---- many products in one request ---- */

#define LOAD_PRODUCTS "/* load products */"
#define ROUND_TRIPS "guard_redis_round_trips_total"

enum { IDS = 50, TRIES = 5, PATH_BYTES = 1024 };

/* So many that nobody has asked for; returns the first. */
static uint32_t cold_products(uint32_t count)
{
    uint32_t first = fleet.next_product;
    fleet.next_product += count;
    return first;
}

/* "/products?ids=" of first, first + 1, ... */
static void path_of_ids(char path[PATH_BYTES], uint32_t first, uint32_t count)
{
    strcpy(path, "/products?ids=");
    for (uint32_t i = 0; i < count; i++) {
        size_t used = strlen(path);
        snprintf(path + used, PATH_BYTES - used, "%s%" PRIu32, i > 0 ? "," : "", first + i);
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

static bool lists_ids(json_t *document, uint32_t first, uint32_t count)
{
    json_t *products = json_object_get(document, "products");
    bool right = json_array_size(products) == count;
    for (uint32_t i = 0; i < count && right; i++) {
        json_int_t id = json_integer_value(json_object_get(json_array_get(products, i), "id"));
        right = id == (json_int_t)(first + i);
    }
    return right && json_array_size(json_object_get(document, "absent")) == 0;
}

static void ask_ids(size_t process, uint32_t first, uint32_t count)
{
    char path[PATH_BYTES];
    struct http_answer answer;
    path_of_ids(path, first, count);
    fleet_ask(process, NULL, path, &answer);
    json_t *document = document_of(&answer);
    assert_true(lists_ids(document, first, count));
    json_decref(document);
    http_answer_clear(&answer);
}

static void assert_header(const struct http_answer *answer, const char *name, const char *value)
{
    char found[160];
    assert_string_equal(http_header(answer, name, found, sizeof found), value);
}

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

TEST_GROUP(.up = fleet_up, .down = fleet_down, .after = fleet_end);
