/* SPDX-License-Identifier: MIT */
/*
 * stale_test.c - two processes and a product whose time is over, or nearly: which answer comes, at once or after how
 * long, and how many queries that costs.
 *
 * Values are made old by shortening their TTL in Redis, not by waiting. While the gate is shut a query of a
 * product hangs in PostgreSQL, so that "at once" needs no clock: the answer came although the refresh cannot.
 */
#include "tests/support/probe.h"

#include "load/base/clock.h"
#include "tests/support/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROCESSES = 2, REQUESTS = 400, HOUR_MS = 3600000, OLD_MS = 3000000 };

#define STALE_FOR_AN_HOUR "FRESH_MS=3600000", "STALE_MS=3600000", "JITTER_PERCENT=0"
#define UNCHANGED "guard_loads_total{result=\"unchanged\"}"
#define LOADED "guard_loads_total{result=\"ok\"}"
#define STORED "guard_fills_total{result=\"stored\"}"
#define EARLY "guard_refreshes_total{reason=\"early\"}"
#define SOFT "guard_stale_late_total{reason=\"soft_limit\"}"

struct scene {
    struct pg_conn *gate;
    uint32_t product;
    char path[BURST_PATH_BYTES], key[FLEET_KEY_BYTES];
};

static struct scene scene;

/* Both processes up and one product loaded. */
static void begin(const char *const *settings)
{
    scene = (struct scene){0};
    assert_true(fleet_start(PROCESSES, settings));
    scene.product = fleet_cold_product(scene.path);
    fleet_redis_key(scene.key, scene.product, 'v');
    fleet_mark();
    assert_int_equal(fleet_ask_status(0, scene.path), 200);
    assert_true(probe_wait_for(scene.product, PROBE_VALUE));
}

static bool end(void)
{
    probe_gate_open(&scene.gate);
    return fleet_end();
}

static void shut_gate(void)
{
    assert_true(probe_gate_shut(&scene.gate));
}

/* What it has left of its life is part of its stale time. */
static void make_stale(void)
{
    assert_true(probe_redis("PEXPIRE %s %d", scene.key, OLD_MS));
}

static uint32_t loads(void)
{
    return fleet_loads(FLEET_LOAD_PRODUCT);
}

static void wait_sum(const char *sample, double at_least)
{
    uint64_t end_us = clock_after_ms(FLEET_LIMIT_MS);
    while (fleet_sum(sample) < at_least) {
        if (clock_us() > end_us)
            fail_msg("%s stays below %g", sample, at_least);
        clock_pause_ms(2);
    }
}

/* ---- one answer ---- */

struct seen {
    unsigned status;
    long age_s;
    uint64_t took_us;
    bool stale;
    char cache_status[128];
};

static struct seen ask(size_t process)
{
    struct http_answer answer;
    char age[32];
    assert_true(fleet_ask(process, NULL, scene.path, &answer));
    struct seen seen = {.status = answer.status, .took_us = answer.total_us};
    http_header(&answer, "Cache-Status", seen.cache_status, sizeof seen.cache_status);
    seen.age_s = strtol(http_header(&answer, "Age", age, sizeof age), NULL, 10);
    seen.stale = strstr(seen.cache_status, "fwd=stale") != NULL;
    http_answer_clear(&answer);
    return seen;
}

/* A hit may be one of too many that ask for a refresh; the next ones ask again. */
static void ask_until(const char *sample, double at_least)
{
    uint64_t end_us = clock_after_ms(FLEET_LIMIT_MS);
    while (fleet_sum(sample) < at_least) {
        assert_int_equal(ask(1).status, 200);
        assert_true(clock_us() < end_us);
        clock_pause_ms(2);
    }
}

static void expect_stale(size_t process)
{
    struct seen seen = ask(process);
    assert_int_equal(seen.status, 200);
    if (!seen.stale || strstr(seen.cache_status, "ttl=-") == NULL)
        fail_msg("not stale: %s", seen.cache_status);
}

static void expect_fresh(size_t process)
{
    struct seen seen = ask(process);
    assert_int_equal(seen.status, 200);
    if (strstr(seen.cache_status, "hit; ttl=3") == NULL) /* 3600, or a little less */
        fail_msg("no fresh hit: %s", seen.cache_status);
    assert_in_range(seen.age_s, 0, FLEET_LIMIT_MS / 1000);
}

/* ---- stale while it is revalidated ---- */

TEST(a_stale_product_never_waits_and_one_process_of_the_fleet_refreshes_it, P46)
{
    const char *const settings[] = {STALE_FOR_AN_HOUR, NULL};
    struct burst_target targets[FLEET_PROCESSES_MAX];
    struct burst *burst = NULL;
    begin(settings);
    make_stale();
    shut_gate(); /* nobody can be refreshed: whoever waited for that would wait for ever */
    struct burst_options options = fleet_options(targets, scene.path, REQUESTS);
    assert_true(burst_open(&options, &burst));
    assert_true(burst_run(burst));
    for (uint32_t i = 0; i < REQUESTS; i++) {
        char value[128];
        const struct burst_answer *answer = &burst_answers(burst)[i];
        assert_int_equal(answer->status, 200);
        assert_non_null(
            strstr(burst_header(answer, "Cache-Status", value, sizeof value), "fwd=stale; ttl=-"));
        assert_in_range(strtol(burst_header(answer, "Age", value, sizeof value), NULL, 10), HOUR_MS / 1000,
                        2 * HOUR_MS / 1000);
    }
    burst_close(&burst);
    wait_sum("guard_loads_running", 1);
    probe_gate_open(&scene.gate);
    wait_sum(STORED, 2);
    for (size_t i = 0; i < PROCESSES; i++)
        expect_fresh(i);
    assert_int_equal(loads(), 2); /* the first, and one refresh */
    assert_int_equal(probe_lease_count(), 0);
}

/* ---- stale if there is an error ---- */

/* In real time, for once, and the database is gone. */
TEST(a_stale_product_is_served_for_its_stale_time_and_no_longer, P46)
{
    enum { LIFE_MS = 1000 + 7000 };
    const char *const settings[] = {"FRESH_MS=1000", "STALE_MS=7000", "JITTER_PERCENT=0", "FAILURE_MS=50",
                                    NULL};
    unsigned stale_count = 0;
    begin(settings);
    stack_postgres_kill(&fleet.postgres);
    uint64_t begin_us = clock_us(); /* the value is older than this */
    struct seen seen = ask(0);
    while (seen.status == 200) {
        assert_in_range(seen.age_s, 0, LIFE_MS / 1000);
        stale_count += seen.stale;
        assert_true(clock_us() - seen.took_us < begin_us + (uint64_t)LIFE_MS * 1000);
        clock_pause_ms(5);
        seen = ask(stale_count % PROCESSES);
    }
    assert_int_equal(seen.status, 503);
    assert_true(stale_count > 0);
}

/* ---- soft and hard limit ---- */

TEST(past_the_soft_limit_the_stale_product_is_served_and_the_load_goes_on, P71)
{
    enum { SOFT_MS = 300 };
    const char *const settings[] = {STALE_FOR_AN_HOUR, FLEET_PATIENT, "SOFT_MS=300", "DEADLINE_MS=20000",
                                    NULL};
    begin(settings);
    make_stale();
    shut_gate();
    for (size_t i = 0; i < PROCESSES; i++) { /* the second one waits for the refresh of the first */
        uint64_t begin_us = clock_us();
        expect_stale(i);
        assert_in_range(clock_us() - begin_us, SOFT_MS * 1000, 10000000);
    }
    assert_int_equal(fleet_sum(SOFT), PROCESSES);
    assert_int_equal(fleet_sum("guard_loads_running"), 1);
    probe_gate_open(&scene.gate);
    wait_sum(STORED, 2);
    expect_fresh(1);
    assert_int_equal(loads(), 2);
}

TEST(past_the_hard_limit_without_a_stale_product_it_is_504, P71)
{
    const char *const settings[] = {STALE_FOR_AN_HOUR, "SOFT_MS=100", "DEADLINE_MS=3000", NULL};
    begin(settings);
    assert_true(probe_redis("DEL %s", scene.key));
    shut_gate();
    assert_int_equal(ask(0).status, 504);
}

/* ---- early and conditional ---- */

/* A load of 0.1 s and a beta of 100: each hit of a product that is fresh for a minute has a chance of e^-6. */
TEST(an_early_refresh_is_one_load_behind_hits_that_do_not_wait, P70)
{
    const char *const settings[] = {"FRESH_MS=60000", "JITTER_PERCENT=0", "LOAD_DELAY_MS=100",
                                    "EARLY_PERCENT=10000", NULL};
    begin(settings);
    uint64_t begin_us = clock_us();
    for (size_t i = 0; fleet_sum(EARLY) < 1; i++) {
        for (int n = 0; n < 50; n++) {
            struct seen seen = ask(i % PROCESSES);
            assert_int_equal(seen.status, 200);
            assert_non_null(strstr(seen.cache_status, "; hit; ttl="));
        }
        assert_true(clock_us() < begin_us + (uint64_t)FLEET_LIMIT_MS * 1000);
    }
    wait_sum(STORED, 2);
    assert_int_equal(fleet_sum("guard_leases_total{event=\"busy\"}"), 0);
    assert_int_equal(fleet_sum("guard_gets_total{outcome=\"loaded\"}"), 1);
}

TEST(an_unchanged_product_lives_on_without_being_sent_and_a_changed_one_is, P72)
{
    const char *const settings[] = {STALE_FOR_AN_HOUR, NULL};
    struct http_answer answer;
    begin(settings);
    for (int i = 1; i <= 3; i++) { /* again and again: what was touched can be touched */
        make_stale();
        expect_stale(1);
        ask_until(STORED, 1 + i);
        assert_int_equal(fleet_sum(UNCHANGED), i);
        expect_fresh(0);
    }
    assert_int_equal(fleet_sum(LOADED), 1);
    assert_int_equal(fleet_sum("guard_entries_rejected_total"), 0);
    assert_true(
        fleet_sql(NULL, 0, "UPDATE products SET price_cents = 99887766 WHERE id = %u", scene.product));
    make_stale();
    ask_until(STORED, 5);
    assert_int_equal(fleet_sum(UNCHANGED), 3);
    assert_true(fleet_ask(0, NULL, scene.path, &answer));
    assert_non_null(strstr(answer.body, "99887766"));
    http_answer_clear(&answer);
}

TEST_GROUP(.up = fleet_up, .down = fleet_down, .after = end);
