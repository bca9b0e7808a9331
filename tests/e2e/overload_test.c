/* SPDX-License-Identifier: MIT */
/*
 * overload_test.c - two thousand different cold keys at once over two processes: the bulkhead.
 *
 * How many loads run at a time is read in PostgreSQL's log, which cannot miss one: a statement is logged
 * before it runs, its duration after it ran and before the client can know. So what the log shows between the
 * two is at least what was running.
 */
#include "tests/support/probe.h"
#include "tests/support/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROCESSES = 2, KEYS = 2000, PID_MAX = 1 << 22 };

/* Thousands of loads take their time: none of the requests runs out of it. */
#define UNHURRIED FLEET_PATIENT, "DEADLINE_MS=28000"
/* Each load is a query: so many queries are so many loads. */
#define EACH_A_QUERY "MERGE_LOADS=off"

/* ---- how many ran at a time ---- */

struct overlap {
    uint32_t running, most, begun;
    bool runs[PID_MAX]; /* by PostgreSQL's pid */
};

static void note_line(struct overlap *overlap, const char *line)
{
    long pid = strtol(line, NULL, 10);
    if (pid <= 0 || pid >= PID_MAX) /* a further line of a statement's text */
        return;
    bool begins = strstr(line, FLEET_LOAD_PRODUCT) != NULL || strstr(line, FLEET_LOAD_PRODUCTS) != NULL;
    if (begins && !overlap->runs[pid]) {
        overlap->runs[pid] = true;
        overlap->begun++;
        overlap->running++;
        overlap->most = overlap->running > overlap->most ? overlap->running : overlap->most;
    } else if (strstr(line, " duration: ") != NULL && overlap->runs[pid]) {
        overlap->runs[pid] = false;
        overlap->running--;
    }
}

static struct overlap *read_overlap(void)
{
    struct overlap *overlap = calloc(1, sizeof *overlap);
    char *line = NULL;
    size_t line_bytes = 0;
    FILE *log = fopen(fleet.postgres.log_path, "re");
    assert_non_null(overlap);
    assert_non_null(log);
    assert_int_equal(fseek(log, (long)fleet.mark, SEEK_SET), 0);
    while (getline(&line, &line_bytes, log) != -1)
        note_line(overlap, line);
    free(line);
    fclose(log);
    return overlap;
}

/* Returns the most at a time. */
static uint32_t expect_loads(uint32_t loads, uint32_t most_at_a_time)
{
    struct overlap *overlap = read_overlap();
    uint32_t begun = overlap->begun, most = overlap->most, running = overlap->running;
    free(overlap);
    print_message("%" PRIu32 " loads, at most %" PRIu32 " at a time\n", begun, most);
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), loads);
    assert_int_equal(begun, loads);
    assert_int_equal(running, 0);
    assert_in_range(most, 1, most_at_a_time);
    return most;
}

static bool up_with_durations(void)
{
    if (!fleet_up())
        return false;
    bool good = fleet_sql(NULL, 0, "ALTER SYSTEM SET log_duration = on") &&
                fleet_sql(NULL, 0, "SELECT pg_reload_conf()");
    return good;
}

/* ---- bursts ---- */

struct range {
    uint32_t first_product, key_count;
};

/* Connections are dealt to the processes in turn: with twice as many, each key is asked for in both. */
static void path_of(void *context, uint32_t index, char *path)
{
    const struct range *range = context;
    snprintf(path, BURST_PATH_BYTES, "/products/%" PRIu32,
             range->first_product + (index + index / range->key_count) % range->key_count);
}

static void ask_for_keys(uint32_t key_count, uint32_t request_count, struct probe_burst *burst)
{
    struct burst_target targets[FLEET_PROCESSES_MAX];
    struct range range = {.first_product = 1, .key_count = key_count}; /* cold: fleet_start() empties Redis */
    fleet_mark();
    struct burst_options options = fleet_options(targets, NULL, request_count);
    options.path_of = path_of;
    options.path_context = &range;
    assert_true(probe_burst(&options, burst));
}

/* Everybody is served, every key with a row of its own. */
static void expect_all_served(const struct probe_burst *burst, uint32_t key_count, uint32_t request_count)
{
    assert_int_equal(burst->summary.statuses[200], request_count);
    assert_int_equal(burst->summary.bodies, key_count);
}

static void expect_rest(void)
{
    for (size_t i = 0; i < PROCESSES; i++) {
        assert_true(probe_wait_quiet(i));
        assert_true(fleet_metric(i, "guard_waiters") == 0);
        assert_true(fleet_metric(i, "guard_flights") == 0);
        assert_true(fleet_metric(i, "guard_loads_running") == 0);
        assert_true(fleet_metric(i, "guard_loads_queued") == 0);
        assert_true(fleet_metric(i, "guard_loads_duplicate_total") == 0);
    }
    assert_int_equal(probe_lease_count(), 0);
}

/* ---- tests ---- */

/* A tenth of the queries at the most: what waits for a permit or a worker leaves together. */
TEST(with_permits_thousands_of_keys_are_few_queries_and_no_more_at_a_time, P94)
{
    enum { PERMITS = 8, QUERIES = KEYS / 10 };
    const char *const settings[] = {"LOAD_DELAY_MS=20",
                                    "MAX_LOADS=40",
                                    "LOAD_QUEUE=4000",
                                    "LOAD_PERMITS=8",
                                    "PERMIT_MS=15000",
                                    UNHURRIED,
                                    NULL};
    struct probe_burst burst;
    assert_true(fleet_start(PROCESSES, settings));
    ask_for_keys(KEYS, PROCESSES * KEYS, &burst);
    expect_all_served(&burst, KEYS, PROCESSES * KEYS);
    struct overlap *overlap = read_overlap();
    print_message("%" PRIu32 " queries, at most %" PRIu32 " at a time\n", overlap->begun, overlap->most);
    assert_in_range(overlap->begun, KEYS / 100, QUERIES);
    assert_in_range(overlap->most, 1, PERMITS);
    assert_true(fleet_sum("guard_queries_total") == overlap->begun);
    assert_true(fleet_sum("guard_loads_started_total") == KEYS);
    free(overlap);
    expect_rest();
}

TEST(without_redis_the_bulkhead_of_each_process_holds, P50)
{
    enum { WORKERS = 40 };
    const char *const settings[] = {"LOAD_DELAY_MS=150", "MAX_LOADS=40",      "REDIS_LIMIT_MS=250",
                                    EACH_A_QUERY,        "DEADLINE_MS=28000", NULL};
    struct probe_burst burst;
    assert_true(fleet_start(PROCESSES, settings));
    stack_redis_kill(&fleet.redis);
    ask_for_keys(KEYS, KEYS, &burst);
    assert_int_equal(burst.summary.statuses[200], KEYS);
    expect_loads(KEYS, PROCESSES * WORKERS);
    assert_true(stack_redis_restart(&fleet.redis));
    expect_rest();
}

TEST_GROUP(.up = up_with_durations, .down = fleet_down, .after = fleet_end);
