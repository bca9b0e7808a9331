/* SPDX-License-Identifier: MIT */
/*
 * caches_test.c - several caches over one database: a fleet beside its shadow, two namespaces. A change
 * reaches each of them, whichever process pays; writes wait for a lost cache no longer than its entries live.
 */
#include "tests/support/writes.h"

#include "load/base/clock.h"
#include "tests/support/test.h"

#include <inttypes.h>
#include <stdio.h>

enum { CHANGES = 5, TRIES = 20, ONE = 0, OTHER = 1 };

#define OWED "SELECT count(*) FROM invalidations"

/* Whatever is not invalidated stays as it is for longer than any test. */
static const char *const FLEET[] = {"FRESH_MS=3600000", NULL};
/* Who waits for another cache waits two seconds. */
static const char *const IMPATIENT[] = {"FRESH_MS=3600000", "REDIS_LIMIT_MS=1000", NULL};
static const char *const SHADOW[] = {"FRESH_MS=3600000", "GUARD_MODE=shadow", NULL};
static const char *const BLUE[] = {"FRESH_MS=3600000", "NAMESPACE=blue", NULL};
/* Nothing in it lives for longer than two seconds after its query began. */
static const char *const BRIEF[] = {
    "FRESH_MS=1000", "ABSENT_MS=1000",  "LOAD_LIMIT_MS=1000", "MAX_HOLD_MS=1000",
    "LEASE_MS=900",  "NAMESPACE=brief", "OUTBOX_POLL_MS=100", NULL};
enum { BRIEF_SILENCE_MS = 9000, BRIEF_BEAT_MS = 500 }; /* 5 s of gate, 2 s of life, 2 s of slack */

static void start_two(const char *const *one, const char *const *other)
{
    assert_true(fleet_start(1, writes_settings(one)));
    assert_true(fleet_add(writes_settings(other)) && fleet_wait_registered(OTHER) && fleet_wait_ready(OTHER));
}

/* A product that no test has changed, in the cache of every process. */
static uint32_t cached_product(void)
{
    assert_true(writes_wait_number(0, OWED));
    const uint32_t id = (uint32_t)writes_number("SELECT max(id) FROM products WHERE edition = 1");
    for (size_t process = 0; process < fleet.count; process++)
        assert_true(writes_wait_version(process, id, 1)); /* a load of BRIEF may be given up */
    return id;
}

static void put(size_t process, uint32_t id, unsigned long version, struct write_asked *asked)
{
    static char path[64], headers[WRITES_CONDITION_BYTES];
    snprintf(path, sizeof path, "/products/%" PRIu32, id);
    writes_condition(id, version, headers);
    *asked =
        (struct write_asked){.process = process,
                             .method = "PUT",
                             .path = path,
                             .headers = headers,
                             .body = "{\"name\":\"n\",\"description\":\"d\",\"price_cents\":1,\"stock\":1}"};
    writes_ask(asked);
    assert_int_equal(asked->status, 200);
}

/* Visible at once, or said not to be; and then soon. */
static void put_and_look(size_t process, uint32_t id, unsigned long version)
{
    struct write_asked asked;
    put(process, id, version, &asked);
    for (size_t reader = 0; reader < fleet.count; reader++) {
        if (asked.visible)
            assert_int_equal(writes_version(reader, id), version + 1);
        else
            assert_true(writes_wait_version(reader, id, version + 1));
    }
}

static void changes_by_hand_reach_all(void)
{
    const uint32_t id = cached_product();
    for (unsigned long version = 2; version < 2 + CHANGES; version++) {
        assert_true(fleet_sql(NULL, 0, "UPDATE products SET stock = stock + 1 WHERE id = %" PRIu32, id));
        for (size_t process = 0; process < fleet.count; process++)
            assert_true(writes_wait_version(process, id, version));
    }
    assert_true(writes_wait_number(0, OWED));
}

/* By this process, or in turn by all. */
enum { ALL = FLEET_PROCESSES_MAX };
static void puts_reach_all_by(size_t process)
{
    const uint32_t id = cached_product();
    for (unsigned long version = 1; version <= CHANGES; version++)
        put_and_look(process == ALL ? version % fleet.count : process, id, version);
    assert_true(writes_wait_number(0, OWED));
}

static void puts_reach_all(void)
{
    puts_reach_all_by(ALL);
}

/* ---- a fleet and its shadow ---- */

TEST(what_is_written_through_a_shadow_process_reaches_the_fleet, P82)
{
    start_two(FLEET, SHADOW);
    puts_reach_all();
    assert_int_equal(fleet_sum("catalogd_writes_invisible_total"), 0);
}

/* ---- two caches ---- */

TEST(what_is_changed_reaches_two_namespaces, P81)
{
    start_two(FLEET, BLUE);
    puts_reach_all();
    assert_int_equal(fleet_sum("catalogd_writes_invisible_total"), 0);
    changes_by_hand_reach_all();
}

TEST(where_there_is_one_cache_a_write_asks_for_no_other, P81)
{
    start_two(FLEET, FLEET);
    fleet_mark();
    puts_reach_all();
    assert_int_equal(fleet_loads("/* owed invalidations */"), CHANGES);
    assert_int_equal(fleet_loads("/* unpaid transactions */"), 0);
    assert_in_range(fleet_loads("/* settle invalidations */"), 1, CHANGES);
    assert_int_equal(fleet_sum("catalogd_writes_settled_total"), CHANGES);
}

/* ---- who pays, and who does not ---- */

/* Its fleet has writes off: nobody but the shadow pays. */
TEST(a_shadow_process_pays_for_a_fleet_that_only_reads, P82)
{
    assert_true(fleet_start(1, FLEET));
    assert_true(fleet_add(writes_settings(SHADOW)) && fleet_wait_ready(OTHER));
    assert_true(fleet_wait_metric(OTHER, "catalogd_caches_registered", 1));
    puts_reach_all_by(OTHER);
    changes_by_hand_reach_all();
}

TEST(who_cannot_reach_his_own_cache_keeps_nothing_from_the_others, P81)
{
    struct write_asked asked;
    static const char *const NOWHERE[] = {"FRESH_MS=3600000", "REDIS_URL=unix:///nowhere/redis.sock",
                                          "REDIS_LIMIT_MS=250", NULL};
    assert_true(fleet_start(1, writes_settings(FLEET)));
    assert_true(fleet_add(writes_settings(NOWHERE)));
    assert_true(stack_catalogd_wait_ready(&fleet.catalogd[OTHER], FLEET_LIMIT_MS));
    const uint32_t id = cached_product();
    put(OTHER, id, 1, &asked);
    assert_false(asked.visible);
    assert_true(writes_wait_version(ONE, id, 2));
    changes_by_hand_reach_all();
}

/* ---- a cache that does not answer, and one that is gone ---- */

TEST(while_the_payer_of_a_cache_is_stopped_nothing_is_said_to_be_visible, P81)
{
    struct write_asked asked;
    start_two(IMPATIENT, BLUE);
    const uint32_t id = cached_product();
    proc_pause(fleet.catalogd[OTHER].pid);
    put(ONE, id, 1, &asked);
    assert_false(asked.visible);
    assert_int_equal(writes_version(ONE, id), 2);
    assert_int_equal(writes_number(OWED), 2); /* the product and its category, to the other cache */
    fleet_mark();
    assert_true(fleet_wait_loads("/* measure outbox */", 2)); /* a whole round of the one that has paid */
    assert_int_equal(fleet_metric(ONE, "catalogd_outbox_paid_total"), 0);
    proc_resume(fleet.catalogd[OTHER].pid);
    assert_true(writes_wait_number(0, OWED));
    assert_int_equal(writes_version(OTHER, id), 2);
    put_and_look(ONE, id, 2);
}

TEST(a_cache_that_is_gone_is_waited_for_as_long_as_its_entries_may_live, P83)
{
    struct write_asked asked;
    start_two(IMPATIENT, BRIEF);
    const uint32_t id = cached_product();
    proc_kill_tree(&fleet.catalogd[OTHER].pid);
    const uint64_t killed_us = clock_us();
    put(ONE, id, 1, &asked);
    assert_false(asked.visible);
    assert_int_equal(writes_number(OWED), 2);
    assert_true(fleet_wait_metric(ONE, "catalogd_caches_dropped_total", 1));
    assert_true(clock_us() - killed_us > (uint64_t)(BRIEF_SILENCE_MS - 2 * BRIEF_BEAT_MS) * 1000);
    assert_true(writes_wait_number(0, OWED));
    assert_int_equal(stack_log_count(fleet.catalogd[ONE].log_path, 0, "cache_dropped cache=\"brief in "), 1);
    for (unsigned long version = 2; !asked.visible; version++) {
        assert_true(version < 2 + TRIES);
        put(ONE, id, version, &asked);
    }
    assert_int_equal(writes_number("SELECT count(*) FROM caches"), 1);
}

/* A host that starts again: service and Redis end together, and another one of the same label is there at once. What
 * the old one held is gone, but nobody knows. */
TEST(after_a_host_has_restarted_no_write_waits_for_the_cache_that_is_gone, P83)
{
    /* it beats every half second, and its entries live for nine */
    static const char *const HOST[] = {"FRESH_MS=1000",
                                       "STALE_MS=5000",
                                       "LOAD_LIMIT_MS=1000",
                                       "MAX_HOLD_MS=3000",
                                       "LEASE_MS=3000",
                                       "REDIS_LIMIT_MS=1000",
                                       NULL};
    enum { WRITES = 5, LIMIT_MS = WRITES * 1000 }; /* a write that waits does so for 2 s */
    struct write_asked asked;
    assert_true(fleet_start(1, writes_settings(HOST)));
    const uint32_t id = cached_product();
    proc_kill_tree(&fleet.catalogd[ONE].pid);
    stack_redis_kill(&fleet.redis);
    assert_true(stack_redis_restart(&fleet.redis));
    assert_true(fleet_put(ONE, writes_settings(HOST)) && fleet_wait_ready(ONE) && fleet_wait_registered(ONE));
    assert_true(writes_wait_number(1, "SELECT count(*) FROM caches"
                                      " WHERE seen_at < clock_timestamp() - 3 * beat_ms * interval '1 ms'"));
    const uint64_t from_us = clock_us();
    for (unsigned long version = 1; version <= WRITES; version++) {
        put(ONE, id, version, &asked);
        assert_false(asked.visible);
        assert_int_equal(writes_version(ONE, id), version + 1);
    }
    assert_true(clock_us() - from_us < (uint64_t)LIMIT_MS * 1000);
    assert_int_equal(stack_log_count(fleet.catalogd[ONE].log_path, 0, "event=cache_silent "), 1);
    assert_int_equal(writes_number("SELECT count(*) FROM caches"), 2);
    /* what app/README says to do */
    assert_true(fleet_sql(NULL, 0, "DELETE FROM caches WHERE seen_at = (SELECT min(seen_at) FROM caches)"));
    put(ONE, id, WRITES + 1, &asked);
    assert_true(asked.visible);
}

/* As when a database's clock is set forward: all seem silent, and say that they are not before anybody is dropped. */
TEST(a_clock_that_was_set_forward_drops_nobody_who_lives, P83)
{
    start_two(FLEET, BLUE);
    assert_true(fleet_sql(NULL, 0, "UPDATE caches SET seen_at = seen_at - interval '1 year'"));
    assert_true(writes_wait_number(
        2, "SELECT count(*) FROM caches WHERE seen_at > now() - interval '1 day' AND doubted_at IS NULL"));
    puts_reach_all();
    assert_int_equal(fleet_sum("catalogd_caches_dropped_total"), 0);
}

/* ---- a cache that comes late ---- */

/* The change is open when the new cache's first load reads the row, and paid by all others before it can register. */
TEST(what_is_loaded_before_its_cache_is_registered_is_not_stored, P83)
{
    assert_true(fleet_start(1, writes_settings(FLEET)));
    const uint32_t id = cached_product();
    struct pg_conn *open_change =
        fleet_session("UPDATE products SET stock = stock + 1 WHERE id = %" PRIu32, id);
    struct pg_conn *nobody_registers = fleet_session("LOCK TABLE caches IN SHARE ROW EXCLUSIVE MODE");
    assert_true(fleet_add(writes_settings(BLUE)) && fleet_wait_ready(OTHER));
    assert_int_equal(writes_version(OTHER, id), 1);
    assert_int_equal(fleet_metric(OTHER, "catalogd_loads_unstored_total"), 1);
    assert_true(fleet_commit(open_change));
    assert_true(writes_wait_number(0, OWED));
    assert_true(fleet_commit(nobody_registers));
    assert_true(fleet_wait_registered(OTHER));
    assert_int_equal(writes_version(OTHER, id), 2);
}

/* Redis comes back empty: the cache is still the same one, and no other is left behind that would be waited for. */
TEST(a_redis_that_lost_its_data_is_no_further_cache, P83)
{
    start_two(FLEET, FLEET);
    stack_redis_kill(&fleet.redis);
    assert_true(stack_redis_restart(&fleet.redis));
    for (size_t process = 0; process < fleet.count; process++)
        assert_true(fleet_wait_ready(process) && fleet_wait_registered(process));
    assert_int_equal(writes_number("SELECT count(*) FROM caches"), 1);
    puts_reach_all();
}

TEST_GROUP(.up = writes_up, .down = fleet_down, .after = fleet_end);
