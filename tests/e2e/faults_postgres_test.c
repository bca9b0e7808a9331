/* SPDX-License-Identifier: MIT */
/*
 * faults_postgres_test.c - two processes in the middle of a stampede, and what can happen to PostgreSQL
 * meanwhile.
 *
 * A load that fails answers all requests 503 with Retry-After, in both processes, and is not tried again within
 * its failure window; a load that hangs answers them at their deadline. When PostgreSQL recovers, so does the
 * service, by itself.
 */
#include "tests/support/probe.h"

#include "load/base/net.h"
#include "tests/support/test.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>

enum { PROCESSES = 2, REQUESTS = 1000 };

/* The query lasts until the fault can strike; the window is longer than a burst, so that one burst is one attempt. */
#define SLOW "LOAD_DELAY_MS=1500"
#define ONE_ATTEMPT "FAILURE_MS=20000", "JITTER_PERCENT=0"
static const char *const settings[] = {SLOW, ONE_ATTEMPT, NULL};

typedef bool fault(void);

struct act {
    fault *happens;
    bool happened;
};

static void happen_while_the_query_runs(void *context)
{
    struct act *act = context;
    act->happened = fleet_wait_loads(FLEET_LOAD_PRODUCT, 1) && act->happens();
}

/* So many requests on a cold product, with the fault in their middle. Returns the product. */
static uint32_t burst_through(fault *happens, struct probe_burst *burst)
{
    char path[BURST_PATH_BYTES];
    struct act act = {.happens = happens};
    const struct burst_event event = {.run = happen_while_the_query_runs, .context = &act};
    uint32_t product = fleet_cold_product(path);
    fleet_mark();
    assert_true(probe_ask_all(path, REQUESTS, &event, burst));
    assert_true(act.happened);
    return product;
}

static void expect_all_refused(const struct probe_burst *burst)
{
    assert_int_equal(burst->summary.statuses[503], REQUESTS);
    assert_int_equal(burst->unadvised, 0);
}

static void expect_recovery(void)
{
    assert_true(probe_recovers(REQUESTS));
    for (size_t i = 0; i < fleet.count; i++) {
        assert_true(fleet_metric(i, "guard_loads_duplicate_total") == 0);
        assert_true(fleet_metric(i, "guard_loads_running") == 0);
    }
    assert_int_equal(probe_lease_count(), 0);
}

/* ---- stopped ---- */

static bool postgresql_is_stopped(void)
{
    stack_postgres_pause(&fleet.postgres);
    return true;
}

TEST(a_load_that_hangs_in_a_stopped_postgresql_ends_at_its_limit_for_all, P61)
{
    const char *const limited[] = {SLOW, "LOAD_LIMIT_MS=4000", ONE_ATTEMPT, NULL};
    enum { LIMIT_MS = 4000, MACHINE_MS = 8000 };
    struct probe_burst burst;
    assert_true(fleet_start(PROCESSES, limited));
    burst_through(postgresql_is_stopped, &burst);
    expect_all_refused(&burst);
    assert_true(burst.summary.max_us < (uint64_t)(LIMIT_MS + MACHINE_MS) * 1000);
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), 1);
    assert_int_equal(probe_lease_count(), 0);
    stack_postgres_resume(&fleet.postgres);
    expect_recovery();
}

/* ---- gone ---- */

static bool postgresql_is_restarted(void)
{
    return stack_postgres_restart(&fleet.postgres);
}

TEST(a_restart_of_postgresql_fails_the_load_once_and_the_next_one_works, P61)
{
    struct probe_burst burst;
    assert_true(fleet_start(PROCESSES, settings));
    burst_through(postgresql_is_restarted, &burst);
    expect_all_refused(&burst);
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), 1);
    expect_recovery();
}

static bool postgresql_is_killed(void)
{
    stack_postgres_kill(&fleet.postgres);
    return true;
}

TEST(a_killed_postgresql_is_503_at_once_until_it_is_back, P61)
{
    struct probe_burst burst;
    char path[BURST_PATH_BYTES];
    assert_true(fleet_start(PROCESSES, settings));
    burst_through(postgresql_is_killed, &burst);
    expect_all_refused(&burst);
    fleet_cold_product(path);
    assert_true(probe_ask_all(path, REQUESTS, NULL, &burst));
    expect_all_refused(&burst);
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), 1);
    assert_true(stack_postgres_restart(&fleet.postgres));
    expect_recovery();
}

TEST(processes_that_start_without_postgresql_say_503_and_serve_when_it_comes, P66)
{
    struct probe_burst burst;
    char path[BURST_PATH_BYTES];
    assert_true(fleet_start(0, NULL));
    stack_postgres_kill(&fleet.postgres);
    for (size_t i = 0; i < PROCESSES; i++)
        assert_true(fleet_add(settings));
    for (size_t i = 0; i < PROCESSES; i++)
        assert_true(probe_wait_draining(i)); /* /readyz refuses */
    fleet_cold_product(path);
    assert_true(probe_ask_all(path, REQUESTS, NULL, &burst));
    expect_all_refused(&burst);
    assert_true(stack_postgres_restart(&fleet.postgres));
    expect_recovery();
}

TEST_GROUP(.up = fleet_up, .down = fleet_down, .after = fleet_end);
