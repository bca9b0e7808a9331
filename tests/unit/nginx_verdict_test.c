/* SPDX-License-Identifier: MIT */
/*
 * nginx_verdict_test.c - what the module for nginx makes of an origin's headers.
 */
#include "guard/nginx/verdict.h"
#include "tests/support/test.h"

static const struct rules RULES = {.fresh_ms = 60000, .stale_ms = 3600000, .absent_ms = 10000};

static struct verdict of(unsigned status, const char *cache_control)
{
    struct says says;
    says_init(&says, status);
    says_cache_control(&says, (struct text){cache_control, strlen(cache_control)});
    return verdict_of(&says, &RULES);
}

#define EXPECT(status, line, wanted, fresh, stale)                                                           \
    do {                                                                                                     \
        const struct verdict verdict_ = of(status, line);                                                    \
        assert_int_equal(verdict_.how, wanted);                                                              \
        assert_int_equal(verdict_.fresh_ms, fresh);                                                          \
        assert_int_equal(verdict_.stale_ms, stale);                                                          \
    } while (0)

TEST(the_location_decides_what_the_origin_does_not_say)
{
    EXPECT(200, "", VERDICT_STORE, 60000, 3600000);
    EXPECT(404, "", VERDICT_STORE, 10000, 0);
    EXPECT(410, "", VERDICT_STORE, 10000, 0);
    EXPECT(301, "", VERDICT_STORE, 60000, 3600000);
    EXPECT(302, "", VERDICT_PASS, 0, 0);
    EXPECT(403, "", VERDICT_PASS, 0, 0);
    EXPECT(206, "max-age=9", VERDICT_PASS, 0, 0);
    EXPECT(304, "max-age=9", VERDICT_PASS, 0, 0);
    EXPECT(500, "max-age=9", VERDICT_FAIL, 0, 0);
    EXPECT(503, "", VERDICT_FAIL, 0, 0);
}

TEST(the_origin_decides_what_it_says)
{
    EXPECT(200, "max-age=5", VERDICT_STORE, 5000, 3600000);
    EXPECT(200, "max-age=5, s-maxage=\"7\"", VERDICT_STORE, 7000, 0);
    EXPECT(200, " S-MaxAge = 7 ,stale-while-revalidate=3", VERDICT_STORE, 7000, 3000);
    EXPECT(200, "max-age=5, stale-if-error=9, stale-while-revalidate=3", VERDICT_STORE, 5000, 9000);
    EXPECT(200, "max-age=5, must-revalidate", VERDICT_STORE, 5000, 0);
    EXPECT(302, "max-age=5", VERDICT_STORE, 5000, 3600000);
    EXPECT(404, "max-age=5", VERDICT_STORE, 5000, 0);
    EXPECT(200, "max-age=0", VERDICT_SHARE, 0, 3600000);
    EXPECT(200, "max-age=nonsense", VERDICT_SHARE, 0, 3600000);
    EXPECT(200, "max-age=9, max-age=4", VERDICT_STORE, 4000, 3600000);
    EXPECT(200, "max-age=99999999999999999999", VERDICT_STORE, 86400000, 3600000);
    EXPECT(200, "max-age=60, no-store", VERDICT_PASS, 0, 0);
    EXPECT(200, "private", VERDICT_PASS, 0, 0);
    EXPECT(200, "no-cache=\"a, max-age=3\"", VERDICT_PASS, 0, 0);
    EXPECT(200, "x=\"no-store\", max-age=3", VERDICT_STORE, 3000, 3600000);
    EXPECT(200, "max-age=3, x=\"y, private", VERDICT_PASS, 0, 0);
}

TEST(an_error_page_is_for_those_that_wait)
{
    struct says says;
    says_init(&says, 200);
    says_cache_control(&says, TEXT("max-age=60"));
    says.is_error_page = true;
    assert_int_equal(verdict_of(&says, &RULES).how, VERDICT_SHARE);
    says_init(&says, 302);
    says.is_error_page = true;
    assert_int_equal(verdict_of(&says, &RULES).how, VERDICT_SHARE);
    says.is_private = true;
    assert_int_equal(verdict_of(&says, &RULES).how, VERDICT_PASS);
}

TEST(what_was_old_when_it_came_lives_less_long)
{
    struct says says;
    says_init(&says, 200);
    says_cache_control(&says, TEXT("max-age=60"));
    says_age(&says, TEXT(" 20 "));
    assert_int_equal(verdict_of(&says, &RULES).fresh_ms, 40000);
    says_age(&says, TEXT("60"));
    assert_int_equal(verdict_of(&says, &RULES).how, VERDICT_SHARE);
    says_age(&says, TEXT("99999999999999999999"));
    assert_int_equal(verdict_of(&says, &RULES).how, VERDICT_SHARE);
    says_age(&says, TEXT("old"));
    assert_int_equal(verdict_of(&says, &RULES).fresh_ms, 60000);
    says_init(&says, 200);
    says_cache_control(&says, TEXT("max-age=604800, stale-while-revalidate=604800"));
    says_age(&says, TEXT("600000"));
    assert_int_equal(verdict_of(&says, &RULES).fresh_ms, 4800000);
    assert_int_equal(verdict_of(&says, &RULES).stale_ms, 86400000);
}

TEST(what_is_left_until_it_expires_is_left_whatever_its_age)
{
    struct says says;
    says_init(&says, 200);
    says.expires_s = 30;
    says_age(&says, TEXT("3600"));
    assert_int_equal(verdict_of(&says, &RULES).fresh_ms, 30000);
    says.expires_s = (int64_t)1 << 40;
    assert_int_equal(verdict_of(&says, &RULES).fresh_ms, 86400000);
}

TEST(what_is_for_one_client_passes)
{
    struct says says;
    says_init(&says, 200);
    says.is_private = true;
    assert_int_equal(verdict_of(&says, &RULES).how, VERDICT_PASS);
    assert_int_equal(verdict_of(&says, &RULES).pass_ms, 10000);
    says_init(&says, 200);
    says.sets_cookie = true;
    assert_int_equal(verdict_of(&says, &RULES).how, VERDICT_PASS);
    assert_int_equal(verdict_of(&says, &RULES).pass_ms, 1000);
}

TEST(what_one_client_is_told_parts_no_others)
{
    static const unsigned statuses[] = {206, 302, 400, 401, 403, 407, 429, 431};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        assert_int_equal(of(statuses[i], "").how, VERDICT_PASS);
        assert_int_equal(of(statuses[i], "").pass_ms, 0);
        assert_int_equal(of(statuses[i], "private").pass_ms, 10000);
    }
    EXPECT(401, "max-age=9", VERDICT_PASS, 0, 0);
    EXPECT(407, "max-age=9", VERDICT_PASS, 0, 0);
}

TEST(what_was_found_elsewhere_is_kept_if_the_origin_says_for_how_long)
{
    struct says says;
    says_init(&says, 200);
    says.is_handed_on = true;
    assert_int_equal(verdict_of(&says, &RULES).how, VERDICT_PASS);
    assert_int_equal(verdict_of(&says, &RULES).pass_ms, 10000);
    says_cache_control(&says, TEXT("max-age=60"));
    assert_int_equal(verdict_of(&says, &RULES).how, VERDICT_STORE);
}

TEST(vary_is_a_list_of_small_names_each_once)
{
    struct vary vary = {.bytes = 0};
    struct text name;
    size_t at = 0;
    vary_add(&vary, TEXT("Accept-Encoding, Accept"));
    vary_add(&vary, TEXT(",accept-encoding,"));
    const struct text names = {vary.names, vary.bytes};
    assert_true(vary_next(names, &at, &name) && text_is(name, "accept-encoding"));
    assert_true(vary_next(names, &at, &name) && text_is(name, "accept"));
    assert_false(vary_next(names, &at, &name));
    assert_false(vary.is_all);
    vary_add(&vary, TEXT("*"));
    assert_true(vary.is_all);
    vary = (struct vary){.bytes = 0};
    vary_add(&vary, TEXT("\"accept, cookie"));
    assert_true(vary.is_all);
    vary = (struct vary){.bytes = 0};
    char longer[VARY_BYTES_MAX + 1];
    memset(longer, 'a', sizeof longer);
    vary_add(&vary, (struct text){longer, sizeof longer});
    assert_true(vary.is_all);
}

static size_t write_entry(char *room, size_t bytes)
{
    const struct entry entry = {.status = 404,
                                .age_s = 3,
                                .fresh_s = 70000,
                                .names = TEXT("accept,"),
                                .variant = TEXT("accept: x\n")};
    struct entry_writer writer;
    entry_begin(&writer, room, bytes, &entry);
    entry_add(&writer, TEXT("Content-Type"), TEXT("text/html:x"));
    entry_add(&writer, TEXT("X-Empty"), TEXT(""));
    return entry_end(&writer);
}

TEST(an_entry_comes_back_as_it_was)
{
    char room[512];
    struct entry entry;
    struct text name, value;
    const size_t bytes = write_entry(room, sizeof room);
    assert_true(bytes > 0);
    assert_true(entry_read((struct text){room, bytes}, &entry));
    assert_int_equal(entry.status, 404);
    assert_int_equal(entry.age_s, 3);
    assert_int_equal(entry.fresh_s, 70000);
    assert_true(text_is(entry.names, "accept,") && text_is(entry.variant, "accept: x\n"));
    assert_true(entry_header(&entry.headers, &name, &value) && text_is(name, "content-type"));
    assert_true(text_is(value, "text/html:x"));
    assert_true(entry_header(&entry.headers, &name, &value) && text_is(name, "x-empty") && value.bytes == 0);
    assert_false(entry_header(&entry.headers, &name, &value));
}

TEST(what_does_not_fit_or_is_cut_is_no_entry)
{
    char room[512];
    struct entry entry;
    struct entry_writer writer;
    const size_t bytes = write_entry(room, sizeof room);
    for (size_t cut = 0; cut < bytes; cut++) {
        char small[512];
        assert_false(entry_read((struct text){room, cut}, &entry));
        assert_int_equal(write_entry(small, cut), 0);
    }
    entry_begin(&writer, room, sizeof room, &(struct entry){.status = 200});
    entry_add(&writer, TEXT("X"), TEXT("two\nlines"));
    assert_int_equal(entry_end(&writer), 0);
}

TEST(nothing_inside_an_entry_is_believed)
{
    static const char bytes_tried[] = {'9', '\n', ' ', ':', '\0', '\xff'};
    char room[512];
    struct entry entry;
    struct text name, value;
    const size_t bytes = write_entry(room, sizeof room);
    for (size_t i = 0; i < bytes * sizeof bytes_tried; i++) {
        const char kept = room[i / sizeof bytes_tried];
        room[i / sizeof bytes_tried] = bytes_tried[i % sizeof bytes_tried];
        if (entry_read((struct text){room, bytes}, &entry))
            while (entry_header(&entry.headers, &name, &value))
                assert_true(name.data >= room && value.data + value.bytes <= room + bytes);
        room[i / sizeof bytes_tried] = kept;
    }
}

TEST(headers_of_one_connection_are_left_out)
{
    assert_true(header_is_left_out(TEXT("Connection"), true) && header_is_left_out(TEXT("TE"), false));
    assert_false(header_is_left_out(TEXT("Content-Type"), false) || header_is_left_out(TEXT("Tea"), false));
    assert_true(header_is_left_out(TEXT("Set-Cookie"), false));
    assert_false(header_is_left_out(TEXT("Set-Cookie"), true));
}
