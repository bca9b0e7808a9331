/* SPDX-License-Identifier: MIT */
/*
 * standby_test.c - the database fails over, and for a while its name leads to a standby.
 *
 * The name is a symbolic link to PostgreSQL's socket, which a failover turns round like an address that moves: sessions
 * stay where they are. The standby is held back: what it shows is older than what was said to be visible.
 */
#include "tests/support/probe.h"
#include "tests/support/test.h"
#include "tests/support/writes.h"

#include "load/base/clock.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PROCESSES = 2, SOON_MS = 5000, EDITS = 3, GETS = 40, NAME_PORT = 5432 };

struct scene {
    struct stack_postgres standby;
    char folder[PROC_PATH_BYTES + 32];
    char reader[PROC_PATH_BYTES + 128], writer[PROC_PATH_BYTES + 128];
    uint32_t product;
    unsigned long version;
};

static struct scene scene;

/* ---- the name ---- */

static void lead_to(const struct stack_postgres *postgres)
{
    char socket[PROC_PATH_BYTES + 32], name[PROC_PATH_BYTES + 64], other[PROC_PATH_BYTES + 64];
    snprintf(socket, sizeof socket, "%s/.s.PGSQL.%u", postgres->folder, (unsigned)postgres->port);
    snprintf(name, sizeof name, "%s/.s.PGSQL.%d", scene.folder, NAME_PORT);
    snprintf(other, sizeof other, "%s/other", scene.folder);
    assert_int_equal(symlink(socket, other), 0);
    assert_int_equal(rename(other, name), 0);
}

static bool begin_with(const char *more)
{
    scene = (struct scene){.version = 0};
    snprintf(scene.folder, sizeof scene.folder, "%s/name", fleet.postgres.folder);
    mkdir(scene.folder, 0755);
    snprintf(scene.reader, sizeof scene.reader,
             "DATABASE_URL=host=%s port=%d user=shop_reader dbname=postgres", scene.folder, NAME_PORT);
    snprintf(scene.writer, sizeof scene.writer,
             "WRITE_DATABASE_URL=host=%s port=%d user=shop_writer dbname=postgres", scene.folder, NAME_PORT);
    lead_to(&fleet.postgres);
    const char *settings[] = {scene.reader, scene.writer, "FRESH_MS=1", "FAILURE_MS=1", more, NULL};
    assert_true(fleet_start(PROCESSES, writes_settings(settings)));
    char path[BURST_PATH_BYTES];
    scene.product = fleet_cold_product(path);
    scene.version = writes_version(0, scene.product);
    assert_true(stack_postgres_start_standby(&scene.standby, &fleet.postgres));
    return true;
}

static bool begin(void)
{
    return begin_with(NULL);
}

static bool begin_with_standbys(void)
{
    return begin_with("DATABASE_STANDBY=on");
}

static bool begin_with_short_sessions(void)
{
    return begin_with("DATABASE_SESSION_MS=1000");
}

static bool end(void)
{
    bool ended = fleet_end();
    stack_postgres_stop(&scene.standby);
    return ended;
}

/* ---- asking ---- */

static unsigned put(size_t process, bool *visible)
{
    static const char body[] = "{\"name\":\"n\",\"description\":\"d\",\"price_cents\":1,\"stock\":7}";
    char path[64];
    snprintf(path, sizeof path, "/products/%u", (unsigned)scene.product);
    struct write_asked asked = {
        .process = process, .method = "PUT", .path = path, .headers = "If-Match: *\r\n", .body = body};
    writes_ask(&asked);
    if (asked.status == 200)
        scene.version = asked.version;
    *visible = asked.visible;
    return asked.status;
}

/* Each answer that comes is of the version that was said to be visible. */
static void nothing_older_is_shown(void)
{
    for (unsigned i = 0; i < GETS; i++) {
        const unsigned long shown = writes_version(i % PROCESSES, scene.product);
        if (shown != 0)
            assert_int_equal(shown, scene.version);
    }
}

static void put_visibly(size_t process)
{
    const uint64_t end_us = clock_after_ms(FLEET_LIMIT_MS);
    bool visible = false;
    while (put(process, &visible) != 200 || !visible)
        assert_true(clock_us() < end_us);
}

/* ---- the scenes ---- */

/* The database's name leads to the standby for a moment, then to the primary again: 500 is the answer to what will not
 * pass by itself, and this does. */
TEST(a_name_that_led_to_a_standby_for_a_moment_costs_no_write_and_no_row, P175)
{
    bool visible;
    assert_true(stack_postgres_hold_replay(&scene.standby, true));
    for (size_t i = 0; i < PROCESSES; i++)
        put_visibly(i);
    lead_to(&scene.standby);
    assert_true(fleet_sql(NULL, 0,
                          "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                          " WHERE application_name = 'catalogd'"));
    for (unsigned i = 0; i < PROCESSES * EDITS; i++) {
        assert_int_equal(put(i % PROCESSES, &visible), 503);
        nothing_older_is_shown();
    }
    lead_to(&fleet.postgres);
    const uint64_t end_us = clock_after_ms(SOON_MS);
    for (size_t i = 0; i < PROCESSES; i++) {
        while (put(i, &visible) != 200)
            assert_true(clock_us() < end_us);
        put_visibly(i);
        nothing_older_is_shown();
    }
    assert_true(stack_log_count(fleet.catalogd[0].log_path, 0, "in hot standby mode") > 0);
}

static bool says(const char *statement, const char *wanted)
{
    char value[16];
    return fleet_sql(value, sizeof value, "%s", statement) && strcmp(value, wanted) == 0;
}

static void fence(bool fenced)
{
    assert_true(
        fleet_sql(NULL, 0, "ALTER SYSTEM SET default_transaction_read_only = %s", fenced ? "on" : "off"));
    assert_true(fleet_sql(NULL, 0, "SELECT pg_reload_conf()"));
    WAIT_UNTIL(says("SHOW default_transaction_read_only", fenced ? "on" : "off"));
}

/* The standby was promoted while the old primary lives on, fenced: what finds its session read-only leaves with all. */
TEST(a_primary_that_is_fenced_and_lives_on_is_left_at_the_first_write, P175)
{
    bool visible;
    put_visibly(0);
    assert_true(stack_postgres_promote(&scene.standby));
    lead_to(&scene.standby);
    fence(true);
    for (size_t i = 0; i < PROCESSES; i++)
        assert_int_equal(put(i, &visible), 200);
    put_visibly(0);
    nothing_older_is_shown();
    fence(false);
}

/* Nothing says that the name has moved. Sessions with the old one age. */
TEST_WITH(a_primary_that_lives_on_is_left_when_its_sessions_are_old, begin_with_short_sessions, end, P175)
{
    assert_true(stack_postgres_promote(&scene.standby));
    lead_to(&scene.standby);
    assert_true(
        stack_postgres_query(scene.standby.url, "UPDATE products SET name = 'of the new one'", NULL, 0));
    for (size_t i = 0; i < PROCESSES; i++)
        assert_true(writes_wait_version(i, scene.product, scene.version + 1));
}

TEST_WITH(with_the_setting_loads_are_of_a_standby_and_writes_never, begin_with_standbys, end, P175)
{
    bool visible;
    lead_to(&scene.standby);
    assert_true(fleet_sql(NULL, 0,
                          "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                          " WHERE application_name = 'catalogd'"));
    const uint64_t mark = stack_postgres_mark(&scene.standby);
    assert_int_equal(writes_version(0, scene.product), scene.version);
    assert_int_equal(stack_postgres_count(&scene.standby, mark, FLEET_LOAD_PRODUCT), 1);
    assert_int_equal(put(0, &visible), 503);
    lead_to(&fleet.postgres);
}

static bool up(void)
{
    return fleet_up() && writes_make_logins();
}

TEST_GROUP(.up = up, .down = fleet_down, .before = begin, .after = end);
