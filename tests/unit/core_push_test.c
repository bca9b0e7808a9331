/* SPDX-License-Identifier: MIT */
/*
 * core_push_test.c - what a wake-up message brings: which waiters may have it, how old it is, and when it is worth no more than
 * the message.
 */
#include "core_bench.h"

#define TAG_A "aaaaaaaaaaaaaaaa"
#define TAG_B "bbbbbbbbbbbbbbbb"

static void reply_busy_with(struct seen *to, const char *tag)
{
    reply(to, (struct core_reply){.kind = REPLY_BUSY, .pttl_ms = 3000, .lease_tag = tag});
}

/* A get that waits for the lease with this tag. */
static void wait_for(const char *key, struct caller *caller, const char *tag)
{
    get(key, caller);
    reply_busy_with(expect(CORE_ACQUIRE), tag);
    still_waits(caller);
}

static void pushed_fresh(const char *key, const char *tag, const char *body, uint32_t fresh_ms)
{
    struct value *value = body != NULL ? value_new(body, strlen(body), "", 0, NULL, 0) : NULL;
    struct core_pushed pushed = {
        .lease_tag = tag, .value = value, .absent = body == NULL, .fresh_ms = fresh_ms};
    core_pushed(bench.core, bench.now_us, key, strlen(key), &pushed);
    value_unref(&value);
    drain();
}

static void pushed(const char *key, const char *tag, const char *body)
{
    pushed_fresh(key, tag, body, 60000);
}

static struct caller caller, before, during, after;

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

TEST(an_absent_row_travels_too)
{
    wait_for("k", &caller, TAG_A);
    pushed("k", TAG_A, NULL);
    answered_from(&caller, GUARD_ABSENT, GUARD_FROM_FLEET);
    assert_null(caller.waiter.result.value);
    sent_nothing();
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
        reply_busy_with(expect(CORE_ACQUIRE), NEXT[i]);
        pushed("k", TAG_A, "old row");
        still_waits(&caller);
        expect(CORE_ACQUIRE);
    }
}

/* The lease was found before it came: it may know of an invalidation that came after its fill. */
TEST(a_waiter_that_joined_after_the_lookup_was_sent_looks_again, P23)
{
    struct seen *acquire = lookup_of("k", &before);
    get("k", &during);
    reply_busy_with(acquire, TAG_A);
    get("k", &after);
    pushed("k", TAG_A, "row");
    answered_value(&before, "row", GUARD_FROM_FLEET);
    still_waits(&during);
    still_waits(&after);
    reply_fresh_for(expect(CORE_ACQUIRE), "newer row", &during, GUARD_FROM_FLEET);
    assert_int_equal(stats_of().push_answered, 1);
}

TEST(where_all_joined_too_late_it_is_only_a_wake_up)
{
    wait_for("k", &before, TAG_A);
    get("k", &after);
    cancel(&before);
    pushed("k", TAG_A, "row");
    still_waits(&after);
    reply_fresh_for(expect(CORE_ACQUIRE), "row", &after, GUARD_FROM_FLEET);
}

/* Every poll looks again, so a waiter that has come since the last one is served by the next message. */
TEST(a_poll_lets_the_later_ones_in)
{
    wait_for("k", &before, TAG_A);
    get("k", &after);
    pass(50);
    reply_busy_with(expect(CORE_ACQUIRE), TAG_A);
    pushed("k", TAG_A, "row");
    answered_value(&before, "row", GUARD_FROM_FLEET);
    answered_value(&after, "row", GUARD_FROM_FLEET);
    sent_nothing();
    assert_int_equal(stats_of().push_answered, 2);
}

/* ---- when it is worth no more than the message ---- */

TEST(one_that_overtakes_the_busy_reply_is_latched_like_any_message)
{
    struct seen *acquire = lookup_of("k", &caller);
    assert_null(core_awaits(bench.core, "k", 1, TAG_A, false));
    pushed("k", TAG_A, "row");
    sent_nothing();
    reply_busy_with(acquire, TAG_A);
    still_waits(&caller);
    reply_fresh_for(expect(CORE_ACQUIRE), "row", &caller, GUARD_FROM_FLEET);
}

TEST(one_that_is_lost_is_made_good_by_the_poll)
{
    wait_for("k", &caller, TAG_A);
    pass(50);
    reply_fresh_for(expect(CORE_ACQUIRE), "row", &caller, GUARD_FROM_FLEET);
    pushed("k", TAG_A, "row"); /* no waiter is left */
    sent_nothing();
}

TEST(only_a_flight_that_waits_is_answered_with_it)
{
    struct seen *load = begin_load("k", &caller);
    pushed("k", TAG_A, "row");
    pushed("other", TAG_A, "row");
    still_waits(&caller);
    sent_nothing();
    finish_load_for(load, "own row", &caller, GUARD_FROM_LOAD);
}

TEST(a_flood_of_them_is_slowed_down_like_any_messages)
{
    unsigned asked = 0;
    wait_for("k", &caller, TAG_B);
    for (int i = 0; i < 100; i++) {
        pushed("k", TAG_A, "old row");
        if (bench.seen_first == bench.seen_count)
            continue;
        reply_busy_with(expect(CORE_ACQUIRE), TAG_B);
        asked++;
    }
    assert_in_range(asked, 1, 10);
}

/* ---- how old it is ---- */

TEST(its_age_is_the_time_since_the_lookup_that_found_the_lease, P23)
{
    get("k", &caller);
    pass(3); /* on its way: the fill may have come right after it was sent */
    reply_busy_with(expect(CORE_ACQUIRE), TAG_A);
    pass_us(4001);
    pushed_fresh("k", TAG_A, "row", 60000);
    answered_value(&caller, "row", GUARD_FROM_FLEET);
    assert_int_equal(caller.waiter.result.age_ms, 8); /* 7.001, rounded up */
    assert_int_equal(caller.waiter.result.left_ms, 60000 - 8);
    assert_true(caller.waiter.result.stored);
}

TEST(what_may_be_stale_by_now_is_only_a_wake_up)
{
    for (uint32_t fresh_ms = 5; fresh_ms <= 6; fresh_ms++) {
        wait_for("k", &caller, TAG_A);
        pass(5);
        pushed_fresh("k", TAG_A, "row", fresh_ms);
        if (fresh_ms == 6) {
            answered_value(&caller, "row", GUARD_FROM_FLEET);
            assert_int_equal(caller.waiter.result.left_ms, 1);
            continue;
        }
        still_waits(&caller);
        reply_fresh(expect(CORE_ACQUIRE), "row");
    }
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

TEST(a_background_refresh_waits_for_no_process)
{
    bench.policy.stale_ms = 1000;
    core_refresh(bench.core, bench.now_us,
                 &(struct core_refresh){.key = {"k", 1, "k", 1}, .policy = &bench.policy});
    drain();
    assert_int_equal(expect(CORE_ACQUIRE)->action.waits, WAIT_NOT);
}

/* Up to its soft limit a waiter waits for the refresh: the value that this stores comes to it, too. */
TEST(a_flight_that_holds_a_stale_value_is_answered_with_the_refreshed_one)
{
    bench.policy.stale_ms = 60000;
    bench.policy.soft_ms = 500;
    get("k", &caller);
    reply_value(expect(CORE_ACQUIRE),
                (struct core_reply){.kind = REPLY_STALE,
                                    .refresher = REFRESH_OTHERS,
                                    .age_ms = 70,
                                    .pttl_ms = 9000,
                                    .lease_tag = TAG_A},
                "stale row");
    still_waits(&caller);
    pushed("k", TAG_A, "row");
    answered_value(&caller, "row", GUARD_FROM_FLEET);
    sent_nothing();
}

TEST(the_key_that_is_waited_for_is_told_by_its_tag)
{
    assert_null(core_awaits(bench.core, "k", 1, TAG_A, false));
    wait_for("k", &caller, TAG_A);
    const struct core_key *key = core_awaits(bench.core, "k", 1, TAG_A, false);
    assert_non_null(key);
    assert_int_equal(key->plain_bytes, 1);
    assert_memory_equal(key->plain, "k", 1);
    assert_null(core_awaits(bench.core, "k", 1, TAG_B, false));
    assert_null(core_awaits(bench.core, "j", 1, TAG_A, false));
}

TEST_GROUP(.before = bench_up, .end = bench_close);
