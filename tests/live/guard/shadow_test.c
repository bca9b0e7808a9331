/* SPDX-License-Identifier: MIT */
/*
 * shadow_test.c - mode shadow: what a fleet would have saved, and that no caller notices, with a real Redis.
 */
#include "guard_rig.h"

enum { CROWD = 20, AGAIN = 5 };

static void open_shadow(size_t count)
{
    fleet_init();
    fleet.config.mode = GUARD_MODE_SHADOW;
    fleet.config.max_loads = 64;
    fleet_open(count);
}

/* A crowd on a cold key of two processes, then some more gets: how many loads. */
static unsigned play(enum guard_mode mode, struct guard_stats *sum)
{
    static struct ask asks[CROWD];
    fleet_init();
    fleet.config.mode = mode;
    fleet.config.max_loads = 64;
    fleet_open(2);
    source_shut(&fleet.source);
    unsigned begun = mode == GUARD_MODE_SHADOW ? CROWD : 1;
    for (size_t i = 0; i < CROWD; i++)
        ask_start(i % 2, &asks[i], "k");
    WAIT_UNTIL(FLEET_SUM(waiters) == CROWD && fleet.source.begun == begun);
    uint64_t busy = FLEET_SUM(lease_busy);
    WAIT_UNTIL(FLEET_SUM(lease_busy) > busy + 1); /* the last was asked when all were there */
    source_open(&fleet.source);
    for (size_t i = 0; i < CROWD; i++) {
        ask_wait(&asks[i]);
        assert_row(&asks[i].result, "k v1");
        assert_int_equal(asks[i].result.stored, mode == GUARD_MODE_FLEET);
        ask_clear(&asks[i]);
    }
    if (mode == GUARD_MODE_SHADOW)
        WAIT_UNTIL(FLEET_SUM(shadow_waits) == CROWD - 1 && FLEET_SUM(fill_stored) == 1);
    for (size_t i = 0; i < AGAIN; i++)
        expect_row(i % 2, "k", "k v1");
    unsigned loads = atomic_load(&fleet.source.begun);
    if (mode == GUARD_MODE_SHADOW)
        WAIT_UNTIL(FLEET_SUM(shadow_hits) == AGAIN);
    sum->shadow_saved = FLEET_SUM(shadow_saved);
    sum->shadow_hits = FLEET_SUM(shadow_hits);
    sum->shadow_waits = FLEET_SUM(shadow_waits);
    sum->shadow_loads = FLEET_SUM(shadow_loads);
    assert_int_equal(FLEET_SUM(lease_acquired), 1);
    fleet_close();
    return loads;
}

TEST(it_saves_on_paper_what_a_fleet_saves_in_the_same_schedule)
{
    struct guard_stats real, shadow;
    unsigned loads_of_fleet = play(GUARD_MODE_FLEET, &real);
    unsigned loads_of_shadow = play(GUARD_MODE_SHADOW, &shadow);
    assert_int_equal(loads_of_fleet, 1);
    assert_int_equal(loads_of_shadow, CROWD + AGAIN);
    assert_int_equal(shadow.shadow_loads, loads_of_fleet);
    assert_int_equal(shadow.shadow_saved, loads_of_shadow - loads_of_fleet);
    assert_int_equal(real.shadow_saved + real.shadow_loads, 0);
}

TEST(nobody_is_answered_with_what_is_stored)
{
    open_shadow(2);
    for (unsigned version = 1; version <= 6; version++) {
        char row[16];
        snprintf(row, sizeof row, "k v%u", version);
        atomic_store(&fleet.source.version, version); /* without an invalidation */
        struct guard_result result = expect_row(version % 2, "k", row);
        assert_int_equal(result.source, GUARD_FROM_LOAD);
        assert_int_equal(result.left_ms, 0);
        WAIT_UNTIL(FLEET_SUM(shadow_saved) == version - 1 && FLEET_SUM(fill_stored) == 1);
    }
    assert_int_equal(fleet.source.begun, 6);
    assert_false(is_cached("k"));
    assert_int_equal(stack_redis_number(&rig_redis, "EXISTS csg1:{%s~:k}:v", fleet.name_space), 1);
}

static void invalidate(bool of_tag)
{
    struct guard_invalidated invalidated;
    if (of_tag)
        invalidated = rig_invalidate(0, TAG_CHANGE("t", 0));
    else
        invalidated = rig_invalidate(0, KEY_CHANGE("k", 0));
    assert_true(invalidated.value_dropped);
}

/* The entry of the fleet is what callers are answered with; that of the shadow is what its counters are made of. */
TEST(what_is_invalidated_in_the_shadow_is_gone_from_the_fleet_beside_it, P82)
{
    for (int of_tag = 0; of_tag < 2; of_tag++) {
        fleet_init();
        fleet.policy.tagged = true;
        fleet.source.tag = "t";
        fleet.config.mode = GUARD_MODE_SHADOW;
        fleet_add();
        fleet.config.mode = GUARD_MODE_FLEET;
        fleet_open(2);
        expect_row(0, "k", "k v1");
        WAIT_UNTIL(FLEET_SUM(fill_stored) == 1);
        expect_row(1, "k", "k v1");
        atomic_store(&fleet.source.version, 2);
        invalidate(of_tag);
        expect_row(1, "k", "k v2");
        expect_row(0, "k", "k v2");
        WAIT_UNTIL(FLEET_SUM(shadow_loads) == 2);
        assert_int_equal(FLEET_SUM(shadow_saved), 0);
        assert_int_equal(FLEET_SUM(invalidated), 1);
        fleet_close();
    }
}

TEST(absent_rows_and_failures_would_be_remembered)
{
    static const enum source_verdict VERDICTS[] = {SOURCE_ABSENT, SOURCE_FAIL};
    static const enum guard_status STATUSES[] = {GUARD_ABSENT, GUARD_FAILED};
    for (size_t i = 0; i < 2; i++) {
        fleet_init();
        fleet.config.mode = GUARD_MODE_SHADOW;
        fleet.policy.failure_ms = 30000;
        fleet.source.verdict = VERDICTS[i];
        fleet_open(2);
        expect(0, "k", STATUSES[i]);
        WAIT_UNTIL(FLEET_SUM(shadow_loads) == 1 && FLEET_SUM(fill_stored) + FLEET_SUM(lease_released) == 1);
        expect(1, "k", STATUSES[i]);
        WAIT_UNTIL(FLEET_SUM(shadow_hits) == 1);
        assert_int_equal(fleet.source.begun, 2);
        fleet_close();
    }
}

TEST(no_get_notices_that_redis_is_away_or_hangs)
{
    enum { SOON_MS = 3500, LIMIT_MS = 4000 }; /* who waited for Redis would wait for its limit */
    for (int hangs = 0; hangs < 2; hangs++) {
        struct guard_invalidated invalidated;
        fleet_init();
        fleet.config.mode = GUARD_MODE_SHADOW;
        fleet.config.redis_limit_ms = LIMIT_MS;
        fleet.config.redis_url = hangs ? rig_redis.url : "unix:///nowhere/to/be/found";
        if (hangs)
            fleet_open(1);
        else
            fleet_add();
        if (hangs)
            stack_redis_pause(&rig_redis);
        uint64_t start_ms = rig_now_ms();
        for (int i = 0; i < 10; i++)
            assert_int_equal(expect_row(0, "k", "k v1").source, GUARD_FROM_LOAD);
        uint64_t took_ms = rig_now_ms() - start_ms;
        assert_int_equal(guard_invalidate_wait(fleet.guards[0], KEY_CHANGE("k", 0), &invalidated),
                         GUARD_UNKNOWN);
        if (hangs)
            stack_redis_resume(&rig_redis);
        assert_true(took_ms < SOON_MS);
        assert_int_equal(fleet.source.begun, 10);
        fleet_close();
    }
}

TEST(who_leaves_or_runs_out_of_time_takes_nothing_from_the_others)
{
    static struct ask leader, follower, hasty, other;
    open_shadow(1);
    source_shut(&fleet.source);
    ask_start(0, &leader, "k");
    WAIT_UNTIL(FLEET_SUM(shadow_loads) == 1);
    assert_int_equal(ask_try(0, &hasty, "k", 3000), GUARD_OK); /* its load begins */
    ask_start(0, &other, "k");
    ask_start(0, &follower, "k");
    WAIT_UNTIL(fleet.source.begun == 4);
    guard_cancel(fleet.guards[0], NULL, leader.ticket);
    guard_cancel(fleet.guards[0], NULL, follower.ticket);
    ask_wait(&leader);
    ask_wait(&follower);
    ask_wait(&hasty);
    assert_int_equal(leader.result.status, GUARD_CANCELLED);
    assert_int_equal(hasty.result.status, GUARD_TIMEOUT);
    source_open(&fleet.source);
    expect_answer(&other, "k v1");
    WAIT_UNTIL(FLEET_SUM(fill_stored) == 1);
    assert_int_equal(FLEET_SUM(shadow_saved), 1);
    assert_int_equal(FLEET_SUM(shadow_loads), 1);
}

TEST(it_closes_with_gets_under_way)
{
    static struct ask asks[CROWD];
    open_shadow(2);
    source_shut(&fleet.source);
    for (size_t i = 0; i < CROWD; i++)
        ask_start(i % 2, &asks[i], "k");
    WAIT_UNTIL(fleet.source.begun == CROWD);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(guard_close(&fleet.guards[i], 0), GUARD_OK);
    for (size_t i = 0; i < CROWD; i++) {
        ask_wait(&asks[i]);
        assert_int_equal(asks[i].result.status, GUARD_CLOSING);
    }
    fleet.count = 0;
}

TEST_GROUP(.up = rig_start, .down = rig_stop, .before = fleet_before, .end = fleet_close);
