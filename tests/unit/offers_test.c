/* SPDX-License-Identifier: MIT */
/* offers_test.c - who may see an offer and for how long it is kept, by the rows alone; and the token that says
 * who. */
#include "app/catalog/asker.h"
#include "app/catalog/catalog_json.h"
#include "tests/support/test.h"

enum { ROWS_BYTES = 1 << 16, CELLS = 7 };

static void add_row(struct rows *rows, const char *const cells[CELLS])
{
    for (size_t i = 0; i < CELLS; i++)
        assert_true(rows_add(rows, cells[i], cells[i] != NULL ? strlen(cells[i]) : 0));
}

/* is_personal, left_ms, client, id, price_cents, valid_until, is_own */
static void one_row(struct rows *rows, const char *const cells[CELLS])
{
    rows_init(rows, ROWS_BYTES);
    rows_reset(rows, CELLS);
    add_row(rows, cells);
}

static const char *const FOR_ALL[CELLS] = {"f", "30000", NULL, "5", "900", "2026-01-01T00:00:00Z", "f"};
static const char *const FOR_ONE[CELLS] = {"t", "30000", "Kontor", "6", "800", "2026-01-01T00:00:00Z", "t"};
static const char *const FOR_OTHERS[CELLS] = {"t", "30000", NULL, NULL, NULL, NULL, "f"};
static const char *const NOT_YET[CELLS] = {"f", "2000", NULL, NULL, NULL, NULL, "f"};
static const char *const NEVER[CELLS] = {"f", "86400000", NULL, NULL, NULL, NULL, "f"};

static struct guard_keep kept(const char *const cells[CELLS], uint64_t elapsed_ms, bool may_store)
{
    const struct offers_rules rules = {
        .fresh_ms = 60000, .absent_ms = 10000, .elapsed_ms = elapsed_ms, .may_store = may_store};
    struct guard_keep keep = {.how = GUARD_STORE};
    struct rows rows;
    one_row(&rows, cells);
    assert_true(offers_keep(&rows, &rules, &keep));
    rows_clear(&rows);
    assert_int_equal(keep.stale_ms, 0);
    return keep;
}

TEST(an_offer_for_all_is_stored_until_it_ends_and_no_longer_than_the_policy_says)
{
    assert_int_equal(kept(FOR_ALL, 0, true).how, GUARD_STORE);
    assert_int_equal(kept(FOR_ALL, 0, true).fresh_ms, 30000);
    assert_int_equal(kept(FOR_ALL, 29999, true).fresh_ms, 1); /* the load took that long */
    const char *const later[CELLS] = {"f", "86400000", NULL, "5", "900", "2026-01-01T00:00:00Z", "f"};
    assert_int_equal(kept(later, 0, true).fresh_ms, 60000);
}

TEST(what_has_ended_during_its_load_answers_who_waits_and_is_not_stored)
{
    assert_int_equal(kept(FOR_ALL, 30000, true).fresh_ms, 0);
    assert_int_equal(kept(FOR_ALL, 99999, true).fresh_ms, 0);
}

TEST(absence_is_kept_until_the_next_offer_begins)
{
    assert_int_equal(kept(NOT_YET, 0, true).fresh_ms, 2000);
    assert_int_equal(kept(NEVER, 0, true).fresh_ms, 10000);
}

TEST(what_a_client_sees_is_passed_also_if_it_has_no_offer_of_its_own)
{
    assert_int_equal(kept(FOR_ONE, 0, true).how, GUARD_PASS);
    assert_int_equal(kept(FOR_ONE, 0, true).pass_ms, 30000);
    assert_int_equal(kept(FOR_OTHERS, 0, true).how, GUARD_PASS);
    assert_int_equal(kept(FOR_OTHERS, 40000, true).pass_ms, 1);
}

/* What is not stored still answers all who wait for it: what is for one client must be passed even so. */
TEST(a_cache_that_may_store_nothing_passes_what_is_for_one_client)
{
    assert_int_equal(kept(FOR_ALL, 0, false).how, GUARD_STORE);
    assert_int_equal(kept(FOR_ALL, 0, false).fresh_ms, 0);
    assert_int_equal(kept(FOR_ONE, 0, false).how, GUARD_PASS);
    assert_int_equal(kept(FOR_OTHERS, 0, false).how, GUARD_PASS);
}

TEST(rows_that_are_not_these_decide_nothing)
{
    static const char *const wrong[][CELLS] = {{NULL, "1", NULL, NULL, NULL, NULL, "f"},
                                               {"f", "-1", NULL, "5", "900", "x", "f"},
                                               {"f", "soon"},
                                               {"f", NULL}};
    const struct offers_rules rules = {.fresh_ms = 1};
    struct guard_keep keep;
    struct rows rows;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        one_row(&rows, wrong[i]);
        assert_false(offers_keep(&rows, &rules, &keep));
        rows_clear(&rows);
    }
    rows_init(&rows, ROWS_BYTES);
    rows_reset(&rows, CELLS);
    assert_false(offers_keep(&rows, &rules, &keep));
    rows_reset(&rows, CELLS - 1);
    assert_false(offers_keep(&rows, &rules, &keep));
    rows_clear(&rows);
}

/* ---- documents ---- */

static void assert_document(const char *const cells[CELLS], enum catalog_json_verdict verdict,
                            const char *body, bool has_validator)
{
    struct catalog_document document = {.body = NULL};
    struct rows rows;
    one_row(&rows, cells);
    assert_int_equal(catalog_json_offers(&rows, &document), verdict);
    if (verdict == CATALOG_JSON_OK) {
        assert_string_equal(document.body, body);
        assert_int_equal(document.validator[0] != '\0', has_validator);
        catalog_document_clear(&document);
    }
    rows_clear(&rows);
}

TEST(a_document_names_a_client_only_if_it_is_for_one)
{
    assert_document(FOR_ALL, CATALOG_JSON_OK,
                    "{\"client\":null,\"offers\":[{\"id\":5,\"price_cents\":900,"
                    "\"valid_until\":\"2026-01-01T00:00:00Z\",\"own\":false}]}",
                    true);
    assert_document(FOR_ONE, CATALOG_JSON_OK,
                    "{\"client\":\"Kontor\",\"offers\":[{\"id\":6,\"price_cents\":800,"
                    "\"valid_until\":\"2026-01-01T00:00:00Z\",\"own\":true}]}",
                    false);
    assert_document(FOR_OTHERS, CATALOG_JSON_OK, "{\"client\":null,\"offers\":[]}", false);
    assert_document(NEVER, CATALOG_JSON_ABSENT, NULL, false);
    const char *const half[CELLS] = {"f", "1", NULL, "5", NULL, "x", "f"};
    assert_document(half, CATALOG_JSON_BROKEN, NULL, false);
}

/* ---- the token ---- */

static void assert_token(const char *authorization, const char *token)
{
    struct asker *asker = asker_new(authorization, &(struct trace){.request = ""});
    assert_string_equal(asker_token(asker), token);
    asker_ref(asker);
    asker_unref(asker);
    assert_string_equal(asker_token(asker), token);
    asker_unref(asker);
}

TEST(only_a_sound_token_says_who_asks)
{
    char longest[sizeof "Bearer " + ASKER_TOKEN_MAX + 1] = "Bearer ";
    assert_token("Bearer abc.DEF-1", "abc.DEF-1");
    assert_token("bearer x", "x");
    assert_token("Bearer   x", "x"); /* RFC 9110: one space or more */
    assert_token(NULL, "");
    assert_token("", "");
    assert_token("Bearer ", "");
    assert_token("Basic abc", "");
    assert_token("Bearer a b", "");
    assert_token("Bearer a\x7f", "");
    assert_token("Bearer \xc3\xa4", "");
    memset(longest + 7, 'x', ASKER_TOKEN_MAX);
    assert_token(longest, longest + 7);
    longest[7 + ASKER_TOKEN_MAX] = 'x';
    longest[8 + ASKER_TOKEN_MAX] = '\0';
    assert_token(longest, "");
}
