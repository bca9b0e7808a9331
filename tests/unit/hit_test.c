/* SPDX-License-Identifier: MIT */
/* hit_test.c - what an entry found by a lookup is good for, and how often the lot of XFetch says "now". */
#include "guard/core/keep.h"
#include "tests/support/test.h"

enum { LOTS = 20000, LOAD_US = 100000 };

static struct guard_policy policy_of(uint32_t stale_ms, uint32_t soft_ms, uint32_t early_percent)
{
    struct guard_policy policy = GUARD_POLICY_DEFAULTS;
    policy.stale_ms = stale_ms;
    policy.soft_ms = soft_ms;
    policy.early_percent = early_percent;
    return policy;
}

static enum hit_verdict verdict_on(enum hit_age age, uint32_t stale_ms, uint32_t soft_ms)
{
    const struct guard_policy policy = policy_of(stale_ms, soft_ms, 0);
    struct chance chance = {.state = 1};
    return hit_judge(&policy, age, LOAD_US, 1, &chance);
}

TEST(a_stale_value_is_a_hit_only_where_it_may_be_served_at_once)
{
    assert_int_equal(verdict_on(HIT_STALE, 1000, 0), HIT_REFRESH);
    assert_int_equal(verdict_on(HIT_STALE, 1000, 1), HIT_NONE);
    assert_int_equal(verdict_on(HIT_STALE, 0, 0), HIT_NONE);
    assert_int_equal(verdict_on(HIT_FRESH, 1000, 1), HIT_ANSWER);
    assert_int_equal(verdict_on(HIT_FRESH, 0, 0), HIT_ANSWER);
}

TEST(a_stale_time_of_its_own_needs_none_of_the_readers)
{
    assert_int_equal(verdict_on(HIT_STALE_OWN, 0, 0), HIT_REFRESH);
    assert_int_equal(verdict_on(HIT_STALE_OWN, 1000, 0), HIT_REFRESH);
    assert_int_equal(verdict_on(HIT_STALE_OWN, 1000, 1), HIT_NONE);
}

static unsigned early_of(uint32_t early_percent, uint64_t load_us, uint32_t left_ms)
{
    const struct guard_policy policy = policy_of(0, 0, early_percent);
    struct chance chance = {.state = 1};
    unsigned early = 0;
    for (int i = 0; i < LOTS; i++)
        early += hit_judge(&policy, HIT_FRESH, load_us, left_ms, &chance) == HIT_EARLY;
    return early;
}

/* The chance is e^-(left / (load time * beta)). */
TEST(the_lot_follows_the_paper, P70)
{
    assert_int_equal(early_of(100, LOAD_US, 0), LOTS);
    assert_in_range(early_of(100, LOAD_US, 100), LOTS * 35 / 100, LOTS * 39 / 100); /* 0.368 */
    assert_in_range(early_of(200, LOAD_US, 100), LOTS * 59 / 100, LOTS * 63 / 100); /* 0.607 */
    assert_in_range(early_of(50, LOAD_US, 100), LOTS * 12 / 100, LOTS * 15 / 100);  /* 0.135 */
    assert_in_range(early_of(100, LOAD_US, 500), LOTS * 5 / 1000, LOTS * 9 / 1000); /* 0.0067 */
}

TEST(far_from_its_end_or_without_a_load_time_nothing_is_early)
{
    assert_int_equal(early_of(100, LOAD_US, 46 * LOAD_US / 1000), 0);
    assert_int_equal(early_of(0, LOAD_US, 0), 0);
    assert_int_equal(early_of(100, 0, 0), 0);
    assert_int_equal(early_of(10000, UINT64_MAX, UINT32_MAX), early_of(10000, 2000000000, UINT32_MAX));
}
