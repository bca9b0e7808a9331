/* SPDX-License-Identifier: MIT */
/*
 * wrong_redis_test.c - a REDIS_URL that leads to something else than it says: the process says what, and serves on.
 *
 * Which word there is for each mistake is told in live/sentinel_test.c, live/cluster_test.c and live/tls_test.c.
 */
#include "load/base/clock.h"
#include "tests/support/fleet.h"
#include "tests/support/stack_certificates.h"
#include "tests/support/stack_sentinel.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#define SECRET "hidden-5e1f" /* in each URL */

enum {
    CONNECT_LIMIT_MS = 1000, /* guard_config's */
    STILL_MS = 9000 /* how long this machine may stand still meanwhile, and the process take to start */
};

/* ---- what it says ---- */

static void expect_no_secret_at(const char *path)
{
    struct http_answer answer;
    assert_true(fleet_ask_ops(0, NULL, path, &answer));
    assert_null(strstr(answer.body, SECRET));
    http_answer_clear(&answer);
}

static void expect_no_secret(void)
{
    assert_int_equal(stack_log_count(fleet.catalogd[0].log_path, 0, SECRET), 0);
    expect_no_secret_at("/readyz");
    expect_no_secret_at("/metrics");
}

static void wait_said(const char *line, uint32_t limit_ms)
{
    uint64_t end_us = clock_after_ms(limit_ms);
    while (stack_log_count(fleet.catalogd[0].log_path, 0, line) == 0) {
        if (clock_us() >= end_us) {
            proc_show_tail(fleet.catalogd[0].log_path);
            fail_msg("the log has no line with \"%s\"", line);
        }
        clock_pause_ms(5);
    }
}

/* Nothing is stored: each request is a load. */
static void expect_served(void)
{
    char path[BURST_PATH_BYTES];
    fleet_cold_product(path);
    fleet_mark();
    for (uint32_t i = 1; i <= 2; i++) {
        assert_int_equal(fleet_ask_status(0, path), 200);
        assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), i);
    }
}

/* `place`: what stands behind the password. */
static void expect_said(const char *line, const char *scheme, const char *place)
{
    char setting[160];
    const char *const settings[] = {setting, "REDIS_LIMIT_MS=50", "OUTAGE_MS=0", NULL};
    snprintf(setting, sizeof setting, "REDIS_URL=%s://:" SECRET "@%s", scheme, place);
    assert_true(fleet_start(0, NULL));
    assert_true(fleet_add(settings));
    wait_said(line, CONNECT_LIMIT_MS + STILL_MS);
    expect_served();
    expect_no_secret();
}

TEST(one_redis_is_no_cluster)
{
    char place[32];
    snprintf(place, sizeof place, "127.0.0.1:%u", (unsigned)fleet.redis.port);
    assert_true(stack_redis_do(&fleet.redis, "CONFIG SET requirepass " SECRET));
    expect_said("this is a single Redis: the URL must begin with redis://", "redis+cluster", place);
}

TEST(a_host_without_an_address_is_said)
{
    expect_said("cache.invalid", "redis", "cache.invalid");
}

/* The password ends with this Redis. */
static bool end_and_begin_anew(void)
{
    bool ended = fleet_end();
    return stack_redis_restart(&fleet.redis) && ended;
}

TEST_GROUP(.up = fleet_up, .down = fleet_down, .after = end_and_begin_anew);
