/* SPDX-License-Identifier: MIT */
/* cache_status_test.c - what Cache-Status headers say, well written or not. */
#include "load/herd/record.h"
#include "tests/support/test.h"

struct example {
    const char *value;
    enum record_cache cache;
};

/* The first eleven are those of RFC 9211, section 4, or follow them. */
static const struct example examples[] = {
    {"ExampleCache; hit", RECORD_CACHE_HIT},
    {"OriginCache; hit; ttl=1100", RECORD_CACHE_HIT},
    {"ExampleCache; hit; ttl=376", RECORD_CACHE_HIT},
    {"ExampleCache; hit; ttl=-412", RECORD_CACHE_STALE},
    {"ExampleCache; fwd=stale; ttl=-412", RECORD_CACHE_STALE},
    {"ExampleCache; fwd=uri-miss; collapsed", RECORD_CACHE_COLLAPSED},
    {"ExampleCache; fwd=uri-miss; collapsed=?0", RECORD_CACHE_MISS},
    {"ExampleCache; fwd=method", RECORD_CACHE_BYPASS},
    {"OriginCache; hit; ttl=1100, \"CDN Company Here\"; fwd=uri-miss;", RECORD_CACHE_MISS},
    {"ReverseProxyCache; hit, ForwardProxyCache; fwd=uri-miss; collapsed; stored", RECORD_CACHE_COLLAPSED},
    {"ReverseProxyCache; fwd=miss, BrowserCache; fwd=uri-miss; key=\"a, b; hit\"", RECORD_CACHE_MISS},
    {"catalogd; hit; ttl=57", RECORD_CACHE_HIT},
    {"catalogd; hit; ttl=-0", RECORD_CACHE_STALE},
    {"catalogd; fwd=miss; stored; ttl=60", RECORD_CACHE_MISS},
    {"catalogd; fwd=miss; stored; collapsed; ttl=60; detail=fleet", RECORD_CACHE_COLLAPSED},
    {"catalogd; fwd=miss; stored; collapsed; ttl=60; load=\"0f3a6c2d8b7e4f11\"", RECORD_CACHE_COLLAPSED},
    {"catalogd; detail=shed", RECORD_CACHE_OTHER},
    {"x;hit", RECORD_CACHE_HIT},
    {"x ; hit ; ttl = -1 ", RECORD_CACHE_STALE},
    {"x; hit=?1", RECORD_CACHE_HIT},
    {"x; hit=?0; fwd=miss", RECORD_CACHE_MISS},
    {"x; fwd=vary-miss", RECORD_CACHE_MISS},
    {"x; fwd=request", RECORD_CACHE_BYPASS},
    {"x; fwd=bypass", RECORD_CACHE_BYPASS},
    {"x; fwd=partial", RECORD_CACHE_OTHER},
    {"a; fwd=miss, b; hit", RECORD_CACHE_HIT},
    {"a; fwd=miss , ,", RECORD_CACHE_MISS},
    {"\"a; hit, \\\"b\"; fwd=miss", RECORD_CACHE_MISS},
    {"a; detail=\"x; hit\"", RECORD_CACHE_OTHER},
    {"a; key=\"unfinished; hit", RECORD_CACHE_OTHER},
    {"a; key=\"unfinished\\", RECORD_CACHE_OTHER},
    {"hit", RECORD_CACHE_OTHER},
    {"HIT from somewhere", RECORD_CACHE_OTHER},
    {"a; fwd", RECORD_CACHE_OTHER},
    {"a; fwd=", RECORD_CACHE_OTHER},
    {"a; ttl=; hit", RECORD_CACHE_HIT},
    {";;;=;=hit", RECORD_CACHE_OTHER},
    {",", RECORD_CACHE_OTHER},
    {"", RECORD_CACHE_OTHER},
};

TEST(the_cache_closest_to_the_client_counts)
{
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        size_t count = strlen(examples[i].value);
        /* Behind the value nothing may be read: the copy ends where it ends. */
        char *value = malloc(count > 0 ? count : 1);
        memcpy(value, examples[i].value, count);
        enum record_cache cache = cache_status_of(value, count);
        free(value);
        if (cache != examples[i].cache)
            fail_msg("%s: %s", examples[i].value, record_cache_name(cache));
    }
}

TEST(where_there_is_no_cache_status_the_words_of_others_count)
{
    static const struct example words[] = {
        {"X-Cache-Status: HIT", RECORD_CACHE_HIT}, /* nginx */
        {"X-Cache-Status: MISS", RECORD_CACHE_MISS},
        {"X-Cache-Status: EXPIRED", RECORD_CACHE_MISS},
        {"X-Cache-Status: STALE", RECORD_CACHE_STALE},
        {"X-Cache-Status: UPDATING", RECORD_CACHE_STALE},
        {"X-Cache-Status: REVALIDATED", RECORD_CACHE_OTHER},
        {"X-Cache-Status: BYPASS", RECORD_CACHE_BYPASS},
        {"x-cache-status:", RECORD_CACHE_OTHER},
        {"X-Cache: Hit from cloudfront", RECORD_CACHE_HIT},
        {"X-Cache: Miss from cloudfront", RECORD_CACHE_MISS},
        {"X-Cache: RefreshHit from cloudfront", RECORD_CACHE_OTHER},
        {"X-Cache: Error from cloudfront", RECORD_CACHE_OTHER},
        {"X-Cache: TCP_MEM_HIT from a123.deploy", RECORD_CACHE_HIT},
        {"X-Cache: TCP_MISS from a-hit-parade", RECORD_CACHE_MISS},
        {"X-Cache: HIT, MISS", RECORD_CACHE_MISS}, /* the shield, then what is closest */
        {"CF-Cache-Status: DYNAMIC", RECORD_CACHE_BYPASS},
        {"CF-Cache-Status: HIT\r\nX-Cache: MISS", RECORD_CACHE_HIT},
        {"X-Cache: MISS\r\nCF-Cache-Status: HIT", RECORD_CACHE_HIT},
        {"CF-Cache-Status: DYNAMIC\r\nX-Cache-Status: HIT", RECORD_CACHE_HIT},
        {"X-Cache: MISS\r\nCache-Status: a; hit", RECORD_CACHE_HIT},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char head[256];
        snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\n%s\r\n\r\n", words[i].value);
        if (cache_status_read(head) != words[i].cache)
            fail_msg("%s: %s", words[i].value, record_cache_name(cache_status_read(head)));
    }
}

TEST(headers_that_are_repeated_are_one_list)
{
    assert_int_equal(cache_status_read("HTTP/1.1 200 OK\r\nServer: x\r\n\r\n"), RECORD_CACHE_NONE);
    assert_int_equal(cache_status_read("HTTP/1.1 200 OK\r\ncache-status: a; hit\r\n\r\n"), RECORD_CACHE_HIT);
    assert_int_equal(cache_status_read("HTTP/1.1 200 OK\r\nCache-Status: a; hit\r\nAge: 1\r\n"
                                       "Cache-Status: b; fwd=miss\r\n\r\n"),
                     RECORD_CACHE_MISS);
    assert_int_equal(cache_status_read("HTTP/1.1 200 OK\r\nCache-Status: a; hit\r\nCache-Status:\r\n\r\n"),
                     RECORD_CACHE_HIT);
    assert_int_equal(cache_status_read("HTTP/1.1 200 OK\r\nCache-Status:\r\n\r\n"), RECORD_CACHE_OTHER);
    assert_int_equal(cache_status_read("HTTP/1.1 200 OK\nCache-Status: a; fwd=stale\n\n"),
                     RECORD_CACHE_STALE);
}

TEST(every_outcome_and_every_cache_has_a_name_of_its_own)
{
    for (int i = 0; i < RECORD_OUTCOMES; i++) {
        assert_non_null(record_outcome_name((enum record_outcome)i));
        for (int j = 0; j < i; j++)
            assert_string_not_equal(record_outcome_name((enum record_outcome)i),
                                    record_outcome_name((enum record_outcome)j));
    }
    for (int i = 0; i < RECORD_CACHES; i++) {
        assert_non_null(record_cache_name((enum record_cache)i));
        for (int j = 0; j < i; j++)
            assert_string_not_equal(record_cache_name((enum record_cache)i),
                                    record_cache_name((enum record_cache)j));
    }
}
