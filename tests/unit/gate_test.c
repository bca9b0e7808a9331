/* SPDX-License-Identifier: MIT */
/* gate_test.c - who may look at the playground, and who may press its buttons. */
#include "load/ground/buttons.h"
#include "tests/support/test.h"

enum { PORT = 4711 };

static const char *const token = "00112233445566778899aabbccddeeff";

/* A button as our own page presses it; tests change one thing. */
static struct gate_request ours(void)
{
    return (struct gate_request){.host = "127.0.0.1:4711",
                                 .origin = "http://127.0.0.1:4711",
                                 .authorization = "Bearer 00112233445566778899aabbccddeeff",
                                 .content_type = "application/json"};
}

static unsigned judge(enum gate_wish wish, struct gate_request request)
{
    const char *why = NULL;
    unsigned status = gate_judge(wish, &request, PORT, token, &why);
    assert_true((status == 0) == (why == NULL));
    return status;
}

static unsigned press(struct gate_request request)
{
    return judge(GATE_BUTTON, request);
}

TEST(our_own_page_may_do_all)
{
    struct gate_request request = ours();
    assert_int_equal(press(request), 0);
    request.content_type = "application/json; charset=utf-8";
    assert_int_equal(press(request), 0);
    request.host = "LOCALHOST:4711";
    request.origin = "http://localhost:4711";
    assert_int_equal(press(request), 0);
    request.host = "[::1]:4711";
    assert_int_equal(press(request), 0);
}

TEST(a_name_that_was_pointed_at_us_sees_nothing)
{
    static const char *const hosts[] = {NULL,
                                        "",
                                        "evil.example:4711",
                                        "127.0.0.1",
                                        "127.0.0.1:80",
                                        "127.0.0.2:4711",
                                        "127.0.0.1:47110",
                                        "localhost.evil.example:4711"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        struct gate_request request = ours();
        request.host = hosts[i];
        assert_int_equal(judge(GATE_PAGE, request), 403);
        assert_int_equal(judge(GATE_STREAM, request), 403);
        assert_int_equal(press(request), 403);
    }
}

TEST(another_page_presses_nothing)
{
    static const char *const origins[] = {"http://evil.example",
                                          "null",
                                          "https://127.0.0.1:4711",
                                          "http://127.0.0.1:8080",
                                          "",
                                          "http://127.0.0.1:47110",
                                          "http://127.0.0.1:4711.evil.example"};
    for (size_t i = 0; i < sizeof origins / sizeof *origins; i++) {
        struct gate_request request = ours();
        request.origin = origins[i];
        assert_int_equal(press(request), 403);
        assert_int_equal(judge(GATE_STREAM, request), 403);
    }
}

TEST(a_button_needs_an_origin_and_a_stream_does_not)
{
    struct gate_request request = ours();
    request.origin = NULL;
    assert_int_equal(press(request), 403);
    assert_int_equal(judge(GATE_STREAM, request), 0); /* browsers send none to the page's own host */
}

TEST(only_the_whole_token_counts)
{
    static const char *const said[] = {NULL,
                                       "",
                                       "Bearer ",
                                       "Bearer 00112233445566778899aabbccddeefe",
                                       "Bearer 00112233445566778899aabbccddee",
                                       "Bearer 00112233445566778899aabbccddeeff0",
                                       "Basic 00112233445566778899aabbccddeeff",
                                       "00112233445566778899aabbccddeeff"};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        struct gate_request request = ours();
        request.authorization = said[i];
        assert_int_equal(press(request), 401);
        assert_int_equal(judge(GATE_STREAM, request), 401);
        assert_int_equal(judge(GATE_PAGE, request), 0); /* it holds nothing */
    }
}

TEST(what_a_form_can_send_is_no_button)
{
    static const char *const types[] = {NULL, "", "text/plain", "application/x-www-form-urlencoded",
                                        "application/jsonp"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct gate_request request = ours();
        request.content_type = types[i];
        assert_int_equal(press(request), 415);
    }
}
