/* SPDX-License-Identifier: MIT */
/*
 * fleetlock_test.c - fleetlock from outside: real processes, real servers of all providers, real signals.
 *
 * HOLD is a COMMAND that says that it has begun and lasts until something ends it.
 */
#include "guard/locks.h"
#include "load/base/clock.h"
#include "load/base/net.h"
#include "load/base/proc.h"
#include "load/stack/stack.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    MASTERS = 3,
    LIMIT_MS = 30000,
    ARGUMENTS_MAX = 24,
    TEXT_BYTES = 4096,
    PATH_BYTES = PROC_PATH_BYTES + 32
};

#define HOLD "--", "sh", "-c", "echo began $FLEETLOCK_NAME $FLEETLOCK_FENCE $$; exec sleep 600"
/* It does not go when it is told. */
#define CLING "--", "sh", "-c", "trap '' TERM; echo began x 0 $$; while :; do sleep 0.05; done"

static struct stack_redis redis;
static char folder[PROC_PATH_BYTES];
static char program[256];
static unsigned runs;
static const char *urls;   /* what FLEETLOCK_URL says; NULL: that of the Redis */
static const char *how[6]; /* further arguments of each; ends with NULL */
static struct stack_redis masters[MASTERS];

/* One fleetlock. */
struct run {
    pid_t pid;
    char output[PATH_BYTES];
};

static bool up(void)
{
    const char *catalogd = stack_catalogd_program();
    const char *slash = strrchr(catalogd, '/');
    snprintf(program, sizeof program, "%.*s/fleetlock", slash != NULL ? (int)(slash - catalogd) : 1,
             slash != NULL ? catalogd : ".");
    for (size_t i = 0; i < MASTERS; i++) {
        if (!stack_redis_start(&masters[i], NULL))
            return false;
    }
    return stack_redis_start(&redis, NULL) && proc_folder("fleetlock", NULL, folder);
}

static bool down(void)
{
    for (size_t i = 0; i < MASTERS; i++)
        stack_redis_stop(&masters[i]);
    stack_redis_stop(&redis);
    return true;
}

static bool empty(void)
{
    urls = NULL;
    memset(how, 0, sizeof how);
    stack_redis_resume(&redis);
    freeReplyObject(stack_redis_command(&redis, "FLUSHALL"));
    return true;
}

static struct run start_arguments(const char *const *words)
{
    const char *argv[ARGUMENTS_MAX + 1] = {program};
    char url[512];
    struct run run;
    size_t count = 1;
    for (size_t i = 0; how[i] != NULL; i++)
        argv[count++] = how[i];
    for (size_t i = 0; words[i] != NULL && count < ARGUMENTS_MAX; i++)
        argv[count++] = words[i];
    snprintf(run.output, sizeof run.output, "%s/%u", folder, runs++);
    snprintf(url, sizeof url, "FLEETLOCK_URL=%s", urls != NULL ? urls : redis.url);
    const char *const settings[] = {url, NULL};
    run.pid =
        proc_start(&(struct proc_options){.argv = argv, .settings = settings, .output_path = run.output});
    assert_true(run.pid > 0);
    return run;
}
#define start(...) start_arguments((const char *const[]){__VA_ARGS__, NULL})

/* What it and its COMMAND have printed. */
static const char *output(const struct run *run)
{
    static char text[TEXT_BYTES];
    const int fd = open(run->output, O_RDONLY | O_CLOEXEC);
    const ssize_t bytes = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[bytes > 0 ? bytes : 0] = '\0';
    return text;
}

static int status_of(struct run *run)
{
    int status;
    assert_true(proc_wait(run->pid, LIMIT_MS, &status));
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void end(struct run *run)
{
    kill(run->pid, SIGTERM);
    assert_int_equal(status_of(run), 128 + SIGTERM);
}

static void expect(struct run run, int status, const char *text)
{
    assert_int_equal(status_of(&run), status);
    if (strstr(output(&run), text) == NULL)
        fail_msg("\"%s\" is not in: %s", text, output(&run));
}

/* COMMAND's words once it has begun: its name, its fence and its process. */
struct begun {
    char name[64];
    uint64_t fence;
    pid_t pid;
};

static bool has_begun(const struct run *run, struct begun *out)
{
    int pid;
    const bool begun = sscanf(output(run), "began %63s %" SCNu64 " %d", out->name, &out->fence, &pid) == 3;
    out->pid = begun ? (pid_t)pid : 0;
    return begun;
}

static struct begun wait_begun(const struct run *run)
{
    struct begun begun;
    const uint64_t end_us = clock_after_ms(LIMIT_MS);
    while (!has_begun(run, &begun)) {
        if (clock_us() >= end_us)
            fail_msg("it has not begun: %s", output(run));
        clock_pause_ms(5);
    }
    return begun;
}

/* A run that holds x. */
static struct run hold(void)
{
    struct run run = start("x", HOLD);
    wait_begun(&run);
    return run;
}

static void expect_status(const char *name, const char *wanted)
{
    const uint64_t end_us = clock_after_ms(LIMIT_MS);
    for (;;) {
        struct run run = start(name, "--status");
        const int status = status_of(&run);
        if (status == 0 && strstr(output(&run), wanted) != NULL)
            return;
        if (status != 0 || clock_us() >= end_us)
            fail_msg("\"%s\" is not in: %s", wanted, output(&run));
    }
}

static bool is_gone(pid_t pid)
{
    struct proc_look look;
    return !proc_look(pid, &look);
}

/* The instant at which it is seen to be. */
static uint64_t wait_gone(pid_t pid)
{
    WAIT_UNTIL(is_gone(pid));
    return clock_us();
}

/* ---- the command ---- */

TEST(a_command_finds_its_name_and_fence_and_its_status_is_passed_on)
{
    expect(
        start("catalog", "--", "sh", "-c", "echo $FLEETLOCK_NAME; test $FLEETLOCK_FENCE -gt 1000000; exit 7"),
        7, "catalog\n");
}

TEST(a_name_with_a_space_is_not_two_names)
{
    expect(start("a b", "c", "--", "sh", "-c", "echo [$FLEETLOCK_NAME]"), 0, "[a%20b c]\n");
    expect(start("100%", "--", "sh", "-c", "echo [$FLEETLOCK_NAME]"), 0, "[100%25]\n");
}

TEST(a_command_that_a_signal_ends_shows_it_as_a_shell_does)
{
    expect(start("x", "--", "sh", "-c", "kill -9 $$"), 128 + SIGKILL, "");
}

TEST(a_command_that_cannot_be_run_is_126_and_one_that_is_not_there_127)
{
    expect(start("x", "--", "/"), 126, "fleetlock: /: ");
    expect(start("x", "--", "no-such-command"), 127, "no-such-command: cannot be run: No such file");
}

/* ---- the lock ---- */

TEST(permits_are_counted_however_many_there_are)
{
    struct run holder = start("x", "--permits", "2", "--of", "999999", HOLD);
    wait_begun(&holder);
    expect_status("x", " 2 of 999999");
    end(&holder);
}

TEST(a_bounded_wait_ends_with_75_and_leaves_no_place_in_the_queue)
{
    struct run holder = hold();
    char host[64], held[128];
    assert_int_equal(gethostname(host, sizeof host), 0);
    snprintf(held, sizeof held, "x: not acquired in time; held by %s:%d; nobody waits in front\n", host,
             (int)holder.pid);
    expect(start("x", "--wait", "2s", "--", "true"), 75, held);
    expect_status("x", "1 holder, 0 waiting");
    struct run waiter = start("x", HOLD);
    expect_status("x", "1 holder, 1 waiting");
    expect(start("y", "x", "--wait", "2s", "--", "true"), 75, "; 1 waits in front\n");
    end(&waiter);
    end(&holder);
}

TEST(a_signal_ends_the_wait)
{
    struct run holder = hold();
    struct run waiter = start("x", HOLD);
    expect_status("x", "1 waiting");
    end(&waiter);
    expect_status("x", "0 waiting");
    end(&holder);
}

/* ---- losing it ---- */

/* Who is not scheduled cannot be asked to be in time: one good run of several will do. */
enum { TRIES = 6 };

/* Redis hangs: by the end of the lease of the last renewal that could have been confirmed, COMMAND is dead. */
static bool is_killed_in_time(void)
{
    enum { LEASE_MS = 3000 };
    struct run run = start("x", "--lease", "3s", "--grace", "1s", CLING);
    const struct begun begun = wait_begun(&run);
    stack_redis_pause(&redis);
    const uint64_t end_us = clock_after_ms(LEASE_MS);
    const bool in_time = wait_gone(begun.pid) < end_us;
    expect(run, 74, "the lock is lost");
    stack_redis_resume(&redis);
    return in_time;
}

TEST(a_command_that_clings_is_killed_before_the_lease_ends, P128)
{
    for (int tries = 0; !is_killed_in_time(); tries++)
        assert_true(tries < TRIES);
}

/* A named pipe that this process keeps open and full. */
static int full_pipe(char path[static PATH_BYTES])
{
    static const char page[4096];
    snprintf(path, PATH_BYTES, "%s/pipe%u", folder, runs);
    assert_int_equal(mkfifo(path, 0600), 0);
    const int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    assert_true(fd >= 0);
    while (write(fd, page, sizeof page) > 0)
        continue;
    return fd;
}

/* What it has to say of a lost lock nobody reads: COMMAND ends all the same. */
TEST(a_reader_of_stderr_that_has_stopped_keeps_no_command_alive)
{
    char path[PATH_BYTES], url[512], shell[PATH_BYTES + 128];
    const int pipe = full_pipe(path);
    struct run run;
    snprintf(run.output, sizeof run.output, "%s/%u", folder, runs++);
    snprintf(url, sizeof url, "FLEETLOCK_URL=%s", redis.url);
    snprintf(shell, sizeof shell,
             "exec \"$0\" x --lease 1s --grace 100ms -- sh -c 'echo began x 0 $$; exec sleep 600' 2>%s",
             path);
    run.pid =
        proc_start(&(struct proc_options){.argv = (const char *const[]){"sh", "-c", shell, program, NULL},
                                          .settings = (const char *const[]){url, NULL},
                                          .output_path = run.output});
    assert_true(run.pid > 0);
    const pid_t command = wait_begun(&run).pid;
    stack_redis_pause(&redis);
    wait_gone(command);
    stack_redis_resume(&redis);
    assert_int_equal(status_of(&run), 74);
    close(pipe);
}

TEST(a_command_that_is_told_has_its_grace, P128)
{
    struct run run = start("x", "--lease", "9s", "--grace", "3s", "--", "sh", "-c",
                           "trap 'echo told; exit 3' TERM; echo began x 0 $$; while :; do sleep 0.05; done");
    const struct begun begun = wait_begun(&run);
    stack_redis_pause(&redis);
    expect(run, 74, "told\n");
    wait_gone(begun.pid);
    stack_redis_resume(&redis);
}

TEST(a_command_may_go_on_without_the_lock)
{
    struct run run = start("x", "--lease", "1s", "--grace", "0", "--on-lost", "go-on", "--", "sh", "-c",
                           "echo began x 0 $$; trap 'exit 5' USR1; while :; do sleep 0.05; done");
    const struct begun begun = wait_begun(&run);
    stack_redis_pause(&redis);
    WAIT_UNTIL(strstr(output(&run), "COMMAND goes on") != NULL);
    stack_redis_resume(&redis);
    assert_int_equal(kill(begun.pid, SIGUSR1), 0);
    assert_int_equal(status_of(&run), 5);
}

TEST(a_command_does_not_outlive_a_fleetlock_that_is_killed, P128)
{
    struct run run = start("x", "--lease", "3s", "--grace", "500ms", CLING);
    const struct begun begun = wait_begun(&run);
    struct run next = start("x", HOLD);
    expect_status("x", "1 waiting");
    kill(run.pid, SIGKILL);
    wait_gone(begun.pid);
    assert_true(proc_wait(run.pid, LIMIT_MS, NULL));
    wait_begun(&next);
    end(&next);
}

/* It was stopped past its lease: nothing is left for a grace. */
static bool is_killed_without_grace(void)
{
    enum { GRACE_MS = 1000 };
    struct run run = start("x", "--lease", "3s", "--grace", "1s", CLING);
    const struct begun begun = wait_begun(&run);
    kill(run.pid, SIGSTOP); /* it alone: COMMAND goes on */
    assert_true(proc_wait_stopped(run.pid));
    expect_status("x", "0 holders");
    const uint64_t end_us = clock_after_ms(GRACE_MS);
    kill(run.pid, SIGKILL);
    const bool at_once = wait_gone(begun.pid) < end_us;
    assert_true(proc_wait(run.pid, LIMIT_MS, NULL));
    return at_once;
}

TEST(a_command_has_no_grace_beyond_the_lease_when_fleetlock_is_killed, P128)
{
    for (int tries = 0; !is_killed_without_grace(); tries++)
        assert_true(tries < TRIES);
}

/* ---- what outlives the command ---- */

/* A COMMAND that is over at once, with 7, and leaves WORK running, which prints what HOLD prints. */
#define LEAVE(WORK) "--", "bash", "-c", WORK " & exit 7"
#define WORK "sh -c 'echo began x 0 $$; exec sleep 600'"
/* A daemon: a session of its own, and its parent is over, too. */
#define DAEMON "(setsid " WORK " &)"
/* It does not go when it is told. */
#define CLINGING_DAEMON                                                                                      \
    "(setsid sh -c \"trap '' TERM HUP; echo began x 0 \\$\\$; while :; do sleep 0.05; done\" &)"

static void expect_kept(struct run run)
{
    const struct begun begun = wait_begun(&run);
    expect(start("x", "--wait", "0", "--", "true"), 75, "not acquired in time");
    assert_int_equal(kill(begun.pid, SIGKILL), 0);
    assert_int_equal(status_of(&run), 7);
    expect(start("x", "--wait", "0", "--", "true"), 0, "");
}

TEST(work_that_a_command_leaves_behind_keeps_the_lock_wherever_it_goes, P128)
{
    expect_kept(start("x", LEAVE(WORK)));
    expect_kept(start("x", LEAVE("setsid " WORK)));
    expect_kept(start("x", LEAVE(DAEMON)));
    expect_kept(start("outer", "--", program, "x", LEAVE(DAEMON)));
}

static void expect_left(struct run run)
{
    const struct begun begun = wait_begun(&run);
    assert_int_equal(status_of(&run), 7);
    expect(start("x", "--wait", "0", "--", "true"), 0, "");
    assert_int_equal(kill(begun.pid, SIGKILL), 0);
}

TEST(work_that_has_closed_the_descriptor_or_never_had_it_does_not_keep_the_lock)
{
    expect_left(start("x", "--close", LEAVE(WORK)));
    expect_left(start("x", LEAVE("exec 100>&-; setsid " WORK)));
}

/* Redis hangs, or fleetlock is killed: by the end of the lease all of it is dead. */
static bool is_killed_with_all(const char *work, bool is_hang)
{
    enum { LEASE_MS = 3000 };
    struct run run = start("x", "--lease", "3s", "--grace", "500ms", "--", "bash", "-c", work);
    const struct begun begun = wait_begun(&run);
    const uint64_t end_us = clock_after_ms(LEASE_MS);
    if (is_hang)
        stack_redis_pause(&redis);
    else
        kill(run.pid, SIGKILL);
    const bool in_time = wait_gone(begun.pid) < end_us;
    if (is_hang)
        expect(run, 74, "the lock is lost");
    else
        assert_true(proc_wait(run.pid, LIMIT_MS, NULL));
    stack_redis_resume(&redis);
    return in_time;
}

TEST(all_that_a_command_has_started_is_killed_before_the_lease_ends, P128)
{
    static const char *const works[] = {
        CLINGING_DAEMON "; exec sleep 600",
        CLINGING_DAEMON " & exit 7",
        "(exec 100>&-; " CLINGING_DAEMON "); exec sleep 600",
    };
    for (size_t i = 0; i < 2 * sizeof works / sizeof *works; i++)
        for (int tries = 0; !is_killed_with_all(works[i / 2], i % 2 == 0); tries++)
            assert_true(tries < TRIES);
}

/* ---- how it was started ---- */

TEST(a_signal_that_is_ignored_does_not_end_the_wait)
{
    struct run holder = hold();
    struct run waiter = start("outer", "--", "env", "--ignore-signal=HUP", program, "x", "--", "sh", "-c",
                              "echo began x 0 $$");
    expect_status("x", "1 waiting");
    kill(waiter.pid, SIGHUP);
    end(&holder);
    expect(waiter, 0, "began x");
}

TEST(the_end_of_a_command_is_heard_of_where_that_signal_was_ignored)
{
    expect(start("outer", "--", "env", "--ignore-signal=CHLD", program, "x", "--", "true"), 0, "");
}

TEST(a_status_that_nobody_can_be_told_is_71)
{
    expect(start("outer", "--", "sh", "-c", "exec \"$0\" x --status >/dev/full", program), 71,
           "No space left");
}

/* Fields 5 and 8: its group, and the one that the terminal listens to. */
#define SAY_WHERE                                                                                            \
    "read -r _ _ _ _ group _ _ heard _ </proc/$$/stat; test $group = $heard && echo in front || echo behind"

static void expect_on_terminal(const char *script, const char *behind, const char *text)
{
    char line[512];
    snprintf(line, sizeof line, "%s x -- sh -c '%s' %s", program, script, behind);
    expect(start("outer", "--", "script", "-qec", line, "/dev/null"), 0, text);
}

TEST(a_command_gets_the_terminal_and_leaves_it_to_a_pager_until_it_asks)
{
    expect_on_terminal(SAY_WHERE, "", "in front");
    expect_on_terminal(SAY_WHERE, "| cat", "behind");
    expect_on_terminal("stty sane; " SAY_WHERE, "| cat", "in front");
}

/* "secret" is typed there. */
static void expect_typed(const char *line, const char *text)
{
    expect(start("outer", "--", "sh", "-c", "echo secret | script -qec \"$0\" /dev/null", line), 0, text);
}

#define ASK "read -r word </dev/tty; echo got $word"

TEST(a_command_whose_input_is_a_pipe_may_ask_at_the_terminal)
{
    char line[512];
    snprintf(line, sizeof line, "echo x | %s x -- sh -c '" ASK "'", program);
    expect_typed(line, "got secret");
    snprintf(line, sizeof line, "%s x -- sh -c '" ASK "' </dev/null 2>/dev/null | cat", program);
    expect_typed(line, "got secret");
}

TEST(a_command_that_asks_behind_another_job_waits_until_it_is_in_front)
{
    char line[1024], script[PATH_BYTES];
    snprintf(script, sizeof script, "%s/ask", folder);
    FILE *file = fopen(script, "w");
    assert_non_null(file);
    fprintf(file, "echo $$ >%s/asks; " ASK "\n", folder);
    fclose(file);
    snprintf(line, sizeof line,
             "bash --norc -c 'set -m; %s x -- sh %s & "
             "until grep -qs State:.T /proc/$(cat %s/asks)/status; do sleep 0.01; done; fg'",
             program, script, folder);
    expect_typed(line, "got secret");
}

/* ---- each provider ---- */

static bool use(enum guard_lock_provider which, const char *name, const char *its_urls)
{
    urls = its_urls;
    how[0] = "--provider";
    how[1] = name;
    if (guard_locks_has(which))
        return true;
    expect(start("x", "--", "true"), 64, "is not built in");
    return false;
}

static void take_turns(void)
{
    struct run first = start("x", HOLD);
    const struct begun one = wait_begun(&first);
    expect_status("x", "1 holder");
    expect(start("x", "--wait", "3s", "--", "true"), 75, "not acquired in time");
    struct run second = start("x", HOLD);
    end(&first);
    const struct begun two = wait_begun(&second);
    assert_true(two.fence > one.fence);
    end(&second);
    expect_status("x", "0 holders");
    /* No library's descriptors are left to COMMAND: 3 is ls's own. */
    expect(start("x", "--close", "--", "sh", "-c", "ls /proc/self/fd | tr '\\n' ' '"), 0, "0 1 2 3 ");
}

TEST(redis_takes_turns)
{
    take_turns();
    struct run run = hold();
    kill(run.pid, SIGINT);
    assert_int_equal(status_of(&run), 128 + SIGINT);
}

/* A connection string of libpq has spaces, and is one URL all the same. */
TEST(postgres_takes_turns_and_loses_the_lock_with_its_session)
{
    static struct stack_postgres postgres;
    if (!use(GUARD_LOCKS_POSTGRES, "postgres", postgres.socket_url))
        return;
    assert_true(stack_postgres_start(&postgres, 20));
    take_turns();
    struct run run = start("x", HOLD);
    const struct begun begun = wait_begun(&run);
    assert_true(stack_postgres_query(
        postgres.url,
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted", NULL, 0));
    expect(run, 74, "the lock is lost");
    wait_gone(begun.pid);
    stack_postgres_stop(&postgres);
}

TEST(a_look_ends_at_once_by_a_signal)
{
    int status;
    stack_redis_pause(&redis);
    struct run run = start("x", "--status");
    WAIT_UNTIL(proc_status(run.pid, "Threads") > 1); /* it asks */
    kill(run.pid, SIGINT);
    assert_true(proc_wait(run.pid, LIMIT_MS, &status));
    assert_true(WIFSIGNALED(status));
}

/* The table is locked until a look has waited for it twice as long as a lock's question may. */
static pid_t start_locking_table(const struct stack_postgres *postgres)
{
    const char *const argv[] = {
        "psql", postgres->url, "-qc",
        "DO $$ BEGIN LOCK TABLE lock_fences; FOR i IN 1..3000 LOOP PERFORM pg_sleep(0.01),"
        " pg_stat_clear_snapshot(); EXIT WHEN EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type ="
        " 'Lock' AND query_start < clock_timestamp() - interval '500 ms'); END LOOP; END $$",
        NULL};
    const pid_t pid = proc_start(&(struct proc_options){.argv = argv});
    assert_true(pid > 0);
    char locked[8] = "";
    WAIT_UNTIL(stack_postgres_query(postgres->url,
                                    "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND"
                                    " relation = to_regclass('lock_fences')",
                                    locked, sizeof locked) &&
               strcmp(locked, "1") == 0);
    return pid;
}

TEST(a_look_waits_for_a_provider_that_is_slow)
{
    static struct stack_postgres postgres;
    if (!use(GUARD_LOCKS_POSTGRES, "postgres", postgres.socket_url))
        return;
    assert_true(stack_postgres_start(&postgres, 20));
    expect(start("x", "--", "true"), 0, "");
    struct run locking = {.pid = start_locking_table(&postgres)};
    expect(start("x", "--status"), 0, "0 holders");
    assert_int_equal(status_of(&locking), 0);
    stack_postgres_stop(&postgres);
}

TEST(zookeeper_takes_turns)
{
    static struct stack_zookeeper zookeeper;
    if (!use(GUARD_LOCKS_ZOOKEEPER, "zookeeper", zookeeper.url))
        return;
    assert_true(stack_zookeeper_start(&zookeeper, 1));
    take_turns();
    stack_zookeeper_stop(&zookeeper);
}

/* The masters have been up for a while: they do not vote before. */
TEST(redlock_takes_turns)
{
    char three[sizeof masters[0].url * MASTERS];
    snprintf(three, sizeof three, "%s %s %s", masters[0].url, masters[1].url, masters[2].url);
    use(GUARD_LOCKS_REDLOCK, "redlock", three);
    how[2] = "--mutex";
    how[3] = "--max-lease=4s";
    how[4] = "--lease=4s";
    take_turns();
    how[3] = "--max-lease=24h"; /* they have not been up for that */
    expect(start("x", "--wait", "2s", "--", "true"), 75, "; the masters grant nothing for 86");
    expect_status("x", "the masters grant nothing for 86");
}

/* ---- secrets and refusals ---- */

TEST(a_command_is_not_told_a_password)
{
    char url[128];
    snprintf(url, sizeof url, "redis://default:hunter2@127.0.0.1:%u", (unsigned)redis.port);
    freeReplyObject(stack_redis_command(&redis, "CONFIG SET requirepass hunter2"));
    urls = url;
    expect(start("x", "--", "sh", "-c", "echo [$FLEETLOCK_URL]"), 0, "[]");
    expect(start("x", "--", program, "y", "--", "true"), 64, "FLEETLOCK_URL is empty");
    freeReplyObject(stack_redis_command(&redis, "AUTH hunter2"));
    char line[128];
    snprintf(line, sizeof line, "redis-cli -p %u -a hunter2 --no-auth-warning CONFIG SET requirepass ''",
             (unsigned)redis.port);
    assert_int_equal(system(line), 0);
    urls = NULL;
    snprintf(line, sizeof line, "[%s]", redis.url);
    expect(start("x", "--", "sh", "-c", "echo [$FLEETLOCK_URL]"), 0, line);
}

static void expect_refused(const char *url, const char *text)
{
    struct run once = start("x", "--wait", "0", "--url", url, "--", "true");
    expect(start("x", "--url", url, "--", "true"), 64, text);
    expect(once, 64, text);
    struct run look = start("x", "--status", "--url", url);
    assert_int_equal(status_of(&look), 69);
    assert_null(strstr(output(&look), "hunter2"));
}

/* No --wait: it would wait for ever. */
TEST(what_an_operator_must_change_first_is_not_waited_for)
{
    static const char *const renamed[] = {
        "--rename-command", "EVALSHA", "", "--rename-command", "EVAL", "", NULL};
    struct stack_redis other;
    char url[128];
    freeReplyObject(stack_redis_command(&redis, "ACL SETUSER poor on >right ~* &* +@all -evalsha -eval"));
    snprintf(url, sizeof url, "redis://poor:hunter2@127.0.0.1:%u", (unsigned)redis.port);
    expect_refused(url, "WRONGPASS");
    snprintf(url, sizeof url, "redis://poor:right@127.0.0.1:%u", (unsigned)redis.port);
    expect_refused(url, "NOPERM");
    freeReplyObject(stack_redis_command(&redis, "ACL DELUSER poor"));
    assert_true(stack_redis_start(&other, renamed));
    expect_refused(other.url, "unknown command");
    stack_redis_stop(&other);
}

/* ---- what is wrong ---- */

TEST(a_provider_that_is_not_there_is_69)
{
    char url[64];
    snprintf(url, sizeof url, "redis://127.0.0.1:%u", (unsigned)net_free_port());
    expect(start("x", "--wait", "500ms", "--url", url, "--", "true"), 69, "not reachable");
    expect(start("x", "--status", "--url", url), 69, "not reachable");
}

TEST(who_waits_for_ever_for_a_provider_says_so)
{
    const uint64_t end_us = clock_after_ms(LIMIT_MS);
    char url[64];
    snprintf(url, sizeof url, "redis://127.0.0.1:%u", (unsigned)net_free_port());
    struct run run = start("x", "--url", url, "--", "true");
    while (strstr(output(&run), "fleetlock: waiting for the provider") == NULL && clock_us() < end_us)
        clock_pause_ms(5);
    end(&run);
    assert_non_null(strstr(output(&run), "which is not reachable; --wait TIME limits this\n"));
}

TEST(names_that_are_too_many_or_too_long_are_told_once)
{
    static char name[GUARD_LOCK_NAME_BYTES_MAX + 2];
    memset(name, 'n', sizeof name - 1);
    struct run run = start("1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "--", "true");
    assert_int_equal(status_of(&run), 64);
    assert_string_equal(output(&run), "fleetlock: 10 NAMEs are too many; at most 8\nfleetlock: see --help\n");
    expect(start(name, "--", "true"), 64, "fleetlock: NAME is too long; a name has 1..4096 bytes\n");
    expect(start("x", name, "--", "true"), 64, "fleetlock: NAME[1] is too long; a name has 1..4096 bytes\n");
}

TEST(each_mistake_is_64_and_a_line)
{
    static const struct {
        const char *arguments[8], *text;
    } mistakes[] = {
        {{"x"}, "what is to run?"},
        {{"x", "--"}, "what is to run?"},
        {{"--", "true"}, "which lock?"},
        {{"x", "--read", "--write", "--", "true"}, "one of --fair"},
        {{"x", "--permits", "3", "--of", "2", "--", "true"}, "N is at most M"},
        {{"x", "--permits", "0", "--of", "2", "--", "true"}, "1..999999"},
        {{"x", "--wait", "5", "--", "true"}, "as in 30s"},
        {{"x", "--lease", "1ms", "--", "true"}, "--lease must be"},
        {{"x", "--grace", "9s", "--", "true"}, "more than a third of --lease"},
        {{"x", "--on-lost", "nonsense", "--", "true"}, "another signal's name"},
        {{"x", "--provider", "etcd", "--", "true"}, "redis, redlock, postgres or zookeeper"},
        {{"x", "y", "--status"}, "about one NAME"},
        {{"x", "--url", "http://x", "--", "true"}, "fleetlock: --url: must begin with redis://"},
        {{"x", "--url", "redis+cluster://a", "--", "true"}, "fleetlock: no locks in a redis+cluster://"},
        {{"x", "--namespace", "a b", "--", "true"}, "--namespace must be 1.."},
        {{"x", "x", "--", "true"}, "NAME[0] and [1] are the same"},
        {{"x", "--url", "redis://a", "--url", "redis://b", "--", "true"},
         "the number of --url is 2; redis takes one"},
        {{"x", "--provider", "redlock", "--url", "redis://a", "--", "true"}, "redlock takes 3, 5, 7 or 9"},
        {{"x", "--max-lease", "25h", "--", "true"}, "--max-lease must be"},
        {{"x", "--provider", "zookeeper", "--url", "me:hunter2@a:1", "--", "true"},
         "without a user or a password\n"},
        {{"x", "--nonsense", "--", "true"}, "nonsense"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
        expect(start_arguments(mistakes[i].arguments), 64, mistakes[i].text);
}

TEST(a_kind_that_a_provider_has_not_is_refused_by_the_name_of_its_option)
{
    urls = "redis://127.0.0.1:1 redis://127.0.0.1:2 redis://127.0.0.1:3";
    expect(start("x", "--provider", "redlock", "--", "true"), 64,
           "--provider: redlock has no --fair; it has --mutex\n");
}

TEST_GROUP(.up = up, .down = down, .before = empty);
