/* SPDX-License-Identifier: MIT */
/*
 * answer_test.c - what the guard says, as HTTP says it.
 */
#include "app/http/answer.h"
#include "app/http/reply.h"
#include "tests/support/test.h"

#include <jansson.h>

enum { FRESH_MS = 60000 };

static const struct guard_value VALUE = {.body = "{}", .body_bytes = 2, .validator = "42"};

static struct guard_result ok(enum guard_source source)
{
    return (struct guard_result){.status = GUARD_OK,
                                 .source = source,
                                 .value = &VALUE,
                                 .age_ms = 2999,
                                 .left_ms = 57001,
                                 .stored = true};
}

static struct answer answer_to(struct guard_result result)
{
    struct answer answer;

    answer_from_result(&result, "/products/7", FRESH_MS, &answer);
    return answer;
}

static void assert_cache_status(struct guard_result result, const char *expected)
{
    assert_string_equal(answer_to(result).cache_status, expected);
}

TEST(a_value_is_answered_with_its_body_and_its_age)
{
    const struct answer answer = answer_to(ok(GUARD_FROM_CACHE));

    assert_int_equal(answer.status, 200);
    assert_ptr_equal(answer.value, &VALUE);
    assert_string_equal(answer.content_type, "application/json; charset=utf-8");
    assert_string_equal(answer.cache_control, "no-cache");
    assert_string_equal(answer.etag, "\"42\"");
    assert_string_equal(answer.age, "2");
    assert_string_equal(answer.retry_after, "");
    assert_false(answer.close);
}

TEST(cache_status_says_where_a_value_came_from)
{
    assert_cache_status(ok(GUARD_FROM_CACHE), "catalogd; hit; ttl=57");
    assert_cache_status(ok(GUARD_FROM_LOAD), "catalogd; fwd=miss; stored; ttl=57");
    assert_cache_status(ok(GUARD_FROM_FLIGHT), "catalogd; fwd=miss; stored; collapsed; ttl=57");
    assert_cache_status(ok(GUARD_FROM_FLEET), "catalogd; fwd=miss; stored; collapsed; ttl=57; detail=fleet");
}

TEST(a_value_that_could_not_be_stored_has_no_ttl)
{
    struct guard_result result = ok(GUARD_FROM_FLIGHT);

    result.stored = false;
    result.left_ms = 0;
    assert_cache_status(result, "catalogd; fwd=miss; collapsed");
}

TEST(a_document_with_a_life_of_its_own_says_how_long_it_is)
{
    struct guard_result result = ok(GUARD_FROM_CACHE);
    struct answer answer = answer_to(result);

    answer_own_life(&result, &answer);
    assert_string_equal(answer.cache_control, "max-age=60"); /* Age: 2 */
    assert_string_equal(answer.vary, "Authorization");
    assert_string_equal(answer.etag, "\"42\"");
    result.left_ms = 999;
    answer = answer_to(result);
    answer_own_life(&result, &answer);
    assert_string_equal(answer.cache_control, "no-cache");
}

TEST(a_document_for_one_client_is_kept_by_nobody)
{
    static const struct guard_value personal = {.body = "{}", .body_bytes = 2, .validator = ""};
    struct guard_result result = ok(GUARD_FROM_LOAD);
    result.value = &personal;
    result.stored = false;
    struct answer answer = answer_to(result);

    answer_own_life(&result, &answer);
    assert_string_equal(answer.cache_control, "private, no-store");
    assert_string_equal(answer.vary, "Authorization");
    assert_string_equal(answer.etag, "");
    assert_string_equal(answer.age, "");
}

TEST(a_row_that_is_not_there_has_no_life_to_tell)
{
    const struct guard_result result = {.status = GUARD_ABSENT, .source = GUARD_FROM_CACHE, .left_ms = 5000};
    struct answer answer = answer_to(result);

    answer_own_life(&result, &answer);
    assert_string_equal(answer.cache_control, "no-cache");
    assert_string_equal(answer.vary, "Authorization");
}

TEST(cache_status_says_that_a_request_asked_past_the_cache)
{
    struct answer answer = answer_to(ok(GUARD_FROM_FLEET));

    answer_revalidated(&answer);
    assert_string_equal(answer.cache_status,
                        "catalogd; fwd=request; stored; collapsed; ttl=57; detail=fleet");
    answer = answer_to((struct guard_result){.status = GUARD_TIMEOUT});
    answer_revalidated(&answer);
    assert_string_equal(answer.cache_status, "catalogd; detail=timeout");
}

TEST(only_the_bare_directive_asks_past_the_cache)
{
    assert_true(revalidate_is_asked("no-cache"));
    assert_true(revalidate_is_asked("max-age=0, No-Cache"));
    assert_true(revalidate_is_asked("\tno-store,no-cache ,"));
    assert_false(revalidate_is_asked(""));
    assert_false(revalidate_is_asked("no-cache=x"));
    assert_false(revalidate_is_asked("no-cache2, xno-cache"));
    assert_false(revalidate_is_asked("no-cache\"x"));
    assert_false(revalidate_is_asked("max-age=0, no-store"));
}

TEST(a_stale_value_says_so_and_has_a_negative_ttl)
{
    struct guard_result result = ok(GUARD_FROM_STALE);

    result.age_ms = FRESH_MS + 12345;
    result.left_ms = 0;
    assert_cache_status(result, "catalogd; fwd=stale; ttl=-12");
    result.age_ms = FRESH_MS - 1; /* the jitter ended it early */
    assert_cache_status(result, "catalogd; fwd=stale; ttl=-0");
}

TEST(cache_status_names_the_load_that_made_the_answer)
{
    struct guard_result result = ok(GUARD_FROM_CACHE);

    result.load = UINT64_C(0x00f0a6c2d8b7e4f1);
    assert_cache_status(result, "catalogd; hit; ttl=57; load=\"00f0a6c2d8b7e4f1\"");
    result.source = GUARD_FROM_FLEET;
    assert_cache_status(
        result, "catalogd; fwd=miss; stored; collapsed; ttl=57; detail=fleet; load=\"00f0a6c2d8b7e4f1\"");
    assert_cache_status((struct guard_result){.status = GUARD_FAILED,
                                              .source = GUARD_FROM_CACHE,
                                              .failure = GUARD_FAILURE_UNAVAILABLE,
                                              .load = 1},
                        "catalogd; hit; detail=unavailable; load=\"0000000000000001\"");
}

TEST(cache_status_names_what_went_wrong)
{
    assert_cache_status((struct guard_result){.status = GUARD_FAILED,
                                              .source = GUARD_FROM_LOAD,
                                              .failure = GUARD_FAILURE_UNAVAILABLE},
                        "catalogd; fwd=miss; detail=unavailable");
    assert_cache_status((struct guard_result){.status = GUARD_FAILED,
                                              .source = GUARD_FROM_CACHE,
                                              .failure = GUARD_FAILURE_TIMEOUT},
                        "catalogd; hit; detail=timeout");
    assert_cache_status((struct guard_result){.status = GUARD_SHED}, "catalogd; detail=shed");
    assert_cache_status((struct guard_result){.status = GUARD_TIMEOUT}, "catalogd; detail=timeout");
}

TEST(every_detail_is_a_token)
{
    for (enum guard_status status = GUARD_ABSENT; status <= GUARD_NO_MEMORY; status++) {
        for (enum guard_failure failure = GUARD_FAILURE_NONE; failure <= GUARD_FAILURE_CYCLE; failure++) {
            const struct answer answer = answer_to(
                (struct guard_result){.status = status, .source = GUARD_FROM_LOAD, .failure = failure});
            const char *detail = strstr(answer.cache_status, "detail=");

            if (detail != NULL)
                assert_int_equal(strspn(detail + 7, "abcdefghijklmnopqrstuvwxyz_-"), strlen(detail + 7));
        }
    }
}

TEST(every_status_of_the_guard_has_one_of_http)
{
    static const unsigned expected[] = {
        [GUARD_ABSENT] = 404,  [GUARD_FAILED] = 503,    [GUARD_SHED] = 503,
        [GUARD_TIMEOUT] = 504, [GUARD_CANCELLED] = 500, [GUARD_CLOSING] = 503,
        [GUARD_UNKNOWN] = 500, [GUARD_INVALID] = 500,   [GUARD_NO_MEMORY] = 503};

    for (enum guard_status status = GUARD_ABSENT; status <= GUARD_NO_MEMORY; status++) {
        const struct answer answer = answer_to((struct guard_result){.status = status});

        assert_int_equal(answer.status, expected[status]);
        assert_int_equal(answer.retry_after[0] != '\0', answer.status == 503);
        assert_null(answer.value);
        assert_string_equal(answer.etag, "");
    }
}

TEST(retry_after_is_rounded_up_and_never_zero, P28)
{
    static const struct {
        uint32_t retry_ms;
        const char *seconds;
    } cases[] = {{0, "1"}, {1, "1"}, {1000, "1"}, {1001, "2"}, {59999, "60"}, {UINT32_MAX, "4294968"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct answer answer =
            answer_to((struct guard_result){.status = GUARD_FAILED, .retry_ms = cases[i].retry_ms});
        assert_string_equal(answer.retry_after, cases[i].seconds);
    }
}

TEST(an_absent_row_says_how_old_that_knowledge_is)
{
    const struct answer answer = answer_to((struct guard_result){
        .status = GUARD_ABSENT, .source = GUARD_FROM_CACHE, .age_ms = 4000, .left_ms = 6000, .stored = true});

    assert_string_equal(answer.age, "4");
    assert_string_equal(answer.cache_status, "catalogd; hit; ttl=6");
    assert_string_equal(answer.cache_control, "no-cache");
}

TEST(a_closing_server_closes_the_connection)
{
    const struct answer answer = answer_to((struct guard_result){.status = GUARD_CLOSING});

    assert_true(answer.close);
    assert_string_equal(answer.retry_after, "1");
}

TEST(every_problem_is_a_document_of_rfc_9457)
{
    struct answer answer;

    for (enum problem problem = 0; problem < PROBLEM_COUNT; problem++) {
        answer_problem(problem, "/products/7", &answer);
        json_t *document = json_loadb(answer.text, answer.text_bytes, JSON_REJECT_DUPLICATES, NULL);

        assert_non_null(document);
        assert_string_equal(answer.content_type, "application/problem+json");
        assert_int_equal(json_integer_value(json_object_get(document, "status")), answer.status);
        assert_true(json_string_length(json_object_get(document, "type")) > strlen("/problems/"));
        assert_true(json_string_length(json_object_get(document, "title")) > 0);
        assert_true(json_string_length(json_object_get(document, "detail")) > 0);
        assert_string_equal(json_string_value(json_object_get(document, "instance")), "/products/7");
        json_decref(document);
    }
}

TEST(a_strangers_path_cannot_get_into_a_document)
{
    static const char *const paths[] = {"/\"", "/\\", "/a b", "/\x01", "/\xc3\xa9", "/<script>"};
    char longest[2048];
    struct answer answer;

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        answer_problem(PROBLEM_UNKNOWN_PATH, paths[i], &answer);
        assert_null(strstr(answer.text, "instance"));
    }
    memset(longest, 'a', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    answer_problem(PROBLEM_UNKNOWN_PATH, longest, &answer);
    assert_null(strstr(answer.text, "instance"));
    answer_problem(PROBLEM_UNKNOWN_PATH, NULL, &answer);
    assert_null(strstr(answer.text, "instance"));
}

TEST(a_method_is_refused_with_those_allowed)
{
    struct answer answer;

    answer_problem(PROBLEM_METHOD, NULL, &answer);
    assert_int_equal(answer.status, 405);
    assert_string_equal(answer.allow, "GET, HEAD");
}

TEST(a_refused_body_ends_the_connection)
{
    struct answer answer;

    answer_problem(PROBLEM_BODY, NULL, &answer);
    assert_true(answer.close);
    answer_problem(PROBLEM_FRAMING, NULL, &answer);
    assert_true(answer.close);
}

TEST(if_none_match_compares_weakly_against_a_list)
{
    static const struct {
        const char *line;
        bool matches;
    } cases[] = {
        {"\"42\"", true},     {"W/\"42\"", true},  {"\"1\", \"42\"", true}, {"\"1\",W/\"42\" , \"3\"", true},
        {" ,, \"42\"", true}, {"*", true},         {" * ", true},           {"", false},
        {"42", false},        {"\"4\"", false},    {"\"421\"", false},      {"\"42", false},
        {"w/\"42\"", false},  {"*, \"1\"", false}, {"\"a, \"42\"", false},  {"\"1\" \"2\"", false},
    };
    const struct answer answer = answer_to(ok(GUARD_FROM_CACHE));

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(answer_etag_matches(answer.etag, cases[i].line), cases[i].matches);
}

TEST(what_the_client_holds_is_not_sent_again)
{
    struct answer answer = answer_to(ok(GUARD_FROM_CACHE));

    answer_not_modified(&answer);
    assert_int_equal(answer.status, 304);
    assert_null(answer.content_type);
    assert_string_equal(answer.etag, "\"42\"");
    assert_string_equal(answer.cache_control, "no-cache");
}

TEST(a_validator_that_cannot_be_an_etag_is_none)
{
    static const char *const validators[] = {"", "a\"b", "a b", "a\r\nAge: 0", "a\x7f", "\xc3\xa4"};

    for (size_t i = 0; i < sizeof(validators) / sizeof(validators[0]); i++) {
        const struct guard_value value = {.body = "", .validator = validators[i]};
        struct guard_result result = ok(GUARD_FROM_CACHE);

        result.value = &value;
        assert_string_equal(answer_to(result).etag, "");
    }
}

TEST(the_longest_validator_fits)
{
    char validator[128];
    const struct guard_value value = {.body = "", .validator = validator};
    struct guard_result result = ok(GUARD_FROM_CACHE);

    memset(validator, 'v', sizeof(validator));
    validator[127] = '\0';
    result.value = &value;
    assert_int_equal(strlen(answer_to(result).etag), 129);
}
