/* SPDX-License-Identifier: MIT */
/*
 * pg_test.c - queries against a private PostgreSQL that is slow, stopped, killed, full or closed to us.
 *
 * The server is the tests' own thread's (load/stack/stack.h); work beside it runs in a thread here.
 * Nothing is timed by sleeping: a query is known to run when the server has logged its start.
 */
#include "app/pg/pg.h"
#include "app/pg/pg_session.h"

#include "load/base/clock.h"
#include "load/base/net.h"
#include "load/stack/stack.h"
#include "tests/support/sockets.h"
#include "tests/support/test.h"

#include <libpq-fe.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Milliseconds are counted down from whole ones, so one may be missing. */
enum { LIMIT_MS = 10000, SLACK_MS = 8000, ROWS_BYTES = 1 << 20, MAX_CONNECTIONS = 20 };

enum { ECHO, ISOLATION, NAP, WIDE, PID, LIMITS, DIVIDE, CHANGING, FORGET, WRITE, STATEMENT_COUNT };

static const struct pg_statement statements[STATEMENT_COUNT] = {
    [ECHO] = {"echo", "/* echo */ SELECT $1::text, NULL", 1},
    [ISOLATION] = {"isolation", "SELECT current_setting('transaction_isolation')", 0},
    [NAP] = {"nap", "/* nap */ SELECT pg_sleep($1::integer / 1000.0)", 1},
    [WIDE] = {"wide", "SELECT repeat('x', 1000), generate_series(1, $1::integer)", 1},
    [PID] = {"pid", "SELECT pg_backend_pid()", 0},
    [LIMITS] = {"limits",
                "SELECT current_setting('statement_timeout'), current_setting('transaction_read_only'),"
                " current_setting('client_connection_check_interval'), current_setting('client_encoding')",
                0},
    [DIVIDE] = {"divide", "SELECT 1 / $1::integer", 1},
    [CHANGING] = {"changing", "/* changing */ SELECT * FROM changing", 0},
    [FORGET] = {"forget", "DEALLOCATE ALL", 0},
    [WRITE] = {"write", "CREATE TABLE unwanted ()", 0},
};

static struct stack_postgres postgres;
static bool prepares;        /* in this turn */
static struct pg_pool *pool; /* of the test, at the server */

static struct pg_config usual(const char *conninfo)
{
    return (struct pg_config){.conninfo = conninfo,
                              .connection_count = 8,
                              .prepare = prepares,
                              .statement_limit_ms = LIMIT_MS,
                              .statements = statements,
                              .statement_count = STATEMENT_COUNT};
}

/* In the place of the one before. */
static void open_pool(struct pg_config config)
{
    pg_pool_close(&pool);
    assert_true(pg_pool_open(&config, &pool));
}

/* One query with at most one parameter and its first cell. */
struct asking {
    size_t statement;
    const char *param;
    uint32_t left_ms;
    int cancel_fd;
    enum pg_outcome outcome;
    struct pg_fault fault;
    size_t row_count;
    char cell[64];
    uint32_t took_ms;
};

static void ask(struct asking *asking)
{
    struct rows rows;
    const char *const params[] = {asking->param};
    const struct pg_request request = {.statement = asking->statement,
                                       .params = params,
                                       .left_ms = asking->left_ms > 0 ? asking->left_ms : LIMIT_MS,
                                       .cancel_fd = asking->cancel_fd > 0 ? asking->cancel_fd : -1};
    rows_init(&rows, ROWS_BYTES);
    uint64_t begin_us = clock_us();
    asking->outcome = pg_query(pool, &request, &rows, &asking->fault);
    asking->took_ms = (uint32_t)((clock_us() - begin_us) / 1000);
    asking->row_count = rows.row_count;
    if (asking->outcome == PG_OK && rows.row_count > 0) {
        const char *cell = rows_text(&rows, 0, 0);
        snprintf(asking->cell, sizeof asking->cell, "%s", cell != NULL ? cell : "NULL");
    }
    rows_clear(&rows);
}

static struct asking asked(size_t statement, const char *param)
{
    struct asking asking = {.statement = statement, .param = param};
    ask(&asking);
    return asking;
}

static void *ask_in_thread(void *context)
{
    ask(context);
    return NULL;
}

static void start_asking(pthread_t *thread, struct asking *asking)
{
    assert_int_equal(pthread_create(thread, NULL, ask_in_thread, asking), 0);
}

static void assert_answers(void)
{
    struct asking echo = asked(ECHO, "grüße 水");
    if (echo.outcome != PG_OK) {
        fail_msg("%s: %s", echo.fault.sqlstate, echo.fault.text);
    }
    assert_string_equal(echo.cell, "grüße 水");
    assert_int_equal(pg_pool_state(pool), PG_STATE_UP);
}

/* Waits until as many backends run a statement with this text. */
static void assert_running_soon(const char *text, unsigned wanted, uint32_t limit_ms)
{
    char query[256], value[32] = "", expected[32];
    uint64_t end_us = clock_after_ms(limit_ms);
    snprintf(expected, sizeof expected, "%u", wanted);
    snprintf(query, sizeof query,
             "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%%%s%%' AND pid "
             "<> pg_backend_pid()",
             text);
    while (strcmp(value, expected) != 0 && clock_us() < end_us) {
        assert_true(stack_postgres_query(postgres.url, query, value, sizeof value));
    }
    assert_string_equal(value, expected);
}

static void nap_until_started(pthread_t *thread, struct asking *nap)
{
    uint64_t mark = stack_postgres_mark(&postgres);
    nap->statement = NAP;
    nap->param = "60000";
    start_asking(thread, nap);
    assert_true(stack_postgres_wait(&postgres, mark, "/* nap */", 1, LIMIT_MS));
}

/* True: on the server, too, it was the cancel that ended it. With prepared statements the server looks once a second
 * whether its client is there, and may find out sooner that it has gone; without them nothing else ends a query. */
static bool nap_is_cancelled(void)
{
    struct asking nap = {.cancel_fd = eventfd(0, EFD_CLOEXEC)};
    pthread_t thread;
    uint64_t mark = stack_postgres_mark(&postgres);
    nap_until_started(&thread, &nap);
    assert_int_equal(eventfd_write(nap.cancel_fd, 1), 0);
    pthread_join(thread, NULL);
    assert_int_equal(nap.outcome, PG_CANCELLED);
    close(nap.cancel_fd);
    assert_running_soon("/* nap */", 0, LIMIT_MS);
    return stack_log_count(postgres.log_path, mark, "canceling statement due to user request") == 1;
}

static int run_child(void)
{
    struct asking nap = {.statement = NAP, .param = "60000", .left_ms = 60000};
    ask(&nap);
    return 0;
}

static void terminate_others(void)
{
    assert_true(stack_postgres_query(postgres.url,
                                     "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                                     " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
                                     NULL, 0));
}

static void ask_for_passwords(void)
{
    char path[PROC_PATH_BYTES + 32];
    static char rules[65536];
    static const char first[] = "host all guest all scram-sha-256\n";
    snprintf(path, sizeof path, "%s/data/pg_hba.conf", postgres.folder);
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    size_t bytes = fread(rules, 1, sizeof rules, file);
    rewind(file);
    assert_int_equal(fwrite(first, 1, sizeof first - 1, file), sizeof first - 1);
    assert_int_equal(fwrite(rules, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    assert_true(stack_postgres_query(postgres.url, "CREATE ROLE guest LOGIN PASSWORD 'open'", NULL, 0));
    assert_true(stack_postgres_query(postgres.url, "SELECT pg_reload_conf()", NULL, 0));
}

static struct asking asked_as(const char *login, uint16_t port, const char *database)
{
    char conninfo[128];
    snprintf(conninfo, sizeof conninfo, "postgresql://%s@127.0.0.1:%u/%s", login, (unsigned)port, database);
    open_pool(usual(conninfo));
    struct asking asking = asked(ECHO, "x");
    assert_int_equal(pg_pool_state(pool), asking.outcome == PG_OK ? PG_STATE_UP : PG_STATE_DOWN);
    return asking;
}

static void assert_reached(const char *conninfo)
{
    open_pool(usual(conninfo));
    assert_answers();
    assert_int_equal(pg_pool_state(pool), PG_STATE_UP);
}

static void set_for_all(const char *what)
{
    char statement[128];
    snprintf(statement, sizeof statement, "ALTER DATABASE postgres %s", what);
    assert_true(stack_postgres_query(postgres.url, statement, NULL, 0));
}

static bool start_server(void)
{
    return stack_postgres_start(&postgres, MAX_CONNECTIONS);
}

static bool before(void)
{
    prepares = test_turn() == 0;
    open_pool(usual(postgres.url));
    return true;
}

static bool after(void)
{
    pg_pool_close(&pool);
    return true;
}

static bool stop_server(void)
{
    stack_postgres_stop(&postgres);
    return true;
}

/* ---- with prepared statements and without ---- */

TEST(a_query_returns_its_rows_and_nulls_as_texts)
{
    struct rows rows;
    struct pg_fault fault;
    const char *const params[] = {"a\"b"};
    const struct pg_request request = {ECHO, params, LIMIT_MS, -1, NULL};
    assert_int_equal(pg_pool_state(pool), PG_STATE_UNTRIED);
    rows_init(&rows, ROWS_BYTES);
    for (unsigned round = 0; round < 3; round++) {
        assert_int_equal(pg_query(pool, &request, &rows, &fault), PG_OK);
        assert_int_equal(rows.row_count, 1);
        assert_string_equal(rows_text(&rows, 0, 0), "a\"b");
        assert_null(rows_text(&rows, 0, 1));
        assert_string_equal(fault.text, "");
    }
    rows_clear(&rows);
    assert_int_equal(asked(WIDE, "0").row_count, 0);
    assert_int_equal(asked(WIDE, "700").row_count, 700);
    pg_pool_close(&pool);
    assert_null(pool);
}

TEST(the_server_has_limits_of_its_own_and_refuses_writes)
{
    struct rows rows;
    struct pg_fault fault;
    const struct pg_request request = {LIMITS, NULL, LIMIT_MS, -1, NULL};
    rows_init(&rows, ROWS_BYTES);
    assert_int_equal(pg_query(pool, &request, &rows, &fault), PG_OK);
    assert_string_not_equal(rows_text(&rows, 0, 0), "0");
    assert_string_equal(rows_text(&rows, 0, 1), "on");
    assert_string_equal(rows_text(&rows, 0, 2), prepares ? "1s" : "0");
    assert_string_equal(rows_text(&rows, 0, 3), "UTF8");
    rows_clear(&rows);

    struct asking write = asked(WRITE, NULL);
    assert_int_equal(write.outcome, PG_UNAVAILABLE);
    assert_string_equal(write.fault.sqlstate, "25006");
}

TEST(an_error_of_the_statement_leaves_the_connection_in_use)
{
    struct asking before = asked(PID, NULL);
    struct asking divide = asked(DIVIDE, "0");
    assert_int_equal(divide.outcome, PG_REJECTED);
    assert_string_equal(divide.fault.sqlstate, "22012");
    assert_string_equal(divide.fault.text, "division by zero");
    assert_int_equal(pg_pool_state(pool), PG_STATE_UP);
    assert_string_equal(asked(PID, NULL).cell, before.cell);
    assert_string_equal(asked(DIVIDE, "x").fault.sqlstate, "22P02");
    assert_answers();
}

TEST(a_result_that_is_too_large_is_refused_and_not_read_to_its_end)
{
    struct asking wide = asked(WIDE, "100000000"); /* 100 GB */
    assert_int_equal(wide.outcome, PG_REJECTED);
    assert_string_equal(wide.fault.text, "the result is too large");
    assert_answers();
}

TEST(many_threads_share_a_pool)
{
    enum { THREADS = 8, ROUNDS = 50 };
    for (unsigned round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        struct asking askings[THREADS];
        char params[THREADS][16];
        for (size_t t = 0; t < THREADS; t++) {
            snprintf(params[t], sizeof params[t], "%zu", t);
            askings[t] = (struct asking){.statement = ECHO, .param = params[t]};
            start_asking(&threads[t], &askings[t]);
        }
        for (size_t t = 0; t < THREADS; t++) {
            pthread_join(threads[t], NULL);
            assert_int_equal(askings[t].outcome, PG_OK);
            assert_string_equal(askings[t].cell, params[t]);
        }
    }
}

TEST(a_slow_query_ends_at_the_deadline_here_and_on_the_server, P61)
{
    struct asking nap = {.statement = NAP, .param = "60000", .left_ms = 200};
    ask(&nap);
    assert_int_equal(nap.outcome, PG_TIMEOUT);
    assert_in_range(nap.took_ms, 199, 200 + SLACK_MS);
    assert_running_soon("/* nap */", 0, LIMIT_MS);
    assert_answers();
}

TEST(a_cancelled_query_ends_on_the_server_and_its_connection_is_not_used_again, P62)
{
    enum { TRIES = 5 };
    struct asking before = asked(PID, NULL);
    bool cancelled = nap_is_cancelled();
    for (int try = 1; try < TRIES && prepares && !cancelled; try++)
        cancelled = nap_is_cancelled();
    assert_true(cancelled);
    struct asking after = asked(PID, NULL);
    assert_int_equal(after.outcome, PG_OK);
    assert_string_not_equal(before.cell, after.cell);
    assert_answers();
}

TEST(a_stopped_server_does_not_hold_anyone_past_the_deadline)
{
    assert_answers();
    proc_pause(postgres.pid);
    struct asking pooled = {.statement = ECHO, .param = "x", .left_ms = 300};
    ask(&pooled);
    struct asking fresh = pooled;
    ask(&fresh);
    uint64_t begin_us = clock_us();
    pg_pool_close(&pool); /* its cancel request is stuck in the stopped server */
    uint64_t close_ms = (clock_us() - begin_us) / 1000;
    proc_resume(postgres.pid);

    assert_int_equal(pooled.outcome, PG_TIMEOUT);
    assert_int_equal(fresh.outcome, PG_TIMEOUT);
    assert_string_equal(pooled.fault.text, "no answer in time");
    assert_string_equal(fresh.fault.text, "no login in time");
    assert_in_range(pooled.took_ms, 299, 300 + SLACK_MS);
    assert_in_range(fresh.took_ms, 299, 300 + SLACK_MS);
    assert_in_range(close_ms, 0, 1000 + SLACK_MS);
}

TEST(a_connection_that_was_terminated_while_idle_is_replaced_unnoticed, P61)
{
    for (unsigned round = 0; round < 5; round++) {
        assert_answers();
        terminate_others();
        uint64_t mark = stack_postgres_mark(&postgres);
        assert_answers();
        assert_int_equal(stack_postgres_count(&postgres, mark, "/* echo */"), 1);
    }
}

TEST(a_query_that_an_administrator_ended_is_not_started_again, P61)
{
    assert_answers();
    struct asking nap = {.cancel_fd = 0};
    pthread_t thread;
    uint64_t mark = stack_postgres_mark(&postgres);
    nap_until_started(&thread, &nap);
    terminate_others();
    pthread_join(thread, NULL);
    assert_int_equal(nap.outcome, PG_UNAVAILABLE);
    assert_string_equal(nap.fault.sqlstate, "57P01");
    assert_int_equal(stack_postgres_count(&postgres, mark, "/* nap */"), 1);
    assert_int_equal(pg_pool_state(pool), PG_STATE_DOWN);
    assert_answers();
}

TEST(a_limit_of_the_servers_for_transactions_ends_none_of_ours, P176)
{
    char version[16];
    assert_true(stack_postgres_query(postgres.url, "SHOW server_version_num", version, sizeof version));
    if (strtol(version, NULL, 10) < 170000)
        test_skip("this PostgreSQL has no transaction_timeout");
    set_for_all("SET transaction_timeout = '100ms'");
    assert_int_equal(asked(NAP, "500").outcome, PG_OK);
    pg_pool_close(&pool);
    assert_true(stack_postgres_query(
        postgres.url, "SET transaction_timeout = 0; ALTER DATABASE postgres RESET transaction_timeout", NULL,
        0));
}

TEST_GROUP(.turns = 2, .up = start_server, .down = stop_server, .before = before, .after = after);

/* ---- with them ---- */

TEST(the_server_ends_a_statement_at_its_own_limit)
{
    struct pg_config config = usual(postgres.url);
    config.statement_limit_ms = 100;
    open_pool(config);
    struct asking nap = asked(NAP, "60000");
    assert_int_equal(nap.outcome, PG_TIMEOUT);
    assert_string_equal(nap.fault.sqlstate, "57014");
    assert_int_equal(pg_pool_state(pool), PG_STATE_UP);
}

TEST(a_load_that_is_cancelled_before_it_begins_asks_nothing)
{
    uint64_t mark = stack_postgres_mark(&postgres);
    struct asking nap = {.statement = NAP, .param = "1", .cancel_fd = eventfd(1, EFD_CLOEXEC)};
    ask(&nap);
    close(nap.cancel_fd);
    assert_int_equal(nap.outcome, PG_CANCELLED);
    assert_int_equal(pg_pool_state(pool), PG_STATE_UNTRIED);
    assert_answers();
    assert_int_equal(stack_postgres_count(&postgres, mark, "/* nap */"), 0);
}

TEST(a_stranger_that_accepts_and_never_answers_is_left_at_the_deadline)
{
    char conninfo[64];
    uint16_t port;
    int listener = socket_listen(0, 8, &port);
    snprintf(conninfo, sizeof conninfo, "postgresql://u@127.0.0.1:%u/d", (unsigned)port);

    open_pool(usual(conninfo));
    struct asking echo = {.statement = ECHO, .param = "x", .left_ms = 200};
    ask(&echo);
    assert_int_equal(echo.outcome, PG_TIMEOUT);
    assert_in_range(echo.took_ms, 199, 200 + SLACK_MS);
    close(listener);
}

TEST(the_query_of_a_killed_process_ends_within_seconds)
{
    uint64_t mark = stack_postgres_mark(&postgres);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(run_child());
    }
    bool started = stack_postgres_wait(&postgres, mark, "/* nap */", 1, LIMIT_MS);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_true(started);
    assert_running_soon("/* nap */", 0, LIMIT_MS);
}

TEST(a_full_server_is_unavailable_until_someone_leaves, P61)
{
    PGconn *others[MAX_CONNECTIONS + 1];
    size_t count = 0;
    do {
        assert_true(count <= MAX_CONNECTIONS);
        others[count] = PQconnectdb(postgres.url);
    } while (PQstatus(others[count++]) == CONNECTION_OK);
    struct asking echo = asked(ECHO, "x");
    while (count > 0) {
        PQfinish(others[--count]);
    }
    assert_int_equal(echo.outcome, PG_UNAVAILABLE);
    assert_string_equal(echo.fault.sqlstate, "53300");
    uint64_t end_us = clock_after_ms(LIMIT_MS);
    while (asked(ECHO, "x").outcome != PG_OK && clock_us() < end_us) {
        /* the server frees their places in its own time */
    }
    assert_answers();
}

TEST(a_statement_that_a_session_has_forgotten_is_prepared_anew)
{
    assert_answers();
    assert_int_equal(asked(FORGET, NULL).outcome, PG_OK);
    uint64_t mark = stack_postgres_mark(&postgres);
    assert_answers();
    assert_int_equal(stack_postgres_count(&postgres, mark, "/* echo */"), 1);
}

TEST(a_table_that_changes_under_a_prepared_plan_does_not_fail_a_query)
{
    assert_true(stack_postgres_query(postgres.url, "CREATE TABLE changing (a) AS SELECT 1", NULL, 0));
    assert_int_equal(asked(CHANGING, NULL).outcome, PG_OK);
    assert_true(stack_postgres_query(postgres.url, "ALTER TABLE changing ADD b text", NULL, 0));
    uint64_t mark = stack_postgres_mark(&postgres);
    assert_int_equal(asked(CHANGING, NULL).outcome, PG_OK);
    assert_int_equal(stack_postgres_count(&postgres, mark, "/* changing */"), 1);
    assert_true(stack_postgres_query(postgres.url, "DROP TABLE changing", NULL, 0));
    struct asking dropped = asked(CHANGING, NULL);
    assert_int_equal(dropped.outcome, PG_REJECTED);
    assert_string_equal(dropped.fault.sqlstate, "42P01");
}

/* Two failovers in a row: none but writers find the second one, and they may have logged in anew by then. */
TEST(a_reign_that_ends_when_it_has_just_begun_ends_a_moment_later, P175)
{
    struct pg_life first = {.reign = 0, .until_ms = UINT64_MAX},
                   second = {.reign = 1, .until_ms = UINT64_MAX};
    pg_session_end_reign(&first);
    WAIT_UNTIL(pg_session_is_over(&first));
    assert_false(pg_session_is_over(&second));
    pg_session_end_reign(&second);
    WAIT_UNTIL(pg_session_is_over(&second));
}

enum { HOSTS_BYTES = 400 };

/* A URL of 127.0.0.1 at each of these ports. */
static void name_hosts(const uint16_t *ports, size_t count, char conninfo[static HOSTS_BYTES])
{
    size_t bytes = (size_t)snprintf(conninfo, HOSTS_BYTES, "postgresql://postgres@");
    for (size_t i = 0; i < count; i++)
        bytes += (size_t)snprintf(conninfo + bytes, HOSTS_BYTES - bytes, "%s127.0.0.1:%u", i > 0 ? "," : "",
                                  (unsigned)ports[i]);
    snprintf(conninfo + bytes, HOSTS_BYTES - bytes, "/postgres");
}

TEST(a_host_that_never_answers_is_passed_over, P176)
{
    char conninfo[HOSTS_BYTES];
    uint16_t port;
    int silent = socket_listen(0, 16, &port); /* its kernel answers, and nobody else */
    name_hosts((const uint16_t[]){port, postgres.port}, 2, conninfo);
    assert_reached(conninfo);
    snprintf(conninfo, sizeof conninfo,
             "hostaddr=127.0.0.1,127.0.0.1 port=%u,%u user=postgres dbname=postgres", (unsigned)port,
             (unsigned)postgres.port);
    assert_reached(conninfo);
    close(silent);
}

static bool logins_take(const char *delay)
{
    char value[16] = "";
    return stack_postgres_query(postgres.url, "SHOW pre_auth_delay", value, sizeof value) &&
           strcmp(value, delay) == 0;
}

static void make_logins_take(const char *setting, const char *delay)
{
    assert_true(stack_postgres_query(postgres.url, setting, NULL, 0));
    assert_true(stack_postgres_query(postgres.url, "SELECT pg_reload_conf()", NULL, 0));
    WAIT_UNTIL(logins_take(delay));
}

/* A second is more than a sixth of the time. */
TEST(a_host_that_answers_late_loses_no_time_to_those_that_never_do, P176)
{
    char conninfo[HOSTS_BYTES];
    uint16_t ports[6] = {postgres.port};
    int silent = socket_listen(0, 16, &ports[1]);
    for (size_t i = 2; i < 6; i++)
        ports[i] = ports[1];
    name_hosts(ports, 6, conninfo);
    make_logins_take("ALTER SYSTEM SET pre_auth_delay = 1", "1s");
    open_pool(usual(conninfo));
    struct asking echo = {.statement = ECHO, .param = "x", .left_ms = 5700};
    ask(&echo);
    make_logins_take("ALTER SYSTEM RESET pre_auth_delay", "0");
    assert_int_equal(echo.outcome, PG_OK);
    close(silent);
}

/* Who refuses needs no head start: twelve of them would be three seconds. */
TEST(hosts_that_refuse_cost_no_time_beside_a_silent_one, P176)
{
    char conninfo[HOSTS_BYTES];
    uint16_t ports[14], closed;
    int silent = socket_listen(0, 16, &ports[0]);
    close(socket_listen(0, 1, &closed));
    for (size_t i = 1; i < 13; i++)
        ports[i] = closed;
    ports[13] = postgres.port;
    name_hosts(ports, 14, conninfo);
    open_pool(usual(conninfo));
    struct asking echo = {.statement = ECHO, .param = "x", .left_ms = 20000};
    ask(&echo);
    assert_int_equal(echo.outcome, PG_OK);
    assert_in_range(echo.took_ms, 200, 3000);
    close(silent);
}

TEST(lists_of_hosts_and_ports_that_do_not_match_are_named, P176)
{
    static const char *const wrong[] = {"host=127.0.0.1,127.0.0.1 port=1,1,1",
                                        "host=127.0.0.1 hostaddr=127.0.0.1,127.0.0.1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        open_pool(usual(wrong[i]));
        assert_non_null(strstr(asked(PID, NULL).fault.text, "could not match"));
    }
}

TEST(sessions_have_the_isolation_that_the_statements_count_on, P176)
{
    set_for_all("SET default_transaction_isolation = 'serializable'");
    assert_string_equal(asked(ISOLATION, NULL).cell, "read committed");
    set_for_all("RESET default_transaction_isolation");
}

TEST(a_session_that_is_old_is_replaced, P175)
{
    struct pg_config config = usual(postgres.url);
    config.connection_count = 1;
    config.session_ms = 1;
    open_pool(config);
    struct asking before = asked(PID, NULL);
    WAIT_UNTIL(strcmp(asked(PID, NULL).cell, before.cell) != 0);
}

/* The name of the database leads to a standby for a while, or for good. */
TEST(a_standby_takes_no_session_unless_it_will_do, P175)
{
    struct stack_postgres standby;
    assert_true(stack_postgres_start_standby(&standby, &postgres));
    struct pg_config config = usual(standby.url);
    open_pool(config);
    const struct asking refused = asked(ECHO, "x");
    config.standby_will_do = true;
    open_pool(config);
    assert_answers();
    assert_true(stack_postgres_promote(&standby));
    assert_reached(standby.url);
    pg_pool_close(&pool);
    stack_postgres_stop(&standby);
    assert_int_equal(refused.outcome, PG_UNAVAILABLE);
    assert_non_null(strstr(refused.fault.text, "in hot standby mode"));
}

/* A primary that was fenced and lives on: the first writer finds out for all. */
TEST(a_session_that_is_found_read_only_ends_all_others, P175)
{
    struct pg_config config = usual(postgres.url);
    const struct asking before = asked(PID, NULL);
    struct pg_pool *const readers = pool;
    pool = NULL;
    config.writes = true;
    set_for_all("SET default_transaction_read_only = on");
    open_pool(config);
    const struct asking write = asked(WRITE, NULL);
    pg_pool_close(&pool);
    pool = readers;
    assert_true(stack_postgres_query(
        postgres.url, "BEGIN READ WRITE; ALTER DATABASE postgres RESET default_transaction_read_only; COMMIT",
        NULL, 0));
    assert_string_equal(write.fault.sqlstate, "25006");
    WAIT_UNTIL(strcmp(asked(PID, NULL).cell, before.cell) != 0);
}

TEST(a_wrong_login_is_rejected_and_its_password_is_in_no_message)
{
    ask_for_passwords();
    struct asking wrong;
    uint64_t end_us = clock_after_ms(LIMIT_MS);
    do { /* until the server has read its file again */
        wrong = asked_as("guest:hushhush", postgres.port, "postgres");
    } while (wrong.outcome == PG_OK && clock_us() < end_us);
    assert_int_equal(wrong.outcome, PG_REJECTED);
    assert_string_equal(wrong.fault.sqlstate, "28P01");
    assert_null(strstr(wrong.fault.text, "hushhush"));
    assert_int_equal(asked_as("guest:open", postgres.port, "postgres").outcome, PG_OK);

    struct asking nowhere = asked_as("postgres", postgres.port, "nowhere");
    assert_int_equal(nowhere.outcome, PG_REJECTED);
    assert_string_equal(nowhere.fault.sqlstate, "3D000");
}

TEST(a_closed_port_is_unavailable_at_once)
{
    struct asking refused = asked_as("postgres", net_free_port(), "postgres");
    assert_int_equal(refused.outcome, PG_UNAVAILABLE);
    assert_string_equal(refused.fault.sqlstate, "");
    assert_in_range(refused.took_ms, 0, SLACK_MS);
}

TEST_GROUP(.up = start_server, .down = stop_server, .before = before, .after = after);
