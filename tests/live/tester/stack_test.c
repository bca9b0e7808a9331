/* SPDX-License-Identifier: MIT */
/*
 * stack_test.c - of the private servers what no other test would notice: what outlives a program, a count that is
 * wrong, a yes that is a no. That they start, hang, die and come back is what each test with servers stands on.
 */
#include "load/base/clock.h"
#include "load/base/proc.h"
#include "load/stack/stack.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <libpq-fe.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT_MS = 20000 };

/* ---- processes ---- */

static bool is_gone(pid_t pid)
{
    struct proc_look look;
    return !proc_look(pid, &look);
}

static bool wait_gone(pid_t pid)
{
    for (uint64_t end_us = clock_after_ms(LIMIT_MS); clock_us() < end_us; clock_pause_ms(2)) {
        if (is_gone(pid))
            return true;
    }
    return false;
}

TEST(a_child_inherits_no_descriptor)
{
    int leak = open("/dev/null", O_RDONLY); /* without CLOEXEC, as libraries do */
    const char *const argv[] = {
        "sh", "-c", "for f in /proc/self/fd/*; do n=${f##*/}; [ $n -le 2 ] || [ ! -e $f ] || exit 1; done",
        NULL};
    assert_true(leak > 2);
    assert_true(proc_run(&(struct proc_options){.argv = argv}, LIMIT_MS));
    close(leak);
}

TEST(a_child_that_ignores_the_signal_is_killed)
{
    char folder[PROC_PATH_BYTES], output[PROC_PATH_BYTES + 8];
    assert_true(proc_folder("test", NULL, folder));
    snprintf(output, sizeof output, "%s/out", folder);
    const char *const argv[] = {"sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done", NULL};
    pid_t pid = proc_start(&(struct proc_options){.argv = argv, .output_path = output}), was = pid;
    while (stack_log_count(output, 0, "ready") == 0)
        clock_pause_ms(1);
    assert_false(proc_stop(&pid, SIGTERM, 50));
    assert_int_equal(pid, 0);
    assert_true(is_gone(was));
    proc_remove(folder);
}

/* Reads "pid\n" lines and then the folder from the pipe of the program below. */
static void read_report(int fd, char *text, size_t text_bytes)
{
    size_t count = 0;
    ssize_t got;
    while (count + 1 < text_bytes && strstr(text, "end\n") == NULL &&
           (got = read(fd, text + count, text_bytes - 1 - count)) > 0) {
        count += (size_t)got;
        text[count] = '\0';
    }
}

/* Run as a program of its own by the test below: starts servers, says which, and waits to be killed. */
static int run_doomed(void)
{
    static struct stack_redis redis;
    static struct stack_postgres postgres;
    proc_clean_on_signals();
    if (!stack_redis_start(&redis, NULL) || !stack_postgres_start(&postgres, 20))
        return 1;
    stack_redis_pause(&redis); /* one that cannot hear a signal */
    printf("%d %d %s\nend\n", (int)redis.pid, (int)postgres.pid, redis.folder);
    fflush(stdout);
    for (;;)
        pause();
}

static pid_t start_doomed(int *output)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 1);
        execl("/proc/self/exe", "stack_test", "doomed", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    *output = ends[0];
    return pid;
}

TEST(nothing_outlives_the_program_whatever_ended_it)
{
    static const int signals[] = {SIGKILL, SIGINT, SIGTERM, SIGABRT};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        char report[512] = "", folder[256];
        int output, redis_pid, postgres_pid, status;
        pid_t pid = start_doomed(&output);
        read_report(output, report, sizeof report);
        assert_int_equal(sscanf(report, "%d %d %255s", &redis_pid, &postgres_pid, folder), 3);
        assert_int_equal(access(folder, F_OK), 0);
        kill(pid, signals[i]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), signals[i]);
        if (signals[i] == SIGINT) { /* this one returns after it has cleaned up */
            assert_true(is_gone(redis_pid) && is_gone(postgres_pid));
            assert_int_equal(access(folder, F_OK), -1);
        }
        assert_true(wait_gone(redis_pid));
        assert_true(wait_gone(postgres_pid));
        for (int tries = 0; access(folder, F_OK) == 0 && tries < 5000; tries++)
            clock_pause_ms(2);
        assert_int_equal(access(folder, F_OK), -1);
        close(output);
    }
}

TEST_GROUP(.up = NULL);

/* ---- Redis ---- */

static struct stack_redis the_redis;

/* Many tests rely on their no. */
TEST(redis_is_asked_for_what_it_answers_and_anything_else_is_a_no)
{
    struct stack_redis *redis = &the_redis;
    char text[3];
    assert_true(stack_redis_do(redis, "RPUSH list %s", "two words"));
    assert_false(stack_redis_do(redis, "GET list"));
    assert_int_equal(stack_redis_number(redis, "LLEN list"), 1);
    assert_true(stack_redis_number(redis, "GET list") == STACK_REDIS_NO_NUMBER);
    assert_true(stack_redis_number(redis, "PING") == STACK_REDIS_NO_NUMBER);
    assert_true(stack_redis_text(redis, text, sizeof text, "PING"));
    assert_string_equal(text, "PO");
    assert_false(stack_redis_text(redis, text, sizeof text, "GET nothing"));
    assert_string_equal(text, "");
    assert_false(stack_redis_answers(redis, "PON", "PING"));
    assert_false(stack_redis_answers(redis, "", "GET nothing"));
    assert_true(stack_redis_mentions(redis, "ON", "PING"));
    assert_false(stack_redis_mentions(redis, "PING", "PING"));
    assert_false(stack_redis_mentions(redis, "WRONGTYPE", "GET list"));
    assert_int_equal(stack_redis_info(redis, "server", "tcp_port"), redis->port);
    assert_int_equal(stack_redis_info(redis, "server", "port"), -1);
}

static bool redis_up(void)
{
    return stack_redis_start(&the_redis, NULL);
}

static bool redis_down(void)
{
    stack_redis_stop(&the_redis);
    return true;
}

TEST_GROUP(.up = redis_up, .down = redis_down);

/* ---- PostgreSQL ---- */

static struct stack_postgres the_postgres;

TEST(statements_are_counted_when_they_start_however_they_end)
{
    struct stack_postgres *postgres = &the_postgres;
    char value[32];
    uint64_t mark = stack_postgres_mark(postgres);
    assert_true(stack_postgres_query(postgres->url, "SELECT /* count me */ 42", value, sizeof value));
    assert_string_equal(value, "42");
    assert_false(stack_postgres_query(postgres->url, "SELECT /* count me */ 1 / 0", value, sizeof value));
    assert_false(stack_postgres_query(
        postgres->socket_url, "SET statement_timeout = 20; SELECT /* count me */ pg_sleep(9)", NULL, 0));
    assert_true(stack_postgres_query(postgres->url, "SELECT /* not me */ 1", NULL, 0));
    assert_int_equal(stack_postgres_count(postgres, mark, "/* count me */"), 3);
    assert_int_equal(stack_postgres_count(postgres, stack_postgres_mark(postgres), "/* count me */"), 0);
    assert_true(stack_postgres_wait(postgres, mark, "/* not me */", 1, 0));
    assert_false(stack_postgres_wait(postgres, mark, "/* not me */", 2, 10));
}

/* What the log says beside it, parameters and causes, is not a second one. */
TEST(a_statement_is_counted_once_whatever_else_the_log_says_of_it)
{
    struct stack_postgres *postgres = &the_postgres;
    static const char *const function = "CREATE FUNCTION fails() RETURNS int LANGUAGE plpgsql AS 'BEGIN "
                                        "PERFORM /* count me too */ 1 / 0; END'";
    static const char *const values[] = {"/* count me too */", "7"};
    PGconn *connection = PQconnectdb(postgres->url);
    uint64_t mark = stack_postgres_mark(postgres);
    PQclear(PQexec(connection, function));
    assert_int_equal(stack_postgres_count(postgres, mark, "/* count me too */"), 1);
    PQclear(PQexec(connection, "SELECT fails() /* count\nthis */")); /* its CONTEXT has the text */
    assert_int_equal(stack_postgres_count(postgres, mark, "/* count me too */"), 1);
    PQclear(PQprepare(connection, "p1", "SELECT $1::text,\n /* count me too */ $2::int", 2, NULL));
    assert_int_equal(stack_postgres_count(postgres, mark, "/* count me too */"), 1);
    for (uint32_t i = 0; i < 3; i++) {
        PQclear(PQexecPrepared(connection, "p1", 2, values, NULL, NULL, 0));
        assert_int_equal(stack_postgres_count(postgres, mark, "/* count me too */"), 2 + i);
    }
    assert_int_equal(stack_log_count(postgres->log_path, mark, ": $1 = '/* count me too */', $2 = '7'"), 3);
    PQfinish(connection);
}

TEST(what_was_committed_outlives_a_sigkill)
{
    char value[32];
    struct stack_postgres *postgres = &the_postgres;
    assert_true(stack_postgres_query(postgres->url, "CREATE TABLE kept (id integer)", NULL, 0));
    assert_true(stack_postgres_query(postgres->url, "INSERT INTO kept VALUES (7)", NULL, 0));
    proc_kill_tree(&postgres->pid);
    assert_true(stack_postgres_restart(postgres));
    assert_true(stack_postgres_query(postgres->url, "SELECT id FROM kept", value, sizeof value));
    assert_string_equal(value, "7");
}

static bool postgres_up(void)
{
    return stack_postgres_start(&the_postgres, 30);
}

static bool postgres_down(void)
{
    stack_postgres_stop(&the_postgres);
    return true;
}

TEST_GROUP(.up = postgres_up, .down = postgres_down);

int main(int argc, char **argv)
{
    return argc > 1 && strcmp(argv[1], "doomed") == 0 ? run_doomed() : test_main(argc, argv);
}
