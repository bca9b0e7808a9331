/* SPDX-License-Identifier: MIT */
/*
 * tags_test.c - groups of documents over several processes: a category's pages, and everything in the category.
 */
#include "tests/support/test.h"
#include "tests/support/writes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROCESSES = 2, PATH_BYTES = 64, HITS = 20 };

static const char *const LONG_FRESH[] = {"FRESH_MS=600000", "JITTER_PERCENT=0", NULL};

/* The largest category: it has several pages. Its fifty-first product is the first on the second one. */
struct category {
    long id, first, last_of_page, next;
    char page[2][PATH_BYTES];
};

static struct category largest(void)
{
    struct category category;
    category.id =
        writes_number("SELECT category_id FROM products GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1");
    category.first =
        writes_number("SELECT id FROM products WHERE category_id = %ld ORDER BY id LIMIT 1", category.id);
    category.last_of_page = writes_number(
        "SELECT id FROM products WHERE category_id = %ld ORDER BY id OFFSET 49 LIMIT 1", category.id);
    category.next = writes_number(
        "SELECT id FROM products WHERE category_id = %ld ORDER BY id OFFSET 50 LIMIT 1", category.id);
    snprintf(category.page[0], PATH_BYTES, "/categories/%ld", category.id);
    snprintf(category.page[1], PATH_BYTES, "/categories/%ld?after=%ld", category.id, category.last_of_page);
    return category;
}

/* True: the page shows this product with that stock. */
static bool shows(size_t process, const char *page, long id, long stock)
{
    char wanted[PATH_BYTES];
    struct http_answer answer = {0};
    snprintf(wanted, sizeof wanted, "{\"id\":%ld,", id);
    assert_true(fleet_ask(process, NULL, page, &answer));
    assert_int_equal(answer.status, 200);
    const char *at = strstr(answer.body, wanted);
    snprintf(wanted, sizeof wanted, "\"stock\":%ld}", stock);
    const char *end = at != NULL ? strchr(at, '}') : NULL;
    const bool found = end != NULL && strncmp(end + 1 - strlen(wanted), wanted, strlen(wanted)) == 0;
    http_answer_clear(&answer);
    return found;
}

static unsigned invalidate_tag(size_t process, const char *tag)
{
    char path[PATH_BYTES];
    struct http_answer answer;
    snprintf(path, sizeof path, "/invalidate?tag=%s", tag);
    fleet_ask_ops(process, "POST", path, &answer);
    const unsigned status = answer.status;
    if (status == 200) {
        assert_non_null(strstr(answer.body, "\"value_dropped\":true"));
        /* which loads have the tag is known when they are over */
        assert_null(strstr(answer.body, "load_voided"));
    }
    http_answer_clear(&answer);
    return status;
}

/* ---- what a write reaches ---- */

TEST(an_edit_shows_on_every_page_of_its_category, P73)
{
    assert_true(fleet_start(PROCESSES, writes_settings(LONG_FRESH)));
    const struct category category = largest();
    const long ids[2] = {category.first, category.next};
    for (size_t i = 0; i < 2; i++) {
        for (size_t process = 0; process < PROCESSES; process++)
            assert_false(shows(process, category.page[i], ids[i], 4711));
        assert_int_equal(writes_put(i, (uint32_t)ids[i], writes_version(0, (uint32_t)ids[i]), 4711), 200);
        for (size_t process = 0; process < PROCESSES; process++)
            assert_true(shows(process, category.page[i], ids[i], 4711));
    }
    assert_int_equal(fleet_sum("catalogd_writes_invisible_total"), 0);
}

/* ---- by hand ---- */

TEST(a_tag_invalidated_by_hand_takes_the_category_and_all_it_holds, P73)
{
    char paths[3][PATH_BYTES], tag[PATH_BYTES], other[BURST_PATH_BYTES];
    assert_true(fleet_start(PROCESSES, LONG_FRESH));
    const struct category category = largest();
    fleet_cold_product(other);
    const long other_id = strtol(strrchr(other, '/') + 1, NULL, 10);
    snprintf(paths[0], PATH_BYTES, "/products/%ld", category.first);
    snprintf(paths[1], PATH_BYTES, "%s", category.page[0]);
    snprintf(paths[2], PATH_BYTES, "%s", category.page[1]);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(fleet_ask_status(i % PROCESSES, paths[i]), 200);
    assert_int_equal(fleet_ask_status(0, other), 200);
    assert_true(writes_number("SELECT category_id FROM products WHERE id = %ld", other_id) != category.id);

    snprintf(tag, sizeof tag, "listing:%ld", category.id);
    assert_int_equal(invalidate_tag(0, tag), 200);
    fleet_mark();
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(fleet_ask_status(1 - i % PROCESSES, paths[i]), 200);
    assert_int_equal(fleet_loads(FLEET_LOAD_CATEGORY), 2);
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), 0);

    snprintf(tag, sizeof tag, "category:%ld", category.id);
    assert_int_equal(invalidate_tag(1, tag), 200);
    fleet_mark();
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(fleet_ask_status(i % PROCESSES, paths[i]), 200);
    assert_int_equal(fleet_ask_status(1, other), 200);
    assert_int_equal(fleet_loads(FLEET_LOAD_CATEGORY), 2);
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), 1);

    /* and from above: of everything that shows it in its path */
    snprintf(tag, sizeof tag, "category:%ld",
             writes_number("SELECT middle.parent_id FROM categories AS leaf JOIN categories AS middle "
                           "ON middle.id = leaf.parent_id WHERE leaf.id = %ld",
                           category.id));
    assert_int_equal(invalidate_tag(0, tag), 200);
    fleet_mark();
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(fleet_ask_status(i % PROCESSES, paths[i]), 200);
    assert_int_equal(fleet_loads(FLEET_LOAD_CATEGORY), 2);
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), 1);
    assert_true(fleet_sum("guard_entries_outdated_total") >= 8);
}

/* ---- what it costs ---- */

TEST(a_hit_of_a_product_is_one_command_more_and_of_the_tree_none, P76)
{
    char path[BURST_PATH_BYTES];
    assert_true(fleet_start(1, (const char *const[]){"FRESH_MS=600000", "SERVER_LOOPS=1", NULL}));
    fleet_cold_product(path);
    const char *const paths[2] = {path, "/catalog"};
    for (size_t i = 0; i < 2; i++) {
        for (size_t warm = 0; warm < 3; warm++)
            assert_int_equal(fleet_ask_status(0, paths[i]), 200);
        const uint64_t mget = stack_redis_calls(&fleet.redis, "mget"),
                       pttl = stack_redis_calls(&fleet.redis, "pttl"),
                       get = stack_redis_calls(&fleet.redis, "get"),
                       getex = stack_redis_calls(&fleet.redis, "getex");
        for (size_t hit = 0; hit < HITS; hit++)
            assert_int_equal(fleet_ask_status(0, paths[i]), 200);
        assert_int_equal(stack_redis_calls(&fleet.redis, "pttl") - pttl, HITS);
        assert_int_equal(stack_redis_calls(&fleet.redis, "get"), get);
        assert_true(stack_redis_calls(&fleet.redis, "getex") - getex >= HITS); /* heartbeats, too */
        assert_int_equal(stack_redis_calls(&fleet.redis, "mget") - mget, i == 0 ? HITS : 0);
    }
}

static bool up(void)
{
    return fleet_up() && writes_make_logins();
}

TEST_GROUP(.up = up, .down = fleet_down, .after = fleet_end);
