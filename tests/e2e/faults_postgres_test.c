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

TEST(a_load_that_hangs_in_a_stopped_postgresql_ends_at_its_limit_for_all)
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

TEST(waiters_leave_at_their_deadline_and_the_load_is_stored_when_postgresql_goes_on)
{
    const char *const impatient[] = {
        SLOW, "REDIS_LIMIT_MS=1500", "LEASE_MS=15000", "DEADLINE_MS=3000", "LOAD_LIMIT_MS=25000", NULL};
    enum { LIMIT_MS = 25000 };
    struct probe_burst burst;
    char path[BURST_PATH_BYTES];
    assert_true(fleet_start(PROCESSES, impatient));
    uint32_t product = burst_through(postgresql_is_stopped, &burst);
    assert_int_equal(burst.summary.statuses[504], REQUESTS);
    assert_true(burst.summary.max_us < (uint64_t)LIMIT_MS * 1000 / 2);
    assert_false(probe_has(product, PROBE_VALUE));
    assert_true(probe_has(product, PROBE_LEASE));
    stack_postgres_resume(&fleet.postgres);
    assert_true(probe_wait_for(product, PROBE_VALUE));
    snprintf(path, sizeof path, "/products/%u", (unsigned)product);
    for (size_t i = 0; i < PROCESSES; i++)
        assert_int_equal(fleet_ask_status(i, path), 200);
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), 1);
    expect_recovery();
}

/* ---- gone ---- */

static bool postgresql_is_restarted(void)
{
    return stack_postgres_restart(&fleet.postgres);
}

TEST(a_restart_of_postgresql_fails_the_load_once_and_the_next_one_works)
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

TEST(a_killed_postgresql_is_503_at_once_until_it_is_back)
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

TEST(processes_that_start_without_postgresql_say_503_and_serve_when_it_comes)
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

/* ---- refusing ---- */

#define TERMINATE                                                                                            \
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'catalogd'"

static bool every_session_is_terminated(void)
{
    return fleet_sql(NULL, 0, TERMINATE);
}

TEST(terminated_sessions_fail_the_running_load_once)
{
    struct probe_burst burst;
    assert_true(fleet_start(PROCESSES, settings));
    burst_through(every_session_is_terminated, &burst);
    expect_all_refused(&burst);
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), 1);
    expect_recovery();
}

static bool nobody_has_a_session(void *context)
{
    char count[16] = "";
    (void)context;
    fleet_sql(count, sizeof count,
              "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'catalogd'");
    return strcmp(count, "0") == 0;
}

TEST(sessions_terminated_while_idle_are_replaced_before_anything_is_sent)
{
    char path[BURST_PATH_BYTES];
    struct probe_burst burst;
    assert_true(fleet_start(PROCESSES, settings));
    for (size_t i = 0; i < PROCESSES; i++) {
        fleet_cold_product(path);
        assert_int_equal(fleet_ask_status(i, path), 200);
    }
    assert_true(every_session_is_terminated());
    assert_true(probe_wait("the sessions are gone", nobody_has_a_session, NULL));
    fleet_cold_product(path);
    fleet_mark();
    assert_true(probe_ask_all(path, REQUESTS, NULL, &burst));
    assert_int_equal(burst.summary.statuses[200], REQUESTS);
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), 1);
}

/* Connections of ours in every slot, the superuser's reserve included. */
enum { SLOTS_MAX = 256 };
struct squatters {
    PGconn *connections[SLOTS_MAX];
    size_t count;
};

static bool take_one_slot(struct squatters *squatters)
{
    PGconn *connection = PQconnectdb(fleet.postgres.url);
    if (PQstatus(connection) != CONNECTION_OK || squatters->count == SLOTS_MAX) {
        PQfinish(connection);
        return false;
    }
    squatters->connections[squatters->count++] = connection;
    return true;
}

/* The number it answers with, over a connection that is there already, for no other can be made; 0: none. */
static size_t ask_as_squatter(struct squatters *squatters, const char *statement)
{
    size_t count = 0;
    PGresult *result = PQexec(squatters->connections[0], statement);
    if (PQresultStatus(result) == PGRES_TUPLES_OK)
        sscanf(PQgetvalue(result, 0, 0), "%zu", &count);
    PQclear(result);
    return count;
}

/* Whoever of the service gets in again is turned out again, until all slots are ours: a session that ends keeps its own
 * for a moment after it is no longer seen. */
static bool all_slots_are_taken(void *context)
{
    struct squatters *squatters = context;
    while (take_one_slot(squatters))
        ;
    ask_as_squatter(squatters, TERMINATE);
    return squatters->count == ask_as_squatter(squatters, "SHOW max_connections");
}

static void leave_slots(struct squatters *squatters)
{
    while (squatters->count > 0)
        PQfinish(squatters->connections[--squatters->count]);
}

TEST(a_postgresql_without_free_connections_is_503_and_heals_when_one_is_free)
{
    static struct squatters squatters;
    char path[BURST_PATH_BYTES];
    struct probe_burst burst;
    squatters = (struct squatters){0};
    assert_true(fleet_start(PROCESSES, settings));
    assert_true(probe_wait("all connections are taken", all_slots_are_taken, &squatters));
    fleet_cold_product(path);
    fleet_mark();
    bool ran = probe_ask_all(path, REQUESTS, NULL, &burst);
    leave_slots(&squatters);
    assert_true(ran);
    expect_all_refused(&burst);
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), 0);
    expect_recovery();
}

TEST_GROUP(.up = fleet_up, .down = fleet_down, .after = fleet_end);
