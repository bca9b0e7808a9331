/* SPDX-License-Identifier: MIT */
/* version_seek_test.c - the number behind a text, in a body that comes in pieces. */
#include "load/herd/generator.h"
#include "tests/support/test.h"

struct body {
    const char *text, *body;
    uint32_t version;
};

static const struct body bodies[] = {
    {"\"version\":", "{\"id\":7,\"version\":12,\"x\":1}", 12},
    {"\"version\":", "{\"version\": \t12}", 12},
    {"\"version\":", "{\"version\":\"12\"}", 12},
    {"\"version\":", "{\"version\":12", 12},
    {"\"version\":", "{\"version\":null,\"version\":3}", 3},
    {"\"version\":", "{\"version\":-3}", 0},
    {"\"version\":", "{\"version\":3,\"version\":4}", 3},
    {"\"version\":", "{\"versio\":3}", 0},
    {"\"version\":", "", 0},
    {"v=", "vv=5", 5},
    {"aab", "aaab7", 7},
    {"ababac", "abababac9 ababac8", 9},
    {"v", "v4294967294", 4294967294U},
    {"v", "v4294967295", UINT32_MAX},
    {"v", "v99999999999999999999999", UINT32_MAX},
    {"v", "vv3", 3},
};

TEST(a_version_is_found_wherever_the_body_is_cut)
{
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        struct version_text text;
        size_t count = strlen(bodies[i].body);
        version_text_init(&text, bodies[i].text);
        for (size_t cut = 0; cut <= count; cut++) {
            struct version_seek seek = {.matched = 0};
            version_seek_feed(&seek, &text, bodies[i].body, cut);
            version_seek_feed(&seek, &text, bodies[i].body + cut, count - cut);
            if (seek.version != bodies[i].version)
                fail_msg("%s in %s cut at %zu: %u", bodies[i].text, bodies[i].body, cut, seek.version);
        }
    }
}

TEST(the_longest_text_before_a_version_is_found)
{
    char body[VERSION_SEEK_TEXT_MAX + 8];
    struct version_text text;
    struct version_seek seek = {.matched = 0};
    memset(body, 'a', sizeof body);
    body[VERSION_SEEK_TEXT_MAX] = '\0';
    version_text_init(&text, body);
    body[VERSION_SEEK_TEXT_MAX] = 'a'; /* one more than the text has */
    body[VERSION_SEEK_TEXT_MAX + 1] = '5';
    version_seek_feed(&seek, &text, body, VERSION_SEEK_TEXT_MAX + 2);
    assert_int_equal(seek.version, 0); /* behind the text stood a letter */
    version_seek_feed(&seek, &text, body, VERSION_SEEK_TEXT_MAX);
    version_seek_feed(&seek, &text, "6", 1);
    assert_int_equal(seek.version, 6);
}
