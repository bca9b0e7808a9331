/* SPDX-License-Identifier: MIT */
/*
 * subscription_test.c - when a subscription counts as dead. The test is the clock.
 */
#include "guard/redis/subscription.h"
#include "tests/support/test.h"

static const char ME[] = "11111111-1111-4111-8111-111111111111";
static const char OTHER[] = "22222222-2222-4222-8222-222222222222 1";
static const uint64_t LIMIT_US = (uint64_t)CANARY_LIMIT_MS * 1000;

static struct canary canary;

/* Nothing is dead before one was sent; the first is. */
static bool send_first(void)
{
    canary = (struct canary){.sent = 0};
    memcpy(canary.process, ME, sizeof ME);
    assert_false(canary_late(&canary, UINT64_MAX));
    canary_sent(&canary, 1000);
    return true;
}

static uint64_t mine_back(void)
{
    static const char SUBJECT[] = "11111111-1111-4111-8111-111111111111 1";
    return canary_back(&canary, SUBJECT, sizeof SUBJECT - 1);
}

TEST(a_canary_that_does_not_come_back_in_time_is_dead, P112)
{
    assert_false(canary_late(&canary, 1000 + LIMIT_US - 1));
    assert_true(canary_late(&canary, 1000 + LIMIT_US));
}

TEST(a_later_canary_does_not_excuse_the_first)
{
    canary_sent(&canary, 1000 + LIMIT_US / 2);
    assert_true(canary_late(&canary, 1000 + LIMIT_US));
}

TEST(a_canary_that_came_back_is_alive_and_the_next_one_counts_anew)
{
    assert_true(mine_back());
    assert_false(canary_late(&canary, 1000 + LIMIT_US));
    canary_sent(&canary, 5000);
    assert_false(canary_late(&canary, 5000 + LIMIT_US - 1));
    assert_true(canary_late(&canary, 5000 + LIMIT_US));
}

TEST(a_canary_that_came_back_says_when_it_was_sent_once_and_of_itself_alone)
{
    static const char FIFTH[] = "11111111-1111-4111-8111-111111111111 5";
    for (int i = 0; i < 4; i++) /* the fifth has the place of the first, which is not back yet */
        canary_sent(&canary, 2000);
    assert_int_equal(canary_back(&canary, FIFTH, sizeof FIFTH - 1), 0);
    assert_true(canary_late(&canary, 1000 + LIMIT_US));
    assert_int_equal(mine_back(), 1000);
    assert_int_equal(mine_back(), 0);
}

TEST(the_canary_of_another_process_says_nothing)
{
    assert_false(canary_back(&canary, OTHER, sizeof OTHER - 1));
    assert_false(canary_back(&canary, "", 0));
    assert_false(canary_back(&canary, ME, 10));
    assert_true(canary_late(&canary, 1000 + LIMIT_US));
}

TEST(a_canary_that_took_another_way_does_not_excuse_one_that_is_lost)
{
    static const char second[] = "11111111-1111-4111-8111-111111111111 2";
    canary_sent(&canary, 1000);
    assert_true(canary_back(&canary, second, sizeof second - 1));
    assert_true(canary_late(&canary, 1000 + LIMIT_US));
    assert_true(mine_back());
    assert_false(canary_late(&canary, UINT64_MAX));
}

TEST(a_late_canary_may_be_among_what_was_not_read_yet, P24)
{
    assert_int_equal(canary_judge(&canary, 1000 + LIMIT_US - 1), CANARY_ALIVE);
    assert_int_equal(canary_judge(&canary, 1000 + LIMIT_US), CANARY_DOUBTED);
    canary.heard = true; /* others' messages, of which there are more than one read takes */
    assert_int_equal(canary_judge(&canary, 1000 + LIMIT_US + 1), CANARY_DOUBTED);
    canary.heard = true;
    assert_true(mine_back());
    assert_int_equal(canary_judge(&canary, 1000 + LIMIT_US + 2), CANARY_ALIVE);
}

TEST(a_late_canary_is_dead_once_all_was_read)
{
    canary.heard = true; /* before it was late */
    assert_int_equal(canary_judge(&canary, 1000 + LIMIT_US), CANARY_DOUBTED);
    assert_int_equal(canary_judge(&canary, 1000 + LIMIT_US + 1), CANARY_DEAD);
}

TEST(a_subscription_that_brings_all_but_the_canary_is_dead_in_the_end)
{
    assert_int_equal(canary_judge(&canary, 1000 + LIMIT_US), CANARY_DOUBTED);
    canary.heard = true;
    assert_int_equal(canary_judge(&canary, 1000 + 2 * LIMIT_US - 1), CANARY_DOUBTED);
    canary.heard = true;
    assert_int_equal(canary_judge(&canary, 1000 + 2 * LIMIT_US), CANARY_DEAD);
}

TEST(each_doubt_has_its_own_time)
{
    assert_int_equal(canary_judge(&canary, 1000 + LIMIT_US), CANARY_DOUBTED);
    assert_true(mine_back());
    assert_int_equal(canary_judge(&canary, 1000 + LIMIT_US + 1), CANARY_ALIVE);
    canary_sent(&canary, 1000 + 2 * LIMIT_US);
    assert_int_equal(canary_judge(&canary, 1000 + 4 * LIMIT_US), CANARY_DOUBTED);
}

TEST(a_canary_that_never_flew_is_forgotten)
{
    canary_forget(&canary);
    assert_false(canary_late(&canary, UINT64_MAX));
}

TEST_GROUP(.before = send_first);
