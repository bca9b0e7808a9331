/* SPDX-License-Identifier: MIT */
/* cold_test.c - what may keep a round waiting. */
#include "load/base/clock.h"
#include "load/play/cold.h"
#include "tests/support/test.h"

#include <hiredis/hiredis.h>

static struct stack_redis redis;

static bool start(void)
{
    return stack_redis_start(&redis, NULL);
}

static bool stop(void)
{
    stack_redis_stop(&redis);
    return true;
}

TEST(a_key_that_is_renewed_before_it_expires_holds_no_round_for_ever, P102)
{
    char why[SCENARIO_WHY_BYTES] = "";
    uint64_t instant_us;
    struct scenario *scenario = scenario_new();
    struct servers servers = {.scenario = scenario};
    struct cold cold = {.servers = &servers};
    snprintf(scenario->redis_url, sizeof scenario->redis_url, "%s", redis.url);
    snprintf(scenario->expiry_key, sizeof scenario->expiry_key, "k");
    freeReplyObject(stack_redis_command(&redis, "SET k 1 PX 50000"));
    assert_int_equal(cold_look(&cold, 1, &instant_us, why), COLD_WAITING);
    cold.look_us = 0; /* as if its end was near */
    freeReplyObject(stack_redis_command(&redis, "PEXPIRE k 50000"));
    cold.end_us -= 20000000; /* and 20 s had passed */
    assert_int_equal(cold_look(&cold, 1, &instant_us, why), COLD_FAILED);
    assert_string_equal(why, "at-expiry: the key k is renewed before it expires");
    cold_clear(&cold);
    scenario_free(&scenario);
}

TEST_GROUP(.up = start, .down = stop);
