/* SPDX-License-Identifier: MIT */
/*
 * route_test.c - what a request target asks for, and which keys an operator may name.
 */
#include "app/http/route.h"
#include "tests/support/test.h"

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

TEST(every_path_of_ours_has_one_key)
{
    assert_key("/catalog", ROUTE_CATALOG, "catalog");
    assert_key("/categories/1", ROUTE_CATEGORY, "category:1");
    assert_key("/categories/12?after=345", ROUTE_CATEGORY, "category:12:after:345");
    assert_key("/products/7", ROUTE_PRODUCT, "product:7");
    assert_key("/ping", ROUTE_PING, "");
    assert_key("/products/7/offers", ROUTE_OFFERS, "offers:7");
    assert_key("/products/7/purchase", ROUTE_PURCHASE, "");
}

TEST(the_longest_ids_fit_into_a_key)
{
    assert_key("/categories/999999999999999999?after=999999999999999999", ROUTE_CATEGORY,
               "category:999999999999999999:after:999999999999999999");
}

TEST(the_absolute_form_means_the_same)
{
    assert_key("http://shop.example:8080/products/7", ROUTE_PRODUCT, "product:7");
    assert_key("HTTP://shop.example/categories/3?after=4", ROUTE_CATEGORY, "category:3:after:4");
    assert_refused("http://shop.example", ROUTE_UNKNOWN);
    assert_refused("http://shop.example?/catalog", ROUTE_UNKNOWN);
    assert_refused("https://shop.example/catalog", ROUTE_UNKNOWN);
}

TEST(an_id_has_one_spelling)
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

    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        strcpy(uri, "/products/");
        assert_refused(strcat(uri, ids[i]), ROUTE_BAD_ID);
        strcpy(uri, "/categories/");
        assert_refused(strcat(uri, ids[i]), ROUTE_BAD_ID);
        strcpy(uri, "/categories/7?after=");
        assert_refused(strcat(uri, ids[i]), ROUTE_BAD_QUERY);
    }
}

TEST(nothing_percent_encoded_is_accepted)
{
    assert_refused("/products/%37", ROUTE_ENCODED);
    assert_refused("/products/7%00", ROUTE_ENCODED);
    assert_refused("/%63atalog", ROUTE_ENCODED);
    assert_refused("/categories/7?after=%38", ROUTE_ENCODED);
    assert_refused("/nowhere%", ROUTE_ENCODED);
}

TEST(a_purchase_hangs_on_a_product_and_on_nothing_else)
{
    assert_refused("/products/7/purchase/", ROUTE_UNKNOWN);
    assert_refused("/products/7/purchases", ROUTE_UNKNOWN);
    assert_refused("/products//purchase", ROUTE_BAD_ID);
    assert_refused("/products/07/purchase", ROUTE_BAD_ID);
    assert_refused("/products/7/purchase?x", ROUTE_BAD_QUERY);
    assert_refused("/categories/7/purchase", ROUTE_UNKNOWN);
}

TEST(a_path_is_matched_whole)
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

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        assert_refused(paths[i], ROUTE_UNKNOWN);
}

TEST(only_a_category_takes_a_query_and_only_after)
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

    for (size_t i = 0; i < sizeof(uris) / sizeof(uris[0]); i++)
        assert_refused(uris[i], ROUTE_BAD_QUERY);
}

TEST(a_refused_request_is_still_counted_under_its_route)
{
    struct route route;

    route_parse("/products/042", &route);
    assert_int_equal(route.target, ROUTE_PRODUCT);
    route_parse("/categories/7?x", &route);
    assert_int_equal(route.target, ROUTE_CATEGORY);
    route_parse("/elsewhere", &route);
    assert_int_equal(route.target, ROUTE_OTHER);
    assert_string_equal(route_target_name(route.target), "other");
}

TEST(many_products_are_named_in_one_list)
{
    struct route_ids ids;
    struct route route;

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

TEST(a_list_says_which_of_its_ids_is_wrong)
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

TEST(a_list_has_at_most_a_hundred_ids)
{
    char uri[512] = "/products?ids=1";
    struct route_ids ids;

    for (int id = 2; id <= ROUTE_IDS_MAX; id++)
        snprintf(uri + strlen(uri), 8, ",%d", id);
    assert_int_equal(route_ids(uri, &ids), ROUTE_OK);
    assert_int_equal(ids.count, ROUTE_IDS_MAX);
    strcat(uri, ",101");
    assert_int_equal(route_ids(uri, &ids), ROUTE_BAD_IDS);
    assert_int_equal(ids.bad_place, 101);
}

TEST(a_very_long_path_is_only_unknown)
{
    const size_t bytes = 9 * 1024;
    char *uri = malloc(bytes + 1);

    assert_non_null(uri);
    memset(uri, '9', bytes);
    memcpy(uri, "/products/", 10);
    uri[bytes] = '\0';
    assert_refused(uri, ROUTE_BAD_ID);
    memset(uri, '/', bytes);
    assert_refused(uri, ROUTE_UNKNOWN);
    free(uri);
}

TEST(an_operator_can_name_our_keys_and_no_others)
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
                                       "offers:",
                                       "offers:07",
                                       "offers:7:after:8",
                                       "offer:7",
                                       "category:7:after:",
                                       "category:",
                                       "category::after:8",
                                       "category:7:8",
                                       "category:7:after:8:9",
                                       "category:7:before:8",
                                       "users:1",
                                       "product:1000000000000000000"};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        assert_false(document_key_valid(keys[i]));
}
