/* SPDX-License-Identifier: MIT */
/* host_test.c - many timers, soons and wakes on a loop that offers one of each. */
#include "guard/base/clock.h"
#include "guard/base/host.h"
#include "tests/support/test.h"

/* ---- an adapter that only counts: the test is the loop ---- */

static struct fake {
    struct guard_host host;
    struct guard_host_state state;
    uint32_t in_ms; /* until it rings */
    unsigned timers, soons, wakes;
    bool again;
} fake;

static int watch_nothing(struct guard_host *host, struct guard_watch *watch, unsigned events)
{
    (void)host, (void)watch, (void)events;
    return 0;
}

static void set_fake_timer(struct guard_host *host, uint32_t in_ms)
{
    assert_ptr_equal(host, &fake.host);
    fake.in_ms = in_ms;
    fake.timers++;
}

static void ask_fake_soon(struct guard_host *host, bool again)
{
    assert_ptr_equal(host, &fake.host);
    fake.soons++;
    fake.again = again;
}

static void wake_fake(struct guard_host *host)
{
    assert_ptr_equal(host, &fake.host);
    fake.wakes++;
}

/* ---- what happened, a letter each ---- */

static char said[32];

struct note {
    char letter;
    struct host_timer *sets, *stops; /* timers; NULL: none */
    struct host_soon *asks;          /* for this soon */
    struct host_wake *sends;
};

static void note_it(void *context)
{
    struct note *note = context;
    strncat(said, &note->letter, 1);
    if (note->sets != NULL)
        host_timer_set(&fake.host, note->sets, clock_now_us() + 1000000);
    if (note->stops != NULL)
        host_timer_stop(&fake.host, note->stops);
    if (note->asks != NULL)
        host_soon(&fake.host, note->asks);
    if (note->sends != NULL)
        host_wake_send(note->sends);
}

static bool set_up(void)
{
    said[0] = '\0';
    fake = (struct fake){
        .host = {.watch = watch_nothing, .timer = set_fake_timer, .soon = ask_fake_soon, .wake = wake_fake},
        .in_ms = GUARD_HOST_NEVER};
    host_init(&fake.host, &fake.state);
    return true;
}

/* ---- timers ---- */

TEST(timers_ring_in_their_order_and_the_loop_knows_the_earliest, P162)
{
    struct note notes[] = {{.letter = 'a'}, {.letter = 'b'}, {.letter = 'c'}};
    struct host_timer a = {.run = note_it, .context = &notes[0]};
    struct host_timer b = {.run = note_it, .context = &notes[1]};
    struct host_timer c = {.run = note_it, .context = &notes[2]};
    uint64_t now_us = clock_now_us();
    host_timer_set(&fake.host, &c, now_us + 3600ull * 1000000);
    assert_in_range(fake.in_ms, 3500 * 1000, 3600 * 1000);
    host_timer_set(&fake.host, &b, now_us);
    assert_int_equal(fake.in_ms, 0);
    host_timer_set(&fake.host, &a, now_us - 1);
    guard_host_rang(&fake.host);
    assert_string_equal(said, "ab");
    assert_in_range(fake.in_ms, 3500 * 1000, 3600 * 1000);
    host_timer_stop(&fake.host, &c);
    assert_int_equal(fake.in_ms, GUARD_HOST_NEVER);
}

TEST(a_timer_may_set_itself_and_stop_another_that_is_due)
{
    struct note first = {.letter = 'a'}, second = {.letter = 'b'};
    struct host_timer a = {.run = note_it, .context = &first}, b = {.run = note_it, .context = &second};
    uint64_t now_us = clock_now_us();
    first.sets = &a;
    first.stops = &b;
    host_timer_set(&fake.host, &a, now_us - 2);
    host_timer_set(&fake.host, &b, now_us - 1);
    guard_host_rang(&fake.host);
    assert_string_equal(said, "a");
    assert_true(a.set && !b.set);
    assert_in_range(fake.in_ms, 1, 1000);
}

struct past {
    struct host_timer timer, other;
    unsigned rang;
};

/* Once more, and another one: both for an instant that has passed. */
static void set_past(void *context)
{
    struct past *past = context;
    assert_in_range(++past->rang, 1, 2);
    host_timer_set(&fake.host, &past->timer, 1);
    host_timer_set(&fake.host, &past->other, 2);
}

TEST(a_timer_that_is_set_for_the_past_when_timers_ring_lets_the_loop_do_other_work_first)
{
    struct note note = {.letter = 'o'};
    struct past past = {.rang = 0};
    past.timer = (struct host_timer){.run = set_past, .context = &past};
    past.other = (struct host_timer){.run = note_it, .context = &note};
    host_timer_set(&fake.host, &past.timer, 1);
    guard_host_rang(&fake.host);
    assert_int_equal(past.rang, 1);
    assert_string_equal(said, "");
    assert_int_equal(fake.in_ms, 1);
    guard_host_rang(&fake.host);
    assert_int_equal(past.rang, 2);
    assert_string_equal(said, "o");
    host_timer_stop(&fake.host, &past.timer);
    assert_int_equal(fake.in_ms, GUARD_HOST_NEVER);
}

/* Our clock runs while the machine is suspended, that of a loop's timer perhaps not. */
TEST(a_timer_that_is_overdue_is_armed_again_with_the_next_that_is_set)
{
    struct host_timer overdue = {.run = NULL}, later = {.run = NULL};
    const uint64_t soon_us = clock_now_us() + 1000;
    host_timer_set(&fake.host, &overdue, soon_us);
    assert_int_equal(fake.timers, 1);
    while (clock_now_us() <= soon_us)
        continue;
    host_timer_set(&fake.host, &later, soon_us + 10000000);
    assert_int_equal(fake.timers, 2);
    assert_int_equal(fake.in_ms, 0);
    host_timer_stop(&fake.host, &overdue);
    host_timer_stop(&fake.host, &later);
}

TEST(an_instant_that_is_never_is_no_instant)
{
    struct host_timer a = {.run = note_it};
    host_timer_set(&fake.host, &a, UINT64_MAX);
    assert_int_equal(fake.timers, 0);
    host_timer_set(&fake.host, &a, UINT64_MAX - 1);
    assert_int_equal(fake.in_ms, GUARD_HOST_NEVER - 1);
    host_timer_set(&fake.host, &a, UINT64_MAX);
    assert_int_equal(fake.in_ms, GUARD_HOST_NEVER);
}

/* ---- soon ---- */

TEST(what_others_leave_to_be_written_leaves_with_the_last)
{
    struct note writes = {.letter = 'w'}, acts = {.letter = 'a'}, more = {.letter = 'm'};
    struct host_soon writer = {.run = note_it, .context = &writes, .last = true};
    struct host_soon actor = {.run = note_it, .context = &acts};
    struct host_soon late = {.run = note_it, .context = &more, .last = true};
    acts.asks = &late;
    host_soon(&fake.host, &writer);
    host_soon(&fake.host, &actor);
    host_soon(&fake.host, &actor);
    assert_int_equal(fake.soons, 1);
    guard_host_turn_over(&fake.host);
    assert_string_equal(said, "awm");
    assert_int_equal(fake.soons, 1);
}

TEST(one_that_asks_for_itself_has_its_next_turn_later)
{
    struct note again = {.letter = 'a'}, other = {.letter = 'b'};
    struct host_soon a = {.run = note_it, .context = &again}, b = {.run = note_it, .context = &other};
    again.asks = &a;
    host_soon(&fake.host, &a);
    host_soon(&fake.host, &b);
    assert_false(fake.again);
    host_soon_stop(&b);
    guard_host_turn_over(&fake.host);
    assert_string_equal(said, "a");
    assert_int_equal(fake.soons, 2);
    assert_true(fake.again);
    guard_host_turn_over(&fake.host);
    assert_string_equal(said, "aa");
    host_soon_stop(&a);
    guard_host_turn_over(&fake.host);
    assert_string_equal(said, "aa");
}

/* ---- wakes ---- */

TEST(only_those_that_were_sent_run_and_each_once)
{
    struct note notes[] = {{.letter = 'a'}, {.letter = 'b'}, {.letter = 'c'}};
    struct host_wake a, b, c;
    host_wake_init(&fake.host, &a, note_it, &notes[0]);
    host_wake_init(&fake.host, &b, note_it, &notes[1]);
    host_wake_init(&fake.host, &c, note_it, &notes[2]);
    notes[0].sends = &a; /* has its next turn later */
    host_wake_send(&a);
    host_wake_send(&c);
    host_wake_send(&c);
    assert_int_equal(fake.wakes, 2);
    guard_host_woken(&fake.host);
    assert_string_equal(said, "ac");
    assert_int_equal(fake.wakes, 3);
    host_wake_clear(&a);
    guard_host_woken(&fake.host);
    assert_string_equal(said, "ac");
    host_wake_clear(&b);
    host_wake_clear(&c);
}

TEST_GROUP(.before = set_up);

/* ---- on a loop of its own; what all adapters promise is in live/guard/adapters_test ---- */

static void end_host(void *context)
{
    strcat(said, "e");
    host_close(context, NULL, NULL);
}

TEST(a_loop_of_its_own_runs_until_the_host_is_closed)
{
    struct guard_host *own = own_host_open();
    struct host_soon ending = {.run = end_host, .context = own};
    said[0] = '\0';
    assert_non_null(own);
    host_soon(own, &ending);
    own_host_run(own);
    assert_string_equal(said, "e");
    own_host_free(&own);
    assert_null(own);
}
