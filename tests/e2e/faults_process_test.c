/* SPDX-License-Identifier: MIT */
/*
 * faults_process_test.c - a process that leads a load is stopped, killed or told to end; and which descriptors
 * stay open after ten thousand requests with faults.
 */
#include "tests/support/probe.h"

#include "load/base/clock.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 2, REQUESTS = 1000, HALF = REQUESTS / PROCESSES };

#define LEASES_LOST "guard_leases_total{event=\"lost\"}"
#define FILLS_LATE "guard_fills_total{result=\"late\"}"

/* A lease that a test can wait for, and queries that take longer than to find and to stop who leads. */
static const char *const short_leased[] = {"LOAD_DELAY_MS=3000", "LEASE_MS=4500", "REDIS_LIMIT_MS=1500",
                                           "DEADLINE_MS=28000", NULL};

/* What happens to the process that leads; filled in by the events, which run in the middle of a burst. */
struct scene {
    struct pg_conn *gate;
    uint32_t product;
    size_t leader;
    bool happened;
    uint64_t at_us;
};

/* The query runs and its process is known. */
static bool leader_is_known(struct scene *scene)
{
    return fleet_wait_loads(FLEET_LOAD_PRODUCT, 1) && probe_find_leader(&scene->leader);
}

static void expect_body_with(size_t process, const char *path, const char *text)
{
    struct http_answer answer;
    assert_true(fleet_ask(process, NULL, path, &answer));
    assert_int_equal(answer.status, 200);
    assert_non_null(strstr(answer.body, text));
    http_answer_clear(&answer);
}

/* ---- stopped ---- */

/* The row changes under the stopped leader's query, so that the two loads differ. */
static void leader_is_stopped_until_another_has_filled(void *context)
{
    struct scene *scene = context;
    scene->happened = leader_is_known(scene);
    if (!scene->happened)
        return;
    proc_pause(fleet.catalogd[scene->leader].pid);
    scene->happened =
        fleet_sql(NULL, 0, "UPDATE products SET price_cents = 987656789 WHERE id = %u", scene->product) &&
        fleet_wait_loads(FLEET_LOAD_PRODUCT, 2) && probe_wait_for(scene->product);
    proc_resume(fleet.catalogd[scene->leader].pid);
}

TEST(a_leader_stopped_past_its_lease_cannot_store_what_it_loaded, P10)
{
    char path[BURST_PATH_BYTES];
    struct burst_summary summary;
    struct scene scene = {0};
    const struct burst_event event = {.run = leader_is_stopped_until_another_has_filled, .context = &scene};
    assert_true(fleet_start(PROCESSES, short_leased));
    scene.product = fleet_cold_product(path);
    fleet_mark();
    assert_true(fleet_burst(path, REQUESTS, &event, &summary));
    assert_true(scene.happened);
    assert_int_equal(summary.statuses[200], REQUESTS);
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), 2);
    assert_true(fleet_metric(scene.leader, LEASES_LOST) + fleet_metric(scene.leader, FILLS_LATE) >= 1);
    for (size_t i = 0; i < PROCESSES; i++)
        expect_body_with(i, path, "987656789");
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), 2);
    assert_int_equal(probe_lease_count(), 0);
}

/* ---- killed ---- */

static void leader_is_killed(void *context)
{
    struct scene *scene = context;
    scene->happened = leader_is_known(scene);
    if (scene->happened)
        proc_kill_tree(&fleet.catalogd[scene->leader].pid);
}

TEST(a_killed_leader_costs_the_others_its_lease_and_one_further_load, P10)
{
    enum { LEASE_MS = 4500, POLL_MS = 750, QUERY_MS = 3000, MACHINE_MS = 8000 };
    char path[BURST_PATH_BYTES];
    struct burst_summary summary;
    struct scene scene = {0};
    const struct burst_event event = {.run = leader_is_killed, .context = &scene};
    assert_true(fleet_start(PROCESSES, short_leased));
    scene.product = fleet_cold_product(path);
    fleet_mark();
    assert_true(fleet_burst(path, REQUESTS, &event, &summary));
    assert_true(scene.happened);
    assert_int_equal(summary.outcomes[RECORD_RESET], HALF);
    assert_int_equal(summary.statuses[200], HALF);
    assert_in_range(summary.max_us, 0, (LEASE_MS + POLL_MS + 2 * QUERY_MS + MACHINE_MS) * 1000);
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), 2);
    assert_true(probe_has(scene.product));
    assert_int_equal(probe_lease_count(), 0);
}

/* ---- told to end ---- */

static void told_to_end_while_all_wait_and_the_load_may_finish(void *context)
{
    struct scene *scene = context;
    scene->happened =
        fleet_wait_waiters(REQUESTS) && kill(fleet.catalogd[0].pid, SIGTERM) == 0 && probe_wait_draining(0);
    probe_gate_open(&scene->gate);
}

TEST(a_process_told_to_end_finishes_its_load_and_answers_a_thousand_waiters, P59, P64)
{
    const char *const settings[] = {"DRAIN_MS=20000", NULL};
    char path[BURST_PATH_BYTES];
    struct burst_summary summary;
    struct scene scene = {0};
    const struct burst_event event = {.run = told_to_end_while_all_wait_and_the_load_may_finish,
                                      .context = &scene};
    int status = -1;
    assert_true(fleet_start(1, settings));
    scene.product = fleet_cold_product(path);
    assert_true(probe_gate_shut(&scene.gate));
    assert_true(fleet_burst(path, REQUESTS, &event, &summary));
    assert_true(scene.happened);
    assert_int_equal(summary.statuses[200], REQUESTS);
    assert_true(probe_wait_end(0, &status));
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), 1);
    assert_true(probe_has(scene.product));
    assert_int_equal(probe_lease_count(), 0);
}

static void leader_is_told_to_end_while_all_wait(void *context)
{
    struct scene *scene = context;
    scene->happened = fleet_wait_waiters(REQUESTS) && leader_is_known(scene) &&
                      kill(fleet.catalogd[scene->leader].pid, SIGTERM) == 0;
    scene->at_us = clock_us();
}

/* With a lease this long, who loads next can only have got it because it was given back. */
TEST(a_drain_that_is_over_answers_503_and_gives_the_lease_to_the_other_process, P59, P64)
{
    const char *const settings[] = {
        "LOAD_DELAY_MS=6000",  "LOAD_LIMIT_MS=20000", "LEASE_MS=60000",    "MAX_HOLD_MS=60000",
        "REDIS_LIMIT_MS=5000", "DRAIN_MS=300",        "DEADLINE_MS=28000", NULL};
    enum { LONG_LEASE_MS = 60000 };
    char path[BURST_PATH_BYTES];
    struct probe_burst burst;
    struct scene scene = {0};
    const struct burst_event event = {.run = leader_is_told_to_end_while_all_wait, .context = &scene};
    int status = -1;
    assert_true(fleet_start(PROCESSES, settings));
    scene.product = fleet_cold_product(path);
    fleet_mark();
    assert_true(probe_ask_all(path, REQUESTS, &event, &burst));
    assert_true(clock_us() - scene.at_us < (uint64_t)LONG_LEASE_MS * 1000 / 2);
    assert_true(scene.happened);
    assert_int_equal(burst.summary.statuses[503], HALF);
    assert_int_equal(burst.unadvised, 0);
    assert_int_equal(burst.summary.statuses[200], HALF);
    assert_true(probe_wait_end(scene.leader, &status));
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), 2);
    assert_true(probe_has(scene.product));
    assert_int_equal(probe_lease_count(), 0);
}

static void told_twice_to_end_while_all_wait(void *context)
{
    struct scene *scene = context;
    pid_t pid = fleet.catalogd[0].pid;
    scene->happened = fleet_wait_waiters(REQUESTS) && kill(pid, SIGTERM) == 0 && probe_wait_draining(0) &&
                      kill(pid, SIGTERM) == 0;
    scene->at_us = clock_us();
}

TEST(a_second_sigterm_ends_a_draining_process_at_once, P64)
{
    const char *const settings[] = {"LOAD_DELAY_MS=9000", "DRAIN_MS=60000", NULL};
    enum { AT_ONCE_MS = 8000 }; /* sooner than the query is over */
    char path[BURST_PATH_BYTES];
    struct burst_summary summary;
    struct scene scene = {0};
    const struct burst_event event = {.run = told_twice_to_end_while_all_wait, .context = &scene};
    int status = -1;
    assert_true(fleet_start(1, settings));
    fleet_cold_product(path);
    assert_true(fleet_burst(path, REQUESTS, &event, &summary));
    assert_true(scene.happened);
    assert_true(probe_wait_end(0, &status));
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGTERM);
    assert_true(clock_us() - scene.at_us < (uint64_t)AT_ONCE_MS * 1000);
    assert_int_equal(summary.outcomes[RECORD_RESET], REQUESTS);
}

/* ---- ten thousand requests with faults ---- */

static void redis_dies_and_returns(void)
{
    stack_redis_kill(&fleet.redis);
    assert_true(stack_redis_restart(&fleet.redis));
}

static void redis_loses_its_clients(void)
{
    fleet_redis_does("CLIENT KILL TYPE pubsub");
    fleet_redis_does("CLIENT KILL TYPE normal SKIPME yes");
}

static void redis_forgets(void)
{
    fleet_redis_does("FLUSHALL");
}

static void sessions_are_terminated(void)
{
    assert_true(fleet_sql(NULL, 0,
                          "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                          " WHERE application_name = 'catalogd'"));
}

static void nothing_happens(void)
{
    (void)fleet;
}

static void (*const disasters[])(void) = {
    nothing_happens,         redis_dies_and_returns, sessions_are_terminated, redis_loses_its_clients,
    redis_forgets,           nothing_happens,        sessions_are_terminated, redis_dies_and_returns,
    redis_loses_its_clients, nothing_happens,
};
enum { ROUNDS = sizeof disasters / sizeof *disasters, KEYS = 24 }; /* more keys than workers */
_Static_assert(ROUNDS *REQUESTS >= 10000, "ten thousand requests");

struct round {
    void (*disaster)(void);
    uint32_t first_product;
};

static void disaster_strikes(void *context)
{
    struct round *round = context;
    fleet_wait_loads(FLEET_LOAD_PRODUCT, 1);
    round->disaster();
}

static void path_of_round(void *context, uint32_t index, char *path)
{
    const struct round *round = context;
    snprintf(path, BURST_PATH_BYTES, "/products/%" PRIu32, round->first_product + index / 2 % KEYS);
}

static void run_round(void (*disaster)(void))
{
    enum { LEAVING = 100, LEAVE_MS = 30 };
    struct burst_target targets[FLEET_PROCESSES_MAX];
    struct probe_burst burst;
    struct round round = {.disaster = disaster, .first_product = fleet.next_product};
    const struct burst_event event = {.run = disaster_strikes, .context = &round};
    fleet.next_product += KEYS;
    fleet_mark();
    struct burst_options options = fleet_options(targets, NULL, REQUESTS);
    options.path_of = path_of_round;
    options.path_context = &round;
    options.events = &event;
    options.event_count = 1;
    options.leave_count = LEAVING;
    options.leave_ms = LEAVE_MS;
    assert_true(probe_burst(&options, &burst));
    assert_int_equal(burst.summary.statuses[200] + burst.summary.statuses[503] +
                         burst.summary.outcomes[RECORD_LEFT],
                     REQUESTS);
    assert_int_equal(burst.unadvised, 0);
}

static void employ_every_worker(size_t process)
{
    struct round round = {.first_product = fleet.next_product};
    const struct burst_target target = {.host = "127.0.0.1", .port = fleet.catalogd[process].port};
    const struct burst_options options = {.targets = &target,
                                          .target_count = 1,
                                          .connection_count = 2 * KEYS,
                                          .connect_limit_ms = FLEET_LIMIT_MS,
                                          .request_limit_ms = FLEET_LIMIT_MS,
                                          .path_of = path_of_round,
                                          .path_context = &round};
    struct probe_burst burst;
    fleet.next_product += KEYS;
    assert_true(probe_burst(&options, &burst));
    assert_int_equal(burst.summary.statuses[200], 2 * KEYS);
}

struct holding {
    pid_t pid;
    size_t descriptors_most;
};

TEST(ten_thousand_requests_with_faults_leave_no_descriptor_and_no_thread, P22)
{
    const char *const settings[] = {"LOAD_DELAY_MS=40", "MAX_LOADS=2", "REDIS_LIMIT_MS=1000", NULL};
    enum { WATCHER = 1 }; /* looks after the schema, with a connection of its own when the others are busy */
    struct holding before[PROCESSES];
    uint64_t threads[PROCESSES];
    assert_true(fleet_start(PROCESSES, settings));
    for (size_t i = 0; i < PROCESSES; i++)
        employ_every_worker(i);
    for (size_t i = 0; i < PROCESSES; i++) {
        assert_true(probe_wait_quiet(i));
        before[i].pid = fleet.catalogd[i].pid;
        before[i].descriptors_most = probe_descriptor_count(before[i].pid) + WATCHER;
        threads[i] = probe_thread_count(before[i].pid);
        assert_true(before[i].descriptors_most > 0 && threads[i] > 0);
    }
    for (size_t i = 0; i < ROUNDS; i++)
        run_round(disasters[i]);
    assert_true(probe_recovers(REQUESTS));
    for (size_t i = 0; i < PROCESSES; i++) {
        assert_true(probe_wait_quiet(i));
        WAIT_UNTIL(probe_descriptor_count(before[i].pid) <= before[i].descriptors_most);
        assert_int_equal(probe_thread_count(before[i].pid), threads[i]);
        assert_true(fleet_metric(i, "guard_waiters") == 0);
        assert_true(fleet_metric(i, "guard_loads_running") == 0);
        assert_true(fleet_metric(i, "guard_loads_duplicate_total") == 0);
    }
    assert_int_equal(probe_lease_count(), 0);
}

/* ---- its descriptors 0, 1 and 2 ---- */

static char folder[PROC_PATH_BYTES], program[256];

/* Processes are started without them; until with_descriptors(). */
static bool without_descriptors(void)
{
    char script[PROC_PATH_BYTES + 32], text[512];
    snprintf(program, sizeof program, "%s", stack_catalogd_program());
    if (!proc_folder("redirected", NULL, folder))
        return false;
    snprintf(script, sizeof script, "%s/catalogd", folder);
    snprintf(text, sizeof text, "#!/bin/sh\nexec '%s' <&- >&- 2>&-\n", program);
    file_write(script, text);
    return chmod(script, 0700) == 0 && setenv("CATALOGD", script, 1) == 0;
}

static bool with_descriptors(void)
{
    const bool ended = fleet_end();
    setenv("CATALOGD", program, 1);
    proc_remove(folder);
    return ended;
}

/* What is printed there goes into none of its connections. */
static void expect_null(int fd)
{
    char link[64], target[64] = "";
    snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)fleet.catalogd[0].pid, fd);
    const ssize_t bytes = readlink(link, target, sizeof target - 1);
    target[bytes > 0 ? bytes : 0] = '\0';
    assert_string_equal(target, "/dev/null");
}

/* fleet_end() wants it to end by itself, with status 0. */
TEST_WITH(a_process_without_0_1_and_2_serves_and_ends_in_order, without_descriptors, with_descriptors)
{
    char path[BURST_PATH_BYTES];
    assert_true(fleet_start(1, NULL));
    fleet_cold_product(path);
    assert_int_equal(fleet_ask_status(0, path), 200);
    stack_redis_kill(&fleet.redis);
    assert_true(stack_redis_restart(&fleet.redis));
    assert_true(fleet_wait_ready(0));
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        expect_null(fd);
}

TEST_GROUP(.up = fleet_up, .down = fleet_down, .after = fleet_end);
