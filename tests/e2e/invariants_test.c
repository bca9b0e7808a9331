/* SPDX-License-Identifier: MIT */
/*
 * invariants_test.c - promises of the whole service that belong to no single fault: what a child would
 * inherit, what an outage writes into the log, what a storm of kills leaves in PostgreSQL, which clients dawdle.
 */
#include "tests/support/drips.h"
#include "tests/support/probe.h"

#include "load/base/clock.h"
#include "tests/support/sockets.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PROCESSES = 4, WORKERS = 4 };

/* ---- descriptors ---- */

/* The flags of an open file of another process; -1: closed meanwhile. */
static int flags_of(pid_t pid, const char *fd)
{
    char path[64], line[128];
    unsigned flags = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%ld/fdinfo/%.16s", (long)pid, fd);
    FILE *info = fopen(path, "re");
    while (info != NULL && !found && fgets(line, sizeof line, info) != NULL)
        found = sscanf(line, "flags: %o", &flags) == 1;
    if (info != NULL)
        fclose(info);
    return found ? (int)flags : -1;
}

static size_t assert_all_close_on_exec(pid_t pid)
{
    char folder[64];
    size_t count = 0;
    snprintf(folder, sizeof folder, "/proc/%ld/fd", (long)pid);
    DIR *descriptors = opendir(folder);
    assert_non_null(descriptors);
    for (struct dirent *entry; (entry = readdir(descriptors)) != NULL;) {
        char target[128] = "", path[400];
        int flags = entry->d_name[0] == '.' || atoi(entry->d_name) <= STDERR_FILENO
                        ? -1
                        : flags_of(pid, entry->d_name);
        if (flags == -1)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if ((flags & O_CLOEXEC) == 0)
            fail_msg("descriptor %s (%.*s) would be inherited", entry->d_name,
                     (int)readlink(path, target, sizeof target - 1), target);
        count++;
    }
    closedir(descriptors);
    return count;
}

struct look {
    struct pg_conn *gate;
    size_t found;
};

/* With connections of every sort open: clients, Redis twice, PostgreSQL. */
static void look_at_descriptors(void *context)
{
    struct look *look = context;
    if (fleet_wait_waiters(20))
        look->found = assert_all_close_on_exec(fleet.catalogd[0].pid);
    probe_gate_open(&look->gate);
}

TEST(no_descriptor_would_be_inherited_by_a_child, P65)
{
    char path[BURST_PATH_BYTES];
    struct burst_summary summary;
    struct look look = {0};
    const struct burst_event event = {.run = look_at_descriptors, .context = &look};
    assert_true(fleet_start(1, NULL));
    fleet_cold_product(path);
    assert_true(probe_gate_shut(&look.gate));
    assert_true(fleet_burst(path, 20, &event, &summary));
    assert_int_equal(summary.statuses[200], 20);
    assert_in_range(look.found, 20 + 3, 1000);
}

/* ---- both servers away ---- */

TEST(a_process_that_starts_with_nothing_there_says_so_and_serves_when_both_come, P66)
{
    char path[BURST_PATH_BYTES];
    assert_true(fleet_start(0, NULL));
    fleet_cold_product(path);
    stack_redis_kill(&fleet.redis);
    proc_kill_tree(&fleet.postgres.pid);
    assert_true(
        fleet_add((const char *[]){"FAILURE_MS=100", "REDIS_LIMIT_MS=1000", NULL})); /* /healthz answers */
    assert_int_equal(fleet_ask_status(0, path), 503);
    assert_false(stack_catalogd_wait_ready(&fleet.catalogd[0], 0));
    assert_true(stack_postgres_restart(&fleet.postgres));
    assert_true(stack_redis_restart(&fleet.redis));
    assert_true(fleet_wait_ready(0));
    fleet_mark();
    assert_true(probe_recovers(100));
}

/* ---- the log in an outage ---- */

enum { OUTAGE_REQUESTS = 2000, OUTAGE_ROUNDS = 3 };

static void another_product(void *context, uint32_t index, char *path)
{
    snprintf(path, BURST_PATH_BYTES, "/products/%u", (unsigned)(*(uint32_t *)context + index));
}

static void ask_for_many(uint32_t first)
{
    struct burst_target targets[FLEET_PROCESSES_MAX];
    struct burst_options options = fleet_options(targets, NULL, OUTAGE_REQUESTS);
    struct probe_burst burst;
    options.path_of = another_product;
    options.path_context = &first;
    assert_true(probe_burst(&options, &burst));
    assert_int_equal(burst.summary.statuses[503], OUTAGE_REQUESTS);
    assert_int_equal(burst.unadvised, 0);
}

/* Six thousand requests for keys of their own, none of which can be loaded. */
TEST(an_outage_is_told_in_few_lines_and_with_advice, P68)
{
    enum { BURST_LINES = 5, WINDOW_MS = 10000, EVENTS = 8 };
    assert_true(fleet_start(1, (const char *[]){"LOAD_QUEUE=4000", "REDIS_LIMIT_MS=250", NULL}));
    uint64_t begun_us = clock_us();
    stack_redis_kill(&fleet.redis);
    proc_kill_tree(&fleet.postgres.pid);
    for (uint32_t round = 0; round < OUTAGE_ROUNDS; round++)
        ask_for_many(1 + round * OUTAGE_REQUESTS);
    uint32_t windows = (uint32_t)((clock_us() - begun_us) / ((uint64_t)WINDOW_MS * 1000)) + 2;
    uint32_t failed = stack_log_count(fleet.catalogd[0].log_path, 0, "event=load_failed");
    uint32_t lines = stack_log_count(fleet.catalogd[0].log_path, 0, "event=");
    assert_in_range(failed, 1, windows * (BURST_LINES + 1));
    assert_in_range(lines, 1, windows * (BURST_LINES + 1) * EVENTS);
}

/* ---- a storm of kills ---- */

static void kill_them_all(void *context)
{
    (void)context;
    if (!fleet_wait_running(FLEET_LOAD_PRODUCT, PROCESSES * WORKERS))
        return;
    for (size_t i = 0; i < PROCESSES; i++)
        proc_kill_tree(&fleet.catalogd[i].pid);
}

static uint32_t sessions(void)
{
    char count[16];
    assert_true(fleet_sql(count, sizeof count,
                          "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND "
                          "pid <> pg_backend_pid()"));
    return (uint32_t)strtoul(count, NULL, 10);
}

/* The queries would go on for as long again as the test waits for their end. */
TEST(what_killed_processes_asked_for_is_gone_from_postgresql_soon_after, P51)
{
    enum { QUERY_MS = 25000, CHECK_MS = 1000, MACHINE_MS = 20000, STORMS = 2 };
    const char *const settings[] = {"LOAD_DELAY_MS=25000", "LOAD_LIMIT_MS=28000", "MAX_LOADS=4", NULL};
    struct burst_target targets[FLEET_PROCESSES_MAX];
    struct burst_summary summary;
    _Static_assert(CHECK_MS + MACHINE_MS < QUERY_MS, "they must not end by themselves");
    for (int storm = 0; storm < STORMS; storm++) {
        const struct burst_event event = {.run = kill_them_all};
        struct burst_options options = fleet_options(targets, NULL, 0);
        struct burst *burst = NULL;
        uint32_t first = fleet.next_product;
        assert_true(fleet_start(PROCESSES, settings));
        fleet.next_product += PROCESSES * WORKERS * 2;
        options = fleet_options(targets, NULL, PROCESSES * WORKERS * 2);
        options.path_of = another_product;
        options.path_context = &first;
        options.events = &event;
        options.event_count = 1;
        assert_true(burst_open(&options, &burst) && burst_run(burst));
        burst_summarise(burst, &summary);
        burst_close(&burst);
        assert_int_equal(summary.outcomes[RECORD_RESET], PROCESSES * WORKERS * 2);
        uint64_t killed_us = clock_us();
        WAIT_UNTIL(sessions() == 0);
        assert_true(clock_us() - killed_us < (uint64_t)(CHECK_MS + MACHINE_MS) * 1000);
    }
}

/* ---- dawdlers ---- */

/* One more header byte every half second, and what the server says or does meanwhile. True: it hung up. */
static bool drip(int fd)
{
    char bytes[512];
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    if (send(fd, "x", 1, MSG_NOSIGNAL) != 1)
        return true;
    return poll(&readable, 1, 500) == 1 && recv(fd, bytes, sizeof bytes, 0) <= 0;
}

/* Every byte would start an idle limit anew; the limit of a request's head is absolute. */
TEST(who_drips_his_headers_is_hung_up_on_after_ten_seconds, P60, P88)
{
    enum { HEAD_MS = 10000, MACHINE_MS = 6000 };
    static const char begun[] = "GET /products/7 HTTP/1.1\r\nHost: shop\r\nX: ";
    char path[BURST_PATH_BYTES];
    bool over = false;
    assert_true(fleet_start(1, NULL));
    fleet_cold_product(path);
    int fd = socket_connect(fleet.catalogd[0].port, 0);
    uint64_t begun_us = clock_us();
    socket_say(fd, begun);
    while (!over) {
        over = drip(fd);
        assert_int_equal(fleet_ask_status(0, path), 200);
        assert_true(clock_us() - begun_us < (uint64_t)(HEAD_MS + MACHINE_MS) * 1000);
    }
    assert_true(clock_us() - begun_us > (uint64_t)(HEAD_MS - 1000) * 1000);
    close(fd);
}

/* But for those whose request leaves them too late on a busy machine. */
static bool most_are_answered(void)
{
    enum { ROUNDS = 10 };
    unsigned answered = 0;
    for (int i = 0; i < ROUNDS; i++)
        answered += fleet_ask_status(0, "/products/7") == 200;
    return answered > ROUNDS / 2;
}

/* They have asked for nothing, for half of something, or for something and then no more. */
TEST(whoever_holds_every_connection_keeps_nobody_out, P88)
{
    enum { HOLDERS = DRIPS_MAX };
    static const char *const begun[] = {"G", "GET /ping HTTP/1.1\r\nHost: sh",
                                        "GET /ping HTTP/1.1\r\nHost: shop\r\n\r\n"};
    assert_true(fleet_start(1, (const char *[]){"MAX_CONNECTIONS=256", "SERVER_LOOPS=1", NULL}));
    for (size_t kind = 0; kind < sizeof begun / sizeof *begun; kind++) {
        struct drips *drips = NULL;
        const struct drips_options options = {.host = "127.0.0.1",
                                              .port = fleet.catalogd[0].port,
                                              .count = HOLDERS,
                                              .begun = begun[kind],
                                              .begun_bytes = strlen(begun[kind])};
        assert_true(drips_open(&options, &drips));
        WAIT_UNTIL(most_are_answered());
        drips_close(&drips);
    }
}

TEST_GROUP(.up = fleet_up, .down = fleet_down, .after = fleet_end);
