/* SPDX-License-Identifier: MIT */
/*
 * core_outage_test.c - without Redis: what is loaded is kept and answers the next, and who may not have that loads.
 */
#include "core_bench.h"

#include "guard/core/near.h"

enum { SPAN_MS = 5000 };

static const uint8_t hash_key[16] = {3};
static struct near *near;
static struct caller caller, second, third;

static bool outage_up(void)
{
    bench_up();
    near = near_new(1 << 20, hash_key);
    near_subscribed(near, true);
    bench.config.near = near;
    bench.policy.outage_ms = SPAN_MS;
    bench_open();
    return true;
}

static void outage_close(void)
{
    bench_close();
    near_free(&near);
}

/* Commands are not answered until none is sent any more. */
static void go_away(void)
{
    static struct caller lost[BENCH_ACTIONS / 64];
    core_link(bench.core, bench.now_us, 0, false);
    for (size_t i = 0; !stats_of().breaker_open; i++) {
        char key[16];
        snprintf(key, sizeof key, "lost%zu", i);
        get(key, &lost[i]);
        reply_kind(expect(CORE_ACQUIRE), REPLY_UNKNOWN);
        for (struct seen *seen = next_seen(); seen != NULL; seen = next_seen()) {
            if (seen->action.kind == CORE_ACQUIRE)
                reply_kind(seen, REPLY_UNKNOWN);
            else if (seen->action.kind == CORE_LOAD)
                load_is_absent(seen);
        }
    }
    sent_nothing();
}

/* A new get that loads without a lease. */
static struct seen *load_alone(struct caller *who)
{
    get("k", who);
    return expect(CORE_LOAD);
}

static void is_kept(const char *body)
{
    get("k", &third);
    sent_nothing();
    answered_value(&third, body, GUARD_FROM_KEPT);
}

static void is_not_kept(void)
{
    struct seen *load = load_alone(&third);
    load_is_absent(load);
    answered(&third, GUARD_ABSENT);
}

TEST(it_is_as_old_as_the_beginning_of_its_query)
{
    go_away();
    struct seen *load = load_alone(&caller);
    pass(SPAN_MS - SPAN_MS / 20 - 100);
    loaded_for(load, "row", &caller, GUARD_FROM_LOAD);
    is_kept("row");
    assert_int_equal(third.waiter.result.age_ms, SPAN_MS - SPAN_MS / 20 - 100);
    pass(SPAN_MS / 20 + 100);
    is_not_kept();
}

/* They wanted what is queried after they came; what is kept has outage_ms for that. */
TEST(who_comes_during_the_query_needs_none_of_its_own)
{
    go_away();
    struct seen *load = load_alone(&caller);
    get("k", &second);
    loaded_for(load, "row", &caller, GUARD_FROM_LOAD);
    answered_value(&second, "row", GUARD_FROM_KEPT);
    sent_nothing();
}

TEST(an_absent_row_is_kept_too)
{
    go_away();
    load_is_absent(load_alone(&caller));
    get("k", &second);
    sent_nothing();
    answered_from(&second, GUARD_ABSENT, GUARD_FROM_KEPT);
}

/* ---- not for everybody ---- */

TEST(a_get_that_revalidates_only_refreshes_or_passes_loads)
{
    static const struct core_waiter WHO[] = {{.revalidates = true}, {.refreshes = true}, {.passes = true}};
    for (size_t i = 0; i < sizeof WHO / sizeof *WHO; i++) {
        outage_close();
        outage_up();
        go_away();
        loaded(load_alone(&caller), "row");
        get_as("k", &second, WHO[i]);
        loaded_for(expect(CORE_LOAD), "newer", &second, GUARD_FROM_LOAD);
    }
}

TEST(a_nested_get_loads)
{
    go_away();
    loaded(load_alone(&caller), "row");
    get("outer", &caller);
    struct seen *outer = expect(CORE_LOAD);
    get_nested("k", &second, outer, 1000);
    loaded_for(expect(CORE_LOAD), "newer", &second, GUARD_FROM_LOAD);
    loaded_for(outer, "outer", &caller, GUARD_FROM_LOAD);
}

/* A lookup of its own was answered, and then Redis goes. */
TEST(a_waiter_whose_acquire_was_answered_loads)
{
    struct value *value = value_new("old", 3, "", 0, NULL, 0);
    struct near_lookup lookup = near_look_up(near, "k", 1, bench.now_us);
    near_keep(&lookup, &(struct near_life){.kept = true}, value, &(struct guard_result){.left_ms = 60000});
    value_unref(&value);
    reply_busy(lookup_of("k", &caller), 10);
    get("k", &second); /* this one has had no answer */
    pass_to_next();
    reply_kind(expect(CORE_ACQUIRE), REPLY_UNKNOWN);
    reply_kind(expect(CORE_ACQUIRE), REPLY_UNKNOWN);
    answered_value(&second, "old", GUARD_FROM_KEPT);
    loaded_for(expect(CORE_LOAD), "new", &caller, GUARD_FROM_LOAD);
}

TEST(a_deadline_that_comes_while_redis_says_nothing_is_met_with_what_is_kept)
{
    finish_load(begin_load("k", &caller), "row");
    get_until("k", &second, bench.now_us + 100 * BENCH_MS);
    struct seen *acquire = expect(CORE_ACQUIRE);
    pass(100);
    answered_value(&second, "row", GUARD_FROM_KEPT);
    reply_kind(acquire, REPLY_UNSENT);
}

/* ---- what voids it, and what is not kept ---- */

TEST(an_invalidation_during_the_query_voids_what_it_brings)
{
    go_away();
    struct seen *load = load_alone(&caller);
    near_invalidation_begins(near, false, "k", 1);
    loaded_for(load, "row", &caller, GUARD_FROM_LOAD);
    is_not_kept();
}

TEST(a_subscription_that_comes_back_during_the_query_voids_it_too)
{
    near_subscribed(near, false);
    go_away();
    struct seen *load = load_alone(&caller);
    near_subscribed(near, true);
    loaded_for(load, "row", &caller, GUARD_FROM_LOAD);
    is_not_kept();
}

TEST(its_own_life_bounds_it)
{
    go_away();
    loaded_kept(load_alone(&caller), "row", (struct guard_keep){.fresh_ms = 300, .stale_ms = 200});
    pass(499);
    is_kept("row");
    pass(1);
    is_not_kept();
}

/* ---- with a lease ---- */

TEST(what_is_loaded_under_a_lease_is_kept_as_well)
{
    finish_load_for(begin_load("k", &caller), "row", &caller, GUARD_FROM_LOAD);
    go_away();
    is_kept("row");
}

/* ---- in the background ---- */

static void refresh_kept(void)
{
    refresh_behind("k", (struct core_refresh){.of_kept = true});
}

TEST(it_is_refreshed_without_a_lease_while_it_goes_on_answering)
{
    go_away();
    loaded(load_alone(&caller), "row");
    pass(SPAN_MS - SPAN_MS / 10);
    refresh_kept();
    struct seen *load = expect(CORE_LOAD);
    refresh_kept(); /* one is enough */
    sent_nothing();
    loaded(load, "newer");
    sent_nothing();
    pass(SPAN_MS / 2);
    is_kept("newer");
    assert_int_equal(stats_of().refresh_started, 1);
    assert_int_equal(stats_of().lease_acquired, 0);
}

TEST(a_refresh_that_fails_leaves_what_is_there)
{
    go_away();
    loaded(load_alone(&caller), "row");
    refresh_kept();
    load_fails(expect(CORE_LOAD), GUARD_FAILURE_UNAVAILABLE);
    is_kept("row");
}

TEST(a_refresh_that_redis_does_not_answer_loads_all_the_same)
{
    refresh_kept();
    reply_kind(expect(CORE_ACQUIRE), REPLY_UNKNOWN);
    struct seen *load = expect(CORE_LOAD);
    loaded(load, "row");
    go_away();
    is_kept("row");
}

/* Redis is back: it is asked, and has it, or whoever wants it loads. */
TEST(a_refresh_that_redis_answers_is_over)
{
    refresh_kept();
    reply_fresh(expect(CORE_ACQUIRE), "row");
    sent_nothing();
    pass(1000);
    refresh_kept();
    reply_kind(expect(CORE_ACQUIRE), REPLY_LEASE);
    expect(CORE_RELEASE);
    sent_nothing();
}

TEST_GROUP(.before = outage_up, .end = outage_close);
