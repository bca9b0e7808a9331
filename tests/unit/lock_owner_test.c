/* SPDX-License-Identifier: MIT */
/* lock_owner_test.c - re-entrance: what an owner's requests share. Rule L10 of lock_core.h. */
#include "lock_bench.h"

static struct lock_owner *owner;
static struct caller a, b, c;

static bool up(void)
{
    bench_up();
    owner = lock_core_owner_new(bench.core);
    return owner != NULL;
}

static void free_owner(void)
{
    lock_core_owner_free(bench.core, bench.now_us, &owner);
    drain();
    assert_null(owner);
}

static struct seen *hold_as(struct caller *caller, enum guard_lock_kind kind)
{
    ask_as(caller, "a", kind, owner);
    struct seen *take = expect(LOCK_TAKE);
    grant(take, 7);
    holds(caller);
    return take;
}

/* ---- sharing what is held ---- */

TEST(an_owner_enters_again_what_it_holds_at_once_and_with_the_same_number)
{
    hold_as(&a, GUARD_LOCK_FAIR);
    ask_as(&b, "a", GUARD_LOCK_FAIR, owner);
    holds(&b);
    sent_nothing();
    assert_int_equal(b.request.result.fence[0], 7);
    assert_true(b.hold.valid_until_us == a.hold.valid_until_us);
    assert_int_equal(stats_of().reentered, 1);
    assert_int_equal(stats_of().granted, 1);
}

TEST(the_name_is_free_once_all_are_given_back_in_any_order, P115)
{
    hold_as(&a, GUARD_LOCK_FAIR);
    ask_as(&b, "a", GUARD_LOCK_MUTEX, owner);
    ask_as(&c, "a", GUARD_LOCK_WRITE, owner);
    give_at_once(&a, GUARD_LOCK_OK);
    give_at_once(&c, GUARD_LOCK_OK);
    sent_nothing();
    holds(&b);
    give_back(&b);
    assert_true(lock_core_idle(bench.core));
}

TEST(an_exclusive_request_under_ones_own_read_is_invalid, P115)
{
    hold_as(&a, GUARD_LOCK_READ);
    ask_as(&b, "a", GUARD_LOCK_WRITE, owner);
    assert_int_equal(b.accepted, GUARD_LOCK_INVALID);
    assert_non_null(b.why);
    sent_nothing();
}

TEST(permits_are_never_reentrant)
{
    hold_as(&a, GUARD_LOCK_PERMITS);
    ask_as(&b, "a", GUARD_LOCK_PERMITS, owner);
    still_waits(&b);
    expect(LOCK_TAKE);
}

TEST(a_renewal_that_only_a_hold_wanted_that_was_given_back_is_not_sent)
{
    prepare(&a, NAMES("a"));
    a.request.lock_owner = owner;
    a.request.hold_ms = 1000;
    ask(&a);
    grant(expect(LOCK_TAKE), 7);
    pass(BENCH_LEASE_MS / 2);
    prepare(&b, NAMES("a"));
    b.request.lock_owner = owner;
    assert_int_equal(lock_core_ask(bench.core, bench.now_us, &b.request, &b.why), GUARD_LOCK_OK);
    bench.accepted_count++;
    lock_core_tick(bench.core, bench.now_us);
    lock_core_give(bench.core, bench.now_us, &b.hold);
    bench.given_count++;
    drain();
    was_given(&b, GUARD_LOCK_OK);
    sent_nothing();
}

/* ---- losing ---- */

TEST(all_holds_of_a_claim_that_is_lost_are_lost)
{
    hold_as(&a, GUARD_LOCK_FAIR);
    ask_as(&b, "a", GUARD_LOCK_FAIR, owner);
    renew(LOCK_NOT_HELD);
    is_lost(&a);
    is_lost(&b);
    give_at_once(&a, GUARD_LOCK_LOST);
    give_at_once(&b, GUARD_LOCK_LOST);
    sent_nothing();
}

TEST(an_owner_that_was_stopped_past_its_warning_does_not_enter_again_what_it_is_about_to_lose)
{
    hold_as(&a, GUARD_LOCK_FAIR);
    stand_still(BENCH_LEASE_MS * 9 / 10);
    ask_as(&b, "a", GUARD_LOCK_FAIR, owner);
    is_lost(&a);
    still_waits(&b);
    expect(LOCK_TAKE);
}

TEST(one_of_several_holds_that_is_given_back_after_they_ran_out_is_lost)
{
    hold_as(&a, GUARD_LOCK_FAIR);
    ask_as(&b, "a", GUARD_LOCK_FAIR, owner);
    stand_still(BENCH_LEASE_MS);
    give_at_once(&a, GUARD_LOCK_LOST);
    tick();
    is_lost(&b);
}

/* ---- waiting together ---- */

TEST(the_second_request_of_an_owner_waits_behind_its_first_and_shares_what_that_is_granted)
{
    ask_as(&a, "a", GUARD_LOCK_FAIR, owner);
    struct seen *take = expect(LOCK_TAKE);
    ask_as(&b, "a", GUARD_LOCK_FAIR, owner);
    ask_as(&c, "a", GUARD_LOCK_READ, owner);
    sent_nothing();
    refuse(take, 1, 0);
    still_waits(&b);
    told(take);
    grant(expect(LOCK_TAKE), 7);
    holds(&a);
    holds(&b);
    holds(&c);
    sent_nothing();
    assert_int_equal(stats_of().reentered, 2);
}

TEST(the_first_request_of_an_owner_stays_the_first_when_it_needs_another_token)
{
    ask_as(&a, "a", GUARD_LOCK_READ, owner);
    struct seen *take = expect(LOCK_TAKE);
    ask_as(&b, "a", GUARD_LOCK_WRITE, owner);
    reply_kind(take, LOCK_GONE);
    struct seen *anew = expect(LOCK_TAKE);
    assert_int_equal(anew->action.lock, GUARD_LOCK_READ);
    sent_nothing();
}

TEST(an_exclusive_request_behind_ones_own_read_is_invalid_once_that_is_granted)
{
    ask_as(&a, "a", GUARD_LOCK_READ, owner);
    struct seen *take = expect(LOCK_TAKE);
    ask_as(&b, "a", GUARD_LOCK_WRITE, owner);
    still_waits(&b);
    grant(take, 7);
    holds(&a);
    answered(&b, GUARD_LOCK_INVALID);
    assert_non_null(b.request.result.why);
}

TEST(one_that_asks_once_behind_another_of_its_owner_is_busy_as_that_is)
{
    ask_as(&a, "a", GUARD_LOCK_FAIR, owner);
    struct seen *take = expect(LOCK_TAKE);
    ask_once(&b, "a", owner);
    still_waits(&b);
    refuse(take, 4, 0);
    answered(&b, GUARD_LOCK_BUSY);
    assert_int_equal(b.request.result.before, 4);
    ask_once(&c, "a", owner);
    answered(&c, GUARD_LOCK_BUSY);
    still_waits(&a);
    sent_nothing();
}

TEST(one_that_waits_behind_another_of_its_owner_is_cancelled_alone)
{
    ask_as(&a, "a", GUARD_LOCK_FAIR, owner);
    ask_as(&b, "a", GUARD_LOCK_FAIR, owner);
    cancel(&b);
    answered(&b, GUARD_LOCK_CANCELLED);
    grant(expect(LOCK_TAKE), 1);
    holds(&a);
    sent_nothing();
}

/* Were it quadratic, this would take minutes. */
TEST(ten_thousand_requests_of_one_owner_for_one_name_give_up_one_after_the_other)
{
    enum { ALL = 10000 };
    static struct caller all[ALL];
    for (unsigned i = 0; i < ALL; i++)
        ask_as(&all[i], "a", GUARD_LOCK_FAIR, owner);
    for (unsigned i = 0; i < ALL; i++) {
        cancel(&all[i]);
        expect(LOCK_TAKE)->over = true;
        reply_kind(&bench.seen[bench.seen_first - 1], LOCK_UNSENT);
        reply_kind(expect(LOCK_GIVE), LOCK_NOT_HELD);
    }
    assert_true(lock_core_idle(bench.core));
}

/* ---- several names, some of which the owner has ---- */

TEST(a_request_that_loses_what_it_shares_while_it_waits_asks_for_all_anew)
{
    struct seen *held = hold_as(&a, GUARD_LOCK_FAIR);
    ask_for_names(&b, NAMES("a", "b"), owner);
    struct seen *take = expect(LOCK_TAKE);
    refuse(take, 1, 0);
    dropped(held);
    is_lost(&a);
    still_waits(&b);
    assert_string_equal(expect(LOCK_GIVE)->token, take->token);
    struct seen *anew = expect(LOCK_TAKE);
    assert_int_equal(anew->action.count, 2);
    grant(anew, 30);
    holds(&b);
    give_at_once(&a, GUARD_LOCK_LOST);
}

/* ---- the end of an owner ---- */

TEST(an_owner_that_is_freed_gives_back_what_it_holds_and_cancels_what_it_waits_for)
{
    hold_as(&a, GUARD_LOCK_FAIR);
    ask_as(&b, "b", GUARD_LOCK_FAIR, owner);
    ask_as(&c, "b", GUARD_LOCK_FAIR, owner);
    struct seen *take = expect(LOCK_TAKE);
    free_owner();
    is_lost(&a);
    answered(&b, GUARD_LOCK_CANCELLED);
    answered(&c, GUARD_LOCK_CANCELLED);
    reply_kind(take, LOCK_UNANSWERED);
    assert_string_equal(expect(LOCK_GIVE)->names[0], "b");
    assert_string_equal(expect(LOCK_GIVE)->names[0], "a");
    sent_nothing();
    give_at_once(&a, GUARD_LOCK_LOST);
}

TEST(permits_of_an_owner_that_is_freed_are_given_back_too)
{
    hold_as(&a, GUARD_LOCK_PERMITS);
    ask_as(&b, "b", GUARD_LOCK_LATCH, owner);
    expect(LOCK_TAKE);
    free_owner();
    is_lost(&a);
    answered(&b, GUARD_LOCK_CANCELLED);
    expect(LOCK_GIVE);
    expect(LOCK_GIVE);
}

TEST_GROUP(.before = up, .after = bench_close);
