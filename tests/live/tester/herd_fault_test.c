/* SPDX-License-Identifier: MIT */
/* herd_fault_test.c - targets that do not serve, machines too small, generators that die, interrupted runs. */
#include "load/base/clock.h"
#include "load/base/proc.h"
#include "load/herd/herd.h"
#include "tests/live/tester/herd_rig.h"
#include "tests/support/sockets.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOBODY = 65534, GENERATORS = 2 };

/* ---- before the start ---- */

static void assert_refused(const char *const *parts)
{
    char why[WORK_WHY_BYTES] = "";
    assert_false(herd_start(&work, &herd, why));
    assert_null(herd);
    for (; *parts != NULL; parts++) {
        if (strstr(why, *parts) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", why, *parts);
    }
}

static void retarget(uint16_t port)
{
    work.target_count = 0;
    add_target(port);
}

TEST(a_target_that_is_not_there_is_named_before_the_start)
{
    burst_of(10, "/ok");
    add_target(net_free_port());
    assert_refused((const char *const[]){work.targets[1].name, "no connection", "refused", NULL});
}

TEST(a_target_that_is_no_http_server_is_told_with_what_it_said)
{
    burst_of(10, "/ok");
    retarget(server.ports[HERD_SERVER_RUBBISH]);
    assert_refused((const char *const[]){"not in HTTP", "220 mail.example.org", NULL});
    retarget(server.ports[HERD_SERVER_TLS]);
    assert_refused((const char *const[]){"not in HTTP", "\\x15\\x03", "TLS", NULL});
    retarget(server.ports[HERD_SERVER_CLOSING]);
    assert_refused((const char *const[]){"closes them without an answer", NULL});
}

static void assert_asked_before(const char *method, unsigned requests, bool is_noted)
{
    char why[WORK_WHY_BYTES] = "";
    burst_of(4, "/key/{7-9}");
    retarget(server.ports[HERD_SERVER_STRICT]);
    work.method = method;
    work.headers = "X-Test: yes\r\n";
    if (!herd_start(&work, &herd, why))
        fail_msg("%s", why);
    assert_int_equal(atomic_load(&server.seen->requests[HERD_SERVER_STRICT]), requests);
    assert_int_equal(strstr(herd_note(herd), "hung up on OPTIONS *") != NULL, is_noted);
    herd_end(&herd, &run.records, &run.strain, why);
}

TEST(a_target_that_hangs_up_on_options_is_asked_a_request_of_the_run)
{
    assert_asked_before("GET", 1, true);
    assert_int_equal(atomic_load(&server.seen->keys[7]), 1);
    assert_non_null(strstr(server.seen->last_request, "\r\nX-Test: yes\r\n"));
    assert_asked_before("HEAD", 1, true);
    assert_asked_before("POST", 0, false); /* it may change something */
}

/* Some are connected and hear nothing, the others are not. */
static void assert_mostly_unconnected(void)
{
    run_all();
    assert_in_range(count_outcome(RECORD_UNCONNECTED), 10, 17);
    assert_int_equal(count_outcome(RECORD_UNCONNECTED) + count_outcome(RECORD_TIMEOUT), 20);
}

TEST(who_gets_no_connection_in_time_is_unconnected)
{
    uint16_t port;
    int fd = socket_listen(0, 5, &port); /* from the seventh on they wait for ever; the probe takes one */
    burst_of(20, "/ok");
    retarget(port);
    work.connect_limit_ms = 200;
    work.request_limit_ms = 100;
    assert_mostly_unconnected();
    close(fd);
    fd = socket_listen(0, 5, &port);
    rate_of(1000, 20, "/ok");
    retarget(port);
    work.request_limit_ms = 100; /* is over before the limit for connecting */
    assert_mostly_unconnected();
    close(fd);
}

static const char *judge_backlog(const struct backlog *before)
{
    static char text[BACKLOG_TEXT_BYTES];
    backlog_judge(before, &work, &run.records, text);
    return text;
}

/* On this machine other queues may overflow, too: none is judged that was long enough. */
TEST(a_listen_queue_that_overflowed_is_named_with_its_length)
{
    uint16_t port, long_port;
    struct backlog before;
    int fd = socket_listen(0, 5, &port), long_fd = socket_listen(0, 100, &long_port);
    rate_of(1000, 20, "/ok");
    retarget(port);
    add_target(long_port);
    work.connection_count = 40;
    work.request_limit_ms = 100;
    backlog_look(&work, &before);
    assert_true(before.is_known);
    assert_int_equal(before.places[0], 5);
    assert_int_equal(before.places[1], 100);
    run_all();
    assert_non_null(strstr(judge_backlog(&before), work.targets[0].name));
    assert_non_null(strstr(judge_backlog(&before), "has 5 places: it overflowed "));
    assert_non_null(strstr(judge_backlog(&before), "and 20 requests had no connection or no answer in time"));
    retarget(long_port);
    backlog_look(&work, &before);
    before.overflows = 0; /* of others */
    assert_string_equal(judge_backlog(&before), "");
    close(fd);
    close(long_fd);
}

/* Runs as nobody, who cannot raise the limit again; true in shared memory if all was as it should be. */
static void refuse_without_files(_Atomic bool *good)
{
    const struct rlimit few = {200, 200};
    char why[WORK_WHY_BYTES] = "";
    if (setrlimit(RLIMIT_NOFILE, &few) == -1 || (geteuid() == 0 && setuid(NOBODY) == -1))
        _exit(1);
    *good = !herd_start(&work, &herd, why) &&
            strstr(why, "564 open files in each, 200 are allowed") != NULL &&
            strstr(why, "prlimit --pid $$ --nofile=564:564") != NULL;
    _exit(0);
}

TEST(too_few_open_files_are_told_with_the_command_that_helps)
{
    _Atomic bool *good = mmap(NULL, sizeof *good, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    burst_of(1000, "/ok");
    pid_t pid = fork();
    if (pid == 0)
        refuse_without_files(good);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(*good);
    munmap((void *)good, sizeof *good);
}

TEST(too_few_local_ports_are_told_with_what_helps)
{
    char why[WORK_WHY_BYTES];
    burst_of(60000, "/ok");
    work.generator_count = 16;
    work.source_count = 1;
    assert_refused((const char *const[]){"60000 connections", "local ports", "more source addresses", NULL});
    assert_true(work_target_parse("192.0.2.1:80", &work.targets[0], why)); /* nobody's, by RFC 5737 */
    assert_refused((const char *const[]){"192.0.2.1:80", "sysctl -w net.ipv4.ip_local_port_range", NULL});
}

/* ---- while it runs ---- */

/* The generators are our only children with that name. */
static size_t find_generators(pid_t parent, pid_t pids[static GENERATORS])
{
    pid_t family[64];
    size_t count = 0;
    for (size_t i = proc_family(parent, family, 64); i-- > 0 && count < GENERATORS;) {
        struct proc_look look;
        if (proc_look(family[i], &look) && look.parent == parent && strcmp(look.name, "stampede-gen") == 0)
            pids[count++] = family[i];
    }
    return count;
}

TEST(an_aborted_run_ends_at_once_and_keeps_what_there_is)
{
    rate_of(2000, 100000, "/ok");
    assert_true(work_url_add(&work, "/hang", run.why));
    work.connection_count = 4;
    run_begin();
    wait_until(&run.progress.due, 600); /* so many that all four hang and others wait for one */
    herd_abort(herd);
    uint64_t abort_us = clock_us();
    run_watch();
    run_end();
    assert_true(run.good);
    assert_true(clock_us() < abort_us + 15000000); /* the run would have gone on for longer */
    assert_in_range(run.records.count, 600, 199999);
    assert_true(count_outcome(RECORD_ANSWERED) >= 1);
    assert_int_equal(count_outcome(RECORD_CUT), 4);
    assert_true(count_outcome(RECORD_UNSENT) >= 100);
    for (size_t i = 0; i < run.records.count; i++)
        assert_true(run.records.at[i].due_us < clock_us() && run.records.at[i].end_us > 0);
}

TEST(a_killed_generator_is_told_and_all_its_records_are_kept)
{
    enum { EACH = 3000 }; /* seconds of work: it is killed long before its end */
    pid_t pids[GENERATORS];
    uint32_t by_generator[GENERATORS] = {0}, cut[GENERATORS] = {0};
    rate_of(1000, 2 * EACH, "/ok");
    run_begin();
    wait_until_sent(1000);
    assert_int_equal(find_generators(getpid(), pids), GENERATORS);
    assert_int_equal(kill(pids[1], SIGKILL), 0);
    run_watch();
    run_end();
    assert_false(run.good);
    assert_non_null(strstr(run.why, "was ended by signal 9 after"));
    assert_non_null(strstr(run.why, "of its 3000 requests; what was recorded is kept"));
    for (size_t i = 0; i < run.records.count; i++) {
        by_generator[run.records.at[i].generator]++;
        cut[run.records.at[i].generator] += run.records.at[i].outcome == RECORD_CUT;
    }
    uint32_t whole = by_generator[0] > by_generator[1] ? 0 : 1;
    assert_int_equal(by_generator[whole], EACH);
    assert_int_equal(cut[whole], 0);
    assert_in_range(by_generator[1 - whole], 1, EACH - 1); /* one may have begun before the other */
    assert_true(cut[1 - whole] <=
                work.connection_count / GENERATORS); /* what was under way, however late it ran */
    assert_int_equal(count_outcome(RECORD_ANSWERED) + cut[1 - whole], run.records.count);
}

TEST(the_others_do_not_wait_for_a_dead_generator_at_the_barrier)
{
    pid_t pids[GENERATORS];
    burst_of(100, "/ok");
    work.round_count = 3;
    assert_true(herd_start(&work, &herd, run.why));
    wait_until_connected();
    assert_int_equal(find_generators(getpid(), pids), GENERATORS);
    assert_true(proc_pause(pids[0]));
    assert_true(herd_release(herd, &run.begin_us, run.why));
    wait_until(&run.progress.answered, 50); /* the other one has done its round, and waits */
    assert_int_equal(kill(pids[0], SIGKILL), 0);
    run_watch();
    run_end();
    assert_false(run.good);
    assert_int_equal(run.records.count, 150);
    assert_int_equal(count_outcome(RECORD_ANSWERED), 150);
}

static bool is_alive(pid_t pid)
{
    struct proc_look look;
    return proc_look(pid, &look);
}

static _Noreturn void run_until_killed(void)
{
    run_begin();
    for (;;) {
        clock_pause_ms(10);
        herd_watch(herd, &run.progress);
    }
}

TEST(generators_die_with_the_program)
{
    pid_t pids[GENERATORS];
    rate_of(100, 100000, "/ok");
    pid_t program = fork();
    if (program == 0)
        run_until_killed();
    uint64_t end_us = clock_after_ms(RUN_LIMIT_MS);
    while (find_generators(program, pids) < GENERATORS && clock_us() < end_us)
        clock_pause_ms(2);
    assert_int_equal(find_generators(program, pids), GENERATORS);
    assert_int_equal(kill(program, SIGKILL), 0);
    assert_int_equal(waitpid(program, NULL, 0), program);
    while ((is_alive(pids[0]) || is_alive(pids[1])) && clock_us() < end_us)
        clock_pause_ms(2);
    assert_false(is_alive(pids[0]) || is_alive(pids[1]));
}

TEST_GROUP(.up = start_server, .down = stop_server, .after = clear_run);
