/* SPDX-License-Identifier: MIT */
/* core_abandon_test.c - loads that nobody waits for any more. */
#include "core_bench.h"

static bool bench_that_abandons(void)
{
    bench_up();
    bench.policy.abandon = true;
    return true;
}

static struct seen *lease_after_abandoned(struct seen *acquire)
{
    reply(acquire, (struct core_reply){.kind = REPLY_LEASE, .abandoned = true});
    return expect(CORE_LOAD);
}

/* The last waiter leaves; no other process waits. */
static struct seen *abandon(struct seen *load, struct caller *last)
{
    cancel(last);
    struct seen *renewal = expect(CORE_RENEW);
    assert_true(renewal->action.asks_wait);
    reply_code(renewal, 1);
    assert_true(expect(CORE_CANCEL)->action.load == load->action.load);
    struct seen *release = expect(CORE_RELEASE);
    assert_int_equal(release->action.failure, GUARD_FAILURE_NONE);
    assert_int_equal(release->action.abandoned_ms, bench.policy.fresh_ms + bench.policy.stale_ms);
    return release;
}

static struct caller a, b;

TEST(a_load_that_nobody_waits_for_is_cancelled_and_leaves_a_mark)
{
    struct seen *load = begin_load("a", &a);
    assert_false(bench.seen[0].action.asks_wait);
    reply_code(abandon(load, &a), 1);
    load_fails(load, GUARD_FAILURE_UNAVAILABLE);
    assert_int_equal(stats_of().load_failed, 0);
    sent_nothing();
}

TEST(while_another_process_waits_the_load_goes_on_and_every_renewal_asks_again, P153)
{
    struct seen *load = begin_load("a", &a);
    cancel(&a);
    reply_code(expect(CORE_RENEW), RENEWED_AWAITED);
    sent_nothing();
    pass_to_renewal(bench.policy.lease_ms / 3, RENEWED_AWAITED);
    sent_nothing();
    pass_to_renewal(bench.policy.lease_ms / 3, 1);
    expect_given_up();
    loaded(load, "unwanted");
    sent_nothing();
}

TEST(a_request_that_joins_before_the_answer_gets_the_load)
{
    struct seen *load = begin_load("a", &a);
    cancel(&a);
    struct seen *renewal = expect(CORE_RENEW);
    get("a", &b);
    reply_code(renewal, 1);
    sent_nothing();
    finish_load_for(load, "A", &b, GUARD_FROM_FLIGHT);
}

TEST(the_load_after_an_abandoned_one_is_never_abandoned_and_the_one_after_it_may_be, P153)
{
    struct seen *load = lease_after_abandoned(lookup_of("a", &a));
    cancel(&a);
    sent_nothing();
    pass_to_renewal(bench.policy.lease_ms / 3, 1);
    sent_nothing();
    finish_load(load, "A");
    load = begin_load("a", &a);
    reply_code(abandon(load, &a), 1);
    load_fails(load, GUARD_FAILURE_UNAVAILABLE);
}

TEST(a_lease_that_is_given_back_before_its_load_leaves_the_mark_again)
{
    bench_open_with(1, 2);
    struct seen *other = begin_load("b", &b);
    reply(lookup_of("a", &a), (struct core_reply){.kind = REPLY_LEASE, .abandoned = true});
    sent_nothing();
    cancel(&a);
    struct seen *release = expect(CORE_RELEASE);
    assert_true(release->action.abandoned_ms > 0);
    reply_code(release, 1);
    finish_load_for(other, "B", &b, GUARD_FROM_LOAD);
}

/* Redis says nothing. */
static struct seen *load_without_lease(const char *key, struct caller *caller)
{
    get(key, caller);
    struct seen *seen = next_seen();
    for (; seen->action.kind == CORE_ACQUIRE; seen = next_seen())
        reply_kind(seen, REPLY_UNSENT);
    assert_int_equal(seen->action.kind, CORE_LOAD);
    return seen;
}

TEST(without_redis_this_process_decides_and_remembers)
{
    struct seen *load = load_without_lease("a", &a);
    cancel(&a);
    assert_true(expect(CORE_CANCEL)->action.load == load->action.load);
    load_fails(load, GUARD_FAILURE_UNAVAILABLE);
    load = load_without_lease("a", &a);
    cancel(&a);
    sent_nothing(); /* this one is spared */
    loaded(load, "A");
}

TEST(in_mode_local_no_other_process_is_asked)
{
    bench.config.mode = GUARD_MODE_LOCAL;
    bench_open();
    struct seen *load = begin_load("a", &a);
    cancel(&a);
    expect_given_up();
    load_fails(load, GUARD_FAILURE_UNAVAILABLE);
}

TEST(a_refresh_of_a_value_that_is_there_is_not_abandoned)
{
    bench.policy.stale_ms = 1000;
    struct seen *acquire = lookup_of("a", &a);
    reply_stale(acquire, REFRESH_OURS, "old");
    answered_value(&a, "old", GUARD_FROM_STALE);
    struct seen *load = expect(CORE_LOAD);
    pass_to_renewal(bench.policy.lease_ms / 3, 1);
    sent_nothing();
    finish_load(load, "new");
}

TEST(a_request_that_runs_out_of_time_leaves_as_one_that_is_cancelled_does)
{
    get_until("a", &a, bench.now_us + 100 * BENCH_MS);
    struct seen *load = lease(expect(CORE_ACQUIRE));
    pass(100);
    answered(&a, GUARD_TIMEOUT);
    reply_code(expect(CORE_RENEW), 1);
    expect_given_up();
    load_fails(load, GUARD_FAILURE_UNAVAILABLE);
}

TEST(a_deferred_load_is_abandoned_and_its_key_is_free_at_once)
{
    struct seen *load = begin_load("a", &a);
    core_deferred(bench.core, bench.now_us, load->action.load);
    drain();
    reply_code(abandon(load, &a), 1);
    assert_int_equal(stats_of().loads_running, 1);
    struct seen *again = lease_after_abandoned(lookup_of("a", &b));
    load_fails(load, GUARD_FAILURE_UNAVAILABLE);
    finish_load_for(again, "A", &b, GUARD_FROM_LOAD);
}

TEST_GROUP(.before = bench_that_abandons, .end = bench_close);
