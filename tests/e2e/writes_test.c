/* SPDX-License-Identifier: MIT */
/*
 * writes_test.c - edits and purchases over several processes: no change is lost, nothing is sold twice, and a change
 * that was said to be visible is found everywhere.
 */
#include "tests/support/writes.h"

#include "tests/support/test.h"

#include <inttypes.h>
#include <libpq-fe.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { PROCESSES = 2, BUYERS = 1000, STOCK = 100, WRITERS = 8, RACES = 10, ROUNDS = 50 };

static uint32_t product(void)
{
    char path[BURST_PATH_BYTES];
    return fleet_cold_product(path);
}

static const char *purchase_path(uint32_t id)
{
    static char path[64];
    snprintf(path, sizeof path, "/products/%" PRIu32 "/purchase", id);
    return path;
}

static void set_stock(uint32_t id, int stock)
{
    assert_true(fleet_sql(NULL, 0, "UPDATE products SET stock = %d WHERE id = %" PRIu32, stock, id));
}

static long column_of(uint32_t id, const char *column)
{
    return writes_number("SELECT %s FROM products WHERE id = %" PRIu32, column, id);
}

/* ---- edits ---- */

TEST(of_those_who_saw_one_version_exactly_one_changes_it)
{
    struct write_asked asked[WRITERS];
    char path[64], headers[WRITES_CONDITION_BYTES], bodies[WRITERS][160];
    assert_true(fleet_start(PROCESSES, writes_settings(NULL)));
    const uint32_t id = product();
    snprintf(path, sizeof path, "/products/%" PRIu32, id);
    for (unsigned long version = 1; version <= RACES; version++) {
        writes_condition(id, version, headers);
        for (size_t i = 0; i < WRITERS; i++) {
            snprintf(bodies[i], sizeof bodies[i],
                     "{\"name\":\"n\",\"description\":\"\",\"price_cents\":1,\"stock\":%zu}", i);
            asked[i] = (struct write_asked){.process = i % PROCESSES,
                                            .method = "PUT",
                                            .path = path,
                                            .headers = headers,
                                            .body = bodies[i]};
        }
        writes_at_once(asked, WRITERS);
        assert_int_equal(writes_count(asked, WRITERS, 200), 1);
        assert_int_equal(writes_count(asked, WRITERS, 412), WRITERS - 1);
        assert_int_equal(column_of(id, "edition"), version + 1);
        assert_int_equal(asked[column_of(id, "stock")].status, 200);
        assert_int_equal(writes_version(version % PROCESSES, id), version + 1);
    }
}

/* Each round begins with the old row in the cache, and readers who keep putting it there. */
TEST(who_was_told_of_a_change_finds_it_in_every_process, P39)
{
    char path[BURST_PATH_BYTES];
    assert_true(fleet_start(PROCESSES, writes_settings(NULL)));
    const uint32_t id = fleet_cold_product(path);
    for (unsigned long version = 1; version <= ROUNDS; version++) {
        struct burst_summary summary;
        if (version % 10 == 0)
            assert_true(fleet_burst(path, 100, NULL, &summary));
        assert_int_equal(writes_version(version % PROCESSES, id), version);
        assert_int_equal(writes_put((version / 2) % PROCESSES, id, version, 1), 200);
        assert_int_equal(writes_version(0, id), version + 1);
        assert_int_equal(writes_version(1, id), version + 1);
    }
    assert_int_equal(fleet_sum("catalogd_writes_total{outcome=\"done\"}"), ROUNDS);
    assert_int_equal(fleet_sum("catalogd_writes_invisible_total"), 0);
    /* paid by who wrote, so by nobody else, unless he was held up for seconds */
    assert_true(writes_wait_number(0, "SELECT count(*) FROM invalidations"));
    assert_true(fleet_sum("catalogd_outbox_paid_total") < ROUNDS / 2);
}

/* ---- purchases ---- */

TEST(a_thousand_buyers_get_a_hundred_pieces)
{
    static struct write_asked asked[BUYERS];
    assert_true(fleet_start(PROCESSES, writes_settings(NULL)));
    const uint32_t id = product();
    set_stock(id, STOCK);
    for (size_t i = 0; i < BUYERS; i++)
        asked[i] = (struct write_asked){.process = i % PROCESSES,
                                        .method = "POST",
                                        .path = purchase_path(id),
                                        .body = "{\"quantity\":1}"};
    writes_at_once(asked, BUYERS);
    assert_int_equal(writes_count(asked, BUYERS, 200), STOCK);
    assert_int_equal(writes_count(asked, BUYERS, 409), BUYERS - STOCK);
    assert_int_equal(column_of(id, "stock"), 0);
    assert_int_equal(column_of(id, "edition"), 2 + STOCK);
    /* each was told of a stock of his own */
    bool seen[STOCK] = {false};
    for (size_t i = 0; i < BUYERS; i++) {
        if (asked[i].status != 200)
            continue;
        assert_in_range(asked[i].stock, 0, STOCK - 1);
        assert_false(seen[asked[i].stock]);
        seen[asked[i].stock] = true;
    }
    assert_int_equal(writes_version(0, id), 2 + STOCK);
    assert_int_equal(writes_version(1, id), 2 + STOCK);
}

TEST(a_purchase_that_is_repeated_under_its_key_is_made_once)
{
    enum { REPEATS = 50 };
    struct write_asked asked[REPEATS];
    char key[64];
    assert_true(fleet_start(PROCESSES, writes_settings(NULL)));
    const uint32_t id = product();
    for (int stock = 1; stock <= 5; stock += 4) { /* the last piece, and one of several */
        set_stock(id, stock);
        snprintf(key, sizeof key, "Idempotency-Key: order-%" PRIu32 "-%d\r\n", id, stock);
        for (size_t i = 0; i < REPEATS; i++)
            asked[i] = (struct write_asked){.process = i % PROCESSES,
                                            .method = "POST",
                                            .path = purchase_path(id),
                                            .headers = key,
                                            .body = "{\"quantity\":1}"};
        writes_at_once(asked, REPEATS);
        assert_int_equal(writes_count(asked, REPEATS, 200), REPEATS);
        for (size_t i = 0; i < REPEATS; i++)
            assert_int_equal(asked[i].stock, stock - 1);
        assert_int_equal(column_of(id, "stock"), stock - 1);
    }
    assert_int_equal(fleet_sum("catalogd_writes_total{outcome=\"done\"}"), 2);
    assert_int_equal(fleet_sum("catalogd_writes_total{outcome=\"repeated\"}"), 2 * (REPEATS - 1));
    asked[0].body = "{\"quantity\":2}";
    writes_ask(&asked[0]);
    assert_int_equal(asked[0].status, 422);
    assert_string_equal(asked[0].type, "key-reused");
}

/* Its process died between COMMIT and invalidation; its rows are nobody else's business for 10 s. */
TEST(a_purchase_that_nobody_saw_the_end_of_is_visible_when_its_repetition_says_so)
{
    char path[64], wanted[64], product_path[64];
    struct http_answer answer;
    assert_true(fleet_start(1, writes_settings(NULL)));
    const uint32_t id = (uint32_t)writes_number(
        "SELECT min(id) FROM products WHERE category_id = (SELECT max(category_id) FROM products)");
    set_stock(id, 8000);
    assert_true(writes_wait_number(0, "SELECT count(*) FROM invalidations"));
    snprintf(path, sizeof path, "/categories/%ld", column_of(id, "category_id"));
    snprintf(product_path, sizeof product_path, "/products/%" PRIu32, id);
    assert_int_equal(fleet_ask_status(0, path), 200);
    assert_int_equal(fleet_ask_status(0, product_path), 200);
    assert_true(fleet_sql(
        NULL, 0,
        "BEGIN; SET LOCAL catalogd.pays_ms = 10000; "
        "UPDATE products SET stock = 7989 WHERE id = %" PRIu32
        "; INSERT INTO purchases (key, product_id, quantity, stock, version) VALUES ('orphan', %" PRIu32
        ", 11, 7989, 2); COMMIT",
        id, id));
    struct write_asked asked = {.method = "POST",
                                .path = purchase_path(id),
                                .headers = "Idempotency-Key: orphan\r\n",
                                .body = "{\"quantity\":11}"};
    writes_ask(&asked);
    assert_int_equal(asked.status, 200);
    assert_true(asked.visible);
    snprintf(wanted, sizeof wanted, "\"stock\":%d", 8000 - 11);
    const char *const paths[] = {product_path, path};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        assert_true(fleet_ask(0, NULL, paths[i], &answer));
        assert_non_null(strstr(answer.body, wanted));
        http_answer_clear(&answer);
    }
    assert_true(writes_wait_number(0, "SELECT count(*) FROM invalidations"));
}

/* ---- a row that somebody holds ---- */

static PGconn *hold_row(uint32_t id)
{
    return fleet_session("SELECT FROM products WHERE id = %" PRIu32 " FOR UPDATE", id);
}

static const char HELD_UP[] =
    "SELECT count(*) FROM pg_stat_activity WHERE usename = 'shop_writer' AND wait_event_type = 'Lock'";

static void begin(struct write_asked *asked, const char *path)
{
    *asked = (struct write_asked){.method = "POST", .path = path, .body = "{\"quantity\":1}"};
    writes_start(asked);
}

TEST(a_row_held_for_long_fails_its_write_and_nothing_else)
{
    struct write_asked held, queued;
    const char *const settings[] = {"WRITE_LOCK_MS=4000", "WRITE_LIMIT_MS=20000", "WRITE_WORKERS=1",
                                    "WRITE_QUEUE=1", NULL};
    assert_true(fleet_start(1, writes_settings(settings)));
    const uint32_t id = product(), other = product();
    char path[64], other_path[64];
    set_stock(id, 5);
    set_stock(other, 5);
    snprintf(path, sizeof path, "%s", purchase_path(id));
    snprintf(other_path, sizeof other_path, "%s", purchase_path(other));
    PGconn *holder = hold_row(id);
    begin(&held, path);
    assert_true(writes_wait_number(1, HELD_UP));
    begin(&queued, other_path);
    assert_true(fleet_wait_metric(0, "catalogd_writes_queued", 1));
    /* the queue is full, readers notice nothing */
    struct write_asked third = {.method = "POST", .path = other_path, .body = "{\"quantity\":1}"};
    writes_ask(&third);
    assert_int_equal(third.status, 503);
    assert_string_equal(third.type, "shed");
    assert_string_equal(third.retry_after, "1");
    assert_int_equal(writes_version(0, id), 2);
    writes_join(&held);
    assert_int_equal(held.status, 503);
    assert_string_equal(held.type, "write-timeout");
    writes_join(&queued);
    assert_int_equal(queued.status, 200);
    PQfinish(holder);
    assert_int_equal(column_of(id, "stock"), 5);
    assert_int_equal(column_of(other, "stock"), 4);
}

/* Both have found the key unused and stand in line for the last piece. */
TEST(the_twin_of_a_purchase_is_not_told_that_his_own_piece_is_sold)
{
    struct write_asked twins[PROCESSES];
    assert_true(fleet_start(PROCESSES, writes_settings(NULL)));
    const uint32_t id = product();
    char path[64];
    snprintf(path, sizeof path, "%s", purchase_path(id));
    for (int stock = 1; stock <= 2; stock++) { /* the last one, and one more than that */
        char key[64];
        snprintf(key, sizeof key, "Idempotency-Key: twins-%d\r\n", stock);
        set_stock(id, stock);
        PGconn *holder = hold_row(id);
        for (size_t i = 0; i < PROCESSES; i++) {
            twins[i] = (struct write_asked){
                .process = i, .method = "POST", .path = path, .headers = key, .body = "{\"quantity\":1}"};
            writes_start(&twins[i]);
        }
        assert_true(writes_wait_number(PROCESSES, HELD_UP));
        PQfinish(holder);
        for (size_t i = 0; i < PROCESSES; i++) {
            writes_join(&twins[i]);
            assert_int_equal(twins[i].status, 200);
            assert_int_equal(twins[i].stock, stock - 1);
        }
        assert_int_equal(column_of(id, "stock"), stock - 1);
    }
}

TEST(a_write_whose_connection_is_lost_is_of_unknown_outcome)
{
    struct write_asked held;
    assert_true(fleet_start(1, writes_settings(NULL)));
    const uint32_t id = product();
    set_stock(id, 5);
    PGconn *holder = hold_row(id);
    begin(&held, purchase_path(id));
    assert_true(writes_wait_number(1, HELD_UP));
    assert_true(fleet_sql(NULL, 0,
                          "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                          "WHERE usename = 'shop_writer' AND wait_event_type = 'Lock'"));
    writes_join(&held);
    assert_int_equal(held.status, 502);
    assert_string_equal(held.type, "outcome-unknown");
    PQfinish(holder);
    begin(&held, purchase_path(id));
    writes_join(&held);
    assert_int_equal(held.status, 200); /* over a new connection */
}

/* ---- the end of a process ---- */

/* A second SIGTERM, which fleet_end() would send, ends it at once. */
static void assert_ended_in_order(void)
{
    int status = -1;
    assert_true(proc_wait(fleet.catalogd[0].pid, FLEET_LIMIT_MS, &status));
    fleet.catalogd[0].pid = 0;
    assert_int_equal(status, 0);
}

TEST(a_write_whose_turn_has_not_come_when_the_time_is_over_is_refused)
{
    struct write_asked held, queued;
    const char *const settings[] = {"WRITE_LOCK_MS=4000", "WRITE_LIMIT_MS=20000", "WRITE_WORKERS=1",
                                    "DRAIN_MS=0", NULL};
    assert_true(fleet_start(1, writes_settings(settings)));
    const uint32_t id = product();
    set_stock(id, 5);
    PGconn *holder = hold_row(id);
    char path[64];
    snprintf(path, sizeof path, "%s", purchase_path(id));
    begin(&held, path);
    assert_true(writes_wait_number(1, HELD_UP));
    begin(&queued, path);
    assert_true(fleet_wait_metric(0, "catalogd_writes_queued", 1));
    kill(fleet.catalogd[0].pid, SIGTERM);
    writes_join(&held);
    writes_join(&queued);
    PQfinish(holder);
    assert_string_equal(held.type, "write-timeout");
    assert_int_equal(queued.status, 503);
    assert_string_equal(queued.type, "closing");
    assert_ended_in_order();
    assert_int_equal(column_of(id, "stock"), 5);
}

TEST_GROUP(.up = writes_up, .down = fleet_down, .after = fleet_end);
