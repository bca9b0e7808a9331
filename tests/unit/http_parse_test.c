/* SPDX-License-Identifier: MIT */
/* http_parse_test.c - every framing of a response, whole and cut at every byte. */
#include "load/base/http_parse.h"
#include "tests/support/test.h"

struct text {
    char bytes[1024];
    size_t count;
};

static void collect(void *context, const char *bytes, size_t count)
{
    struct text *text = context;
    assert_true(text->count + count < sizeof text->bytes);
    memcpy(text->bytes + text->count, bytes, count);
    text->count += count;
    text->bytes[text->count] = '\0';
}

struct expected {
    const char *response;
    bool answers_head, ends; /* ends: the connection closes behind it */
    enum http_parse_state state;
    uint16_t status;
    bool keeps_alive;
    const char *body;
};

static const struct expected complete[] = {
    {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, false, HTTP_PARSE_DONE, 200, true, "hello"},
    {"HTTP/1.1 404 Not Found\r\ncontent-length:0\r\n\r\n", false, false, HTTP_PARSE_DONE, 404, true, ""},
    {"HTTP/1.1 200\r\nContent-Length: 1  \r\nConnection: Close\r\n\r\nx", false, false, HTTP_PARSE_DONE, 200,
     false, "x"},
    {"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", true, false, HTTP_PARSE_DONE, 200, true, ""},
    {"HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n", false, false, HTTP_PARSE_DONE, 304, true,
     ""},
    {"HTTP/1.1 204 No Content\r\n\r\n", false, false, HTTP_PARSE_DONE, 204, true, ""},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nA;x=y\r\n, chunks..\r\n0\r\n\r\n",
     false, false, HTTP_PARSE_DONE, 200, true, "hello, chunks.."},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nTrailer: yes\r\n\r\n", false, false,
     HTTP_PARSE_DONE, 200, true, "a"},
    {"HTTP/1.1 200 OK\r\n\r\nuntil it closes", false, true, HTTP_PARSE_DONE, 200, false, "until it closes"},
    {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", false, false, HTTP_PARSE_DONE, 200, false, "ok"},
    {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok", false, false,
     HTTP_PARSE_DONE, 200, true, "ok"},
    {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", false, false,
     HTTP_PARSE_DONE, 200, true, "ok"},
    {"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", false, false, HTTP_PARSE_DONE, 200, true, "ok"},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip , Chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", false, false,
     HTTP_PARSE_DONE, 200, true, "a"},
    {"HTTP/1.1 200 OK\r\nConnection: TE,\tclose,\r\nContent-Length: 1\r\n\r\nx", false, false,
     HTTP_PARSE_DONE, 200, false, "x"},
    {"HTTP/1.0 200 OK\r\nConnection: , Keep-Alive\r\nContent-Length: 1\r\n\r\nx", false, false,
     HTTP_PARSE_DONE, 200, true, "x"},
    {"HTTP/1.1 200 OK\r\nConnection: closed\r\nContent-Length: 1\r\n\r\nx", false, false, HTTP_PARSE_DONE,
     200, true, "x"},
};

static const struct expected bad[] = {
    {.response = "SSH-2.0-OpenSSH\r\n\r\n"},
    {.response = "HTTP/2 200 OK\r\n\r\n"},
    {.response = "HTTP/1.1 20 OK\r\n\r\n"},
    {.response = "HTTP/1.1 2000 OK\r\n\r\n"},
    {.response = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: magic\r\n\r\n"},
    {.response = "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n"},
    {.response = "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n"},
    {.response = "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n"},
    {.response = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello\r\n"},
    {.response = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n"},
    {.response = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n"},
    {.response = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", .ends = true},
    {.response = "HTTP/1.1 200 OK\r\nContent-Le", .ends = true},
    {.response = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", .ends = true},
    {.response = "", .ends = true},
};

/* Feeds the response in two pieces, the second from `cut` on. */
static void parse_cut(struct http_parse *parse, const struct expected *expected, size_t cut)
{
    size_t count = strlen(expected->response);
    http_parse_next(parse, expected->answers_head);
    http_parse_feed(parse, expected->response, cut);
    http_parse_feed(parse, expected->response + cut, count - cut);
    if (expected->ends)
        http_parse_end(parse);
}

TEST(every_framing_is_read_wherever_it_is_cut)
{
    struct text text;
    struct http_parse parse;
    http_parse_init(&parse, collect, &text);
    for (size_t i = 0; i < sizeof complete / sizeof *complete; i++) {
        for (size_t cut = 0; cut <= strlen(complete[i].response); cut++) {
            text = (struct text){.count = 0};
            parse_cut(&parse, &complete[i], cut);
            assert_int_equal(parse.state, HTTP_PARSE_DONE);
            assert_int_equal(parse.status, complete[i].status);
            assert_int_equal(parse.keeps_alive, complete[i].keeps_alive);
            assert_string_equal(text.bytes, complete[i].body);
            assert_int_equal(parse.body_bytes, strlen(complete[i].body));
        }
    }
    http_parse_clear(&parse);
}

TEST(what_is_not_a_whole_response_is_bad_wherever_it_is_cut)
{
    struct http_parse parse;
    http_parse_init(&parse, NULL, NULL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        for (size_t cut = 0; cut <= strlen(bad[i].response); cut++) {
            parse_cut(&parse, &bad[i], cut);
            assert_int_equal(parse.state, HTTP_PARSE_BAD);
        }
    }
    http_parse_clear(&parse);
}

TEST(bytes_behind_a_response_are_left_for_the_next_one)
{
    const char *two =
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 404 No\r\nContent-Length: 1\r\n\r\nb";
    struct text text = {.count = 0};
    struct http_parse parse;
    http_parse_init(&parse, collect, &text);
    http_parse_next(&parse, false);
    size_t used = http_parse_feed(&parse, two, strlen(two));
    assert_int_equal(parse.state, HTTP_PARSE_DONE);
    assert_int_equal(parse.status, 200);
    http_parse_next(&parse, false);
    assert_int_equal(http_parse_feed(&parse, two + used, strlen(two) - used), strlen(two) - used);
    assert_int_equal(parse.status, 404);
    assert_string_equal(text.bytes, "ab");
    http_parse_clear(&parse);
}

TEST(a_head_without_end_is_refused)
{
    struct http_parse parse;
    http_parse_init(&parse, NULL, NULL);
    http_parse_next(&parse, false);
    http_parse_feed(&parse, "HTTP/1.1 200 OK\r\n", 17);
    for (int i = 0; i < 10000 && parse.state == HTTP_PARSE_HEAD; i++)
        http_parse_feed(&parse, "X-Filler: aaaaaaaaaaaaaaaaaaaa\r\n", 32);
    assert_int_equal(parse.state, HTTP_PARSE_BAD);
    http_parse_clear(&parse);
}

TEST(headers_are_found_by_whole_name_in_any_case)
{
    const char *head = "HTTP/1.1 200 OK\r\nX-ETag: no\r\netag:  \"7\" \r\nAge:\r\n\r\n";
    size_t count;
    const char *value = http_parse_header(head, "ETag", &count);
    assert_non_null(value);
    assert_int_equal(count, 3);
    assert_memory_equal(value, "\"7\"", 3);
    assert_non_null(http_parse_header(head, "Age", &count));
    assert_int_equal(count, 0);
    assert_null(http_parse_header(head, "Cache-Status", &count));
}
