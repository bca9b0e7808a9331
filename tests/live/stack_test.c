/* SPDX-License-Identifier: MIT */
/* stack_test.c - the private servers, with the real redis-server and postgres, and their end with ours. */
#include "load/base/clock.h"
#include "load/base/http.h"
#include "load/base/proc.h"
#include "load/stack/proxy.h"
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

TEST(a_child_has_the_settings_and_the_output_it_was_given)
{
    char folder[PROC_PATH_BYTES], output[PROC_PATH_BYTES + 8], text[64] = "";
    int status = -1;
    assert_true(proc_folder("test", NULL, folder));
    snprintf(output, sizeof output, "%s/out", folder);
    setenv("STACK_TEST", "ours", 1);
    const char *const argv[] = {"sh", "-c", "echo $STACK_TEST; echo error >&2; exit 7", NULL};
    const char *const settings[] = {"STACK_TEST=theirs", NULL};
    pid_t pid = proc_start(&(struct proc_options){.argv = argv, .settings = settings, .output_path = output});
    assert_true(pid > 0);
    assert_true(proc_wait(pid, LIMIT_MS, &status));
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
    int file = open(output, O_RDONLY | O_CLOEXEC);
    assert_true(read(file, text, sizeof text - 1) > 0);
    close(file);
    assert_string_equal(text, "theirs\nerror\n");
    proc_remove(folder);
    assert_int_equal(access(folder, F_OK), -1);
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

TEST(a_program_that_does_not_exist_fails)
{
    const char *const argv[] = {"no-such-program-anywhere", NULL};
    assert_false(proc_run(&(struct proc_options){.argv = argv}, LIMIT_MS));
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

TEST(redis_answers_over_tcp_and_over_its_socket)
{
    struct stack_redis *redis = &the_redis;
    assert_true(stack_redis_answers(redis, "PONG", "PING"));
    struct redisContext *tcp = redisConnect("127.0.0.1", redis->port);
    struct redisReply *reply = redisCommand(tcp, "SET over %s", "tcp");
    assert_string_equal(reply->str, "OK");
    freeReplyObject(reply);
    redisFree(tcp);
    assert_true(stack_redis_answers(redis, "tcp", "GET over"));
}

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

TEST(redis_counts_commands_by_name)
{
    struct stack_redis *redis = &the_redis;
    uint64_t get_before = stack_redis_calls(redis, "get"), all_before = stack_redis_calls(redis, NULL);
    for (int i = 0; i < 5; i++)
        freeReplyObject(stack_redis_command(redis, "GET nothing"));
    freeReplyObject(stack_redis_command(redis, "EVAL %s 0", "return redis.call('get', 'x')"));
    assert_int_equal(stack_redis_calls(redis, "get") - get_before, 6);
    assert_int_equal(stack_redis_calls(redis, NULL) - all_before, 7);
}

TEST(redis_comes_back_empty_on_the_same_port)
{
    struct stack_redis *redis = &the_redis;
    uint16_t port = redis->port;
    assert_true(stack_redis_answers(redis, "OK", "SET kept no"));
    stack_redis_kill(redis);
    assert_null(stack_redis_command(redis, "PING"));
    assert_true(stack_redis_restart(redis));
    assert_int_equal(redis->port, port);
    struct redisReply *reply = stack_redis_command(redis, "GET kept");
    assert_int_equal(reply->type, REDIS_REPLY_NIL);
    freeReplyObject(reply);
}

TEST(redis_hangs_while_it_is_paused)
{
    struct stack_redis *redis = &the_redis;
    struct redisReply *reply;
    stack_redis_pause(redis);
    struct redisContext *waiting = redisConnect("127.0.0.1", redis->port);
    redisAppendCommand(waiting, "PING");
    int sent = 0;
    while (sent == 0)
        assert_int_equal(redisBufferWrite(waiting, &sent), REDIS_OK);
    struct pollfd wanted = {.fd = waiting->fd, .events = POLLIN};
    assert_int_equal(poll(&wanted, 1, 50), 0);
    stack_redis_resume(redis);
    assert_int_equal(redisGetReply(waiting, (void **)&reply), REDIS_OK);
    assert_string_equal(reply->str, "PONG");
    freeReplyObject(reply);
    redisFree(waiting);
}

TEST(redis_takes_further_arguments)
{
    struct stack_redis redis;
    const char *const arguments[] = {"--requirepass", "secret word", "--maxmemory", "3mb", NULL};
    assert_true(stack_redis_start(&redis, arguments));
    struct redisReply *reply = stack_redis_command(&redis, "GET x");
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    freeReplyObject(reply);
    reply = stack_redis_command(&redis, "AUTH %s", "secret word");
    assert_string_equal(reply->str, "OK");
    freeReplyObject(reply);
    stack_redis_stop(&redis);
    assert_int_equal(redis.pid, 0);
    stack_redis_stop(&redis);
}

TEST(a_replica_has_what_its_primary_had_and_what_it_does)
{
    struct stack_redis *primary = &the_redis;
    struct stack_redis replica;
    assert_true(stack_redis_answers(primary, "OK", "SET before 1"));
    assert_true(stack_redis_start_replica(&replica, primary));
    assert_true(stack_redis_answers(&replica, "1", "GET before"));
    for (int i = 0; i < 200; i++)
        freeReplyObject(stack_redis_command(primary, "SET after %d", i));
    assert_true(stack_redis_wait_in_sync(&replica, primary, LIMIT_MS));
    assert_true(stack_redis_answers(&replica, "199", "GET after"));
    struct redisReply *reply = stack_redis_command(&replica, "SET not here");
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    freeReplyObject(reply);

    stack_redis_kill(&replica);
    assert_true(stack_redis_restart(&replica)); /* follows again */
    assert_true(stack_redis_wait_in_sync(&replica, primary, LIMIT_MS));
    assert_true(stack_redis_answers(&replica, "199", "GET after"));
    stack_redis_stop(&replica);
}

/* The virtual address is a route of the proxy. */
TEST(a_promoted_replica_takes_over_behind_the_same_address)
{
    struct stack_redis primary, replica;
    struct proxy *proxy;
    size_t route = 0;
    assert_true(stack_redis_start(&primary, NULL) && stack_redis_start_replica(&replica, &primary));
    assert_true(proxy_open(1, &proxy) && proxy_add(proxy, primary.port, &route));
    struct redisContext *client = redisConnect("127.0.0.1", proxy_port(proxy, route));
    struct redisReply *reply = redisCommand(client, "SET kept yes");
    assert_string_equal(reply->str, "OK");
    freeReplyObject(reply);
    assert_true(stack_redis_wait_in_sync(&replica, &primary, LIMIT_MS));

    stack_redis_kill(&primary);
    assert_true(stack_redis_promote(&replica));
    proxy_retarget(proxy, route, replica.port);
    assert_null(redisCommand(client, "GET kept"));
    assert_int_equal(redisReconnect(client), REDIS_OK);
    reply = redisCommand(client, "GET kept");
    assert_string_equal(reply->str, "yes");
    freeReplyObject(reply);
    reply = redisCommand(client, "SET kept still");
    assert_string_equal(reply->str, "OK");
    freeReplyObject(reply);

    assert_true(stack_redis_restart(&primary)); /* nobody follows it, and it follows nobody */
    assert_true(stack_redis_answers(&replica, "still", "GET kept"));
    redisFree(client);
    proxy_close(&proxy);
    stack_redis_stop(&replica);
    stack_redis_stop(&primary);
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

static PGconn *session_that_logs_ends(const struct stack_postgres *postgres)
{
    PGconn *session = PQconnectdb(postgres->url);
    for (uint64_t end_us = clock_after_ms(LIMIT_MS); clock_us() < end_us; clock_pause_ms(2)) {
        PGresult *result = PQexec(session, "SHOW log_duration");
        bool does = strcmp(PQgetvalue(result, 0, 0), "on") == 0;
        PQclear(result);
        if (does)
            return session;
    }
    fail_msg("the session never heard of it");
    return NULL;
}

TEST(the_most_statements_at_once_are_told_by_the_order_of_the_log)
{
    struct stack_postgres *postgres = &the_postgres;
    static const char together[] = "SELECT /* side by side */ pg_advisory_lock_shared(7)";
    uint64_t mark = stack_postgres_mark(postgres);
    uint32_t most;
    assert_true(stack_postgres_query(postgres->url, "SELECT /* side by side */ 1", NULL, 0));
    assert_false(stack_postgres_at_once(postgres, mark, "/* side by side */", &most)); /* no ends */
    assert_true(stack_postgres_log_ends(postgres, true));
    PGconn *gate = session_that_logs_ends(postgres), *one = session_that_logs_ends(postgres),
           *other = session_that_logs_ends(postgres);
    mark = stack_postgres_mark(postgres);
    PQclear(PQexec(one, "SELECT /* side by side */ 1"));
    PQclear(PQexec(other, "SELECT /* side by side */ 1"));
    assert_true(stack_postgres_at_once(postgres, mark, "/* side by side */", &most));
    assert_int_equal(most, 1); /* one after the other */
    PQclear(PQexec(gate, "SELECT pg_advisory_lock(7)"));
    assert_true(PQsendQuery(one, together) && PQsendQuery(other, together));
    assert_true(stack_postgres_wait(postgres, mark, "/* side by side */", 4, LIMIT_MS));
    PQclear(PQexec(gate, "SELECT pg_advisory_unlock(7)"));
    PGconn *const both[] = {one, other};
    for (size_t i = 0; i < 2; i++) {
        PQclear(PQgetResult(both[i]));
        PQfinish(both[i]);
    }
    assert_true(stack_postgres_at_once(postgres, mark, "/* side by side */", &most));
    assert_int_equal(most, 2);
    assert_true(stack_postgres_log_ends(postgres, false));
    PQfinish(gate);
}

TEST(the_catalog_is_loaded_to_scale_and_always_the_same)
{
    struct stack_postgres *postgres = &the_postgres;
    static const char *const names[] = {"first", "second"};
    char url[128], value[32], digests[2][64];
    for (size_t i = 0; i < 2; i++) {
        snprintf(value, sizeof value, "CREATE DATABASE %s", names[i]);
        assert_true(stack_postgres_query(postgres->url, value, NULL, 0));
        snprintf(url, sizeof url, "postgresql://postgres@127.0.0.1:%u/%s", (unsigned)postgres->port,
                 names[i]);
        assert_true(stack_postgres_load(url, 300));
        assert_true(stack_postgres_query(url, "SELECT count(*) FROM products", value, sizeof value));
        assert_string_equal(value, "300");
        assert_true(stack_postgres_query(
            url, "SELECT md5(string_agg((to_jsonb(p) - 'stamp')::text, '' ORDER BY id)) FROM products AS p",
            digests[i], sizeof digests[i]));
    }
    assert_string_equal(digests[0], digests[1]);
    assert_false(stack_postgres_load(url, 300)); /* there already: refused, and seen to be */
}

/* With the folder that make test shares among programs; one of them was killed while it filled it. */
TEST(a_cluster_is_the_copy_of_a_template_that_is_made_once)
{
    char folder[PROC_PATH_BYTES], path[PROC_PATH_BYTES + 32], value[32];
    const char *shared = getenv("STACK_CLUSTERS");
    struct stat before, after;
    assert_true(proc_folder("clusters", proc_plain_user(), folder));
    snprintf(path, sizeof path, "%s/20.half", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/20.half/PG_VERSION", folder);
    assert_int_equal(symlink("of a killed program", path), 0);
    setenv("STACK_CLUSTERS", folder, 1);
    snprintf(path, sizeof path, "%s/20/PG_VERSION", folder);
    for (size_t i = 0; i < 2; i++) {
        struct stack_postgres copy;
        assert_true(stack_postgres_start_seeded(&copy, 10, 20));
        assert_true(stack_postgres_query(
            copy.url, "DELETE FROM products RETURNING (SELECT count(*) FROM products)", value, sizeof value));
        assert_string_equal(value, "20");
        stack_postgres_stop(&copy);
        assert_int_equal(stat(path, i == 0 ? &before : &after), 0);
    }
    assert_int_equal(before.st_ino, after.st_ino);
    if (shared != NULL)
        setenv("STACK_CLUSTERS", shared, 1);
    else
        unsetenv("STACK_CLUSTERS");
}

TEST(postgres_keeps_its_data_over_a_kill)
{
    struct stack_postgres *postgres = &the_postgres;
    char value[32];
    uint16_t port = postgres->port;
    assert_true(stack_postgres_query(postgres->url, "CREATE TABLE kept AS SELECT 7 AS n", NULL, 0));
    assert_true(stack_postgres_query(postgres->url, "CHECKPOINT", NULL, 0));
    stack_postgres_kill(postgres);
    assert_false(stack_postgres_query(postgres->url, "SELECT 1", NULL, 0));
    assert_true(stack_postgres_restart(postgres));
    assert_int_equal(postgres->port, port);
    assert_true(stack_postgres_query(postgres->url, "SELECT n FROM kept", value, sizeof value));
    assert_string_equal(value, "7");
}

TEST(postgres_sleeps_with_all_its_sessions)
{
    struct stack_postgres *postgres = &the_postgres;
    char value[32];
    stack_postgres_pause(postgres);
    stack_postgres_resume(postgres);
    assert_true(stack_postgres_query(postgres->url, "SELECT 1", value, sizeof value));
    assert_string_equal(value, "1");
    stack_postgres_pause(postgres); /* and a paused one can be stopped: the teardown does */
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

/* ---- catalogd ---- */

static struct whole {
    struct stack_redis redis;
    struct stack_postgres postgres;
} whole;

static bool whole_up(void)
{
    return stack_redis_start(&whole.redis, NULL) && stack_postgres_start_seeded(&whole.postgres, 40, 300);
}

static bool whole_down(void)
{
    stack_postgres_stop(&whole.postgres);
    stack_redis_stop(&whole.redis);
    return true;
}

TEST(the_service_starts_gets_ready_and_ends_in_order)
{
    struct stack_catalogd one, two;
    struct http_answer answer;
    char redis[128], database[160], value[64];
    snprintf(redis, sizeof redis, "REDIS_URL=%s", whole.redis.url);
    snprintf(database, sizeof database, "DATABASE_URL=%s", whole.postgres.url);
    const char *const settings[] = {redis, database, NULL};
    assert_true(stack_catalogd_start(&one, settings));
    assert_true(stack_catalogd_start(&two, settings));
    assert_true(stack_catalogd_wait_ready(&one, LIMIT_MS) && stack_catalogd_wait_ready(&two, LIMIT_MS));
    uint64_t mark = stack_postgres_mark(&whole.postgres);
    struct http_request request = {
        .host = "127.0.0.1", .port = one.port, .path = "/products/7", .deadline_ms = LIMIT_MS};
    assert_true(http_ask(&request, &answer));
    assert_int_equal(answer.status, 200);
    assert_memory_equal(http_header(&answer, "ETag", value, sizeof value), "\"1-", 3);
    http_answer_clear(&answer);
    request.port = two.port;
    assert_true(http_ask(&request, &answer));
    assert_int_equal(answer.status, 200);
    http_answer_clear(&answer);
    assert_int_equal(stack_postgres_count(&whole.postgres, mark, "/* load product */"), 1);
    assert_true(proc_status(one.pid, "VmRSS") > 0);
    stack_catalogd_kill(&one);
    assert_false(http_ask(
        &(struct http_request){.host = "127.0.0.1", .port = one.port, .path = "/", .deadline_ms = 1000},
        &answer));
    http_answer_clear(&answer);
    assert_true(stack_catalogd_stop(&one));
    assert_true(stack_catalogd_stop(&two));
}

TEST(a_service_that_refuses_its_settings_is_no_running_one)
{
    struct stack_catalogd catalogd;
    const char *const settings[] = {"LEASE_MS=nonsense", NULL};
    assert_false(stack_catalogd_start(&catalogd, settings));
    assert_int_equal(catalogd.pid, 0);
    stack_catalogd_stop(&catalogd);
}

TEST_GROUP(.up = whole_up, .down = whole_down);

int main(int argc, char **argv)
{
    return argc > 1 && strcmp(argv[1], "doomed") == 0 ? run_doomed() : test_main(argc, argv);
}
