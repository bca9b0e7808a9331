/* SPDX-License-Identifier: MIT */
/*
 * core_revalidate_test.c - requests that no value answers which was there, or was being loaded, when they began: what
 * counts for them, how they collapse, and what an ordinary request sees beside them.
 */
#include "core_bench.h"

#define OLD_FILLER "00000000-1111-4000-8000-000000000000"
#define OLD_LEASE "00000000-2222-4000-8000-000000000000"
#define NEW_LEASE "00000000-3333-4000-8000-000000000000"
#define THEIR_TAG "aaaaaaaaaaaaaaaa"

static void revalidate(const char *key, struct caller *caller)
{
    get_as(key, caller, (struct core_waiter){.revalidates = true});
}

/* For no user. */
static void refresh(const char *key, struct caller *caller)
{
    get_as(key, caller, (struct core_waiter){.revalidates = true, .refreshes = true});
}

/* An acquire as a revalidation sends it, with what does not count. */
static struct seen *expect_revalidation(const char *names_seen)
{
    struct seen *acquire = expect(CORE_ACQUIRE);
    assert_int_equal(acquire->action.lookup, LOOKUP_REVALIDATE);
    assert_int_equal(acquire->action.waits, WAIT_NOT);
    assert_string_equal(acquire->action.names_seen, names_seen);
    return acquire;
}

static void reply_names_seen(struct seen *to, const char *names_seen)
{
    reply(to, (struct core_reply){
                  .kind = REPLY_BUSY, .pttl_ms = 3000, .lease_tag = THEIR_TAG, .names_seen = names_seen});
}

/* The lease over a value that is there: its load. */
static struct seen *lease_over(struct seen *acquire, const char *body)
{
    const struct core_reply granted = {
        .kind = REPLY_STALE, .refresher = REFRESH_OURS, .head = OLD_FILLER, .age_ms = 70};
    reply_value(acquire, granted, body);
    return expect(CORE_LOAD);
}

static struct caller caller, older, younger, first, second, third, revalidating, ordinary, user;

/* ---- what counts ---- */

TEST(a_revalidation_loads_over_the_value_that_is_there)
{
    revalidate("k", &caller);
    struct seen *load = lease_over(expect_revalidation(""), "old");
    still_waits(&caller);
    assert_non_null(load->action.previous); /* the loader may find it unchanged */
    finish_load_for(load, "new", &caller, GUARD_FROM_LOAD);
    assert_true(caller.waiter.result.stored);
    assert_int_equal(stats_of().refresh_started, 0); /* a request waits for it */
}

TEST(what_a_push_brings_does_not_answer_it, P155)
{
    revalidate("k", &caller);
    reply_names_seen(expect_revalidation(""), OLD_FILLER OLD_LEASE);
    assert_null(core_awaits(bench.core, "k", 1, THEIR_TAG, false));
    struct value *value = value_new("pushed", 6, "", 0, NULL, 0);
    hear_pushed("k", &(struct core_reply){.lease_tag = THEIR_TAG, .value = value, .left_ms = 60000});
    value_unref(&value);
    still_waits(&caller);
    finish_load_for(lease(expect_revalidation(OLD_FILLER OLD_LEASE)), "new", &caller, GUARD_FROM_LOAD);
}

TEST(one_that_comes_while_a_later_load_runs_is_not_answered_by_it)
{
    revalidate("k", &older);
    reply_names_seen(expect_revalidation(""), OLD_FILLER OLD_LEASE);
    revalidate("k", &younger); /* looks at once, and finds another lease */
    reply_names_seen(expect_revalidation(OLD_FILLER OLD_LEASE), OLD_LEASE NEW_LEASE);
    message("k", false);
    reply_fresh_for(expect_revalidation(OLD_FILLER OLD_LEASE), "new", &older, GUARD_FROM_FLEET);
    still_waits(&younger);
    finish_load_for(lease_over(expect_revalidation(""), "new"), "newer", &younger, GUARD_FROM_LOAD);
}

TEST(the_next_master_begins_anew)
{
    revalidate("k", &caller);
    reply_names_seen(expect_revalidation(""), OLD_FILLER OLD_LEASE);
    core_reign(bench.core, bench.now_us, 0); /* it may have a value that is older than both */
    message("k", false);
    finish_load_for(lease_over(expect_revalidation(""), "lost and found"), "new", &caller, GUARD_FROM_LOAD);
}

TEST(so_does_a_new_connection)
{
    revalidate("k", &caller);
    reply_names_seen(expect_revalidation(""), OLD_FILLER OLD_LEASE);
    core_link(bench.core, bench.now_us, 0, false);
    core_link(bench.core, bench.now_us, 0, true);
    message("k", false);
    finish_load_for(lease(expect_revalidation("")), "new", &caller, GUARD_FROM_LOAD);
}

TEST(where_a_mark_stands_each_has_a_load_of_its_own_at_once)
{
    revalidate("k", &first);
    struct seen *acquire = expect_revalidation("");
    revalidate("k", &second);
    reply(acquire, (struct core_reply){.kind = REPLY_FRESH, .head = OLD_FILLER, .mark = true});
    struct seen *loads[] = {expect(CORE_LOAD), expect(CORE_LOAD)};
    loaded(loads[0], "first's");
    loaded(loads[1], "second's");
    answered_value(&first, "first's", GUARD_FROM_LOAD);
    answered_value(&second, "second's", GUARD_FROM_LOAD);
}

TEST(a_mark_that_does_not_count_is_no_answer)
{
    revalidate("k", &caller);
    reply(expect_revalidation(""),
          (struct core_reply){
              .kind = REPLY_STALE, .head = OLD_FILLER, .mark = true, .refresher = REFRESH_OURS});
    struct seen *load = expect(CORE_LOAD);
    still_waits(&caller);
    assert_null(load->action.previous);
    finish_load_for(load, "new", &caller, GUARD_FROM_LOAD);
}

TEST(a_failure_that_is_remembered_answers_it)
{
    revalidate("k", &caller);
    reply(expect_revalidation(""),
          (struct core_reply){.kind = REPLY_FAILED, .failure = GUARD_FAILURE_REJECTED, .pttl_ms = 500});
    answered_from(&caller, GUARD_FAILED, GUARD_FROM_CACHE);
    assert_int_equal(caller.waiter.result.retry_ms, 500);
}

/* ---- in one process ---- */

TEST(two_of_them_are_one_load, P155)
{
    revalidate("k", &first);
    struct seen *acquire = expect_revalidation("");
    revalidate("k", &second); /* the load has not begun */
    struct seen *load = lease_over(acquire, "old");
    sent_nothing();
    finish_load_for(load, "new", &first, GUARD_FROM_LOAD);
    answered_value(&second, "new", GUARD_FROM_FLIGHT);
    assert_int_equal(stats_of().load_started, 1);
}

TEST(one_that_comes_after_the_query_wants_another_even_if_the_first_was_stored)
{
    revalidate("k", &first);
    struct seen *load = lease_over(expect_revalidation(""), "old");
    revalidate("k", &second);
    revalidate("k", &third);
    finish_load_for(load, "new", &first, GUARD_FROM_LOAD);
    still_waits(&second);
    finish_load_for(lease_over(expect_revalidation(""), "new"), "newer", &second, GUARD_FROM_LOAD);
    answered_value(&third, "newer", GUARD_FROM_FLIGHT);
    assert_int_equal(stats_of().load_started, 2);
}

TEST(a_process_that_waits_for_no_other_waits_for_itself)
{
    bench.config.mode = GUARD_MODE_LOCAL;
    bench_open();
    struct seen *acquire = lookup_of("k", &ordinary);
    char tag[TOKEN_TAG_BYTES + 1] = "";
    memcpy(tag, acquire->token + TOKEN_TAG_AT, TOKEN_TAG_BYTES);
    struct seen *load = lease(acquire);
    revalidate("k", &revalidating);
    reply(expect_revalidation(""),
          (struct core_reply){
              .kind = REPLY_BUSY, .pttl_ms = 3000, .lease_tag = tag, .names_seen = OLD_FILLER OLD_LEASE});
    sent_nothing();
    finish_load_for(load, "begun before", &ordinary, GUARD_FROM_LOAD);
    message("k", false);
    reply_names_seen(expect_revalidation(OLD_FILLER OLD_LEASE), OLD_LEASE NEW_LEASE); /* another process's */
    loaded_for(expect(CORE_LOAD), "new", &revalidating, GUARD_FROM_LOAD);
    assert_false(revalidating.waiter.result.stored);
    assert_int_equal(stats_of().load_duplicate, 0);
}

TEST(a_failure_without_redis_is_remembered_for_both_kinds)
{
    bench.config.without_redis = true;
    bench_open();
    get("k", &first);
    load_fails(expect(CORE_LOAD), GUARD_FAILURE_UNAVAILABLE);
    revalidate("k", &second);
    answered_from(&second, GUARD_FAILED, GUARD_FROM_CACHE);
    pass(bench.policy.failure_ms);
    revalidate("k", &second);
    load_fails(expect(CORE_LOAD), GUARD_FAILURE_UNAVAILABLE);
    get("k", &third);
    answered_from(&third, GUARD_FAILED, GUARD_FROM_CACHE);
    sent_nothing();
}

/* ---- for no user ---- */

TEST(a_user_that_joins_a_refresh_takes_the_place_of_another_one)
{
    static struct caller running[2];
    begin_load("x", &running[0]);
    begin_load("y", &running[1]);
    refresh("a", &first);
    reply_kind(expect_revalidation(""), REPLY_LEASE);
    refresh("b", &second);
    reply_kind(expect_revalidation(""), REPLY_LEASE);
    refresh("c", &third);
    revalidate("c", &user);
    reply_kind(expect(CORE_ACQUIRE), REPLY_FREE); /* it could only peek */
    answered(&second, GUARD_SHED);
    expect(CORE_RELEASE);
    assert_int_equal(expect(CORE_ACQUIRE)->action.lookup, LOOKUP_REVALIDATE);
    still_waits(&third);
    still_waits(&user);
}

/* ---- limits ---- */

TEST(without_a_place_it_takes_no_lease_but_what_another_process_loads)
{
    static struct caller blockers[4];
    for (size_t i = 0; i < 4; i++) {
        char key[] = {'b', (char)('0' + i), '\0'};
        get(key, &blockers[i]);
        reply_kind(expect(CORE_ACQUIRE), REPLY_LEASE);
        if (i < 2)
            expect(CORE_LOAD);
    }
    revalidate("k", &caller);
    struct seen *peek = expect(CORE_ACQUIRE);
    assert_int_equal(peek->action.lookup, LOOKUP_REVALIDATE_PEEK);
    reply_names_seen(peek, OLD_FILLER OLD_LEASE);
    still_waits(&caller);
    message("k", false);
    reply_fresh_for(expect(CORE_ACQUIRE), "new", &caller, GUARD_FROM_FLEET);
    revalidate("k", &caller);
    reply_kind(expect(CORE_ACQUIRE), REPLY_FREE);
    answered(&caller, GUARD_SHED);
}

TEST_GROUP(.before = bench_up, .end = bench_close);
