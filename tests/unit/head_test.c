/* SPDX-License-Identifier: MIT */
/*
 * head_test.c - what is judged of the heads that libmicrohttpd makes requests of.
 */
#include "tests/support/left_head.h"
#include "tests/support/test.h"

enum { HEAD_BYTES_MAX = 128 };

/* False: not even libmicrohttpd makes a request of it. */
static bool read_head(const char *raw, size_t bytes, struct head *out, bool *sound)
{
    char text[HEAD_BYTES_MAX];
    size_t end;
    assert_in_range(bytes, 0, sizeof text - 1);
    memcpy(text, raw, bytes);
    text[bytes] = '\0';
    return left_head(text, bytes, &end, out, sound);
}

#define BYTES(text) text, sizeof(text) - 1
#define LINES(text) BYTES("\r\n" text "\r\n\r\n")

TEST(a_sound_head_says_where_it_ends_and_whom_it_is_for)
{
    static const struct {
        const char *raw;
        size_t bytes;
        struct head head;
    } cases[] = {
        {BYTES("\r\n\r\n"), {.hosts = 0}},
        {LINES("Host: shop"), {.hosts = 1}},
        {LINES("hOST:\r\nX: :\r\n!#$%&'*+-.^_`|~09az:a"), {.hosts = 1}},
        {LINES("Content-Length: 5"), {.lengths = 1, .has_body = true}},
        {LINES("content-length:\t 00\r\nCONTENT-LENGTH:0"), {.lengths = 2}},
        {LINES("Content-Length: +5"), {.lengths = 1, .length_is_wrong = true, .has_body = true}},
        {LINES("Content-Length:0x5"), {.lengths = 1, .length_is_wrong = true, .has_body = true}},
        {LINES("Content-Length: 5 "), {.lengths = 1, .length_is_wrong = true, .has_body = true}},
        {LINES("Content-Length:"), {.lengths = 1, .length_is_wrong = true}},
        {LINES("Content-Length: \t"), {.lengths = 1, .length_is_wrong = true}},
        {LINES("transfer-encoding: \xff\t\r\nHost: a"), {.encodings = 1, .hosts = 1}},
        {LINES("Content-Lengt: 5\r\nContent-Lengths: 5"), {.hosts = 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct head head;
        bool sound;
        if (!read_head(cases[i].raw, cases[i].bytes, &head, &sound) || !sound)
            fail_msg("%s", cases[i].raw);
        assert_int_equal(head.lengths, cases[i].head.lengths);
        assert_int_equal(head.encodings, cases[i].head.encodings);
        assert_int_equal(head.hosts, cases[i].head.hosts);
        assert_int_equal(head.length_is_wrong, cases[i].head.length_is_wrong);
        assert_int_equal(head.has_body, cases[i].head.has_body);
    }
}

TEST(what_libmicrohttpd_lets_pass_is_refused, P90)
{
    static const struct {
        const char *raw;
        size_t bytes;
    } cases[] = {
        {LINES("X : a")},
        {LINES(" X: a")},
        {LINES("\tX: a")},
        {LINES("X\t: a")},
        {LINES("X\v: a")},
        {LINES("X\rY: a")},
        {LINES("X\xa0: a")},
        {LINES(": a")},
        {LINES("X: a\r\n b")},
        {LINES("X:\r\n\tb\r\n c\r\nY: d")},
        {LINES("X: a\r")},
        {LINES("X: a\rb")},
        {LINES("X: \x01")},
        {LINES("X: \x7f")},
        {LINES("X: a\nY: b")},
        {LINES("X: a\0")},
        {LINES("X: a\0\0")},
        {LINES("X: a\0b")},
        {LINES("X:\0 a")},
        {LINES("X: a\0\0Content-Length: 5")},
        {LINES("X: a\0\0Content-Length\0 5")},
        {LINES("X: a\0\0\0\0Content-Length\0 5")},
        {LINES("X: a\n:Content-Length\0 5")},
        {LINES("\0Content-Length: 5")},
        {LINES("X: a\r\n\0Content-Length\0 5")},
        {LINES("X: a\r\n\0")},
        {LINES("\0")},
        {BYTES("\nX: a\r\n\r\n")},
        {BYTES("\nX: a\n\n")},
        {BYTES("\r\nX: a\r\n\n")},
        {BYTES("\r\n\n")},
        {BYTES("\n\r\n")},
        {BYTES("\n\n")},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct head head;
        bool sound = true;
        if (!read_head(cases[i].raw, cases[i].bytes, &head, &sound) || sound)
            fail_msg("%zu: %s", i, cases[i].raw);
    }
}

/* RFC 9110, 5.6.2 and 5.5, byte by byte; libmicrohttpd itself refuses a NUL in a name, and a LF is an end of its
 * own. */
TEST(every_byte_has_its_place, P90)
{
    static const char tchars[] =
        "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    for (unsigned byte = 1; byte < 256; byte++) {
        char name[] = "\r\nX?:a\r\n\r\n", value[] = "\r\nX:?a\r\n\r\n";
        struct head head;
        bool sound = false, is_tchar = strchr(tchars, (int)byte) != NULL;
        name[3] = value[4] = (char)byte;
        if (byte == '\n' || byte == ':')
            continue;
        assert_true(read_head(name, sizeof name - 1, &head, &sound));
        assert_int_equal(sound, is_tchar);
        assert_true(read_head(value, sizeof value - 1, &head, &sound));
        assert_int_equal(sound, byte == '\t' || (byte >= ' ' && byte != 127));
        assert_int_equal(head_is_token(name + 3, 1), is_tchar);
    }
    assert_false(head_is_token("", 0));
    assert_false(head_is_token("GET ", 4));
}

TEST(a_target_has_neither_spaces_nor_control_characters)
{
    for (unsigned byte = 1; byte < 256; byte++) {
        const char target[] = {'/', (char)byte, '?', 'a', '\0'};
        assert_ptr_equal(head_target_end(target), byte > ' ' && byte != 127 ? target + 4 : NULL);
    }
    assert_string_equal(head_target_end(""), "");
}
