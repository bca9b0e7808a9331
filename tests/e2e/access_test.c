/* SPDX-License-Identifier: MIT */
/*
 * access_test.c - what is said of each request: its line in the access log, its id in answers and log lines, its
 * trace in PostgreSQL's statements.
 */
#include "tests/support/test.h"
#include "tests/support/writes.h"

#include <inttypes.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES = 4096, ANSWER_MS = 20000 };

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SAMPLED "traceparent: 00-" TRACE "-00f067aa0ba902b7-01\r\n"
#define UNSAMPLED "traceparent: 00-" TRACE "-00f067aa0ba902b7-00\r\n"

static char folder[PROC_PATH_BYTES], file[PROC_PATH_BYTES + 8], file_setting[PROC_PATH_BYTES + 32];

static bool up(void)
{
    if (!proc_folder("access", NULL, folder))
        return false;
    snprintf(file, sizeof file, "%s/log", folder);
    snprintf(file_setting, sizeof file_setting, "ACCESS_LOG_FILE=%s", file);
    return writes_up();
}

static bool end(void)
{
    const bool ended = fleet_end();
    unlink(file);
    return ended;
}

static void start(const char *format, const char *more)
{
    const char *const settings[] = {format, file_setting, "SERVER_LOOPS=1", more, NULL};
    assert_true(fleet_start(1, settings));
}

/* ---- asking ---- */

struct said {
    unsigned status;
    char request[80], cache_status[160], body[2048];
};

static void ask(const char *method, const char *path, const char *headers, struct said *out)
{
    struct http_answer answer;
    assert_true(fleet_ask_port(fleet.catalogd[0].port, method, path, headers, &answer));
    out->status = answer.status;
    http_header(&answer, "X-Request-Id", out->request, sizeof out->request);
    http_header(&answer, "Cache-Status", out->cache_status, sizeof out->cache_status);
    snprintf(out->body, sizeof out->body, "%s", answer.body);
    http_answer_clear(&answer);
}

static void send_raw(const char *bytes, uint32_t limit_ms)
{
    struct http_raw raw;
    http_raw_ask("127.0.0.1", fleet.catalogd[0].port, bytes, strlen(bytes), limit_ms, &raw);
    http_raw_clear(&raw);
}

static void cold(char path[BURST_PATH_BYTES])
{
    assert_true(fleet_cold_product(path) != 0);
}

/* ---- the lines ---- */

static size_t lines_in(const char *path)
{
    char line[TEXT_BYTES + 2];
    size_t count = 0;
    FILE *in = fopen(path, "re");
    while (in != NULL && fgets(line, sizeof line, in) != NULL) {
        assert_non_null(strchr(line, '\n'));
        count++;
    }
    if (in != NULL)
        fclose(in);
    return count;
}

/* The first line with this text in it, without its newline. */
static const char *line_with(const char *text)
{
    static char line[TEXT_BYTES + 2];
    FILE *in = fopen(file, "re");
    assert_non_null(in);
    bool found = false;
    while (!found && fgets(line, sizeof line, in) != NULL)
        found = strstr(line, text) != NULL;
    fclose(in);
    if (!found)
        fail_msg("no line with %s", text);
    line[strcspn(line, "\n")] = '\0';
    return line;
}

static void assert_form(const char *line)
{
    regex_t form;
    assert_int_equal(
        regcomp(&form,
                "^127\\.0\\.0\\.1 - - \\[[0-9]{2}/[A-Z][a-z]{2}/[0-9]{4}(:[0-9]{2}){3} \\+0000] "
                "\"([A-Z]+|-) [!#-~]+ (HTTP/1\\.1|-)\" [0-9]{3} [0-9]+ \"[ !#-~]+\" \"[ !#-~]+\" "
                "[0-9]+\\.[0-9]{6} [a-z]+ [a-z_-]+ ([0-9a-f]{16}|-) ([A-Za-z0-9._-]+) ([0-9a-f]{32}|-) "
                "(done|hung-up|expired|stopped)$",
                REG_EXTENDED | REG_NOSUB),
        0);
    if (regexec(&form, line, 0, NULL, 0) != 0)
        fail_msg("%s", line);
    regfree(&form);
}

static void assert_all_have_the_form(void)
{
    char line[TEXT_BYTES + 2];
    FILE *in = fopen(file, "re");
    assert_non_null(in);
    while (fgets(line, sizeof line, in) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        assert_form(line);
    }
    fclose(in);
}

static void assert_has(const char *line, const char *text)
{
    if (strstr(line, text) == NULL)
        fail_msg("%s is not in: %s", text, line);
}

TEST(every_request_has_a_line_that_readers_of_combined_know, P170)
{
    static char text[3 * TEXT_BYTES];
    char path[BURST_PATH_BYTES];
    struct said said;
    start("ACCESS_LOG=combined", NULL);
    cold(path);
    ask(NULL, path, "X-Request-Id: first\r\nUser-Agent: a\"b\r\nReferer: http://shop/\r\n" SAMPLED, &said);
    ask(NULL, path, "X-Request-Id: second\r\n", &said);
    ask("HEAD", path, "X-Request-Id: third\r\n", &said);
    ask(NULL, path, "X-Request-Id: fourth\r\nIf-None-Match: *\r\n", &said);
    ask(NULL, "/nothing/\"'<script>", "X-Request-Id: fifth\r\n", &said);
    ask(NULL, "/ping", NULL, &said);
    ask(NULL, "/products?ids=1,2", "X-Request-Id: seventh\r\n", &said);
    send_raw("GET /eight HTTP/1.1\r\nHost: a\r\nbad header: x\r\n\r\n", ANSWER_MS);
    send_raw("GET /nine HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", ANSWER_MS);
    send_raw("PURGE /ten HTTP/1.1\r\nHost: a\r\nX-Request-Id: tenth\r\nConnection: close\r\n\r\n", ANSWER_MS);
    snprintf(text, sizeof text, "GET /eleven HTTP/1.1\r\nHost: a\r\nX: %03990d\r\nX: %04990d\r\n\r\n", 0, 0);
    send_raw(text, ANSWER_MS);
    WAIT_UNTIL(lines_in(file) >= 11);
    assert_all_have_the_form();
    snprintf(text, sizeof text, "\"GET %s HTTP/1.1\" 200 ", path);
    assert_has(line_with(" first "), text);
    assert_has(line_with(" first "), "\"http://shop/\" \"a\\x22b\" ");
    assert_has(line_with(" first "), " product load ");
    assert_has(line_with(" first "), " first " TRACE " done");
    assert_has(line_with(" second "), " product cache ");
    assert_has(line_with(" third "), " 200 0 \"-\"");
    assert_has(line_with(" fourth "), " 304 0 \"-\"");
    assert_has(line_with(" fifth "), "\\x22");
    assert_has(line_with(" seventh "), " products load ");
    assert_has(line_with("/ping"), "\" 200 5 \"-\"");
    assert_has(line_with("/eight"), "\" 400 ");
    assert_has(line_with("/nine"), "\"- /nine -\" 400 ");
    assert_has(line_with("/eleven"), "\"- /eleven -\" 431 ");
    assert_has(line_with(" tenth "), "\"PURGE /ten HTTP/1.1\" 404 ");
}

TEST(who_hangs_up_has_a_line_too, P170)
{
    char path[BURST_PATH_BYTES], bytes[BURST_PATH_BYTES + 80];
    start("ACCESS_LOG=combined", "LOAD_DELAY_MS=700");
    send_raw("GET /half-a-head HTTP/1.1\r\nHost: a\r\n", 50);
    cold(path);
    snprintf(bytes, sizeof bytes, "GET %s HTTP/1.1\r\nHost: a\r\nX-Request-Id: left\r\n\r\n", path);
    send_raw(bytes, 300); /* it hangs up in the middle of the load */
    WAIT_UNTIL(lines_in(file) >= 2);
    assert_all_have_the_form();
    assert_has(line_with("/half-a-head"), "\"- /half-a-head -\" 499 0 ");
    assert_has(line_with("/half-a-head"), " hung-up");
    assert_has(line_with(" left "), " product load ");
}

/* ---- a file that takes nothing ---- */

/* Long enough for a lane to be full soon. */
static void ask_until_dropped(void)
{
    static char agent[2000];
    struct said said;
    unsigned asked = 0;
    snprintf(agent, sizeof agent, "User-Agent: %0850d\r\nReferer: %0850d\r\n", 0, 0);
    for (; fleet_metric(0, "catalogd_access_lines_dropped_total") < 10 && asked < 10000; asked += 200) {
        for (unsigned i = 0; i < 200; i++) {
            ask(NULL, "/ping", agent, &said);
            assert_int_equal(said.status, 200);
        }
    }
    assert_true(fleet_metric(0, "catalogd_access_lines_dropped_total") >= 10);
}

TEST(a_full_disk_stops_no_answer_and_is_told_once, P170)
{
    const char *const settings[] = {"ACCESS_LOG=combined", "ACCESS_LOG_FILE=/dev/full", "SERVER_LOOPS=1",
                                    FLEET_PATIENT, NULL};
    assert_true(fleet_start(1, settings));
    ask_until_dropped();
    assert_int_equal(stack_log_count(fleet.catalogd[0].log_path, 0, "No space left on device"), 1);
}

/* ---- the request's id ---- */

static void assert_made(const struct said *said)
{
    assert_int_equal(strlen(said->request), 16);
    assert_int_equal(strspn(said->request, "0123456789abcdef"), 16);
}

TEST(an_id_comes_back_and_a_bad_one_does_not, P171)
{
    struct said said, other;
    char member[128];
    assert_true(fleet_start(1, NULL));
    ask(NULL, "/products/1", "X-Request-Id: a-Z_0.9\r\n", &said);
    assert_string_equal(said.request, "a-Z_0.9");
    ask(NULL, "/ping", "X-Request-Id: p\r\n", &said);
    assert_string_equal(said.request, "p");
    ask(NULL, "/products/1", NULL, &said);
    assert_string_equal(said.request, "");
    ask(NULL, "/products/1", "X-Request-Id: a b\r\n", &said);
    assert_string_equal(said.request, "");
    ask(NULL, "/products/1", "X-Request-Id: a\r\nX-Request-Id: b\r\n", &said);
    assert_string_equal(said.request, "");
    ask(NULL, "/nothing", "X-Request-Id: <b>\r\n", &said);
    assert_made(&said);
    snprintf(member, sizeof member, ",\"request_id\":\"%s\"}", said.request);
    assert_has(said.body, member);
    ask(NULL, "/nothing", NULL, &other);
    assert_made(&other);
    assert_string_not_equal(other.request, said.request);
    ask(NULL, "/nothing", "X-Request-Id: mine\r\n", &said);
    assert_has(said.body, ",\"request_id\":\"mine\"}");
}

TEST(with_the_log_on_every_answer_has_an_id_and_the_line_has_it_too, P171)
{
    struct said said;
    char word[96];
    start("ACCESS_LOG=combined", "NEAR_MS=1000");
    for (unsigned i = 0; i < 3; i++)
        ask(NULL, "/products/1", "X-Request-Id: \"\r\n", &said);
    assert_made(&said);
    WAIT_UNTIL(lines_in(file) >= 3);
    snprintf(word, sizeof word, " %s - done", said.request);
    assert_has(line_with(word), " product near ");
}

TEST(the_log_says_for_which_request_a_load_failed, P171)
{
    struct said said;
    char path[BURST_PATH_BYTES];
    assert_true(fleet_start(1, NULL));
    cold(path);
    proc_kill_tree(&fleet.postgres.pid);
    ask(NULL, path, "X-Request-Id: order-4711\r\n" UNSAMPLED, &said);
    assert_int_equal(said.status, 503);
    assert_string_equal(said.request, "order-4711");
    assert_has(said.body, ",\"request_id\":\"order-4711\"}");
    const char *load = strstr(said.cache_status, "load=\"");
    char pairs[160];
    assert_non_null(load);
    snprintf(pairs, sizeof pairs, "load=%.16s request=order-4711 trace_id=" TRACE " outcome=", load + 6);
    assert_int_equal(stack_log_count(fleet.catalogd[0].log_path, 0, pairs), 1);
}

/* ---- the trace ---- */

static uint32_t logged(uint64_t mark, const char *text)
{
    return stack_log_count(fleet.postgres.log_path, mark, text);
}

static void ask_traced(const char *path, const char *headers, uint64_t *mark, struct said *out)
{
    *mark = stack_postgres_mark(&fleet.postgres);
    ask(NULL, path, headers, out);
}

static void see_traces(const char *prepare, const char *unsampled_as)
{
    const char *const settings[] = {prepare, NULL};
    char path[BURST_PATH_BYTES], comment[160];
    struct said said;
    uint64_t mark;
    assert_true(fleet_start(1, settings));
    cold(path);
    ask_traced(path, SAMPLED, &mark, &said);
    const char *load = strstr(said.cache_status, "load=\"");
    assert_non_null(load);
    snprintf(comment, sizeof comment, "/*load='%.16s',traceparent='00-" TRACE "-00f067aa0ba902b7-01'*/",
             load + 6);
    assert_int_equal(logged(mark, comment), 1);
    assert_int_equal(stack_postgres_count(&fleet.postgres, mark, FLEET_LOAD_PRODUCT), 1);
    assert_int_equal(logged(mark, "execute <unnamed>: /* load product */"), 1);
    cold(path);
    ask_traced(path, UNSAMPLED, &mark, &said);
    assert_int_equal(logged(mark, "traceparent"), 0);
    assert_int_equal(logged(mark, unsampled_as), 1);
    cold(path);
    ask_traced(path, "traceparent: 00-" TRACE "-00f067aa0ba902b7-01*/;DROP TABLE products--\r\n", &mark,
               &said);
    assert_int_equal(logged(mark, "traceparent"), 0);
    assert_int_equal(logged(mark, unsampled_as), 1);
    ask_traced("/products?ids=4001,4002,4003", SAMPLED, &mark, &said);
    assert_int_equal(logged(mark, "traceparent='00-" TRACE "-00f067aa0ba902b7-01'*/"), 1);
    ask_traced("/products/4001/offers", SAMPLED, &mark, &said);
    assert_int_equal(logged(mark, "traceparent='00-" TRACE "-00f067aa0ba902b7-01'*/"), 1);
}

TEST(a_sampled_trace_is_in_the_statement_and_all_others_stay_prepared, P171)
{
    see_traces("PREPARE=on", "execute load_product: /* load product */");
}

TEST(a_write_carries_its_trace, P171)
{
    char path[64], headers[WRITES_CONDITION_BYTES + 128], condition[WRITES_CONDITION_BYTES];
    char product[BURST_PATH_BYTES];
    assert_true(fleet_start(1, writes_settings(NULL)));
    const uint32_t id = fleet_cold_product(product);
    writes_version(0, id);
    writes_condition(id, 1, condition);
    snprintf(headers, sizeof headers, "%s" SAMPLED, condition);
    const uint64_t mark = stack_postgres_mark(&fleet.postgres);
    struct write_asked put = {.method = "PUT",
                              .path = product,
                              .headers = headers,
                              .body = "{\"name\":\"n\",\"description\":\"\",\"price_cents\":1,\"stock\":5}"};
    writes_ask(&put);
    assert_int_equal(put.status, 200);
    assert_int_equal(logged(mark, "/*traceparent='00-" TRACE "-00f067aa0ba902b7-01'*/"), 1);
    snprintf(path, sizeof path, "/products/%" PRIu32 "/purchase", id);
    struct write_asked buy = {.method = "POST", .path = path, .headers = SAMPLED, .body = "{\"quantity\":1}"};
    writes_ask(&buy);
    assert_int_equal(buy.status, 200);
    assert_int_equal(logged(mark, "/*traceparent='00-" TRACE "-00f067aa0ba902b7-01'*/"), 2);
    buy.headers = UNSAMPLED;
    writes_ask(&buy);
    assert_int_equal(logged(mark, "traceparent"), 2);
}

TEST_GROUP(.up = up, .down = fleet_down, .after = end);
