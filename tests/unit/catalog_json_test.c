/* SPDX-License-Identifier: MIT */
/* catalog_json_test.c - documents out of rows, good ones and such as no database should return. */
#include "app/catalog/catalog_json.h"

#include "app/catalog/catalog.h"
#include "tests/support/test.h"

enum { ROWS_BYTES = 1 << 20 };

static struct rows rows;
static struct catalog_document document;

static bool begin(void)
{
    rows_init(&rows, ROWS_BYTES);
    return true;
}

static bool end(void)
{
    rows_clear(&rows);
    return true;
}

static void add_row(const char *const *cells)
{
    for (size_t i = 0; i < rows.column_count; i++) {
        assert_true(rows_add(&rows, cells[i], cells[i] != NULL ? strlen(cells[i]) : 0));
    }
}

static void one_row(size_t column_count, const char *const *cells)
{
    rows_reset(&rows, column_count);
    add_row(cells);
}

enum { PRODUCT_CELLS = 15, CATEGORY_CELLS = 13, TREE_CELLS = 4 };

static const char *const product[PRODUCT_CELLS] = {
    "7",  "AB-7", "Tee \"grün\"", "水\nx", "1999", "3",    "12",        "2024-01-01T00:00:00.000000Z",
    "30", "leaf", "20",           "mid",   "10",   "root", "12-a.b.c.d"};

TEST(a_product_has_its_path_and_the_validator_of_its_row)
{
    one_row(PRODUCT_CELLS, product);
    assert_int_equal(catalog_json_product(&rows, &document), CATALOG_JSON_OK);
    assert_string_equal(document.body,
                        "{\"id\":7,\"category_id\":30,\"path\":[{\"id\":10,\"name\":\"root\"},"
                        "{\"id\":20,\"name\":\"mid\"},{\"id\":30,\"name\":\"leaf\"}],\"sku\":\"AB-7\","
                        "\"name\":\"Tee \\\"grün\\\"\",\"description\":\"水\\nx\",\"price_cents\":1999,"
                        "\"stock\":3,\"version\":12,\"updated_at\":\"2024-01-01T00:00:00.000000Z\"}");
    assert_int_equal(document.body_bytes, strlen(document.body));
    assert_string_equal(document.validator, "12-a.b.c.d");
    catalog_document_clear(&document);
}

TEST(a_product_is_unchanged_if_nothing_came_but_its_validator)
{
    static const char *const known[PRODUCT_CELLS] = {[0] = "7", [14] = "12-a.b.c.d"};
    static const char *const absent[PRODUCT_CELLS] = {NULL};
    one_row(PRODUCT_CELLS, known);
    assert_true(catalog_json_product_unchanged(&rows, "12-a.b.c.d"));
    assert_false(catalog_json_product_unchanged(&rows, "12-a.b.c.e"));
    assert_false(catalog_json_product_unchanged(&rows, ""));
    one_row(PRODUCT_CELLS, product); /* a whole row, though its validator is the known one */
    assert_false(catalog_json_product_unchanged(&rows, "12-a.b.c.d"));
    one_row(PRODUCT_CELLS, absent);
    assert_false(catalog_json_product_unchanged(&rows, "12-a.b.c.d"));
    for (size_t column = 1; column < PRODUCT_CELLS; column++) {
        const char *cells[PRODUCT_CELLS];
        memcpy(cells, known, sizeof cells);
        cells[column] = column == 14 ? NULL : "x";
        one_row(PRODUCT_CELLS, cells);
        assert_false(catalog_json_product_unchanged(&rows, "12-a.b.c.d"));
    }
}

TEST(the_path_of_a_document_is_every_category_that_it_shows, P77)
{
    static const char *const middle[CATEGORY_CELLS] = {"20", "mid", "2", "10", "root"};
    static const char *const tree[TREE_CELLS] = {"1", "1", "a", "0"};
    const char *ids[CATALOG_PATH_MAX];
    one_row(PRODUCT_CELLS, product);
    assert_int_equal(catalog_json_path(&rows, 0, ids), 3);
    assert_string_equal(ids[0], "10");
    assert_string_equal(ids[1], "20");
    assert_string_equal(ids[2], "30");
    assert_int_equal(catalog_json_path(&rows, 1, ids), 0);
    one_row(CATEGORY_CELLS, middle);
    assert_int_equal(catalog_json_path(&rows, 0, ids), 2);
    assert_string_equal(ids[0], "10");
    assert_string_equal(ids[1], "20");
    one_row(TREE_CELLS, tree);
    assert_int_equal(catalog_json_path(&rows, 0, ids), 0);
}

TEST(a_null_id_is_an_absent_row)
{
    static const char *const nothing[PRODUCT_CELLS] = {NULL};
    one_row(PRODUCT_CELLS, nothing);
    assert_int_equal(catalog_json_product(&rows, &document), CATALOG_JSON_ABSENT);
    one_row(CATEGORY_CELLS, nothing);
    assert_int_equal(catalog_json_category(&rows, &document), CATALOG_JSON_ABSENT);
}

TEST(a_row_that_is_no_document_is_broken_whichever_column_it_is, P63)
{
    static const char *const bad_texts[] = {NULL, "\xff\xfe", "a\xc3"};
    static const char *const bad_numbers[] = {NULL, "NaN", "Infinity", "1.5", "", "99999999999999999999",
                                              "7x"};
    static const bool is_number[PRODUCT_CELLS] = {
        [0] = true, [4] = true, [5] = true, [6] = true, [8] = true, [10] = true, [12] = true};
    for (size_t column = 0; column < PRODUCT_CELLS; column++) {
        const char *const *bad = is_number[column] ? bad_numbers : bad_texts;
        size_t count = is_number[column] ? sizeof bad_numbers / sizeof bad_numbers[0]
                                         : sizeof bad_texts / sizeof bad_texts[0];
        for (size_t i = 0; i < count; i++) {
            const char *cells[PRODUCT_CELLS];
            memcpy(cells, product, sizeof cells);
            cells[column] = bad[i];
            if (bad[i] == NULL && (column == 0 || column >= 8) && is_number[column]) {
                continue; /* a NULL id is an answer: absent, or a level that is not there */
            }
            one_row(PRODUCT_CELLS, cells);
            assert_int_equal(catalog_json_product(&rows, &document), CATALOG_JSON_BROKEN);
        }
    }
}

TEST(rows_of_another_statement_are_broken)
{
    one_row(1, product);
    assert_int_equal(catalog_json_product(&rows, &document), CATALOG_JSON_BROKEN);
    assert_int_equal(catalog_json_category(&rows, &document), CATALOG_JSON_BROKEN);
    assert_int_equal(catalog_json_tree(&rows, &document), CATALOG_JSON_BROKEN);
    rows_reset(&rows, PRODUCT_CELLS);
    assert_int_equal(catalog_json_product(&rows, &document), CATALOG_JSON_BROKEN);
}

/* ---- the tree ---- */

static enum catalog_json_verdict build_tree(const char *const cells[][TREE_CELLS], size_t count)
{
    rows_reset(&rows, TREE_CELLS);
    for (size_t i = 0; i < count; i++) {
        add_row(cells[i]);
    }
    return catalog_json_tree(&rows, &document);
}

TEST(the_tree_nests_three_levels_and_counts_upwards)
{
    static const char *const cells[][TREE_CELLS] = {
        {"1", "1", "a", "0"},   {"3", "2", "aa", "0"}, {"5", "3", "aaa", "4"},
        {"6", "3", "aab", "2"}, {"4", "2", "ab", "0"}, {"2", "1", "b", "0"},
    };
    assert_int_equal(build_tree(cells, 6), CATALOG_JSON_OK);
    assert_string_equal(
        document.body,
        "{\"categories\":[{\"id\":1,\"name\":\"a\",\"product_count\":6,\"children\":["
        "{\"id\":3,\"name\":\"aa\",\"product_count\":6,\"children\":[{\"id\":5,\"name\":\"aaa\",\"product_"
        "count\":4},"
        "{\"id\":6,\"name\":\"aab\",\"product_count\":2}]},{\"id\":4,\"name\":\"ab\",\"product_count\":0,"
        "\"children\":[]}]},{\"id\":2,\"name\":\"b\",\"product_count\":0,\"children\":[]}]}");
    assert_int_equal(strlen(document.validator), 16);
    assert_int_equal(strspn(document.validator, "0123456789abcdef"), 16);
    catalog_document_clear(&document);
}

TEST(an_empty_database_has_an_empty_tree)
{
    static const char *const cells[][TREE_CELLS] = {{NULL, NULL, NULL, "0"}};
    assert_int_equal(build_tree(cells, 1), CATALOG_JSON_OK);
    assert_string_equal(document.body, "{\"categories\":[]}");
    catalog_document_clear(&document);
}

TEST(a_node_without_its_parent_breaks_the_tree)
{
    static const char *const orphans[][2][TREE_CELLS] = {
        {{"1", "2", "a", "0"}, {"2", "1", "b", "0"}},  {{"1", "1", "a", "0"}, {"2", "3", "b", "0"}},
        {{"1", "1", "a", "0"}, {"2", "4", "b", "0"}},  {{"1", "1", "a", "0"}, {"2", "0", "b", "0"}},
        {{"1", "1", "a", "0"}, {"2", NULL, "b", "0"}}, {{"1", "1", "a", "0"}, {NULL, "2", "b", "0"}},
        {{"1", "11", "a", "0"}, {"2", "1", "b", "0"}},
    };
    for (size_t i = 0; i < sizeof orphans / sizeof orphans[0]; i++) {
        assert_int_equal(build_tree(orphans[i], 2), CATALOG_JSON_BROKEN);
    }
}

/* ---- a category ---- */

static void category_of(size_t product_count)
{
    rows_reset(&rows, CATEGORY_CELLS);
    for (size_t i = 0; i < product_count; i++) {
        char id[16];
        snprintf(id, sizeof id, "%zu", 100 + i);
        const char *const cells[CATEGORY_CELLS] = {"30",      "leaf", "3",    "20",  "mid", "10", "root",
                                                   "product", id,     "name", "SKU", "5",   "0"};
        add_row(cells);
    }
}

TEST(a_full_page_names_the_next_one_only_if_there_is_more)
{
    static const struct {
        size_t product_count;
        const char *ends;
    } cases[] = {
        {1, "\"stock\":0}],\"next\":null}"},
        {CATALOG_PAGE_PRODUCTS, "\"stock\":0}],\"next\":null}"},
        {CATALOG_PAGE_PRODUCTS + 1, "\"stock\":0}],\"next\":\"/categories/30?after=149\"}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        category_of(cases[i].product_count);
        assert_int_equal(catalog_json_category(&rows, &document), CATALOG_JSON_OK);
        assert_string_equal(document.body + document.body_bytes - strlen(cases[i].ends), cases[i].ends);
        assert_null(strstr(document.body, "\"id\":150"));
        catalog_document_clear(&document);
    }
}

TEST(a_category_above_has_children_and_one_without_anything_is_no_error)
{
    static const char *const parent[CATEGORY_CELLS] = {"10",    "root", "1",   NULL, NULL, NULL, NULL,
                                                       "child", "20",   "mid", NULL, NULL, NULL};
    static const char *const empty[CATEGORY_CELLS] = {"30", "leaf", "3", "20", "mid", "10", "root"};
    one_row(CATEGORY_CELLS, parent);
    assert_int_equal(catalog_json_category(&rows, &document), CATALOG_JSON_OK);
    assert_string_equal(document.body,
                        "{\"id\":10,\"level\":1,\"name\":\"root\",\"path\":[{\"id\":10,\"name\":"
                        "\"root\"}],\"children\":[{\"id\":20,\"name\":\"mid\"}],\"products\":[],"
                        "\"next\":null}");
    catalog_document_clear(&document);
    one_row(CATEGORY_CELLS, empty);
    assert_int_equal(catalog_json_category(&rows, &document), CATALOG_JSON_OK);
    assert_non_null(strstr(document.body, "\"children\":[],\"products\":[],\"next\":null}"));
    catalog_document_clear(&document);
}

TEST(the_same_rows_make_the_same_validator_and_others_another)
{
    struct catalog_document first, second, other;
    category_of(3);
    assert_int_equal(catalog_json_category(&rows, &first), CATALOG_JSON_OK);
    assert_int_equal(catalog_json_category(&rows, &second), CATALOG_JSON_OK);
    category_of(4);
    assert_int_equal(catalog_json_category(&rows, &other), CATALOG_JSON_OK);
    assert_string_equal(first.validator, second.validator);
    assert_string_not_equal(first.validator, other.validator);
    catalog_document_clear(&first);
    catalog_document_clear(&second);
    catalog_document_clear(&other);
}

TEST_GROUP(.before = begin, .after = end);
