/* SPDX-License-Identifier: MIT */
/*
 * operators_test.c - what operators and their machines do to the cache of running processes: expire, refresh, clear,
 * ask past it, change its times.
 */
#include "tests/support/files.h"
#include "tests/support/probe.h"
#include "tests/support/test.h"
#include "tests/support/writes.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PROCESSES = 2, TEXT_BYTES = 256 };

#define LONG "FRESH_MS=3600000", "JITTER_PERCENT=0"

static char folder[PROC_PATH_BYTES];
static char cold[BURST_PATH_BYTES], key[64];
static struct pg_conn *gate;
static uint32_t product;

static bool up(void)
{
    return proc_folder("operators", NULL, folder) && writes_up();
}

static bool choose_product(void)
{
    product = fleet_cold_product(cold);
    snprintf(key, sizeof key, "product:%u", (unsigned)product);
    return true;
}

static bool end(void)
{
    probe_gate_open(&gate);
    return fleet_end();
}

/* ---- asking ---- */

struct said {
    unsigned status;
    char body[2048], cache_status[128];
};

static struct said ask(size_t process, const char *path, const char *headers)
{
    struct http_answer answer;
    struct said said;
    fleet_ask_port(fleet.catalogd[process].port, NULL, path, headers, &answer);
    said.status = answer.status;
    snprintf(said.body, sizeof said.body, "%s", answer.body);
    http_header(&answer, "Cache-Status", said.cache_status, sizeof said.cache_status);
    http_answer_clear(&answer);
    return said;
}

static struct said post(size_t process, const char *path, const char *argument)
{
    char whole[TEXT_BYTES];
    struct http_answer answer;
    struct said said;
    snprintf(whole, sizeof whole, "%s%s", path, argument);
    fleet_ask_ops(process, "POST", whole, &answer);
    said.status = answer.status;
    said.cache_status[0] = '\0';
    snprintf(said.body, sizeof said.body, "%s", answer.body);
    http_answer_clear(&answer);
    return said;
}

static void assert_says(const struct said *said, unsigned status, const char *text)
{
    if (said->status != status || strstr(said->body, text) == NULL)
        fail_msg("%u %s, and not %u %s", said->status, said->body, status, text);
}

static void assert_from(const struct said *said, const char *cache_status)
{
    if (said->status != 200 || strstr(said->cache_status, cache_status) == NULL)
        fail_msg("%u %s, and not 200 %s", said->status, said->cache_status, cache_status);
}

/* ---- expire ---- */

/* While its load cannot end the old one is served; then the new one is. */
static void assert_expired(const char *path, const char *argument)
{
    struct said said = ask(1, cold, NULL);
    assert_from(&said, "hit");
    fleet_mark();
    assert_true(probe_gate_shut(&gate));
    said = post(0, path, argument);
    assert_says(&said, 200, "\"value_dropped\":true");
    said = ask(1, cold, NULL);
    assert_from(&said, "fwd=stale");
    probe_gate_open(&gate);
    assert_true(fleet_wait_loads(FLEET_LOAD_PRODUCT, 1));
    WAIT_UNTIL((said = ask(1, cold, NULL), strstr(said.cache_status, "; hit") != NULL));
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), 1);
}

TEST(what_is_expired_is_served_stale_while_one_process_refreshes_it, P154)
{
    assert_true(fleet_start(PROCESSES, (const char *const[]){LONG, "STALE_MS=3600000", NULL}));
    assert_int_equal(fleet_ask_status(0, cold), 200);
    assert_expired("/expire?key=", key);
    assert_int_equal(fleet_sum("guard_loads_total{result=\"unchanged\"}"), 1); /* the row is the same */
}

static const char *category_of(uint32_t id)
{
    static char text[32];
    snprintf(text, sizeof text, "%ld",
             writes_number("SELECT category_id FROM products WHERE id = %u", (unsigned)id));
    return text;
}

/* ---- refresh ---- */

TEST(what_is_missing_is_loaded_and_what_is_there_is_left)
{
    char keys[TEXT_BYTES], other[BURST_PATH_BYTES];
    assert_true(fleet_start(PROCESSES, (const char *const[]){LONG, NULL}));
    const uint32_t second = fleet_cold_product(other);
    snprintf(keys, sizeof keys, "%s&key=product:%u&key=catalog&key=offers:%u", key, (unsigned)second,
             (unsigned)product);
    fleet_mark();
    struct said said = post(0, "/refresh?key=", keys);
    assert_says(&said, 200, "{\"keys\":4,\"loaded\":4,\"fresh\":0,\"failed\":0,\"shed\":0}");
    said = post(1, "/refresh?key=", keys);
    assert_says(&said, 200, "{\"keys\":4,\"loaded\":0,\"fresh\":4,\"failed\":0,\"shed\":0}");
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), 0);
    assert_int_equal(fleet_loads("/* load products */"), 1); /* for both */
    assert_int_equal(fleet_loads(FLEET_LOAD_CATALOG), 1);
    said = ask(1, cold, NULL);
    assert_from(&said, "; hit");
    static const char *const wrong[] = {"", "x", "catalog&tag=category:1", "catalog&key=product:0"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        said = post(0, "/refresh?key=", wrong[i]);
        assert_says(&said, 400, "Not a list of keys");
    }
}

/* Begun in one process and held up there; asked for in another one, which waits for it. */
static void *refresh_it(void *process)
{
    static struct said said[PROCESSES];
    const size_t at = *(const size_t *)process;
    said[at] = post(at, "/refresh?key=", key);
    return &said[at];
}

TEST(what_two_processes_refresh_at_once_is_loaded_once)
{
    static const size_t processes[PROCESSES] = {0, 1};
    pthread_t threads[PROCESSES];
    assert_true(fleet_start(PROCESSES, (const char *const[]){LONG, NULL}));
    fleet_mark();
    assert_true(probe_gate_shut(&gate));
    for (size_t i = 0; i < PROCESSES; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, refresh_it, (void *)(uintptr_t)&processes[i]), 0);
        WAIT_UNTIL(fleet_metric(i, "guard_flights") >= 1);
    }
    probe_gate_open(&gate);
    for (size_t i = 0; i < PROCESSES; i++) {
        void *said;
        assert_int_equal(pthread_join(threads[i], &said), 0);
        assert_int_equal(((struct said *)said)->status, 200);
    }
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT) + fleet_loads("/* load products */"), 1);
}

/* Clients encode what they need not. */
TEST(what_is_percent_encoded_is_what_it_stands_for)
{
    char encoded[TEXT_BYTES];
    assert_true(fleet_start(PROCESSES, (const char *const[]){LONG, NULL}));
    assert_int_equal(fleet_ask_status(0, cold), 200);
    snprintf(encoded, sizeof encoded, "product%%3A%u", (unsigned)product);
    struct said said = post(0, "/expire?key=", encoded);
    assert_says(&said, 200, "\"value_dropped\":true");
    assert_says(&said, 200, key);
    snprintf(encoded, sizeof encoded, "%%70roduct%%3a%u&key=catalo%%67", (unsigned)product);
    said = post(0, "/refresh?%6bey=", encoded);
    assert_says(&said, 200, "{\"keys\":2,\"loaded\":2,");
    said = post(0, "/invalidate?tag=category%3A", category_of(product));
    assert_says(&said, 200, "\"value_dropped\":true");
    said = post(0, "/clear?namespace=", "%66leet");
    assert_says(&said, 200, "\"namespace\":\"fleet\"");
    said = post(0, "/policy?", "FRESH%5FMS=%35000");
    assert_says(&said, 200, "\"FRESH_MS\":5000");
    static const char *const wrong[] = {"product:7%00", "product:7%00x", "product%3",     "product%3A7%",
                                        "product%3G7",  "%zz",           "product%253A7", "product:7%0a"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        said = post(0, "/invalidate?key=", wrong[i]);
        assert_says(&said, 400, "Not a key");
    }
}

/* ---- clear ---- */

TEST(everything_is_dropped_if_the_namespace_is_named, P156)
{
    static const char *const wrong[] = {"?namespace=catalog", "?namespace=", "",
                                        "?namespace=fleet&really=yes"};
    assert_true(fleet_start(PROCESSES, (const char *const[]){LONG, "NEAR_MS=1000", NULL}));
    struct said said;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(fleet_ask_status(i, cold), 200);
        assert_int_equal(fleet_ask_status(i, "/catalog"), 200);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        said = post(0, "/clear", wrong[i]);
        assert_says(&said, 400, "Namespace required");
    }
    said = ask(0, cold, NULL);
    assert_from(&said, "; hit");
    said = post(0, "/clear?namespace=", "fleet");
    assert_says(&said, 200, "{\"namespace\":\"fleet\",\"entries\":2}");
    said = ask(0, cold, NULL);
    assert_from(&said, "fwd=miss");
}

/* ---- past the cache ---- */

static const char *with_token(const char *token, const char *cache_control)
{
    static char headers[TEXT_BYTES];
    snprintf(headers, sizeof headers, "Revalidate-Token: %s\r\nCache-Control: %s\r\n", token, cache_control);
    return headers;
}

TEST(no_cache_asks_past_the_cache_with_the_token_and_not_without, P158)
{
    char token_file[TEXT_BYTES], setting[TEXT_BYTES + 32], many[TEXT_BYTES];
    snprintf(token_file, sizeof token_file, "%s/token", folder);
    file_write(token_file, "0123456789abcdef\n");
    assert_int_equal(chmod(token_file, 0600), 0);
    snprintf(setting, sizeof setting, "REVALIDATE_TOKEN_FILE=%s", token_file);
    assert_true(fleet_start(PROCESSES, (const char *const[]){LONG, "NEAR_MS=1000", setting, NULL}));
    struct said said = ask(0, cold, "Cache-Control: no-cache\r\n");
    assert_from(&said, "fwd=miss");
    fleet_mark();
    said = ask(0, cold, "Cache-Control: no-cache\r\n");
    assert_from(&said, "; hit");
    said = ask(0, cold, with_token("0123456789abcdeF", "no-cache"));
    assert_from(&said, "; hit");
    said = ask(0, cold, with_token("0123456789abcdef", "max-age=0"));
    assert_from(&said, "; hit");
    said = ask(1, cold, with_token("", "no-cache"));
    assert_from(&said, "; hit");
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), 0);
    for (uint32_t i = 0; i < PROCESSES; i++) {
        said = ask(i, cold, with_token("0123456789abcdef", "max-age=0, no-cache"));
        assert_from(&said, "fwd=request; stored");
        assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), i + 1);
    }
    said = ask(1, cold, NULL);
    assert_from(&said, "; hit");
    snprintf(many, sizeof many, "/products?ids=%u", (unsigned)product);
    said = ask(1, many, with_token("0123456789abcdef", "no-cache"));
    assert_from(&said, "fwd=request; stored");
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT) + fleet_loads("/* load products */"), PROCESSES + 1);
}

/* ---- times ---- */

static long long life_of_the_entry(void)
{
    char name[FLEET_KEY_BYTES];
    fleet_redis_key(name, product, 'v');
    assert_true(probe_wait_for(product));
    return fleet_redis_number("PTTL", name);
}

TEST(times_change_while_the_process_runs_and_for_what_is_loaded_from_then_on, P146, P158)
{
    assert_true(fleet_start(1, (const char *const[]){LONG, "STALE_MS=0", NULL}));
    assert_int_equal(fleet_ask_status(0, cold), 200);
    assert_in_range(life_of_the_entry(), 3000000, 3600000);
    struct said said = post(0, "/policy?", "FRESH_MS=500000&STALE_MS=100000");
    assert_says(&said, 200, "\"FRESH_MS\":500000,\"STALE_MS\":100000,\"SOFT_MS\":0");
    choose_product();
    assert_int_equal(fleet_ask_status(0, cold), 200);
    assert_in_range(life_of_the_entry(), 400000, 600000);
    static const char *const wrong[][2] = {
        {"FRESH_MS=700000&STALE_MS=x", "STALE_MS: \\\"x\\\" is wrong"},
        {"FRESH_MS=86400000", "FRESH_MS: \\\"86400000\\\" is wrong; must be at most 86400000 together with"},
        {"LEASE_MS=50", "\\\"LEASE_MS\\\": does not change while the process runs"},
        {"fresh_ms=50", "\\\"fresh_ms\\\": no such setting"},
        {"FRESH_MS", "FRESH_MS: \\\"\\\" is wrong"},
        {"FRESH_\xff=1", "\\\"FRESH_\\\\xff\\\": no such setting"}, /* no text in JSON */
        {"FRESH_%FF=1", "\\\"FRESH_\\\\xff\\\": no such setting"},
        {"FRESH_MS=%c3%28", "FRESH_MS: \\\"\\\\xc3(\\\" is wrong"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        said = post(0, "/policy?", wrong[i][0]);
        assert_says(&said, 400, wrong[i][1]);
        assert_says(&said, 400, "Nothing was changed");
        assert_null(strstr(said.body, "\\n\"")); /* a line for each reason, and none after the last */
    }
    said = post(0, "/policy", "");
    assert_says(&said, 200, "\"FRESH_MS\":500000,\"STALE_MS\":100000,\"SOFT_MS\":0");
}

#define SILENCE "SELECT silence_ms FROM caches"

/* Or a process would forget a cache that still holds what it may serve. */
TEST(a_longer_life_is_announced_to_the_database_before_it_counts, P146)
{
    assert_true(fleet_start(1, writes_settings((const char *const[]){"FRESH_MS=10000", NULL})));
    const long before = writes_number(SILENCE);
    struct said said = post(0, "/policy?", "FRESH_MS=3600000");
    assert_says(&said, 200, "\"FRESH_MS\":3600000");
    assert_int_equal(writes_number(SILENCE), before + 3590000);
    said = post(0, "/policy?", "FRESH_MS=1000"); /* what is stored lives on */
    assert_says(&said, 200, "\"FRESH_MS\":1000,");
    assert_int_equal(writes_number(SILENCE), before + 3590000);
}

TEST_GROUP(.up = up, .down = fleet_down, .before = choose_product, .after = end);
