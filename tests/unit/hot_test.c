/* SPDX-License-Identifier: MIT */
#include "guard/base/hot.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

enum { START_US = 5000000, HALF_LIFE_US = HOT_HALF_LIFE_MS * 1000, STREAM = 200000 };

TEST(the_heaviest_comes_first)
{
    struct hot hot = {.count = 0};
    struct guard_hot_key top[3];
    assert_int_equal(hot_top(&hot, START_US, top, 3), 0);
    hot_add(&hot, START_US, "a", 1);
    hot_add(&hot, START_US, "b", 5);
    hot_add(&hot, START_US, "c", 3);
    hot_add(&hot, START_US, "a", 1);
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
    struct hot hot = {.count = 0};
    struct guard_hot_key top[2];
    char key[300];
    memset(key, 'k', sizeof key);
    key[sizeof key - 1] = '\0';
    hot_add(&hot, START_US, key, 1);
    hot_add(&hot, START_US, key, 1);
    key[GUARD_HOT_KEY_BYTES - 1] = '\0';
    assert_int_equal(hot_top(&hot, START_US, top, 2), 1);
    assert_string_equal(top[0].key, key);
    assert_int_equal(top[0].weight, 2);
}

/* A thousand rare keys for each of the hot ones, in a fixed random order. */
TEST(hot_keys_survive_a_flood_of_rare_ones_and_errors_are_bounded)
{
    static uint64_t exact[8];
    struct hot hot = {.count = 0};
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
        hot_add(&hot, START_US, key, 1);
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
    struct hot hot = {.count = 0};
    struct guard_hot_key top[2];
    hot_add(&hot, START_US, "old", 1000);
    hot_add(&hot, one, "new", 400);
    assert_int_equal(hot_top(&hot, one, top, 2), 2);
    assert_string_equal(top[0].key, "old");
    assert_int_equal(top[0].weight, 500);
    hot_add(&hot, two, "new", 400);
    assert_int_equal(hot_top(&hot, two, top, 2), 2);
    assert_string_equal(top[0].key, "new");
    assert_int_equal(top[0].weight, 600);
    assert_int_equal(top[1].weight, 250);
    hot_add(&hot, late, "new", 1);
    assert_int_equal(hot_top(&hot, late, top, 2), 1);
    assert_int_equal(top[0].weight, 1);
}

TEST(weights_halve_also_while_nobody_comes)
{
    struct hot hot = {.count = 0};
    struct guard_hot_key top[1];
    hot_add(&hot, START_US, "k", 1000);
    assert_int_equal(hot_top(&hot, START_US + HALF_LIFE_US, top, 1), 1);
    assert_int_equal(top[0].weight, 500);
    hot_add(&hot, START_US + HALF_LIFE_US - 1, "k", 100); /* by a clock that was read earlier */
    assert_int_equal(hot_top(&hot, START_US + HALF_LIFE_US, top, 1), 1);
    assert_int_equal(top[0].weight, 600);
}
