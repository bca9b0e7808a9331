/* SPDX-License-Identifier: MIT */
/*
 * route_test.c - what a request target asks for, and which keys an operator may name.
 */
#include "app/http/route.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_key(const char *uri, enum route_target target, const char *key)
{
    char text[DOCUMENT_KEY_SIZE];
    struct route route;

    assert_int_equal(route_parse(uri, &route), ROUTE_OK);
    assert_int_equal(route.target, target);
    assert_int_equal(route_key(&route, text), strlen(key));
    assert_string_equal(text, key);
    assert_int_equal(document_key_valid(key), key[0] != '\0');
}

static void assert_refused(const char *uri, enum route_verdict verdict)
{
    struct route route;

    assert_int_equal(route_parse(uri, &route), verdict);
}

static void every_path_of_ours_has_one_key(void **state)
{
    (void)state;
    assert_key("/catalog", ROUTE_CATALOG, "catalog");
    assert_key("/categories/1", ROUTE_CATEGORY, "category:1");
    assert_key("/categories/12?after=345", ROUTE_CATEGORY, "category:12:after:345");
    assert_key("/products/7", ROUTE_PRODUCT, "product:7");
    assert_key("/ping", ROUTE_PING, "");
    assert_key("/products/7/purchase", ROUTE_PURCHASE, "");
}

static void the_longest_ids_fit_into_a_key(void **state)
{
    (void)state;
    assert_key("/categories/999999999999999999?after=999999999999999999", ROUTE_CATEGORY,
               "category:999999999999999999:after:999999999999999999");
}

static void the_absolute_form_means_the_same(void **state)
{
    (void)state;
    assert_key("http://shop.example:8080/products/7", ROUTE_PRODUCT, "product:7");
    assert_key("HTTP://shop.example/categories/3?after=4", ROUTE_CATEGORY, "category:3:after:4");
    assert_refused("http://shop.example", ROUTE_UNKNOWN);
    assert_refused("http://shop.example?/catalog", ROUTE_UNKNOWN);
    assert_refused("https://shop.example/catalog", ROUTE_UNKNOWN);
}

static void an_id_has_one_spelling(void **state)
{
    static const char *const ids[] = {"",
                                      "0",
                                      "00",
                                      "042",
                                      "-1",
                                      "+1",
                                      "1e3",
                                      "1.0",
                                      "0x7",
                                      " 7",
                                      "7 ",
                                      "७",
                                      "7;8",
                                      "7#a",
                                      "1000000000000000000",
                                      "99999999999999999999",
                                      "18446744073709551617"};
    char uri[64];

    (void)state;
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        strcpy(uri, "/products/");
        assert_refused(strcat(uri, ids[i]), ROUTE_BAD_ID);
        strcpy(uri, "/categories/");
        assert_refused(strcat(uri, ids[i]), ROUTE_BAD_ID);
        strcpy(uri, "/categories/7?after=");
        assert_refused(strcat(uri, ids[i]), ROUTE_BAD_QUERY);
    }
}

static void nothing_percent_encoded_is_accepted(void **state)
{
    (void)state;
    assert_refused("/products/%37", ROUTE_ENCODED);
    assert_refused("/products/7%00", ROUTE_ENCODED);
    assert_refused("/%63atalog", ROUTE_ENCODED);
    assert_refused("/categories/7?after=%38", ROUTE_ENCODED);
    assert_refused("/nowhere%", ROUTE_ENCODED);
}

static void a_purchase_hangs_on_a_product_and_on_nothing_else(void **state)
{
    (void)state;
    assert_refused("/products/7/purchase/", ROUTE_UNKNOWN);
    assert_refused("/products/7/purchases", ROUTE_UNKNOWN);
    assert_refused("/products//purchase", ROUTE_BAD_ID);
    assert_refused("/products/07/purchase", ROUTE_BAD_ID);
    assert_refused("/products/7/purchase?x", ROUTE_BAD_QUERY);
    assert_refused("/categories/7/purchase", ROUTE_UNKNOWN);
}

static void a_path_is_matched_whole(void **state)
{
    static const char *const paths[] = {"",
                                        "/",
                                        "*",
                                        "catalog",
                                        "/catalo",
                                        "/catalog/",
                                        "/catalogue",
                                        "//catalog",
                                        "/Catalog",
                                        "/product/7",
                                        "/products/7/",
                                        "/products//7",
                                        "/products/7/8",
                                        "/categories",
                                        "/ping/",
                                        "/./catalog",
                                        "/products/../catalog"};

    (void)state;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        assert_refused(paths[i], ROUTE_UNKNOWN);
}

static void only_a_category_takes_a_query_and_only_after(void **state)
{
    static const char *const uris[] = {"/catalog?",
                                       "/catalog?a=1",
                                       "/products/7?after=1",
                                       "/ping?",
                                       "/categories/7?",
                                       "/categories/7?after",
                                       "/categories/7?after=1&after=2",
                                       "/categories/7?after=1&",
                                       "/categories/7?b=1",
                                       "/categories/7?After=1",
                                       "/categories/7?after=1?after=2"};

    (void)state;
    for (size_t i = 0; i < sizeof(uris) / sizeof(uris[0]); i++)
        assert_refused(uris[i], ROUTE_BAD_QUERY);
}

static void a_refused_request_is_still_counted_under_its_route(void **state)
{
    struct route route;

    (void)state;
    route_parse("/products/042", &route);
    assert_int_equal(route.target, ROUTE_PRODUCT);
    route_parse("/categories/7?x", &route);
    assert_int_equal(route.target, ROUTE_CATEGORY);
    route_parse("/elsewhere", &route);
    assert_int_equal(route.target, ROUTE_OTHER);
    assert_string_equal(route_target_name(route.target), "other");
}

static void many_products_are_named_in_one_list(void **state)
{
    struct route_ids ids;
    struct route route;

    (void)state;
    assert_int_equal(route_parse("/products?ids=3,1,7", &route), ROUTE_OK);
    assert_int_equal(route.target, ROUTE_PRODUCTS);
    assert_int_equal(route_ids("/products?ids=3,1,7", &ids), ROUTE_OK);
    assert_int_equal(ids.count, 3);
    assert_int_equal(ids.ids[0], 3);
    assert_int_equal(ids.ids[2], 7);
    assert_int_equal(route_ids("http://shop.example/products?ids=999999999999999999", &ids), ROUTE_OK);
    assert_int_equal(ids.ids[0], 999999999999999999);
    assert_string_equal(route_target_name(ROUTE_PRODUCTS), "products");
}

static void a_list_says_which_of_its_ids_is_wrong(void **state)
{
    static const struct {
        const char *list;
        uint32_t place;
        const char *bad;
    } lists[] = {{"", 1, ""},
                 {"0", 1, "0"},
                 {"7,", 2, ""},
                 {",7", 1, ""},
                 {"7,,8", 2, ""},
                 {"7,08", 2, "08"},
                 {"7,8,7", 3, "7"},
                 {"1,2,x", 3, "x"},
                 {"1 ,2", 1, "1 "},
                 {"7&ids=8", 1, "7&ids=8"},
                 {"7?ids=8", 1, "7?ids=8"},
                 {"1;2", 1, "1;2"},
                 {"1000000000000000000", 1, "1000000000000000000"},
                 {"1,123456789012345678901234567890", 2, "12345678901234567890123"}};
    char uri[64 + 16];
    struct route_ids ids;

    (void)state;
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        snprintf(uri, sizeof(uri), "/products?ids=%s", lists[i].list);
        assert_refused(uri, ROUTE_BAD_IDS);
        assert_int_equal(route_ids(uri, &ids), ROUTE_BAD_IDS);
        assert_int_equal(ids.bad_place, lists[i].place);
        assert_string_equal(ids.bad, lists[i].bad);
    }
    assert_refused("/products", ROUTE_BAD_QUERY);
    assert_refused("/products?", ROUTE_BAD_QUERY);
    assert_refused("/products?id=7", ROUTE_BAD_QUERY);
    assert_refused("/products?IDS=7", ROUTE_BAD_QUERY);
    assert_refused("/products?ids=7%2C8", ROUTE_ENCODED);
}

static void a_list_has_at_most_a_hundred_ids(void **state)
{
    char uri[512] = "/products?ids=1";
    struct route_ids ids;

    (void)state;
    for (int id = 2; id <= ROUTE_IDS_MAX; id++)
        snprintf(uri + strlen(uri), 8, ",%d", id);
    assert_int_equal(route_ids(uri, &ids), ROUTE_OK);
    assert_int_equal(ids.count, ROUTE_IDS_MAX);
    strcat(uri, ",101");
    assert_int_equal(route_ids(uri, &ids), ROUTE_BAD_IDS);
    assert_int_equal(ids.bad_place, 101);
}

static void a_very_long_path_is_only_unknown(void **state)
{
    const size_t bytes = 9 * 1024;
    char *uri = malloc(bytes + 1);

    (void)state;
    assert_non_null(uri);
    memset(uri, '9', bytes);
    memcpy(uri, "/products/", 10);
    uri[bytes] = '\0';
    assert_refused(uri, ROUTE_BAD_ID);
    memset(uri, '/', bytes);
    assert_refused(uri, ROUTE_UNKNOWN);
    free(uri);
}

static void an_operator_can_name_our_keys_and_no_others(void **state)
{
    static const char *const keys[] = {"",
                                       "catalog ",
                                       "catalog:1",
                                       "product",
                                       "product:",
                                       "product:0",
                                       "product:07",
                                       "product:7:after:8",
                                       "product:7\n",
                                       "category:7:after:",
                                       "category:",
                                       "category::after:8",
                                       "category:7:8",
                                       "category:7:after:8:9",
                                       "category:7:before:8",
                                       "users:1",
                                       "product:1000000000000000000"};

    (void)state;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        assert_false(document_key_valid(keys[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_path_of_ours_has_one_key),
        cmocka_unit_test(the_longest_ids_fit_into_a_key),
        cmocka_unit_test(the_absolute_form_means_the_same),
        cmocka_unit_test(an_id_has_one_spelling),
        cmocka_unit_test(nothing_percent_encoded_is_accepted),
        cmocka_unit_test(a_purchase_hangs_on_a_product_and_on_nothing_else),
        cmocka_unit_test(a_path_is_matched_whole),
        cmocka_unit_test(only_a_category_takes_a_query_and_only_after),
        cmocka_unit_test(a_refused_request_is_still_counted_under_its_route),
        cmocka_unit_test(many_products_are_named_in_one_list),
        cmocka_unit_test(a_list_says_which_of_its_ids_is_wrong),
        cmocka_unit_test(a_list_has_at_most_a_hundred_ids),
        cmocka_unit_test(a_very_long_path_is_only_unknown),
        cmocka_unit_test(an_operator_can_name_our_keys_and_no_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
