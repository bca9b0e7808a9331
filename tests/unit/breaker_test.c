/* SPDX-License-Identifier: MIT */
/*
 * breaker_test.c - when a command may be sent to a Redis that does not answer.
 */
#include "guard/core/breaker.h"
#include "tests/support/test.h"

static struct chance chance = {.state = 1};

static void trip(struct breaker *breaker, uint64_t now_us)
{
    for (int i = 0; i < BREAKER_TRIP; i++)
        breaker_unanswered(breaker, now_us, &chance);
}

TEST(some_unanswered_commands_in_a_row_open_it, P55)
{
    struct breaker breaker = {.link_up = true};
    for (int i = 1; i < BREAKER_TRIP; i++)
        breaker_unanswered(&breaker, 0, &chance);
    breaker_answered(&breaker); /* not in a row */
    for (int i = 1; i < BREAKER_TRIP; i++)
        breaker_unanswered(&breaker, 0, &chance);
    assert_true(breaker_allow(&breaker, 0));
    breaker_unanswered(&breaker, 0, &chance);
    assert_false(breaker_allow(&breaker, 0));
    assert_int_equal(breaker.opened_count, 1);
    breaker_unanswered(&breaker, 0, &chance); /* sent before it opened */
    assert_int_equal(breaker.opened_count, 1);
}

TEST(after_a_pause_one_command_goes_through)
{
    struct breaker breaker = {.link_up = true};
    trip(&breaker, 1000);
    assert_true(breaker.open_until_us >= 1000 + BREAKER_PAUSE_MS * 500);
    assert_true(breaker.open_until_us <= 1000 + BREAKER_PAUSE_MS * 1500);
    assert_false(breaker_allow(&breaker, breaker.open_until_us - 1));
    assert_true(breaker_allow(&breaker, breaker.open_until_us));
    assert_false(breaker_allow(&breaker, breaker.open_until_us + 1000000));
    breaker_answered(&breaker);
    assert_true(breaker_allow(&breaker, 0));
}

TEST(a_failed_probe_opens_it_for_longer_each_time_up_to_a_limit)
{
    struct breaker breaker = {.link_up = true};
    uint64_t now_us = 0, longest_us = 0;
    trip(&breaker, now_us);
    for (int probe = 0; probe < 50; probe++) {
        uint64_t pause_us = breaker.open_until_us - now_us;
        longest_us = pause_us > longest_us ? pause_us : longest_us;
        now_us = breaker.open_until_us;
        assert_true(breaker_allow(&breaker, now_us));
        breaker_unanswered(&breaker, now_us, &chance);
    }
    assert_true(longest_us > BREAKER_MAX_PAUSE_MS * 1000);
    assert_true(longest_us <= BREAKER_MAX_PAUSE_MS * 1500);
    assert_int_equal(breaker.opened_count, 51);
}

TEST(no_probe_is_sent_without_a_link)
{
    struct breaker breaker = {.link_up = true};
    trip(&breaker, 0);
    breaker_link(&breaker, 0, false);
    assert_false(breaker_allow(&breaker, 100000000));
    breaker_link(&breaker, 100000000, true);
    assert_true(breaker_allow(&breaker, 100000000));
}

TEST(a_login_ends_the_first_pause_but_not_those_after_a_failed_probe)
{
    struct breaker breaker = {.link_up = false};
    trip(&breaker, 0);
    breaker_link(&breaker, 10, true);
    assert_true(breaker_allow(&breaker, 10));
    breaker_unanswered(&breaker, 20, &chance);
    breaker_link(&breaker, 20, false);
    breaker_link(&breaker, 30, true); /* it logs in, but answers no command */
    assert_false(breaker_allow(&breaker, 30));
    assert_true(breaker_allow(&breaker, breaker.open_until_us));
}

TEST(a_hit_closes_it_once_the_pause_is_over_and_on_probation)
{
    struct breaker breaker = {.link_up = true};
    trip(&breaker, 0);
    breaker_heard(&breaker, breaker.open_until_us - 1);
    assert_int_equal(breaker.state, BREAKER_OPEN);
    breaker_heard(&breaker, breaker.open_until_us);
    assert_int_equal(breaker.state, BREAKER_CLOSED);
    breaker_unanswered(&breaker, breaker.open_until_us, &chance);
    assert_int_equal(breaker.state, BREAKER_OPEN);
    assert_int_equal(breaker.openings, 2); /* for longer */
    breaker_heard(&breaker, breaker.open_until_us);
    breaker_answered(&breaker);
    assert_int_equal(breaker.openings, 0);
    breaker_unanswered(&breaker, breaker.open_until_us, &chance);
    assert_int_equal(breaker.state, BREAKER_CLOSED);
}

TEST(a_hit_says_nothing_without_the_cores_link_and_nothing_while_a_probe_is_under_way)
{
    struct breaker breaker = {.link_up = true};
    trip(&breaker, 0);
    breaker_link(&breaker, 0, false);
    breaker_heard(&breaker, 100000000);
    assert_int_equal(breaker.state, BREAKER_OPEN);
    breaker_link(&breaker, 100000000, true);
    assert_true(breaker_allow(&breaker, 100000000));
    breaker_heard(&breaker, 100000000);
    assert_int_equal(breaker.state, BREAKER_HALF_OPEN);
}
