/* SPDX-License-Identifier: MIT */
/* near_freshness_test.c - the rule of the near cache, step by step; the simulator has it in every order. */
#include "guard/core/near.h"
#include "tests/support/test.h"

enum { MIB = 1 << 20, NEAR_MS = 1000, SECOND_US = 1000000, SENT_US = 5 * SECOND_US };

static const uint8_t hash_key[16] = {3};

static struct near *subscribed(void)
{
    struct near *near = near_new(MIB, hash_key);
    assert_non_null(near);
    near_subscribed(near, true);
    return near;
}

static struct near_lookup sent(struct near *near, uint64_t now_us)
{
    return near_look_up(near, "k", 1, now_us);
}

static void found(const struct near_lookup *lookup, uint32_t age_ms, uint32_t left_ms)
{
    struct value *value = value_new("v", 1, "", 0, NULL, 0);
    near_keep(lookup, &(struct near_life){.near_ms = NEAR_MS}, value,
              &(struct guard_result){.age_ms = age_ms, .left_ms = left_ms});
    value_unref(&value);
}

static bool answers(struct near *near, uint64_t now_us, struct guard_result *result)
{
    bool hit = near_answer(near, "k", 1, 0, now_us, result);
    if (hit)
        guard_value_unref(&result->value);
    return hit;
}

static bool is_there(struct near *near, uint64_t now_us)
{
    struct guard_result result;
    return answers(near, now_us, &result);
}

TEST(it_is_kept_from_when_the_lookup_was_sent, P45)
{
    struct near *near = subscribed();
    struct near_lookup lookup = sent(near, SENT_US);
    found(&lookup, 0, 60000);
    assert_true(is_there(near, SENT_US + NEAR_MS * 1000 - 1));
    assert_false(is_there(near, SENT_US + NEAR_MS * 1000));
    near_free(&near);
}

TEST(its_age_is_rounded_up_and_its_time_down)
{
    struct near *near = subscribed();
    struct near_lookup lookup = sent(near, SENT_US);
    struct guard_result result;
    found(&lookup, 200, 300);
    assert_true(answers(near, SENT_US + 1, &result));
    assert_int_equal(result.status, GUARD_OK);
    assert_int_equal(result.source, GUARD_FROM_NEAR);
    assert_int_equal(result.age_ms, 201);
    assert_int_equal(result.left_ms, 299);
    assert_false(is_there(near, SENT_US + 300 * 1000));
    near_free(&near);
}

/* The clock counts from the start of the machine; Redis runs on another. */
TEST(a_value_may_be_older_than_the_clock)
{
    struct near *near = subscribed();
    struct near_lookup lookup = sent(near, SECOND_US);
    struct guard_result result;
    found(&lookup, 7000, 60000);
    assert_true(answers(near, SECOND_US + 500 * 1000, &result));
    assert_int_equal(result.age_ms, 7500);
    near_free(&near);
}

/* ---- what was looked up before it is not kept after it ---- */

static void begins(struct near *near)
{
    near_invalidation_begins(near, false, "k", 1);
}

static void ends(struct near *near)
{
    near_invalidation_ends(near, false, "k", 1);
}

static void hears(struct near *near)
{
    near_heard(near, true, 0, "k", 1);
}

static void loses_the_subscription(struct near *near)
{
    near_subscribed(near, false);
    near_subscribed(near, true);
}

static void hears_of_another_master(struct near *near)
{
    near_drop_all(near);
}

TEST(invalidations_and_a_lost_subscription_void_what_came_before, P45)
{
    void (*const events[])(struct near * near) = {begins, ends, hears, loses_the_subscription,
                                                  hears_of_another_master};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        struct near *near = subscribed();
        struct near_lookup kept = sent(near, SENT_US), under_way = sent(near, SENT_US);
        found(&kept, 0, 60000);
        assert_true(is_there(near, SENT_US));
        events[i](near);
        assert_false(is_there(near, SENT_US));
        found(&under_way, 0, 60000);
        assert_false(is_there(near, SENT_US));
        struct near_lookup later = sent(near, SENT_US);
        found(&later, 0, 60000);
        assert_true(is_there(near, SENT_US));
        near_free(&near);
    }
}

TEST(a_message_of_a_fill_voids_nothing)
{
    struct near *near = subscribed();
    struct near_lookup lookup = sent(near, SENT_US);
    near_heard(near, false, 0, "k", 1);
    found(&lookup, 0, 60000);
    assert_true(is_there(near, SENT_US));
    near_heard(near, false, 0, "k", 1);
    assert_true(is_there(near, SENT_US));
    near_free(&near);
}

TEST(without_a_near_cache_nothing_happens)
{
    struct near_lookup lookup = sent(NULL, SENT_US);
    found(&lookup, 0, 60000);
    assert_false(is_there(NULL, SENT_US));
    begins(NULL);
    ends(NULL);
    hears(NULL);
    loses_the_subscription(NULL);
}
