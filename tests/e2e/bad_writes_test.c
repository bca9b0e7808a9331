/* SPDX-License-Identifier: MIT */
/*
 * bad_writes_test.c - writes that are wrong, byte for byte: each is refused with its reason and changes nothing, and
 * the next request is served.
 */
#include "load/base/clock.h"
#include "tests/support/drips.h"
#include "tests/support/test.h"
#include "tests/support/writes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

enum { ASK_LIMIT_MS = 10000, BODY_BYTES_MAX = 131072 };

#define HOST "Host: shop\r\n"
#define LAST "Connection: close\r\n\r\n"
#define JSON "Content-Type: application/json\r\n"
#define SEEN "If-Match: \"1\"\r\n"
#define PUT(headers, body) "PUT /products/7 HTTP/1.1\r\n" HOST headers LAST body
#define BUY(headers, body) "POST /products/7/purchase HTTP/1.1\r\n" HOST headers LAST body
#define LENGTH(count) "Content-Length: " #count "\r\n"

struct bad {
    const char *name, *bytes;
    unsigned status;
    const char *contains; /* in head or body of the answer */
};

static const struct bad WRONG[] = {
    {"no type", PUT(SEEN LENGTH(2), "{}"), 415, "/problems/type"},
    {"no condition", PUT(JSON LENGTH(2), "{}"), 428, "/problems/condition-required"},
    {"no body", PUT(JSON SEEN, ""), 400, "/problems/bad-body"},
    {"an empty object", PUT(JSON SEEN LENGTH(2), "{}"), 422, "\"field\":\"price_cents\""},
    {"an id of 0", "PUT /products/0 HTTP/1.1\r\n" HOST JSON SEEN LENGTH(2) LAST "{}", 400,
     "/problems/bad-id"},
    {"a query", "PUT /products/7?force=1 HTTP/1.1\r\n" HOST JSON SEEN LENGTH(2) LAST "{}", 400,
     "/problems/bad-query"},
    {"DELETE", "DELETE /products/7 HTTP/1.1\r\n" HOST LAST, 405, "Allow: GET, HEAD, PUT\r\n"},
    {"a bad key", BUY(JSON "Idempotency-Key: a b\r\n" LENGTH(14), "{\"quantity\":1}"), 400,
     "/problems/bad-key"},
    {"a body too large", PUT(JSON SEEN LENGTH(131073), ""), 413, "/problems/too-large"},
    {"chunks", PUT(JSON SEEN "Transfer-Encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n"), 400,
     "/problems/framing"},
    {"two lengths", PUT(JSON SEEN LENGTH(2) LENGTH(3), "{}"), 400, "/problems/framing"},
    {"two Hosts", PUT(HOST JSON SEEN LENGTH(2), "{}"), 400, "/problems/host"},
};

static unsigned status_of(const struct http_raw *raw)
{
    static const char version[] = "HTTP/1.1 ";
    const char *at = strncmp(raw->bytes, version, sizeof version - 1) == 0 ? raw->bytes : NULL;
    return at != NULL ? (unsigned)strtoul(at + sizeof version - 1, NULL, 10) : 0;
}

static void ask_raw(const char *bytes, size_t count, struct http_raw *out)
{
    http_raw_ask("127.0.0.1", fleet.catalogd[0].port, bytes, count, ASK_LIMIT_MS, out);
    assert_true(out->connected);
}

static void assert_refused(const struct bad *bad)
{
    struct http_raw raw;
    ask_raw(bad->bytes, strlen(bad->bytes), &raw);
    bool has_document = strstr(raw.bytes, "application/problem+json") != NULL;
    if (status_of(&raw) != bad->status || !raw.closed || !has_document ||
        strstr(raw.bytes, bad->contains) == NULL)
        fail_msg("%s: %s%s", bad->name, raw.bytes, raw.closed ? "" : " (left open)");
    http_raw_clear(&raw);
}

TEST(what_is_wrong_is_refused_and_changes_nothing)
{
    assert_true(fleet_start(1, writes_settings(NULL)));
    fleet_mark();
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++)
        assert_refused(&WRONG[i]);
    assert_int_equal(fleet_loads("/* change product */"), 0);
    assert_int_equal(fleet_loads("/* purchase product */"), 0);
    assert_int_equal(writes_version(0, 7), 1);
    assert_int_equal(writes_put(0, 7, 1, 1), 200);
}

TEST(the_database_has_the_last_word_on_a_category)
{
    assert_true(fleet_start(1, writes_settings(NULL)));
    struct write_asked asked = {.method = "PUT", .path = "/products/8", .headers = "If-Match: *\r\n"};
    static const char *const bodies[] = {
        "{\"name\":\"n\",\"description\":\"\",\"price_cents\":1,\"stock\":1,\"category_id\":1}",
        "{\"name\":\"n\",\"description\":\"\",\"price_cents\":1,\"stock\":1,\"category_id\":999999999}"};
    for (size_t i = 0; i < 2; i++) {
        asked.body = bodies[i];
        writes_ask(&asked);
        assert_int_equal(asked.status, 422);
        assert_string_equal(asked.type, "bad-fields");
    }
    asked.path = "/products/999999999";
    writes_ask(&asked);
    assert_int_equal(asked.status, 404);
}

/* ---- bodies that do not come ---- */

enum { LOITERERS = 300, LOITER_BYTES = 16 << 20 };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SLACK_BYTES = 1 << 29 }; /* what was freed is kept for a while */
#else
enum { SLACK_BYTES = 12 << 20 };
#endif

static struct drips_options loiterers(const char *begun, size_t begun_bytes)
{
    return (struct drips_options){.host = "127.0.0.1",
                                  .port = fleet.catalogd[0].port,
                                  .count = LOITERERS,
                                  .begun = begun,
                                  .begun_bytes = begun_bytes};
}

/* They announce as much as is allowed and send nothing, or a little at a time. */
TEST(bodies_that_are_only_announced_keep_nobody_from_writing, P89)
{
    static const char head[] = "PUT /products/9 HTTP/1.1\r\n" HOST JSON SEEN LENGTH(131072) "\r\n";
    assert_true(fleet_start(1, writes_settings((const char *[]){"SERVER_LOOPS=1", NULL})));
    for (unsigned i = 0; i < 2; i++) {
        struct drips *drips = NULL;
        struct drips_options options = loiterers(head, sizeof head - 1);
        options.drip = i == 1 ? "x" : NULL;
        assert_true(drips_open(&options, &drips));
        assert_true(fleet_wait_metric(0, "catalogd_connections_busy", LOITER_BYTES / BODY_BYTES_MAX));
        for (unsigned long version = 1; version <= 10; version++)
            assert_int_equal(writes_put(0, 20 + i, version, 1), 200);
        drips_close(&drips);
    }
}

/* They send all but the last byte: more than a loop holds for all of them. Those who linger longest go first. */
TEST(bodies_that_lack_a_byte_keep_nobody_from_writing_and_fill_no_memory, P89)
{
    static char request[BODY_BYTES_MAX + 512];
    struct drips *drips = NULL;
    assert_true(fleet_start(1, writes_settings((const char *[]){"SERVER_LOOPS=1", NULL})));
    double before = fleet_metric(0, "process_resident_memory_bytes");
    int head = snprintf(request, sizeof request,
                        "PUT /products/9 HTTP/1.1\r\n" HOST JSON SEEN LENGTH(131072) "\r\n");
    memset(request + head, ' ', BODY_BYTES_MAX - 1);
    struct drips_options options = loiterers(request, (size_t)head + BODY_BYTES_MAX - 1);
    assert_true(drips_open(&options, &drips));
    for (unsigned long version = 1; version <= 10; version++)
        assert_int_equal(writes_put(0, 30, version, 1), 200);
    double after = fleet_metric(0, "process_resident_memory_bytes");
    WAIT_UNTIL(drips_hung_up(drips) >= LOITERERS - LOITER_BYTES / BODY_BYTES_MAX);
    drips_close(&drips);
    assert_true(before > 0 && after - before < LOITER_BYTES + SLACK_BYTES);
}

/* Five seconds, and more only for what comes. */
TEST(a_body_that_does_not_come_is_waited_for_for_five_seconds, P89)
{
    enum { LIMIT_MS = 5000, MACHINE_MS = 6000 };
    static const char head[] = "PUT /products/9 HTTP/1.1\r\n" HOST JSON SEEN LENGTH(131072) "\r\n{";
    struct drips *drips = NULL;
    assert_true(fleet_start(1, writes_settings(NULL)));
    struct drips_options options = loiterers(head, sizeof head - 1);
    options.count = 1;
    options.drip = "x";
    uint64_t begun_us = clock_us();
    assert_true(drips_open(&options, &drips));
    while (drips_hung_up(drips) == 0 && clock_us() - begun_us < (uint64_t)(LIMIT_MS + MACHINE_MS) * 1000)
        clock_pause_ms(2);
    uint64_t took_ms = (clock_us() - begun_us) / 1000;
    drips_close(&drips);
    assert_in_range(took_ms, LIMIT_MS - 500, LIMIT_MS + MACHINE_MS - 1);
}

TEST(writes_are_refused_where_they_are_off)
{
    assert_true(fleet_start(1, NULL));
    static const struct bad refused[] = {
        {"PUT", PUT(JSON SEEN LENGTH(2), "{}"), 403, "/problems/writes-off"},
        {"PUT without a body", PUT(JSON SEEN, ""), 403, "/problems/writes-off"},
        {"POST", BUY(JSON LENGTH(14), "{\"quantity\":1}"), 403, "/problems/writes-off"},
        {"DELETE", "DELETE /products/7 HTTP/1.1\r\n" HOST LAST, 405, "Allow: GET, HEAD\r\n"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_refused(&refused[i]);
    assert_int_equal(fleet_metric(0, "catalogd_outbox_rows"), -1);
}

/* With the rights of a reader, and with those of nobody. */
TEST(a_role_that_may_not_write_changes_nothing_and_says_so)
{
    char url[128];
    snprintf(url, sizeof url, "WRITE_DATABASE_URL=postgresql://shop_reader@127.0.0.1:%u/postgres",
             (unsigned)fleet.postgres.port);
    assert_true(fleet_start(0, NULL) && fleet_add((const char *[]){url, NULL}) && fleet_wait_ready(0));
    struct write_asked asked = {
        .method = "POST", .path = "/products/10/purchase", .body = "{\"quantity\":1}"};
    writes_ask(&asked);
    assert_int_equal(asked.status, 500);
    assert_string_equal(asked.type, "write-refused");
    assert_int_equal(writes_number("SELECT edition FROM products WHERE id = 10"), 1);
    assert_int_equal(fleet_metric(0, "catalogd_cache_in_use"), 0); /* nor can it register */
}

static bool up(void)
{
    return fleet_up() && writes_make_logins();
}

TEST_GROUP(.up = up, .down = fleet_down, .after = fleet_end);
