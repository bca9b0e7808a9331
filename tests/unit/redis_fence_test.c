/* SPDX-License-Identifier: MIT */
/* redis_fence_test.c - how a value is read, and when a connection that is silent asks something. */
#include "guard/redis/fence.h"
#include "tests/support/test.h"

enum { BEGIN_MS = 1000 };

static struct redis_fence fence;

static bool fence_up(void)
{
    fence = (struct redis_fence){.mode = REDIS_FENCE_WRITE};
    redis_fence_up(&fence, BEGIN_MS);
    return true;
}

TEST(what_getex_is_answered_decides_how_values_are_read)
{
    static const struct {
        enum redis_error_class class;
        enum redis_fence_mode mode, without_role;
        bool for_good, no_replicas;
    } rows[] = {
        {REDIS_ERROR_FENCED, REDIS_FENCE_SHUT, REDIS_FENCE_SHUT, false, true},
        {REDIS_ERROR_REFUSED, REDIS_FENCE_ROLE, REDIS_FENCE_SHUT, false, false},
        {REDIS_ERROR_DENIED, REDIS_FENCE_ROLE, REDIS_FENCE_SHUT, true, false},
        {REDIS_ERROR_LOADING, REDIS_FENCE_WRITE, REDIS_FENCE_WRITE, false, false},
        {REDIS_ERROR_READONLY, REDIS_FENCE_WRITE, REDIS_FENCE_WRITE, false, false},
        {REDIS_ERROR_OTHER, REDIS_FENCE_WRITE, REDIS_FENCE_WRITE, false, false}, /* WRONGTYPE, of one key */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fence_up();
        redis_fence_refused(&fence, rows[i].class);
        assert_int_equal(fence.mode, rows[i].mode);
        assert_int_equal(fence.no_getex, rows[i].for_good);
        assert_int_equal(fence.no_replicas, rows[i].no_replicas);
        redis_fence_no_role(&fence, REDIS_ERROR_DENIED);
        assert_int_equal(fence.mode, rows[i].without_role);
        redis_fence_passed(&fence, false);
        assert_int_equal(fence.mode, rows[i].for_good ? REDIS_FENCE_SHUT : REDIS_FENCE_WRITE);
        assert_false(fence.no_replicas);
    }
}

TEST(a_role_that_is_only_late_changes_nothing)
{
    redis_fence_no_role(&fence, REDIS_ERROR_LOADING);
    assert_false(fence.no_role);
}

TEST(who_is_silent_asks_every_half_second_and_for_the_role_every_tenth_time, P86)
{
    unsigned write = 0, role = 0;
    for (uint64_t now = BEGIN_MS; now <= BEGIN_MS + 10 * REDIS_ROLE_MS; now++) {
        enum redis_beat beat = redis_fence_beat(&fence, now);
        write += beat == REDIS_BEAT_WRITE;
        role += beat == REDIS_BEAT_ROLE;
        assert_true(redis_fence_next_ms(&fence) > now);
    }
    assert_int_equal(write, 90);
    assert_int_equal(role, 10);
}

TEST(who_is_busy_asks_for_the_role_only, P86)
{
    unsigned role = 0;
    for (uint64_t now = BEGIN_MS; now <= BEGIN_MS + 10 * REDIS_ROLE_MS; now++) {
        if (now % 100 == 0)
            fence.sent_ms = now;
        enum redis_beat beat = redis_fence_beat(&fence, now);
        assert_int_not_equal(beat, REDIS_BEAT_WRITE);
        role += beat == REDIS_BEAT_ROLE;
    }
    assert_int_equal(role, 10);
}

/* However busy it is: only that opens the fence. */
TEST(a_shut_fence_is_tried_every_half_second)
{
    redis_fence_refused(&fence, REDIS_ERROR_FENCED);
    fence.sent_ms = BEGIN_MS + REDIS_BEAT_MS;
    assert_int_equal(redis_fence_beat(&fence, BEGIN_MS + REDIS_BEAT_MS), REDIS_BEAT_WRITE);
}

/* Counted from the heartbeat that finds it so. */
TEST(a_master_that_stays_without_replicas_is_looked_up_again, P86)
{
    const uint64_t now = BEGIN_MS + REDIS_BEAT_MS;
    redis_fence_refused(&fence, REDIS_ERROR_FENCED);
    redis_fence_beat(&fence, now);
    assert_false(redis_fence_redials(&fence, now + REDIS_REDIAL_MS - 1));
    assert_true(redis_fence_redials(&fence, now + REDIS_REDIAL_MS));
    redis_fence_passed(&fence, false);
    assert_false(redis_fence_redials(&fence, now + REDIS_REDIAL_MS));
}

TEST(what_the_login_may_not_ask_is_done_without)
{
    redis_fence_refused(&fence, REDIS_ERROR_DENIED);
    fence.sent_ms = BEGIN_MS + REDIS_BEAT_MS; /* its ROLE tells nothing of replicas */
    assert_int_equal(redis_fence_beat(&fence, BEGIN_MS + REDIS_BEAT_MS), REDIS_BEAT_WRITE);
    redis_fence_refused(&fence, REDIS_ERROR_FENCED);
    assert_int_equal(fence.mode, REDIS_FENCE_SHUT);
    redis_fence_passed(&fence, false);
    assert_int_equal(fence.mode, REDIS_FENCE_ROLE);
    fence_up();
    redis_fence_no_role(&fence, REDIS_ERROR_DENIED);
    for (uint64_t now = BEGIN_MS; now <= BEGIN_MS + 2 * REDIS_ROLE_MS; now++)
        assert_int_not_equal(redis_fence_beat(&fence, now), REDIS_BEAT_ROLE);
}

/* Between half a minute and half of that, by chance. */
TEST(what_an_acl_has_refused_is_asked_for_again)
{
    uint64_t now = BEGIN_MS + REDIS_BEAT_MS, asked = 0;
    fence.sooner_ms = 5000;
    redis_fence_refused(&fence, REDIS_ERROR_DENIED);
    redis_fence_no_role(&fence, REDIS_ERROR_DENIED);
    assert_int_equal(fence.mode, REDIS_FENCE_SHUT);
    for (; asked == 0; now = redis_fence_next_ms(&fence))
        if (redis_fence_beat(&fence, now) == REDIS_BEAT_AGAIN)
            asked = now;
    assert_int_equal(asked, BEGIN_MS + REDIS_BEAT_MS + REDIS_AGAIN_MS - 5000);
    redis_fence_refused(&fence, REDIS_ERROR_DENIED);
    assert_int_not_equal(redis_fence_beat(&fence, asked), REDIS_BEAT_AGAIN);
    assert_int_equal(redis_fence_beat(&fence, asked + REDIS_AGAIN_MS - 5000), REDIS_BEAT_AGAIN);
    redis_fence_role_passed(&fence);
    assert_int_equal(fence.mode, REDIS_FENCE_ROLE);
    redis_fence_passed(&fence, true);
    assert_int_equal(fence.mode, REDIS_FENCE_WRITE);
    for (now = asked; now < asked + 4 * REDIS_AGAIN_MS; now += REDIS_BEAT_MS)
        assert_int_not_equal(redis_fence_beat(&fence, now), REDIS_BEAT_AGAIN);
}

TEST_GROUP(.before = fence_up);
