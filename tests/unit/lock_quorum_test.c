/* SPDX-License-Identifier: MIT */
/* lock_quorum_test.c - what the answers of several masters come to, in every order. */
#include "guard/base/chance.h"
#include "guard/locks/redlock/lock_quorum.h"
#include "tests/support/test.h"

enum { NODES = 5, QUORUM = 3 };

/* A round with what it has asked for. */
static struct table {
    struct lock_round round;
    bool raised[LOCK_NODES_MAX], given_back[LOCK_NODES_MAX], buried[LOCK_NODES_MAX];
    unsigned told;
    struct lock_reply reply;
} table;

static void drain_round(void)
{
    size_t node = 0;
    for (;;) {
        switch (lock_round_next(&table.round, &node)) {
        case LOCK_ROUND_WAIT:
            return;
        case LOCK_ROUND_RAISE:
            assert_false(table.raised[node]);
            table.raised[node] = true;
            break;
        case LOCK_ROUND_GIVE_BACK:
            assert_false(table.given_back[node]);
            table.given_back[node] = true;
            break;
        case LOCK_ROUND_BURY:
            assert_false(table.buried[node]);
            table.buried[node] = true;
            break;
        case LOCK_ROUND_TELL:
            assert_int_equal(++table.told, 1);
            lock_round_reply(&table.round, &table.reply);
            break;
        }
    }
}

static void begin(enum lock_action_kind kind)
{
    memset(&table, 0, sizeof table);
    lock_round_begin(&table.round, kind, NODES, 1);
    drain_round();
    assert_int_equal(table.told, 0);
}

static void says(size_t node, enum lock_reply_kind kind)
{
    lock_round_replied(&table.round, node, &(struct lock_reply){.kind = kind});
    drain_round();
}

static void grants(size_t node, uint64_t fence)
{
    lock_round_replied(&table.round, node, &(struct lock_reply){.kind = LOCK_GRANTED, .fence = {fence}});
    drain_round();
}

static void refuses(size_t node, uint32_t hint_ms)
{
    lock_round_replied(&table.round, node, &(struct lock_reply){.kind = LOCK_REFUSED, .hint_ms = hint_ms});
    drain_round();
}

static void raises(size_t node, enum lock_reply_kind kind)
{
    assert_true(table.raised[node]);
    lock_round_raised(&table.round, node, &(struct lock_reply){.kind = kind});
    drain_round();
}

static void told(enum lock_reply_kind kind)
{
    assert_int_equal(table.told, 1);
    assert_int_equal(table.reply.kind, kind);
}

TEST(a_grant_is_told_once_a_quorum_has_written_its_fence, P123)
{
    begin(LOCK_TAKE);
    grants(0, 7);
    grants(1, 9);
    assert_false(table.raised[0]);
    grants(2, 8);
    assert_true(table.raised[0] && table.raised[1] && table.raised[2]);
    raises(0, LOCK_DONE);
    raises(1, LOCK_DONE);
    assert_int_equal(table.told, 0);
    raises(2, LOCK_DONE);
    told(LOCK_GRANTED);
    assert_int_equal(table.reply.fence[0], 9);
    assert_false(table.given_back[0]);
}

TEST(what_cannot_be_raised_on_a_quorum_is_given_back)
{
    begin(LOCK_TAKE);
    refuses(3, 0);
    refuses(4, 0);
    grants(0, 7);
    grants(1, 7);
    grants(2, 7);
    raises(0, LOCK_DONE);
    raises(1, LOCK_NOT_HELD);
    told(LOCK_UNANSWERED);
    assert_true(table.given_back[0] && table.given_back[1] && table.given_back[2]);
    assert_false(table.given_back[3] || table.given_back[4]);
}

TEST(a_refusal_is_told_as_soon_as_the_quorum_is_out_of_reach)
{
    begin(LOCK_TAKE);
    grants(0, 7);
    refuses(1, 900);
    refuses(2, 300);
    assert_int_equal(table.told, 0);
    refuses(3, 500);
    told(LOCK_REFUSED);
    assert_int_equal(table.reply.hint_ms, 300);
    assert_true(table.given_back[0]);
    assert_false(table.given_back[1] || table.given_back[4]);
}

TEST(one_that_grants_after_the_failure_is_given_back_too)
{
    begin(LOCK_TAKE);
    refuses(0, 0);
    refuses(1, 0);
    refuses(2, 0);
    told(LOCK_REFUSED);
    grants(3, 7);
    assert_true(table.given_back[3]);
    says(4, LOCK_UNANSWERED); /* it may still run: only a tombstone helps */
    assert_true(table.buried[4]);
    assert_int_equal(table.told, 1);
}

TEST(a_minority_that_answers_is_no_answer)
{
    begin(LOCK_TAKE);
    refuses(0, 0);
    refuses(1, 0);
    says(2, LOCK_UNANSWERED);
    told(LOCK_UNANSWERED);
    begin(LOCK_TAKE);
    for (size_t i = 0; i < QUORUM; i++)
        says(i, LOCK_UNSENT);
    told(LOCK_UNANSWERED); /* the others may have run */
    begin(LOCK_TAKE);
    says(0, LOCK_IMPOSSIBLE);
    says(1, LOCK_IMPOSSIBLE);
    says(2, LOCK_IMPOSSIBLE);
    told(LOCK_IMPOSSIBLE);
}

/* One whose login is wrong does not keep the others from coming back. */
TEST(what_one_of_them_can_never_grant_is_impossible_if_no_quorum_is_left)
{
    begin(LOCK_TAKE);
    says(0, LOCK_IMPOSSIBLE);
    says(1, LOCK_IMPOSSIBLE);
    says(2, LOCK_UNSENT);
    told(LOCK_UNANSWERED);
}

TEST(a_server_that_has_two_names_is_found)
{
    static const char *const none[] = {"a", "", "b", "", "c"}, *const two[] = {"a", "", "b", "c", "b"};
    size_t one = 0, other = 0;
    assert_false(lock_round_has_twins(none, NODES, &one, &other));
    assert_true(lock_round_has_twins(two, NODES, &one, &other));
    assert_int_equal(one, 2);
    assert_int_equal(other, 4);
}

TEST(nothing_but_tombstones_in_its_way_and_the_token_is_gone)
{
    begin(LOCK_TAKE);
    says(0, LOCK_GONE);
    grants(1, 7);
    grants(2, 7);
    says(3, LOCK_UNSENT);
    says(4, LOCK_UNSENT);
    told(LOCK_GONE);
    assert_true(table.given_back[1] && table.given_back[2]);
    begin(LOCK_TAKE);
    says(0, LOCK_GONE);
    refuses(1, 0);
    refuses(2, 0);
    told(LOCK_REFUSED);
}

TEST(renewing_and_giving_back_are_what_a_quorum_says)
{
    static const enum lock_action_kind KINDS[] = {LOCK_RENEW, LOCK_GIVE};
    for (size_t i = 0; i < 2; i++) {
        begin(KINDS[i]);
        says(4, LOCK_NOT_HELD);
        says(0, LOCK_DONE);
        says(1, LOCK_DONE);
        assert_int_equal(table.told, 0);
        says(2, LOCK_DONE);
        told(LOCK_DONE);
        says(3, LOCK_UNANSWERED);
        begin(KINDS[i]);
        says(0, LOCK_NOT_HELD);
        says(1, LOCK_NOT_HELD);
        says(2, LOCK_NOT_HELD);
        told(LOCK_NOT_HELD);
        begin(KINDS[i]);
        says(0, LOCK_DONE);
        says(1, LOCK_DONE);
        says(2, LOCK_NOT_HELD);
        says(3, LOCK_NOT_HELD);
        assert_int_equal(table.told, 0);
        says(4, LOCK_UNANSWERED);
        told(LOCK_UNANSWERED);
        begin(KINDS[i]);
        for (size_t node = 0; node < NODES; node++)
            says(node, LOCK_UNSENT);
        told(LOCK_UNSENT);
    }
}

/* ---- any order ---- */

static enum lock_reply_kind draw(struct chance *chance, const enum lock_reply_kind *kinds, size_t count)
{
    return kinds[chance_below(chance, count)];
}

/* Answers in any order, raises among them: it is told exactly once, never granted without a quorum of raises, and
 * whatever was granted by the end of a failure is given back. */
static void any_round(struct chance *chance)
{
    static const enum lock_reply_kind ANSWERS[] = {LOCK_GRANTED,    LOCK_GRANTED,   LOCK_GRANTED,
                                                   LOCK_REFUSED,    LOCK_GONE,      LOCK_UNSENT,
                                                   LOCK_UNANSWERED, LOCK_IMPOSSIBLE};
    static const enum lock_reply_kind RAISES[] = {LOCK_DONE, LOCK_DONE, LOCK_DONE, LOCK_NOT_HELD,
                                                  LOCK_UNANSWERED};
    bool granted[NODES] = {false}, answered[NODES] = {false}, has_raised[NODES] = {false};
    size_t done = 0;
    begin(LOCK_TAKE);
    for (size_t left = NODES; left > 0;) {
        size_t node = (size_t)chance_below(chance, NODES);
        if (table.raised[node] && !has_raised[node]) {
            enum lock_reply_kind kind = draw(chance, RAISES, sizeof RAISES / sizeof *RAISES);
            has_raised[node] = true;
            done += kind == LOCK_DONE;
            raises(node, kind);
        } else if (!answered[node]) {
            enum lock_reply_kind kind = draw(chance, ANSWERS, sizeof ANSWERS / sizeof *ANSWERS);
            answered[node] = true;
            granted[node] = kind == LOCK_GRANTED;
            left--;
            lock_round_replied(&table.round, node, &(struct lock_reply){.kind = kind, .fence = {node + 1}});
            drain_round();
        }
    }
    for (size_t node = 0; node < NODES; node++)
        if (table.raised[node] && !has_raised[node]) {
            done++;
            raises(node, LOCK_DONE);
        }
    assert_int_equal(table.told, 1);
    for (size_t node = 0; node < NODES; node++)
        assert_int_equal(table.given_back[node], granted[node] && table.reply.kind != LOCK_GRANTED);
    if (table.reply.kind == LOCK_GRANTED)
        assert_in_range(done, QUORUM, NODES);
}

TEST(in_any_order_of_answers_a_round_is_told_once_and_leaves_nothing_behind, P123)
{
    struct chance chance = {.state = 42};
    for (int i = 0; i < 20000; i++)
        any_round(&chance);
}
