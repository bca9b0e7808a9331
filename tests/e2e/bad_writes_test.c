/* SPDX-License-Identifier: MIT */
/*
 * bad_writes_test.c - requests to change something that are wrong, byte for byte: each is refused with its
 * reason, nothing is changed, and the next one is served.
 */
#include "tests/support/writes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ASK_LIMIT_MS = 10000, DRIPPERS = 200, BODY_BYTES_MAX = 131072 };

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
    const char *contains; /* NULL: libmicrohttpd refuses without a document */
};

static const struct bad WRONG[] = {
    {"no type", PUT(SEEN LENGTH(2), "{}"), 415, "/problems/type"},
    {"a form", PUT(SEEN "Content-Type: application/x-www-form-urlencoded\r\n" LENGTH(1), "a"), 415,
     "/problems/type"},
    {"no condition", PUT(JSON LENGTH(2), "{}"), 428, "/problems/condition-required"},
    {"a condition without quotes", PUT(JSON "If-Match: 1\r\n" LENGTH(2), "{}"), 400,
     "/problems/bad-condition"},
    {"an empty condition", PUT(JSON "If-Match:\r\n" LENGTH(2), "{}"), 400, "/problems/bad-condition"},
    {"one good condition, one bad", PUT(JSON SEEN "If-Match: x\r\n" LENGTH(2), "{}"), 400,
     "/problems/bad-condition"},
    {"no body", PUT(JSON SEEN, ""), 400, "/problems/bad-body"},
    {"an empty body", PUT(JSON SEEN LENGTH(0), ""), 400, "/problems/bad-body"},
    {"half an object", PUT(JSON SEEN LENGTH(1), "{"), 400, "/problems/bad-body"},
    {"an array", PUT(JSON SEEN LENGTH(2), "[]"), 400, "/problems/bad-body"},
    {"not UTF-8", PUT(JSON SEEN LENGTH(12), "{\"name\":\"\xff\"}"), 400, "/problems/bad-body"},
    {"an empty object", PUT(JSON SEEN LENGTH(2), "{}"), 422, "\"field\":\"price_cents\""},
    {"an unknown field", PUT(JSON SEEN LENGTH(9), "{\"sku\":1}"), 422, "\"field\":\"sku\""},
    {"an id of 0", "PUT /products/0 HTTP/1.1\r\n" HOST JSON SEEN LENGTH(2) LAST "{}", 400,
     "/problems/bad-id"},
    {"a query", "PUT /products/7?force=1 HTTP/1.1\r\n" HOST JSON SEEN LENGTH(2) LAST "{}", 400,
     "/problems/bad-query"},
    {"a category", "PUT /categories/7 HTTP/1.1\r\n" HOST JSON SEEN LENGTH(2) LAST "{}", 405,
     "Allow: GET, HEAD\r\n"},
    {"POST to a product", "POST /products/7 HTTP/1.1\r\n" HOST JSON LENGTH(2) LAST "{}", 405,
     "Allow: GET, HEAD, PUT\r\n"},
    {"DELETE", "DELETE /products/7 HTTP/1.1\r\n" HOST LAST, 405, "Allow: GET, HEAD, PUT\r\n"},
    {"GET of a purchase", "GET /products/7/purchase HTTP/1.1\r\n" HOST LAST, 405, "Allow: POST\r\n"},
    {"PUT of a purchase", "PUT /products/7/purchase HTTP/1.1\r\n" HOST JSON SEEN LENGTH(2) LAST "{}", 405,
     "Allow: POST\r\n"},
    {"small letters", "put /products/7 HTTP/1.1\r\n" HOST JSON SEEN LENGTH(2) LAST "{}", 405,
     "/problems/method"},
    {"a quantity of 0", BUY(JSON LENGTH(14), "{\"quantity\":0}"), 422, "\"field\":\"quantity\""},
    {"a quantity below 0", BUY(JSON LENGTH(15), "{\"quantity\":-1}"), 422, "\"field\":\"quantity\""},
    {"half a piece", BUY(JSON LENGTH(16), "{\"quantity\":0.5}"), 422, "\"field\":\"quantity\""},
    {"more pieces than there are numbers", BUY(JSON LENGTH(24), "{\"quantity\":2147483648 }"), 422,
     "\"field\":\"quantity\""},
    {"two quantities", BUY(JSON LENGTH(27), "{\"quantity\":1,\"quantity\":1}"), 400, "/problems/bad-body"},
    {"a bad key", BUY(JSON "Idempotency-Key: a b\r\n" LENGTH(14), "{\"quantity\":1}"), 400,
     "/problems/bad-key"},
    {"an empty key", BUY(JSON "Idempotency-Key:\r\n" LENGTH(14), "{\"quantity\":1}"), 400,
     "/problems/bad-key"},
    {"a body too large", PUT(JSON SEEN LENGTH(131073), ""), 413, "/problems/too-large"},
    {"a body beyond reason", PUT(JSON SEEN LENGTH(999999999999999999), ""), 413, "/problems/too-large"},
    {"a body too large announced", PUT(JSON SEEN "Expect: 100-continue\r\n" LENGTH(131073), ""), 413,
     "/problems/too-large"},
    {"chunks", PUT(JSON SEEN "Transfer-Encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n"), 400,
     "/problems/framing"},
    {"two lengths", PUT(JSON SEEN LENGTH(2) LENGTH(3), "{}"), 400, NULL},
    {"a length below 0", PUT(JSON SEEN LENGTH(-2), "{}"), 400, NULL},
    {"two Hosts", PUT(HOST JSON SEEN LENGTH(2), "{}"), 400, "/problems/host"},
};

static unsigned status_of(const struct http_raw *raw)
{
    static const char version[] = "HTTP/1.1 ";
    const char *at = strncmp(raw->bytes, version, sizeof version - 1) == 0 ? raw->bytes : NULL;
    return at != NULL ? (unsigned)strtoul(at + sizeof version - 1, NULL, 10) : 0;
}

static void ask_raw(const struct fleet *fleet, const char *bytes, size_t count, struct http_raw *out)
{
    http_raw_ask("127.0.0.1", fleet->catalogd[0].port, bytes, count, ASK_LIMIT_MS, out);
    assert_true(out->connected);
}

static void assert_refused(const struct fleet *fleet, const struct bad *bad)
{
    struct http_raw raw;
    ask_raw(fleet, bad->bytes, strlen(bad->bytes), &raw);
    bool has_document = strstr(raw.bytes, "application/problem+json") != NULL;
    if (status_of(&raw) != bad->status || !raw.closed || (bad->contains != NULL && !has_document) ||
        (bad->contains != NULL && strstr(raw.bytes, bad->contains) == NULL))
        fail_msg("%s: %s%s", bad->name, raw.bytes, raw.closed ? "" : " (left open)");
    http_raw_clear(&raw);
}

static void what_is_wrong_is_refused_and_changes_nothing(void **state)
{
    struct fleet *fleet = *state;
    assert_true(fleet_start(fleet, 1, writes_settings(fleet, NULL)));
    fleet_mark(fleet);
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++)
        assert_refused(fleet, &WRONG[i]);
    assert_int_equal(fleet_loads(fleet, "/* change product */"), 0);
    assert_int_equal(fleet_loads(fleet, "/* purchase product */"), 0);
    assert_int_equal(writes_version(fleet, 0, 7), 1);
    assert_int_equal(writes_put(fleet, 0, 7, 1, 1), 200);
}

static void the_database_has_the_last_word_on_a_category(void **state)
{
    struct fleet *fleet = *state;
    assert_true(fleet_start(fleet, 1, writes_settings(fleet, NULL)));
    struct write_asked asked = {.method = "PUT", .path = "/products/8", .headers = "If-Match: *\r\n"};
    static const char *const bodies[] = {
        "{\"name\":\"n\",\"description\":\"\",\"price_cents\":1,\"stock\":1,\"category_id\":1}",
        "{\"name\":\"n\",\"description\":\"\",\"price_cents\":1,\"stock\":1,\"category_id\":999999999}"};
    for (size_t i = 0; i < 2; i++) {
        asked.body = bodies[i];
        writes_ask(fleet, &asked);
        assert_int_equal(asked.status, 422);
        assert_string_equal(asked.type, "bad-fields");
    }
    asked.path = "/products/999999999";
    writes_ask(fleet, &asked);
    assert_int_equal(asked.status, 404);
}

static void a_body_of_the_largest_size_is_taken_and_judged(void **state)
{
    struct fleet *fleet = *state;
    static char request[BODY_BYTES_MAX + 512];
    struct http_raw raw;
    assert_true(fleet_start(fleet, 1, writes_settings(fleet, NULL)));
    int head = snprintf(request, sizeof request, PUT(JSON SEEN LENGTH(131072), ""));
    memset(request + head, ' ', BODY_BYTES_MAX);
    ask_raw(fleet, request, (size_t)head + BODY_BYTES_MAX, &raw);
    assert_int_equal(status_of(&raw), 400);
    assert_non_null(strstr(raw.bytes, "/problems/bad-body"));
    http_raw_clear(&raw);
}

/* They announce as much as is allowed and send nothing: more than the loops will hold for all of them. */
static void bodies_that_never_come_do_not_fill_the_memory(void **state)
{
    struct fleet *fleet = *state;
    struct burst_target target;
    struct burst *drippers = NULL;
    assert_true(fleet_start(fleet, 1, writes_settings(fleet, (const char *[]){"SERVER_LOOPS=1", NULL})));
    target = (struct burst_target){.host = "127.0.0.1", .port = fleet->catalogd[0].port};
    const struct burst_options options = {.targets = &target,
                                          .target_count = 1,
                                          .connection_count = DRIPPERS,
                                          .connect_limit_ms = FLEET_LIMIT_MS,
                                          .request_limit_ms = 1000,
                                          .method = "PUT",
                                          .path = "/products/9",
                                          .headers = JSON SEEN LENGTH(131072)};
    struct burst_summary summary;
    assert_true(burst_open(&options, &drippers));
    assert_true(burst_run(drippers));
    burst_summarise(drippers, &summary);
    assert_int_equal(summary.statuses[503], DRIPPERS - (16 << 20) / BODY_BYTES_MAX);
    assert_int_equal(fleet_ask_status(fleet, 0, "/products/9"), 200);
    burst_close(&drippers);
    assert_int_equal(writes_put(fleet, 0, 9, 1, 1), 200);
}

static void writes_are_refused_where_they_are_off(void **state)
{
    struct fleet *fleet = *state;
    assert_true(fleet_start(fleet, 1, NULL));
    static const struct bad refused[] = {
        {"PUT", PUT(JSON SEEN LENGTH(2), "{}"), 403, "/problems/writes-off"},
        {"PUT without a body", PUT(JSON SEEN, ""), 403, "/problems/writes-off"},
        {"POST", BUY(JSON LENGTH(14), "{\"quantity\":1}"), 403, "/problems/writes-off"},
        {"DELETE", "DELETE /products/7 HTTP/1.1\r\n" HOST LAST, 405, "Allow: GET, HEAD\r\n"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_refused(fleet, &refused[i]);
    assert_int_equal(fleet_metric(fleet, 0, "catalogd_outbox_rows"), -1);
}

/* With the rights of a reader, and with those of nobody. */
static void a_role_that_may_not_write_changes_nothing_and_says_so(void **state)
{
    struct fleet *fleet = *state;
    char url[128];
    snprintf(url, sizeof url, "WRITE_DATABASE_URL=postgresql://shop_reader@127.0.0.1:%u/postgres",
             (unsigned)fleet->postgres.port);
    assert_true(fleet_start(fleet, 0, NULL) && fleet_add(fleet, (const char *[]){url, NULL}) &&
                fleet_wait_ready(fleet, 0));
    struct write_asked asked = {
        .method = "POST", .path = "/products/10/purchase", .body = "{\"quantity\":1}"};
    writes_ask(fleet, &asked);
    assert_int_equal(asked.status, 500);
    assert_string_equal(asked.type, "write-refused");
    assert_int_equal(writes_number(fleet, "SELECT version FROM products WHERE id = 10"), 1);
    assert_int_equal(fleet_metric(fleet, 0, "catalogd_cache_in_use"), 0); /* nor can it register */
}

static int up(void **state)
{
    return fleet_up(state) == 0 && writes_make_logins(*state) ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_is_wrong_is_refused_and_changes_nothing, fleet_end),
        cmocka_unit_test_teardown(the_database_has_the_last_word_on_a_category, fleet_end),
        cmocka_unit_test_teardown(a_body_of_the_largest_size_is_taken_and_judged, fleet_end),
        cmocka_unit_test_teardown(bodies_that_never_come_do_not_fill_the_memory, fleet_end),
        cmocka_unit_test_teardown(writes_are_refused_where_they_are_off, fleet_end),
        cmocka_unit_test_teardown(a_role_that_may_not_write_changes_nothing_and_says_so, fleet_end),
    };
    return cmocka_run_group_tests_name("bad writes", tests, up, fleet_down);
}
