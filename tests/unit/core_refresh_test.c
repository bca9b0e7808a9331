/* SPDX-License-Identifier: MIT */
/*
 * core_refresh_test.c - a value is there while it is refreshed: in the background, before its time, up to a soft
 * limit, and with a loader that finds it unchanged.
 */
#include "core_bench.h"

enum { SOFT_MS = 200 };

static const char FILLER[] = "11111111-0000-4000-8000-000000000000";

static bool set_up(void)
{
    bench_up();
    bench.policy.fresh_ms = 1000;
    bench.policy.stale_ms = 5000;
    return true;
}

static void refresh(const char *key, const char *filler)
{
    refresh_behind(key, (struct core_refresh){.filler = filler});
}

/* A stale value of FILLER that lives for so long still. */
static void reply_stale_of(struct seen *to, enum core_refresher refresher, uint32_t pttl_ms)
{
    const struct core_reply with = {.kind = REPLY_STALE,
                                    .refresher = refresher,
                                    .age_ms = 1500,
                                    .pttl_ms = pttl_ms,
                                    .cool_ms = refresher == REFRESH_COOLING ? 300 : 0,
                                    .head = FILLER};
    reply_value(to, with, "old");
}

static void load_says_unchanged(struct seen *load)
{
    loaded_as(load, (struct core_loaded){.outcome = LOAD_UNCHANGED, .load_us = 700});
}

/* The next acquire, whatever was started before it. */
static struct seen *expect_acquire_of(const char *key)
{
    while (bench.seen_first < bench.seen_count && bench.seen[bench.seen_first].action.kind == CORE_LOAD)
        bench.seen_first++;
    struct seen *acquire = expect(CORE_ACQUIRE);
    assert_string_equal(acquire->key, key);
    return acquire;
}

static struct caller caller, full, joined, patient, late, first, second;

/* ---- what a load without a waiter goes back to ---- */

static struct core_origin origin, other_origin;

static void get_from(const char *key, struct caller *of, struct core_origin *from)
{
    get_as(key, of, (struct core_waiter){.origin = from});
}

TEST(the_load_behind_a_stale_answer_goes_back_to_its_request, P145)
{
    get_from("k", &caller, &origin);
    reply_stale_of(expect(CORE_ACQUIRE), REFRESH_OURS, 3000);
    answered(&caller, GUARD_OK);
    struct seen *load = expect(CORE_LOAD);
    assert_null(load->action.starter);
    assert_ptr_equal(load->action.origin, &origin);
    assert_null(caller.waiter.origin);
    assert_int_equal(bench.spent, 1);
    finish_load(load, "new");
}

TEST(a_load_that_a_request_waits_for_leaves_it_what_it_had, P145)
{
    get_from("k", &caller, &origin);
    struct seen *load = lease(expect(CORE_ACQUIRE));
    assert_ptr_equal(load->action.starter, &caller.waiter);
    assert_null(load->action.origin);
    finish_load(load, "new");
    assert_ptr_equal(caller.waiter.origin, &origin);
    assert_int_equal(bench.spent, 0);
}

static void refresh_from(const char *key, struct core_origin *from)
{
    refresh_behind(key, (struct core_refresh){.origin = from});
}

TEST(what_a_refresh_goes_back_to_is_given_back_once_its_load_has_begun_or_none_will, P145)
{
    refresh_from("k", &origin);
    refresh_from("k", &other_origin); /* the key has a flight */
    assert_int_equal(bench.spent, 1);
    reply_stale_of(expect(CORE_ACQUIRE), REFRESH_OURS, 3000);
    struct seen *load = expect(CORE_LOAD);
    assert_ptr_equal(load->action.origin, &origin);
    assert_int_equal(bench.spent, 2);
    finish_load(load, "new");
    refresh_from("other", &origin);
    reply_stale_of(expect(CORE_ACQUIRE), REFRESH_OTHERS, 3000);
    assert_int_equal(bench.spent, 3);
}

/* ---- background refreshes ---- */

TEST(while_others_refresh_or_it_cools_down_no_hit_asks_again, P46)
{
    static const struct {
        enum core_refresher refresher;
        uint32_t rest_ms;
    } cases[] = {{REFRESH_OTHERS, 100}, {REFRESH_COOLING, 300}};
    for (size_t i = 0; i < 2; i++) {
        refresh("k", NULL);
        reply_stale_of(expect(CORE_ACQUIRE), cases[i].refresher, 3000);
        pass(cases[i].rest_ms - 1);
        refresh("k", NULL);
        sent_nothing();
        pass(1);
        assert_true(core_idle(bench.core));
    }
    refresh("k", NULL);
    reply_stale_of(expect(CORE_ACQUIRE), REFRESH_OTHERS, 3000);
    message("k", false); /* the refresh is over: the rest is, too */
    refresh("k", NULL);
    expect(CORE_ACQUIRE);
}

TEST(a_refresh_finds_no_place_among_the_loads_of_users_and_asks_nothing, P157)
{
    bench_open_with(1, 0);
    struct seen *load = begin_load("other", &caller);
    refresh("k", NULL);
    sent_nothing();
    finish_load_for(load, "v", &caller, GUARD_FROM_LOAD);
}

TEST(what_a_refresh_gets_and_does_not_need_is_given_back)
{
    static const enum core_reply_kind kinds[] = {REPLY_LEASE,  REPLY_UNKNOWN, REPLY_BUSY,
                                                 REPLY_FAILED, REPLY_UNSENT,  REPLY_REFUSED};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        refresh("k", NULL);
        reply_kind(expect(CORE_ACQUIRE), kinds[i]);
        if (i < 2)
            reply_code(expect(CORE_RELEASE), 1);
        at_rest();
    }
}

/* Another process, or this one before its settings were changed, let the value be served stale. */
TEST(a_policy_without_stale_values_gets_none_from_a_peek)
{
    static const char *const keys[] = {"a", "b", "c"};
    static struct caller loading[3];
    bench.policy.stale_ms = 0;
    for (size_t i = 0; i < 3; i++) {
        get(keys[i], &loading[i]);
        reply_kind(expect_acquire_of(keys[i]), REPLY_LEASE);
    }
    refresh("d", FILLER); /* the last place */
    reply_stale_of(expect_acquire_of("d"), REFRESH_OURS, 3000);
    get("d", &joined);
    struct seen *peek = expect_acquire_of("d");
    assert_int_equal(peek->action.lookup, LOOKUP_PEEK);
    reply_stale_of(peek, REFRESH_OTHERS, 3000);
    still_waits(&joined);
    get("full", &full);
    peek = expect_acquire_of("full");
    assert_int_equal(peek->action.lookup, LOOKUP_PEEK);
    reply_stale_of(peek, REFRESH_OTHERS, 3000);
    answered(&full, GUARD_SHED);
}

/* ---- early ---- */

TEST(an_early_refresh_names_the_value_it_is_for)
{
    refresh("k", FILLER);
    struct seen *acquire = expect(CORE_ACQUIRE);
    assert_int_equal(acquire->action.lookup, LOOKUP_EARLY);
    assert_string_equal(acquire->action.wanted, FILLER);
    reply_stale_of(acquire, REFRESH_OURS, 3000);
    finish_load(expect(CORE_LOAD), "new");
    assert_int_equal(stats_of().refresh_early, 1);
    assert_int_equal(stats_of().refresh_started, 0);
}

/* A load of 2 s that is fresh for 20 ms more: e^-0.01. */
TEST(a_hit_of_the_core_draws_the_lot_too_and_has_been_answered_by_then)
{
    bench.policy.early_percent = 100;
    const struct core_reply hit = {
        .kind = REPLY_FRESH, .age_ms = 10, .left_ms = 20, .load_us = 2000000, .head = FILLER};
    reply_value(lookup_of("k", &caller), hit, "v");
    answered_value(&caller, "v", GUARD_FROM_CACHE);
    assert_int_equal(expect(CORE_ACQUIRE)->action.lookup, LOOKUP_EARLY);
}

/* ---- the soft limit ---- */

TEST(a_refresh_within_the_soft_limit_answers_with_the_new_value)
{
    bench.policy.soft_ms = SOFT_MS;
    reply_stale_of(lookup_of("k", &caller), REFRESH_OURS, 3000);
    pass(199);
    still_waits(&caller);
    finish_load_for(expect(CORE_LOAD), "new", &caller, GUARD_FROM_LOAD);
    assert_int_equal(stats_of().stale_soft, 0);
}

TEST(past_the_soft_limit_the_stale_value_answers_and_the_load_goes_on, P71)
{
    bench.policy.soft_ms = SOFT_MS;
    get("k", &caller);
    pass(50); /* the lookup takes its time: the limit counts from the question */
    reply_stale_of(expect(CORE_ACQUIRE), REFRESH_OURS, 3000);
    struct seen *load = expect(CORE_LOAD);
    pass(149);
    still_waits(&caller);
    pass(1);
    assert_int_equal(caller.waiter.result.age_ms, 1500 + 150);
    answered_value(&caller, "old", GUARD_FROM_STALE);
    assert_int_equal(stats_of().stale_soft, 1);
    finish_load(load, "new");
    assert_int_equal(stats_of().fill_stored, 1);
}

TEST(the_soft_limit_holds_also_while_another_process_refreshes, P71)
{
    bench.policy.soft_ms = SOFT_MS;
    reply_stale_of(lookup_of("k", &patient), REFRESH_OTHERS, 3000);
    still_waits(&patient);
    message("k", false);
    struct seen *again = expect(CORE_ACQUIRE);
    get("k", &late); /* after that lookup */
    reply_fresh_for(again, "new", &patient, GUARD_FROM_FLEET);
    reply_stale_of(expect(CORE_ACQUIRE), REFRESH_OTHERS, 3000);
    pass(200);
    answered_value(&late, "old", GUARD_FROM_STALE);
}

TEST(a_waiter_that_came_after_the_last_lookup_gets_one_at_its_soft_limit)
{
    bench.policy.soft_ms = SOFT_MS;
    reply_stale_of(lookup_of("k", &first), REFRESH_OTHERS, 3000);
    get("k", &second);
    struct seen *look = NULL;
    while (second.answers == 0) { /* polls come in between */
        pass(10);
        while (bench.seen_first < bench.seen_count) {
            look = expect(CORE_ACQUIRE);
            reply_stale_of(look, REFRESH_OTHERS, 3000);
        }
        assert_true(bench.now_us < 1000000 + 260 * BENCH_MS);
    }
    assert_non_null(look);
    answered_value(&first, "old", GUARD_FROM_STALE);
    answered_value(&second, "old", GUARD_FROM_STALE);
}

TEST(a_refresh_that_fails_gives_the_stale_value_at_once)
{
    bench.policy.soft_ms = SOFT_MS;
    reply_stale_of(lookup_of("k", &caller), REFRESH_OURS, 3000);
    load_fails(expect(CORE_LOAD), GUARD_FAILURE_UNAVAILABLE);
    reply_code(expect(CORE_RELEASE), 1);
    reply_stale_of(expect(CORE_ACQUIRE), REFRESH_COOLING, 2900);
    answered_value(&caller, "old", GUARD_FROM_STALE);
    assert_int_equal(stats_of().refresh_failed, 1);
}

/* Redis goes away in the middle, and the load without it fails: old data is better than an error. */
TEST(a_stale_value_in_hand_stands_in_for_an_error, P71)
{
    bench.policy.soft_ms = SOFT_MS;
    reply_stale_of(lookup_of("k", &caller), REFRESH_OTHERS, 3000);
    message("k", false);
    reply_kind(expect(CORE_ACQUIRE), REPLY_REFUSED);
    load_fails(expect(CORE_LOAD), GUARD_FAILURE_UNAVAILABLE);
    answered_value(&caller, "old", GUARD_FROM_STALE);
    assert_int_equal(stats_of().stale_rescued, 1);
}

TEST(a_value_in_hand_is_not_served_beyond_its_stale_time, P71)
{
    bench.policy.soft_ms = SOFT_MS;
    reply_stale_of(lookup_of("k", &caller), REFRESH_OURS, 100);
    struct seen *load = expect(CORE_LOAD);
    pass(200);
    still_waits(&caller); /* there is none any more: the hard limit holds */
    finish_load_for(load, "new", &caller, GUARD_FROM_LOAD);
}

TEST(an_earlier_deadline_is_an_earlier_soft_limit)
{
    bench.policy.soft_ms = SOFT_MS;
    get_until("k", &caller, bench.now_us + 100 * BENCH_MS);
    reply_stale_of(expect(CORE_ACQUIRE), REFRESH_OURS, 3000);
    pass(100);
    answered_value(&caller, "old", GUARD_FROM_STALE);
}

TEST(without_a_stale_value_only_the_hard_limit_counts)
{
    bench.policy.soft_ms = SOFT_MS;
    reply_kind(lookup_of("k", &caller), REPLY_LEASE);
    pass(bench.policy.deadline_ms - 1);
    still_waits(&caller);
    pass(1);
    answered(&caller, GUARD_TIMEOUT);
}

TEST(a_value_in_hand_never_goes_to_a_waiter_that_came_after_its_lookup)
{
    bench.policy.soft_ms = SOFT_MS;
    struct seen *acquire = lookup_of("k", &first);
    get("k", &second);
    reply_stale_of(acquire, REFRESH_OURS, 3000);
    reply_busy(expect(CORE_ACQUIRE), 1000); /* the peek for the second: it is gone, say */
    struct seen *load = expect(CORE_LOAD);
    pass(200);
    answered_value(&first, "old", GUARD_FROM_STALE);
    still_waits(&second);
    finish_load_for(load, "new", &second, GUARD_FROM_FLIGHT);
}

/* ---- unchanged ---- */

/* Up to the load of a refresh. */
static struct seen *begin_refresh(void)
{
    refresh("k", NULL);
    struct seen *acquire = expect(CORE_ACQUIRE);
    assert_int_equal(acquire->action.lookup, LOOKUP_NORMAL);
    assert_int_equal(acquire->action.waits, WAIT_NOT);
    reply_stale_of(acquire, REFRESH_OURS, 3000);
    struct seen *load = expect(CORE_LOAD);
    assert_int_equal(stats_of().refresh_started, 1);
    assert_non_null(load->action.previous);
    return load;
}

TEST(an_unchanged_value_is_touched_not_sent)
{
    load_says_unchanged(begin_refresh());
    struct seen *touch = expect(CORE_TOUCH);
    assert_string_equal(touch->action.wanted, FILLER);
    assert_int_equal(touch->action.fresh_ms, 1000);
    assert_int_equal(touch->action.stale_ms, 5000);
    assert_int_equal(touch->action.load_us, 700);
    reply_code(touch, 1);
    sent_nothing();
    assert_int_equal(stats_of().load_unchanged, 1);
    assert_int_equal(stats_of().load_ok, 0);
    assert_int_equal(stats_of().fill_stored, 1);
    assert_true(core_idle(bench.core));
}

/* As a fill that goes unanswered: the value is in hand, no waiter need wait for the next attempt. */
TEST(a_waiter_for_a_value_that_went_and_is_not_confirmed_either_is_answered_at_once)
{
    bench.policy.soft_ms = SOFT_MS;
    reply_stale_of(lookup_of("k", &caller), REFRESH_OURS, 3000);
    load_says_unchanged(expect(CORE_LOAD));
    reply_code(expect(CORE_TOUCH), -2);
    reply_kind(expect(CORE_FILL), REPLY_UNKNOWN);
    answered_value(&caller, "old", GUARD_FROM_LOAD);
    reply_code(expect(CORE_FILL), 2);
}

TEST(an_unanswered_touch_is_repeated_with_its_token)
{
    load_says_unchanged(begin_refresh());
    struct seen *touch = expect(CORE_TOUCH);
    reply_kind(touch, REPLY_UNKNOWN);
    struct seen *again = expect(CORE_TOUCH);
    assert_string_equal(again->token, touch->token);
    reply_code(again, 2);
    assert_true(core_idle(bench.core));
}

TEST_GROUP(.before = set_up, .end = bench_close);
