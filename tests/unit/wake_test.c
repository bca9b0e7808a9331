/* SPDX-License-Identifier: MIT */
/* wake_test.c - batches of waiters, by how many there are and whether somebody else asks. */
#include "app/http/wake.h"
#include "tests/support/test.h"

TEST(who_is_alone_wakes_an_eighth_at_a_time)
{
    assert_int_equal(wake_count(10000, true), 1250);
    assert_int_equal(wake_count(1, true), WAKE_BATCH);
    assert_int_equal(wake_count(1000000, true), WAKE_MOST);
}

TEST(while_others_ask_batches_are_small)
{
    assert_int_equal(wake_count(100, false), WAKE_FEW);
    assert_int_equal(wake_count(4096, false), 64);
    assert_int_equal(wake_count(1000000, false), WAKE_BATCH);
}

/* As the guard calls back for 128 in each turn. */
TEST(waiters_gather_until_they_are_a_batch_or_no_more_come)
{
    unsigned waking = 0, turns = 0, now = 128;
    while (wake_gathers(&waking, now, 1250)) {
        now += 128;
        turns++;
    }
    assert_int_equal(turns, 9);
    assert_in_range(now, 1250, 1250 + 128);

    waking = 0;
    assert_true(wake_gathers(&waking, 400, 1250));
    assert_false(wake_gathers(&waking, 400, 1250));
}

TEST(a_trickle_is_not_held_up)
{
    unsigned waking = 300;
    assert_false(wake_gathers(&waking, 300 + WAKE_FEW - 1, 1250));
    assert_int_equal(waking, 300 + WAKE_FEW - 1);
}

TEST(what_one_wake_has_left_counts_as_there_already)
{
    unsigned waking = 200;
    assert_false(wake_gathers(&waking, 200, 1250));
}
