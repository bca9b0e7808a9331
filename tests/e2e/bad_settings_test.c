/* SPDX-License-Identifier: MIT */
/*
 * bad_settings_test.c - catalogd started with something wrong: a setting, an address, a file, a server.
 *
 * A wrong setting ends the start with status 2 and a line that names it; an address or a file that cannot be
 * used ends it with status 1 or 2 and the reason; a server that is away or misconfigured does not: the
 * service starts, says so, answers as well as it can, and recovers.
 */
#include "tests/support/fleet.h"

#include "load/base/net.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { END_LIMIT_MS = 20000, OUTPUT_BYTES = 32768, EXIT_WRONG_SETTINGS = 2 };

/* ---- a start that fails ---- */

struct start {
    int status;                /* exit status; -1: it did not end by itself */
    char output[OUTPUT_BYTES]; /* what it wrote, cut to fit */
};

static char folder[PROC_PATH_BYTES];

static const char *program(void)
{
    const char *given = getenv("CATALOGD");
    return given != NULL ? given : "build/catalogd";
}

/* `argument`: one more, or NULL. Ports are free ones unless the settings say otherwise. */
static void start_catalogd(const char *const *settings, const char *argument, struct start *out)
{
    char path[PROC_PATH_BYTES + 16];
    snprintf(path, sizeof path, "%s/output", folder);
    unlink(path);
    const char *const argv[] = {program(), argument, NULL};
    const struct proc_options options = {.argv = argv, .settings = settings, .output_path = path};
    out->status = program_run(&options, END_LIMIT_MS, out->output, sizeof out->output);
}

static bool make_folder(void)
{
    return proc_folder("settings", NULL, folder);
}

static bool up(void)
{
    return make_folder() && fleet_up();
}

/* ---- settings ---- */

TEST(several_mistakes_are_told_together_and_no_password)
{
    struct start start;
    start_catalogd((const char *[]){"FRESH_MS=soon", "LEASE_MS=never", "REDIS_URL=http://me:hunter2@host",
                                    "DATABASE_URL=postgresql://me:hunter2@[", NULL},
                   "--no-such-flag=hunter2", &start);
    assert_int_equal(start.status, EXIT_WRONG_SETTINGS);
    static const char *const named[] = {"FRESH_MS", "LEASE_MS", "REDIS_URL", "DATABASE_URL",
                                        "--no-such-flag"};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        assert_non_null(strstr(start.output, named[i]));
    assert_null(strstr(start.output, "hunter2"));
}

/* ---- addresses and files ---- */

/* "NAME=127.0.0.1:port" */
static const char *at_port(char text[64], const char *name, unsigned port)
{
    snprintf(text, 64, "%s=127.0.0.1:%u", name, port);
    return text;
}

static void assert_not_started(const struct start *start, const char *reason, const char *about)
{
    if (start->status != EXIT_FAILURE || strstr(start->output, reason) == NULL ||
        strstr(start->output, about) == NULL || strstr(start->output, "event=ready") != NULL)
        fail_msg("status %d: %s", start->status, start->output);
}

TEST(a_socket_path_that_cannot_be_written_is_named)
{
    char text[PROC_PATH_BYTES + 32], path[PROC_PATH_BYTES + 16];
    struct start start;
    start_catalogd((const char *[]){"LISTEN=unix:/nonexistent/catalogd.sock", "OPS_LISTEN=off", NULL}, NULL,
                   &start);
    assert_not_started(&start, "No such file", "/nonexistent/catalogd.sock");
    snprintf(path, sizeof path, "%s/file", folder);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd != -1);
    close(fd);
    snprintf(text, sizeof text, "LISTEN=unix:%s", path);
    start_catalogd((const char *[]){text, "OPS_LISTEN=off", NULL}, NULL, &start);
    assert_not_started(&start, "not a socket", path);
    assert_int_equal(access(path, F_OK), 0); /* and it was left alone */
    start_catalogd((const char *[]){"LISTEN=203.0.113.1:8080", "OPS_LISTEN=off", NULL}, NULL, &start);
    assert_not_started(&start, "Cannot assign", "203.0.113.1");
}

static void write_file(const char *path, const char *text, mode_t mode)
{
    file_write(path, text);
    assert_int_equal(chmod(path, mode), 0);
}

TEST(a_token_file_that_will_not_do_is_named)
{
    static const struct {
        const char *text;
        mode_t mode;
        const char *reason;
    } files[] = {
        {"short\n", 0600, "16 to 256"},
        {"0123456789abcdef\n", 0620, "others may read or write"},
    };
    static const char *const settings[] = {"OPS_TOKEN_FILE", "REVALIDATE_TOKEN_FILE"};
    char path[PROC_PATH_BYTES + 16], setting[PROC_PATH_BYTES + 48], listen[64], ops[64];
    struct start start;
    snprintf(path, sizeof path, "%s/token", folder);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *name = settings[i % 2];
        write_file(path, files[i].text, files[i].mode);
        snprintf(setting, sizeof setting, "%s=%s", name, path);
        start_catalogd((const char *[]){setting, at_port(listen, "LISTEN", net_free_port()),
                                        at_port(ops, "OPS_LISTEN", net_free_port()), NULL},
                       NULL, &start);
        assert_not_started(&start, files[i].reason, path);
        assert_non_null(strstr(start.output, name));
        assert_null(strstr(start.output, "0123456789abcdef"));
    }
}

TEST_GROUP(.up = make_folder);

/* Both listeners share their port between threads (SO_REUSEPORT), which must not let a second copy in. */
TEST(a_second_copy_on_the_same_address_does_not_start)
{
    char listen[64], ops[64];
    struct start start;
    assert_true(fleet_start(1, NULL));
    start_catalogd((const char *[]){at_port(listen, "LISTEN", fleet.catalogd[0].port),
                                    at_port(ops, "OPS_LISTEN", net_free_port()), NULL},
                   NULL, &start);
    assert_not_started(&start, "something already listens there", strchr(listen, '=') + 1);
    start_catalogd((const char *[]){at_port(listen, "LISTEN", net_free_port()),
                                    at_port(ops, "OPS_LISTEN", fleet.catalogd[0].ops_port), NULL},
                   NULL, &start);
    assert_not_started(&start, "something already listens there", strchr(ops, '=') + 1);
    start_catalogd((const char *[]){at_port(listen, "LISTEN", fleet.redis.port), "OPS_LISTEN=off", NULL},
                   NULL, &start);
    assert_not_started(&start, "something already listens there", strchr(listen, '=') + 1);
    assert_int_equal(fleet_ask_status(0, "/products/1"), 200); /* the first one never noticed */
}

static unsigned invalidate_with(const char *headers)
{
    struct http_answer answer;
    fleet_ask_port(fleet.catalogd[0].ops_port, "POST", "/invalidate?key=product:1", headers, &answer);
    unsigned status = answer.status;
    http_answer_clear(&answer);
    return status;
}

TEST(without_the_token_nothing_is_invalidated, P92)
{
    char path[PROC_PATH_BYTES + 16], setting[PROC_PATH_BYTES + 48];
    snprintf(path, sizeof path, "%s/token", folder);
    snprintf(setting, sizeof setting, "OPS_TOKEN_FILE=%s", path);
    write_file(path, "0123456789abcdef\n", 0600);
    assert_true(fleet_add((const char *[]){setting, NULL}));
    assert_int_equal(invalidate_with(NULL), 401);
    assert_int_equal(invalidate_with("Authorization: Bearer 0123456789abcdeF\r\n"), 401);
    assert_int_equal(invalidate_with("Authorization: Bearer 0123456789abcde\r\n"), 401);
    assert_int_equal(invalidate_with("Authorization: Basic 0123456789abcdef\r\n"), 401);
    assert_int_equal(invalidate_with("Authorization: Bearer 0123456789abcdef\r\n"), 200);
    assert_int_equal(invalidate_with("Authorization: bearer  0123456789abcdef\r\n"), 200);
}

/* ---- servers ---- */

static bool log_has(const char *text)
{
    return stack_log_count(fleet.catalogd[0].log_path, 0, text) > 0;
}

static bool readyz_has(const char *text)
{
    struct http_answer answer;
    fleet_ask_ops(0, NULL, "/readyz", &answer);
    bool has = strstr(answer.body, text) != NULL;
    http_answer_clear(&answer);
    return has;
}

/* One of an earlier form: refused with the command that brings it up to date, and used once it is. */
TEST(a_database_of_an_older_schema_is_refused_until_it_is_brought_up_to_date, P80)
{
    char url[160], setting[200];
    assert_true(fleet_start(0, NULL)); /* an empty Redis */
    assert_true(fleet_sql(NULL, 0, "CREATE DATABASE older"));
    snprintf(url, sizeof url, "postgresql://postgres@127.0.0.1:%u/older", (unsigned)fleet.postgres.port);
    assert_true(stack_postgres_load(url, 100));
    assert_true(stack_postgres_query(
        url,
        "ALTER TABLE products RENAME edition TO version; "
        "ALTER TABLE products RENAME CONSTRAINT products_edition_positive TO products_version_positive; "
        "ALTER TABLE products DROP stamp; ALTER TABLE categories DROP stamp; "
        "ALTER TABLE invalidations RENAME target TO key",
        NULL, 0));
    snprintf(setting, sizeof setting, "DATABASE_URL=%s", url);
    assert_true(fleet_add((const char *[]){setting, "FAILURE_MS=50", NULL}));
    WAIT_UNTIL(readyz_has("\"database\":\"down\""));
    assert_int_equal(fleet_ask_status(0, "/products/1"), 503);
    WAIT_UNTIL(log_has("column categories.stamp"));
    WAIT_UNTIL(log_has("make db DATABASE_URL="));
    assert_true(stack_postgres_load(url, 0));
    assert_true(stack_catalogd_wait_ready(&fleet.catalogd[0], FLEET_LIMIT_MS));
    WAIT_UNTIL(fleet_ask_status(0, "/products/1") == 200);
}

/* Loads only read: a role that may nothing else, in a session that cannot write, is enough. */
TEST(a_database_that_cannot_be_written_is_enough)
{
    char setting[200];
    assert_true(fleet_sql(NULL, 0, "CREATE ROLE reader LOGIN"));
    assert_true(fleet_sql(NULL, 0, "ALTER ROLE reader SET default_transaction_read_only = on"));
    assert_true(fleet_sql(NULL, 0, "GRANT SELECT ON products, categories, offers, clients TO reader"));
    snprintf(setting, sizeof setting, "DATABASE_URL=postgresql://reader@127.0.0.1:%u/postgres",
             (unsigned)fleet.postgres.port);
    assert_true(fleet_start(1, (const char *[]){setting, NULL}));
    assert_int_equal(fleet_ask_status(0, "/products/1"), 200);
    assert_int_equal(fleet_ask_status(0, "/catalog"), 200);
}

TEST_GROUP(.up = up, .down = fleet_down, .after = fleet_end);
