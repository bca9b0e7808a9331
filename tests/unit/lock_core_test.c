/* SPDX-License-Identifier: MIT */
/* lock_core_test.c - one request, one name: asked for, held, renewed, lost, given back. Rules L1 to L6, L9, L11, L13
 * of lock_core.h. */
#include "lock_bench.h"

/* What is valid of a lease: less 1 % and 2 ms. */
enum { VALID_MS = BENCH_LEASE_MS - BENCH_LEASE_MS / 100 - 2, THIRD_MS = BENCH_LEASE_MS / 3 };

static struct caller caller, a, b;

/* ---- asking ---- */

TEST(a_free_name_is_granted_with_its_fencing_number)
{
    struct seen *take = take_of(&caller, "a");
    assert_string_equal(take->names[0], "a");
    assert_int_equal(take->action.place_ms, 3000);
    grant(take, 41);
    holds(&caller);
    assert_int_equal(caller.request.result.fence[0], 41);
    assert_int_equal(stats_of().granted, 1);
    assert_int_equal(stats_of().held, 1);
    give_back(&caller);
    assert_int_equal(stats_of().held, 0);
    sent_nothing();
}

static void asks_for(enum guard_lock_kind kind, uint32_t units, uint32_t limit, bool overtakes)
{
    prepare(&caller, NAMES("a"));
    caller.request.kind = kind;
    caller.request.units = 2;
    caller.request.limit = 5;
    ask(&caller);
    struct seen *take = expect(LOCK_TAKE);
    assert_int_equal(take->action.lock, kind);
    assert_int_equal(take->action.units, units);
    assert_int_equal(take->action.limit, limit);
    assert_int_equal(take->action.overtakes, overtakes);
    char numbers[40];
    snprintf(numbers, sizeof numbers, " %07u %07u %08u ", (unsigned)units, (unsigned)limit, BENCH_LEASE_MS);
    assert_memory_equal(take->token + LOCK_UUID_BYTES, numbers, strlen(numbers));
    grant(take, 1);
    answered(&caller, GUARD_LOCK_OK);
    if (kind != GUARD_LOCK_LATCH)
        give_back(&caller);
}

TEST(all_kinds_of_a_name_count_in_the_same_units_and_a_token_carries_them_and_its_lease, P114)
{
    asks_for(GUARD_LOCK_FAIR, LOCK_ALL, LOCK_ALL, false);
    asks_for(GUARD_LOCK_WRITE, LOCK_ALL, LOCK_ALL, false);
    asks_for(GUARD_LOCK_MUTEX, LOCK_ALL, LOCK_ALL, true);
    asks_for(GUARD_LOCK_READ, 1, LOCK_ALL, false);
    asks_for(GUARD_LOCK_PERMITS, 2, 5, false);
    asks_for(GUARD_LOCK_LATCH, 2, 5, false);
}

TEST(permits_are_renewed_lost_and_given_back_like_any_other_hold, P116)
{
    ask_as(&caller, "a", GUARD_LOCK_PERMITS, NULL);
    grant(expect(LOCK_TAKE), 1);
    renew(LOCK_DONE);
    renew(LOCK_NOT_HELD);
    is_lost(&caller);
    assert_int_equal(stats_of().lost, 1);
    pass(BENCH_LEASE_MS);
    sent_nothing();
    give_at_once(&caller, GUARD_LOCK_LOST);
    sent_nothing();
}

TEST(a_kind_that_the_provider_does_not_have_is_invalid)
{
    bench.config.kinds = 1u << GUARD_LOCK_MUTEX;
    bench_open();
    ask_as(&caller, "a", GUARD_LOCK_READ, NULL);
    assert_int_equal(caller.accepted, GUARD_LOCK_INVALID);
    assert_non_null(caller.why);
    sent_nothing();
}

TEST(beyond_max_requests_that_wait_the_next_is_shed)
{
    static struct caller first, second, third;
    bench.config.max_requests = 1;
    bench_open();
    ask_for(&first, "a");
    ask_for(&second, "b");
    assert_int_equal(second.accepted, GUARD_LOCK_SHED);
    assert_int_equal(stats_of().shed, 1);
    grant(expect(LOCK_TAKE), 1);
    ask_for(&third, "c");
    assert_int_equal(third.accepted, GUARD_LOCK_OK);
}

TEST(what_the_provider_cannot_do_is_invalid_and_says_why)
{
    reply(take_of(&caller, "a"),
          (struct lock_reply){.kind = LOCK_IMPOSSIBLE, .why = "advisory locks need a direct connection"});
    answered(&caller, GUARD_LOCK_INVALID);
    assert_string_equal(caller.request.result.why, "advisory locks need a direct connection");
    sent_nothing();
}

/* ---- L1: a reply that is lost ---- */

TEST(a_take_without_an_answer_is_sent_again_with_the_same_token, P107)
{
    struct seen *take = take_of(&caller, "a");
    reply_kind(take, LOCK_UNANSWERED);
    still_waits(&caller);
    assert_in_range(pass_to_next(), 10, 30);
    struct seen *again = expect(LOCK_TAKE);
    assert_string_equal(again->token, take->token);
    reply_kind(again, LOCK_UNANSWERED);
    assert_in_range(pass_to_next(), 20, 60);
    struct seen *third = expect(LOCK_TAKE);
    assert_string_equal(third->token, take->token);
    grant(third, 9);
    holds(&caller);
}

TEST(a_place_outlasts_the_pauses_after_takes_without_an_answer)
{
    bench.config.place_ms = 600;
    bench_open();
    ask_for(&caller, "a");
    for (unsigned i = 0; i < 20; i++) {
        reply_kind(expect(LOCK_TAKE), LOCK_UNANSWERED);
        assert_in_range(pass_to_next(), 1, 150);
    }
    grant(expect(LOCK_TAKE), 7);
}

TEST(a_refusal_makes_the_pauses_after_takes_without_an_answer_begin_anew)
{
    ask_for(&caller, "a");
    for (unsigned i = 0; i < 5; i++) {
        reply_kind(expect(LOCK_TAKE), LOCK_UNANSWERED);
        pass_to_next();
    }
    refuse(expect(LOCK_TAKE), 0, 0);
    pass_to_next();
    reply_kind(expect(LOCK_TAKE), LOCK_UNANSWERED);
    assert_in_range(pass_to_next(), 9, 30);
    grant(expect(LOCK_TAKE), 7);
}

TEST(a_give_says_that_a_take_is_in_doubt_even_if_a_later_one_was_answered, P107)
{
    reply_kind(take_of(&caller, "a"), LOCK_UNANSWERED);
    pass_to_next();
    grant(expect(LOCK_TAKE), 9);
    give(&caller);
    assert_true(expect(LOCK_GIVE)->action.doubt);
}

TEST(a_give_of_what_was_answered_is_not_in_doubt)
{
    hold_name(&caller, "a");
    give(&caller);
    assert_false(expect(LOCK_GIVE)->action.doubt);
}

TEST(a_take_that_never_ran_leaves_no_doubt_and_nothing_to_give_back)
{
    reply_kind(take_of(&caller, "a"), LOCK_UNSENT);
    cancel(&caller);
    answered(&caller, GUARD_LOCK_CANCELLED);
    at_rest();
}

TEST(a_give_while_its_take_is_under_way_is_in_doubt)
{
    struct seen *take = take_of(&caller, "a");
    cancel(&caller);
    answered(&caller, GUARD_LOCK_CANCELLED);
    struct seen *give_of = expect(LOCK_GIVE);
    assert_true(give_of->action.doubt);
    assert_string_equal(give_of->token, take->token);
    grant(take, 1);
    reply_kind(give_of, LOCK_DONE);
    at_rest();
}

TEST(a_take_that_is_granted_after_its_give_was_answered_is_given_back_again)
{
    struct seen *take = take_of(&caller, "a");
    cancel(&caller);
    reply_kind(expect(LOCK_GIVE), LOCK_NOT_HELD);
    assert_false(lock_core_idle(bench.core));
    grant(take, 1);
    reply_kind(expect(LOCK_GIVE), LOCK_DONE);
    assert_true(lock_core_idle(bench.core));
}

TEST(a_token_that_was_given_back_makes_way_for_another)
{
    struct seen *take = take_of(&caller, "a");
    reply_kind(take, LOCK_GONE);
    struct seen *again = expect(LOCK_TAKE);
    assert_string_not_equal(again->token, take->token);
    grant(again, 2);
    holds(&caller);
}

TEST(a_request_that_is_cancelled_before_its_take_is_fetched_sends_nothing)
{
    prepare(&caller, NAMES("a"));
    caller.accepted = lock_core_ask(bench.core, bench.now_us, &caller.request, &caller.why);
    bench.accepted_count++;
    lock_core_cancel(bench.core, bench.now_us, &caller.request);
    drain();
    answered(&caller, GUARD_LOCK_CANCELLED);
    at_rest();
}

/* ---- L2: validity ---- */

TEST(validity_counts_from_the_sending_not_from_the_reply, P108)
{
    ask_for(&caller, "a");
    uint64_t sent_us = bench.now_us;
    stand_still(200);
    grant(expect(LOCK_TAKE), 1);
    assert_true(caller.hold.valid_until_us == sent_us + VALID_MS * (uint64_t)BENCH_MS);
}

TEST(a_provider_may_say_how_long_a_grant_is_valid)
{
    ask_for(&caller, "a");
    uint64_t sent_us = bench.now_us;
    reply(expect(LOCK_TAKE), (struct lock_reply){.kind = LOCK_GRANTED, .fence = {1}, .valid_ms = 1500});
    assert_true(caller.hold.valid_until_us == sent_us + 1500 * BENCH_MS);
    assert_int_equal(pass_to_next(), 500);
    reply(expect(LOCK_RENEW), (struct lock_reply){.kind = LOCK_DONE, .valid_ms = 1500});
    assert_true(caller.hold.valid_until_us == sent_us + 2000 * BENCH_MS);
}

TEST(a_grant_that_comes_too_late_is_given_back_and_asked_for_anew, P108)
{
    struct seen *take = take_of(&caller, "a");
    stand_still(VALID_MS);
    grant(take, 1);
    still_waits(&caller);
    struct seen *give_of = expect(LOCK_GIVE);
    assert_string_equal(give_of->token, take->token);
    struct seen *anew = expect(LOCK_TAKE);
    assert_string_not_equal(anew->token, take->token);
    reply_kind(give_of, LOCK_DONE);
    grant(anew, 2);
    holds(&caller);
    assert_int_equal(caller.request.result.fence[0], 2);
}

/* ---- L3: renewal ---- */

TEST(a_hold_is_renewed_at_a_third_of_its_lease, P109)
{
    struct seen *take = hold_name(&caller, "a");
    for (int i = 0; i < 10; i++) {
        assert_int_equal(pass_to_next(), THIRD_MS);
        struct seen *renew = expect(LOCK_RENEW);
        assert_string_equal(renew->token, take->token);
        reply_kind(renew, LOCK_DONE);
        holds(&caller);
    }
    assert_int_equal(stats_of().renewals, 10);
    sent_nothing();
}

TEST(a_renewal_without_an_answer_is_sent_again_after_a_twelfth_and_loses_nothing, P109)
{
    hold_name(&caller, "a");
    renew(LOCK_UNANSWERED);
    assert_int_equal(pass_to_next(), BENCH_LEASE_MS / 12);
    reply_kind(expect(LOCK_RENEW), LOCK_UNSENT);
    assert_int_equal(pass_to_next(), BENCH_LEASE_MS / 12);
    reply_kind(expect(LOCK_RENEW), LOCK_DONE);
    holds(&caller);
    assert_int_equal(pass_to_next(), THIRD_MS);
    assert_int_equal(stats_of().renewals_unanswered, 2);
}

/* The warning of what was confirmed before is over, that of what is being confirmed is not. */
static void stand_still_past_the_warning(void)
{
    stand_still(VALID_MS * 9 / 10 - THIRD_MS);
}

TEST(renewals_that_are_read_after_the_process_stood_still_lose_nothing, P108, P109)
{
    hold_name(&a, "a");
    hold_name(&b, "b");
    pass(THIRD_MS);
    uint64_t sent_us = bench.now_us;
    struct seen *renew_a = expect(LOCK_RENEW), *renew_b = expect(LOCK_RENEW);
    stand_still_past_the_warning();
    reply_kind(renew_a, LOCK_DONE);
    reply_kind(renew_b, LOCK_DONE);
    tick();
    holds(&a);
    holds(&b);
    assert_true(b.hold.valid_until_us == sent_us + VALID_MS * (uint64_t)BENCH_MS);
}

TEST(what_is_heard_before_a_renewal_that_is_read_late_loses_nothing)
{
    static struct caller other;
    struct seen *take = hold_name(&caller, "a");
    wait_for(&other, "b", 1);
    pass(THIRD_MS - 1);
    bench.seen_first = bench.seen_count;
    pass(1);
    struct seen *renew = expect(LOCK_RENEW);
    stand_still_past_the_warning();
    told(take);
    told_all("b");
    resync();
    link_up();
    cancel(&other);
    assert_int_equal(caller.losses, 0);
    reply_kind(renew, LOCK_DONE);
    tick();
    holds(&caller);
}

TEST(a_renewal_that_is_read_after_its_own_validity_revives_nothing, P109)
{
    hold_name(&caller, "a");
    pass(THIRD_MS);
    stand_still(VALID_MS);
    reply_kind(expect(LOCK_RENEW), LOCK_DONE);
    is_lost(&caller);
    assert_true(caller.hold.valid_until_us <= bench.now_us);
}

TEST(two_holds_that_are_dropped_in_one_turn_are_lost_for_their_own_reasons)
{
    static struct caller one, two;
    struct seen *first = hold_name(&one, "a"), *second = hold_name(&two, "b");
    lock_core_dropped(bench.core, bench.now_us, first->token, "its session is over");
    lock_core_dropped(bench.core, bench.now_us, second->token, "its node is gone");
    drain();
    is_lost(&one);
    is_lost(&two);
    assert_string_equal(one.hold.why, "its session is over");
    assert_string_equal(two.hold.why, "its node is gone");
    dropped(first);
}

TEST(a_hold_with_hold_ms_is_not_renewed_beyond_that)
{
    prepare(&caller, NAMES("a"));
    caller.request.hold_ms = THIRD_MS + 10;
    ask(&caller);
    grant(expect(LOCK_TAKE), 1);
    renew(LOCK_DONE);
    pass(VALID_MS - VALID_MS / 6 - 2);
    sent_nothing();
    assert_int_equal(caller.losses, 0);
    pass(2);
    is_lost(&caller);
    assert_string_equal(caller.hold.why, "its hold_ms is over");
}

/* ---- L4, L5: giving back ---- */

TEST(nothing_renews_a_hold_that_is_being_given_back, P110)
{
    struct seen *renew = hold_to_renewal(&caller);
    give(&caller);
    struct seen *give_of = expect(LOCK_GIVE);
    reply_kind(renew, LOCK_UNANSWERED);
    pass(100);
    reply_kind(give_of, LOCK_DONE);
    was_given(&caller, GUARD_LOCK_OK);
    pass(2 * BENCH_LEASE_MS);
    sent_nothing();
}

TEST(a_renewal_that_was_not_fetched_is_withdrawn_by_the_give)
{
    hold_name(&caller, "a");
    stand_still(THIRD_MS);
    lock_core_tick(bench.core, bench.now_us);
    give(&caller);
    reply_kind(expect(LOCK_GIVE), LOCK_DONE);
    at_rest();
}

TEST(a_renewal_that_was_not_fetched_is_withdrawn_when_the_hold_is_lost)
{
    struct seen *take = hold_name(&caller, "a");
    stand_still(BENCH_LEASE_MS / 3);
    lock_core_tick(bench.core, bench.now_us);
    dropped(take);
    is_lost(&caller);
    sent_nothing();
}

TEST(every_action_names_the_token_of_its_own_claim, P110)
{
    struct seen *take_a = hold_name(&a, "a"), *take_b = hold_name(&b, "a");
    assert_string_not_equal(take_a->token, take_b->token);
    give(&a);
    assert_string_equal(expect(LOCK_GIVE)->token, take_a->token);
    pass(THIRD_MS);
    assert_string_equal(expect(LOCK_RENEW)->token, take_b->token);
}

TEST(a_give_is_repeated_until_it_is_answered)
{
    struct seen *take = hold_name(&caller, "a");
    give(&caller);
    reply_kind(expect(LOCK_GIVE), LOCK_UNANSWERED);
    assert_in_range(pass_to_next(), 25, 75);
    struct seen *again = expect(LOCK_GIVE);
    assert_string_equal(again->token, take->token);
    assert_int_equal(caller.givings, 0);
    reply_kind(again, LOCK_DONE);
    was_given(&caller, GUARD_LOCK_OK);
    sent_nothing();
}

TEST(a_give_that_may_have_run_before_is_not_known_to_have_found_its_hold)
{
    hold_name(&caller, "a");
    give(&caller);
    reply_kind(expect(LOCK_GIVE), LOCK_UNANSWERED);
    pass_to_next();
    reply_kind(expect(LOCK_GIVE), LOCK_NOT_HELD);
    was_given(&caller, GUARD_LOCK_UNKNOWN);
}

TEST(a_give_without_an_answer_is_told_as_unknown_after_twice_the_limit_and_repeated_on)
{
    hold_name(&caller, "a");
    give(&caller);
    expect(LOCK_GIVE);
    pass(2 * 250 - 1);
    assert_int_equal(caller.givings, 0);
    pass(1);
    was_given(&caller, GUARD_LOCK_UNKNOWN);
    reply_kind(&bench.seen[1], LOCK_UNANSWERED);
    pass_to_next();
    reply_kind(expect(LOCK_GIVE), LOCK_DONE);
    assert_true(lock_core_idle(bench.core));
}

TEST(a_give_is_not_repeated_once_its_lease_is_over)
{
    hold_name(&caller, "a");
    give(&caller);
    uint64_t given_us = bench.now_us;
    for (struct seen *seen = next_seen(); seen != NULL; seen = next_seen()) {
        assert_int_equal(seen->action.kind, LOCK_GIVE);
        reply_kind(seen, LOCK_UNANSWERED);
        pass_to_next();
        while (bench.seen_first == bench.seen_count && !lock_core_idle(bench.core))
            pass_to_next();
    }
    assert_true(lock_core_idle(bench.core));
    assert_true(bench.now_us == given_us + BENCH_LEASE_MS * (uint64_t)BENCH_MS);
}

TEST(a_give_is_repeated_for_the_lease_of_a_renewal_that_was_answered_after_it)
{
    enum { LATE_MS = 100 };
    struct seen *renewal = hold_to_renewal(&caller);
    give(&caller);
    uint64_t given_us = bench.now_us;
    struct seen *seen = expect(LOCK_GIVE);
    pass(LATE_MS);
    reply_kind(renewal, LOCK_DONE);
    for (; seen != NULL; seen = next_seen()) {
        assert_int_equal(seen->action.kind, LOCK_GIVE);
        reply_kind(seen, LOCK_UNANSWERED);
        while (bench.seen_first == bench.seen_count && !lock_core_idle(bench.core))
            pass_to_next();
    }
    assert_true(bench.now_us == given_us + (BENCH_LEASE_MS + LATE_MS) * (uint64_t)BENCH_MS);
}

TEST(a_hold_whose_validity_is_over_when_it_is_given_back_is_lost_even_if_the_provider_still_had_it)
{
    hold_name(&caller, "a");
    stand_still(VALID_MS);
    give(&caller);
    assert_int_equal(caller.losses, 0);
    reply_kind(expect(LOCK_GIVE), LOCK_DONE);
    was_given(&caller, GUARD_LOCK_LOST);
}

/* Its thread stood still between the two. */
TEST(a_hold_that_is_given_back_in_time_is_not_lost_because_the_core_hears_of_it_late, P108)
{
    static struct caller late, too_late;
    hold_name(&late, "a");
    hold_name(&too_late, "b");
    late.hold.given_us = late.hold.valid_until_us - 1;
    too_late.hold.given_us = too_late.hold.valid_until_us;
    stand_still(VALID_MS + 1);
    give(&late);
    give(&too_late);
    tick();
    reply_kind(expect(LOCK_GIVE), LOCK_DONE);
    was_given(&late, GUARD_LOCK_OK);
    reply_kind(expect(LOCK_GIVE), LOCK_DONE);
    was_given(&too_late, GUARD_LOCK_LOST);
}

/* Nobody asks the provider any more what it had by then. */
TEST(a_hold_that_was_given_back_in_time_and_lost_before_that_was_heard_of_is_unknown)
{
    static const enum lock_reply_kind kinds[] = {LOCK_DONE, LOCK_UNANSWERED, LOCK_NOT_HELD};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct seen *renewal = hold_to_renewal(&caller);
        caller.hold.given_us = bench.now_us;
        stand_still(BENCH_LEASE_MS);
        reply_kind(renewal, kinds[i]);
        give(&caller);
        while (bench.seen_first < bench.seen_count)
            reply_kind(next_seen(), LOCK_DONE);
        was_given(&caller, kinds[i] == LOCK_NOT_HELD ? GUARD_LOCK_LOST : GUARD_LOCK_UNKNOWN);
    }
}

/* ---- L6: lost ---- */

TEST(lost_is_told_a_sixth_before_the_validity_ends, P111)
{
    hold_name(&caller, "a");
    uint64_t warn_us = caller.hold.valid_until_us - VALID_MS * (uint64_t)BENCH_MS / 6;
    pass(THIRD_MS);
    expect(LOCK_RENEW);
    pass_us(warn_us - 1 - bench.now_us);
    assert_int_equal(caller.losses, 0);
    pass_us(1);
    is_lost(&caller);
    assert_true(caller.hold.valid_until_us > bench.now_us); /* the time to stop in */
}

TEST(lost_is_told_warn_ms_before_the_validity_ends)
{
    bench.config.warn_ms = 1234;
    bench_open();
    hold_to_renewal(&caller);
    pass(VALID_MS - THIRD_MS - 1235);
    assert_int_equal(caller.losses, 0);
    pass(1);
    is_lost(&caller);
}

TEST(lost_is_told_once_and_a_renewal_that_is_answered_after_it_changes_nothing)
{
    struct seen *renew = hold_to_renewal(&caller);
    pass(VALID_MS - THIRD_MS - VALID_MS / 6);
    is_lost(&caller);
    reply_kind(renew, LOCK_DONE);
    pass(3 * BENCH_LEASE_MS);
    is_lost(&caller);
}

TEST(a_hold_that_is_given_back_in_time_after_lost_was_told_was_held_all_along)
{
    hold_to_renewal(&caller);
    pass(VALID_MS - THIRD_MS - 100);
    is_lost(&caller);
    give_answered(&caller, LOCK_DONE, GUARD_LOCK_OK);
}

TEST(a_lost_hold_is_given_back_at_the_provider_when_its_validity_ends_though_it_is_still_out)
{
    struct seen *take = hold_name(&caller, "a");
    renew(LOCK_UNANSWERED);
    while (caller.losses == 0) {
        pass_to_next();
        if (caller.losses == 0)
            reply_kind(expect(LOCK_RENEW), LOCK_UNANSWERED);
    }
    pass_to_next();
    struct seen *give_of = expect(LOCK_GIVE);
    assert_string_equal(give_of->token, take->token);
    reply_kind(give_of, LOCK_DONE);
    assert_true(lock_core_idle(bench.core));
    give_at_once(&caller, GUARD_LOCK_LOST);
}

TEST(a_loss_that_was_not_fetched_when_the_hold_is_given_back_is_not_told)
{
    hold_name(&caller, "a");
    stand_still(VALID_MS);
    lock_core_tick(bench.core, bench.now_us);
    lock_core_give(bench.core, bench.now_us, &caller.hold);
    bench.given_count++;
    drain();
    assert_int_equal(caller.losses, 0);
    was_given(&caller, GUARD_LOCK_LOST);
}

TEST(a_process_that_was_stopped_past_its_lease_hears_of_it_at_once)
{
    hold_name(&caller, "a");
    stand_still(5 * BENCH_LEASE_MS);
    tick();
    is_lost(&caller);
    reply_kind(expect(LOCK_GIVE), LOCK_NOT_HELD);
    give_at_once(&caller, GUARD_LOCK_LOST);
}

TEST_GROUP(.before = bench_up, .after = bench_close);
