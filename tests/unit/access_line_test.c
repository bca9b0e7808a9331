/* SPDX-License-Identifier: MIT */
/* access_line_test.c - a request as a line of the access log, whatever its client sent. */
#include "app/http/access.h"
#include "tests/support/test.h"

#include <regex.h>

static const struct access_line PLAIN = {
    .began = {1795408511, 123456789},
    .duration_us = 1000123,
    .remote = "2001:db8::7",
    .method = "GET",
    .target = "/products/7",
    .protocol = "HTTP/1.1",
    .status = 200,
    .bytes = 431,
    .user_agent = "curl/7.88.1",
    .route = "product",
    .source = "near",
    .load = UINT64_C(0x3f0a6c2d8b7e4f11),
    .request = "order-4711",
    .trace = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
};

/* Ended with NUL, without its newline, which is the only one. */
static char *print(const struct access_line *line)
{
    static char out[ACCESS_LINE_MAX + 1];
    static struct access_date date;
    size_t bytes = access_line_print(line, &date, out);
    assert_in_range(bytes, 1, ACCESS_LINE_MAX);
    out[bytes] = '\0';
    assert_ptr_equal(strchr(out, '\n'), out + bytes - 1);
    assert_int_equal(strlen(out), bytes);
    out[bytes - 1] = '\0';
    return out;
}

TEST(combined_is_what_its_readers_know_and_seven_words_more)
{
    assert_string_equal(
        print(&PLAIN),
        "2001:db8::7 - - [23/Nov/2026:04:35:11 +0000] \"GET /products/7 HTTP/1.1\" 200 431 \"-\" "
        "\"curl/7.88.1\" 1.000123 product near 3f0a6c2d8b7e4f11 order-4711 "
        "4bf92f3577b34da6a3ce929d0e0e4736 done");
    const struct access_line bare = {.began = {1, 0}, .status = 499, .end = ACCESS_HUNG_UP};
    assert_string_equal(print(&bare), "- - - [01/Jan/1970:00:00:01 +0000] \"- - -\" 499 0 \"-\" \"-\" "
                                      "0.000000 - - - - - hung-up");
}

TEST(the_date_changes_with_the_second_and_not_before)
{
    struct access_line line = PLAIN;
    print(&line);
    line.began.tv_nsec = 999999999;
    assert_non_null(strstr(print(&line), "04:35:11"));
    line.began.tv_sec++;
    assert_non_null(strstr(print(&line), "04:35:12"));
}

/* ---- what strangers send ---- */

static void send_in_all(struct access_line *line, const char *text)
{
    *line = PLAIN;
    line->method = line->target = line->protocol = line->referer = line->user_agent = text;
}

static void assert_combined(const struct access_line *line)
{
    regex_t form;
    assert_int_equal(
        regcomp(&form,
                "^[^ ]+ - - \\[[^]]+] \"[!#-~]+ [!#-~]+ [!#-~]+\" [0-9]+ [0-9]+ \"[ !#-~]*\" \"[ !#-~]*\" "
                "[0-9.]+ [^ ]+ [^ ]+ [^ ]+ [^ ]+ [^ ]+ [a-z-]+$",
                REG_EXTENDED | REG_NOSUB),
        0);
    const char *text = print(line);
    if (regexec(&form, text, 0, NULL, 0) != 0)
        fail_msg("%s", text);
    regfree(&form);
}

static void assert_agent(const char *sent, const char *printed)
{
    struct access_line line;
    send_in_all(&line, sent);
    assert_combined(&line);
    if (strstr(print(&line), printed) == NULL)
        fail_msg("%s", print(&line));
}

TEST(no_byte_of_a_client_ends_a_line_or_a_text, P170)
{
    for (int byte = 1; byte < 256; byte++) {
        const char text[] = {'a', (char)byte, 'b', '\0'};
        struct access_line line;
        send_in_all(&line, text);
        assert_combined(&line);
    }
    assert_agent("a\r\nb", "\"a\\x0d\\x0ab\"");
    assert_agent("\" 200 1 \"x", "\"\\x22 200 1 \\x22x\"");
    assert_agent("\\\"", "\"\\x5c\\x22\"");
    assert_agent("\x1b[2J\x7f", "\"\\x1b[2J\\x7f\"");
    assert_agent("\xc3\xa4", "\"\\xc3\\xa4\"");
}

TEST(the_longest_line_fits_and_is_cut_before_an_escape, P170)
{
    static char text[70000];
    static const char BYTES[] = {'x', '"', '\n', '\x7f', '\xff', '\0'};
    for (const char *byte = BYTES; *byte != '\0'; byte++) {
        struct access_line line;
        memset(text, *byte, sizeof text - 1);
        send_in_all(&line, text);
        line.remote = line.route = line.source = line.request = text;
        line.status = (unsigned)-1;
        line.bytes = INT64_MAX;
        line.duration_us = INT64_MAX;
        assert_combined(&line);
    }
}
