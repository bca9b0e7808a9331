/* SPDX-License-Identifier: MIT */
/*
 * core_moving_test.c - keys that go from one master to another: for that time no script runs. Nothing is lost by it
 * but leases, and Redis is not to blame.
 */
#include "core_bench.h"
#include "guard/core/breaker.h"

enum { FOR_LONG_MS = 60000 };

static struct caller caller, later, late, before, after, joined;

/* ---- looked up ---- */

TEST(a_miss_of_a_moving_key_is_loaded_at_once_without_a_lease, P142)
{
    static struct caller callers[2];
    get("k", &callers[0]);
    get("k", &callers[1]);
    reply_kind(expect(CORE_ACQUIRE), REPLY_MOVING);
    struct seen *load = expect(CORE_LOAD); /* one for both */
    sent_nothing();
    loaded_for(load, "v1", &callers[0], GUARD_FROM_LOAD);
    answered_value(&callers[1], "v1", GUARD_FROM_FLIGHT);
    sent_nothing(); /* nothing is stored, and nothing is given back */
    assert_int_equal(stats_of().load_uncached, 1);
    assert_int_equal(stats_of().moving, 1);
}

TEST(an_earlier_attempt_is_still_named_once_the_keys_have_moved)
{
    struct seen *lost = lookup_of("k", &caller);
    reply_kind(lost, REPLY_UNKNOWN);
    struct seen *moving = expect(CORE_ACQUIRE);
    reply_kind(moving, REPLY_MOVING);
    struct seen *load = expect(CORE_LOAD);
    get("k", &later);
    loaded_for(load, "v1", &caller, GUARD_FROM_LOAD);
    assert_string_equal(expect(CORE_ACQUIRE)->prev, lost->token);
}

/* ---- stored ---- */

TEST(a_fill_waits_until_its_keys_have_moved)
{
    struct seen *load = begin_load("k", &caller);
    loaded(load, "v1");
    struct seen *fill = expect(CORE_FILL);
    reply_kind(fill, REPLY_MOVING);
    answered_value(&caller, "v1", GUARD_FROM_LOAD); /* its waiter does not wait for it */
    assert_false(caller.waiter.result.stored);
    sent_nothing(); /* not at once */
    pass_to_next();
    struct seen *again = expect(CORE_FILL);
    assert_string_equal(again->token, fill->token);
    reply_code(again, 1);
    sent_nothing();
    assert_int_equal(stats_of().fill_stored, 1);
    assert_int_equal(stats_of().fill_unknown, 0);
    assert_int_equal(stats_of().flights, 0);
}

TEST(a_fill_waits_for_as_long_as_its_lease_is_renewed_and_no_longer_than_it_may_be_held)
{
    struct seen *load = begin_load("k", &caller);
    uint64_t until_us = bench.now_us + (uint64_t)bench.policy.max_hold_ms * BENCH_MS;
    loaded(load, "v1");
    unsigned fills = 0, renewals = 0;
    while (bench.now_us < until_us && stats_of().lease_released == 0) {
        struct seen *seen = next_seen();
        if (seen == NULL) {
            uint64_t before_us = bench.now_us;
            pass_to_next();
            assert_true(bench.now_us - before_us < 1000 * BENCH_MS);
            continue;
        }
        if (seen->action.kind == CORE_RENEW) {
            reply_code(seen, 1);
            renewals++;
            continue;
        }
        assert_int_equal(seen->action.kind, CORE_FILL);
        assert_string_equal(seen->token, load->token);
        reply_kind(seen, REPLY_MOVING);
        fills++;
    }
    assert_in_range(fills, bench.policy.max_hold_ms / 1000, bench.policy.max_hold_ms / 100);
    assert_in_range(renewals, bench.policy.max_hold_ms / bench.policy.lease_ms, UINT32_MAX);
    assert_string_equal(expect(CORE_RELEASE)->token, load->token);
    assert_false(stats_of().breaker_open);
    assert_int_equal(stats_of().breaker_opened, 0);
}

TEST(no_renewal_goes_beside_a_fill)
{
    bench.policy.lease_ms = 300;
    loaded(begin_load("k", &caller), "v1");
    reply_kind(expect(CORE_FILL), REPLY_MOVING);
    pass_to_next();
    struct seen *fill = expect(CORE_FILL);
    pass(200); /* the time for one has come */
    sent_nothing();
    reply_kind(fill, REPLY_MOVING);
    pass(0);
    struct seen *renewal = expect(CORE_RENEW);
    pass(50); /* and no fill while that is under way, whose reply would be lost */
    sent_nothing();
    reply_code(renewal, 1);
    pass(0);
    reply_code(expect(CORE_FILL), 1);
    sent_nothing();
}

TEST(a_lease_that_is_lost_meanwhile_takes_its_fill_with_it)
{
    bench.policy.lease_ms = 300;
    bench.policy.max_hold_ms = 3000;
    loaded(begin_load("k", &caller), "v1");
    struct seen *fill = expect(CORE_FILL);
    pass(150);
    reply_kind(fill, REPLY_MOVING);
    pass_to_renewal(0, 0);
    pass(FOR_LONG_MS);
    sent_nothing();
    assert_int_equal(stats_of().lease_lost, 1);
    assert_int_equal(stats_of().flights, 0);
}

TEST(a_waiter_that_needs_a_newer_row_does_not_wait_for_the_keys)
{
    struct seen *load = begin_load_of_two("k", &before, &after);
    loaded(load, "v1");
    reply_kind(expect(CORE_FILL), REPLY_MOVING);
    answered_value(&before, "v1", GUARD_FROM_LOAD);
    struct seen *acquire = expect(CORE_ACQUIRE); /* its own round */
    assert_string_equal(acquire->prev, load->token);
    reply_kind(acquire, REPLY_MOVING);
    struct seen *bare = expect(CORE_LOAD);
    sent_nothing();
    loaded_for(bare, "v2", &after, GUARD_FROM_LOAD);
}

TEST(a_waiter_that_joins_in_a_pause_is_answered_by_the_fill_that_follows_it)
{
    loaded(begin_load("k", &caller), "v1");
    reply_kind(expect(CORE_FILL), REPLY_MOVING);
    answered_value(&caller, "v1", GUARD_FROM_LOAD);
    get("k", &joined);
    sent_nothing();
    pass_to_next();
    struct seen *fill = expect(CORE_FILL);
    get("k", &late);
    reply_code(fill, 1);
    answered_value(&joined, "v1", GUARD_FROM_FLIGHT);
    still_waits(&late); /* it may know of an invalidation that came after the fill */
    reply_fresh_for(expect(CORE_ACQUIRE), "v1", &late, GUARD_FROM_CACHE);
}

/* If the first attempt has stored it, an invalidation may have followed that the second one does not meet. */
TEST(after_an_attempt_that_may_have_run_a_later_one_answers_no_later_waiter)
{
    loaded(begin_load("k", &caller), "v1");
    reply_kind(expect(CORE_FILL), REPLY_UNKNOWN);
    answered_value(&caller, "v1", GUARD_FROM_LOAD);
    reply_kind(expect(CORE_FILL), REPLY_MOVING);
    get("k", &joined);
    pass_to_next();
    reply_code(expect(CORE_FILL), 2);
    still_waits(&joined);
    expect(CORE_ACQUIRE);
}

/* ---- given back ---- */

TEST(a_release_that_meets_moving_keys_is_sent_again_after_a_pause_three_times_at_most)
{
    load_fails(begin_load("k", &caller), GUARD_FAILURE_UNAVAILABLE);
    answered(&caller, GUARD_FAILED);
    for (int attempt = 0; attempt < 3; attempt++) {
        struct seen *release = expect(CORE_RELEASE);
        assert_int_equal(release->action.failure, GUARD_FAILURE_UNAVAILABLE);
        reply_kind(release, REPLY_MOVING);
        sent_nothing();
        if (attempt < 2)
            pass_to_next();
    }
    assert_int_equal(stats_of().flights, 0);
}

TEST(a_get_that_joins_while_a_release_pauses_looks_up_at_once)
{
    struct seen *load = begin_load("k", &caller);
    load_fails(load, GUARD_FAILURE_UNAVAILABLE);
    reply_kind(expect(CORE_RELEASE), REPLY_MOVING);
    struct seen *acquire = lookup_of("k", &late);
    assert_string_equal(acquire->prev, load->token);
    reply_fresh_for(acquire, "v1", &late, GUARD_FROM_CACHE);
    pass(FOR_LONG_MS);
    sent_nothing();
}

TEST(the_end_waits_for_no_pause)
{
    static struct caller callers[2];
    loaded(begin_load("filling", &callers[0]), "v1");
    reply_kind(expect(CORE_FILL), REPLY_MOVING);
    answered_value(&callers[0], "v1", GUARD_FROM_LOAD);
    load_fails(begin_load("releasing", &callers[1]), GUARD_FAILURE_UNAVAILABLE);
    reply_kind(expect(CORE_RELEASE), REPLY_MOVING);
    close_core();
    struct seen *release = expect(CORE_RELEASE); /* of the one that was to be filled */
    assert_string_equal(release->key, "filling");
    reply_kind(release, REPLY_MOVING);
    reply_kind(expect(CORE_RELEASE), REPLY_MOVING); /* and no pause any more */
    reply_kind(expect(CORE_RELEASE), REPLY_MOVING);
    at_rest();
}

/* ---- invalidated ---- */

static struct core_invalidation invalidation;

static void invalidate(bool of_tag, uint32_t deadline_ms)
{
    invalidation = (struct core_invalidation){.key = {"k", 1, "k", 1},
                                              .of_tag = of_tag,
                                              .deadline_us = bench.now_us + (uint64_t)deadline_ms * BENCH_MS};
    assert_int_equal(core_invalidate(bench.core, bench.now_us, &invalidation), GUARD_OK);
    drain();
}

static void meets_moving_keys(bool by_delete)
{
    struct seen *seen = expect(CORE_INVALIDATE);
    assert_int_equal(seen->action.by_delete, by_delete);
    reply_kind(seen, REPLY_MOVING);
    sent_nothing();
    assert_int_equal(bench.invalidated, 0);
    pass_to_next();
}

TEST(the_third_attempt_to_invalidate_a_moving_key_deletes_it_without_the_script, P142)
{
    invalidate(false, 5000);
    meets_moving_keys(false);
    meets_moving_keys(false);
    struct seen *deletes = expect(CORE_INVALIDATE);
    assert_true(deletes->action.by_delete);
    reply_code(deletes, 3);
    assert_int_equal(bench.invalidated, 1);
    assert_int_equal(invalidation.result.status, GUARD_OK);
    assert_true(invalidation.result.value_dropped && invalidation.result.load_voided);
}

TEST(a_deletion_that_the_keys_have_overtaken_leaves_it_to_the_script)
{
    invalidate(false, 60000);
    for (int round = 0; round < 3; round++) {
        meets_moving_keys(false);
        meets_moving_keys(false);
        meets_moving_keys(true);
    }
    reply_code(expect(CORE_INVALIDATE), 1);
    assert_int_equal(bench.invalidated, 1);
}

TEST(a_deletion_that_redis_refuses_leaves_it_to_the_script_and_one_without_answer_is_repeated)
{
    invalidate(false, 60000);
    meets_moving_keys(false);
    meets_moving_keys(false);
    for (int attempt = 0; attempt < 2; attempt++) {
        struct seen *deletes = expect(CORE_INVALIDATE);
        assert_true(deletes->action.by_delete);
        reply_kind(deletes, attempt == 0 ? REPLY_UNKNOWN : REPLY_REFUSED);
        pass_to_next();
    }
    struct seen *script = expect(CORE_INVALIDATE);
    assert_false(script->action.by_delete);
    reply_code(script, 1);
}

TEST(an_invalidation_of_a_moving_tag_is_repeated_and_unknown_at_its_deadline)
{
    invalidate(true, 2000);
    while (bench.invalidated == 0) {
        struct seen *seen = next_seen();
        if (seen == NULL) {
            pass_to_next();
            continue;
        }
        assert_true(seen->action.of_tag && !seen->action.by_delete);
        reply_kind(seen, REPLY_MOVING);
    }
    assert_int_equal(invalidation.result.status, GUARD_UNKNOWN);
    assert_int_equal(stats_of().invalidate_unknown, 1);
    assert_in_range(stats_of().moving, 4, 100);
}

/* ---- the breaker ---- */

TEST(nor_do_they_excuse_commands_without_answer)
{
    for (unsigned i = 0; i < BREAKER_TRIP; i++) {
        core_replied(bench.core, bench.now_us, 1, &(struct core_reply){.kind = REPLY_UNKNOWN});
        if (i + 1 < BREAKER_TRIP) {
            reply_kind(lookup_of("k", &caller), REPLY_MOVING);
            loaded_for(expect(CORE_LOAD), "v1", &caller, GUARD_FROM_LOAD);
        }
    }
    assert_true(stats_of().breaker_open);
}

TEST(a_probe_that_meets_moving_keys_makes_way_for_another_one)
{
    static struct caller callers[3];
    for (unsigned i = 0; i < BREAKER_TRIP; i++)
        core_replied(bench.core, bench.now_us, 1, &(struct core_reply){.kind = REPLY_UNKNOWN});
    assert_true(stats_of().breaker_open);
    bench.now_us += (uint64_t)BREAKER_MAX_PAUSE_MS * BENCH_MS;
    struct seen *probe = lookup_of("moving", &callers[0]);
    get("other", &callers[1]);
    expect(CORE_LOAD); /* one at a time */
    reply_kind(probe, REPLY_MOVING);
    expect(CORE_LOAD);
    assert_true(stats_of().breaker_open);
    reply_fresh_for(lookup_of("third", &callers[2]), "v1", &callers[2], GUARD_FROM_CACHE);
    assert_false(stats_of().breaker_open);
}

TEST_GROUP(.before = bench_up, .end = bench_close);
