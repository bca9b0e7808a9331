/* SPDX-License-Identifier: MIT */
/* traceparent_test.c - names that strangers give their requests: what is taken over, and what is made of it. */
#include "app/base/trace.h"
#include "tests/support/test.h"

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00f067aa0ba902b7"

static void assert_parent(const char *text, const char *parent)
{
    struct trace trace = {.request = ""};
    if (trace_take_parent(&trace, text) != (parent != NULL))
        fail_msg("%s", text);
    assert_string_equal(trace.parent, parent != NULL ? parent : "");
    assert_int_equal(trace.sampled, parent != NULL && strcmp(parent + 53, "01") == 0);
}

TEST(a_traceparent_is_taken_over_exactly_if_the_standard_says_so, P171)
{
    assert_parent("00-" TRACE "-" PARENT "-01", "00-" TRACE "-" PARENT "-01");
    assert_parent("00-" TRACE "-" PARENT "-00", "00-" TRACE "-" PARENT "-00");
    assert_parent("00-" TRACE "-" PARENT "-03", "00-" TRACE "-" PARENT "-01"); /* flags that nobody knows */
    assert_parent("00-" TRACE "-" PARENT "-fe", "00-" TRACE "-" PARENT "-00");
    assert_parent("01-" TRACE "-" PARENT "-01", "00-" TRACE "-" PARENT "-01"); /* later versions */
    assert_parent("cc-" TRACE "-" PARENT "-01-what-the-future-will-be-like", "00-" TRACE "-" PARENT "-01");
    assert_parent("cc-" TRACE "-" PARENT "-01.what", NULL);
    assert_parent("cc-" TRACE "-" PARENT "-011", NULL);
    assert_parent("ff-" TRACE "-" PARENT "-01", NULL);
    assert_parent("00-" TRACE "-" PARENT "-01-", NULL);
    assert_parent("00-" TRACE "-" PARENT "-01 ", NULL);
    assert_parent(" 00-" TRACE "-" PARENT "-01", NULL);
    assert_parent("00-00000000000000000000000000000000-" PARENT "-01", NULL);
    assert_parent("00-" TRACE "-0000000000000000-01", NULL);
    assert_parent("00-4BF92F3577B34DA6A3CE929D0E0E4736-" PARENT "-01", NULL);
    assert_parent("0-" TRACE "-" PARENT "-01", NULL);
    assert_parent("00_" TRACE "-" PARENT "-01", NULL);
    assert_parent("00-" TRACE "'-0f067aa0ba902b7-01", NULL);
    assert_parent(NULL, NULL);
}

TEST(a_traceparent_that_ends_anywhere_or_has_a_wrong_byte_is_none, P171)
{
    static const char WHOLE[] = "00-" TRACE "-" PARENT "-01";
    for (size_t at = 0; at < sizeof WHOLE - 1; at++) {
        char text[sizeof WHOLE];
        memcpy(text, WHOLE, sizeof text);
        text[at] = '\0';
        assert_parent(text, NULL);
        memcpy(text, WHOLE, sizeof text);
        text[at] = '*';
        assert_parent(text, NULL);
    }
}

TEST(a_request_id_has_one_to_64_harmless_characters, P171)
{
    char longest[TRACE_REQUEST_SIZE + 1];
    struct trace trace = {.request = "before"};
    static const char *const BAD[] = {"", "a b", "a\"b", "a\nb", "a/b", "\xc3\xa4", "a;b", " a", "a "};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        assert_false(trace_take_request(&trace, BAD[i]));
        assert_string_equal(trace.request, "before");
    }
    assert_false(trace_take_request(&trace, NULL));
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_false(trace_take_request(&trace, longest));
    assert_true(trace_take_request(&trace, longest + 1));
    assert_string_equal(trace.request, longest + 1);
    assert_true(trace_take_request(&trace, "Az09._-"));
    trace_make_request(&trace, 0xfeed);
    assert_string_equal(trace.request, "000000000000feed");
}

TEST(a_line_of_the_log_names_what_there_is)
{
    char out[TRACE_PAIRS_SIZE];
    struct trace trace = {.request = ""};
    assert_string_equal(trace_pairs(&trace, out), "");
    assert_null(trace_id(&trace));
    trace_take_parent(&trace, "00-" TRACE "-" PARENT "-01");
    assert_string_equal(trace_pairs(&trace, out), "trace_id=" TRACE " ");
    trace_take_request(&trace, "order-4711");
    assert_string_equal(trace_pairs(&trace, out), "request=order-4711 trace_id=" TRACE " ");
    memset(trace.request, 'x', TRACE_REQUEST_MAX);
    assert_int_equal(strlen(trace_pairs(&trace, out)), 8 + TRACE_REQUEST_MAX + 11 + TRACE_ID_DIGITS);
}

TEST(only_a_sampled_trace_makes_a_comment, P171)
{
    char out[TRACE_COMMENT_SIZE];
    struct trace trace = {.request = "*/ DROP"};
    assert_null(trace_comment(&trace, 1, out));
    trace_take_parent(&trace, "00-" TRACE "-" PARENT "-00");
    assert_null(trace_comment(&trace, 1, out));
    trace_take_parent(&trace, "00-" TRACE "-" PARENT "-01");
    assert_string_equal(trace_comment(&trace, UINT64_C(0x3f0a6c2d8b7e4f11), out),
                        "/*load='3f0a6c2d8b7e4f11',traceparent='00-" TRACE "-" PARENT "-01'*/");
    assert_string_equal(trace_comment(&trace, 0, out), "/*traceparent='00-" TRACE "-" PARENT "-01'*/");
}
