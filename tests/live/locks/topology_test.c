/* SPDX-License-Identifier: MIT */
/*
 * topology_test.c - guards and locks where more than one server is involved: a master under three Sentinels.
 */
#include "locks_rig.h"
#include "tests/support/stack_sentinel.h"

enum { SWITCH_MS = STACK_SENTINEL_LIMIT_MS };

static struct stack_sentinel sentinels;

static bool start_servers(void)
{
    const struct stack_sentinel_options options = {
        .replica_count = 2, .down_after_ms = 3000, .failover_limit_ms = 2000, .hurried = true};
    return stack_sentinel_start(&sentinels, &options);
}

static bool stop_servers(void)
{
    stack_sentinel_stop(&sentinels);
    return true;
}

static bool before(void)
{
    return fleet_before() && locks_before();
}

static void fail_over(void)
{
    size_t old = stack_sentinel_master(&sentinels);
    assert_true(stack_sentinel_failover(&sentinels));
    assert_int_not_equal(stack_sentinel_wait_switch(&sentinels, old, SWITCH_MS), STACK_SENTINEL_NOBODY);
}

/* As its callers do: UNKNOWN is repeated. */
static void invalidate(size_t i, const char *key)
{
    struct guard_invalidated result = {.status = GUARD_UNKNOWN};
    for (int tries = 0; result.status != GUARD_OK; tries++) {
        assert_in_range(tries, 0, 60);
        guard_invalidate_wait(fleet.guards[i], &(const struct guard_change){.key = key}, &result);
    }
}

TEST(guards_and_locks_that_sentinels_lead_to_their_master_go_with_it_and_lose_nothing_that_was_confirmed,
     P137)
{
    char url[STACK_SENTINEL_URL_BYTES + 64];
    snprintf(url, sizeof url, "%s?wait_replicas=2&wait_ms=5000", sentinels.url);
    fleet.config.redis_url = url;
    locks_rig.url = sentinels.url;
    fleet_open(2);
    struct guard_locks *mine = locks_open(), *others = locks_open();
    struct guard_hold *hold = hold_name(mine, "job");
    expect_row(0, "k", "k v1");
    expect_row(1, "k", "k v1");
    assert_int_equal(FLEET_SUM(loaded), 1);
    atomic_store(&fleet.source.version, 2);
    invalidate(0, "k");
    fail_over();
    expect_row(1, "k", "k v2");
    /* It is sent again all the same: without wait_replicas it could be lost. */
    WAIT_UNTIL(stats_of(fleet.guards[0]).replayed >= 1);
    WAIT_UNTIL(expect_row(1, "k", "k v2").source == GUARD_FROM_CACHE);
    assert_true(stats_of(fleet.guards[0]).redis_reigns > 0);
    const char *name = "job";
    struct guard_lock_request request = lock_request(GUARD_LOCK_FAIR, &name);
    request.wait_ms = 0;
    WAIT_UNTIL(locks_are_up(mine) && locks_are_up(others));
    assert_string_equal(guard_lock_status_name(lock_of(others, &request).status), "busy");
    assert_given(&hold);
    hold = hold_name(others, "job");
    assert_given(&hold);
    fleet_close();
}

TEST(locks_refuse_a_cluster_by_name, P132)
{
    static const char *const urls[] = {"redis+cluster://:hush@a,b", "rediss+cluster://:hush@a"};
    for (size_t i = 0; i < 2; i++) {
        struct guard_locks *locks = NULL;
        struct guard_error error = {.text = ""};
        locks_rig.url = urls[i];
        assert_int_equal(guard_locks_open(&locks_rig.config, &locks, &error), GUARD_INVALID);
        assert_null(locks);
        assert_non_null(strstr(error.text, "no locks in a redis+cluster://"));
        assert_null(strstr(error.text, "hush"));
    }
}

TEST_GROUP(.up = start_servers, .down = stop_servers, .before = before, .after = locks_after);
