/* SPDX-License-Identifier: MIT */
/* lock_names_test.c - several names, at once or in one order; asking once; latches. Rule L12 of lock_core.h. */
#include "lock_bench.h"

static struct caller a, b;

static bool up_in_order(void)
{
    bench_up();
    bench.config.all_at_once = false;
    bench_open();
    return true;
}

/* ---- at once ---- */

TEST(several_names_are_taken_by_one_action_with_a_number_for_each_in_the_order_of_the_request)
{
    ask_for_names(&a, NAMES("x", "b", "ba"), NULL);
    struct seen *take = expect(LOCK_TAKE);
    assert_int_equal(take->action.count, 3);
    struct lock_reply granted = {.kind = LOCK_GRANTED};
    for (size_t i = 0; i < 3; i++)
        granted.fence[i] = strcmp(take->names[i], "x") == 0 ? 10 : strcmp(take->names[i], "b") == 0 ? 11 : 12;
    reply(take, granted);
    holds(&a);
    assert_int_equal(a.request.result.fence[0], 10);
    assert_int_equal(a.request.result.fence[1], 11);
    assert_int_equal(a.request.result.fence[2], 12);
    pass(BENCH_LEASE_MS / 3);
    struct seen *renew = expect(LOCK_RENEW);
    assert_int_equal(renew->action.count, 3);
    reply_kind(renew, LOCK_DONE);
    give_back(&a);
    sent_nothing();
}

TEST(a_hold_that_has_lost_one_name_protects_the_others_until_it_is_given_back)
{
    ask_for_names(&a, NAMES("a", "b"), NULL);
    grant(expect(LOCK_TAKE), 1);
    renew(LOCK_NOT_HELD);
    is_lost(&a);
    pass(1000);
    sent_nothing();
    give_answered(&a, LOCK_NOT_HELD, GUARD_LOCK_LOST);
}

TEST_GROUP(.before = bench_up, .after = bench_close);

/* ---- in one order ---- */

TEST(names_are_taken_in_the_order_of_their_bytes, P117)
{
    ask_for_names(&a, NAMES("x", "ba", "b"), NULL);
    static const char *const order[] = {"b", "ba", "x"};
    for (unsigned i = 0; i < 3; i++) {
        struct seen *take = expect(LOCK_TAKE);
        assert_int_equal(take->action.count, 1);
        assert_string_equal(take->names[0], order[i]);
        sent_nothing();
        still_waits(&a);
        grant(take, 10 + i);
    }
    holds(&a);
    assert_int_equal(a.request.result.fence[0], 12);
    assert_int_equal(a.request.result.fence[1], 11);
    assert_int_equal(a.request.result.fence[2], 10);
}

TEST(what_is_held_already_is_renewed_while_the_next_is_waited_for)
{
    ask_for_names(&a, NAMES("a", "b"), NULL);
    grant(expect(LOCK_TAKE), 1);
    refuse(expect(LOCK_TAKE), 1, 0);
    unsigned renewals = 0;
    uint64_t until_us = bench.now_us + 3 * BENCH_LEASE_MS * (uint64_t)BENCH_MS;
    while (bench.now_us < until_us) {
        pass_to_next();
        for (struct seen *seen = next_seen(); seen != NULL; seen = next_seen()) {
            renewals += seen->action.kind == LOCK_RENEW;
            reply_kind(seen, LOCK_DONE);
        }
    }
    still_waits(&a);
    assert_in_range(renewals, 8, 10);
}

TEST(a_request_that_gives_up_gives_back_what_it_has_in_reverse, P117)
{
    prepare(&a, NAMES("a", "b", "c"));
    a.request.deadline_us = bench.now_us + 100 * BENCH_MS;
    ask(&a);
    grant(expect(LOCK_TAKE), 1);
    grant(expect(LOCK_TAKE), 2);
    refuse(expect(LOCK_TAKE), 1, 0);
    pass(100);
    answered(&a, GUARD_LOCK_BUSY);
    assert_string_equal(expect(LOCK_GIVE)->names[0], "c");
    assert_string_equal(expect(LOCK_GIVE)->names[0], "b");
    assert_string_equal(expect(LOCK_GIVE)->names[0], "a");
    sent_nothing();
}

TEST(a_hold_of_which_one_name_is_lost_is_lost_whatever_is_not_known_of_another)
{
    ask_for_names(&a, NAMES("a", "b"), NULL);
    grant(expect(LOCK_TAKE), 1);
    grant(expect(LOCK_TAKE), 2);
    give(&a);
    struct seen *of_b = expect(LOCK_GIVE), *of_a = expect(LOCK_GIVE);
    reply_kind(of_b, LOCK_UNANSWERED);
    pass(200);
    reply_kind(expect(LOCK_GIVE), LOCK_NOT_HELD);
    assert_int_equal(a.givings, 0);
    reply_kind(of_a, LOCK_NOT_HELD);
    was_given(&a, GUARD_LOCK_LOST);
}

TEST(a_request_that_loses_an_earlier_name_begins_again)
{
    ask_for_names(&a, NAMES("a", "b"), NULL);
    struct seen *first = expect(LOCK_TAKE);
    grant(first, 1);
    struct seen *second = expect(LOCK_TAKE);
    refuse(second, 1, 0);
    dropped(first);
    assert_int_equal(a.losses, 0);
    still_waits(&a);
    assert_string_equal(expect(LOCK_GIVE)->token, second->token);
    struct seen *anew = expect(LOCK_TAKE);
    assert_string_equal(anew->names[0], "a");
    assert_string_not_equal(anew->token, first->token);
    grant(anew, 3);
    struct seen *last = expect(LOCK_TAKE);
    assert_string_equal(last->names[0], "b");
    grant(last, 4);
    holds(&a);
}

TEST(a_hold_is_lost_with_any_of_its_names_and_valid_as_long_as_the_first_that_ends)
{
    ask_for_names(&a, NAMES("a", "b"), NULL);
    struct seen *first = expect(LOCK_TAKE);
    grant(first, 1);
    uint64_t valid_us = lock_core_next_us(bench.core);
    pass(1000);
    grant(expect(LOCK_TAKE), 2);
    holds(&a);
    assert_true(valid_us < a.hold.valid_until_us);
    assert_true(a.hold.valid_until_us < bench.now_us + (BENCH_LEASE_MS - 1000) * (uint64_t)BENCH_MS);
    dropped(first);
    is_lost(&a);
    give_answered(&a, LOCK_DONE, GUARD_LOCK_LOST);
}

TEST(a_request_for_names_that_its_owner_asks_for_keeps_what_it_has_and_queues_behind)
{
    struct lock_owner *owner = lock_core_owner_new(bench.core);
    ask_as(&a, "b", GUARD_LOCK_FAIR, owner);
    struct seen *of_b = expect(LOCK_TAKE);
    ask_for_names(&b, NAMES("a", "b"), owner);
    grant(expect(LOCK_TAKE), 1);
    sent_nothing();
    still_waits(&b);
    grant(of_b, 2);
    holds(&a);
    holds(&b);
    assert_int_equal(b.request.result.fence[0], 1);
    assert_int_equal(b.request.result.fence[1], 2);
}

TEST_GROUP(.before = up_in_order, .after = bench_close);

/* ---- asking once ---- */

TEST(one_that_asks_once_wants_no_place_and_is_busy_when_refused)
{
    ask_once(&a, "a", NULL);
    struct seen *take = expect(LOCK_TAKE);
    assert_int_equal(take->action.place_ms, 0);
    refuse(take, 3, 100);
    answered(&a, GUARD_LOCK_BUSY);
    assert_int_equal(a.request.result.before, 3);
    at_rest();
}

TEST(one_that_asks_once_is_unreachable_after_once_ms_without_an_answer)
{
    ask_once(&a, "a", NULL);
    reply(expect(LOCK_TAKE), (struct lock_reply){.kind = LOCK_UNANSWERED, .why = "no answer within 250 ms"});
    pass_to_next();
    expect(LOCK_TAKE);
    pass(1000);
    answered(&a, GUARD_LOCK_UNREACHABLE);
    assert_string_equal(a.request.result.why, "no answer within 250 ms");
    assert_true(expect(LOCK_GIVE)->action.doubt);
}

/* ---- latches ---- */

static void come_to_latch(struct caller *caller, uint32_t units, bool once)
{
    prepare(caller, NAMES("l"));
    caller->request.kind = GUARD_LOCK_LATCH;
    caller->request.units = units;
    caller->request.limit = 4;
    caller->request.once = once;
    ask(caller);
}

TEST(a_party_of_a_latch_says_again_that_it_is_there_by_a_third_of_its_lease)
{
    prepare(&a, NAMES("l"));
    a.request.kind = GUARD_LOCK_LATCH;
    a.request.lease_ms = 1500;
    ask(&a);
    struct seen *take = expect(LOCK_TAKE);
    refuse(take, 2, 0);
    assert_int_equal(pass_to_next(), 500);
    struct seen *again = expect(LOCK_TAKE);
    assert_string_equal(again->token, take->token);
    reply_kind(again, LOCK_GRANTED);
    answered(&a, GUARD_LOCK_OK);
}

TEST(one_that_only_looks_at_a_latch_leaves_nothing_even_while_it_asks)
{
    come_to_latch(&a, 0, false);
    struct seen *take = expect(LOCK_TAKE);
    cancel(&a);
    sent_nothing();
    reply_kind(take, LOCK_GRANTED);
    at_rest();
}

TEST(a_latch_that_is_not_open_is_busy_for_one_that_asks_once_and_says_how_many_are_missing)
{
    come_to_latch(&a, 1, true);
    refuse(expect(LOCK_TAKE), 3, 0);
    answered(&a, GUARD_LOCK_BUSY);
    assert_int_equal(a.request.result.before, 3);
    expect(LOCK_GIVE);
}

TEST_GROUP(.before = bench_up, .after = bench_close);
