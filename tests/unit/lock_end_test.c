/* SPDX-License-Identifier: MIT */
/*
 * lock_end_test.c - every state of a request or a hold meets cancel, deadline, close, the end of its owner, a link
 * that goes down and up, a resync, hints and a drop. What is common to all: one answer, `lost` at most once, and
 * nothing left.
 */
#include "lock_bench.h"

static struct caller caller, ahead;
static struct lock_owner *owner;

/* ---- states ---- */

static void ask_owned(void)
{
    ask_for_names(&caller, NAMES("a"), owner);
}

static void queued(void)
{
    ask_as(&ahead, "a", GUARD_LOCK_FAIR, owner);
    ask_owned();
}

static void asking(void)
{
    ask_owned();
    expect(LOCK_TAKE);
}

static void asking_and_told(void)
{
    ask_owned();
    told(expect(LOCK_TAKE));
}

static void in_doubt(void)
{
    ask_owned();
    reply_kind(expect(LOCK_TAKE), LOCK_UNANSWERED);
}

static void first_in_line(void)
{
    ask_owned();
    refuse(expect(LOCK_TAKE), 0, 0);
}

static void together(void)
{
    ask_owned();
    refuse(expect(LOCK_TAKE), 5, 100);
}

static void staying(void)
{
    ask_owned();
    refuse(expect(LOCK_TAKE), 5, 0);
    pass(1000);
    expect(LOCK_STAY);
}

static void latched(void)
{
    prepare(&caller, NAMES("a"));
    caller.request.kind = GUARD_LOCK_LATCH;
    caller.request.limit = 2;
    caller.request.lock_owner = owner;
    ask(&caller);
    refuse(expect(LOCK_TAKE), 1, 0);
}

static void several(void)
{
    ask_for_names(&caller, NAMES("a", "b"), owner);
    refuse(expect(LOCK_TAKE), 1, 0);
}

static void holding(void)
{
    ask_owned();
    grant(expect(LOCK_TAKE), 1);
}

static void renewing(void)
{
    holding();
    pass(BENCH_LEASE_MS / 3);
    expect(LOCK_RENEW);
}

static void lost_early(void)
{
    renewing();
    pass(BENCH_LEASE_MS / 2);
    is_lost(&caller);
}

static void lost_and_over(void)
{
    renewing();
    pass(BENCH_LEASE_MS);
    is_lost(&caller);
    expect(LOCK_GIVE);
}

static void shared(void)
{
    ask_as(&ahead, "a", GUARD_LOCK_FAIR, owner);
    grant(expect(LOCK_TAKE), 1);
    ask_owned();
}

static void giving(void)
{
    holding();
    give(&caller);
    expect(LOCK_GIVE);
}

static void giving_in_vain(void)
{
    giving();
    reply_kind(&bench.seen[bench.seen_count - 1], LOCK_UNANSWERED);
}

static void (*const STATES[])(void) = {
    queued,  asking,  asking_and_told, in_doubt,   first_in_line, together, staying, latched,
    several, holding, renewing,        lost_early, lost_and_over, shared,   giving,  giving_in_vain,
};
enum { STATE_COUNT = sizeof STATES / sizeof *STATES };

/* ---- events ---- */

static void nothing(void)
{
}

static void cancelling(void)
{
    bool waits = caller.answers == 0;
    cancel(&caller);
    if (waits)
        answered(&caller, GUARD_LOCK_CANCELLED);
}

static void deadline(void)
{
    bool waits = caller.answers == 0, refused = caller.request.was_refused;
    pass(BENCH_WAIT_MS);
    if (waits)
        answered(&caller, refused ? GUARD_LOCK_BUSY : GUARD_LOCK_UNREACHABLE);
}

static void closing(void)
{
    bool waits = caller.answers == 0, held = !waits && caller.hold.is_given == false;
    close_core();
    if (waits)
        answered(&caller, GUARD_LOCK_CLOSING);
    if (held)
        is_lost(&caller);
    struct caller late;
    ask_for(&late, "z");
    assert_int_equal(late.accepted, GUARD_LOCK_CLOSING);
}

static void freeing_the_owner(void)
{
    bool waits = caller.answers == 0, held = !waits && caller.hold.is_given == false;
    lock_core_owner_free(bench.core, bench.now_us, &owner);
    drain();
    if (waits)
        answered(&caller, GUARD_LOCK_CANCELLED);
    if (held)
        is_lost(&caller);
}

static void link_lost(void)
{
    size_t before = bench.seen_count;
    link_down();
    pass(3 * BENCH_WAIT_MS);
    assert_int_equal(bench.seen_count, before);
    assert_int_equal(caller.answers, 1);
}

static void link_flaps(void)
{
    link_down();
    link_up();
    link_up();
}

static void resyncing(void)
{
    resync();
    pass(100);
}

static void telling(void)
{
    told(&bench.seen[0]);
    told_all("a");
}

static void dropping(void)
{
    dropped(&bench.seen[0]);
    dropped(&bench.seen[0]);
}

static void (*const EVENTS[])(void) = {
    nothing,   cancelling, deadline,  closing, freeing_the_owner,
    link_lost, link_flaps, resyncing, telling, dropping,
};
enum { EVENT_COUNT = sizeof EVENTS / sizeof *EVENTS };

/* ---- and then ---- */

/* What is under way ends as the provider has it; what is held after that is given back. */
static void go_on(enum lock_reply_kind kind)
{
    size_t count = bench.seen_count;
    for (size_t i = 0; i < count; i++)
        if (!bench.seen[i].over)
            reply(&bench.seen[i], (struct lock_reply){.kind = kind, .before = 3, .hint_ms = 50});
    pass(10);
    if (caller.answers == 1 && caller.request.result.status == GUARD_LOCK_OK && caller.request.hold != NULL &&
        !caller.hold.is_given)
        give(&caller);
    pass(BENCH_LEASE_MS);
    assert_true(caller.losses <= 1);
}

static void every_state_meets_every_event(bool all_at_once, bool stays, enum lock_reply_kind kind)
{
    for (size_t state = 0; state < STATE_COUNT; state++) {
        for (size_t event = 0; event < EVENT_COUNT; event++) {
            bench_up();
            bench.config.all_at_once = all_at_once;
            bench.config.stays = stays;
            bench_open();
            owner = lock_core_owner_new(bench.core);
            if (STATES[state] != staying || stays) {
                STATES[state]();
                EVENTS[event]();
                go_on(kind);
            }
            bench_close();
        }
    }
}

TEST(every_state_meets_every_event_whatever_becomes_of_what_was_under_way, P121)
{
    static const struct {
        bool all_at_once, stays;
        enum lock_reply_kind kind;
    } rows[] = {{true, true, LOCK_GRANTED},   {true, true, LOCK_REFUSED},   {false, true, LOCK_DONE},
                {true, false, LOCK_NOT_HELD}, {false, true, LOCK_UNSENT},   {true, true, LOCK_UNANSWERED},
                {false, false, LOCK_GONE},    {true, true, LOCK_IMPOSSIBLE}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        every_state_meets_every_event(rows[i].all_at_once, rows[i].stays, rows[i].kind);
}

TEST_GROUP(.before = NULL); /* each opens locks of its own */

/* ---- deadlines ---- */

TEST(a_deadline_without_a_refusal_is_unreachable_and_says_what_is_known_of_the_link)
{
    link_down();
    ask_for(&caller, "a");
    pass(BENCH_WAIT_MS);
    answered(&caller, GUARD_LOCK_UNREACHABLE);
    assert_string_equal(caller.request.result.why, "connection refused");
    at_rest();
}

TEST(a_deadline_after_a_refusal_is_busy_even_if_the_link_is_down_since)
{
    wait_for(&caller, "a", 4);
    link_down();
    pass(BENCH_WAIT_MS);
    answered(&caller, GUARD_LOCK_BUSY);
    assert_int_equal(caller.request.result.before, 4);
}

static void ask_for_50_ms(struct caller *asking, const char *name)
{
    prepare(asking, NAMES(name));
    asking->request.deadline_us = bench.now_us + 50 * BENCH_MS;
    ask(asking);
}

TEST(grants_that_are_read_after_the_deadline_count_and_a_refusal_does_not, P118)
{
    static struct caller behind;
    ask_for_50_ms(&caller, "a");
    ask_for_50_ms(&ahead, "b");
    ask_for_50_ms(&behind, "c");
    stand_still(100);
    grant(expect(LOCK_TAKE), 1);
    grant(expect(LOCK_TAKE), 1);
    tick();
    holds(&caller);
    holds(&ahead);
    answered(&behind, GUARD_LOCK_UNREACHABLE);
    bench_close();
    bench_up();
    ask_for_50_ms(&caller, "a");
    stand_still(100);
    refuse(expect(LOCK_TAKE), 1, 0);
    tick();
    answered(&caller, GUARD_LOCK_BUSY);
}

/* ---- the end ---- */

TEST(a_request_that_waits_for_ever_has_no_deadline)
{
    prepare(&caller, NAMES("a"));
    caller.request.deadline_us = UINT64_MAX;
    ask(&caller);
    link_down();
    refuse(expect(LOCK_TAKE), 1, 0);
    pass(1000 * BENCH_WAIT_MS);
    still_waits(&caller);
}

TEST(a_core_that_is_freed_forgets_what_is_not_given_back_yet)
{
    lock_core_owner_new(bench.core);
    hold_name(&caller, "a");
    wait_for(&ahead, "b", 1);
    close_core();
    give_at_once(&caller, GUARD_LOCK_LOST);
    assert_false(lock_core_idle(bench.core));
    lock_core_free(&bench.core);
    assert_null(bench.core);
    bench_open();
    bench.seen_count = 0;
}

TEST_GROUP(.before = bench_up, .after = bench_close);
