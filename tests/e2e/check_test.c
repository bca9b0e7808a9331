/* SPDX-License-Identifier: MIT */
/*
 * check_test.c - `catalogd check` over real servers: all is well; then each thing is made wrong once, and it is
 * named, with what to do about it.
 */
#include "guard/guard.h"
#include "load/base/clock.h"
#include "tests/support/files.h"
#include "tests/support/fleet.h"
#include "tests/support/test.h"
#include "tests/support/writes.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAID_BYTES = 16384, ARGUMENTS_MAX = 12 };

static char said[SAID_BYTES], redis_setting[128];

/* With the settings of a fleet's process, these over them; its exit status. */
static int check_with(const char *limits, const char *flags, const char *const *more)
{
    char command[2048];
    size_t used = 0;
    const char *const *all = writes_settings(more);
    used +=
        (size_t)snprintf(command, sizeof command, "%s env LISTEN=127.0.0.1:0 OPS_LISTEN=off 'REDIS_URL=%s'",
                         limits, fleet.redis.url);
    for (size_t i = 0; all[i] != NULL; i++)
        used += (size_t)snprintf(command + used, sizeof command - used, " '%s'", all[i]);
    snprintf(command + used, sizeof command - used, " '%s' check %s; echo status=$?",
             stack_catalogd_program(), flags);
    proc_output(command, said, sizeof said);
    const char *status = strstr(said, "status=");
    assert_non_null(status);
    return (int)strtol(status + 7, NULL, 10);
}

#define check(...) check_with("", "", (const char *const[]){__VA_ARGS__, NULL})

static void expect(const char *verdict, const char *what, const char *found)
{
    char line[128];
    snprintf(line, sizeof line, "%-8s %s: ", verdict, what);
    for (const char *at = said; at != NULL; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, line, strlen(line)) == 0 &&
            memmem(at, strcspn(at, "\n"), found, strlen(found)) != NULL)
            return;
        if (*at == '\0')
            break;
    }
    fail_msg("no line \"%s...%s\" in:\n%s", line, found, said);
}

/* Something that every list of settings may begin with. */
#define PLAIN "NAMESPACE=check"

/* ---- all well ---- */

TEST(a_machine_as_it_must_be_has_nothing_wrong_and_nothing_is_left_behind, P169)
{
    assert_int_equal(check(PLAIN), 0);
    expect("ok", "file descriptors", "16000");
    expect("ok", "redis", "every master");
    expect("ok", "rights in Redis", "probe keys");
    expect("ok", "redis settings", "nothing is kept");
    expect("ok", "redis version",
           stack_redis_mentions(&fleet.redis, "valkey_version", "INFO server") ? "valkey " : "redis ");
    expect("ok", "database", "PostgreSQL");
    expect("ok", "schema", "is the one");
    expect("ok", "rights to write", "all that");
    assert_null(strstr(said, "\nwrong"));
    assert_non_null(strstr(said, "\n0 wrong, "));
    assert_non_null(strstr(said, " ok\nstatus=0"));
    redisReply *keys = stack_redis_command(&fleet.redis, "KEYS *catalogd-check:*");
    assert_int_equal(keys->elements, 0);
    freeReplyObject(keys);
}

TEST(wrong_settings_are_named_and_end_with_2)
{
    assert_int_equal(check(PLAIN, "FRESH_MS=never"), 2);
    assert_non_null(strstr(said, "FRESH_MS"));
}

TEST(help_and_version_are_said_and_end_with_0)
{
    assert_int_equal(check_with("", "--help", (const char *const[]){PLAIN, NULL}), 0);
    assert_non_null(strstr(said, "catalogd check [SETTINGS]"));
    assert_int_equal(check_with("", "--version", (const char *const[]){PLAIN, NULL}), 0);
    assert_ptr_equal(strstr(said, "catalogd " GUARD_VERSION "\n"), said);
}

/* ---- the machine ---- */

TEST(too_few_file_descriptors_are_wrong, P169)
{
    assert_int_equal(check_with("ulimit -n 1000;", "", (const char *const[]){PLAIN, NULL}), 1);
    expect("wrong", "file descriptors", "LimitNOFILE=16");
    assert_non_null(strstr(said, "\n1 wrong, "));
}

/* 256 loops with 4 GiB each: more than any machine that runs this, and more than 32 bits count. */
TEST(prepared_answers_larger_than_the_memory_are_wrong, P169)
{
    assert_int_equal(check(PLAIN, "SHELF_BYTES=4294967295", "SERVER_LOOPS=256"), 1);
    expect("wrong", "memory", "SHELF_BYTES");
}

TEST(an_address_is_free_or_taken, P169)
{
    char setting[64];
    assert_int_equal(check(PLAIN), 0);
    expect("ok", "LISTEN", "is free");
    assert_true(fleet_start(1, NULL));
    snprintf(setting, sizeof setting, "LISTEN=127.0.0.1:%u", (unsigned)fleet.catalogd[0].port);
    assert_int_equal(check(PLAIN, setting), 0);
    expect("warning", "LISTEN", "catalogd.socket");
}

/* ---- Redis ---- */

TEST(a_user_without_a_right_is_told_which_and_where_the_list_is, P169)
{
    snprintf(redis_setting, sizeof redis_setting, "REDIS_URL=redis://poor:secret@127.0.0.1:%u/0",
             (unsigned)fleet.redis.port);
    fleet_redis_does("ACL SETUSER poor on >secret ~* &* +@all -set -config");
    assert_int_equal(check(PLAIN, redis_setting), 1);
    expect("wrong", "rights in Redis", "guard/README.md");
    expect("warning", "redis settings", "CONFIG GET");
    assert_null(strstr(said, "secret"));
    fleet_redis_does("ACL SETUSER poor +set resetchannels");
    assert_int_equal(check(PLAIN, redis_setting), 1);
    fleet_redis_does("ACL SETUSER poor >other <secret");
    assert_int_equal(check(PLAIN, redis_setting), 1);
    expect("wrong", "redis", "");
    fleet_redis_does("ACL DELUSER poor");
}

TEST(a_redis_that_keeps_its_data_or_evicts_leases_first_is_wrong, P169)
{
    fleet_redis_does("CONFIG SET appendonly yes");
    assert_int_equal(check(PLAIN), 1);
    expect("wrong", "redis settings", "appendonly is yes");
    fleet_redis_does("CONFIG SET appendonly no");
    fleet_redis_does("CONFIG SET save %s", "3600 1");
    assert_int_equal(check(PLAIN), 1);
    expect("wrong", "redis settings", "save is \"3600 1\"");
    fleet_redis_does("CONFIG SET save %s", "");
    fleet_redis_does("CONFIG SET maxmemory-policy volatile-ttl");
    assert_int_equal(check(PLAIN), 1);
    expect("wrong", "redis settings", "volatile-ttl");
    fleet_redis_does("CONFIG SET maxmemory-policy noeviction");
    assert_int_equal(check(PLAIN), 0);
    expect("warning", "redis settings", "maxmemory is 0");
}

TEST(a_replica_is_no_master, P169)
{
    struct stack_redis replica;
    assert_true(stack_redis_start_replica(&replica, &fleet.redis));
    snprintf(redis_setting, sizeof redis_setting, "REDIS_URL=%s", replica.url);
    assert_int_equal(check(PLAIN, redis_setting), 1);
    expect("wrong", "redis", "name the master");
    assert_int_equal(check(PLAIN), 0);
    expect("warning", "redis settings", "min-replicas-to-write is 0");
    stack_redis_stop(&replica);
}

TEST(servers_that_hang_are_named_within_their_limit, P169)
{
    enum { AT_MOST_MS = 60000 };
    stack_redis_pause(&fleet.redis);
    proc_pause(fleet.postgres.pid);
    const uint64_t begin_us = clock_us();
    const int status = check(PLAIN);
    stack_redis_resume(&fleet.redis);
    proc_resume(fleet.postgres.pid);
    assert_int_equal(status, 1);
    assert_true(clock_us() - begin_us < (uint64_t)AT_MOST_MS * 1000);
    expect("wrong", "redis", "is it running");
    expect("wrong", "database", "is it running");
}

/* ---- PostgreSQL ---- */

TEST(a_missing_column_and_missing_grants_are_named, P169)
{
    assert_true(fleet_sql(NULL, 0, "ALTER TABLE products RENAME COLUMN stamp TO was_stamp"));
    const int old = check(PLAIN);
    assert_true(fleet_sql(NULL, 0, "ALTER TABLE products RENAME COLUMN was_stamp TO stamp"));
    assert_int_equal(old, 1);
    expect("wrong", "schema", "column products.stamp");

    assert_true(fleet_sql(NULL, 0, "REVOKE SELECT ON offers FROM catalog_reader"));
    const int unread = check(PLAIN);
    assert_true(fleet_sql(NULL, 0, "GRANT SELECT ON offers TO catalog_reader"));
    assert_int_equal(unread, 1);
    expect("wrong", "schema", "privilege to read offers");

    assert_true(fleet_sql(NULL, 0, "REVOKE INSERT ON purchases FROM catalog_writer"));
    assert_true(fleet_sql(NULL, 0, "REVOKE DELETE ON caches FROM catalog_writer"));
    const int unwritten = check(PLAIN);
    assert_true(fleet_sql(NULL, 0, "GRANT INSERT ON purchases TO catalog_writer"));
    assert_true(fleet_sql(NULL, 0, "GRANT DELETE ON caches TO catalog_writer"));
    assert_int_equal(unwritten, 1);
    expect("wrong", "rights to write", "DELETE on caches, INSERT on purchases");
}

TEST(a_standby_is_named, P175)
{
    struct stack_postgres standby;
    char reader[96], writer[96];
    assert_true(stack_postgres_start_standby(&standby, &fleet.postgres));
    snprintf(reader, sizeof reader, "DATABASE_URL=postgresql://shop_reader@127.0.0.1:%u/postgres",
             (unsigned)standby.port);
    snprintf(writer, sizeof writer, "WRITE_DATABASE_URL=postgresql://shop_writer@127.0.0.1:%u/postgres",
             (unsigned)standby.port);
    assert_int_equal(check(PLAIN, reader), 1);
    expect("wrong", "database", "a standby");
    assert_int_equal(check(PLAIN, reader, "DATABASE_STANDBY=on"), 0);
    expect("warning", "database", "cached as new");
    assert_int_equal(check(PLAIN, writer, "DATABASE_STANDBY=on"), 1);
    expect("wrong", "database for writes", "a standby");
    stack_postgres_stop(&standby);
}

/* A session that is kept sets it. */
TEST(a_strict_isolation_behind_a_pooler_is_named, P176)
{
    assert_true(
        fleet_sql(NULL, 0, "ALTER ROLE shop_writer SET default_transaction_isolation = 'serializable'"));
    const int kept = check(PLAIN);
    assert_int_equal(check(PLAIN, "PREPARE=off"), 0);
    assert_true(fleet_sql(NULL, 0, "ALTER ROLE shop_writer RESET default_transaction_isolation"));
    expect("warning", "database for writes", "default_transaction_isolation is serializable");
    assert_int_equal(kept, 0);
}

TEST(a_refused_login_is_named_without_its_password, P169)
{
    char setting[160];
    snprintf(setting, sizeof setting, "DATABASE_URL=postgresql://nobody:hush@127.0.0.1:%u/catalog",
             (unsigned)fleet.postgres.port);
    assert_int_equal(check(PLAIN, setting), 1);
    expect("wrong", "database", "mend the login");
    assert_null(strstr(said, "hush"));
}

TEST_GROUP(.up = writes_up, .down = fleet_down, .after = fleet_end);
