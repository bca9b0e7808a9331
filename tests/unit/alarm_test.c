/* SPDX-License-Identifier: MIT */
/*
 * alarm_test.c - the heap of deadlines against a plain array.
 */
#include "guard/base/alarm.h"

#include "guard/base/chance.h"
#include "tests/support/test.h"

enum { MANY = 500 };

TEST(nothing_set_means_no_first)
{
    struct alarms alarms = {0};
    assert_null(alarms_first(&alarms));
    assert_true(alarms_reserve(&alarms));
    assert_null(alarms_first(&alarms));
    struct alarm alarm = {0};
    alarm_unset(&alarms, &alarm); /* not set: nothing happens */
    alarms_unreserve(&alarms);
    alarms_clear(&alarms);
}

TEST(an_alarm_can_be_set_again_to_an_earlier_or_later_time)
{
    struct alarms alarms = {0};
    struct alarm one = {0}, two = {0};
    assert_true(alarms_reserve(&alarms) && alarms_reserve(&alarms));
    alarm_set(&alarms, &one, 10);
    alarm_set(&alarms, &two, 20);
    alarm_set(&alarms, &one, 30);
    assert_ptr_equal(alarms_first(&alarms), &two);
    alarm_set(&alarms, &one, 5);
    assert_ptr_equal(alarms_first(&alarms), &one);
    alarm_unset(&alarms, &one);
    assert_ptr_equal(alarms_first(&alarms), &two);
    alarm_unset(&alarms, &two);
    assert_null(alarms_first(&alarms));
    alarms_unreserve(&alarms);
    alarms_unreserve(&alarms);
    alarms_clear(&alarms);
}

static const struct alarm *earliest(const struct alarm *alarm)
{
    const struct alarm *found = NULL;
    for (int i = 0; i < MANY; i++)
        if (alarm[i].place != 0 && (found == NULL || alarm[i].at_us < found->at_us))
            found = &alarm[i];
    return found;
}

TEST(the_first_is_the_earliest_after_any_sequence_of_changes, P27)
{
    static struct alarm alarm[MANY];
    struct alarms alarms = {0};
    struct chance chance = {.state = 42};
    for (int i = 0; i < MANY; i++)
        assert_true(alarms_reserve(&alarms));
    for (int step = 0; step < 20000; step++) {
        struct alarm *at = &alarm[chance_below(&chance, MANY)];
        if (chance_below(&chance, 3) == 0)
            alarm_unset(&alarms, at);
        else
            alarm_set(&alarms, at, chance_below(&chance, 1000));
        const struct alarm *expected = earliest(alarm), *first = alarms_first(&alarms);
        assert_int_equal(first == NULL, expected == NULL);
        if (first != NULL)
            assert_int_equal(first->at_us, expected->at_us);
    }
    for (int i = 0; i < MANY; i++) {
        alarm_unset(&alarms, &alarm[i]);
        alarms_unreserve(&alarms);
    }
    alarms_clear(&alarms);
}
