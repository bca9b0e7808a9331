/* SPDX-License-Identifier: MIT */
/*
 * write_test.c - what a client may send to change something, and what he is told.
 */
#include "app/http/upload.h"
#include "app/write/write.h"
#include "tests/support/test.h"

#include <inttypes.h>
#include <jansson.h>

/* ---- If-Match ---- */

/* The versions of one line, "*" for any, "wrong" if it is refused. */
static const char *versions_of(const char *line)
{
    static char text[WRITE_VERSIONS_BYTES];
    struct write_versions versions = {.any = false};

    if (!write_if_match(line, &versions))
        return "wrong";
    write_versions_text(&versions, text);
    return versions.any ? "*" : text;
}

TEST(if_match_is_a_list_of_versions_or_a_star)
{
    static const struct {
        const char *line, *versions;
    } cases[] = {
        {"\"7\"", "{7}"},
        {" \"7\" , \"8\"\t", "{7,8}"},
        {",,\"7\",", "{7}"},
        {"*", "*"},
        {" * ", "*"},
        {"\"7-0a1b2c3d4e5f.0.1.2\", \"8-0.0.0.0\"", "{7-0a1b2c3d4e5f.0.1.2,8-0.0.0.0}"},
        /* tags of something else match nothing */
        {"W/\"7\"", "{}"},
        {"\"\"", "{}"},
        {"\"7-A\"", "{}"},
        {"\"7 8\"", "{}"},
        {"\"NULL\"", "{}"},
        {"\"7\\\"", "{}"},
        {"\"7}\"", "{}"},
        {"\"g\xff\"", "{}"},
        {"\"a,b\", \"7\"", "{7}"},
        /* no lists of tags */
        {"", "wrong"},
        {",", "wrong"},
        {"7", "wrong"},
        {"\"7", "wrong"},
        {"7\"", "wrong"},
        {"\"7\" \"8\"", "wrong"},
        {"\"7\"x", "wrong"},
        {"**", "wrong"},
        {"*, \"7\"", "wrong"},
        {"w/\"7\"", "wrong"},
        {"W/7", "wrong"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(versions_of(cases[i].line), cases[i].versions) != 0)
            fail_msg("%s: %s, not %s", cases[i].line, versions_of(cases[i].line), cases[i].versions);
    }
}

TEST(lines_of_if_match_add_up_to_sixteen_versions)
{
    enum { LONGEST = CATALOG_VALIDATOR_SIZE - 1 };
    struct write_versions versions = {.any = false};
    char text[WRITE_VERSIONS_BYTES], line[CATALOG_VALIDATOR_SIZE + 3];

    snprintf(line, sizeof(line), "\"%0*d\"", LONGEST + 1, 7);
    assert_true(write_if_match(line, &versions)); /* longer than any: matches nothing */
    snprintf(line, sizeof(line), "\"%0*d\"", LONGEST, 7);
    for (int i = 0; i < WRITE_VERSIONS_MAX; i++)
        assert_true(write_if_match(line, &versions));
    write_versions_text(&versions, text);
    assert_int_equal(strlen(text), WRITE_VERSIONS_MAX * (LONGEST + 1) + 1);
    assert_true(write_if_match("\"x\"", &versions));
    assert_false(write_if_match("\"1\"", &versions));
}

/* ---- other headers ---- */

TEST(a_key_is_a_bare_or_quoted_word_of_64_characters_at_most)
{
    static const char longest[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789ABCDEF";
    char key[WRITE_KEY_SIZE], longer[WRITE_KEY_SIZE + 1];

    snprintf(longer, sizeof(longer), "%sx", longest);
    assert_true(write_key_parse("order-7.a_b:c", key));
    assert_string_equal(key, "order-7.a_b:c");
    assert_true(write_key_parse("\"order-7\"", key));
    assert_string_equal(key, "order-7");
    assert_true(write_key_parse(longest, key));
    assert_string_equal(key, longest);
    static const char *const wrong[] = {"", "\"\"", "\"a", "a\"", "a b", "a'", "\"a\"b", "\xc3\xa9"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(write_key_parse(wrong[i], key));
    assert_false(write_key_parse(longer, key));
}

TEST(only_json_in_utf_8_is_taken)
{
    static const char *const right[] = {"application/json", "Application/JSON",
                                        "application/json;charset=UTF-8",
                                        "application/json ; charset=\"utf-8\""};
    static const char *const wrong[] = {"",
                                        "text/json",
                                        "application/jsonp",
                                        "application/json; charset=latin1",
                                        "application/json;",
                                        "application/json, text/plain",
                                        "application/x-www-form-urlencoded"};

    for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++)
        assert_true(write_type_is_json(right[i]));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(write_type_is_json(wrong[i]));
}

/* ---- bodies ---- */

static enum write_outcome parse(enum write_kind kind, const char *body, struct write_fields *fields,
                                char *errors)
{
    return write_fields_parse(kind, body, strlen(body), fields, errors);
}

TEST(a_whole_product_is_taken)
{
    struct write_fields fields;
    char errors[WRITE_ERRORS_BYTES];

    assert_int_equal(parse(WRITE_PRODUCT,
                           "{\"name\":\"T\u00e9a\",\"description\":\"\",\"price_cents\":100000000000,"
                           "\"stock\":2147483647,\"category_id\":999999999999999999}",
                           &fields, errors),
                     WRITE_DONE);
    assert_string_equal(fields.name, "T\u00e9a");
    assert_string_equal(fields.description, "");
    assert_int_equal(fields.price_cents, INT64_C(100000000000));
    assert_int_equal(fields.stock, INT32_MAX);
    assert_int_equal(fields.category_id, INT64_C(999999999999999999));
    write_fields_clear(&fields);
    assert_int_equal(parse(WRITE_PRODUCT,
                           " {\"stock\":0,\"price_cents\":0,\"description\":\"d\",\"name\":\"n\"} ", &fields,
                           errors),
                     WRITE_DONE);
    assert_int_equal(fields.category_id, 0);
    write_fields_clear(&fields);
}

#define REST ",\"description\":\"\",\"price_cents\":1,\"stock\":1"
#define PRODUCT "\"name\":\"n\"" REST

TEST(every_wrong_field_is_named)
{
    static const struct {
        enum write_kind kind;
        const char *body, *named; /* in the order of the fields */
    } cases[] = {
        {WRITE_PRODUCT, "{}", "name description price_cents stock "},
        {WRITE_PRODUCT, "{\"name\":\"\"" REST "}", "name "},
        {WRITE_PRODUCT, "{\"name\":null" REST "}", "name "},
        {WRITE_PRODUCT, "{\"name\":7" REST "}", "name "},
        {WRITE_PRODUCT, "{\"name\":[\"n\"]" REST "}", "name "},
        {WRITE_PRODUCT, "{\"Name\":\"n\"" REST "}", "name Name "},
        {WRITE_PRODUCT, "{\"name\":\"n\",\"description\":\"\",\"price_cents\":-1,\"stock\":-1}",
         "price_cents stock "},
        {WRITE_PRODUCT,
         "{\"name\":\"n\",\"description\":\"\",\"price_cents\":100000000001,\"stock\":2147483648}",
         "price_cents stock "},
        {WRITE_PRODUCT, "{\"name\":\"n\",\"description\":\"\",\"price_cents\":1.0,\"stock\":1e3}",
         "price_cents stock "},
        {WRITE_PRODUCT, "{\"name\":\"n\",\"description\":\"\",\"price_cents\":\"1\",\"stock\":true}",
         "price_cents stock "},
        {WRITE_PRODUCT, "{" PRODUCT ",\"category_id\":0}", "category_id "},
        {WRITE_PRODUCT, "{" PRODUCT ",\"category_id\":null}", "category_id "},
        {WRITE_PRODUCT, "{" PRODUCT ",\"version\":7}", "version "},
        {WRITE_PRODUCT, "{" PRODUCT ",\"\\\"}\":7}", "(not shown) "},
        {WRITE_PRODUCT, "{" PRODUCT ",\"\":7}", "(not shown) "},
        {WRITE_PURCHASE, "{}", "quantity "},
        {WRITE_PURCHASE, "{\"quantity\":0}", "quantity "},
        {WRITE_PURCHASE, "{\"quantity\":2147483648}", "quantity "},
        {WRITE_PURCHASE, "{\"quantity\":1,\"price_cents\":1}", "price_cents "},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct write_fields fields;
        char errors[WRITE_ERRORS_BYTES], list[WRITE_ERRORS_BYTES + 2], named[256] = "";

        assert_int_equal(parse(cases[i].kind, cases[i].body, &fields, errors), WRITE_BAD_FIELDS);
        snprintf(list, sizeof(list), "[%s]", errors);
        json_t *json = json_loads(list, 0, NULL);
        assert_non_null(json);
        for (size_t j = 0; j < json_array_size(json); j++) {
            strcat(named, json_string_value(json_object_get(json_array_get(json, j), "field")));
            strcat(named, " ");
        }
        json_decref(json);
        if (strcmp(named, cases[i].named) != 0)
            fail_msg("%s: %s", cases[i].body, errors);
    }
}

TEST(what_is_no_object_in_json_is_no_body)
{
    static const char *const bodies[] = {
        "",
        " ",
        "{",
        "{}x",
        "[]",
        "7",
        "null",
        "\"name\"",
        "{\"name\":}",
        "{\"name\":\"a\",\"name\":\"b\"}",
        "{\"name\":\"a\\u0000b\"}",
        "{\"name\":\"\xff\"}",
        "{\"quantity\":99999999999999999999}",
        "{'name':1}",
        "{\"name\":\"\\ud800\"}",
        "\xef\xbb\xbf{}",
    };

    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        struct write_fields fields;
        char errors[WRITE_ERRORS_BYTES];

        if (parse(WRITE_PRODUCT, bodies[i], &fields, errors) != WRITE_BAD_BODY || errors[0] == '\0')
            fail_msg("%s", bodies[i]);
    }
}

/* jansson goes down as far as it is led; it gives up before the stack does. */
TEST(a_body_of_nothing_but_brackets_is_refused)
{
    struct write_fields fields;
    char errors[WRITE_ERRORS_BYTES];
    char *body = malloc(WRITE_BODY_BYTES_MAX);

    assert_non_null(body);
    memset(body, '[', WRITE_BODY_BYTES_MAX);
    assert_int_equal(write_fields_parse(WRITE_PRODUCT, body, WRITE_BODY_BYTES_MAX, &fields, errors),
                     WRITE_BAD_BODY);
    free(body);
}

/* Texts are as long as PostgreSQL finds them, and the longest fits the limit of a body however it is written. */
TEST(texts_are_measured_in_characters)
{
    enum { NAME = 200, DESCRIPTION = 20000 };
    static const char letter[] = "\\u00e9";
    struct write_fields fields;
    char errors[WRITE_ERRORS_BYTES];
    char *body = malloc(WRITE_BODY_BYTES_MAX);

    assert_non_null(body);
    for (int more = 0; more <= 1; more++) {
        size_t used = (size_t)sprintf(body, "{\"price_cents\":1,\"stock\":1,\"name\":\"");
        for (int i = 0; i < NAME + more; i++)
            used += (size_t)sprintf(body + used, "%s", letter);
        used += (size_t)sprintf(body + used, "\",\"description\":\"");
        for (int i = 0; i < DESCRIPTION + more; i++)
            used += (size_t)sprintf(body + used, "%s", letter);
        used += (size_t)sprintf(body + used, "\"}");
        assert_in_range(used, 1, WRITE_BODY_BYTES_MAX - 1);
        assert_int_equal(parse(WRITE_PRODUCT, body, &fields, errors), more ? WRITE_BAD_FIELDS : WRITE_DONE);
        if (more)
            assert_true(strstr(errors, "\"name\"") != NULL && strstr(errors, "\"description\"") != NULL);
        else
            write_fields_clear(&fields);
    }
    free(body);
}

TEST(more_wrong_fields_than_fit_are_left_out_whole)
{
    struct write_fields fields;
    char errors[WRITE_ERRORS_BYTES], list[WRITE_ERRORS_BYTES + 2], body[4096] = "{";

    for (size_t i = 0; i < 100; i++)
        snprintf(body + strlen(body), sizeof(body) - strlen(body), "\"unknown_field_%zu\":1,", i);
    strcpy(body + strlen(body) - 1, "}");
    assert_int_equal(parse(WRITE_PRODUCT, body, &fields, errors), WRITE_BAD_FIELDS);
    snprintf(list, sizeof(list), "[%s]", errors);
    json_t *json = json_loads(list, 0, NULL);
    assert_non_null(json);
    assert_in_range(json_array_size(json), 4, 100);
    json_decref(json);
}

/* ---- answers ---- */

static struct answer answer_to(enum write_outcome outcome)
{
    struct write_result result = {.outcome = outcome, .version = 8, .stock = 3, .visible = true};
    struct answer answer;

    if (outcome == WRITE_BAD_FIELDS)
        write_error_add(result.errors, "stock", "a whole number");
    upload_answer(&result, WRITE_PURCHASE, 7, "/products/7/purchase", &answer);
    return answer;
}

TEST(every_outcome_has_its_status)
{
    static const unsigned statuses[WRITE_OUTCOME_COUNT] = {
        [WRITE_DONE] = 200,     [WRITE_REPEATED] = 200,   [WRITE_ABSENT] = 404,   [WRITE_CONFLICT] = 412,
        [WRITE_SOLD_OUT] = 409, [WRITE_KEY_REUSED] = 422, [WRITE_BAD_BODY] = 400, [WRITE_BAD_FIELDS] = 422,
        [WRITE_SHED] = 503,     [WRITE_FAILED] = 503,     [WRITE_TIMEOUT] = 503,  [WRITE_REFUSED] = 500,
        [WRITE_UNKNOWN] = 502,  [WRITE_CLOSING] = 503,
    };

    for (size_t i = 0; i < WRITE_OUTCOME_COUNT; i++) {
        const struct answer answer = answer_to((enum write_outcome)i);
        json_t *json = json_loads(answer.text, 0, NULL);

        assert_non_null(json);
        assert_int_equal(answer.status, statuses[i]);
        assert_int_equal(answer.text_bytes, strlen(answer.text));
        assert_string_equal(answer.retry_after, answer.status == 503 ? "1" : "");
        assert_string_equal(answer.cache_status, "");
        assert_int_equal(answer.close, i == WRITE_CLOSING);
        assert_non_null(write_outcome_name((enum write_outcome)i));
        if (answer.status != 200)
            assert_int_equal(json_integer_value(json_object_get(json, "status")), answer.status);
        json_decref(json);
    }
    assert_non_null(strstr(answer_to(WRITE_SOLD_OUT).text, "\"stock\":3"));
    assert_non_null(strstr(answer_to(WRITE_BAD_FIELDS).text, "\"errors\":[{\"field\":\"stock\""));
}

TEST(a_changed_product_is_answered_with_the_tag_that_get_will_give)
{
    const struct write_result result = {.outcome = WRITE_DONE, .version = 8, .validator = "8-a.b.c.d"};
    struct answer answer;

    upload_answer(&result, WRITE_PRODUCT, 7, "/products/7", &answer);
    assert_string_equal(answer.etag, "\"8-a.b.c.d\"");
    assert_string_equal(answer.text, "{\"id\":7,\"version\":8,\"repeated\":false,\"visible\":false}\n");
    assert_string_equal(answer.cache_control, "no-store");
    assert_string_equal(answer_to(WRITE_DONE).etag, "");
}
