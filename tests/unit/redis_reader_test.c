/* SPDX-License-Identifier: MIT */
/* redis_reader_test.c - replies out of bytes, however they are cut, and what no reply may do. */
#include "guard/redis/reader.h"
#include "tests/support/test.h"

enum { LIMIT_BYTES = 1 << 16, LIMIT_ELEMENTS = 16 };

static struct redis_reader reader;

static void open_reader(void)
{
    reader = (struct redis_reader){.parser = NULL};
    assert_true(redis_reader_open(&reader, LIMIT_BYTES, LIMIT_ELEMENTS));
}

/* The last whole reply, which is the caller's; false: the stream is broken. */
static bool read_in_pieces(const char *stream, size_t bytes, size_t piece, struct redisReply **last)
{
    bool sound = true;
    *last = NULL;
    for (size_t at = 0; sound && at < bytes; at += piece) {
        struct redisReply *reply = NULL;
        sound = redis_reader_feed(&reader, stream + at, bytes - at < piece ? bytes - at : piece);
        while (sound && (sound = redis_reader_next(&reader, &reply)) && reply != NULL) {
            redis_reader_free(&reader, *last);
            *last = reply;
        }
    }
    return sound;
}

static void assert_breaks(const char *stream, const char *why)
{
    struct redisReply *reply = NULL;
    open_reader();
    assert_false(read_in_pieces(stream, strlen(stream), REDIS_FEED_BYTES, &reply));
    assert_null(reply);
    assert_non_null(strstr(redis_reader_error(&reader), why));
    redis_reader_close(&reader);
}

TEST(a_reply_is_the_same_however_it_is_cut, P57)
{
    static const char stream[] =
        "+OK\r\n*6\r\n$5\r\nhe\r\no\r\n:-7\r\n$-1\r\n*-1\r\n*2\r\n-ERR no\r\n+yes\r\n$0\r\n\r\n";
    for (size_t piece = 1; piece < sizeof stream; piece++) {
        struct redisReply *reply = NULL;
        open_reader();
        assert_true(read_in_pieces(stream, sizeof stream - 1, piece, &reply));
        assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
        assert_int_equal(reply->elements, 6);
        assert_int_equal(reply->element[0]->type, REDIS_REPLY_STRING);
        assert_int_equal(reply->element[0]->len, 5);
        assert_memory_equal(reply->element[0]->str, "he\r\no", 6);
        assert_int_equal(reply->element[1]->integer, -7);
        assert_int_equal(reply->element[2]->type, REDIS_REPLY_NIL);
        assert_int_equal(reply->element[3]->type, REDIS_REPLY_NIL);
        assert_int_equal(reply->element[4]->elements, 2);
        assert_int_equal(reply->element[4]->element[0]->type, REDIS_REPLY_ERROR);
        assert_string_equal(reply->element[4]->element[0]->str, "ERR no");
        assert_string_equal(reply->element[4]->element[1]->str, "yes");
        assert_int_equal(reply->element[5]->len, 0);
        assert_string_equal(reply->element[5]->str, "");
        redis_reader_free(&reader, reply);
        redis_reader_close(&reader);
    }
}

TEST(a_reply_outlives_the_next_ones_and_its_reader)
{
    struct redisReply *first = NULL, *second = NULL;
    open_reader();
    assert_true(redis_reader_feed(&reader, "$3\r\none\r\n$3\r\ntwo\r\n", 18));
    assert_true(redis_reader_next(&reader, &first));
    assert_true(redis_reader_next(&reader, &second));
    redis_reader_close(&reader);
    assert_string_equal(first->str, "one");
    assert_string_equal(second->str, "two");
    redis_reader_free(&reader, first);
    redis_reader_free(&reader, second);
}

/* Strings of many sizes, beside each other and one after another: none runs into another's memory. */
TEST(large_replies_have_room_and_give_it_back)
{
    enum { STREAM_BYTES = 1 << 15 };
    char *stream = malloc(STREAM_BYTES);
    assert_non_null(stream);
    open_reader();
    for (size_t each = 1; each < STREAM_BYTES / 4; each += each / 3 + 1) {
        struct redisReply *reply = NULL;
        size_t bytes = (size_t)snprintf(stream, STREAM_BYTES, "*3\r\n");
        for (int i = 0; i < 3; i++) {
            bytes += (size_t)snprintf(stream + bytes, STREAM_BYTES - bytes, "$%zu\r\n", each);
            memset(stream + bytes, 'a' + i, each);
            memcpy(stream + bytes + each, "\r\n", 2);
            bytes += each + 2;
        }
        assert_true(read_in_pieces(stream, bytes, REDIS_FEED_BYTES, &reply));
        for (size_t i = 0; i < 3; i++) {
            const struct redisReply *element = reply->element[i];
            assert_int_equal(element->len, each);
            assert_int_equal(strspn(element->str, (char[]){(char)('a' + (int)i), '\0'}), each);
        }
        redis_reader_free(&reader, reply);
    }
    redis_reader_close(&reader);
    free(stream);
}

TEST(what_announces_too_much_breaks_the_stream)
{
    assert_breaks("*2147483647\r\n", "array of more elements than allowed");
    assert_breaks("*17\r\n", "array of more elements than allowed");
    assert_breaks("*2\r\n*8\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n*8\r\n",
                  "more elements than allowed");
    assert_breaks("*99999999999\r\n", "length out of range");
    assert_breaks("*9223372036854775807\r\n", "length out of range");
    assert_breaks("*9223372036854775808\r\n", "multi-bulk length");
    assert_breaks("$9223372036854775808\r\n", "bulk string length");
    assert_breaks("$99999999999999999999\r\n", "bulk string length");
    assert_breaks("$-2\r\n", "out of range");
    assert_breaks("*-2\r\n", "out of range");
    assert_breaks("?\r\n", "Protocol error");
    assert_breaks("*2\r\n$3\r\none\r\n?\r\n", "Protocol error");
}

TEST(arrays_nest_so_deep_and_no_deeper)
{
    static const char deepest[] = "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n";
    struct redisReply *reply = NULL;
    open_reader();
    assert_true(read_in_pieces(deepest, sizeof deepest - 1, 1, &reply));
    assert_non_null(reply);
    redis_reader_free(&reader, reply);
    redis_reader_close(&reader);
    assert_breaks("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", "arrays nested too deep");
    assert_breaks("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*0\r\n", "arrays nested too deep");
}

/* A table of its own: hiredis < 1.0 has no words for them. */
static const struct {
    const char *reply, *name;
} of_resp3[] = {
    {"_\r\n", "a null of RESP3"},
    {",1.5\r\n", "a double of RESP3"},
    {",inf\r\n", "a double of RESP3"},
    {"#t\r\n", "a boolean of RESP3"},
    {"%1\r\n+a\r\n:1\r\n", "a map of RESP3"},
    {"%0\r\n", "a map of RESP3"},
    {"%-1\r\n", "a map of RESP3"},
    {"%4294967295\r\n", "a map of RESP3"},
    {"~1\r\n+a\r\n", "a set of RESP3"},
    {"|1\r\n+ttl\r\n:1\r\n+OK\r\n", "an attribute of RESP3"},
    {">2\r\n+invalidate\r\n*0\r\n", "a push message of RESP3"},
    {"(3492890328409238509324850943850943825024385\r\n", "a big number of RESP3"},
    {"=15\r\ntxt:Some string\r\n", "a verbatim string of RESP3"},
    {"!21\r\nSYNTAX invalid syntax\r\n", "a bulk error of RESP3"},
};

TEST(what_is_of_resp3_breaks_the_stream_with_its_name)
{
    char stream[128];
    for (size_t i = 0; i < sizeof of_resp3 / sizeof *of_resp3; i++) {
        assert_breaks(of_resp3[i].reply, of_resp3[i].name);
        snprintf(stream, sizeof stream, "*2\r\n*1\r\n+a\r\n%s", of_resp3[i].reply);
        assert_breaks(stream, of_resp3[i].name);
    }
}

/* What hiredis itself refuses in one of them names it as well. */
TEST(what_is_wrong_with_what_is_of_resp3_says_so)
{
    assert_breaks(",one\r\n", "ouble");
    assert_breaks("#maybe\r\n", "bool");
    assert_breaks("(twelve\r\n", "ig");
    assert_breaks("=1\r\nx\r\n", "erbatim string");
}

/* A function that is NULL would be "called" with a number in the place of the reply. */
TEST(hiredis_finds_every_function_that_it_may_call)
{
    open_reader();
    const redisReplyObjectFunctions *functions = reader.parser->fn;
    void (*each[sizeof *functions / sizeof(void (*)(void))])(void);
    assert_int_equal(sizeof each, sizeof *functions);
    memcpy(each, functions, sizeof each);
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        assert_true(each[i] != NULL);
    redis_reader_close(&reader);
}

TEST(a_string_that_never_ends_is_refused_once_it_is_too_large)
{
    static char piece[REDIS_FEED_BYTES];
    struct redisReply *reply = NULL;
    unsigned fed = 0;
    open_reader();
    memset(piece, 'x', sizeof piece);
    assert_true(redis_reader_feed(&reader, "$4000000000\r\n", 13));
    assert_true(redis_reader_next(&reader, &reply));
    do
        assert_true(redis_reader_feed(&reader, piece, sizeof piece));
    while (redis_reader_next(&reader, &reply) && ++fed < 100);
    assert_null(reply);
    assert_in_range(fed, LIMIT_BYTES / REDIS_FEED_BYTES - 1, LIMIT_BYTES / REDIS_FEED_BYTES);
    assert_string_equal(redis_reader_error(&reader), "a reply larger than allowed");
    redis_reader_close(&reader);
}

/* A reply that is not whole when the connection ends. */
TEST(half_a_reply_goes_with_its_reader)
{
    struct redisReply *reply = NULL;
    open_reader();
    assert_true(redis_reader_feed(&reader, "*2\r\n$3\r\none\r\n$30\r\nnot", 21));
    assert_true(redis_reader_next(&reader, &reply));
    assert_null(reply);
    redis_reader_close(&reader);
    redis_reader_close(&reader);
}
