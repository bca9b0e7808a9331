/* SPDX-License-Identifier: MIT */
/*
 * core_tags_test.c - entries that belong to groups: what is found out of date, and which waiters a load answers whose
 * tags may have been invalidated meanwhile. The owner judges epochs; here the test says what it has found.
 */
#include "core_bench.h"

static const char FILLER[] = "11111111-0000-4000-8000-000000000000";
static const struct tags_clock NOON = {7, 5};

static bool set_up(void)
{
    bench_up();
    bench.policy.tagged = true;
    return true;
}

/* The lease, with what the clock showed. */
static struct seen *lease_at(struct seen *acquire, struct tags_clock clock)
{
    reply(acquire, (struct core_reply){.kind = REPLY_LEASE, .clock = clock});
    return expect(CORE_LOAD);
}

static void loaded_tagged(struct seen *load, enum core_load_outcome outcome, const char *body)
{
    struct value *value = value_new(body, strlen(body), "", 0, "t0 t1", 5);
    loaded_as(load, (struct core_loaded){.outcome = outcome, .value = value});
    value_unref(&value);
}

static void reply_fill(struct seen *fill, bool outdated)
{
    reply(fill, (struct core_reply){.kind = REPLY_CODE, .code = 1, .outdated = outdated});
}

static void reply_outdated(struct seen *acquire, enum core_reply_kind kind, enum core_refresher refresher)
{
    reply_value(acquire,
                (struct core_reply){.kind = kind,
                                    .refresher = refresher,
                                    .head = FILLER,
                                    .outdated = true,
                                    .clock = NOON,
                                    .pttl_ms = 3000},
                "old");
}

static struct caller caller, first, second;

/* ---- fills ---- */

TEST(a_value_with_tags_is_stored_with_the_clock_that_was_read_before_its_load)
{
    get("k", &caller);
    loaded_tagged(lease_at(expect(CORE_ACQUIRE), NOON), LOAD_OK, "row");
    struct seen *fill = expect(CORE_FILL);
    assert_string_equal(fill->action.value->tags, "t0 t1");
    assert_true(fill->action.born.era == 7 && fill->action.born.count == 5);
    assert_false(fill->action.absent);
    reply_fill(fill, false);
    assert_true(caller.waiter.result.stored);
    answered_value(&caller, "row", GUARD_FROM_LOAD);
}

TEST(an_absent_row_is_stored_with_nothing_but_its_tags)
{
    get("k", &caller);
    loaded_tagged(lease_at(expect(CORE_ACQUIRE), NOON), LOAD_ABSENT, "");
    struct seen *fill = expect(CORE_FILL);
    assert_true(fill->action.absent);
    assert_string_equal(fill->action.value->tags, "t0 t1");
    assert_int_equal(fill->action.stale_ms, 0);
    reply_fill(fill, false);
    answered_from(&caller, GUARD_ABSENT, GUARD_FROM_LOAD);
    assert_null(caller.waiter.result.value);
}

TEST(a_fill_answers_waiters_from_after_its_query_only_if_no_tag_was_invalidated, P74)
{
    for (int outdated = 0; outdated <= 1; outdated++) {
        bench_again();
        bench.policy.tagged = true;
        struct seen *load = lease_at(lookup_of("k", &first), NOON);
        get("k", &second);
        loaded_tagged(load, LOAD_OK, "row");
        reply_fill(expect(CORE_FILL), outdated == 1);
        assert_int_equal(first.waiter.result.stored, outdated == 0);
        answered_value(&first, "row", GUARD_FROM_LOAD);
        if (outdated == 0) {
            answered_value(&second, "row", GUARD_FROM_FLIGHT);
            sent_nothing();
        } else {
            still_waits(&second);
            expect(CORE_ACQUIRE);
        }
    }
}

TEST(where_the_clock_was_not_read_the_value_is_answered_and_the_lease_given_back)
{
    struct seen *load = lease_at(lookup_of("k", &first), (struct tags_clock){0, 0});
    get("k", &second);
    loaded_tagged(load, LOAD_OK, "row");
    assert_false(first.waiter.result.stored);
    answered_value(&first, "row", GUARD_FROM_LOAD);
    still_waits(&second);
    struct seen *release = expect(CORE_RELEASE);
    assert_false(release->action.too_big);
    assert_int_equal(release->action.failure, GUARD_FAILURE_NONE);
    expect(CORE_ACQUIRE);
}

/* ---- entries ---- */

TEST(an_outdated_entry_answers_no_waiter_and_is_replaced)
{
    reply_outdated(lookup_of("k", &caller), REPLY_FRESH, REFRESH_OTHERS);
    still_waits(&caller);
    struct seen *again = expect(CORE_ACQUIRE);
    assert_string_equal(again->refused, FILLER);
    loaded_tagged(lease_at(again, NOON), LOAD_OK, "new");
    reply_fill(expect(CORE_FILL), false);
    answered_value(&caller, "new", GUARD_FROM_LOAD);
    assert_int_equal(stats_of().entry_outdated, 1);
    assert_int_equal(stats_of().entry_rejected, 0);
}

TEST(an_outdated_entry_is_not_answered_beside_its_refresh)
{
    bench.policy.stale_ms = 5000;
    reply_value(
        lookup_of("k", &first),
        (struct core_reply){
            .kind = REPLY_STALE, .refresher = REFRESH_OURS, .head = FILLER, .clock = NOON, .pttl_ms = 3000},
        "old");
    answered_value(&first, "old", GUARD_FROM_STALE);
    expect(CORE_LOAD);
    struct seen *peek = lookup_of("k", &second);
    assert_int_equal(peek->action.lookup, LOOKUP_PEEK);
    reply_outdated(peek, REPLY_STALE, REFRESH_OTHERS);
    still_waits(&second);
}

TEST(what_a_lookup_found_outdated_is_named_in_the_first_acquire)
{
    caller = (struct caller){.answers = 0};
    memcpy(caller.waiter.refused, FILLER, sizeof FILLER);
    get_as_prepared("k", &caller, bench.now_us + 1000 * BENCH_MS);
    assert_string_equal(expect(CORE_ACQUIRE)->refused, FILLER);
}

TEST_GROUP(.before = set_up, .end = bench_close);
