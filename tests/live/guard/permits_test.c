/* SPDX-License-Identifier: MIT */
/*
 * permits_test.c - load permits: several guards, one real Redis, never more than S loads over all of them.
 *
 * The source counts the loaders that are at work at a time, over the whole fleet.
 */
#include "guard_rig.h"

enum { S = 3, KEYS = 120 };

static void init_with_permits(void)
{
    fleet_init();
    fleet.config.load_permits = S;
    fleet.config.max_loads = 2 * S;
    fleet.config.permit_ms = 15000;
}

static long long permits_out(void)
{
    return redis_number("ZCARD", "sem:load", 'p');
}

/* For NAME:0, NAME:1, ..., dealt in turn to the first so many processes. */
static void ask_many(size_t processes, struct ask *asks, size_t count, const char *name)
{
    char key[32];
    for (size_t i = 0; i < count; i++) {
        snprintf(key, sizeof key, "%s:%zu", name, i);
        ask_start(i % processes, &asks[i], key);
    }
}

static void expect_rows(struct ask *asks, size_t count)
{
    char row[32];
    for (size_t i = 0; i < count; i++) {
        snprintf(row, sizeof row, "key:%zu v1", i);
        expect_answer(&asks[i], row);
    }
}

TEST(never_more_loads_at_a_time_than_permits, P48)
{
    static struct ask asks[KEYS];
    init_with_permits();
    fleet_open(2);
    source_shut(&fleet.source);
    ask_many(2, asks, KEYS, "key");
    WAIT_UNTIL(FLEET_SUM(lease_acquired) == KEYS);
    WAIT_UNTIL(atomic_load(&fleet.source.running) == S);
    assert_int_equal(permits_out(), S);
    assert_int_equal(FLEET_SUM(permits_held), S);
    assert_int_equal(FLEET_SUM(loads_queued), KEYS - S);
    WAIT_UNTIL(FLEET_SUM(permits_waiting) > 0);
    source_open(&fleet.source);
    expect_rows(asks, KEYS);
    assert_int_equal(fleet.source.begun, KEYS);
    assert_int_equal(fleet.source.most, S);
    assert_in_range(FLEET_SUM(permit_granted), KEYS / 8, KEYS - 1); /* one passes through up to 8 loads */
    assert_int_equal(FLEET_SUM(permit_lost) + FLEET_SUM(permit_spared), 0);
    WAIT_UNTIL(permits_out() == 0);
}

/* After some polls the next one is a quarter of a second away at least: what comes sooner was told. */
static bool is_told_in_time(unsigned round)
{
    enum { POLLS = 6, SOON_MS = 200 };
    struct ask running, waiting;
    char key[32];
    source_shut(&fleet.source);
    snprintf(key, sizeof key, "running:%u", round);
    ask_start(0, &running, key);
    WAIT_UNTIL(atomic_load(&fleet.source.running) == 1);
    uint64_t refused = stats_of(fleet.guards[1]).permit_refused;
    snprintf(key, sizeof key, "waiting:%u", round);
    ask_start(1, &waiting, key);
    WAIT_UNTIL(stats_of(fleet.guards[1]).permit_refused >= refused + POLLS);
    unsigned begun_so_far = atomic_load(&fleet.source.begun);
    uint64_t since_ms = rig_now_ms();
    source_open(&fleet.source);
    WAIT_UNTIL(atomic_load(&fleet.source.begun) > begun_so_far);
    bool in_time = rig_now_ms() - since_ms < SOON_MS;
    ask_wait(&waiting);
    ask_wait(&running);
    ask_clear(&waiting);
    ask_clear(&running);
    return in_time;
}

TEST(who_waits_is_told_and_does_not_have_to_poll)
{
    enum { ROUNDS = 20 }; /* one of them not held up by what else the machine does */
    unsigned round = 0;
    init_with_permits();
    fleet.config.load_permits = 1;
    fleet_open(2);
    while (round < ROUNDS && !is_told_in_time(round))
        round++;
    assert_true(round < ROUNDS);
}

/* The keys in the order in which their loads began. */
static struct {
    struct source *source;
    atomic_uint count, written;
    char keys[8][16];
} begun;

static void load_in_order(struct guard_load *load, void *context)
{
    (void)context;
    unsigned number = atomic_fetch_add(&begun.count, 1);
    assert_true(number < 8);
    snprintf(begun.keys[number], sizeof begun.keys[number], "%s", guard_load_key(load));
    atomic_fetch_add(&begun.written, 1);
    source_load(load, begun.source);
}

TEST(a_waiting_user_comes_before_a_refresh_of_another_process, P48)
{
    static struct ask running, user;
    init_with_permits();
    fleet.config.load_permits = 1;
    fleet.policy.fresh_ms = 1;
    fleet.policy.stale_ms = 60000;
    fleet.policy.loader = load_in_order;
    begun.source = &fleet.source;
    fleet_open(2);
    expect_row(0, "refreshed", "refreshed v1");
    WAIT_UNTIL(permits_out() == 0);
    source_shut(&fleet.source);
    ask_start(0, &running, "running");
    WAIT_UNTIL(atomic_load(&fleet.source.running) == 1);
    test_pause(); /* a millisecond, in which it gets stale */
    WAIT_UNTIL(expect_row(0, "refreshed", "refreshed v1").source == GUARD_FROM_STALE);
    WAIT_UNTIL(stats_of(fleet.guards[0]).permit_refused > 0);
    ask_start(1, &user, "user");
    WAIT_UNTIL(stats_of(fleet.guards[1]).permit_refused > 0);
    assert_int_equal(stats_of(fleet.guards[0]).loads_queued, 1);
    source_open(&fleet.source);
    ask_wait(&user);
    ask_wait(&running);
    WAIT_UNTIL(atomic_load(&begun.written) == 4);
    assert_string_equal(begun.keys[1], "running");
    assert_string_equal(begun.keys[2], "user"); /* who came later */
    assert_string_equal(begun.keys[3], "refreshed");
    assert_int_equal(fleet.source.most, 1);
    ask_clear(&user);
    ask_clear(&running);
}

TEST_GROUP(.up = rig_start, .down = rig_stop, .before = fleet_before, .end = fleet_close);
