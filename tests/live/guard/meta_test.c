/* SPDX-License-Identifier: MIT */
/*
 * meta_test.c - the bytes beside the body: with the value wherever it comes from, and what an entry without them is
 * to a kind that needs them. A guard whose loader passes none stands for a process that knows none.
 */
#include "guard_rig.h"
#include <hiredis/hiredis.h>

enum { HOLDER, WAITER, LONG_MS = 60000, TRIES = 20 };

static const char META[] = "404\0text/plain";
enum { META_BYTES = sizeof META - 1 };

static struct ask asks[2];

static void load_with_meta(struct guard_load *load, void *context)
{
    static const char first[] = "the last call counts";
    assert_int_equal(guard_load_meta(load, first, sizeof first), GUARD_OK);
    assert_int_equal(guard_load_meta(load, META, META_BYTES), GUARD_OK);
    source_load(load, context);
}

static void load_many_with_meta(struct guard_load *const *loads, size_t count, void *context)
{
    for (size_t i = 0; i < count; i++)
        load_with_meta(loads[i], context);
}

static bool meta_before(void)
{
    fleet_init();
    fleet.policy.loader = load_with_meta;
    return true;
}

/* Knows no meta, and asks for none. */
static void add_old(void)
{
    const struct guard_policy policy = fleet.policy;
    fleet.policy.loader = source_load;
    fleet.policy.needs_meta = false;
    fleet_add();
    fleet.policy = policy;
}

static unsigned loads(void)
{
    return atomic_load(&fleet.source.begun);
}

static void assert_meta(const struct guard_result *result)
{
    assert_int_equal(result->status, GUARD_OK);
    assert_int_equal(result->value->meta_bytes, META_BYTES);
    assert_memory_equal(result->value->meta, META, sizeof META);
}

/* Asks, and returns where the answer came from. */
static enum guard_source expect_meta(size_t i, const char *key)
{
    struct guard_result result = get_of(i, key);
    assert_meta(&result);
    guard_value_unref(&result.value);
    return result.source;
}

static void expect_none(size_t i, const char *key)
{
    struct guard_result result = get_of(i, key);
    assert_int_equal(result.status, GUARD_OK);
    assert_int_equal(result.value->meta_bytes, 0);
    assert_string_equal(result.value->meta, "");
    guard_value_unref(&result.value);
}

/* ---- with the value ---- */

TEST(meta_is_lent_with_the_value_wherever_that_comes_from, P184)
{
    fleet.policy.near_ms = fleet.policy.outage_ms = fleet.policy.fresh_ms = LONG_MS;
    fleet_open(2);
    assert_int_equal(expect_meta(0, "k"), GUARD_FROM_LOAD);
    assert_int_equal(expect_meta(1, "k"), GUARD_FROM_CACHE);
    WAIT_UNTIL(expect_meta(1, "k") == GUARD_FROM_NEAR);
    assert_int_equal(loads(), 1);
}

TEST(an_unchanged_value_keeps_its_meta, P184)
{
    fleet.policy.stale_ms = 60000;
    fleet.source.validator = "v1";
    fleet_open(2);
    expect_meta(0, "k");
    atomic_store(&fleet.source.verdict, SOURCE_UNCHANGED);
    age_value("k", 30000);
    assert_int_equal(expect_meta(0, "k"), GUARD_FROM_STALE);
    WAIT_UNTIL(FLEET_SUM(load_unchanged) == 1 && FLEET_SUM(fill_stored) == 2);
    assert_int_equal(expect_meta(1, "k"), GUARD_FROM_CACHE);
}

/* The holder loads, and goes on once the waiter has found it busy. */
static void load_while_one_waits(const char *key)
{
    const unsigned begun = loads();
    const uint64_t busy = stats_of(fleet.guards[WAITER]).lease_busy;
    source_shut(&fleet.source);
    ask_start(HOLDER, &asks[HOLDER], key);
    WAIT_UNTIL(loads() == begun + 1);
    ask_start(WAITER, &asks[WAITER], key);
    WAIT_UNTIL(stats_of(fleet.guards[WAITER]).lease_busy > busy);
    source_open(&fleet.source);
}

/* One loads and another process waits for it, on keys a0, a1, ... until the message brought it. */
static void expect_pushed_meta(char letter)
{
    char key[8];
    for (int try = 0; try < TRIES; try++) {
        snprintf(key, sizeof key, "%c%d", letter, try);
        const uint64_t pushed = FLEET_SUM(push_answered);
        load_while_one_waits(key);
        for (int i = 0; i < 2; i++) {
            ask_wait(&asks[i]);
            assert_meta(&asks[i].result);
            ask_clear(&asks[i]);
        }
        if (FLEET_SUM(push_answered) > pushed)
            return;
    }
    fail_msg("%d times a poll came in between", (int)TRIES);
}

TEST(meta_travels_with_the_message_of_a_fill_and_of_what_is_shared, P184)
{
    static const struct guard_keep shared = {.how = GUARD_SHARE}, here = {.how = GUARD_HERE},
                                   passed = {.how = GUARD_PASS, .pass_ms = 1000};
    fleet_open(2);
    expect_pushed_meta('f');
    atomic_store(&fleet.source.keep, &shared);
    expect_pushed_meta('s');
    atomic_store(&fleet.source.keep, &here);
    assert_int_equal(expect_meta(0, "here"), GUARD_FROM_LOAD);
    atomic_store(&fleet.source.keep, &passed);
    assert_int_equal(expect_meta(0, "passed"), GUARD_FROM_LOAD);
}

TEST(each_key_of_many_and_of_a_batch_has_its_own_meta, P184)
{
    static const char *const keys[] = {"one", "two", "three"};
    struct guard_result results[3];
    fleet.policy.batch_loader = load_many_with_meta;
    fleet_open(2);
    for (size_t guard = 0; guard < 2; guard++) {
        struct guard_request request = {.kind = fleet.kinds[guard], .keys = keys, .count = 3};
        atomic_fetch_add(&fleet.accepted[guard], 3);
        assert_int_equal(guard_get_wait(fleet.guards[guard], &request, results), GUARD_OK);
        atomic_fetch_add(&fleet.answered, 3);
        for (size_t i = 0; i < 3; i++) {
            assert_meta(&results[i]);
            guard_value_unref(&results[i].value);
        }
    }
    assert_int_equal(FLEET_SUM(load_queries), 1);
}

/* ---- what lacks it ---- */

static void open_old_and_new(void)
{
    fleet.policy.needs_meta = true;
    add_old();
    fleet_open(2);
}

TEST(an_absent_row_has_no_meta_and_is_a_hit_all_the_same, P184)
{
    fleet.policy.needs_meta = true;
    fleet_open(2);
    atomic_store(&fleet.source.verdict, SOURCE_ABSENT);
    expect(0, "k", GUARD_ABSENT);
    expect(1, "k", GUARD_ABSENT);
    assert_int_equal(loads(), 1);
}

/* And once it is there, nobody loads any more. */
TEST(an_entry_without_meta_is_a_miss_where_it_is_needed, P185)
{
    fleet.policy.near_ms = fleet.policy.fresh_ms = LONG_MS;
    open_old_and_new();
    expect_none(HOLDER, "k");
    struct guard_result peeked = get_as(WAITER, "k", GUARD_PEEK);
    assert_int_equal(peeked.status, GUARD_MISS);
    assert_int_equal(expect_meta(WAITER, "k"), GUARD_FROM_LOAD);
    assert_true(stats_of(fleet.guards[WAITER]).entry_rejected > 0);
    assert_int_equal(expect_meta(WAITER, "k"), GUARD_FROM_CACHE);
    WAIT_UNTIL(expect_meta(WAITER, "k") == GUARD_FROM_NEAR);
    assert_int_equal(loads(), 2);
}

/* Neither an answer, nor what an unchanged one would go on from. */
TEST(a_stale_entry_without_meta_is_a_miss_where_it_is_needed, P185)
{
    fleet.policy.stale_ms = 60000;
    fleet.source.validator = "v1";
    open_old_and_new();
    expect_none(HOLDER, "k");
    age_value("k", 30000);
    assert_int_equal(expect_meta(WAITER, "k"), GUARD_FROM_LOAD);
    assert_int_equal(FLEET_SUM(load_unchanged), 0);
    assert_int_equal(loads(), 2);
}

/* Whether the message brings it or the next acquire finds it. */
TEST(what_waits_for_meta_is_not_answered_by_a_fill_without, P185)
{
    open_old_and_new();
    for (int i = 0; i < 4; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%d", i);
        const unsigned begun = loads();
        load_while_one_waits(key);
        ask_wait(&asks[WAITER]);
        assert_meta(&asks[WAITER].result);
        assert_int_equal(asks[WAITER].result.source, GUARD_FROM_LOAD);
        ask_wait(&asks[HOLDER]);
        ask_clear(&asks[HOLDER]);
        ask_clear(&asks[WAITER]);
        assert_int_equal(loads(), begun + 2);
    }
}

/* As an older release takes an entry whose head it does not know. */
TEST(an_entry_of_an_unknown_format_costs_one_load_and_not_one_after_another, P185)
{
    fleet_open(2);
    expect_meta(0, "k");
    rig_do("SETRANGE csg1:{%s:k}:v 70 q", fleet.name_space);
    assert_int_equal(expect_meta(1, "k"), GUARD_FROM_LOAD);
    assert_int_equal(expect_meta(0, "k"), GUARD_FROM_CACHE);
    assert_int_equal(loads(), 2);
}

TEST(a_kind_cannot_begin_to_need_meta, P185)
{
    struct guard_error error;
    struct guard_policy policy = fleet.policy;
    fleet_open(1);
    policy.needs_meta = true;
    assert_int_equal(guard_kind_set(fleet.kinds[0], &policy, &error), GUARD_INVALID);
    assert_non_null(strstr(error.text, "needs_meta"));
}

TEST_GROUP(.up = rig_start, .down = rig_stop, .before = meta_before, .end = fleet_close);
