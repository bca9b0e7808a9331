/* SPDX-License-Identifier: MIT */
/*
 * lab_test.c - the lab as a measuring instrument: each scheme breaks where it is expected to, so that what does not
 * break says something. `make lab` has all cells, and that ours keep what they promise is its exit status.
 *
 * The cells are run as `make lab` runs them, with real workers: this program is their executable, too.
 */
#include "load/base/clock.h"
#include "load/base/proc.h"
#include "load/lab/cell.h"
#include "load/lab/fleet.h"
#include "load/lab/monitor.h"
#include "load/lab/note.h"
#include "load/lab/scheme.h"
#include "load/lab/source.h"
#include "load/lab/trial.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <unistd.h>

enum { LIMIT_MS = 240000, LEASE_S = 2 };

static struct lab lab = {.lease_s = LEASE_S};

static bool start_servers(void)
{
    return lab_start(&lab);
}

static bool stop_servers(void)
{
    lab_stop(&lab);
    return true;
}

static const struct scheme *scheme_of(const char *name)
{
    for (size_t i = 0; scheme_at(i) != NULL; i++) {
        if (strcmp(scheme_at(i)->name, name) == 0)
            return scheme_at(i);
    }
    fail_msg("no scheme %s", name);
    return NULL;
}

static const struct failure *failure_of(const char *name)
{
    for (size_t i = 0; failure_at(i) != NULL; i++) {
        if (strcmp(failure_at(i)->name, name) == 0)
            return failure_at(i);
    }
    fail_msg("no failure %s", name);
    return NULL;
}

static struct cell run(const char *scheme, const char *failure)
{
    struct cell cell;
    trial_run(&lab, scheme_of(scheme), failure_of(failure), &cell);
    assert_int_not_equal(cell.state, CELL_NOT_RUN);
    return cell;
}

/* ---- each breaks where it is said to ---- */

TEST(without_a_lock_every_process_loads)
{
    struct cell cell = run("none", "calm");
    assert_int_equal(cell.load_count, cell.worker_count);
    assert_int_equal(cell.holders_peak, cell.worker_count);
    assert_int_equal(cell.answered, cell.worker_count);
}

TEST(a_holder_that_dies_between_setnx_and_expire_blocks_the_key_for_ever)
{
    struct cell cell = run("setnx-expire", "gap");
    assert_true(cell.is_for_ever);
    assert_int_equal(cell.lock_pttl_ms, -1);
    assert_int_equal(cell.answered, 0);
    assert_string_equal(cell.verdict, "stuck");
}

/* ---- a lock is what is measured ---- */

TEST(a_lock_without_a_fence_takes_the_late_write_of_a_paused_holder)
{
    struct cell cell = run("redisson-lock", "late-write");
    assert_true(cell.lock.is_over);
    assert_int_equal(cell.lock.late_accepted, 1);
    assert_int_equal(cell.lock.lost_updates, 1);
    assert_string_equal(cell.verdict, "1 lost update");
}

/* ---- what Redis says ---- */

struct speaker {
    struct redisContext *redis;
    uint32_t worker;
};

/* Two connections that the controller takes for workers 0 and 1. */
static struct speaker speaker_open(struct fleet *fleet, uint32_t worker)
{
    struct sockaddr_in address;
    socklen_t bytes = sizeof address;
    struct speaker speaker = {.redis = redisConnect("127.0.0.1", lab.redis.port), .worker = worker};
    assert_non_null(speaker.redis);
    assert_int_equal(speaker.redis->err, 0);
    assert_int_equal(getsockname(speaker.redis->fd, (struct sockaddr *)&address, &bytes), 0);
    fleet->notes[fleet->note_count++] = (struct fleet_note){
        .worker = worker, .note = {.kind = NOTE_ADDRESS, .value = ntohs(address.sin_port)}};
    return speaker;
}

static void say(const struct speaker *speaker, const char *command)
{
    struct redisReply *reply = redisCommand(speaker->redis, command);
    assert_non_null(reply);
    freeReplyObject(reply);
}

static void say_and_hold(struct fleet *fleet, const struct speaker *speaker, const char *command)
{
    say(speaker, command);
    fleet->notes[fleet->note_count++] =
        (struct fleet_note){.worker = speaker->worker, .note = {.kind = NOTE_HELD, .at_us = clock_us()}};
}

TEST(only_the_deletion_of_a_living_lock_of_another_is_wrong)
{
    static struct fleet fleet;
    static struct monitor monitor;
    struct speaker a = speaker_open(&fleet, 0), b = speaker_open(&fleet, 1);
    assert_true(monitor_start(&monitor, &lab.redis, scheme_of("uuid-lua"), "told"));
    say_and_hold(&fleet, &a, "SET lock:told 1 NX EX 60");
    say(&b, "SET lock:told 2 NX EX 60"); /* busy: b holds nothing */
    say(&a, "DEL lock:told");            /* right: its own */
    say(&b, "DEL lock:told");            /* nothing there */
    say_and_hold(&fleet, &b, "SET lock:told \"a \\\" b\" NX EX 60");
    say(&a, "EVAL return(redis.call('DEL',KEYS[1])) 1 lock:told"); /* wrong */
    say_and_hold(&fleet, &a, "SET lock:told 1 NX PX 1");
    clock_pause_ms(5);        /* the lock's own life */
    say(&b, "DEL lock:told"); /* it is over: nothing there */
    say(&a, "SET told version=1 EX 60");
    assert_true(monitor_finish(&monitor, &lab.redis));
    assert_int_equal(monitor_wrong_deletions(&monitor, &fleet, 0, 0), 1);
    assert_int_equal(monitor_wrong_deletions(&monitor, &fleet, 1, UINT64_MAX), 0);
    assert_true(monitor_filled_us(&monitor) > 0 && monitor_filled_us(&monitor) <= clock_us());
    redisFree(a.redis);
    redisFree(b.redis);
}

/* ---- the verdict ---- */

TEST(the_verdict_is_the_worst_of_what_was_measured)
{
    const struct cell_demand demand = {.needed_loads = 1, .our_wait_leases = 1, .our_wait_ms = 100};
    char why[64];
    struct cell cell = {.state = CELL_MEASURED, .lease_ms = 1000, .asked = 4, .answered = 4, .load_count = 1};
    cell_judge(&cell, &demand);
    assert_string_equal(cell.verdict, "holds");
    assert_true(cell_keeps_promise(&cell, &demand, why, sizeof why));
    cell.has_stuck = true;
    cell.stuck_us = 1000000;
    cell_judge(&cell, &demand);
    assert_string_equal(cell.verdict, "waits 1.0 s by design: its lease");
    cell.stuck_us = 1200000;
    cell_judge(&cell, &demand);
    assert_string_equal(cell.verdict, "waits 1.2 s");
    assert_false(cell_keeps_promise(&cell, &demand, why, sizeof why));
    assert_string_equal(why, "too long a wait");
    cell.load_count = 2;
    cell_judge(&cell, &demand);
    assert_string_equal(cell.verdict, "2 loads");
    cell.is_stale = true;
    cell_judge(&cell, &demand);
    assert_string_equal(cell.verdict, "stale");
    cell.wrong_deletions = 1;
    cell_judge(&cell, &demand);
    assert_string_equal(cell.verdict, "wrong del");
    cell.state = CELL_NOT_RUN;
    cell_judge(&cell, &demand);
    assert_string_equal(cell.verdict, "not run");
}

TEST(a_lost_update_is_worse_than_two_holders_and_a_refused_write_better)
{
    const struct cell_demand demand = {.may_overlap = true};
    char why[64];
    struct cell cell = {.state = CELL_MEASURED,
                        .is_lock = true,
                        .asked = 2,
                        .answered = 2,
                        .holders_peak = 2,
                        .lease_ms = 1000};
    cell_judge(&cell, &demand);
    assert_string_equal(cell.verdict, "holds");
    cell.lock.is_over = true;
    cell_judge(&cell, &demand);
    assert_string_equal(cell.verdict, "2 at once");
    assert_true(cell_keeps_promise(&cell, &demand, why, sizeof why));
    assert_false(cell_keeps_promise(&cell, &(struct cell_demand){.may_overlap = false}, why, sizeof why));
    cell.lock.late_refused = 1;
    cell_judge(&cell, &demand);
    assert_string_equal(cell.verdict, "fenced");
    cell.lock.lost_updates = 1;
    cell_judge(&cell, &demand);
    assert_string_equal(cell.verdict, "1 lost update");
    assert_false(cell_keeps_promise(&cell, &demand, why, sizeof why));
    assert_string_equal(why, "an update was lost");
}

/* ---- the program ---- */

/* build/VARIANT/lab of the variant that this test is of; returns its exit status. */
static int run_program(const char *first, const char *second, char *output, size_t output_bytes)
{
    char program[512], folder[PROC_PATH_BYTES], path[PROC_PATH_BYTES + 8];
    ssize_t count = readlink("/proc/self/exe", program, sizeof program - 1);
    assert_true(count > 0);
    program[count] = '\0';
    char *tests = strstr(program, "/tests/live/tester/lab_test");
    assert_non_null(tests);
    snprintf(tests, sizeof program - (size_t)(tests - program), "/lab");
    assert_true(proc_folder("program", NULL, folder));
    snprintf(path, sizeof path, "%s/out", folder);
    const char *const argv[] = {program, first, second, NULL};
    const struct proc_options options = {.argv = argv, .output_path = path};
    const int status = program_run(&options, LIMIT_MS, output, output_bytes);
    proc_remove(folder);
    return status;
}

TEST(the_program_names_what_it_has_and_what_it_does_not_know)
{
    char output[16384];
    assert_int_equal(run_program("--list", NULL, output, sizeof output), 0);
    for (size_t i = 0; scheme_at(i) != NULL; i++)
        assert_non_null(strstr(output, scheme_at(i)->title));
    for (size_t i = 0; failure_at(i) != NULL; i++)
        assert_non_null(strstr(output, failure_at(i)->title));
    assert_int_equal(run_program("etcd", NULL, output, sizeof output), 2);
    assert_non_null(strstr(output, "etcd: no group, scheme or failure"));
    assert_int_equal(run_program("--json", "x", output, sizeof output), 2);
    assert_non_null(strstr(output, "--json: no group, scheme or failure"));
}

TEST_GROUP(.up = start_servers, .down = stop_servers);

int main(int argc, char **argv)
{
    const bool is_worker = argc == WORKER_ARGUMENTS && strcmp(argv[1], "worker") == 0;
    return is_worker ? worker_main(argv) : test_main(argc, argv);
}
