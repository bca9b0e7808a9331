/* SPDX-License-Identifier: MIT */
/*
 * refresh_test.c - refreshing a value that is there, with whole guards and a real Redis: early, after a stale hit,
 * and by a loader that finds it unchanged.
 */
#include "guard_rig.h"

#include <time.h>

enum { BODY_BYTES = 100000, OLD_MS = 30000 };

static char big_body[BODY_BYTES];

/* The rows of `source` with their version as validator; a row that is known already is unchanged. */
static void load_if_changed(struct guard_load *load, void *context)
{
    struct source *source = context;
    char version[16];
    const char *previous = guard_load_previous_validator(load);
    snprintf(version, sizeof version, "%u", atomic_load(&source->version));
    atomic_fetch_add(&source->begun, 1);
    if (!source_pass(source, load))
        guard_load_fail(load, GUARD_FAILURE_UNAVAILABLE);
    else if (previous != NULL && strcmp(previous, version) == 0)
        guard_load_unchanged(load);
    else
        guard_load_done(load, big_body, sizeof big_body, version);
    atomic_fetch_add(&source->over, 1);
}

static void open_conditional(size_t count)
{
    memset(big_body, 'x', sizeof big_body);
    fleet_init();
    fleet.policy.loader = load_if_changed;
    fleet.policy.stale_ms = 60000;
    fleet_open(count);
}

/* Bytes that Redis has been sent so far. */
static uint64_t bytes_received(void)
{
    const long long bytes = stack_redis_info(&rig_redis, "stats", "total_net_input_bytes");
    assert_true(bytes >= 0);
    return (uint64_t)bytes;
}

/* The result; its value, which is whole, has been given back. */
static struct guard_result get_body(size_t i)
{
    struct ask ask;
    ask_start(i, &ask, "k");
    ask_wait(&ask);
    assert_int_equal(ask.result.status, GUARD_OK);
    assert_int_equal(ask.result.value->body_bytes, sizeof big_body);
    assert_memory_equal(ask.result.value->body, big_body, sizeof big_body);
    struct guard_result result = ask.result;
    ask_clear(&ask);
    return result;
}

TEST(an_unchanged_value_has_a_new_life_without_being_sent, P72)
{
    open_conditional(2);
    get_body(0);
    age_value("k", OLD_MS);
    uint64_t before = bytes_received();
    assert_int_equal(get_body(1).source, GUARD_FROM_STALE);
    WAIT_UNTIL(stats_of(fleet.guards[1]).fill_stored == 1);
    assert_true(bytes_received() - before < BODY_BYTES / 2);
    struct guard_result fresh = get_body(0);
    assert_int_equal(fresh.source, GUARD_FROM_CACHE);
    assert_true(fresh.left_ms > fleet.policy.fresh_ms / 2);
    assert_int_equal(stats_of(fleet.guards[1]).load_unchanged, 1);
    assert_int_equal(FLEET_SUM(load_ok), 1);
    assert_int_equal(FLEET_SUM(entry_rejected), 0);
}

/* The load has to take its time for the lot to fall soon. */
static void load_slowly(struct ask *ask)
{
    source_shut(&fleet.source);
    ask_start(0, ask, "k");
    WAIT_UNTIL(atomic_load(&fleet.source.begun) == 1);
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    source_open(&fleet.source);
    ask_wait(ask);
    ask_clear(ask);
}

/* 0.1 s of load, a beta of 100, fresh for 20 s: each hit has a chance of e^-2. */
static void open_early(void)
{
    fleet_init();
    fleet.config.redis_limit_ms = 10000;
    fleet.policy.lease_ms = fleet.policy.max_hold_ms = 30000;
    fleet.policy.fresh_ms = 20000;
    fleet.policy.early_percent = 10000;
}

TEST(a_hit_before_its_end_is_refreshed_by_one_and_nobody_waits, P70)
{
    static struct ask ask;
    open_early();
    fleet_open(2);
    load_slowly(&ask);
    source_shut(&fleet.source); /* from here on whoever waits waits for ever */
    while (atomic_load(&fleet.source.begun) < 2)
        for (size_t i = 0; i < 2; i++)
            assert_int_equal(expect_row(i, "k", "k v1").source, GUARD_FROM_CACHE);
    for (unsigned i = 0; i < 200; i++) /* their lots change nothing */
        assert_int_equal(expect_row(i % 2, "k", "k v1").source, GUARD_FROM_CACHE);
    assert_int_equal(atomic_load(&fleet.source.begun), 2);
    assert_int_equal(FLEET_SUM(refresh_early), 1);
    source_open(&fleet.source);
    WAIT_UNTIL(FLEET_SUM(fill_stored) == 2);
}

TEST_GROUP(.up = rig_start, .down = rig_stop, .before = fleet_before, .end = fleet_close);
