/* SPDX-License-Identifier: MIT */
/*
 * outage_test.c - whole guards while Redis is killed, stopped or cut off: what they go on answering, and what not.
 *
 * outage_ms is ten minutes, so that it is never the reason why an answer is loaded; how long it lasts is
 * unit/outage_test's.
 */
#include "guard_rig.h"
#include "load/stack/proxy.h"

enum { LONG_MS = 600000, REDIS_LIMIT_MS = 4000, MACHINE_MS = 1500 };

static struct stack_redis redis; /* of the test */
static struct proxy *proxy;

static void outage_init(void)
{
    fleet_init();
    fleet.config.redis_limit_ms = REDIS_LIMIT_MS;
    fleet.policy.outage_ms = fleet.policy.fresh_ms = fleet.policy.absent_ms = LONG_MS;
}

static bool outage_before(void)
{
    redis = (struct stack_redis){.pid = 0};
    if (!stack_redis_start(&redis, NULL))
        return false;
    outage_init();
    fleet.config.redis_url = redis.url;
    return true;
}

static bool outage_after(void)
{
    stack_redis_stop(&redis);
    if (proxy != NULL)
        proxy_close(&proxy);
    return true;
}

static unsigned loads(void)
{
    return atomic_load(&fleet.source.begun);
}

static struct guard_stats stats_of_first(void)
{
    return stats_of(fleet.guards[0]);
}

/* Redis is gone, and the first guard knows. */
static void kill_redis(void)
{
    stack_redis_kill(&redis);
    WAIT_UNTIL(stats_of_first().redis_state != GUARD_REDIS_UP &&
               stats_of_first().wake_state != GUARD_REDIS_UP);
}

static void restart_redis(void)
{
    assert_true(stack_redis_restart(&redis));
    WAIT_UNTIL(is_up(fleet.guards[0]));
}

static void expect_kept(size_t i, const char *key, const char *row)
{
    struct guard_result result = expect_row(i, key, row);
    assert_int_equal(result.source, GUARD_FROM_KEPT);
    assert_false(result.stored);
}

/* ---- away for all ---- */

TEST(what_was_answered_is_answered_while_redis_is_away_and_not_after)
{
    struct guard_result result;
    fleet_open(1);
    expect_row(0, "loaded", "loaded v1");
    expect_row(0, "found", "found v1");
    expect_row(0, "found", "found v1");
    kill_redis();
    assert_int_equal(now_of(0, "found", &result), GUARD_NOW); /* no thread, no flight */
    assert_row(&result, "found v1");
    assert_int_equal(result.source, GUARD_FROM_KEPT);
    assert_in_range(result.age_ms + result.left_ms, LONG_MS - 2, LONG_MS);
    guard_value_unref(&result.value);
    for (int i = 0; i < 100; i++)
        expect_kept(0, i % 2 == 0 ? "loaded" : "found", i % 2 == 0 ? "loaded v1" : "found v1");
    assert_int_equal(loads(), 2);
    assert_int_equal(stats_of_first().kept, 101);
    assert_int_equal(stats_of_first().hit, 1);
    atomic_store(&fleet.source.version, 2);
    restart_redis();
    assert_int_not_equal(expect_row(0, "found", "found v2").source, GUARD_FROM_KEPT);
    assert_int_not_equal(expect_row(0, "loaded", "loaded v2").source, GUARD_FROM_KEPT);
    assert_int_equal(stats_of_first().near_cleared, 2);
}

static void note_unkept(void *context, const char *text, bool good)
{
    if (!good && strstr(text, "near_bytes is 0") != NULL)
        atomic_fetch_add((atomic_uint *)context, 1);
}

TEST(without_memory_for_it_the_log_says_so)
{
    static atomic_uint said;
    fleet.config.log = note_unkept;
    fleet.config.log_context = &said;
    fleet_open(1);
    assert_int_equal(said, 0);
    fleet.config.near_bytes = 0;
    fleet_add();
    assert_int_equal(said, 1);
    fleet.policy.outage_ms = 0;
    fleet_add();
    assert_int_equal(said, 1);
}

/* ---- hung ---- */

/* Which is not known before half of the limit, and then at once. */
TEST(a_hung_redis_costs_half_of_its_limit_and_no_load)
{
    static struct ask asks[5];
    fleet_open(1);
    for (size_t i = 0; i < 5; i++)
        expect_row(0, "k", "k v1");
    stack_redis_pause(&redis);
    uint64_t begun_ms = rig_now_ms();
    for (size_t i = 0; i < 5; i++)
        ask_start(0, &asks[i], "k");
    for (size_t i = 0; i < 5; i++) {
        ask_wait(&asks[i]);
        assert_int_equal(asks[i].result.source, GUARD_FROM_KEPT);
        assert_row(&asks[i].result, "k v1");
        ask_clear(&asks[i]);
    }
    assert_in_range(rig_now_ms() - begun_ms, REDIS_LIMIT_MS / 2 - 10, REDIS_LIMIT_MS / 2 + MACHINE_MS);
    WAIT_UNTIL(stats_of_first().redis_state != GUARD_REDIS_UP);
    expect_kept(0, "k", "k v1");
    assert_int_equal(loads(), 1);
    stack_redis_resume(&redis);
    WAIT_UNTIL(is_up(fleet.guards[0]));
    assert_int_equal(expect_row(0, "k", "k v1").source, GUARD_FROM_CACHE);
}

/* A message that was lost, say. */
TEST(what_redis_has_no_more_is_loaded_though_it_is_kept)
{
    fleet_open(1);
    expect_row(0, "k", "k v1");
    expect_row(0, "k", "k v1");
    atomic_store(&fleet.source.version, 2);
    assert_int_equal(stack_redis_number(&redis, "DEL csg1:{%s:k}:v", fleet.name_space), 1);
    assert_int_equal(expect_row(0, "k", "k v2").source, GUARD_FROM_LOAD);
}

/* It is no master that works: another one may have been told of changes. */
TEST(what_was_kept_goes_when_a_master_has_lost_its_replicas_and_what_is_loaded_then_is_kept)
{
    fleet_open(1);
    expect_row(0, "k", "k v1");
    atomic_store(&fleet.source.version, 2);
    assert_true(stack_redis_do(&redis, "CONFIG SET min-replicas-to-write 1"));
    expect_row(0, "k", "k v2");
    WAIT_UNTIL(stats_of_first().redis_state == GUARD_REDIS_FENCED);
    expect_kept(0, "k", "k v2");
    assert_true(stack_redis_do(&redis, "CONFIG SET min-replicas-to-write 0"));
    WAIT_UNTIL(is_up(fleet.guards[0]));
}

/* ---- cut off, while another process is not ---- */

static void cut_off(bool cut)
{
    proxy_set(proxy, 0, cut ? PROXY_RESET : PROXY_NONE, 0);
}

/* The first guard comes through the proxy, the second does not. */
static void open_two(void)
{
    static char url[64];
    assert_true(proxy_open_to(redis.port, &proxy));
    snprintf(url, sizeof url, "redis://127.0.0.1:%u/0", (unsigned)proxy_port(proxy, 0));
    fleet.config.redis_url = url;
    fleet_add();
    fleet.config.redis_url = redis.url;
    fleet_open(2);
    for (size_t i = 0; i < 2; i++) {
        expect_row(i, "k", "k v1");
        expect_row(i, "k", "k v1");
    }
    cut_off(true);
    WAIT_UNTIL(stats_of_first().redis_state != GUARD_REDIS_UP &&
               stats_of_first().wake_state != GUARD_REDIS_UP);
}

/* Unconfirmed as it is. */
TEST(an_invalidation_by_this_process_shows_at_once)
{
    struct guard_invalidated invalidated;
    struct guard_cleared cleared;
    open_two();
    atomic_store(&fleet.source.version, 2);
    assert_int_equal(guard_invalidate_wait(fleet.guards[0], KEY_CHANGE("k", 50), &invalidated),
                     GUARD_UNKNOWN);
    expect_row(0, "k", "k v2");
    expect_kept(0, "k", "k v2");
    atomic_store(&fleet.source.version, 3);
    assert_int_equal(guard_clear_wait(fleet.guards[0], 50, &cleared), GUARD_UNKNOWN);
    expect_row(0, "k", "k v3");
    expect_kept(0, "k", "k v3");
    cut_off(false);
    WAIT_UNTIL(is_up(fleet.guards[0]));
}

/* ---- who asks ---- */

TEST(of_many_each_has_its_own_and_at_once_only_if_all_are_there)
{
    static const char *const keys[] = {"a", "b", "c"};
    struct guard_result results[3];
    fleet_open(1);
    expect_row(0, "a", "a v1");
    expect_row(0, "b", "b v1");
    kill_redis();
    struct guard_request request = {.kind = fleet.kinds[0], .keys = keys, .count = 3};
    for (int round = 0; round < 2; round++) {
        assert_int_equal(guard_get_wait(fleet.guards[0], &request, results), GUARD_OK);
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(results[i].status, GUARD_OK);
            assert_int_equal(results[i].source == GUARD_FROM_KEPT, i < 2 || round == 1);
            guard_value_unref(&results[i].value);
        }
        atomic_fetch_add(&fleet.accepted[0], 3);
        atomic_fetch_add(&fleet.answered, 3);
    }
    request.answered = now_unasked;
    assert_int_equal(guard_get(fleet.guards[0], &request, results, NULL), GUARD_NOW);
    atomic_fetch_add(&fleet.accepted[0], 3);
    atomic_fetch_add(&fleet.answered, 3);
    for (size_t i = 0; i < 3; i++)
        guard_value_unref(&results[i].value);
    assert_int_equal(loads(), 3);
}

TEST(in_modes_without_an_answer_from_the_cache_nothing_is_kept)
{
    static const enum guard_mode MODES[] = {GUARD_MODE_OFF, GUARD_MODE_SHADOW};
    for (size_t i = 0; i < 2; i++) {
        fleet.config.mode = MODES[i];
        fleet_open(1);
        expect_row(0, "k", "k v1");
        kill_redis();
        for (int load = 0; load < 3; load++)
            assert_int_equal(expect_row(0, "k", "k v1").source, GUARD_FROM_LOAD);
        assert_int_equal(stats_of_first().kept, 0);
        fleet_close();
        assert_true(stack_redis_restart(&redis));
        outage_init();
        fleet.config.redis_url = redis.url;
    }
    fleet.config.mode = GUARD_MODE_LOCAL;
    fleet_open(1);
    expect_row(0, "k", "k v1");
    kill_redis();
    expect_kept(0, "k", "k v1");
}

TEST_GROUP(.before = outage_before, .after = outage_after, .end = fleet_close);
