/* SPDX-License-Identifier: MIT */
/*
 * core_tags_test.c - entries that belong to groups: what is found out of date, and whom a load answers whose tags may
 * have been invalidated meanwhile. The owner judges epochs; here the test says what it has found.
 */
#include "core_bench.h"

static const char FILLER[] = "11111111-0000-4000-8000-000000000000";
static const struct tags_clock NOON = {7, 5};

static int set_up(void **state)
{
    bench_up(state);
    struct bench *bench = *state;
    bench->policy.tagged = true;
    return 0;
}

/* The lease, with what the clock showed. */
static struct seen *lease_at(struct bench *bench, struct seen *acquire, struct tags_clock clock)
{
    reply(bench, acquire, (struct core_reply){.kind = REPLY_LEASE, .clock = clock});
    return expect(bench, CORE_LOAD);
}

static void loaded_tagged(struct bench *bench, struct seen *load, enum core_load_outcome outcome,
                          const char *body)
{
    struct value *value = value_new_tagged(body, strlen(body), "", 0, "t0 t1", 5);
    load->over = true;
    core_loaded(bench->core, bench->now_us, load->action.load,
                &(struct core_loaded){.outcome = outcome, .value = value});
    value_unref(&value);
    drain(bench);
}

static void reply_fill(struct bench *bench, struct seen *fill, bool outdated)
{
    reply(bench, fill, (struct core_reply){.kind = REPLY_CODE, .code = 1, .outdated = outdated});
}

static void reply_outdated(struct bench *bench, struct seen *acquire, enum core_reply_kind kind,
                           enum core_turn turn)
{
    reply_value(
        bench, acquire,
        (struct core_reply){
            .kind = kind, .turn = turn, .head = FILLER, .outdated = true, .clock = NOON, .pttl_ms = 3000},
        "old");
}

/* ---- fills ---- */

TEST(a_value_with_tags_is_stored_with_the_clock_that_was_read_before_its_load)
{
    struct bench *bench = opened(state);
    struct caller caller;
    get(bench, "k", &caller);
    loaded_tagged(bench, lease_at(bench, expect(bench, CORE_ACQUIRE), NOON), LOAD_OK, "row");
    struct seen *fill = expect(bench, CORE_FILL);
    assert_string_equal(fill->action.value->tags, "t0 t1");
    assert_true(fill->action.born.era == 7 && fill->action.born.count == 5);
    assert_false(fill->action.absent);
    reply_fill(bench, fill, false);
    assert_true(caller.waiter.result.stored);
    answered_value(&caller, "row", GUARD_FROM_LOAD);
    bench_close(bench);
}

TEST(an_absent_row_is_stored_with_nothing_but_its_tags)
{
    struct bench *bench = opened(state);
    struct caller caller;
    get(bench, "k", &caller);
    loaded_tagged(bench, lease_at(bench, expect(bench, CORE_ACQUIRE), NOON), LOAD_ABSENT, "");
    struct seen *fill = expect(bench, CORE_FILL);
    assert_true(fill->action.absent);
    assert_string_equal(fill->action.value->tags, "t0 t1");
    assert_int_equal(fill->action.stale_ms, 0);
    reply_fill(bench, fill, false);
    answered_from(&caller, GUARD_ABSENT, GUARD_FROM_LOAD);
    assert_null(caller.waiter.result.value);
    bench_close(bench);
}

TEST(a_fill_answers_who_came_after_its_query_only_if_no_tag_was_invalidated)
{
    struct bench *bench = *state;
    struct caller first, second;
    for (int outdated = 0; outdated <= 1; outdated++) {
        set_up(state);
        bench_open(bench);
        get(bench, "k", &first);
        struct seen *load = lease_at(bench, expect(bench, CORE_ACQUIRE), NOON);
        get(bench, "k", &second);
        loaded_tagged(bench, load, LOAD_OK, "row");
        reply_fill(bench, expect(bench, CORE_FILL), outdated == 1);
        assert_int_equal(first.waiter.result.stored, outdated == 0);
        answered_value(&first, "row", GUARD_FROM_LOAD);
        if (outdated == 0) {
            answered_value(&second, "row", GUARD_FROM_FLIGHT);
            sent_nothing(bench);
        } else {
            still_waits(&second);
            expect(bench, CORE_ACQUIRE);
        }
        bench_close(bench);
    }
}

TEST(where_the_clock_was_not_read_the_value_is_answered_and_the_lease_given_back)
{
    struct bench *bench = opened(state);
    struct caller first, second;
    get(bench, "k", &first);
    struct seen *load = lease_at(bench, expect(bench, CORE_ACQUIRE), (struct tags_clock){0, 0});
    get(bench, "k", &second);
    loaded_tagged(bench, load, LOAD_OK, "row");
    assert_false(first.waiter.result.stored);
    answered_value(&first, "row", GUARD_FROM_LOAD);
    still_waits(&second);
    struct seen *release = expect(bench, CORE_RELEASE);
    assert_false(release->action.too_big);
    assert_int_equal(release->action.failure, GUARD_FAILURE_NONE);
    expect(bench, CORE_ACQUIRE);
    bench_close(bench);
}

TEST(without_tags_no_clock_is_needed)
{
    struct bench *bench = opened(state);
    struct caller caller;
    get(bench, "k", &caller);
    finish_load(bench, lease(bench, expect(bench, CORE_ACQUIRE)), "row");
    answered_value(&caller, "row", GUARD_FROM_LOAD);
    bench_close(bench);
}

/* ---- entries ---- */

TEST(an_outdated_entry_answers_nobody_and_is_replaced)
{
    struct bench *bench = opened(state);
    struct caller caller;
    get(bench, "k", &caller);
    reply_outdated(bench, expect(bench, CORE_ACQUIRE), REPLY_FRESH, TURN_OTHERS);
    still_waits(&caller);
    struct seen *again = expect(bench, CORE_ACQUIRE);
    assert_string_equal(again->refused, FILLER);
    loaded_tagged(bench, lease_at(bench, again, NOON), LOAD_OK, "new");
    reply_fill(bench, expect(bench, CORE_FILL), false);
    answered_value(&caller, "new", GUARD_FROM_LOAD);
    assert_int_equal(stats_of(bench).entry_outdated, 1);
    assert_int_equal(stats_of(bench).entry_rejected, 0);
    bench_close(bench);
}

TEST(an_outdated_stale_entry_that_came_with_the_lease_is_loaded_and_not_compared_with)
{
    struct bench *bench = *state;
    struct caller caller;
    bench->policy.stale_ms = 5000;
    bench_open(bench);
    get(bench, "k", &caller);
    reply_outdated(bench, expect(bench, CORE_ACQUIRE), REPLY_STALE, TURN_OURS);
    still_waits(&caller);
    struct seen *load = expect(bench, CORE_LOAD);
    assert_null(load->action.previous);
    loaded_tagged(bench, load, LOAD_OK, "new");
    struct seen *fill = expect(bench, CORE_FILL);
    assert_true(fill->action.born.era == 7);
    reply_fill(bench, fill, false);
    answered_value(&caller, "new", GUARD_FROM_LOAD);
    bench_close(bench);
}

TEST(an_outdated_entry_is_not_answered_beside_its_refresh)
{
    struct bench *bench = *state;
    struct caller first, second;
    bench->policy.stale_ms = 5000;
    bench_open(bench);
    get(bench, "k", &first);
    reply_value(bench, expect(bench, CORE_ACQUIRE),
                (struct core_reply){
                    .kind = REPLY_STALE, .turn = TURN_OURS, .head = FILLER, .clock = NOON, .pttl_ms = 3000},
                "old");
    answered_value(&first, "old", GUARD_FROM_STALE);
    expect(bench, CORE_LOAD);
    get(bench, "k", &second);
    struct seen *peek = expect(bench, CORE_ACQUIRE);
    assert_int_equal(peek->action.lookup, LOOKUP_PEEK);
    reply_outdated(bench, peek, REPLY_STALE, TURN_OTHERS);
    still_waits(&second);
    bench_close(bench);
}

TEST(what_a_lookup_found_outdated_is_named_in_the_first_acquire)
{
    struct bench *bench = opened(state);
    struct caller caller = {.answers = 0};
    memcpy(caller.waiter.refused, FILLER, sizeof FILLER);
    get_as_prepared(bench, "k", &caller, bench->now_us + 1000 * BENCH_MS);
    assert_string_equal(expect(bench, CORE_ACQUIRE)->refused, FILLER);
    bench_close(bench);
}

/* ---- invalidating ---- */

TEST(an_invalidation_of_a_tag_says_so_in_every_attempt)
{
    struct bench *bench = *state;
    struct core_invalidation invalidation = {
        .key = {"t0", 2, "t0", 2}, .of_tag = true, .deadline_us = bench->now_us + 1000 * BENCH_MS};
    bench_open(bench);
    assert_int_equal(core_invalidate(bench->core, bench->now_us, &invalidation), GUARD_OK);
    drain(bench);
    struct seen *first = expect(bench, CORE_INVALIDATE);
    assert_true(first->action.of_tag);
    reply_kind(bench, first, REPLY_UNKNOWN);
    pass(bench, 100);
    struct seen *second = expect(bench, CORE_INVALIDATE);
    assert_true(second->action.of_tag);
    reply_code(bench, second, 1);
    assert_int_equal(bench->invalidated, 1);
    assert_int_equal(invalidation.result.status, GUARD_OK);
    assert_true(invalidation.result.value_dropped);
    assert_false(invalidation.result.load_voided);
    bench_close(bench);
}

TEST_GROUP(.before = set_up);
