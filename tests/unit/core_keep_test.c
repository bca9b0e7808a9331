/* SPDX-License-Identifier: MIT */
/*
 * core_keep_test.c - what a loader says of its answer: how long it lives, for which readers that counts, and what is
 * told and not stored.
 */
#include "core_bench.h"

#define TAG_A "aaaaaaaaaaaaaaaa"

static const struct guard_keep NOWHERE = {.how = GUARD_STORE};

static struct guard_keep keep_for(uint32_t fresh_ms, uint32_t stale_ms)
{
    return (struct guard_keep){.how = GUARD_STORE, .fresh_ms = fresh_ms, .stale_ms = stale_ms};
}

static void assert_life(const struct seen *fill, struct entry_life life)
{
    const struct entry_life *own = &fill->action.life;
    assert_int_equal(own->own_fresh, life.own_fresh);
    assert_int_equal(own->own_stale, life.own_stale);
    assert_int_equal(own->fresh_ms, life.fresh_ms);
    assert_int_equal(own->stale_ms, life.stale_ms);
}

static struct caller caller_of_fill;

/* A load that says so; its fill. */
static struct seen *fill_of(const char *body, struct guard_keep keep)
{
    struct seen *load = begin_load("k", &caller_of_fill);
    loaded_kept(load, body, keep);
    return expect(CORE_FILL);
}

static void stored(struct seen *fill)
{
    reply_code(fill, 1);
}

static struct caller caller, before, after, absent;

/* ---- how long ---- */

/* The number that travels is the one that was said. */
TEST(jitter_shortens_the_entry_and_not_what_was_said)
{
    bench.policy.jitter_percent = 90;
    uint32_t least_ms = UINT32_MAX;
    for (int i = 0; i < 50; i++) {
        bench_again();
        bench.config.seed = (uint64_t)i;
        bench.policy.jitter_percent = 90;
        bench_open();
        struct seen *fill = fill_of("row", keep_for(10000, 0));
        assert_in_range(fill->action.fresh_ms, 1000, 10000);
        assert_life(fill, (struct entry_life){true, true, 10000, 0});
        least_ms = fill->action.fresh_ms < least_ms ? fill->action.fresh_ms : least_ms;
        stored(fill);
    }
    assert_in_range(least_ms, 1000, 5000);
}

TEST(an_absent_row_has_a_life_and_no_stale_time)
{
    struct seen *fill = fill_of(NULL, keep_for(5000, 7000));
    assert_int_equal(fill->action.fresh_ms, 5000);
    assert_int_equal(fill->action.stale_ms, 0);
    assert_life(fill, (struct entry_life){true, false, 5000, 0});
    stored(fill);
    bench_again();
    fill = fill_of(NULL, keep_for(GUARD_POLICY_MS, GUARD_POLICY_MS));
    assert_int_equal(fill->action.fresh_ms, bench.policy.absent_ms);
    stored(fill);
}

/* So is a stale time of the policy's that the fresh time leaves no room for. */
TEST(what_is_longer_than_the_limit_is_cut_and_counted, P151)
{
    static const struct {
        uint32_t fresh_ms, stale_ms, is_fresh_ms, is_stale_ms, cut;
    } ROWS[] = {
        {20000, 0, 10000, 0, 1},
        {6000, 6000, 6000, 4000, 1},
        {20000, 20000, 10000, 0, 1},
        {6000, 4000, 6000, 4000, 0},
        {0, 10001, 0, 10000, 1},
        {GUARD_POLICY_MS - 1, GUARD_POLICY_MS - 1, 10000, 0, 1},
        {8000, GUARD_POLICY_MS, 8000, 2000, 1},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        bench_again();
        bool own = ROWS[i].stale_ms != GUARD_POLICY_MS;
        bench.config.max_value_ms = 10000;
        bench.policy.stale_ms = 5000;
        bench_open();
        struct seen *fill = fill_of("row", keep_for(ROWS[i].fresh_ms, ROWS[i].stale_ms));
        assert_int_equal(fill->action.fresh_ms, ROWS[i].is_fresh_ms);
        assert_int_equal(fill->action.stale_ms, ROWS[i].is_stale_ms);
        assert_life(fill, (struct entry_life){true, own, ROWS[i].is_fresh_ms, own ? ROWS[i].is_stale_ms : 0});
        assert_int_equal(stats_of().keep_cut, ROWS[i].cut);
        stored(fill);
    }
}

/* ---- found unchanged ---- */

/* A refresh of a stale value that had this life; its load. */
static struct seen *begin_refresh(struct caller *starter, struct entry_life life)
{
    struct seen *acquire = lookup_of("k", starter);
    struct value *value = value_new("old", 3, "v1", 2, NULL, 0);
    reply(acquire, (struct core_reply){.kind = REPLY_STALE,
                                       .refresher = REFRESH_OURS,
                                       .value = value,
                                       .head = "11111111-1111-4111-8111-111111111111",
                                       .life = life});
    value_unref(&value);
    answered_value(starter, "old", GUARD_FROM_STALE);
    return expect(CORE_LOAD);
}

static struct seen *touch_of(struct seen *load, const struct guard_keep *keep)
{
    loaded_as(load, (struct core_loaded){.outcome = LOAD_UNCHANGED, .load_us = 5000, .keep = keep});
    return expect(CORE_TOUCH);
}

TEST(an_unchanged_value_begins_its_own_life_anew_and_not_the_jittered_one, P151)
{
    bench.policy.stale_ms = 1000;
    struct seen *load = begin_refresh(&caller, (struct entry_life){true, true, 5000, 7000});
    struct seen *touch = touch_of(load, NULL);
    assert_int_equal(touch->action.fresh_ms, 5000);
    assert_int_equal(touch->action.stale_ms, 7000);
    assert_life(touch, (struct entry_life){true, true, 5000, 7000});
    stored(touch);
}

TEST(a_keep_sets_the_life_of_an_unchanged_value)
{
    const struct guard_keep keep = keep_for(GUARD_POLICY_MS, 100);
    bench.policy.stale_ms = 3000;
    struct seen *load = begin_refresh(&caller, (struct entry_life){true, true, 5000, 7000});
    struct seen *touch = touch_of(load, &keep);
    assert_int_equal(touch->action.fresh_ms, bench.policy.fresh_ms);
    assert_int_equal(touch->action.stale_ms, 100);
    assert_life(touch, (struct entry_life){false, true, 0, 100});
    stored(touch);
}

TEST(a_new_value_does_not_inherit_the_life_of_the_old_one)
{
    bench.policy.stale_ms = 3000;
    struct seen *load = begin_refresh(&caller, (struct entry_life){true, true, 5000, 7000});
    loaded(load, "new");
    struct seen *fill = expect(CORE_FILL);
    assert_int_equal(fill->action.fresh_ms, bench.policy.fresh_ms);
    assert_int_equal(fill->action.stale_ms, 3000);
    assert_life(fill, (struct entry_life){.own_fresh = false});
    stored(fill);
}

/* ---- whose stale time it is ---- */

/* No place for a load: it only looks. */
static void peek_in_a_full_house(bool own, struct caller *peeking)
{
    static struct caller others[4];
    bench_again();
    for (int i = 0; i < 4; i++) {
        char key[2] = {(char)('a' + i), '\0'};
        get(key, &others[i]);
        reply_kind(expect(CORE_ACQUIRE), REPLY_LEASE);
        if (i < 2)
            expect(CORE_LOAD);
    }
    struct seen *peek = lookup_of("k", peeking);
    assert_int_equal(peek->action.lookup, LOOKUP_PEEK);
    reply_value(peek, (struct core_reply){.kind = REPLY_STALE, .life = {.own_stale = own}}, "old");
}

TEST(nor_does_a_peek_ask_whose_policy_it_is)
{
    peek_in_a_full_house(true, &caller);
    answered_value(&caller, "old", GUARD_FROM_STALE);
    peek_in_a_full_house(false, &caller);
    answered(&caller, GUARD_SHED);
}

/* ---- stored nowhere ---- */

TEST(with_no_life_at_all_it_answers_those_that_waited_and_is_stored_nowhere)
{
    struct seen *load = begin_load_of_two("k", &before, &after);
    loaded_kept(load, "row", NOWHERE);
    answered_value(&before, "row", GUARD_FROM_LOAD);
    assert_false(before.waiter.result.stored);
    struct seen *release = expect(CORE_RELEASE);
    assert_false(release->action.shares);
    assert_false(release->action.too_big);
    still_waits(&after);
    expect(CORE_ACQUIRE);
    assert_int_equal(stats_of().fill_refused, 0);
}

/* ---- shared ---- */

static const struct guard_keep SHARED = {.how = GUARD_SHARE};

TEST(what_is_shared_is_told_by_the_release_and_not_stored, P150)
{
    struct seen *load = begin_load("k", &caller);
    struct value *value = value_new("row", 3, "v1", 2, NULL, 0);
    struct core_loaded loaded = {.outcome = LOAD_OK, .value = value, .keep = &SHARED};
    struct core_action action;
    load->over = true;
    core_loaded(bench.core, bench.now_us, load->action.load, &loaded);
    value_unref(&value);
    assert_true(core_next_action(bench.core, &action));
    assert_int_equal(action.kind, CORE_RELEASE);
    assert_true(action.shares);
    assert_string_equal(action.value->public.body, "row");
    assert_string_equal(action.value->public.validator, "v1");
    note_action(&action);
    drain();
    answered_value(&caller, "row", GUARD_FROM_LOAD);
    assert_false(caller.waiter.result.stored);
    reply_code(expect(CORE_RELEASE), 1);
}

TEST(nor_is_it_stored_if_the_loader_names_a_life)
{
    const struct guard_keep keep = {.how = GUARD_SHARE, .fresh_ms = 60000, .stale_ms = 60000};
    loaded_kept(begin_load("k", &caller), "row", keep);
    assert_true(expect(CORE_RELEASE)->action.shares);
    answered_value(&caller, "row", GUARD_FROM_LOAD);
    sent_nothing();
}

TEST(what_is_too_big_or_cannot_be_checked_is_not_shared)
{
    char big[102];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    struct seen *load = begin_load("k", &caller);
    loaded_kept(load, big, SHARED);
    struct seen *release = expect(CORE_RELEASE);
    assert_true(release->action.too_big && !release->action.shares);
    bench_again();
    load = begin_load("k", &caller);
    struct value *tagged = value_new("row", 3, "", 0, "t", 1);
    loaded_as(load, (struct core_loaded){.outcome = LOAD_OK, .value = tagged, .keep = &SHARED});
    value_unref(&tagged);
    assert_false(expect(CORE_RELEASE)->action.shares);
    answered_value(&caller, "row", GUARD_FROM_LOAD);
}

static void shared(const char *body)
{
    struct value *value = body != NULL ? value_new(body, strlen(body), "", 0, NULL, 0) : NULL;
    struct core_reply pushed = {
        .lease_tag = TAG_A, .value = value, .absent = body == NULL, .shared = true, .left_ms = 1};
    hear_pushed("k", &pushed);
    value_unref(&value);
}

/* However late it is: an invalidation would have voided the lease, and the release would not have told it. */
TEST(a_process_that_waits_is_answered_with_what_is_shared)
{
    get("k", &caller);
    reply_leased(expect(CORE_ACQUIRE), TAG_A);
    pass(5);
    shared("row");
    answered_value(&caller, "row", GUARD_FROM_FLEET);
    assert_false(caller.waiter.result.stored);
    assert_int_equal(caller.waiter.result.left_ms, 0);
    assert_int_equal(stats_of().push_answered, 1);
    get("k", &absent);
    reply_leased(expect(CORE_ACQUIRE), TAG_A);
    shared(NULL);
    answered_from(&absent, GUARD_ABSENT, GUARD_FROM_FLEET);
}

/* What was filled it would find; what is shared it would not. */
TEST(it_is_answered_while_it_just_looks_again)
{
    get("k", &before);
    reply_leased(expect(CORE_ACQUIRE), TAG_A);
    get("k", &after);
    message("k", false);
    struct seen *acquire = expect(CORE_ACQUIRE);
    assert_null(core_awaits(bench.core, "k", 1, TAG_A, false));
    assert_non_null(core_awaits(bench.core, "k", 1, TAG_A, true));
    shared("row");
    answered_value(&before, "row", GUARD_FROM_FLEET);
    still_waits(&after);
    finish_load_for(lease(acquire), "newer", &after, GUARD_FROM_LOAD);
    assert_null(core_awaits(bench.core, "k", 1, TAG_A, true));
}

TEST(a_lease_that_comes_for_nobody_any_more_is_given_back)
{
    get("k", &caller);
    reply_leased(expect(CORE_ACQUIRE), TAG_A);
    message("k", false);
    struct seen *acquire = expect(CORE_ACQUIRE);
    shared("row");
    answered_value(&caller, "row", GUARD_FROM_FLEET);
    shared("row"); /* told twice: no waiter is left */
    reply_kind(acquire, REPLY_LEASE);
    expect(CORE_RELEASE);
    sent_nothing();
}

TEST(a_waiter_that_came_after_its_lookup_looks_again)
{
    get("k", &before);
    reply_leased(expect(CORE_ACQUIRE), TAG_A);
    get("k", &after);
    shared("row");
    answered_value(&before, "row", GUARD_FROM_FLEET);
    still_waits(&after);
    expect(CORE_ACQUIRE);
}

TEST_GROUP(.before = bench_up, .end = bench_close);
