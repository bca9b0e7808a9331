/* SPDX-License-Identifier: MIT */
/*
 * answer_test.c - what the guard says, as HTTP says it.
 */
#include "app/http/answer.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

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

static void a_value_is_answered_with_its_body_and_its_age(void **state)
{
    const struct answer answer = answer_to(ok(GUARD_FROM_CACHE));

    (void)state;
    assert_int_equal(answer.status, 200);
    assert_ptr_equal(answer.value, &VALUE);
    assert_string_equal(answer.content_type, "application/json; charset=utf-8");
    assert_string_equal(answer.cache_control, "no-cache");
    assert_string_equal(answer.etag, "\"42\"");
    assert_string_equal(answer.age, "2");
    assert_string_equal(answer.retry_after, "");
    assert_false(answer.close);
}

static void cache_status_says_where_a_value_came_from(void **state)
{
    (void)state;
    assert_cache_status(ok(GUARD_FROM_CACHE), "catalogd; hit; ttl=57");
    assert_cache_status(ok(GUARD_FROM_LOAD), "catalogd; fwd=miss; stored; ttl=57");
    assert_cache_status(ok(GUARD_FROM_FLIGHT), "catalogd; fwd=miss; stored; collapsed; ttl=57");
    assert_cache_status(ok(GUARD_FROM_FLEET), "catalogd; fwd=miss; stored; collapsed; ttl=57; detail=fleet");
}

static void a_value_that_could_not_be_stored_has_no_ttl(void **state)
{
    struct guard_result result = ok(GUARD_FROM_FLIGHT);

    (void)state;
    result.stored = false;
    result.left_ms = 0;
    assert_cache_status(result, "catalogd; fwd=miss; collapsed");
}

static void a_stale_value_says_so_and_has_a_negative_ttl(void **state)
{
    struct guard_result result = ok(GUARD_FROM_STALE);

    (void)state;
    result.age_ms = FRESH_MS + 12345;
    result.left_ms = 0;
    assert_cache_status(result, "catalogd; fwd=stale; ttl=-12");
    result.age_ms = FRESH_MS - 1; /* the jitter ended it early */
    assert_cache_status(result, "catalogd; fwd=stale; ttl=-0");
}

static void cache_status_names_what_went_wrong(void **state)
{
    (void)state;
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

static void every_detail_is_a_token(void **state)
{
    (void)state;
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

static void every_status_of_the_guard_has_one_of_http(void **state)
{
    static const unsigned expected[] = {
        [GUARD_ABSENT] = 404,  [GUARD_FAILED] = 503,    [GUARD_SHED] = 503,
        [GUARD_TIMEOUT] = 504, [GUARD_CANCELLED] = 500, [GUARD_CLOSING] = 503,
        [GUARD_UNKNOWN] = 500, [GUARD_INVALID] = 500,   [GUARD_NO_MEMORY] = 503};

    (void)state;
    for (enum guard_status status = GUARD_ABSENT; status <= GUARD_NO_MEMORY; status++) {
        const struct answer answer = answer_to((struct guard_result){.status = status});

        assert_int_equal(answer.status, expected[status]);
        assert_int_equal(answer.retry_after[0] != '\0', answer.status == 503);
        assert_null(answer.value);
        assert_string_equal(answer.etag, "");
    }
}

static void retry_after_is_rounded_up_and_never_zero(void **state)
{
    static const struct {
        uint32_t retry_ms;
        const char *seconds;
    } cases[] = {{0, "1"}, {1, "1"}, {1000, "1"}, {1001, "2"}, {59999, "60"}, {UINT32_MAX, "4294968"}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct answer answer =
            answer_to((struct guard_result){.status = GUARD_FAILED, .retry_ms = cases[i].retry_ms});
        assert_string_equal(answer.retry_after, cases[i].seconds);
    }
}

static void an_absent_row_says_how_old_that_knowledge_is(void **state)
{
    const struct answer answer = answer_to((struct guard_result){
        .status = GUARD_ABSENT, .source = GUARD_FROM_CACHE, .age_ms = 4000, .left_ms = 6000, .stored = true});

    (void)state;
    assert_string_equal(answer.age, "4");
    assert_string_equal(answer.cache_status, "catalogd; hit; ttl=6");
    assert_string_equal(answer.cache_control, "no-cache");
}

static void a_closing_server_closes_the_connection(void **state)
{
    const struct answer answer = answer_to((struct guard_result){.status = GUARD_CLOSING});

    (void)state;
    assert_true(answer.close);
    assert_string_equal(answer.retry_after, "1");
}

static void every_problem_is_a_document_of_rfc_9457(void **state)
{
    struct answer answer;

    (void)state;
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

static void a_strangers_path_cannot_get_into_a_document(void **state)
{
    static const char *const paths[] = {"/\"", "/\\", "/a b", "/\x01", "/\xc3\xa9", "/<script>"};
    char longest[2048];
    struct answer answer;

    (void)state;
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

static void a_method_is_refused_with_those_allowed(void **state)
{
    struct answer answer;

    (void)state;
    answer_problem(PROBLEM_METHOD, NULL, &answer);
    assert_int_equal(answer.status, 405);
    assert_string_equal(answer.allow, "GET, HEAD");
}

static void a_refused_body_ends_the_connection(void **state)
{
    struct answer answer;

    (void)state;
    answer_problem(PROBLEM_BODY, NULL, &answer);
    assert_true(answer.close);
    answer_problem(PROBLEM_FRAMING, NULL, &answer);
    assert_true(answer.close);
}

static void if_none_match_compares_weakly_against_a_list(void **state)
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

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(answer_etag_matches(&answer, cases[i].line), cases[i].matches);
}

static void what_the_client_holds_is_not_sent_again(void **state)
{
    struct answer answer = answer_to(ok(GUARD_FROM_CACHE));

    (void)state;
    answer_not_modified(&answer);
    assert_int_equal(answer.status, 304);
    assert_null(answer.content_type);
    assert_string_equal(answer.etag, "\"42\"");
    assert_string_equal(answer.cache_control, "no-cache");
}

static void only_a_value_can_be_unmodified(void **state)
{
    const struct answer answer = answer_to((struct guard_result){.status = GUARD_ABSENT});

    (void)state;
    assert_false(answer_etag_matches(&answer, "*"));
}

static void a_validator_that_cannot_be_an_etag_is_none(void **state)
{
    static const char *const validators[] = {"", "a\"b", "a b"};

    (void)state;
    for (size_t i = 0; i < sizeof(validators) / sizeof(validators[0]); i++) {
        const struct guard_value value = {.body = "", .validator = validators[i]};
        struct guard_result result = ok(GUARD_FROM_CACHE);

        result.value = &value;
        assert_string_equal(answer_to(result).etag, "");
    }
}

static void the_longest_validator_fits(void **state)
{
    char validator[128];
    const struct guard_value value = {.body = "", .validator = validator};
    struct guard_result result = ok(GUARD_FROM_CACHE);

    (void)state;
    memset(validator, 'v', sizeof(validator));
    validator[127] = '\0';
    result.value = &value;
    assert_int_equal(strlen(answer_to(result).etag), 129);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_is_answered_with_its_body_and_its_age),
        cmocka_unit_test(cache_status_says_where_a_value_came_from),
        cmocka_unit_test(a_value_that_could_not_be_stored_has_no_ttl),
        cmocka_unit_test(a_stale_value_says_so_and_has_a_negative_ttl),
        cmocka_unit_test(cache_status_names_what_went_wrong),
        cmocka_unit_test(every_detail_is_a_token),
        cmocka_unit_test(every_status_of_the_guard_has_one_of_http),
        cmocka_unit_test(retry_after_is_rounded_up_and_never_zero),
        cmocka_unit_test(an_absent_row_says_how_old_that_knowledge_is),
        cmocka_unit_test(a_closing_server_closes_the_connection),
        cmocka_unit_test(every_problem_is_a_document_of_rfc_9457),
        cmocka_unit_test(a_strangers_path_cannot_get_into_a_document),
        cmocka_unit_test(a_method_is_refused_with_those_allowed),
        cmocka_unit_test(a_refused_body_ends_the_connection),
        cmocka_unit_test(if_none_match_compares_weakly_against_a_list),
        cmocka_unit_test(what_the_client_holds_is_not_sent_again),
        cmocka_unit_test(only_a_value_can_be_unmodified),
        cmocka_unit_test(a_validator_that_cannot_be_an_etag_is_none),
        cmocka_unit_test(the_longest_validator_fits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
