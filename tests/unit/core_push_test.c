/* SPDX-License-Identifier: MIT */
/*
 * core_push_test.c - what a wake-up message brings: which waiters may have it, how old it is, and when it is worth no
 * more than the message.
 */
#include "core_bench.h"

#define TAG_A "aaaaaaaaaaaaaaaa"
#define TAG_B "bbbbbbbbbbbbbbbb"

/* A get that waits for the lease with this tag. */
static void wait_for(const char *key, struct caller *caller, const char *tag)
{
    get(key, caller);
    reply_leased(expect(CORE_ACQUIRE), tag);
    still_waits(caller);
}

static void pushed_fresh(const char *key, const char *tag, const char *body, uint32_t fresh_ms)
{
    struct value *value = body != NULL ? value_new(body, strlen(body), "", 0, NULL, 0) : NULL;
    struct core_reply pushed = {
        .lease_tag = tag, .value = value, .absent = body == NULL, .left_ms = fresh_ms};
    hear_pushed(key, &pushed);
    value_unref(&value);
}

static void pushed(const char *key, const char *tag, const char *body)
{
    pushed_fresh(key, tag, body, 60000);
}

static struct caller caller;

/* ---- which waiters may have it ---- */

TEST(a_waiter_for_that_lease_is_answered_without_another_lookup)
{
    wait_for("k", &caller, TAG_A);
    pushed("k", TAG_A, "row");
    answered_value(&caller, "row", GUARD_FROM_FLEET);
    sent_nothing();
    struct guard_stats stats = stats_of();
    assert_int_equal(stats.push_answered, 1);
    assert_int_equal(stats.collapsed_fleet, 1);
    assert_int_equal(stats.wake_messages, 1);
    assert_int_equal(stats.flights, 0);
}

TEST(the_value_of_another_lease_is_only_a_wake_up, P23)
{
    wait_for("k", &caller, TAG_B);
    pushed("k", TAG_A, "old row");
    still_waits(&caller);
    reply_fresh_for(expect(CORE_ACQUIRE), "row", &caller, GUARD_FROM_FLEET);
    assert_int_equal(stats_of().push_answered, 0);
}

TEST(a_lease_that_is_not_known_by_its_tag_is_only_waited_for)
{
    static const char NULS[TOKEN_TAG_BYTES] = {0};
    wait_for("k", &caller, NULL);
    assert_null(core_awaits(bench.core, "k", 1, NULS, false));
    pushed("k", NULS, "row");
    still_waits(&caller);
    expect(CORE_ACQUIRE);
}

TEST(only_the_tag_of_the_last_lookup_counts)
{
    static const char *const NEXT[] = {TAG_B, NULL};
    for (size_t i = 0; i < sizeof NEXT / sizeof *NEXT; i++) {
        bench_again();
        wait_for("k", &caller, TAG_A);
        message("k", false);
        reply_leased(expect(CORE_ACQUIRE), NEXT[i]);
        pushed("k", TAG_A, "old row");
        still_waits(&caller);
        expect(CORE_ACQUIRE);
    }
}

/* ---- when it is worth no more than the message ---- */

TEST(only_a_flight_that_waits_is_answered_with_it)
{
    struct seen *load = begin_load("k", &caller);
    pushed("k", TAG_A, "row");
    pushed("other", TAG_A, "row");
    still_waits(&caller);
    sent_nothing();
    finish_load_for(load, "own row", &caller, GUARD_FROM_LOAD);
}

/* ---- how old it is ---- */

TEST(its_age_is_the_time_since_the_lookup_that_found_the_lease, P23)
{
    get("k", &caller);
    pass(3); /* on its way: the fill may have come right after it was sent */
    reply_leased(expect(CORE_ACQUIRE), TAG_A);
    pass_us(4001);
    pushed_fresh("k", TAG_A, "row", 60000);
    answered_value(&caller, "row", GUARD_FROM_FLEET);
    assert_int_equal(caller.waiter.result.age_ms, 8); /* 7.001, rounded up */
    assert_int_equal(caller.waiter.result.left_ms, 60000 - 8);
    assert_true(caller.waiter.result.stored);
}

/* ---- which acquires want it ---- */

TEST(an_acquire_says_what_will_be_waited_for)
{
    static const struct {
        enum guard_mode mode;
        uint32_t stale_ms, soft_ms;
        enum core_wait waits;
    } ROWS[] = {{GUARD_MODE_FLEET, 0, 0, WAIT_BUSY},
                {GUARD_MODE_FLEET, 1000, 0, WAIT_BUSY},
                {GUARD_MODE_FLEET, 1000, 100, WAIT_REFRESH},
                {GUARD_MODE_LOCAL, 1000, 100, WAIT_NOT},
                {GUARD_MODE_OFF, 1000, 100, WAIT_NOT}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        bench_again();
        bench.config.mode = ROWS[i].mode;
        bench.policy.stale_ms = ROWS[i].stale_ms;
        bench.policy.soft_ms = ROWS[i].soft_ms;
        bench_open();
        assert_int_equal(lookup_of("k", &caller)->action.waits, ROWS[i].waits);
    }
}

TEST_GROUP(.before = bench_up, .end = bench_close);
