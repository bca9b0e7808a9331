/* SPDX-License-Identifier: MIT */
/* core_defer_test.c - loads that are finished later, without a thread: threads, limits, places, nested loads, the
 * end. */
#include "core_bench.h"

static void deferred(struct seen *load)
{
    load->over = true; /* it may never come back */
    core_deferred(bench.core, bench.now_us, load->action.load);
    drain();
}

static void threads(uint32_t max_loads, uint32_t load_threads)
{
    bench.config.max_loads = max_loads;
    bench.config.load_threads = load_threads;
    bench.config.load_queue = 100;
    bench_open();
}

static struct seen *begin_deferred(const char *key, struct caller *caller)
{
    struct seen *load = begin_load(key, caller);
    deferred(load);
    return load;
}

static struct caller a, b, c, x, y, d, joined, ab, ac, ca, aa;

/* ---- threads and places ---- */

static struct seen *begin_under(const struct guard_policy *policy, const char *key, struct caller *caller)
{
    const struct core_key core_key = {key, strlen(key), key, strlen(key)};
    caller->waiter.start_us = bench.now_us;
    assert_int_equal(core_get(bench.core, bench.now_us, &core_key, policy, &caller->waiter,
                              bench.now_us + (uint64_t)policy->deadline_ms * BENCH_MS),
                     GUARD_OK);
    bench.accepted_count++;
    drain();
    return lease(expect(CORE_ACQUIRE));
}

TEST(a_load_that_runs_on_a_loop_or_on_the_thread_that_waits_for_it_needs_no_load_thread, P187, P188)
{
    struct guard_policy on_loop = bench.policy, on_caller = bench.policy;
    on_loop.loads_on = GUARD_ON_LOOP;
    on_caller.loads_on = GUARD_ON_CALLER;
    threads(4, 1);
    struct seen *first = begin_load("a", &a);
    reply_kind(lookup_of("b", &b), REPLY_LEASE);
    sent_nothing(); /* the only thread is busy */
    c = (struct caller){.answers = 0};
    d = (struct caller){.waiter.lends = true};
    struct seen *queued = begin_under(&on_loop, "c", &c), *lent = begin_under(&on_caller, "d", &d);
    assert_ptr_equal(lent->action.starter, &d.waiter);
    finish_load_for(queued, "C", &c, GUARD_FROM_LOAD);
    finish_load_for(lent, "D", &d, GUARD_FROM_LOAD);
    sent_nothing(); /* nor have they given a thread back */
    finish_load_for(first, "A", &a, GUARD_FROM_LOAD);
    expect(CORE_LOAD);
}

TEST(a_load_that_waits_for_a_thread_has_its_lease_renewed_and_its_whole_limit_left)
{
    threads(2, 1);
    struct seen *first = begin_load("a", &a);
    reply_kind(lookup_of("b", &b), REPLY_LEASE);
    pass(bench.policy.lease_ms / 3 + 1);
    struct seen *renewals[] = {expect(CORE_RENEW), expect(CORE_RENEW)};
    reply_code(renewals[0], 1);
    reply_code(renewals[1], 1);
    deferred(first);
    struct seen *second = expect(CORE_LOAD);
    assert_true(second->action.deadline_us == bench.now_us + bench.policy.load_limit_ms * 1000ull);
}

/* ---- limits ---- */

TEST(a_load_that_is_deferred_after_its_limit_fails_at_once)
{
    bench.policy.load_limit_ms = 500;
    struct seen *load = begin_load("a", &a);
    pass(600);
    expect(CORE_CANCEL);
    still_waits(&a); /* its thread cannot be taken away */
    deferred(load);
    answered(&a, GUARD_FAILED);
}

TEST(one_that_is_never_finished_gives_its_place_back_at_the_hold_limit, P152)
{
    threads(1, 1);
    bench.policy.load_limit_ms = 500;
    bench.policy.max_hold_ms = 3000;
    struct seen *load = begin_deferred("a", &a);
    pass(500);
    expect_given_up();
    reply_kind(lookup_of("b", &b), REPLY_LEASE);
    pass(2499);
    struct seen *renewal = expect(CORE_RENEW);
    sent_nothing();
    pass(1);
    struct seen *forget = expect(CORE_FORGET);
    assert_true(forget->action.load == load->action.load);
    struct seen *next = expect(CORE_LOAD);
    reply_code(renewal, 1);
    finish_load_for(next, "B", &b, GUARD_FROM_LOAD);
    loaded(load, "much too late");
    sent_nothing();
}

/* ---- nested loads ---- */

TEST(with_all_places_held_by_deferred_parents_their_nested_loads_run_in_them)
{
    threads(2, 1);
    bench.config.load_queue = 0;
    bench_open();
    struct seen *first = begin_deferred("a", &a), *second = begin_deferred("b", &b);
    get_nested("x", &x, first, 1000);
    reply_kind(expect(CORE_ACQUIRE), REPLY_LEASE);
    struct seen *nested = expect(CORE_LOAD);
    assert_true(nested->action.lender == 0 && nested->action.depth == 1);
    get_nested("y", &y, second, 1000);
    struct seen *acquire = expect(CORE_ACQUIRE);
    assert_int_equal(acquire->action.lookup, LOOKUP_PEEK); /* the thread is busy and no place is free */
    reply_kind(acquire, REPLY_BUSY);
    deferred(nested);
    pass(600);
    while ((acquire = next_seen())->action.kind != CORE_ACQUIRE)
        reply_code(acquire, 1);
    struct seen *other = lease(acquire);
    finish_load(other, "Y");
    finish_load(nested, "X");
    finish_load(first, "A");
    finish_load(second, "B");
    answered_value(&x, "X", GUARD_FROM_LOAD);
    answered_value(&y, "Y", GUARD_FROM_LOAD);
    answered_value(&a, "A", GUARD_FROM_LOAD);
    answered_value(&b, "B", GUARD_FROM_LOAD);
}

/* The loader that stands still on that thread is to be back in time. */
TEST(what_runs_on_a_lent_thread_has_the_time_of_the_load_that_lends_it)
{
    threads(2, 1);
    bench.policy.load_limit_ms = 9000;
    struct seen *later = begin_deferred("d", &d);
    bench.policy.load_limit_ms = 3000;
    struct seen *lender = begin_load("a", &a);
    bench.policy.load_limit_ms = 5000;
    get_nested("d", &joined, lender, 2000);
    get_nested("x", &x, later, 8000);
    struct seen *nested = lease(expect(CORE_ACQUIRE));
    assert_true(nested->action.lender == lender->action.load);
    assert_true(nested->action.deadline_us == lender->action.deadline_us);
    finish_load_for(nested, "row", &x, GUARD_FROM_LOAD);
}

TEST(a_circle_over_any_of_the_keys_that_a_deferred_load_waits_for_is_refused)
{
    threads(3, 3);
    struct seen *loads[] = {begin_deferred("a", &a), begin_deferred("b", &b), begin_deferred("c", &c)};
    get_nested("b", &ab, loads[0], 1000);
    get_nested("c", &ac, loads[0], 1000);
    still_waits(&ab);
    still_waits(&ac);
    get_nested("a", &ca, loads[2], 1000);
    answered(&ca, GUARD_FAILED);
    assert_int_equal(ca.waiter.result.failure, GUARD_FAILURE_CYCLE);
    get_nested("a", &aa, loads[0], 1000);
    answered(&aa, GUARD_FAILED);
}

/* Each refused get is for a key that nothing is known of yet: no flight may be left of it. */
TEST(what_would_nest_too_deep_is_refused_and_leaves_nothing, P67)
{
    static struct caller chain[GUARD_NESTED_MAX + 1], refused, passing;
    static const char *const keys[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};
    struct seen *load = begin_deferred(keys[0], &chain[0]);
    for (int depth = 1; depth <= GUARD_NESTED_MAX; depth++) {
        get_nested(keys[depth], &chain[depth], load, 1000);
        load = lease(expect(CORE_ACQUIRE));
        assert_int_equal(load->action.depth, depth);
        deferred(load);
    }
    uint32_t flights = stats_of().flights;
    get_nested("too deep", &refused, load, 1000);
    passing = (struct caller){.waiter.parent_load = load->action.load, .waiter.passes = true};
    get_as_prepared("too deep as well", &passing, bench.now_us + 1000 * BENCH_MS);
    answered(&refused, GUARD_FAILED);
    answered(&passing, GUARD_FAILED);
    assert_int_equal(passing.waiter.result.failure, GUARD_FAILURE_CYCLE);
    assert_int_equal(stats_of().flights, flights);
    sent_nothing();
}

/* ---- the end ---- */

TEST(draining_does_not_wait_for_what_is_deferred)
{
    struct seen *later = begin_deferred("a", &a), *running = begin_load("b", &b);
    core_drain(bench.core, bench.now_us);
    drain();
    answered(&a, GUARD_CLOSING);
    assert_true(expect(CORE_CANCEL)->action.load == later->action.load);
    reply_code(expect(CORE_RELEASE), 1);
    assert_false(core_drained(bench.core));
    deferred(running); /* one that is deferred now is not waited for either */
    answered(&b, GUARD_CLOSING);
    expect_given_up();
    assert_true(core_drained(bench.core));
    loaded(later, "late");
}

TEST(a_load_that_is_deferred_after_the_end_is_over)
{
    struct seen *load = begin_load("a", &a);
    close_core();
    answered(&a, GUARD_CLOSING);
    assert_false(core_idle(bench.core));
    deferred(load);
}

TEST_GROUP(.before = bench_up, .end = bench_close);
