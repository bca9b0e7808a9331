/* SPDX-License-Identifier: MIT */
/* redis_place_test.c - what a connection learns of a place that a watcher keeps: where, whether still, and of whose
 * reign. */
#include "guard/redis/place.h"
#include "tests/support/test.h"
#include "tests/support/uv_host.h"
#include <uv.h>

static uv_loop_t loop;
static struct guard_host *host;
static struct guard_host_state host_state;
static struct redis_place place;
static struct host_wake watcher;
static struct redis_member member;
static unsigned wakes;
static struct redis_finding finding;

static void on_changed(void *context)
{
    (void)context;
    wakes++;
}

static void on_wish(void *context)
{
    (void)context;
}

static bool open_place(void)
{
    assert_int_equal(uv_loop_init(&loop), 0);
    host = uv_host_attach(&loop, &host_state);
    host_wake_init(host, &watcher, on_wish, NULL);
    redis_place_init(&place, NULL, NULL, NULL);
    redis_place_watch(&place, &watcher);
    redis_place_join(&place, &member, host, on_changed, NULL);
    return true;
}

static bool close_place(void)
{
    redis_place_leave(&place, &member);
    redis_place_watch(&place, NULL);
    redis_place_clear(&place);
    host_wake_clear(&watcher);
    host_close(host, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    return true;
}

/* A whole round: that many is its port. */
static void find(uint16_t port, uint64_t epoch, bool is_confirmed)
{
    finding = (struct redis_finding){
        .master = {.port = port}, .epoch = epoch, .confirmed = is_confirmed, .good_until_ms = UINT64_MAX};
    snprintf(finding.master.host, sizeof finding.master.host, "10.0.0.1");
    redis_place_round_begins(&place);
    redis_place_round_ends(&place, &finding);
}

/* What a connection does first. */
static uint64_t go_there(void)
{
    struct redis_endpoint endpoint;
    uint64_t seen = redis_reign_now(&place.reign);
    assert_true(redis_place_where(&place, &member, &endpoint));
    assert_int_equal(endpoint.port, finding.master.port);
    return seen;
}

static void expect_answer(enum redis_confirm answer, uint64_t *seen)
{
    assert_int_equal(redis_place_answer(&place, &member, seen), answer);
}

TEST(where_the_master_is_is_not_known_before_a_round_has_named_one)
{
    struct redis_endpoint endpoint;
    char why[REDIS_WHY_SIZE];
    assert_false(redis_place_where(&place, &member, &endpoint));
    redis_place_why(&place, why);
    assert_string_equal(why, "");
    find(1, 0, false);
    go_there();
    wakes = 0;
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(wakes, 1);
}

TEST(only_a_round_that_began_after_the_question_answers_it, P133)
{
    uint64_t seen = 0;
    find(1, 0, true);
    seen = go_there();
    redis_place_round_begins(&place);
    assert_true(redis_place_confirm(&place, &member));
    assert_int_equal(redis_place_wish(&place), REDIS_WISH_NOW);
    redis_place_round_ends(&place, &finding);
    expect_answer(REDIS_CONFIRM_WAITS, &seen);
    find(1, 0, true);
    expect_answer(REDIS_CONFIRM_YES, &seen);
    expect_answer(REDIS_CONFIRM_NONE, &seen);
}

TEST(no_is_the_answer_without_a_majority_and_when_another_is_named)
{
    uint64_t seen = 0;
    find(1, 0, true);
    seen = go_there();
    redis_place_confirm(&place, &member);
    find(1, 0, false);
    expect_answer(REDIS_CONFIRM_NO, &seen);
    redis_place_confirm(&place, &member);
    find(2, 1, true);
    expect_answer(REDIS_CONFIRM_NO, &seen);
    assert_true(redis_place_has_moved(&place, &member));
}

TEST(a_reign_ends_when_another_master_is_confirmed_and_not_when_it_is_named, P133)
{
    find(1, 0, true);
    find(1, 0, true);
    find(2, 1, false);
    find(1, 0, true); /* the one that named it is gone */
    assert_int_equal(redis_reign_now(&place.reign), 0);
    find(2, 1, true);
    assert_int_equal(redis_reign_now(&place.reign), 1);
    find(2, 3, true); /* and back again, between two rounds */
    assert_int_equal(redis_reign_now(&place.reign), 2);
}

TEST(what_was_on_its_way_to_the_new_master_joins_its_reign)
{
    uint64_t seen = 0, generation = 0;
    find(1, 0, true);
    find(2, 1, false);
    seen = go_there();
    redis_place_confirm(&place, &member);
    find(2, 1, true);
    expect_answer(REDIS_CONFIRM_YES, &seen);
    assert_int_equal(seen, 1);
    assert_true(redis_reign_join(&place.reign, seen, "", &generation));
}

TEST(what_ended_otherwise_meanwhile_is_not_joined)
{
    uint64_t seen = 0, generation = 0;
    find(1, 0, true);
    find(2, 1, false);
    seen = go_there();
    redis_reign_end(&place.reign, 0);
    redis_place_confirm(&place, &member);
    find(2, 1, true);
    expect_answer(REDIS_CONFIRM_YES, &seen);
    assert_int_equal(seen, 0);
    assert_false(redis_reign_join(&place.reign, seen, "", &generation));
}

TEST(a_doubt_is_a_wish_until_a_round_begins)
{
    redis_place_doubt(&place);
    assert_int_equal(redis_place_wish(&place), REDIS_WISH_SOON);
    redis_place_round_begins(&place);
    assert_int_equal(redis_place_wish(&place), REDIS_WISH_NONE);
}

TEST(a_place_that_nothing_watches_needs_no_confirmation)
{
    struct redis_place fixed;
    struct redis_endpoint endpoint = {.host = "10.0.0.1", .port = 1};
    struct redis_member there;
    redis_place_init(&fixed, &endpoint, NULL, NULL);
    redis_place_join(&fixed, &there, host, on_changed, NULL);
    assert_false(redis_place_confirm(&fixed, &there));
    redis_place_leave(&fixed, &there);
    redis_place_clear(&fixed);
}

TEST_GROUP(.before = open_place, .after = close_place);
