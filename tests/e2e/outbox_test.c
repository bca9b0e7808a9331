/* SPDX-License-Identifier: MIT */
/*
 * outbox_test.c - a committed change reaches readers, whatever program made it and whatever dies or is away between
 * its COMMIT and its invalidation.
 */
#include "tests/support/writes.h"

#include "load/base/clock.h"
#include "load/stack/proxy.h"
#include "tests/support/test.h"

#include <inttypes.h>
#include <stdio.h>

enum { PROCESSES = 2, CHANGES = 20, MANY = 3000 };

#define OWED "SELECT count(*) FROM invalidations"

/* The poll behind the notifications comes too late for anything in here. */
static const char *const NOTIFIED_ONLY[] = {"OUTBOX_POLL_MS=3600000", NULL};

/* Redis is away for a while: who writes or pays waits for twice its limit, and what a dead writer owes is his for
 * that time and some more. */
static const char *const REDIS_AWAY[] = {"REDIS_LIMIT_MS=1500", "LEASE_MS=5000", NULL};
static const char *const REDIS_AWAY_NOTIFIED_ONLY[] = {"REDIS_LIMIT_MS=1500", "LEASE_MS=5000",
                                                       "OUTBOX_POLL_MS=3600000", NULL};

/* A product that no test before has changed, in everybody's cache, while nobody owes anything. */
static uint32_t cached_product(void)
{
    assert_true(writes_wait_number(0, OWED)); /* by whom came before */
    const uint32_t id = (uint32_t)writes_number("SELECT max(id) FROM products WHERE edition = 1");
    for (size_t process = 0; process < fleet.count; process++)
        assert_int_equal(writes_version(process, id), 1);
    return id;
}

static void change_by_hand(uint32_t id)
{
    assert_true(fleet_sql(NULL, 0, "UPDATE products SET stock = stock + 1 WHERE id = %" PRIu32, id));
}

static void assert_everybody_sees(uint32_t id, unsigned long version)
{
    for (size_t process = 0; process < fleet.count; process++) {
        if (fleet.catalogd[process].pid > 0)
            assert_true(writes_wait_version(process, id, version));
    }
}

static void wait_for_listeners(void)
{
    for (size_t process = 0; process < fleet.count; process++)
        assert_true(fleet_wait_metric(process, "catalogd_outbox_listening", 1));
}

/* ---- by hand ---- */

TEST(a_change_by_hand_reaches_readers_through_a_notification)
{
    assert_true(fleet_start(PROCESSES, writes_settings(NOTIFIED_ONLY)));
    wait_for_listeners();
    const uint32_t id = cached_product();
    for (unsigned long version = 2; version < 2 + CHANGES; version++) {
        change_by_hand(id);
        assert_everybody_sees(id, version);
    }
    assert_true(writes_wait_number(0, OWED));
    /* each row was paid by one of them */
    assert_true(fleet_sum("catalogd_outbox_notified_total") >= CHANGES);
    assert_int_equal(fleet_sum("catalogd_outbox_paid_total"), 2 * CHANGES); /* product and category */
}

/* Nobody's time was over before Redis had confirmed what he had claimed. */
static bool are_paid_in_time(void)
{
    const double unpaid = fleet_sum("catalogd_outbox_unpaid_total");
    assert_true(fleet_sql(NULL, 0, "UPDATE products SET price_cents = price_cents + 1 WHERE id > %d", MANY));
    assert_true(writes_wait_number(0, OWED));
    return fleet_sum("catalogd_outbox_unpaid_total") == unpaid;
}

TEST(thousands_of_changes_at_once_are_paid_and_none_is_left)
{
    assert_true(fleet_start(PROCESSES, writes_settings(NOTIFIED_ONLY)));
    wait_for_listeners();
    const uint32_t id = cached_product();
    assert_true(fleet_sql(NULL, 0, "UPDATE products SET price_cents = price_cents + 1 WHERE id > %d", MANY));
    assert_everybody_sees(id, 2);
    assert_true(writes_wait_number(0, OWED));
    assert_true(fleet_sum("catalogd_outbox_paid_total") >= MANY);
    WAIT_UNTIL(are_paid_in_time()); /* again, if the machine stood still */
}

/* ---- nobody listens ---- */

/* It says that it is there, and asks nothing. */
TEST(an_idle_process_looks_no_more_often_than_it_is_told, P177)
{
    assert_true(fleet_start(1, writes_settings(NOTIFIED_ONLY)));
    wait_for_listeners();
    assert_true(writes_wait_number(0, OWED));
    fleet_mark();
    assert_true(fleet_wait_loads("/* beat cache */", 1));
    fleet_mark();
    assert_true(fleet_wait_loads("/* beat cache */", 2));
    assert_int_equal(fleet_loads("/* measure outbox */"), 0);
    assert_int_equal(fleet_loads("/* claim invalidations */"), 0);
}

/* Nothing ever comes of it any more, and no error either. */
TEST(a_listener_whose_connection_is_half_open_is_replaced, P177)
{
    struct proxy *proxy;
    char url[96];
    assert_true(proxy_open_to(fleet.postgres.port, &proxy));
    snprintf(url, sizeof url, "WRITE_DATABASE_URL=postgresql://shop_writer@127.0.0.1:%u/postgres",
             (unsigned)proxy_port(proxy, 0));
    proxy_mark(proxy, 0, "LISTEN invalidations", PROXY_NONE);
    const char *const settings[] = {url, "OUTBOX_POLL_MS=3600000", NULL};
    assert_true(fleet_start(1, writes_settings(settings)));
    wait_for_listeners();
    const uint32_t id = cached_product();
    proxy_set(proxy, 0, PROXY_SILENT, 0);
    WAIT_UNTIL(stack_log_count(fleet.catalogd[0].log_path, 0, "no sign of life") > 0);
    change_by_hand(id); /* nobody hears it */
    proxy_set(proxy, 0, PROXY_NONE, 0);
    assert_everybody_sees(id, 2);
    wait_for_listeners();
    const double notified = fleet_sum("catalogd_outbox_notified_total");
    change_by_hand(id);
    assert_everybody_sees(id, 3);
    assert_true(fleet_wait_metric(0, "catalogd_outbox_notified_total", notified + 1));
    assert_true(fleet_stop());
    proxy_close(&proxy);
}

/* ---- between COMMIT and invalidation ---- */

/* A change of its first version. */
static struct write_asked put_of(uint32_t id)
{
    static char path[64], condition[WRITES_CONDITION_BYTES];
    snprintf(path, sizeof path, "/products/%" PRIu32, id);
    writes_condition(id, 1, condition);
    return (struct write_asked){.method = "PUT",
                                .path = path,
                                .headers = condition,
                                .body =
                                    "{\"name\":\"n\",\"description\":\"d\",\"price_cents\":1,\"stock\":1}"};
}

/* Redis answers nobody, so the writer stands between the two when it is killed. */
TEST(what_a_killed_writer_owed_is_paid_by_another_process, P81)
{
    char committed[96];
    assert_true(fleet_start(PROCESSES, writes_settings(REDIS_AWAY)));
    const uint32_t id = cached_product();
    struct write_asked put = put_of(id);
    snprintf(committed, sizeof committed, "SELECT edition FROM products WHERE id = %" PRIu32, id);
    stack_redis_pause(&fleet.redis);
    writes_start(&put);
    assert_true(writes_wait_number(2, committed));
    proc_kill_tree(&fleet.catalogd[0].pid);
    writes_join(&put);
    assert_int_equal(put.status, 0); /* he was never answered */
    assert_int_equal(writes_number(OWED), 2);
    stack_redis_resume(&fleet.redis);
    assert_everybody_sees(id, 2);
    assert_true(writes_wait_number(0, OWED));
    assert_true(fleet_wait_metric(1, "catalogd_outbox_paid_total", 2));
}

TEST(a_change_made_while_redis_hangs_stands_and_is_paid_when_it_is_back, P81)
{
    assert_true(fleet_start(PROCESSES, writes_settings(REDIS_AWAY)));
    const uint32_t id = cached_product();
    struct write_asked asked = put_of(id);
    stack_redis_pause(&fleet.redis);
    writes_ask(&asked);
    assert_int_equal(asked.status, 200);
    assert_int_equal(asked.version, 2);
    assert_false(asked.visible);
    assert_int_equal(writes_number(OWED), 2);
    assert_true(fleet_wait_metric(0, "catalogd_outbox_rows", 2));
    assert_int_equal(fleet_metric(0, "catalogd_writes_invisible_total"), 1);
    stack_redis_resume(&fleet.redis);
    assert_everybody_sees(id, 2);
    assert_true(writes_wait_number(0, OWED));
}

/* A row whose payer died belongs to nobody for a while, and then to anybody. */
TEST(what_a_killed_payer_had_claimed_is_paid_by_another, P81)
{
    assert_true(fleet_start(1, writes_settings(REDIS_AWAY_NOTIFIED_ONLY)));
    wait_for_listeners();
    const uint32_t id = cached_product();
    stack_redis_pause(&fleet.redis);
    change_by_hand(id);
    assert_true(writes_wait_number(2, OWED " WHERE due_at > now()")); /* claimed */
    proc_kill_tree(&fleet.catalogd[0].pid);
    stack_redis_resume(&fleet.redis);
    assert_true(fleet_add(writes_settings(REDIS_AWAY_NOTIFIED_ONLY)) && fleet_wait_ready(1));
    assert_everybody_sees(id, 2);
    assert_true(writes_wait_number(0, OWED));
}

/* ---- what the database is asked for ---- */

/* Rows that fell due and that somebody else holds are left to him; they are no reason to ask without a pause. */
TEST(rows_that_another_session_holds_are_asked_for_now_and_then)
{
    assert_true(fleet_start(1, writes_settings(NULL)));
    assert_true(writes_wait_number(0, OWED));
    fleet_mark();
    assert_true(
        fleet_sql(NULL, 0,
                  "BEGIN; INSERT INTO invalidations (target, due_at) VALUES ('product:1', now()); COMMIT; "
                  "BEGIN; SELECT FROM invalidations FOR UPDATE; "
                  "NOTIFY invalidations; SELECT pg_sleep(1); COMMIT"));
    assert_in_range(fleet_loads("/* claim invalidations */"), 1, 40);
    assert_true(writes_wait_number(0, OWED));
}

TEST(old_purchases_are_forgotten_however_many_they_are)
{
    assert_true(
        fleet_sql(NULL, 0,
                  "INSERT INTO purchases (key, product_id, quantity, stock, version, made_at) "
                  "SELECT 'old' || n, 1, 1, 1, 1, now() - interval '2 days' FROM generate_series(1, %d) AS n",
                  MANY));
    assert_true(fleet_start(1, writes_settings(NULL)));
    assert_true(writes_wait_number(0, "SELECT count(*) FROM purchases WHERE key LIKE 'old%'"));
}

TEST_GROUP(.up = writes_up, .down = fleet_down, .after = fleet_end);
