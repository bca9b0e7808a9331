/* SPDX-License-Identifier: MIT */
/*
 * kept_test.c - scripts that count as done only once replicas have what they did (wait_replicas in the URL), on one
 * real master with two replicas.
 */
#include "guard/wire/protocol.h"
#include "load/stack/stack.h"
#include "tests/support/redis_rig.h"
#include <stdio.h>
#include <string.h>

enum { SCRIPTS_AT_ONCE = 20, SYNC_MS = 40000 };

static struct stack_redis master, replicas[2];

#define tell(redis, ...) assert_true(stack_redis_do(redis, __VA_ARGS__))

static bool start_servers(void)
{
    uv_loop_t loop; /* what libuv opens once is opened here */
    return stack_redis_start(&master, NULL) && stack_redis_start_replica(&replicas[0], &master) &&
           stack_redis_start_replica(&replicas[1], &master) && uv_loop_init(&loop) == 0 &&
           uv_loop_close(&loop) == 0;
}

static bool stop_servers(void)
{
    stack_redis_stop(&replicas[0]);
    stack_redis_stop(&replicas[1]);
    stack_redis_stop(&master);
    return true;
}

static bool heal_servers(void)
{
    stack_redis_resume(&master);
    for (size_t i = 0; i < 2; i++) {
        stack_redis_resume(&replicas[i]);
        assert_true(stack_redis_wait_in_sync(&replicas[i], &master, SYNC_MS));
    }
    return true;
}

static void start(unsigned wait_replicas, unsigned wait_ms)
{
    char url[128];
    snprintf(url, sizeof url, "%s?wait_replicas=%u&wait_ms=%u", master.url, wait_replicas, wait_ms);
    rig_start(url);
    rig_wait_up();
}

static void send_invalidate(struct call *call)
{
    const char *argv[] = {"{k}:v", "{k}:l", "{k}:e", "{k}:w", "wake", "i - k", "h", "0"};
    struct redis_args args;
    redis_args_init(&args);
    for (size_t i = 0; i < 8; i++)
        (i < 4 ? redis_args_key : redis_args_add)(&args, argv[i], strlen(argv[i]));
    *call = (struct call){.answered = 0};
    assert_true(redis_run(rig.redis, REDIS_REPLICATED, SCRIPT_INVALIDATE, &args, call_replied, call));
    assert_int_equal(call->answered, 0);
}

static void invalidate(struct call *call)
{
    send_invalidate(call);
    rig_wait_until(call->answered > 0);
}

static void expect_kept(void)
{
    struct call call;
    tell(&master, "SET {k}:v x");
    invalidate(&call);
    assert_int_equal(call.outcome, REDIS_REPLIED);
    assert_int_equal(call.integer, 1);
}

/* With a short wait_ms a machine that stands still leaves it in doubt once. */
static void expect_kept_at_last(void)
{
    struct call call = {.answered = 0};
    for (int i = 0; call.outcome != REDIS_REPLIED || call.answered == 0; i++) {
        assert_in_range(i, 0, 100);
        invalidate(&call);
    }
}

static void expect_doubt(void)
{
    struct call call;
    tell(&master, "SET {k}:v x");
    invalidate(&call);
    assert_int_equal(call.outcome, REDIS_UNKNOWN);
}

/* ---- replicas that are there, and one that is not ---- */

static bool has_value(struct stack_redis *redis)
{
    const long long count = stack_redis_number(redis, "EXISTS {k}:v");
    assert_int_not_equal(count, STACK_REDIS_NO_NUMBER);
    return count == 1;
}

TEST(what_was_confirmed_is_on_every_replica_that_was_waited_for, P136)
{
    start(2, 10000);
    for (int i = 0; i < 10; i++) {
        expect_kept();
        assert_false(has_value(&replicas[0]) || has_value(&replicas[1]));
    }
}

/* Told by Redis, after wait_ms and not by a limit of ours: the connection stays. */
TEST(one_replica_that_stands_still_leaves_it_unknown_and_one_of_two_does_not, P136)
{
    start(2, 100);
    expect_kept_at_last();
    stack_redis_pause(&replicas[1]);
    uint64_t waits = stack_redis_calls(&master, "wait");
    expect_doubt();
    assert_int_equal(stack_redis_calls(&master, "wait") - waits, 1);
    assert_int_equal(atomic_load(&rig.counters.timeouts), 0);
    assert_int_equal(atomic_load(&rig.counters.connects), 2);
    stack_redis_resume(&replicas[1]);
    assert_true(stack_redis_wait_in_sync(&replicas[1], &master, SYNC_MS));
    expect_kept_at_last();
    rig_finish();
    stack_redis_pause(&replicas[1]);
    start(1, 10000);
    expect_kept();
}

/* Or twenty of them would take twenty times wait_ms. */
TEST(scripts_that_come_while_one_waits_share_the_next_wait)
{
    static struct call calls[SCRIPTS_AT_ONCE];
    uint64_t waits = stack_redis_calls(&master, "wait");
    start(2, 100);
    stack_redis_pause(&replicas[1]);
    for (size_t i = 0; i < SCRIPTS_AT_ONCE; i++)
        send_invalidate(&calls[i]);
    rig_wait_until(calls[SCRIPTS_AT_ONCE - 1].answered > 0);
    for (size_t i = 0; i < SCRIPTS_AT_ONCE; i++)
        assert_true(calls[i].answered == 1 && calls[i].outcome == REDIS_UNKNOWN);
    assert_int_equal(stack_redis_calls(&master, "wait") - waits, 2);
}

/* ---- what goes wrong ---- */

/* The WAIT of the first attempt has seen nothing of it. */
TEST(a_script_that_redis_had_forgotten_has_a_wait_of_its_own)
{
    start(2, 10000);
    expect_kept();
    uint64_t waits = stack_redis_calls(&master, "wait");
    tell(&master, "SCRIPT FLUSH");
    expect_kept();
    assert_int_equal(stack_redis_calls(&master, "wait") - waits, 2);
}

TEST(a_master_that_is_lost_before_it_has_waited_leaves_it_unknown, P136)
{
    static struct call call;
    start(2, 10000);
    expect_kept();
    stack_redis_pause(&replicas[1]);
    uint64_t waits = stack_redis_calls(&master, "evalsha");
    send_invalidate(&call);
    while (stack_redis_calls(&master, "evalsha") == waits)
        assert_true(rig_turn());
    tell(&master, "CLIENT KILL TYPE normal SKIPME yes");
    rig_wait_until(call.answered > 0);
    assert_int_equal(call.outcome, REDIS_UNKNOWN);
}

TEST(closing_answers_what_waits)
{
    static struct call calls[2];
    start(2, 10000);
    expect_kept();
    stack_redis_pause(&replicas[1]);
    send_invalidate(&calls[0]);
    uint64_t scripts = stack_redis_calls(&master, "evalsha");
    while (stack_redis_calls(&master, "evalsha") == scripts)
        assert_true(rig_turn());
    send_invalidate(&calls[1]);
    rig_close();
    assert_true(calls[0].answered == 1 && calls[0].outcome == REDIS_UNKNOWN);
    assert_true(calls[1].answered == 1 && calls[1].outcome == REDIS_UNSENT);
}

TEST_GROUP(.up = start_servers, .down = stop_servers, .before = rig_forget, .after = heal_servers,
           .end = rig_finish);
