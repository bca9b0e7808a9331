/* SPDX-License-Identifier: MIT */
/*
 * core_replay_test.c - what a master has confirmed shortly before its end is said again to the next one.
 */
#include "core_bench.h"
#include "guard/core/core_state.h"

static unsigned tags_shard, keys_shard, invalidated_from;

/* A key that begins with a digit is of that shard. */
static unsigned shard_of(void *context, bool invalidated, const char *encoded, size_t encoded_bytes)
{
    unsigned from = invalidated ? invalidated_from : 0;
    (void)context;
    if (encoded_bytes == sizeof TAGS_KEY - 1 && memcmp(encoded, TAGS_KEY, encoded_bytes) == 0)
        return from + tags_shard;
    return from + (encoded[0] >= '0' && encoded[0] <= '9' ? (unsigned)(encoded[0] - '0') : keys_shard);
}

static void open_replaying(bool sharded)
{
    bench.config.replay = true;
    bench.config.shard_of = sharded ? shard_of : NULL;
    tags_shard = 3;
    keys_shard = invalidated_from = 0;
    bench_open();
}

static bool replay_up(void)
{
    bench_up();
    open_replaying(false);
    return true;
}

static struct core_invalidation last_invalidation;

static struct seen *send_change_of(const char *name, bool of_tag, bool expires)
{
    last_invalidation = (struct core_invalidation){.key = {name, strlen(name), name, strlen(name)},
                                                   .of_tag = of_tag,
                                                   .expires = expires,
                                                   .deadline_us = UINT64_MAX};
    assert_int_equal(core_invalidate(bench.core, bench.now_us, &last_invalidation), GUARD_OK);
    drain();
    struct seen *seen = expect(CORE_INVALIDATE);
    assert_int_equal(seen->action.expires, expires);
    return seen;
}

static struct seen *send_invalidation_of(const char *name, bool of_tag)
{
    return send_change_of(name, of_tag, false);
}

static void confirm(const char *name, bool of_tag)
{
    unsigned invalidated = bench.invalidated;
    reply_code(send_invalidation_of(name, of_tag), 1);
    assert_int_equal(bench.invalidated, invalidated + 1);
}

static void reign(unsigned shard)
{
    core_reign(bench.core, bench.now_us, shard);
    drain();
    sent_nothing(); /* it only takes note */
}

static void reign_and_replay(unsigned shard)
{
    reign(shard);
    pass(REPLAY_SPREAD_MS);
}

static struct seen *expect_replay(const char *name, bool of_tag)
{
    struct seen *seen = expect(CORE_INVALIDATE);
    assert_string_equal(seen->key, name);
    assert_int_equal(seen->action.key.encoded_bytes, strlen(name));
    assert_int_equal(seen->action.of_tag, of_tag);
    assert_false(seen->action.by_delete);
    return seen;
}

static void nothing_is_replayed(void)
{
    pass(60000);
    sent_nothing();
}

/* Any answer of the master shows that it lives. */
static void master_answers(void)
{
    core_replied(bench.core, bench.now_us, 1, &(struct core_reply){.kind = REPLY_CODE});
    drain();
}

static struct caller caller;

/* ---- what is said again ---- */

TEST(confirmed_keys_and_tags_are_said_again_to_another_master_and_count_for_no_caller, P137)
{
    confirm("k", false);
    confirm("k", true); /* another thing by the same name */
    reign_and_replay(0);
    struct seen *key = expect_replay("k", false), *tag = expect_replay("k", true);
    sent_nothing();
    reply_code(key, 3);
    reply_code(tag, 1);
    assert_int_equal(stats_of().replayed, 2);
    assert_int_equal(stats_of().invalidated, 2);
    assert_int_equal(bench.invalidated, 2);
    nothing_is_replayed();
}

TEST(what_was_not_confirmed_is_not_said_again)
{
    struct seen *first = send_invalidation_of("k", false);
    static struct core_invalidation given_up;
    reign(0);
    nothing_is_replayed();
    reply_code(first, 1);
    given_up = (struct core_invalidation){.key = {"u", 1, "u", 1}, .deadline_us = bench.now_us + 1000};
    assert_int_equal(core_invalidate(bench.core, bench.now_us, &given_up), GUARD_OK);
    drain();
    struct seen *unknown = expect(CORE_INVALIDATE);
    pass(2);
    assert_int_equal(given_up.result.status, GUARD_UNKNOWN);
    reply_code(unknown, 1); /* too late */
    reign_and_replay(0);
    reply_code(expect_replay("k", false), 1);
    nothing_is_replayed();
}

TEST(its_age_is_that_at_the_last_answer_of_the_old_master_however_long_the_outage, P137)
{
    confirm("old", false);
    pass(REPLAY_AGE_MS);
    confirm("young", false);
    pass(1);
    master_answers();
    pass(10 * REPLAY_AGE_MS); /* nothing answers */
    reign_and_replay(0);
    expect_replay("young", false);
    sent_nothing();
}

TEST(what_is_just_young_enough_is_said)
{
    confirm("k", false);
    pass(REPLAY_AGE_MS);
    master_answers();
    reign_and_replay(0);
    expect_replay("k", false);
}

/* ---- once ---- */

TEST(one_change_voids_a_load_that_began_after_it_once, P137)
{
    confirm("k", false);
    reign(0);
    struct seen *load = begin_load("k", &caller);
    pass(REPLAY_SPREAD_MS);
    reply_code(expect_replay("k", false), 2);
    message("k", true);
    reply_code(expect(CORE_RENEW), 0);
    expect(CORE_CANCEL);
    load_fails(load, GUARD_FAILURE_UNAVAILABLE);
    finish_load_for(lease(expect(CORE_ACQUIRE)), "v1", &caller, GUARD_FROM_LOAD);
    nothing_is_replayed();
}

TEST(the_next_change_says_it_once_more_also_what_was_itself_a_replay)
{
    confirm("k", false);
    for (int change = 0; change < 3; change++) {
        reign_and_replay(0);
        reply_code(expect_replay("k", false), 1);
        pass(REPLAY_AGE_MS / 2 * 3); /* since the caller's */
    }
}

TEST(a_reply_to_a_replay_from_before_the_next_change_confirms_none_after_it, P137)
{
    confirm("k", false);
    reign_and_replay(0);
    struct seen *before = expect_replay("k", false);
    confirm("k", false);
    reign_and_replay(0);
    struct seen *after = expect_replay("k", false);
    assert_int_not_equal(after->action.op, before->action.op);
    reply_code(before, 1);
    assert_int_equal(stats_of().replayed, 0);
    reply_kind(after, REPLY_UNKNOWN);
    pass(REPLAY_PAUSE_FIRST_MS * 3 / 2);
    reply_code(expect_replay("k", false), 1);
    assert_int_equal(stats_of().replayed, 1);
    nothing_is_replayed();
}

/* It was the only one that may be under way, and the next is sent when it is over. */
TEST(a_replay_that_the_process_has_overtaken_holds_up_no_other)
{
    confirm("a", false);
    confirm("b", false);
    reign_and_replay(0);
    struct seen *a = expect_replay("a", false), *b = expect_replay("b", false);
    reply_kind(a, REPLY_REFUSED);
    reply_kind(b, REPLY_REFUSED);
    pass(REPLAY_PAUSE_FIRST_MS * 3 / 2);
    struct seen *probe = expect_replay("a", false);
    confirm("a", false);
    reply_code(probe, 1);
    pass(0);
    reply_code(expect_replay("b", false), 1);
    nothing_is_replayed();
}

/* ---- paced ---- */

static void name_of(unsigned number, char name[16])
{
    snprintf(name, 16, "key %u", number);
}

static void confirm_many(unsigned count)
{
    char name[16];
    for (unsigned i = 0; i < count; i++) {
        name_of(i, name);
        confirm(name, false);
        if (bench.seen_count == BENCH_ACTIONS)
            bench.seen_first = bench.seen_count = 0;
    }
}

/* Each replay is confirmed as soon as it is sent. */
static unsigned confirm_replays(void)
{
    unsigned count = 0;
    for (struct seen *seen = next_seen(); seen != NULL; seen = next_seen(), count++)
        reply_code(seen, 1);
    bench.seen_first = bench.seen_count = 0;
    return count;
}

TEST(replays_are_spread_over_a_fifth_of_a_second)
{
    enum { MANY = 1000, STEPS = 20 };
    confirm_many(MANY);
    bench.seen_first = bench.seen_count = 0;
    reign(0);
    unsigned sum = 0;
    for (int step = 0; step < STEPS; step++) {
        unsigned count = 0;
        for (int ms = 0; ms < REPLAY_SPREAD_MS / STEPS; ms++) {
            pass(1);
            count += confirm_replays();
        }
        assert_in_range(count, MANY / STEPS - 5, MANY / STEPS + 5);
        sum += count;
    }
    assert_int_equal(sum, MANY);
    assert_int_equal(stats_of().replayed, MANY);
    nothing_is_replayed();
}

TEST(no_more_than_so_many_are_under_way_at_a_time)
{
    confirm_many(10 * REPLAY_UNDER_WAY);
    bench.seen_first = bench.seen_count = 0;
    reign(0);
    bench.now_us += REPLAY_SPREAD_MS * BENCH_MS; /* the process stood still: all of them are due */
    pass(0);
    for (int i = 0; i < REPLAY_UNDER_WAY; i++)
        expect(CORE_INVALIDATE);
    sent_nothing();
    reply_code(&bench.seen[7], 1);
    expect(CORE_INVALIDATE);
    sent_nothing();
}

TEST(one_without_confirmation_is_sent_again_and_until_then_one_at_a_time)
{
    confirm("a", false);
    confirm("b", false);
    confirm("c", false);
    reign_and_replay(0);
    struct seen *a = expect_replay("a", false), *b = expect_replay("b", false),
                *c = expect_replay("c", false);
    reply_kind(a, REPLY_UNSENT);
    reply_kind(b, REPLY_UNKNOWN);
    reply_kind(c, REPLY_MOVING);
    sent_nothing();
    pass(REPLAY_PAUSE_FIRST_MS * 3 / 2);
    struct seen *probe = expect_replay("a", false);
    assert_true(probe->action.op != a->action.op);
    pass(1000);
    sent_nothing();
    reply_code(probe, 1);
    expect_replay("b", false);
    expect_replay("c", false);
    sent_nothing();
}

TEST(a_new_link_ends_the_pause)
{
    confirm("a", false);
    confirm("b", false);
    reign_and_replay(0);
    reply_kind(expect_replay("a", false), REPLY_UNSENT);
    reply_kind(expect_replay("b", false), REPLY_UNSENT);
    sent_nothing();
    core_link(bench.core, bench.now_us, 0, true);
    pass(0);
    expect_replay("a", false);
    expect_replay("b", false);
}

TEST(one_that_is_never_confirmed_is_given_up_and_counted)
{
    confirm("k", false);
    reign(0);
    for (int attempt = 0; attempt < REPLAY_ATTEMPTS; attempt++) {
        pass(2 * REPLAY_PAUSE_MOST_MS);
        reply_kind(expect_replay("k", false), REPLY_REFUSED);
    }
    nothing_is_replayed();
    assert_int_equal(stats_of().replay_dropped, 1);
    assert_int_equal(stats_of().replayed, 0);
}

/* ---- bounded ---- */

TEST(of_too_many_the_newest_are_kept_and_the_others_counted)
{
    enum { TOO_MANY = 10 };
    char name[16];
    confirm_many(REPLAY_MOST + TOO_MANY);
    bench.seen_first = bench.seen_count = 0;
    assert_int_equal(stats_of().replay_dropped, TOO_MANY);
    reign(0);
    unsigned number = TOO_MANY;
    for (int ms = 0; ms < 2 * REPLAY_SPREAD_MS; ms++) {
        pass(1);
        for (struct seen *seen = next_seen(); seen != NULL; seen = next_seen(), number++) {
            name_of(number, name);
            assert_string_equal(seen->key, name);
            reply_code(seen, 1);
        }
        bench.seen_first = bench.seen_count = 0;
    }
    assert_int_equal(number, REPLAY_MOST + TOO_MANY);
    assert_int_equal(stats_of().replay_dropped, TOO_MANY);
}

TEST(what_is_past_makes_way_unnoticed)
{
    confirm_many(REPLAY_MOST);
    pass(REPLAY_AGE_MS + 1);
    confirm("k", false);
    confirm("k2", false); /* by then the master is known to have lived on */
    bench.seen_first = bench.seen_count = 0;
    assert_int_equal(stats_of().replay_dropped, 0);
    reign_and_replay(0);
    expect_replay("k", false);
    expect_replay("k2", false);
    sent_nothing();
}

TEST(one_that_is_due_may_have_to_make_way)
{
    confirm_many(REPLAY_MOST);
    bench.seen_first = bench.seen_count = 0;
    reign(0);
    confirm("one more", false);
    assert_int_equal(stats_of().replay_dropped, 1);
    bench.now_us += BENCH_MS * REPLAY_SPREAD_MS;
    pass(0);
    expect_replay("key 1", false);
}

/* ---- shards ---- */

/* A key of two changes, the second perhaps much later, said again to the next master. */
static void assert_said_again(bool first_expires, bool then_expires, bool long_between, bool expires)
{
    bench_again();
    open_replaying(false);
    reply_code(send_change_of("k", false, first_expires), 1);
    if (long_between)
        pass(REPLAY_AGE_MS + 1);
    master_answers();
    reply_code(send_change_of("k", false, then_expires), 1);
    reign_and_replay(0);
    assert_int_equal(expect_replay("k", false)->action.expires, expires);
}

TEST(what_was_expired_is_expired_again_unless_it_was_dropped_as_well)
{
    assert_said_again(true, true, false, true);
    assert_said_again(false, true, false, false); /* the next master may have missed either */
    assert_said_again(true, false, false, false);
    assert_said_again(false, true, true, true);
}

TEST(only_what_is_of_the_shard_is_said_again_there)
{
    open_replaying(true);
    confirm("1", false);
    confirm("2", false);
    confirm("1 is its name", true);
    reign_and_replay(2);
    reply_code(expect_replay("2", false), 1);
    nothing_is_replayed();
    reign_and_replay(tags_shard);
    reply_code(expect_replay("1 is its name", true), 1);
    nothing_is_replayed();
}

TEST(a_master_with_another_number_hears_what_the_one_before_it_confirmed)
{
    open_replaying(true);
    keys_shard = 4;
    confirm("k", false);
    pass(REPLAY_AGE_MS);
    keys_shard = 5;
    confirm("of another key", false);
    pass(REPLAY_AGE_MS);
    core_replied(bench.core, bench.now_us, bench.seen[1].action.op, &(struct core_reply){.kind = REPLY_CODE});
    reign(5); /* the answers of 5 do not age what 4 has confirmed */
    pass(REPLAY_SPREAD_MS);
    struct seen *first = next_seen(), *second = next_seen();
    assert_non_null(first);
    assert_non_null(second);
}

/* It was asked of 4, which led it to 5; and by the time that this process hears of the end of 5, it is at 4. */
TEST(a_key_whose_invalidation_was_led_to_another_master_is_said_again_when_either_changes)
{
    open_replaying(true);
    keys_shard = 4;
    struct seen *seen = send_invalidation_of("k", false);
    keys_shard = 5;
    reply_code(seen, 1);
    keys_shard = 4;
    reign_and_replay(5);
    reply_code(expect_replay("k", false), 1);
    reign(5);
    nothing_is_replayed();
}

TEST(invalidations_that_go_to_other_names_have_shards_of_their_own)
{
    open_replaying(true);
    invalidated_from = 10;
    confirm("1", false);
    confirm("of a tag", true);
    reign(1);
    nothing_is_replayed();
    reign_and_replay(11);
    reply_code(expect_replay("1", false), 1);
    reign(10 + tags_shard);
    pass(REPLAY_SPREAD_MS);
    reply_code(expect_replay("of a tag", true), 1);
    nothing_is_replayed();
}

/* ---- the end ---- */

TEST(nothing_is_said_after_the_end)
{
    confirm("a", false);
    confirm("b", false);
    reign_and_replay(0);
    struct seen *a = expect_replay("a", false);
    expect_replay("b", false);
    reply_kind(a, REPLY_UNKNOWN); /* due again */
    close_core();
    assert_true(core_next_us(bench.core) == UINT64_MAX);
    core_reign(bench.core, bench.now_us, 0);
    core_link(bench.core, bench.now_us, 0, true);
    assert_true(core_next_us(bench.core) == UINT64_MAX);
}

TEST_GROUP(.before = replay_up, .end = bench_close);
