/* SPDX-License-Identifier: MIT */
/*
 * faults_servers_test.c - two processes in the middle of a stampede, and what can happen to Redis and to PostgreSQL
 * meanwhile.
 *
 * Redis: each test has the same three acts: the fault comes while the query runs; the fault lasts, and a second cold
 * key is requested; the fault is over. Every request is answered 200 in all of them. A process that cannot share makes
 * two loads: one for the requests that waited when it began, one for those that came while it ran.
 *
 * PostgreSQL: a load that fails answers all requests 503 with Retry-After, in both processes, and is not tried again
 * within its failure window; a load that hangs answers them at its limit. Both recover by themselves.
 */
#include "tests/support/probe.h"
#include "tests/support/test.h"

enum { PROCESSES = 2, REQUESTS = 1000, LOADS_PER_PROCESS = 2 };

/* While Redis is away everybody waits for its limit, twice at most; while it is there the slowest machine does not
 * reach it. Who arrives after a query was sent is not given its row but the next one's: all of a burst have arrived
 * before the first query is over (probe_gather()). */
#define LIMITS "REDIS_LIMIT_MS=1000", "LEASE_MS=9000"
static const char *const settings[] = {LIMITS, NULL};

#define FILLS_LATE "guard_fills_total{result=\"late\"}"
#define FILLS_REFUSED "guard_fills_total{result=\"refused\"}"

/* ---- the acts ---- */

static void expect_all_served(const struct burst_summary *summary)
{
    assert_int_equal(summary->statuses[200], REQUESTS);
    assert_int_equal(summary->bodies, 1);
}

static uint32_t expect_loads_between(uint32_t least, uint32_t most)
{
    uint32_t loads = fleet_loads(FLEET_LOAD_PRODUCT);
    assert_in_range(loads, least, most);
    return loads;
}

/* Returns the product. */
static uint32_t burst_through(probe_fault *happens)
{
    char path[BURST_PATH_BYTES];
    struct probe_burst burst;
    uint32_t product = fleet_cold_product(path);
    fleet_mark();
    assert_true(probe_gather(path, REQUESTS, happens, &burst));
    expect_all_served(&burst.summary);
    expect_loads_between(1, PROCESSES * LOADS_PER_PROCESS);
    return product;
}

/* The processes know nothing of each other now: one load each at least, and what it brought is kept. */
static uint32_t burst_during_the_fault(void)
{
    char path[BURST_PATH_BYTES];
    struct probe_burst burst;
    uint32_t product = fleet_cold_product(path);
    fleet_mark();
    assert_true(probe_gather(path, REQUESTS, NULL, &burst));
    expect_all_served(&burst.summary);
    expect_loads_between(PROCESSES, PROCESSES * LOADS_PER_PROCESS);
    return product;
}

static bool no_lease_is_left(void *context)
{
    (void)context;
    return probe_lease_count() == 0;
}

static void expect_recovery(void)
{
    assert_true(probe_recovers(REQUESTS));
    for (size_t i = 0; i < fleet.count; i++) {
        assert_true(fleet_metric(i, "guard_breaker_open") == 0);
        assert_true(fleet_metric(i, "guard_loads_duplicate_total") == 0);
        assert_true(fleet_metric(i, "guard_waiters") == 0);
    }
    /* an acquire that Redis ran after its sender gave up leaves a lease nobody knows, for its TTL */
    assert_true(probe_wait("no lease is left", no_lease_is_left, NULL));
}

/* ---- away ---- */

static bool redis_is_restarted_empty(void)
{
    stack_redis_kill(&fleet.redis);
    return stack_redis_restart(&fleet.redis);
}

TEST(redis_killed_and_back_within_one_burst_is_used_again_at_once, P11)
{
    assert_true(fleet_start(PROCESSES, settings));
    burst_through(redis_is_restarted_empty);
    expect_recovery();
}

static bool redis_is_stopped(void)
{
    stack_redis_pause(&fleet.redis);
    return true;
}

TEST(redis_stopped_in_the_middle_of_a_burst_costs_two_loads_a_process_and_no_answer, P55)
{
    assert_true(fleet_start(PROCESSES, settings));
    burst_through(redis_is_stopped);
    burst_during_the_fault();
    stack_redis_resume(&fleet.redis);
    expect_recovery();
}

/* ---- empty, cut off ---- */

static bool everything_is_flushed(void)
{
    return probe_redis("FLUSHALL");
}

TEST(a_flushed_lease_costs_one_more_load_and_the_first_fill_is_refused, P11)
{
    const char *const patient[] = {FLEET_PATIENT,
                                   NULL}; /* its renewal would tell the leader sooner than its fill */
    assert_true(fleet_start(PROCESSES, patient));
    uint32_t product = burst_through(everything_is_flushed);
    expect_loads_between(2, 2);
    assert_true(fleet_sum(FILLS_LATE) == 1);
    assert_true(probe_wait_for(product, PROBE_VALUE));
    expect_recovery();
}

/* ---- refusing ---- */

static bool memory_is_full(void)
{
    return probe_redis("CONFIG SET maxmemory 1");
}

TEST(a_full_redis_stores_nothing_and_keeps_no_lease, P31)
{
    assert_true(fleet_start(PROCESSES, settings));
    uint32_t product = burst_through(memory_is_full);
    assert_true(fleet_sum(FILLS_REFUSED) == 1);
    assert_false(probe_has(product, PROBE_VALUE));
    assert_int_equal(probe_lease_count(), 0);
    product = burst_during_the_fault();
    assert_false(probe_has(product, PROBE_VALUE));
    assert_true(probe_redis("CONFIG SET maxmemory 0"));
    expect_recovery();
}

static bool the_master_becomes_a_replica(void)
{
    return probe_redis("REPLICAOF 127.0.0.1 1"); /* nobody listens there */
}

TEST(a_redis_turned_read_only_replica_is_left_until_it_is_a_master_again, P54)
{
    assert_true(fleet_start(PROCESSES, settings));
    burst_through(the_master_becomes_a_replica);
    uint32_t product = burst_during_the_fault();
    assert_false(probe_has(product, PROBE_VALUE));
    assert_true(probe_redis("REPLICAOF NO ONE"));
    expect_recovery();
}

/* ---- PostgreSQL ---- */

/* The query lasts until the fault can strike; the window is longer than a burst, so that one burst is one attempt. */
#define SLOW "LOAD_DELAY_MS=1500"
#define ONE_ATTEMPT "FAILURE_MS=20000", "JITTER_PERCENT=0"
static const char *const slow[] = {SLOW, ONE_ATTEMPT, NULL};

struct act {
    probe_fault *happens;
    bool happened;
};

static void happen_while_the_query_runs(void *context)
{
    struct act *act = context;
    act->happened = fleet_wait_loads(FLEET_LOAD_PRODUCT, 1) && act->happens();
}

/* So many requests on a cold product, with the fault in their middle. Returns the product. */
static uint32_t fail_through(probe_fault *happens, struct probe_burst *burst)
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
    fail_through(postgresql_is_stopped, &burst);
    expect_all_refused(&burst);
    assert_true(burst.summary.max_us < (uint64_t)(LIMIT_MS + MACHINE_MS) * 1000);
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), 1);
    assert_int_equal(probe_lease_count(), 0);
    stack_postgres_resume(&fleet.postgres);
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
    assert_true(fleet_start(PROCESSES, slow));
    fail_through(postgresql_is_killed, &burst);
    expect_all_refused(&burst);
    fleet_cold_product(path);
    assert_true(probe_ask_all(path, REQUESTS, NULL, &burst));
    expect_all_refused(&burst);
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), 1);
    assert_true(stack_postgres_restart(&fleet.postgres));
    expect_recovery();
}

/* ---- before and after ---- */

/* What a test did to Redis's configuration and users ends with this Redis. */
static bool end_and_begin_anew(void)
{
    bool ended = fleet_end();
    return stack_redis_restart(&fleet.redis) && ended;
}

TEST_GROUP(.up = fleet_up, .down = fleet_down, .after = end_and_begin_anew);
