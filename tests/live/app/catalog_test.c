/* SPDX-License-Identifier: MIT */
/*
 * catalog_test.c - the catalog behind the real guard, a private Redis and a private PostgreSQL.
 */
#include "app/catalog/catalog.h"
#include "app/catalog/catalog_json.h"

#include "load/base/clock.h"
#include "load/stack/stack.h"
#include "tests/support/test.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SCALE = 2000, LIMIT_MS = 15000, SETTINGS_MAX = 16, TEXT_BYTES = 256 };

static struct stack_redis redis;
static struct stack_postgres postgres;

/* A guard and a catalog with settings of their own. */
struct service {
    struct settings settings;
    struct guard *guard;
    struct catalog *catalog;
    char redis_url[TEXT_BYTES + 16], database_url[TEXT_BYTES + 16];
};

static const char *url_of(const char *database)
{
    static char url[TEXT_BYTES];
    snprintf(url, sizeof url, "postgresql://postgres@127.0.0.1:%u/%s", (unsigned)postgres.port, database);
    return url;
}

static void query(const char *database, const char *text)
{
    assert_true(stack_postgres_query(url_of(database), text, NULL, 0));
}

static struct guard *open_guard(const struct settings *settings)
{
    struct guard_config config = settings->guard;
    struct guard_error error = {0};
    struct guard *guard = NULL;
    config.redis_limit_ms = settings->policy.lease_ms / 3;
    if (guard_open(&config, &guard, &error) != GUARD_OK) {
        fail_msg("guard_open: %s", error.text);
    }
    return guard;
}

/* Further settings as "NAME=value"; ends with NULL. */
static void open_service(struct service *service, const char *database, const char *const *further)
{
    static unsigned name_spaces;
    char name_space[32];
    char *argv[] = {(char[]){"catalog_test"}, NULL};
    char *env[SETTINGS_MAX] = {service->redis_url, service->database_url, name_space};
    struct guard_error error = {0};
    snprintf(name_space, sizeof name_space, "NAMESPACE=test%u", name_spaces++);
    snprintf(service->redis_url, sizeof service->redis_url, "REDIS_URL=%s", redis.url);
    snprintf(service->database_url, sizeof service->database_url, "DATABASE_URL=%s", url_of(database));
    for (size_t i = 0; further[i] != NULL; i++) {
        assert_true(i + 4 < SETTINGS_MAX);
        env[3 + i] = (char *)(uintptr_t)further[i];
    }
    assert_int_equal(settings_read(1, argv, env, &service->settings, stderr), SETTINGS_OK);
    service->guard = open_guard(&service->settings);
    if (!catalog_open(&service->settings, service->guard, &service->catalog, &error)) {
        fail_msg("catalog_open: %s", error.text);
    }
}

static void close_service(struct service *service)
{
    assert_int_equal(guard_close(&service->guard, 1000), GUARD_OK);
    catalog_close(&service->catalog);
    assert_null(service->catalog);
    catalog_close(&service->catalog);
}

static struct guard_result get(struct service *service, enum document_kind kind, const char *key)
{
    struct guard_result result;
    const struct guard_request request = {.kind = catalog_kind(service->catalog, kind), .key = key};
    guard_get_wait(service->guard, &request, &result);
    return result;
}

/* The document of a key, yours. */
static json_t *document_of(struct service *service, enum document_kind kind, const char *key)
{
    json_error_t error;
    struct guard_result result = get(service, kind, key);
    if (result.status != GUARD_OK) {
        fail_msg("%s: %s, %s", key, guard_status_name(result.status), guard_failure_name(result.failure));
    }
    json_t *document =
        json_loadb(result.value->body, result.value->body_bytes, JSON_REJECT_DUPLICATES, &error);
    assert_non_null(document);
    guard_value_unref(&result.value);
    return document;
}

static void assert_status(struct service *service, enum document_kind kind, const char *key,
                          enum guard_status status, enum guard_failure failure)
{
    struct guard_result result = get(service, kind, key);
    assert_string_equal(guard_status_name(result.status), guard_status_name(status));
    assert_string_equal(guard_failure_name(result.failure), guard_failure_name(failure));
    guard_value_unref(&result.value);
}

static bool becomes_ready(const struct service *service, bool wanted)
{
    uint64_t end_us = clock_after_ms(LIMIT_MS);
    while (catalog_ready(service->catalog) != wanted && clock_us() < end_us) {
        clock_pause_ms(1);
    }
    return catalog_ready(service->catalog) == wanted;
}

static const char *const defaults[] = {NULL};

static struct service service;

static void close_it(void)
{
    if (service.guard != NULL)
        close_service(&service);
}

/* ---- documents ---- */

TEST(the_pages_of_a_category_are_followed_to_the_end)
{
    char key[64], count[64];
    json_int_t seen = 0;
    open_service(&service, "postgres", defaults);
    assert_true(stack_postgres_query(
        url_of("postgres"),
        "SELECT 'category:' || category_id FROM products GROUP BY category_id ORDER BY count(*) DESC LIMIT 1",
        key, sizeof key));
    assert_true(stack_postgres_query(
        url_of("postgres"),
        "SELECT max(n) FROM (SELECT count(*) AS n FROM products GROUP BY category_id) AS s", count,
        sizeof count));
    for (const char *next = ""; next != NULL;) {
        long category, after;
        json_t *page = document_of(&service, DOCUMENT_CATEGORY, key);
        size_t products = json_array_size(json_object_get(page, "products"));
        next = json_string_value(json_object_get(page, "next"));
        assert_true(next == NULL || products == CATALOG_PAGE_PRODUCTS);
        seen += (json_int_t)products;
        if (next != NULL) {
            assert_int_equal(sscanf(next, "/categories/%ld?after=%ld", &category, &after), 2);
            snprintf(key, sizeof key, "category:%ld:after:%ld", category, after);
        }
        json_decref(page);
    }
    assert_true(seen > CATALOG_PAGE_PRODUCTS);
    assert_int_equal(seen, strtol(count, NULL, 10));
}

TEST(an_absent_row_is_absent_and_a_key_of_no_kind_is_our_bug)
{
    static const char *const wrong[] = {"product:0",   "product:",          "product:07",
                                        "product:-1",  "product:7 ",        "product:1000000000000000000",
                                        "products:7",  "category:7:after:", "category:7:after:0",
                                        "category:7:", "category:",         "catalogue",
                                        "nothing"};
    open_service(&service, "postgres", defaults);
    assert_status(&service, DOCUMENT_PRODUCT, "product:999999999999999999", GUARD_ABSENT, GUARD_FAILURE_NONE);
    assert_status(&service, DOCUMENT_CATEGORY, "category:999999", GUARD_ABSENT, GUARD_FAILURE_NONE);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_status(&service, DOCUMENT_PRODUCT, wrong[i], GUARD_FAILED, GUARD_FAILURE_INTERNAL);
    }
}

TEST(the_same_documents_come_without_prepared_statements)
{
    static const char *const off[] = {"PREPARE=off", NULL};
    static const struct {
        enum document_kind kind;
        const char *key;
    } cases[] = {
        {DOCUMENT_TREE, "catalog"}, {DOCUMENT_CATEGORY, "category:1"}, {DOCUMENT_PRODUCT, "product:7"}};
    struct service with = {0}, without = {0};
    open_service(&with, "postgres", defaults);
    open_service(&without, "postgres", off);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct guard_result a = get(&with, cases[i].kind, cases[i].key);
        struct guard_result b = get(&without, cases[i].kind, cases[i].key);
        assert_int_equal(a.status, GUARD_OK);
        assert_int_equal(b.status, GUARD_OK);
        assert_string_equal(a.value->body, b.value->body);
        assert_string_equal(a.value->validator, b.value->validator);
        guard_value_unref(&a.value);
        guard_value_unref(&b.value);
    }
    close_service(&with);
    close_service(&without);
}

TEST(a_text_that_is_not_utf8_fails_cleanly, P63)
{
    query("postgres", "CREATE DATABASE bytes TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'");
    assert_true(stack_postgres_load(url_of("bytes"), 0));
    query("bytes", "INSERT INTO categories (level, parent_id, name) VALUES (1, NULL, E'\\xff')");
    open_service(&service, "bytes", defaults);
    assert_status(&service, DOCUMENT_TREE, "catalog", GUARD_FAILED, GUARD_FAILURE_REJECTED);
    assert_status(&service, DOCUMENT_CATEGORY, "category:1", GUARD_FAILED, GUARD_FAILURE_REJECTED);
    assert_status(&service, DOCUMENT_PRODUCT, "product:1", GUARD_ABSENT, GUARD_FAILURE_NONE);
}

/* ---- a database that is slow, away or not ours ---- */

TEST(a_database_without_the_schema_is_not_ready_until_it_has_it)
{
    query("postgres", "CREATE DATABASE empty TEMPLATE template0");
    open_service(&service, "empty", defaults);
    assert_status(&service, DOCUMENT_PRODUCT, "product:7", GUARD_FAILED, GUARD_FAILURE_REJECTED);
    assert_false(catalog_ready(service.catalog));
    assert_true(stack_postgres_load(url_of("empty"), 100));
    assert_true(becomes_ready(&service, true));
    assert_status(&service, DOCUMENT_PRODUCT, "product:999", GUARD_ABSENT, GUARD_FAILURE_NONE);

    /* and not again once a table is gone */
    query("empty", "DROP TABLE products");
    assert_status(&service, DOCUMENT_PRODUCT, "product:6", GUARD_FAILED, GUARD_FAILURE_REJECTED);
    assert_true(becomes_ready(&service, false));
}

static bool start(void)
{
    return stack_redis_start(&redis, NULL) && stack_postgres_start_seeded(&postgres, 60, SCALE);
}

static bool stop(void)
{
    stack_postgres_stop(&postgres);
    stack_redis_stop(&redis);
    return true;
}

TEST_GROUP(.up = start, .down = stop, .end = close_it);
