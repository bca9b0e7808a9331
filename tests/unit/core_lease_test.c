/* SPDX-License-Identifier: MIT */
/*
 * core_lease_test.c - the lease while its load runs: renewal, loss, limits; and what is released how.
 */
#include "core_bench.h"

static struct caller caller, later, first, second, before, after;

/* ---- renewal ---- */

TEST(a_lease_is_renewed_at_a_third_of_its_time_for_as_long_as_the_load_runs)
{
    struct seen *acquire = lookup_of("k", &caller);
    pass(100); /* the reply takes its time: a third counts from the sending */
    struct seen *load = lease(acquire);
    for (int third = 0; third < 9; third++) {
        pass_us(third == 0 ? 899999 : 999999);
        sent_nothing();
        pass_us(1);
        struct seen *renew = expect(CORE_RENEW);
        assert_string_equal(renew->token, acquire->token);
        assert_int_equal(renew->action.lease_ms, bench.policy.lease_ms);
        reply_code(renew, 1);
    }
    finish_load_for(load, "v1", &caller, GUARD_FROM_LOAD);
    assert_int_equal(stats_of().lease_renewed, 9);
}

TEST(no_renewal_is_sent_once_the_fill_was, P3)
{
    struct seen *load = begin_load("k", &caller);
    pass(1000);
    struct seen *renew = expect(CORE_RENEW);
    loaded(load, "v1");
    struct seen *fill = expect(CORE_FILL);
    reply_code(renew, 0); /* too late to mean anything */
    pass(2500);
    sent_nothing();
    reply_code(fill, 1);
    answered_value(&caller, "v1", GUARD_FROM_LOAD);
    assert_int_equal(stats_of().lease_lost, 0);
}

TEST(one_unanswered_renewal_does_not_lose_the_lease, P8)
{
    struct seen *load = begin_load("k", &caller);
    pass(1000);
    struct seen *renew = expect(CORE_RENEW);
    pass(250);
    reply_kind(renew, REPLY_UNKNOWN);
    sent_nothing();
    pass_to_renewal(750, 1);
    finish_load_for(load, "v1", &caller, GUARD_FROM_LOAD);
    assert_int_equal(stats_of().lease_lost, 0);
}

TEST(the_end_of_its_validity_loses_the_lease, P8)
{
    struct seen *load = begin_load_of_two("k", &caller, &later);
    for (int third = 1; third <= 2; third++) {
        pass(1000);
        reply_kind(expect(CORE_RENEW), REPLY_UNKNOWN);
    }
    pass_us(999999);
    assert_int_equal(stats_of().lease_lost, 0);
    pass_us(1);
    assert_int_equal(stats_of().lease_lost, 1);
    expect(CORE_CANCEL);
    loaded(load, "v1"); /* it had finished all the same */
    struct seen *acquire = expect(CORE_ACQUIRE);
    assert_string_not_equal(acquire->prev, "");
    answered_value(&caller, "v1", GUARD_FROM_LOAD);
    still_waits(&later);
}

TEST(a_lease_that_arrives_after_its_time_is_not_used, P7)
{
    struct seen *acquire = lookup_of("k", &caller);
    pass(3000);
    reply_kind(acquire, REPLY_LEASE);
    struct seen *again = expect(CORE_ACQUIRE);
    assert_string_equal(again->prev, acquire->token);
    finish_load_for(lease(again), "v1", &caller, GUARD_FROM_LOAD);
}

TEST(a_lease_that_ran_out_in_the_queue_starts_no_load, P7)
{
    bench_open_with(1, 2);
    struct seen *load = begin_load("k", &first);
    struct seen *acquire = lookup_of("k2", &second);
    reply_kind(acquire, REPLY_LEASE);
    bench.now_us += 4000000; /* the process was stopped; the load's result is what it sees first */
    loaded(load, "v1");
    expect(CORE_FILL);
    struct seen *again = expect(CORE_ACQUIRE);
    assert_string_equal(again->prev, acquire->token);
    assert_string_equal(again->key, "k2");
    sent_nothing();
}

/* ---- loss ---- */

TEST(a_lost_lease_cancels_the_load_if_more_than_half_of_its_time_is_left)
{
    /* load limit 10 s */
    struct seen *load = begin_load_of_two("k", &caller, &later);
    pass_to_renewal(1000, 0);
    assert_int_equal(expect(CORE_CANCEL)->action.load, load->action.load);
    pass(5000);
    sent_nothing(); /* no renewal any more */
    load_fails(load, GUARD_FAILURE_UNAVAILABLE);
    /* its failure says nothing about the source: both ask again */
    still_waits(&caller);
    still_waits(&later);
    finish_load_for(lease(expect(CORE_ACQUIRE)), "v2", &caller, GUARD_FROM_LOAD);
    answered_value(&later, "v2", GUARD_FROM_FLIGHT);
    sent_nothing();
}

TEST(a_lost_lease_lets_a_load_end_that_is_nearly_done)
{
    struct seen *load = begin_load_of_two("k", &caller, &later);
    for (int third = 0; third < 5; third++) {
        pass_to_renewal(1000, third < 4);
    }
    sent_nothing();
    loaded_for(load, "v1", &caller, GUARD_FROM_LOAD);
    still_waits(&later);
    assert_int_equal(stats_of().fill_late, 1);
    reply_fresh_for(expect(CORE_ACQUIRE), "v2", &later, GUARD_FROM_CACHE);
}

TEST(a_message_of_an_invalidation_asks_whether_the_lease_was_voided)
{
    struct seen *load = begin_load("k", &caller);
    message("k", false);
    sent_nothing();
    message("k", true);
    struct seen *renew = expect(CORE_RENEW);
    message("k", true);
    sent_nothing(); /* one at a time */
    reply_code(renew, 0);
    expect(CORE_CANCEL);
    load_fails(load, GUARD_FAILURE_TIMEOUT);
    still_waits(&caller);
    expect(CORE_ACQUIRE);
}

TEST(a_lease_lost_in_the_queue_is_asked_for_again)
{
    bench_open_with(1, 2);
    struct seen *load = begin_load("k", &first);
    reply_kind(lookup_of("k2", &second), REPLY_LEASE);
    pass(1000);
    expect(CORE_RENEW);
    struct seen *renew = expect(CORE_RENEW);
    assert_string_equal(renew->key, "k2");
    reply_code(renew, 0);
    reply_fresh_for(expect(CORE_ACQUIRE), "v2", &second, GUARD_FROM_CACHE);
    finish_load_for(load, "v1", &first, GUARD_FROM_LOAD);
}

/* ---- limits ---- */

TEST(a_load_past_its_limit_is_cancelled_and_counts_as_a_timeout)
{
    struct seen *load = begin_load("k", &caller);
    assert_true(load->action.deadline_us == bench.now_us + 10000000);
    for (int third = 1; third < 10; third++) {
        pass_to_renewal(1000, 1);
    }
    pass_us(999999);
    sent_nothing();
    pass_us(1);
    reply_code(expect(CORE_RENEW), 1);
    assert_int_equal(expect(CORE_CANCEL)->action.load, load->action.load);
    load_fails(load, GUARD_FAILURE_UNAVAILABLE); /* what a cancelled query reports */
    answered_from(&caller, GUARD_FAILED, GUARD_FROM_LOAD);
    assert_int_equal(caller.waiter.result.failure, GUARD_FAILURE_TIMEOUT);
    assert_int_equal(expect(CORE_RELEASE)->action.failure, GUARD_FAILURE_TIMEOUT);
}

TEST(a_loader_that_hangs_for_ever_keeps_neither_lease_nor_waiters, P9)
{
    bench.policy.deadline_ms = 60000;
    struct seen *load = begin_load_of_two("k", &before, &after);
    for (int third = 1; third < 30; third++) {
        pass_to_renewal(1000, 1);
        if (third == 10)
            expect(CORE_CANCEL);
    }
    pass(1000);
    answered_from(&before, GUARD_FAILED, GUARD_FROM_LOAD);
    assert_int_equal(before.waiter.result.failure, GUARD_FAILURE_TIMEOUT);
    struct seen *release = expect(CORE_RELEASE);
    assert_int_equal(release->action.failure, GUARD_FAILURE_TIMEOUT);
    struct seen *acquire = expect(CORE_ACQUIRE);
    reply(acquire, (struct core_reply){.kind = REPLY_FAILED, .failure = GUARD_FAILURE_TIMEOUT});
    answered_from(&after, GUARD_FAILED, GUARD_FROM_CACHE);
    assert_int_equal(stats_of().loads_running, 1); /* it still has a worker */
    loaded(load, "at last");
    assert_int_equal(stats_of().loads_running, 0);
    sent_nothing();
}

TEST(a_load_given_up_is_not_a_duplicate_of_the_next_one)
{
    bench.policy.max_hold_ms = bench.policy.load_limit_ms = 900;
    begin_load("k", &first);
    pass(900);
    expect_given_up();
    finish_load_for(begin_load("k", &second), "v2", &second, GUARD_FROM_LOAD);
    assert_int_equal(stats_of().load_duplicate, 0);
}

TEST(a_lease_is_not_held_in_the_queue_beyond_its_limit)
{
    bench.policy.max_hold_ms = 5000;
    bench.policy.load_limit_ms = 5000;
    bench_open_with(1, 2);
    begin_load("k", &first);
    reply_kind(lookup_of("k2", &second), REPLY_LEASE);
    for (int third = 1; third < 5; third++) {
        pass_to_renewal(1000, 1);
        reply_code(expect(CORE_RENEW), 1);
    }
    pass(1000);
    answered(&first, GUARD_FAILED);
    answered(&second, GUARD_SHED);
}

TEST(without_a_lease_a_load_has_the_same_limits)
{
    reply_kind(lookup_of("k", &caller), REPLY_REFUSED);
    struct seen *load = expect(CORE_LOAD);
    pass(10000);
    expect(CORE_CANCEL);
    sent_nothing();
    load_fails(load, GUARD_FAILURE_INTERNAL);
    answered_from(&caller, GUARD_FAILED, GUARD_FROM_LOAD);
    assert_int_equal(caller.waiter.result.failure, GUARD_FAILURE_TIMEOUT);
}

/* ---- what is released how ---- */

TEST(an_unanswered_release_is_repeated_while_the_lease_may_stand)
{
    struct seen *acquire = lookup_of("k", &caller);
    load_fails(lease(acquire), GUARD_FAILURE_UNAVAILABLE);
    reply_kind(expect(CORE_RELEASE), REPLY_UNSENT);
    struct seen *again = expect(CORE_RELEASE);
    assert_string_equal(again->token, acquire->token);
    assert_int_equal(again->action.failure, GUARD_FAILURE_UNAVAILABLE);
    bench.now_us += 3000000;
    reply_kind(again, REPLY_UNKNOWN);
    at_rest();
}

TEST(a_refresh_that_cannot_have_the_lease_is_dropped)
{
    bench.policy.stale_ms = 1000;
    struct seen *acquire = lookup_of("k", &caller);
    pass(3000);
    reply_stale(acquire, REFRESH_OURS, "old"); /* too late for the lease */
    answered_value(&caller, "old", GUARD_FROM_STALE);
    reply_kind(expect(CORE_ACQUIRE), REPLY_UNSENT);
    sent_nothing(); /* no load that has no waiter and could not be stored */
    assert_true(core_idle(bench.core));
}

TEST(an_action_carries_the_policy_of_the_flight)
{
    bench.policy.jitter_percent = 50;
    bench.policy.stale_ms = 700;
    uint32_t shortest = UINT32_MAX, longest = 0;
    for (int i = 0; i < 50; i++) {
        loaded(begin_load("k", &caller), "v");
        struct seen *fill = expect(CORE_FILL);
        assert_int_equal(fill->action.stale_ms, 700);
        shortest = fill->action.fresh_ms < shortest ? fill->action.fresh_ms : shortest;
        longest = fill->action.fresh_ms > longest ? fill->action.fresh_ms : longest;
        reply_code(fill, 1);
        answered_value(&caller, "v", GUARD_FROM_LOAD);
    }
    assert_in_range(shortest, 30000, 35000);
    assert_in_range(longest, 55000, 60000);
}

TEST_GROUP(.before = bench_up, .end = bench_close);
