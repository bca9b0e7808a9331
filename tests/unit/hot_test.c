/* SPDX-License-Identifier: MIT */
#include "guard/base/hot.h"
#include "tests/support/test.h"

static struct hot hot; /* of this test */

static bool begin(void)
{
    return hot_init(&hot, HOT_SLOTS);
}

static bool end(void)
{
    hot_clear(&hot);
    return true;
}

enum { START_US = 5000000, HALF_LIFE_US = HOT_HALF_LIFE_MS * 1000, STREAM = 200000 };

TEST(the_heaviest_comes_first)
{
    struct guard_hot_key top[3];
    assert_int_equal(hot_top(&hot, START_US, top, 3), 0);
    hot_add(&hot, START_US, "a", NULL, 1);
    hot_add(&hot, START_US, "b", NULL, 5);
    hot_add(&hot, START_US, "c", NULL, 3);
    hot_add(&hot, START_US, "a", NULL, 1);
    assert_int_equal(hot_top(&hot, START_US, top, 2), 2);
    assert_string_equal(top[0].key, "b");
    assert_int_equal(top[0].weight, 5);
    assert_int_equal(top[0].error, 0);
    assert_string_equal(top[1].key, "c");
    assert_int_equal(hot_top(&hot, START_US, top, 3), 3);
    assert_string_equal(top[2].key, "a");
    assert_int_equal(top[2].weight, 2);
}

TEST(a_long_key_is_cut_and_still_one_key)
{
    struct guard_hot_key top[2];
    char key[300];
    memset(key, 'k', sizeof key);
    key[sizeof key - 1] = '\0';
    hot_add(&hot, START_US, key, NULL, 1);
    hot_add(&hot, START_US, key, NULL, 1);
    key[GUARD_HOT_KEY_BYTES - 1] = '\0';
    assert_int_equal(hot_top(&hot, START_US, top, 2), 1);
    assert_string_equal(top[0].key, key);
    assert_int_equal(top[0].weight, 2);
}

/* A thousand rare keys for each of the hot ones, in a fixed random order. */
TEST(hot_keys_survive_a_flood_of_rare_ones_and_errors_are_bounded)
{
    static uint64_t exact[8];
    struct guard_hot_key top[8];
    uint64_t dice = 88172645463325252u;
    char key[32];
    for (unsigned i = 0; i < STREAM; i++) {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        unsigned which = (unsigned)(dice % 24);
        if (which < 8) {
            snprintf(key, sizeof key, "hot:%u", which);
            exact[which]++;
        } else {
            snprintf(key, sizeof key, "rare:%u", i);
        }
        hot_add(&hot, START_US, key, NULL, 1);
    }
    assert_int_equal(hot_top(&hot, START_US, top, 8), 8);
    for (size_t i = 0; i < 8; i++) {
        unsigned which = 99;
        assert_int_equal(sscanf(top[i].key, "hot:%u", &which), 1);
        assert_in_range(which, 0, 7);
        assert_true(top[i].weight >= exact[which]);
        assert_true(top[i].weight - top[i].error <= exact[which]);
        assert_true(top[i].error <= STREAM / HOT_SLOTS);
    }
}

TEST(weights_halve_with_time_and_what_is_nothing_is_not_shown)
{
    const uint64_t one = START_US + HALF_LIFE_US, two = one + HALF_LIFE_US, late = two + one * 200;
    struct guard_hot_key top[2];
    hot_add(&hot, START_US, "old", NULL, 1000);
    hot_add(&hot, one, "new", NULL, 400);
    assert_int_equal(hot_top(&hot, one, top, 2), 2);
    assert_string_equal(top[0].key, "old");
    assert_int_equal(top[0].weight, 500);
    hot_add(&hot, two, "new", NULL, 400);
    assert_int_equal(hot_top(&hot, two, top, 2), 2);
    assert_string_equal(top[0].key, "new");
    assert_int_equal(top[0].weight, 600);
    assert_int_equal(top[1].weight, 250);
    hot_add(&hot, late, "new", NULL, 1);
    assert_int_equal(hot_top(&hot, late, top, 2), 1);
    assert_int_equal(top[0].weight, 1);
}

TEST(weights_halve_also_while_nobody_comes)
{
    struct guard_hot_key top[1];
    hot_add(&hot, START_US, "k", NULL, 1000);
    assert_int_equal(hot_top(&hot, START_US + HALF_LIFE_US, top, 1), 1);
    assert_int_equal(top[0].weight, 500);
    hot_add(&hot, START_US + HALF_LIFE_US - 1, "k", NULL, 100); /* by a clock that was read earlier */
    assert_int_equal(hot_top(&hot, START_US + HALF_LIFE_US, top, 1), 1);
    assert_int_equal(top[0].weight, 600);
}

TEST(a_key_is_told_with_the_kind_that_it_was_asked_for_with)
{
    static char kinds[2];
    struct guard_kind *first = (struct guard_kind *)(void *)&kinds[0];
    struct guard_kind *second = (struct guard_kind *)(void *)&kinds[1];
    struct guard_hot_key top[2];
    hot_add(&hot, START_US, "a", first, 1);
    hot_add(&hot, START_US, "b", second, 2);
    assert_int_equal(hot_top(&hot, START_US, top, 2), 2);
    assert_ptr_equal(top[0].kind, second);
    assert_ptr_equal(top[1].kind, first);
}

TEST(the_slot_of_the_lightest_is_taken_weight_and_all)
{
    struct guard_hot_key top[HOT_SLOTS];
    char key[32];
    for (unsigned i = 0; i < HOT_SLOTS; i++) {
        snprintf(key, sizeof key, "k%u", i);
        hot_add(&hot, START_US, key, NULL, 100 + (i + 40) % HOT_SLOTS); /* k24 is the lightest */
    }
    hot_add(&hot, START_US, "new", NULL, 1000);
    assert_int_equal(hot_top(&hot, START_US, top, HOT_SLOTS), HOT_SLOTS);
    assert_string_equal(top[0].key, "new");
    assert_int_equal(top[0].weight, 1100);
    assert_int_equal(top[0].error, 100);
    for (unsigned i = 1; i < HOT_SLOTS; i++)
        assert_string_not_equal(top[i].key, "k24");
}

TEST_GROUP(.before = begin, .after = end);

TEST(every_slot_of_the_largest_table_finds_its_key_again)
{
    static struct guard_hot_key top[HOT_SLOTS_MAX];
    struct hot large;
    char key[32];
    assert_true(hot_init(&large, HOT_SLOTS_MAX));
    for (unsigned round = 1; round <= 3; round++)
        for (unsigned i = 0; i < HOT_SLOTS_MAX; i++) {
            snprintf(key, sizeof key, "k%u", i);
            hot_add(&large, START_US, key, NULL, i + 1);
        }
    assert_int_equal(hot_top(&large, START_US, top, HOT_SLOTS_MAX), HOT_SLOTS_MAX);
    for (unsigned i = 0; i < HOT_SLOTS_MAX; i++) {
        snprintf(key, sizeof key, "k%u", HOT_SLOTS_MAX - 1 - i);
        assert_string_equal(top[i].key, key);
        assert_int_equal(top[i].weight, 3 * (HOT_SLOTS_MAX - i));
        assert_int_equal(top[i].error, 0);
    }
    hot_clear(&large);
}
