/* SPDX-License-Identifier: MIT */
/*
 * core_lease_test.c - the lease while its load runs: renewal, loss, limits; and what is released how.
 */
#include "core_bench.h"

/* ---- renewal ---- */

TEST(a_lease_is_renewed_at_a_third_of_its_time_for_as_long_as_the_load_runs)
{
    struct bench *bench = opened(state);
    struct caller caller;
    get(bench, "k", &caller);
    struct seen *acquire = expect(bench, CORE_ACQUIRE);
    pass(bench, 100); /* the reply takes its time: a third counts from the sending */
    struct seen *load = lease(bench, acquire);
    for (int third = 0; third < 9; third++) {
        pass_us(bench, third == 0 ? 899999 : 999999);
        sent_nothing(bench);
        pass_us(bench, 1);
        struct seen *renew = expect(bench, CORE_RENEW);
        assert_string_equal(renew->token, acquire->token);
        assert_int_equal(renew->action.lease_ms, bench->policy.lease_ms);
        reply_code(bench, renew, 1);
    }
    finish_load(bench, load, "v1");
    answered_value(&caller, "v1", GUARD_FROM_LOAD);
    assert_int_equal(stats_of(bench).lease_renewed, 9);
    bench_close(bench);
}

TEST(no_renewal_is_sent_once_the_fill_was)
{
    struct bench *bench = opened(state);
    struct caller caller;
    struct seen *load = begin_load(bench, "k", &caller);
    pass(bench, 1000);
    struct seen *renew = expect(bench, CORE_RENEW);
    loaded(bench, load, "v1");
    struct seen *fill = expect(bench, CORE_FILL);
    reply_code(bench, renew, 0); /* too late to mean anything */
    pass(bench, 2500);
    sent_nothing(bench);
    reply_code(bench, fill, 1);
    answered_value(&caller, "v1", GUARD_FROM_LOAD);
    assert_int_equal(stats_of(bench).lease_lost, 0);
    bench_close(bench);
}

TEST(one_unanswered_renewal_does_not_lose_the_lease)
{
    struct bench *bench = opened(state);
    struct caller caller;
    struct seen *load = begin_load(bench, "k", &caller);
    pass(bench, 1000);
    struct seen *renew = expect(bench, CORE_RENEW);
    pass(bench, 250);
    reply_kind(bench, renew, REPLY_UNKNOWN);
    sent_nothing(bench);
    pass(bench, 750);
    reply_code(bench, expect(bench, CORE_RENEW), 1);
    finish_load(bench, load, "v1");
    answered_value(&caller, "v1", GUARD_FROM_LOAD);
    assert_int_equal(stats_of(bench).lease_lost, 0);
    bench_close(bench);
}

TEST(the_end_of_its_validity_loses_the_lease)
{
    struct bench *bench = opened(state);
    struct caller caller, later;
    struct seen *load = begin_load(bench, "k", &caller);
    get(bench, "k", &later);
    for (int third = 1; third <= 2; third++) {
        pass(bench, 1000);
        reply_kind(bench, expect(bench, CORE_RENEW), REPLY_UNKNOWN);
    }
    pass_us(bench, 999999);
    assert_int_equal(stats_of(bench).lease_lost, 0);
    pass_us(bench, 1);
    assert_int_equal(stats_of(bench).lease_lost, 1);
    expect(bench, CORE_CANCEL);
    loaded(bench, load, "v1"); /* it had finished all the same */
    struct seen *acquire = expect(bench, CORE_ACQUIRE);
    assert_string_not_equal(acquire->prev, "");
    answered_value(&caller, "v1", GUARD_FROM_LOAD);
    still_waits(&later);
    bench_close(bench);
}

TEST(a_lease_that_arrives_after_its_time_is_not_used)
{
    struct bench *bench = opened(state);
    struct caller caller;
    get(bench, "k", &caller);
    struct seen *acquire = expect(bench, CORE_ACQUIRE);
    pass(bench, 3000);
    reply_kind(bench, acquire, REPLY_LEASE);
    struct seen *again = expect(bench, CORE_ACQUIRE);
    assert_string_equal(again->prev, acquire->token);
    finish_load(bench, lease(bench, again), "v1");
    answered_value(&caller, "v1", GUARD_FROM_LOAD);
    bench_close(bench);
}

TEST(a_lease_that_ran_out_in_the_queue_starts_no_load)
{
    struct bench *bench = *state;
    bench->config.load_workers = 1;
    bench_open(bench);
    struct caller first, second;
    struct seen *load = begin_load(bench, "k", &first);
    get(bench, "k2", &second);
    struct seen *acquire = expect(bench, CORE_ACQUIRE);
    reply_kind(bench, acquire, REPLY_LEASE);
    bench->now_us += 4000000; /* the process was stopped; the load's result is what it sees first */
    loaded(bench, load, "v1");
    expect(bench, CORE_FILL);
    struct seen *again = expect(bench, CORE_ACQUIRE);
    assert_string_equal(again->prev, acquire->token);
    assert_string_equal(again->key, "k2");
    sent_nothing(bench);
    bench_close(bench);
}

/* ---- loss ---- */

TEST(a_lost_lease_cancels_the_load_if_more_than_half_of_its_time_is_left)
{
    struct bench *bench = opened(state); /* load limit 10 s */
    struct caller caller, later;
    struct seen *load = begin_load(bench, "k", &caller);
    get(bench, "k", &later);
    pass(bench, 1000);
    reply_code(bench, expect(bench, CORE_RENEW), 0);
    assert_int_equal(expect(bench, CORE_CANCEL)->action.load, load->action.load);
    pass(bench, 5000);
    sent_nothing(bench); /* no renewal any more */
    load_fails(bench, load, GUARD_FAILURE_UNAVAILABLE);
    /* its failure says nothing about the source: both ask again */
    still_waits(&caller);
    still_waits(&later);
    finish_load(bench, lease(bench, expect(bench, CORE_ACQUIRE)), "v2");
    answered_value(&caller, "v2", GUARD_FROM_LOAD);
    answered_value(&later, "v2", GUARD_FROM_FLIGHT);
    sent_nothing(bench);
    bench_close(bench);
}

TEST(a_lost_lease_lets_a_load_end_that_is_nearly_done)
{
    struct bench *bench = opened(state);
    struct caller caller, later;
    struct seen *load = begin_load(bench, "k", &caller);
    get(bench, "k", &later);
    for (int third = 0; third < 5; third++) {
        pass(bench, 1000);
        reply_code(bench, expect(bench, CORE_RENEW), third < 4);
    }
    sent_nothing(bench);
    loaded(bench, load, "v1");
    answered_value(&caller, "v1", GUARD_FROM_LOAD);
    still_waits(&later);
    assert_int_equal(stats_of(bench).fill_late, 1);
    reply_fresh(bench, expect(bench, CORE_ACQUIRE), "v2");
    answered_value(&later, "v2", GUARD_FROM_CACHE);
    bench_close(bench);
}

TEST(a_message_of_an_invalidation_asks_whether_the_lease_was_voided)
{
    struct bench *bench = opened(state);
    struct caller caller;
    struct seen *load = begin_load(bench, "k", &caller);
    message(bench, "k", false);
    sent_nothing(bench);
    message(bench, "k", true);
    struct seen *renew = expect(bench, CORE_RENEW);
    message(bench, "k", true);
    sent_nothing(bench); /* one at a time */
    reply_code(bench, renew, 0);
    expect(bench, CORE_CANCEL);
    load_fails(bench, load, GUARD_FAILURE_TIMEOUT);
    still_waits(&caller);
    expect(bench, CORE_ACQUIRE);
    bench_close(bench);
}

TEST(a_lease_lost_in_the_queue_is_asked_for_again)
{
    struct bench *bench = *state;
    bench->config.load_workers = 1;
    bench_open(bench);
    struct caller first, second;
    struct seen *load = begin_load(bench, "k", &first);
    get(bench, "k2", &second);
    reply_kind(bench, expect(bench, CORE_ACQUIRE), REPLY_LEASE);
    pass(bench, 1000);
    expect(bench, CORE_RENEW);
    struct seen *renew = expect(bench, CORE_RENEW);
    assert_string_equal(renew->key, "k2");
    reply_code(bench, renew, 0);
    reply_fresh(bench, expect(bench, CORE_ACQUIRE), "v2");
    answered_value(&second, "v2", GUARD_FROM_CACHE);
    finish_load(bench, load, "v1");
    answered_value(&first, "v1", GUARD_FROM_LOAD);
    bench_close(bench);
}

/* ---- limits ---- */

TEST(a_load_past_its_limit_is_cancelled_and_counts_as_a_timeout)
{
    struct bench *bench = opened(state);
    struct caller caller;
    struct seen *load = begin_load(bench, "k", &caller);
    assert_true(load->action.deadline_us == bench->now_us + 10000000);
    for (int third = 1; third < 10; third++) {
        pass(bench, 1000);
        reply_code(bench, expect(bench, CORE_RENEW), 1);
    }
    pass_us(bench, 999999);
    sent_nothing(bench);
    pass_us(bench, 1);
    reply_code(bench, expect(bench, CORE_RENEW), 1);
    assert_int_equal(expect(bench, CORE_CANCEL)->action.load, load->action.load);
    load_fails(bench, load, GUARD_FAILURE_UNAVAILABLE); /* what a cancelled query reports */
    answered_from(&caller, GUARD_FAILED, GUARD_FROM_LOAD);
    assert_int_equal(caller.waiter.result.failure, GUARD_FAILURE_TIMEOUT);
    assert_int_equal(expect(bench, CORE_RELEASE)->action.failure, GUARD_FAILURE_TIMEOUT);
    bench_close(bench);
}

TEST(a_loader_that_hangs_for_ever_keeps_neither_lease_nor_waiters)
{
    struct bench *bench = *state;
    bench->policy.deadline_ms = 60000;
    bench_open(bench);
    struct caller before, after;
    struct seen *load = begin_load(bench, "k", &before);
    get(bench, "k", &after);
    for (int third = 1; third < 30; third++) {
        pass(bench, 1000);
        reply_code(bench, expect(bench, CORE_RENEW), 1);
        if (third == 10)
            expect(bench, CORE_CANCEL);
    }
    pass(bench, 1000);
    answered_from(&before, GUARD_FAILED, GUARD_FROM_LOAD);
    assert_int_equal(before.waiter.result.failure, GUARD_FAILURE_TIMEOUT);
    struct seen *release = expect(bench, CORE_RELEASE);
    assert_int_equal(release->action.failure, GUARD_FAILURE_TIMEOUT);
    struct seen *acquire = expect(bench, CORE_ACQUIRE);
    reply(bench, acquire, (struct core_reply){.kind = REPLY_FAILED, .failure = GUARD_FAILURE_TIMEOUT});
    answered_from(&after, GUARD_FAILED, GUARD_FROM_CACHE);
    assert_int_equal(stats_of(bench).loads_running, 1); /* it still has a worker */
    loaded(bench, load, "at last");
    assert_int_equal(stats_of(bench).loads_running, 0);
    sent_nothing(bench);
    bench_close(bench);
}

TEST(a_load_given_up_is_not_a_duplicate_of_the_next_one)
{
    struct bench *bench = *state;
    bench->policy.max_hold_ms = bench->policy.load_limit_ms = 900;
    bench_open(bench);
    struct caller first, second;
    begin_load(bench, "k", &first);
    pass(bench, 900);
    expect(bench, CORE_CANCEL);
    reply_code(bench, expect(bench, CORE_RELEASE), 1);
    finish_load(bench, begin_load(bench, "k", &second), "v2");
    answered_value(&second, "v2", GUARD_FROM_LOAD);
    assert_int_equal(stats_of(bench).load_duplicate, 0);
    bench_close(bench);
}

TEST(a_lease_is_not_held_in_the_queue_beyond_its_limit)
{
    struct bench *bench = *state;
    bench->config.load_workers = 1;
    bench->policy.max_hold_ms = 5000;
    bench->policy.load_limit_ms = 5000;
    bench_open(bench);
    struct caller first, second;
    begin_load(bench, "k", &first);
    get(bench, "k2", &second);
    reply_kind(bench, expect(bench, CORE_ACQUIRE), REPLY_LEASE);
    for (int third = 1; third < 5; third++) {
        pass(bench, 1000);
        reply_code(bench, expect(bench, CORE_RENEW), 1);
        reply_code(bench, expect(bench, CORE_RENEW), 1);
    }
    pass(bench, 1000);
    answered(&first, GUARD_FAILED);
    answered(&second, GUARD_SHED);
    bench_close(bench);
}

TEST(without_a_lease_a_load_has_the_same_limits)
{
    struct bench *bench = opened(state);
    struct caller caller;
    get(bench, "k", &caller);
    reply_kind(bench, expect(bench, CORE_ACQUIRE), REPLY_REFUSED);
    struct seen *load = expect(bench, CORE_LOAD);
    pass(bench, 10000);
    expect(bench, CORE_CANCEL);
    sent_nothing(bench);
    load_fails(bench, load, GUARD_FAILURE_INTERNAL);
    answered_from(&caller, GUARD_FAILED, GUARD_FROM_LOAD);
    assert_int_equal(caller.waiter.result.failure, GUARD_FAILURE_TIMEOUT);
    bench_close(bench);
}

/* ---- what is released how ---- */

TEST(a_release_names_the_token_it_gives_back_also_with_an_acquire_behind_it)
{
    struct bench *bench = opened(state);
    struct caller first, second;
    get(bench, "k", &first);
    struct seen *acquire = expect(bench, CORE_ACQUIRE);
    struct seen *load = lease(bench, acquire);
    get(bench, "k", &second);
    load_fails(bench, load, GUARD_FAILURE_UNAVAILABLE);
    struct seen *release = expect(bench, CORE_RELEASE), *behind = expect(bench, CORE_ACQUIRE);
    assert_string_equal(release->token, acquire->token);
    assert_string_equal(behind->prev, acquire->token);
    assert_string_not_equal(behind->token, acquire->token);
    bench_close(bench);
}

TEST(an_unanswered_release_is_repeated_while_the_lease_may_stand)
{
    struct bench *bench = opened(state);
    struct caller caller;
    get(bench, "k", &caller);
    struct seen *acquire = expect(bench, CORE_ACQUIRE);
    load_fails(bench, lease(bench, acquire), GUARD_FAILURE_UNAVAILABLE);
    reply_kind(bench, expect(bench, CORE_RELEASE), REPLY_UNSENT);
    struct seen *again = expect(bench, CORE_RELEASE);
    assert_string_equal(again->token, acquire->token);
    assert_int_equal(again->action.failure, GUARD_FAILURE_UNAVAILABLE);
    bench->now_us += 3000000;
    reply_kind(bench, again, REPLY_UNKNOWN);
    sent_nothing(bench);
    assert_true(core_idle(bench->core));
    bench_close(bench);
}

TEST(a_refresh_that_cannot_have_the_lease_is_dropped)
{
    struct bench *bench = *state;
    bench->policy.stale_ms = 1000;
    bench_open(bench);
    struct caller caller;
    get(bench, "k", &caller);
    struct seen *acquire = expect(bench, CORE_ACQUIRE);
    pass(bench, 3000);
    reply_stale(bench, acquire, TURN_OURS, "old"); /* too late for the lease */
    answered_value(&caller, "old", GUARD_FROM_STALE);
    reply_kind(bench, expect(bench, CORE_ACQUIRE), REPLY_UNSENT);
    sent_nothing(bench); /* no load that nobody waits for and nobody could store */
    assert_true(core_idle(bench->core));
    bench_close(bench);
}

TEST(an_action_carries_the_policy_of_the_flight)
{
    struct bench *bench = *state;
    bench->policy.jitter_percent = 50;
    bench->policy.stale_ms = 700;
    bench_open(bench);
    struct caller caller;
    uint32_t shortest = UINT32_MAX, longest = 0;
    for (int i = 0; i < 50; i++) {
        loaded(bench, begin_load(bench, "k", &caller), "v");
        struct seen *fill = expect(bench, CORE_FILL);
        assert_int_equal(fill->action.stale_ms, 700);
        shortest = fill->action.fresh_ms < shortest ? fill->action.fresh_ms : shortest;
        longest = fill->action.fresh_ms > longest ? fill->action.fresh_ms : longest;
        reply_code(bench, fill, 1);
        answered_value(&caller, "v", GUARD_FROM_LOAD);
    }
    assert_in_range(shortest, 30000, 35000);
    assert_in_range(longest, 55000, 60000);
    bench_close(bench);
}

TEST_GROUP(.before = bench_up);
