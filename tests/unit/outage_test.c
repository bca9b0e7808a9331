/* SPDX-License-Identifier: MIT */
/* outage_test.c - what answers in place of Redis: until when, for whom, and what voids it. The test is the clock. */
#include "guard/core/keep.h"
#include "guard/core/near.h"
#include "tests/support/test.h"

enum { MIB = 1 << 20, MS = 1000, SPAN_MS = 5000, SPAN_US = SPAN_MS * MS, LONG_MS = 600000 };
static const uint64_t NOW_US = UINT64_C(100000000);
/* Of every lot a key may have drawn: it serves here, and does not there. */
static const uint64_t SOON_US = SPAN_US - SPAN_US / OUTAGE_SHORTER;

static const uint8_t hash_key[16] = {3};
static struct guard_policy policy;
static struct near *near;

static bool before(void)
{
    policy = (struct guard_policy)GUARD_POLICY_DEFAULTS;
    policy.outage_ms = SPAN_MS;
    near = near_new(MIB, hash_key);
    near_subscribed(near, true);
    return near != NULL;
}

static bool after(void)
{
    near_free(&near);
    return true;
}

/* ---- until when ---- */

static uint64_t until(struct outage_entry entry, uint64_t touch_us)
{
    return outage_times(&entry, touch_us, SPAN_MS).until_us;
}

TEST(it_serves_for_so_long_after_it_was_known_to_be_right)
{
    assert_int_equal(until((struct outage_entry){.as_of_us = NOW_US}, 0), NOW_US + SPAN_US);
    assert_int_equal(until((struct outage_entry){.as_of_us = NOW_US}, NOW_US + 7), NOW_US + SPAN_US);
}

TEST(what_is_near_serves_for_so_long_after_the_last_touch_and_no_longer_than_it_is_near)
{
    const uint64_t far_us = NOW_US + (uint64_t)LONG_MS * MS, touch_us = NOW_US + 60 * SPAN_US;
    assert_int_equal(until((struct outage_entry){NOW_US, far_us, 0, 0}, touch_us), touch_us + SPAN_US);
    assert_int_equal(until((struct outage_entry){NOW_US, touch_us + 9, 0, 0}, touch_us), touch_us + 9);
    assert_int_equal(until((struct outage_entry){NOW_US, NOW_US + 9, 0, 0}, touch_us), NOW_US + SPAN_US);
    assert_int_equal(until((struct outage_entry){NOW_US, far_us, 0, 0}, 0), NOW_US + SPAN_US);
}

TEST(a_lot_shortens_its_time_by_at_most_a_twentieth_and_never_lengthens_it)
{
    uint64_t last_us = UINT64_MAX;
    for (unsigned lot = 0; lot < OUTAGE_LOTS; lot++) {
        uint64_t until_us = until((struct outage_entry){.as_of_us = NOW_US, .lot = lot}, 0);
        assert_in_range(until_us, NOW_US + SOON_US, NOW_US + SPAN_US);
        assert_true(until_us < last_us);
        last_us = until_us;
    }
}

TEST(it_is_to_be_refreshed_in_its_last_tenth_or_sooner_if_its_load_is_slow)
{
    static const struct {
        uint64_t load_us, before_us;
    } ROWS[] = {{0, SPAN_US / 10}, {SPAN_US / 8, SPAN_US / 4}, {SPAN_US, SPAN_US / 3}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        const struct outage_entry entry = {.as_of_us = NOW_US, .load_us = ROWS[i].load_us};
        assert_int_equal(outage_times(&entry, 0, SPAN_MS).refresh_us, NOW_US + SPAN_US - ROWS[i].before_us);
    }
}

/* ---- for whom, and what ---- */

TEST(it_serves_a_user_whom_redis_has_not_answered)
{
    static const struct outage_asker OTHERS[] = {
        {.answered = true}, {.nested = true}, {.refreshes = true}, {.revalidates = true}, {.passes = true}};
    const struct outage_asker user = {.answered = false};
    assert_true(outage_serves(&policy, &user));
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++)
        assert_false(outage_serves(&policy, &OTHERS[i]));
    policy.outage_ms = 0;
    assert_false(outage_serves(&policy, &user));
}

TEST(what_is_for_all_is_kept_and_what_is_for_some_is_not)
{
    assert_true(outage_keeps(&policy, GUARD_STORE, false));
    assert_true(outage_keeps(&policy, GUARD_HERE, false));
    assert_false(outage_keeps(&policy, GUARD_SHARE, false));
    assert_false(outage_keeps(&policy, GUARD_PASS, false));
    assert_false(outage_keeps(&policy, GUARD_STORE, true));
    policy.outage_ms = 0;
    assert_false(outage_keeps(&policy, GUARD_STORE, false));
}

/* ---- what was found, and what was loaded ---- */

static struct near_lookup sent(uint64_t now_us)
{
    return near_look_up(near, "k", 1, now_us);
}

static void found_for(const struct near_lookup *lookup, struct near_life life, struct guard_result result)
{
    struct value *value = result.status == GUARD_OK ? value_new("v", 1, "", 0, NULL, 0) : NULL;
    life.kept = true;
    near_keep(lookup, &life, value, &result);
    value_unref(&value);
}

static void found(const struct near_lookup *lookup)
{
    found_for(lookup, (struct near_life){.near_ms = 0}, (struct guard_result){.left_ms = LONG_MS, .load = 7});
}

static void put(uint64_t now_us)
{
    struct near_lookup lookup = sent(now_us);
    found(&lookup);
}

static enum near_kept kept(uint64_t now_us, struct guard_result *result)
{
    enum near_kept verdict = near_kept(near, "k", 1, &policy, now_us, result);
    if (verdict != NEAR_KEPT_NOT && result->value != NULL)
        guard_value_unref(&result->value);
    return verdict;
}

static bool serves(uint64_t now_us)
{
    struct guard_result result;
    return kept(now_us, &result) != NEAR_KEPT_NOT;
}

static bool is_near(uint64_t now_us)
{
    struct guard_result result;
    bool hit = near_answer(near, "k", 1, 0, now_us, &result);
    if (hit)
        guard_value_unref(&result.value);
    return hit;
}

TEST(what_was_found_serves_from_when_its_lookup_was_sent)
{
    put(NOW_US);
    assert_true(serves(NOW_US + SOON_US - 1));
    assert_false(serves(NOW_US + SPAN_US));
}

TEST(a_kind_without_a_near_time_has_it_in_an_outage_only)
{
    put(NOW_US);
    assert_false(is_near(NOW_US));
    assert_true(serves(NOW_US));
    policy.outage_ms = 0;
    assert_false(serves(NOW_US));
}

TEST(what_is_near_serves_from_the_last_touch)
{
    struct near_lookup lookup = sent(NOW_US);
    found_for(&lookup, (struct near_life){.near_ms = LONG_MS}, (struct guard_result){.left_ms = LONG_MS});
    near_touched(near, NOW_US + 9 * SPAN_US);
    near_touched(near, NOW_US + 8 * SPAN_US);
    near_subscribed(near, false);
    assert_false(is_near(NOW_US + 9 * SPAN_US));
    assert_true(serves(NOW_US + 9 * SPAN_US + SOON_US - 1));
    assert_false(serves(NOW_US + 10 * SPAN_US));
}

TEST(it_says_how_old_it_is_and_how_long_it_is_fresh)
{
    struct near_lookup lookup = sent(NOW_US);
    struct guard_result result;
    found_for(&lookup, (struct near_life){.near_ms = 0},
              (struct guard_result){.age_ms = 200, .left_ms = 3000, .load = 7, .stored = true});
    assert_int_equal(kept(NOW_US + 1, &result), NEAR_KEPT);
    assert_int_equal(result.status, GUARD_OK);
    assert_int_equal(result.source, GUARD_FROM_KEPT);
    assert_int_equal(result.age_ms, 201);
    assert_int_equal(result.left_ms, 2999);
    assert_int_equal(result.load, 7);
    assert_false(result.stored);
}

TEST(an_absent_row_serves_too)
{
    struct near_lookup lookup = sent(NOW_US);
    struct guard_result result;
    found_for(&lookup, (struct near_life){.near_ms = 0},
              (struct guard_result){.status = GUARD_ABSENT, .left_ms = 3000});
    assert_int_equal(kept(NOW_US, &result), NEAR_KEPT);
    assert_int_equal(result.status, GUARD_ABSENT);
    assert_null(result.value);
}

TEST(its_own_life_bounds_it_and_its_stale_time_is_a_part_of_that)
{
    static const uint64_t fresh_us = 1000 * MS, stale_us = 1500 * MS;
    struct guard_result result;
    struct near_lookup lookup = sent(NOW_US);
    found_for(&lookup, (struct near_life){.stale_ms = 1500}, (struct guard_result){.left_ms = 1000});
    assert_int_equal(kept(NOW_US + fresh_us - 1, &result), NEAR_KEPT);
    assert_int_equal(kept(NOW_US + fresh_us, &result), NEAR_KEPT_REFRESH);
    assert_int_equal(result.left_ms, 0);
    assert_true(serves(NOW_US + fresh_us + stale_us - 1));
    assert_false(serves(NOW_US + fresh_us + stale_us));
}

TEST(what_is_only_near_does_not_serve)
{
    struct near_lookup lookup = sent(NOW_US);
    const struct guard_result absent = {.status = GUARD_ABSENT, .left_ms = LONG_MS};
    near_keep(&lookup, &(struct near_life){.near_ms = LONG_MS}, NULL, &absent);
    assert_true(is_near(NOW_US));
    assert_false(serves(NOW_US));
}

TEST(what_was_found_stale_serves_as_stale_and_is_not_near)
{
    struct guard_result result;
    struct near_lookup lookup = sent(NOW_US);
    found_for(&lookup, (struct near_life){.stale_ms = 1500}, (struct guard_result){.age_ms = 9});
    assert_false(is_near(NOW_US));
    assert_int_equal(kept(NOW_US, &result), NEAR_KEPT_REFRESH);
    assert_int_equal(result.left_ms, 0);
    assert_false(serves(NOW_US + 1500 * MS));
}

static bool takes_on(uint64_t now_us)
{
    return near_take_on_refresh(near, "k", 1, now_us, policy.failure_ms);
}

/* Users of one key get one load in the background, and another one only if that has brought nothing. Who only looks,
 * or cannot have it loaded, leaves it to the next one. */
TEST(a_refresh_is_for_one_who_takes_it_on_once_in_failure_ms)
{
    struct guard_result result;
    uint64_t late_us = NOW_US + SPAN_US - SPAN_US / OUTAGE_REFRESH;
    policy.failure_ms = 100;
    put(NOW_US);
    assert_int_equal(kept(late_us - 1, &result), NEAR_KEPT);
    assert_int_equal(kept(late_us, &result), NEAR_KEPT_REFRESH);
    assert_int_equal(kept(late_us, &result), NEAR_KEPT_REFRESH);
    assert_true(takes_on(late_us));
    assert_false(takes_on(late_us));
    assert_int_equal(kept(late_us, &result), NEAR_KEPT);
    assert_int_equal(kept(late_us + 100 * MS - 1, &result), NEAR_KEPT);
    assert_int_equal(kept(late_us + 100 * MS, &result), NEAR_KEPT_REFRESH);
    assert_true(takes_on(late_us + 100 * MS));
    near_stored(near, 0, "k", 1);
    assert_false(takes_on(late_us + 300 * MS));
}

/* ---- found again ---- */

static struct near_counters counters(void)
{
    struct near_counters now;
    near_count(near, &now);
    return now;
}

TEST(what_is_found_again_of_the_same_load_moves_on_and_is_not_copied)
{
    put(NOW_US);
    put(NOW_US + 3 * SPAN_US);
    assert_int_equal(counters().put, 1);
    assert_true(serves(NOW_US + 3 * SPAN_US + SOON_US - 1));
}

TEST(an_earlier_lookup_does_not_move_it_back)
{
    struct near_lookup early = sent(NOW_US), late = sent(NOW_US + SPAN_US);
    found(&late);
    found(&early);
    assert_true(serves(NOW_US + SPAN_US + SOON_US - 1));
}

TEST(what_was_looked_up_before_a_drop_moves_nothing_on)
{
    struct near_lookup early = sent(NOW_US);
    near_stored(near, 0, "k", 1);
    struct near_lookup late = sent(NOW_US);
    found(&late);
    early.sent_us += SPAN_US; /* whatever its instant says */
    found(&early);
    assert_false(serves(NOW_US + SPAN_US));
}

/* ---- where all that is found does not fit ---- */

enum { KEYS = 1600 }; /* several times what fits */

/* KEYS names from `first` on. How many were put in. */
static uint64_t find_many(unsigned first, uint64_t now_us, struct near_life life)
{
    char name[16];
    struct near_counters were, are;
    life.kept = true;
    near_count(near, &were);
    for (unsigned i = first; i < first + KEYS; i++) {
        int bytes = snprintf(name, sizeof name, "other:%u", i);
        struct near_lookup lookup = near_look_up(near, name, (size_t)bytes, now_us);
        struct value *value = value_new("v", 1, "", 0, NULL, 0);
        near_keep(&lookup, &life, value, &(struct guard_result){.left_ms = LONG_MS, .load = i + 1});
        value_unref(&value);
    }
    near_count(near, &are);
    return are.put - were.put;
}

static void fill_small_store(struct near_life life)
{
    near_free(&near);
    near = near_new(1 << 16, hash_key);
    near_subscribed(near, true);
    assert_int_equal(find_many(0, NOW_US, life), KEYS);
}

TEST(what_was_right_not_long_ago_stays_but_for_one_in_sixteen)
{
    fill_small_store((struct near_life){.near_ms = 0});
    uint64_t let_in = find_many(KEYS, NOW_US + SPAN_US - 1, (struct near_life){.spare_ms = SPAN_MS});
    assert_in_range(let_in, KEYS / 16 - NEAR_SHARDS, KEYS / 16);
}

TEST(what_was_right_long_ago_goes_unless_it_is_near)
{
    const uint64_t now_us = NOW_US + SPAN_US;
    fill_small_store((struct near_life){.near_ms = 0});
    assert_true(find_many(KEYS, now_us, (struct near_life){.spare_ms = SPAN_MS}) > KEYS / 8);
    fill_small_store((struct near_life){.near_ms = LONG_MS});
    assert_in_range(find_many(KEYS, now_us, (struct near_life){.spare_ms = SPAN_MS}), 0, KEYS / 16);
}

TEST(what_is_near_or_loaded_is_always_put_in)
{
    fill_small_store((struct near_life){.near_ms = 0});
    assert_int_equal(find_many(KEYS, NOW_US, (struct near_life){.spare_ms = 0}), KEYS);
    assert_int_equal(find_many(2 * KEYS, NOW_US, (struct near_life){.near_ms = 1, .spare_ms = SPAN_MS}),
                     KEYS);
}

/* ---- the subscription, and other masters ---- */

TEST(losing_the_subscription_keeps_it_and_what_is_looked_up_meanwhile)
{
    struct near_lookup early = sent(NOW_US);
    near_subscribed(near, false);
    found(&early);
    assert_true(serves(NOW_US));
    put(NOW_US + SPAN_US);
    assert_true(serves(NOW_US + SPAN_US));
    near_subscribed(near, false); /* another word of the same */
    assert_true(serves(NOW_US + SPAN_US));
}

static void returns(void)
{
    near_subscribed(near, false);
    near_subscribed(near, true);
}

static void another_reigns(void)
{
    near_drop_all(near);
}

/* A lookup or a load from before it, or from the outage, that ends after it. */
TEST(with_the_subscription_or_another_master_all_goes_that_is_there_or_on_its_way)
{
    void (*const drops[])(void) = {returns, another_reigns};
    for (size_t i = 0; i < 2; i++) {
        put(NOW_US);
        struct near_lookup early = sent(NOW_US);
        drops[i]();
        assert_false(serves(NOW_US));
        found(&early);
        assert_false(serves(NOW_US));
        near_subscribed(near, false);
        struct near_lookup meanwhile = sent(NOW_US);
        near_subscribed(near, true);
        found(&meanwhile);
        assert_false(serves(NOW_US));
    }
}

/* ---- invalidations ---- */

static void begins(void)
{
    near_invalidation_begins(near, false, "k", 1);
}

static void ends(void)
{
    near_invalidation_ends(near, false, "k", 1);
}

static void hears(void)
{
    near_heard(near, true, 0, "k", 1);
}

/* In an outage and outside, begun or over: a load from before the COMMIT would be put in between. */
TEST(an_invalidation_drops_it_and_voids_what_is_on_its_way)
{
    void (*const drops[])(void) = {begins, ends, hears};
    for (size_t i = 0; i < 6; i++) {
        near_subscribed(near, i < 3);
        struct near_lookup early = sent(NOW_US);
        put(NOW_US);
        assert_true(serves(NOW_US));
        drops[i % 3]();
        assert_false(serves(NOW_US));
        found(&early);
        assert_false(serves(NOW_US));
    }
}

static void found_tagged(const struct near_lookup *lookup)
{
    static const char TAGS[] = "t";
    struct value *value = value_new("v", 1, "", 0, TAGS, sizeof TAGS - 1);
    const struct near_life life = {.kept = true};
    near_keep(lookup, &life, value, &(struct guard_result){.left_ms = LONG_MS, .load = 7});
    value_unref(&value);
}

TEST(so_does_one_of_its_tag)
{
    for (int i = 0; i < 2; i++) {
        near_subscribed(near, false);
        struct near_lookup early = sent(NOW_US), late = sent(NOW_US);
        found_tagged(&late);
        assert_true(serves(NOW_US));
        if (i == 0)
            near_invalidation_begins(near, true, "t", 1);
        else
            near_invalidation_ends(near, true, "t", 1);
        assert_false(serves(NOW_US));
        found_tagged(&early);
        assert_false(serves(NOW_US));
    }
}

/* ---- its own fill ---- */

TEST(a_load_stays_when_it_is_stored_itself_and_goes_for_another_one)
{
    for (int i = 0; i < 4; i++) {
        struct near_lookup load = sent(NOW_US), early = sent(NOW_US);
        load.lease = 5;
        found(&load);
        near_stored(near, 5, "k", 1);
        near_heard(near, true, 5, "k", 1);
        assert_true(serves(NOW_US));
        found_for(&early, (struct near_life){.near_ms = 0}, (struct guard_result){.load = 3, .left_ms = 9});
        assert_int_equal(counters().late, (unsigned)i + 1);
        if (i < 2)
            near_stored(near, i == 0 ? 6 : 0, "k", 1);
        else
            near_heard(near, true, i == 2 ? 6 : 0, "k", 1);
        assert_false(serves(NOW_US));
    }
}

TEST_GROUP(.before = before, .after = after);
