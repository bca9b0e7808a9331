/* SPDX-License-Identifier: MIT */
/* lock_line_test.c - waiting: hints, polls, places, many on one name, the link. Rules L7 and L8 of lock_core.h. */
#include "lock_bench.h"

enum { PLACE_MS = 3000, MANY = 1000 };

static struct caller crowd[10000];

/* So many wait for "a", behind so many others; their takes are at the front of what was seen. */
static void crowd_waits_behind(unsigned before, unsigned count, uint32_t hint_ms)
{
    for (unsigned i = 0; i < count; i++) {
        refuse(take_of(&crowd[i], "a"), before + i, hint_ms);
    }
}

static void crowd_waits(unsigned count)
{
    crowd_waits_behind(0, count, 0);
}

static struct caller caller, a, b, c;

/* ---- L7: hints ---- */

TEST(a_waiter_that_is_told_asks_at_once_with_the_same_token)
{
    struct seen *take = wait_for(&caller, "a", 3);
    told(take);
    struct seen *again = expect(LOCK_TAKE);
    assert_string_equal(again->token, take->token);
    grant(again, 2);
    holds(&caller);
    assert_int_equal(stats_of().hints, 1);
}

TEST(a_hint_that_overtakes_the_refusal_counts, P112)
{
    struct seen *take = take_of(&caller, "a");
    told(take);
    sent_nothing();
    refuse(take, 1, 0);
    grant(expect(LOCK_TAKE), 2);
    holds(&caller);
}

TEST(a_hint_to_all_makes_those_on_the_name_ask)
{
    wait_for(&a, "a", 0);
    wait_for(&b, "a", 1);
    wait_for(&c, "b", 1);
    told_all("a");
    refuse(expect(LOCK_TAKE), 0, 0);
    refuse(expect(LOCK_TAKE), 1, 0);
    sent_nothing();
}

TEST(a_hint_to_all_of_a_crowd_is_one_stay_that_says_who_should_ask)
{
    crowd_waits(100);
    told_all("a");
    struct seen *first = expect(LOCK_TAKE); /* it is first in line */
    struct seen *stay = expect(LOCK_STAY);
    assert_int_equal(stay->action.token_count, 99);
    sent_nothing();
    refuse(first, 0, 0);
    reply(stay,
          (struct lock_reply){.kind = LOCK_DONE, .ask_now = (const uint32_t[]){4, 70}, .ask_now_count = 2});
    assert_string_equal(expect(LOCK_TAKE)->token, stay->tokens[4]);
    assert_string_equal(expect(LOCK_TAKE)->token, stay->tokens[70]);
    sent_nothing();
}

/* ---- L7: polls ---- */

TEST(the_first_in_line_polls_after_20_ms_and_then_less_and_less_often, P112)
{
    ask_for(&caller, "a");
    for (uint32_t base_ms = 20; base_ms < 1000; base_ms *= 2) {
        uint32_t most_ms = base_ms > 500 ? 500 : base_ms;
        refuse(expect(LOCK_TAKE), 0, 0);
        assert_in_range(pass_to_next(), most_ms / 2 - 1, most_ms * 3 / 2);
    }
    assert_int_equal(stats_of().polls, 6);
}

TEST(a_hint_makes_the_polls_begin_anew)
{
    ask_for(&caller, "a");
    for (int i = 0; i < 6; i++) {
        refuse(expect(LOCK_TAKE), 0, 0);
        pass_to_next();
    }
    struct seen *take = expect(LOCK_TAKE);
    refuse(take, 0, 0);
    told(take);
    refuse(expect(LOCK_TAKE), 0, 0);
    assert_in_range(pass_to_next(), 10, 30);
}

TEST(one_that_waits_alone_asks_every_third_of_a_place_or_when_what_is_in_front_runs_out)
{
    bench.config.stays = false;
    bench_open();
    ask_for(&caller, "a");
    for (int i = 0; i < 5; i++) {
        refuse(expect(LOCK_TAKE), 7, 0);
        assert_int_equal(pass_to_next(), PLACE_MS / 3);
    }
    refuse(expect(LOCK_TAKE), 7, 300);
    assert_in_range(pass_to_next(), 300, 303);
    expect(LOCK_TAKE);
}

TEST(after_a_resync_every_waiter_asks_within_100_ms, P112)
{
    static struct caller first, alone, together, holder, asking;
    hold_name(&holder, "h");
    wait_for(&first, "a", 0);
    wait_for(&together, "a", 5);
    ask_for_names(&alone, NAMES("b", "c"), NULL);
    refuse(expect(LOCK_TAKE), 5, 0);
    struct seen *take = take_of(&asking, "d");
    resync();
    sent_nothing();
    unsigned takes = 0, stays = 0;
    pass(100);
    for (struct seen *seen = next_seen(); seen != NULL; seen = next_seen()) {
        takes += seen->action.kind == LOCK_TAKE;
        stays += seen->action.kind == LOCK_STAY;
    }
    assert_int_equal(takes, 2);
    assert_int_equal(stays, 1);
    refuse(take, 5, 0);
    expect(LOCK_TAKE);
}

/* ---- L8: places ---- */

TEST(the_places_of_all_that_are_not_first_are_renewed_by_one_action, P113)
{
    crowd_waits(MANY);
    unsigned stays = 0, takes = 0;
    uint64_t until_us = bench.now_us + 10 * PLACE_MS / 3 * (uint64_t)BENCH_MS;
    while (bench.now_us < until_us) {
        pass_to_next();
        for (struct seen *seen = next_seen(); seen != NULL; seen = next_seen()) {
            stays += seen->action.kind == LOCK_STAY;
            takes += seen->action.kind == LOCK_TAKE;
            if (seen->action.kind == LOCK_TAKE)
                refuse(seen, 0, 0);
            else
                reply_kind(seen, LOCK_DONE);
        }
    }
    assert_in_range(stays, 9, 11);
    assert_in_range(takes, 10, 60); /* the polls of the first, and one in a while for all */
}

TEST(a_stay_is_due_a_third_of_a_place_after_the_take_was_sent)
{
    ask_for(&caller, "a");
    stand_still(200);
    refuse(expect(LOCK_TAKE), 1, 0);
    assert_int_equal(pass_to_next(), PLACE_MS / 3 - 200);
    struct seen *stay = expect(LOCK_STAY);
    assert_int_equal(stay->action.token_count, 1);
    assert_int_equal(stay->action.place_ms, PLACE_MS);
    assert_string_equal(stay->names[0], "a");
    stand_still(100);
    reply_kind(stay, LOCK_DONE);
    assert_int_equal(pass_to_next(), PLACE_MS / 3 - 100);
    expect(LOCK_STAY);
}

TEST(a_stay_without_an_answer_is_repeated_soon)
{
    wait_for(&caller, "a", 1);
    pass(PLACE_MS / 3);
    reply_kind(expect(LOCK_STAY), LOCK_UNANSWERED);
    assert_in_range(pass_to_next(), 10, 30);
    reply_kind(expect(LOCK_STAY), LOCK_UNSENT);
    assert_in_range(pass_to_next(), 20, 60);
    reply_kind(expect(LOCK_STAY), LOCK_DONE);
    assert_in_range(pass_to_next(), PLACE_MS / 3 - 1, PLACE_MS / 3);
}

TEST(a_link_that_comes_up_ends_the_pause_after_stays_without_an_answer)
{
    wait_for(&caller, "a", 1);
    pass(PLACE_MS / 3);
    for (unsigned i = 0; i < 4; i++) {
        reply_kind(expect(LOCK_STAY), LOCK_UNANSWERED);
        pass_to_next();
    }
    reply_kind(expect(LOCK_STAY), LOCK_UNANSWERED);
    link_down();
    sent_nothing();
    link_up();
    reply_kind(expect(LOCK_STAY), LOCK_DONE);
}

TEST(who_has_left_while_a_stay_was_under_way_does_not_ask)
{
    crowd_waits(4);
    pass(PLACE_MS / 3);
    struct seen *poll = expect(LOCK_TAKE), *stay = expect(LOCK_STAY);
    refuse(poll, 0, 0);
    cancel(&crowd[2]);
    reply_kind(expect(LOCK_GIVE), LOCK_NOT_HELD);
    reply(stay, (struct lock_reply){.kind = LOCK_DONE, .ask_now = (const uint32_t[]){1}, .ask_now_count = 1});
    sent_nothing();
    assert_string_equal(stay->tokens[1], bench.seen[2].token);
}

TEST(a_stay_whose_waiters_have_all_left_is_answered_in_peace)
{
    wait_for(&caller, "a", 1);
    pass(PLACE_MS / 3);
    struct seen *stay = expect(LOCK_STAY);
    cancel(&caller);
    reply_kind(expect(LOCK_GIVE), LOCK_NOT_HELD);
    assert_false(lock_core_idle(bench.core));
    reply(stay, (struct lock_reply){.kind = LOCK_DONE, .ask_now = (const uint32_t[]){0}, .ask_now_count = 1});
    assert_true(lock_core_idle(bench.core));
}

TEST(more_than_a_thousand_places_are_renewed_by_several_actions_one_after_the_other)
{
    crowd_waits(2500);
    bool seen_before[2500] = {false};
    unsigned total = 0;
    resync();
    pass(100);
    for (int stays = 0; stays < 3;) {
        struct seen *seen = next_seen();
        assert_non_null(seen);
        if (seen->action.kind == LOCK_TAKE) {
            refuse(seen, 0, 0);
            continue;
        }
        stays++;
        assert_true(seen->action.token_count <= 1000);
        for (size_t i = 0; i < seen->action.token_count; i++) {
            unsigned number = (unsigned)strtoul(seen->tokens[i], NULL, 16) - 1;
            assert_false(seen_before[number]);
            seen_before[number] = true;
            total++;
        }
        reply_kind(seen, LOCK_DONE);
        tick();
    }
    assert_int_equal(total, 2499);
}

TEST(one_of_those_that_stay_asks_for_all_every_place_ms_even_without_a_hint)
{
    crowd_waits_behind(2, 100, 0);
    for (unsigned rounds = 0; rounds < 5; rounds++) {
        unsigned takes = 0;
        pass(PLACE_MS / 3);
        reply_kind(expect(LOCK_STAY), LOCK_DONE);
        pass(PLACE_MS / 3);
        reply_kind(expect(LOCK_STAY), LOCK_DONE);
        pass(PLACE_MS / 3);
        for (struct seen *seen = next_seen(); seen != NULL; seen = next_seen()) {
            takes += seen->action.kind == LOCK_TAKE;
            if (seen->action.kind == LOCK_TAKE)
                refuse(seen, 5, 0);
            else
                reply_kind(seen, LOCK_DONE);
        }
        assert_int_equal(takes, 1);
    }
}

TEST(another_asks_for_all_when_the_one_that_did_has_become_the_first)
{
    crowd_waits_behind(2, 3, 500);
    pass(502);
    struct seen *asker = expect(LOCK_TAKE);
    refuse(asker, 0, 0);
    bool others[2] = {false};
    for (uint64_t until_us = bench.now_us + 2 * PLACE_MS * BENCH_MS; bench.now_us < until_us; pass_to_next())
        for (struct seen *seen = next_seen(); seen != NULL; seen = next_seen()) {
            bool is_take = seen->action.kind == LOCK_TAKE;
            for (unsigned i = 0; i < 2; i++)
                others[i] = others[i] || (is_take && strcmp(seen->token, bench.seen[i + 1].token) == 0);
            if (is_take)
                refuse(seen, strcmp(seen->token, asker->token) != 0, 0);
            else
                reply_kind(seen, LOCK_DONE);
        }
    assert_true(others[0] || others[1]);
}

TEST(the_one_that_asks_for_all_hands_that_on_when_it_leaves)
{
    crowd_waits_behind(2, 3, 500);
    pass(502);
    expect(LOCK_TAKE);
    cancel(&crowd[0]);
    expect(LOCK_GIVE);
    tick();
    expect(LOCK_TAKE);
    sent_nothing();
}

/* What it was granted says nothing about what stands in front of the others. */
TEST(the_one_that_asks_for_all_hands_that_on_when_it_is_granted, P113)
{
    crowd_waits_behind(2, 3, 500);
    pass(502);
    grant(expect(LOCK_TAKE), 1);
    tick();
    expect(LOCK_TAKE);
    sent_nothing();
}

TEST(the_one_that_asks_for_all_hands_its_hint_on_when_it_becomes_the_first)
{
    crowd_waits_behind(2, 2, 100);
    pass(102);
    struct seen *asker = expect(LOCK_TAKE);
    refuse(asker, 0, 200);
    bool other = false;
    for (uint64_t until_us = bench.now_us + 210 * BENCH_MS; bench.now_us < until_us; pass_to_next())
        for (struct seen *seen = next_seen(); seen != NULL; seen = next_seen()) {
            other = other || strcmp(seen->token, asker->token) != 0;
            refuse(seen, strcmp(seen->token, asker->token) != 0, 0);
        }
    assert_true(other);
}

/* ---- what it costs ---- */

TEST(a_hand_over_among_a_thousand_waiters_is_one_give_and_one_take, P120)
{
    static struct caller holder;
    hold_name(&holder, "a");
    crowd_waits(MANY);
    struct seen *first = &bench.seen[1];
    give_back(&holder);
    told(first);
    grant(expect(LOCK_TAKE), 8);
    holds(&crowd[0]);
    sent_nothing();
    give_back(&crowd[0]);
    told(&bench.seen[2]);
    grant(expect(LOCK_TAKE), 9);
    holds(&crowd[1]);
    sent_nothing();
}

/* Were an event linear in the number of waiters, this would take minutes. */
TEST(ten_thousand_on_one_name_come_and_go)
{
    enum { ALL = 10000 };
    crowd_waits(ALL);
    for (unsigned i = 0; i < ALL; i++) {
        told(&bench.seen[i]);
        struct seen *take = expect(LOCK_TAKE);
        grant(take, i + 1);
        lock_core_give(bench.core, bench.now_us, &crowd[i].hold);
        bench.given_count++;
        drain();
        reply_kind(expect(LOCK_GIVE), LOCK_DONE);
    }
    assert_true(lock_core_idle(bench.core));
    assert_int_equal(stats_of().granted, ALL);
}

/* ---- the link ---- */

TEST(nothing_is_sent_while_the_link_is_down_and_everything_asks_when_it_comes_up)
{
    static struct caller holder, first, together, leaver, late;
    hold_name(&holder, "h");
    hold_name(&leaver, "l");
    wait_for(&first, "a", 0);
    wait_for(&together, "a", 5);
    link_down();
    ask_for(&late, "z");
    give(&leaver);
    pass(2000);
    sent_nothing();
    link_up();
    expect(LOCK_RENEW);
    reply_kind(expect(LOCK_GIVE), LOCK_DONE);
    assert_string_equal(expect(LOCK_TAKE)->names[0], "a");
    assert_string_equal(expect(LOCK_TAKE)->names[0], "z");
    expect(LOCK_STAY);
    sent_nothing();
}

TEST(a_renewal_that_was_under_way_when_the_link_came_up_is_followed_by_another)
{
    struct seen *renew = hold_to_renewal(&caller);
    link_down();
    link_up();
    sent_nothing();
    reply_kind(renew, LOCK_UNANSWERED);
    expect(LOCK_RENEW);
}

TEST(a_holder_keeps_its_lock_while_the_link_is_down_until_the_warning)
{
    hold_name(&caller, "a");
    link_down();
    pass(BENCH_LEASE_MS * 2 / 3);
    holds(&caller);
    pass(BENCH_LEASE_MS / 3);
    is_lost(&caller);
    sent_nothing();
}

TEST(a_waiter_whose_session_was_dropped_asks_at_once)
{
    struct seen *take = wait_for(&caller, "a", 5);
    dropped(take);
    assert_string_equal(expect(LOCK_TAKE)->token, take->token);
}

TEST_GROUP(.before = bench_up, .after = bench_close);
