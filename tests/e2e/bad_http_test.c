/* SPDX-License-Identifier: MIT */
/*
 * bad_http_test.c - requests that are wrong, hostile or merely unusual, byte for byte, writes too.
 *
 * Each gets the right status and, where the service itself refuses, a problem document; none reaches Redis or
 * PostgreSQL; and clients beside it keep their connections and their answers.
 */

#include "load/base/clock.h"
#include "tests/support/drips.h"
#include "tests/support/files.h"
#include "tests/support/sockets.h"
#include "tests/support/test.h"
#include "tests/support/writes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    NEIGHBOURS = 8,
    ASK_LIMIT_MS = 10000,
    LONG_PATH_BYTES = 9 * 1024,
    LONG_HEADER_BYTES = 40 * 1024,
    HALF_OPEN = 300,
    BODY_BYTES_MAX = 131072,
};

/* ---- sending bytes ---- */

static void send_bytes(const char *bytes, size_t count, struct http_raw *out)
{
    http_raw_ask("127.0.0.1", fleet.catalogd[0].port, bytes, count, ASK_LIMIT_MS, out);
    assert_true(out->connected);
}

/* Status of the answer that begins at `from`; 0: that is none. */
static unsigned status_at(const char *from)
{
    static const char version[] = "HTTP/1.1 ";
    if (strncmp(from, version, sizeof version - 1) != 0)
        return 0;
    return (unsigned)strtoul(from + sizeof version - 1, NULL, 10);
}

/* ---- those beside it ---- */

static struct burst_target neighbour_target;

static struct burst *open_neighbours(const char *path)
{
    struct burst *neighbours = NULL;
    neighbour_target = (struct burst_target){.host = "127.0.0.1", .port = fleet.catalogd[0].port};
    const struct burst_options options = {.targets = &neighbour_target,
                                          .target_count = 1,
                                          .connection_count = NEIGHBOURS,
                                          .connect_limit_ms = FLEET_LIMIT_MS,
                                          .request_limit_ms = FLEET_LIMIT_MS,
                                          .path = path};
    assert_true(burst_open(&options, &neighbours));
    return neighbours;
}

static void assert_neighbours_are_well(struct burst *neighbours)
{
    struct burst_summary summary;
    assert_true(burst_run(neighbours));
    burst_summarise(neighbours, &summary);
    assert_int_equal(summary.statuses[200], NEIGHBOURS);
    assert_int_equal(summary.bodies, 1);
}

/* ---- one wrong thing each ---- */

#define HOST "Host: shop\r\n"
#define LAST "Connection: close\r\n\r\n"
#define GET(path) "GET " path " HTTP/1.1\r\n" HOST LAST
#define JSON "Content-Type: application/json\r\n"
#define SEEN "If-Match: \"1\"\r\n"
#define PUT(headers, body) "PUT /products/7 HTTP/1.1\r\n" HOST headers LAST body
#define BUY(headers, body) "POST /products/7/purchase HTTP/1.1\r\n" HOST headers LAST body
#define LENGTH(count) "Content-Length: " #count "\r\n"

struct bad {
    const char *name, *bytes;
    unsigned status;
    const char *contains; /* in head or body of the answer; NULL: libmicrohttpd refuses without a document */
};

static const struct bad WRONG[] = {
    {"id 0", GET("/products/0"), 400, "/problems/bad-id"},
    {"encoded NUL", GET("/products/%00"), 400, "/problems/encoded-path"},
    {"query where none is", GET("/products/7?after=1"), 400, "/problems/bad-query"},
    {"id 0 in a list", GET("/products?ids=7,0,8"), 400, ",\"place\":2,\"id\":\"0\""},
    {"unknown path", GET("/basket"), 404, "/problems/unknown-path"},
    {"POST", "POST /products/7 HTTP/1.1\r\n" HOST "Content-Length: 0\r\n" LAST, 405, "Allow: GET, HEAD"},
    {"a body", "GET /products/7 HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello", 413, "/problems/body"},
    {"a body to come", "GET /products/7 HTTP/1.1\r\n" HOST "Content-Length: 999999999\r\n\r\n", 413,
     "/problems/body"},
    {"chunks", "GET /products/7 HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400,
     "/problems/framing"},
    {"chunks and a length",
     "GET /products/7 HTTP/1.1\r\n" HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     400, NULL},
    {"two lengths", "GET /products/7 HTTP/1.1\r\n" HOST "Content-Length: 0\r\nContent-Length: 5\r\n\r\nhello",
     400, NULL},
    {"length -1", "GET /products/7 HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\n", 400, "/problems/framing"},
    {"length beyond 64 bits",
     "GET /products/7 HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999\r\n\r\n", 413,
     "/problems/too-large"},
    {"no Host", "GET /products/7 HTTP/1.1\r\n" LAST, 400, NULL},
    {"two Hosts", "GET /products/7 HTTP/1.1\r\n" HOST HOST LAST, 400, "/problems/host"},
    {"HTTP/2.0", "GET /products/7 HTTP/2.0\r\n" HOST LAST, 505, NULL},
    {"no version at all", "GET /products/7 nonsense\r\n" HOST LAST, 400, NULL},
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

/* Once, whoever refuses; the connection ends behind it. */
static void assert_refused(const struct bad *bad)
{
    struct http_raw raw;
    send_bytes(bad->bytes, strlen(bad->bytes), &raw);
    bool has_document = strstr(raw.bytes, "application/problem+json") != NULL;
    if (status_at(raw.bytes) != bad->status || !raw.closed || (bad->contains != NULL && !has_document) ||
        (bad->contains != NULL && strstr(raw.bytes, bad->contains) == NULL) ||
        text_times(raw.bytes, "\nDate: ") != 1)
        fail_msg("%s: %s%s", bad->name, raw.bytes, raw.closed ? "" : " (left open)");
    http_raw_clear(&raw);
}

TEST(what_is_wrong_is_refused_and_nobody_else_notices, P60, P91)
{
    char path[BURST_PATH_BYTES];
    assert_true(fleet_start(1, writes_settings(NULL)));
    fleet_cold_product(path);
    struct burst *neighbours = open_neighbours(path);
    assert_neighbours_are_well(neighbours);
    fleet_mark();
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        assert_refused(&WRONG[i]);
        assert_neighbours_are_well(neighbours);
    }
    burst_close(&neighbours);
    assert_int_equal(fleet_loads("load"), 0);
    assert_int_equal(fleet_loads("/* change product */") + fleet_loads("/* purchase product */"), 0);
    assert_int_equal(writes_put(0, 7, 1, 1), 200);
}

/* ---- too long ---- */

static char *filled(const char *before, char filler, size_t count, const char *after)
{
    size_t before_bytes = strlen(before);
    char *text = malloc(before_bytes + count + strlen(after) + 1);
    assert_non_null(text);
    memcpy(text, before, before_bytes);
    memset(text + before_bytes, filler, count);
    strcpy(text + before_bytes + count, after);
    return text;
}

static void assert_too_long(char *bytes, unsigned status)
{
    struct http_raw raw;
    send_bytes(bytes, strlen(bytes), &raw);
    if (raw.count > 0) /* it may close so early that its answer is lost to the reset */
        assert_int_equal(status_at(raw.bytes), status);
    assert_true(raw.closed);
    http_raw_clear(&raw);
    free(bytes);
}

TEST(what_is_too_long_is_refused_and_nobody_else_notices, P60)
{
    char path[BURST_PATH_BYTES];
    assert_true(fleet_start(1, NULL));
    fleet_cold_product(path);
    struct burst *neighbours = open_neighbours(path);
    assert_neighbours_are_well(neighbours);
    fleet_mark();
    assert_too_long(filled("GET /products/", '7', LONG_PATH_BYTES, " HTTP/1.1\r\n" HOST LAST), 414);
    assert_neighbours_are_well(neighbours);
    assert_too_long(filled("GET /products/7?", 'a', LONG_PATH_BYTES, " HTTP/1.1\r\n" HOST LAST), 414);
    assert_neighbours_are_well(neighbours);
    assert_too_long(filled("GET /products/7 HTTP/1.1\r\n" HOST "X: ", 'x', LONG_HEADER_BYTES, "\r\n" LAST),
                    431);
    assert_neighbours_are_well(neighbours);
    assert_too_long(filled("", 'A', LONG_HEADER_BYTES, ""), 414);
    assert_neighbours_are_well(neighbours);
    burst_close(&neighbours);
    assert_int_equal(fleet_loads("load"), 0);
}

/* ---- unusual, and right ---- */

struct answer_at {
    unsigned status;
    const char *from;
};

/* Where the answers begin, in order. */
static size_t find_answers(const struct http_raw *raw, struct answer_at *out, size_t most)
{
    size_t count = 0;
    for (const char *at = strstr(raw->bytes, "HTTP/1.1 "); at != NULL && count < most;
         at = strstr(at + 1, "HTTP/1.1 "))
        out[count++] = (struct answer_at){.status = status_at(at), .from = at};
    return count;
}

/* The first one is suspended until its load is done; what follows on its connection waits behind it. */
TEST(pipelined_requests_are_answered_in_order, P58)
{
    char first[BURST_PATH_BYTES], second[BURST_PATH_BYTES], bytes[4 * BURST_PATH_BYTES], id[40];
    struct answer_at answers[5] = {{0}};
    struct http_raw raw;
    assert_true(fleet_start(1, (const char *[]){"LOAD_DELAY_MS=100", NULL}));
    uint32_t first_id = fleet_cold_product(first), second_id = fleet_cold_product(second);
    int count = snprintf(bytes, sizeof bytes,
                         "GET %s HTTP/1.1\r\n" HOST "\r\n"
                         "GET /products/987654321 HTTP/1.1\r\n" HOST "\r\n"
                         "HEAD %s HTTP/1.1\r\n" HOST "\r\n"
                         "GET %s HTTP/1.1\r\n" HOST LAST,
                         first, first, second);
    send_bytes(bytes, (size_t)count, &raw);
    assert_true(raw.closed);
    assert_int_equal(find_answers(&raw, answers, 5), 4);
    assert_int_equal(answers[0].status, 200);
    assert_int_equal(answers[1].status, 404);
    assert_int_equal(answers[2].status, 200);
    assert_int_equal(answers[3].status, 200);
    snprintf(id, sizeof id, "\r\n\r\n{\"id\":%u,", (unsigned)first_id); /* and not its category */
    assert_int_equal(text_times(raw.bytes, id), 1);                     /* the HEAD has none */
    assert_true(strstr(raw.bytes, id) < answers[1].from);
    snprintf(id, sizeof id, "\r\n\r\n{\"id\":%u,", (unsigned)second_id);
    assert_true(strstr(raw.bytes, id) > answers[3].from);
    http_raw_clear(&raw);
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), 3);
}

TEST(an_older_client_is_answered_and_left, P58)
{
    char path[BURST_PATH_BYTES], bytes[BURST_PATH_BYTES * 2];
    struct http_raw raw;
    assert_true(fleet_start(1, (const char *[]){"LOAD_DELAY_MS=50", NULL}));
    fleet_cold_product(path);
    int count = snprintf(bytes, sizeof bytes, "GET %s HTTP/1.0\r\n\r\n", path);
    for (int round = 0; round < 2; round++) { /* loaded, then cached */
        send_bytes(bytes, (size_t)count, &raw);
        assert_int_equal(strtoul(strchr(raw.bytes, ' ') + 1, NULL, 10), 200);
        assert_true(raw.closed);
        assert_null(strstr(raw.bytes, "chunked"));
        http_raw_clear(&raw);
    }
    count = snprintf(bytes, sizeof bytes, "GET http://shop%s HTTP/1.1\r\n" HOST LAST, path);
    send_bytes(bytes, (size_t)count, &raw);
    assert_int_equal(status_at(raw.bytes), 200);
    http_raw_clear(&raw);
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), 1);
}

/* ---- those who do not finish ---- */

TEST(half_open_connections_hold_nobody_up, P60)
{
    static const char half[] = "GET /products/7 HTTP/1.1\r\nHost: sh";
    char path[BURST_PATH_BYTES];
    int fds[HALF_OPEN];
    assert_true(fleet_start(1, NULL));
    fleet_cold_product(path);
    struct burst *neighbours = open_neighbours(path);
    for (size_t i = 0; i < HALF_OPEN; i++) {
        fds[i] = socket_connect(fleet.catalogd[0].port, 0);
        assert_int_equal(write(fds[i], half, i % sizeof half), i % sizeof half);
    }
    assert_true(fleet_wait_metric(0, "catalogd_connections", HALF_OPEN));
    assert_neighbours_are_well(neighbours);
    for (size_t i = 0; i < HALF_OPEN; i++)
        close(fds[i]);
    WAIT_UNTIL(fleet_metric(0, "catalogd_connections") <= NEIGHBOURS);
    assert_neighbours_are_well(neighbours);
    burst_close(&neighbours);
}

/* ---- writes ---- */

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

TEST_GROUP(.up = writes_up, .down = fleet_down, .after = fleet_end);
