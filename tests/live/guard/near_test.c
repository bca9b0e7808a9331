/* SPDX-License-Identifier: MIT */
/*
 * near_test.c - the near cache in whole guards: what it answers, and when each process hears of an invalidation.
 *
 * near_ms is a minute wherever a test waits for a value to go, so that it cannot be the reason.
 */
#include "guard_rig.h"

enum { NEAR_BYTES = 1 << 20, LONG_MS = 60000, ROUNDS = 200 };

static void near_init(void)
{
    fleet_init();
    fleet.config.near_bytes = NEAR_BYTES;
    fleet.policy.near_ms = LONG_MS;
}

TEST(what_was_found_in_redis_is_answered_without_it)
{
    struct guard_result result;
    near_init();
    fleet_open(1);
    assert_false(is_near(0, "k"));
    bring_near(0, "k", "k v1");
    uint64_t lookups = stack_redis_calls(&rig_redis, "pttl");
    for (int i = 0; i < ROUNDS; i++) {
        assert_true(near_of(0, "k", &result));
        assert_row(&result, "k v1");
        assert_int_equal(result.source, GUARD_FROM_NEAR);
        assert_true(result.stored);
        assert_in_range(result.age_ms + result.left_ms, fleet.policy.fresh_ms - 2, fleet.policy.fresh_ms);
        guard_value_unref(&result.value);
    }
    assert_int_equal(expect_row(0, "k", "k v1").source, GUARD_FROM_NEAR); /* the blocking form looks too */
    assert_int_equal(stack_redis_calls(&rig_redis, "pttl"), lookups);
    assert_int_equal(fleet.source.begun, 1);
}

TEST(a_request_is_answered_by_the_call_if_all_its_keys_are_near, P144)
{
    static const char *const keys[] = {"a", "b", "a"};
    struct guard_result results[3];
    near_init();
    fleet_open(1);
    bring_near(0, "a", "a v1");
    bring_near(0, "b", "b v1");
    assert_int_equal(now_of(0, "a", results), GUARD_NOW);
    assert_row(&results[0], "a v1");
    guard_value_unref(&results[0].value);
    struct guard_request request = {
        .kind = fleet.kinds[0], .keys = keys, .count = 3, .answered = now_unasked};
    atomic_fetch_add(&fleet.accepted[0], 3);
    assert_int_equal(guard_get(fleet.guards[0], &request, results, NULL), GUARD_NOW);
    atomic_fetch_add(&fleet.answered, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_row(&results[i], i == 1 ? "b v1" : "a v1");
        assert_int_equal(results[i].source, GUARD_FROM_NEAR);
        guard_value_unref(&results[i].value);
    }
}

TEST(another_process_hears_of_it, P45)
{
    near_init();
    fleet_open(2);
    bring_near(1, "k", "k v1");
    bring_near(1, "other", "other v1");
    atomic_store(&fleet.source.version, 2);
    rig_invalidate(0, KEY_CHANGE("k", RIG_LIMIT_MS));
    WAIT_UNTIL(!is_near(1, "k"));
    expect_row(1, "k", "k v2");
    assert_true(is_near(1, "other"));
    assert_int_equal(stats_of(fleet.guards[1]).near_dropped, 1);
}

/* The name of Redis, which leads to another from now on. */
static void lead_to(const struct stack_redis *redis, const char *name)
{
    char other[PROC_PATH_BYTES + 48];
    snprintf(other, sizeof other, "%s.to", name);
    assert_int_equal(symlink(redis->socket_path, other), 0);
    assert_int_equal(rename(other, name), 0);
}

/* What it has is the old master's word; that of the new one is not heard yet. */
TEST(another_master_empties_it, P85)
{
    struct stack_redis next = {.pid = 0};
    char name[PROC_PATH_BYTES + 32], url[PROC_PATH_BYTES + 64];
    snprintf(name, sizeof name, "%s/name", rig_redis.folder);
    snprintf(url, sizeof url, "unix://%s", name);
    lead_to(&rig_redis, name);
    near_init();
    fleet.config.redis_url = url;
    fleet_open(1);
    bring_near(0, "k", "k v1");
    assert_true(stack_redis_start(&next, NULL));
    lead_to(&next, name);
    assert_true(is_near(0, "k"));
    assert_int_equal(stats_of(fleet.guards[0]).redis_reigns, 0);
    rig_do("REPLICAOF 127.0.0.1 1");
    WAIT_UNTIL(!is_near(0, "k")); /* nobody has asked for it */
    assert_true(stats_of(fleet.guards[0]).redis_reigns > 0);
    WAIT_UNTIL(is_up(fleet.guards[0]) && stats_of(fleet.guards[0]).near_bytes == 0);
    atomic_store(&fleet.source.version, 2);
    bring_near(0, "k", "k v2");
    fleet_close();
    rig_do("REPLICAOF NO ONE");
    stack_redis_stop(&next);
    unlink(name);
}

TEST_GROUP(.up = rig_start, .down = rig_stop, .before = fleet_before, .end = fleet_close);
