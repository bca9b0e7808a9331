/* SPDX-License-Identifier: MIT */
/* replay_test.c - access logs as scripts of requests. */
#include "load/base/proc.h"
#include "load/play/replay.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

#include <unistd.h>

/* ---- lines ---- */

static struct access_line line;

static void expect_line(const char *text, uint64_t at_us, const char *method, const char *path)
{
    if (!access_line_read(text, &line))
        fail_msg("not read: %s", text);
    assert_int_equal(line.at_us, at_us);
    assert_string_equal(line.method, method);
    assert_string_equal(line.path, path);
}

/* 2000-10-10 20:55:36 UTC */
#define THEN_US 971211336000000

TEST(combined_lines_are_read_whatever_follows_the_request)
{
    expect_line("127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] \"GET /products/7 HTTP/1.0\" 200 2326",
                THEN_US, "GET", "/products/7");
    assert_false(line.has_fraction);
    expect_line(
        "::1 - - [10/Oct/2000:20:55:36 +0000] \"HEAD /a?b=c&d=[e] HTTP/1.1\" 304 0 \"-\" \"curl\" 0.000123 "
        "product near 3f0a - - done",
        THEN_US, "HEAD", "/a?b=c&d=[e]");
    expect_line("shop.example:443 10.0.0.1 - - [10/Oct/2000:22:25:36 +0130] \"PATCH /x\" 200 1", THEN_US,
                "PATCH", "/x");
    expect_line("1.2.3.4 - - [10/Oct/2000:20:55:36 +0000] \"GET http://shop.example/y HTTP/1.1\" 200 1",
                THEN_US, "GET", "/y");
}

TEST(json_lines_are_read_by_the_names_that_servers_use)
{
    expect_line(
        "{\"time\":\"2000-10-10T20:55:36.250000Z\",\"remote\":\"::1\",\"method\":\"GET\",\"path\":\"/p/7\","
        "\"protocol\":\"HTTP/1.1\",\"status\":200}",
        THEN_US + 250000, "GET", "/p/7");
    assert_true(line.has_fraction);
    expect_line("{\"time_iso8601\":\"2000-10-10T22:55:36+02:00\",\"request\":\"GET /q HTTP/1.1\"}", THEN_US,
                "GET", "/q");
    expect_line("{\"msec\":\"971211336.042\",\"request_method\":\"POST\",\"request_uri\":\"/r?s\"}",
                THEN_US + 42000, "POST", "/r?s");
    expect_line("{\"ts\":971211336.5,\"method\":\"GET\",\"uri\":\"/t\"}", THEN_US + 500000, "GET", "/t");
    expect_line("{\"timestamp\":971211336042,\"method\":\"GET\",\"url\":\"https://h/u\"}", THEN_US + 42000,
                "GET", "/u");
    expect_line("{\"@timestamp\":\"2000-10-10 20:55:36,5\",\"method\":\"GET\",\"path\":\"/v\"}",
                THEN_US + 500000, "GET", "/v");
    expect_line("{\"time_local\":\"10/Oct/2000:13:55:36 -0700\",\"method\":\"GET\",\"path\":\"/w\"}", THEN_US,
                "GET", "/w");
}

TEST(what_cannot_stand_in_a_request_is_percent_encoded)
{
    expect_line("{\"time\":1,\"method\":\"GET\",\"path\":\"/\\u00e4\\\"#\"}", 1000000, "GET",
                "/%C3%A4%22%23");
    expect_line("- - - [10/Oct/2000:20:55:36 +0000] \"GET /\\x22\\xC3\\xa4 HTTP/1.1\" 200 1", THEN_US, "GET",
                "/%22%C3%a4");
}

TEST(what_is_no_line_of_a_log_is_refused)
{
    static const char *const texts[] = {"nonsense",
                                        "",
                                        "[",
                                        "{",
                                        "{}",
                                        "[1]",
                                        "- - - [10/Oct/2000:20:55:36 +0000] \"-\" 400 0",
                                        "- - - [10/Okt/2000:20:55:36 +0000] \"GET / HTTP/1.1\" 400 0",
                                        "- - - [10/Oct/2000:20:55:36] \"GET / HTTP/1.1\" 400 0",
                                        "- - - [10/Oct/2000:20:55:36 +0000] \"GET / HTTP/1.1",
                                        "- - - [10/Oct/2000:20:55:36 +0000] \"OPTIONS * HTTP/1.1\"",
                                        "- - - [10/Oct/2000:20:55:36 +0000] \"\\x16\\x03 /\" 400 0",
                                        "{\"time\":\"soon\",\"method\":\"GET\",\"path\":\"/\"}",
                                        "{\"time\":1,\"method\":\"GET\"}",
                                        "{\"time\":1,\"path\":\"/\"}",
                                        "{\"time\":-1,\"method\":\"GET\",\"path\":\"/\"}",
                                        "{\"time\":1e300,\"method\":\"GET\",\"path\":\"/\"}",
                                        "{\"time\":1,\"method\":\"G T\",\"path\":\"/\"}",
                                        "{\"time\":1,\"method\":7,\"path\":[]}",
                                        "{\"time\":1,\"method\":\"GET\",\"path\":\"http://x\"}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (access_line_read(texts[i], &line))
            fail_msg("%s: read as %s %s", texts[i], line.method, line.path);
    }
}

TEST(a_path_that_fits_into_no_request_is_told_apart)
{
    char text[2048];
    int used = snprintf(text, sizeof text, "{\"time\":1,\"method\":\"GET\",\"path\":\"/");
    memset(text + used, 'x', WORK_PATH_BYTES);
    snprintf(text + used + WORK_PATH_BYTES, sizeof text - (size_t)used - WORK_PATH_BYTES, "\"}");
    assert_true(access_line_read(text, &line));
    assert_true(line.is_too_long);
}

/* ---- files ---- */

static char path[64], note[WORK_WHY_BYTES], why[WORK_WHY_BYTES];
static struct work_script *script;

static bool clear(void)
{
    replay_free(&script);
    unlink(path);
    return true;
}

static bool read_log(const char *text, struct replay replay)
{
    snprintf(path, sizeof path, "/tmp/replay-test.%d.log", (int)getpid());
    file_write(path, text);
    replay.path = path;
    replay.method = replay.method != NULL ? replay.method : "GET";
    replay.speed = replay.speed > 0 ? replay.speed : 1;
    return replay_read(&replay, &script, note, why);
}

static void expect_script(size_t index, uint64_t at_us, const char *wanted)
{
    assert_in_range(index, 0, script->line_count - 1);
    assert_int_equal(script->lines[index].at_us, at_us);
    assert_string_equal(script->requests[script->lines[index].request].path, wanted);
}

#define AT(second, request) "- - - [10/Oct/2000:20:55:" second " +0000] \"" request " HTTP/1.1\" 200 1\n"
#define JSON_AT(time, path) "{\"time\":" time ",\"method\":\"GET\",\"path\":\"" path "\"}\n"

TEST(requests_are_put_in_the_order_of_their_times)
{
    assert_true(
        read_log(JSON_AT("10.5", "/b") JSON_AT("10.25", "/a") JSON_AT("12", "/b"), (struct replay){0}));
    assert_int_equal(script->line_count, 3);
    assert_int_equal(script->request_count, 2);
    expect_script(0, 0, "/a");
    expect_script(1, 250000, "/b");
    expect_script(2, 1750000, "/b");
    assert_non_null(strstr(note, ".log: 3 of 3 lines, 2 different requests"));
    assert_null(strstr(note, "left out"));
}

TEST(those_of_a_whole_second_are_spread_over_it)
{
    assert_true(read_log(AT("36", "GET /a") AT("36", "GET /b") AT("36", "GET /c") AT("36", "GET /d")
                             AT("38", "GET /e"),
                         (struct replay){0}));
    expect_script(1, 250000, "/b");
    expect_script(3, 750000, "/d");
    expect_script(4, 2000000, "/e");
}

TEST(its_speed_and_its_span_can_be_chosen)
{
    static const char log[] =
        JSON_AT("10", "/a") JSON_AT("11.5", "/b") JSON_AT("12", "/c") JSON_AT("13", "/d");
    assert_true(read_log(log, (struct replay){.speed = 2, .span_ms = 1000}));
    assert_int_equal(script->line_count, 2);
    expect_script(1, 750000, "/b");
    assert_non_null(strstr(note, " at 2 times its speed: 2 of 4 lines"));
    assert_non_null(strstr(note, "left out: 2 after that time"));
}

TEST(what_is_left_out_is_counted)
{
    static const char log[] = AT("36", "GET /a") AT("36", "POST /a") AT("36", "HEAD /a") AT("36", "PURGE /a")
        AT("36", "POST /b") "nonsense\n\n";
    assert_true(read_log(log, (struct replay){0}));
    assert_int_equal(script->line_count, 2);
    assert_int_equal(script->request_count, 2);
    assert_false(script->requests[0].is_head);
    assert_true(script->requests[1].is_head);
    assert_non_null(
        strstr(note, "2 of 7 lines, 2 different requests; left out: 3 neither GET nor HEAD, 1 unreadable"));
    replay_free(&script);
    assert_true(read_log(log, (struct replay){.method = "POST"}));
    assert_int_equal(script->line_count, 2);
    assert_non_null(strstr(note, "left out: 3 of another method, 1 unreadable"));
}

TEST(a_log_without_requests_is_refused)
{
    assert_false(read_log("a\nb\n", (struct replay){0}));
    assert_non_null(
        strstr(why, "line 1 is neither of the combined format nor JSON with time, method and path: \"a\""));
    assert_false(read_log(AT("36", "POST /a"), (struct replay){0}));
    assert_non_null(strstr(why, "none of its 1 lines is a request that is wanted (GET or HEAD)"));
    assert_false(read_log("", (struct replay){0}));
    assert_false(
        replay_read(&(struct replay){.path = "/nowhere", .method = "GET", .speed = 1}, &script, note, why));
    assert_string_equal(why, "/nowhere: cannot be read: No such file or directory");
    assert_null(script);
}

TEST_GROUP(.after = clear);
