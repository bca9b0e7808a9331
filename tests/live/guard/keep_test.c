/* SPDX-License-Identifier: MIT */
/*
 * keep_test.c - what loaders say of their answers, on a real Redis: a life of its own, answers that are shared by all
 * that wait and stored nowhere, and answers that are for one request alone.
 */
#include "guard_rig.h"

enum { HOLDER, WAITER, CROWD = 20, TRIES = 20 };

static const struct guard_keep SHARED = {.how = GUARD_SHARE};
static const struct guard_keep PASSED = {.how = GUARD_PASS, .pass_ms = 60000};

static struct ask asks[CROWD];

static void say(const struct guard_keep *keep)
{
    atomic_store(&fleet.source.keep, keep);
}

static unsigned loads_begun(void)
{
    return atomic_load(&fleet.source.begun);
}

/* ---- a life of its own ---- */

TEST(a_wrong_keep_fails_the_load)
{
    static const struct guard_keep wrong = {.how = (enum guard_how)(GUARD_HERE + 1)};
    fleet_open(1);
    say(&wrong);
    struct guard_result result = get_of(0, "k");
    assert_int_equal(result.status, GUARD_FAILED);
    assert_int_equal(result.failure, GUARD_FAILURE_INTERNAL);
    assert_false(is_cached("k"));
}

/* ---- shared ---- */

/* One loads, its gate shut; each of the others has found that out. */
static void begin_crowd(const char *key, size_t count)
{
    unsigned begun = loads_begun();
    uint64_t busy[CROWD];
    source_shut(&fleet.source);
    ask_start(HOLDER, &asks[HOLDER], key);
    WAIT_UNTIL(loads_begun() == begun + 1);
    for (size_t i = 1; i < count; i++) {
        busy[i] = stats_of(fleet.guards[i]).lease_busy;
        ask_start(i, &asks[i], key);
    }
    for (size_t i = 1; i < count; i++)
        WAIT_UNTIL(stats_of(fleet.guards[i]).lease_busy > busy[i]);
}

/* Each has the source's row, or there is none. How many loaded by themselves, because their poll was before the
 * message. */
static size_t end_crowd(size_t count, enum guard_status wanted)
{
    size_t own_loads = 0;
    source_open(&fleet.source);
    for (size_t i = 0; i < count; i++) {
        ask_wait(&asks[i]);
        assert_int_equal(asks[i].result.status, wanted);
        if (wanted == GUARD_OK)
            assert_row(&asks[i].result, fleet.source.body);
        assert_false(asks[i].result.stored);
        own_loads += i != HOLDER && asks[i].result.source == GUARD_FROM_LOAD;
        ask_clear(&asks[i]);
    }
    return own_loads;
}

/* On keys k0, k1, ... until no poll came in between. */
static void expect_one_shared_load(size_t count, enum guard_status wanted)
{
    char key[8];
    for (int try = 0; try < TRIES; try++) {
        unsigned begun = loads_begun();
        uint64_t pushed = FLEET_SUM(push_answered);
        snprintf(key, sizeof key, "k%d", try);
        begin_crowd(key, count);
        size_t own_loads = end_crowd(count, wanted);
        assert_false(is_cached(key));
        if (own_loads > 0)
            continue;
        assert_int_equal(loads_begun(), begun + 1);
        assert_int_equal(FLEET_SUM(push_answered), pushed + count - 1);
        return;
    }
    fail_msg("%d times a poll came in between", (int)TRIES);
}

/* Also those that want no pushes. */
TEST(one_load_that_is_shared_answers_twenty_processes, P150)
{
    for (size_t i = 0; i < CROWD; i++) {
        fleet.config.push_bytes = i % 2 == 0 ? 16384 : 0;
        fleet_add();
    }
    fleet_open(CROWD);
    fleet.source.body = "row";
    fleet.source.body_bytes = strlen(fleet.source.body);
    say(&SHARED);
    expect_one_shared_load(CROWD, GUARD_OK);
}

/* ---- passed ---- */

static char clients[CROWD][16]; /* their names, which are their rows */

static void ask_for_client(size_t guard, size_t client, const char *key)
{
    snprintf(clients[client], sizeof clients[client], "client %zu", client);
    assert_int_equal(
        ask_as(guard, &asks[client], (struct guard_request){.key = key, .asker = clients[client]}), GUARD_OK);
}

static void expect_own_row(size_t client)
{
    ask_wait(&asks[client]);
    assert_int_equal(asks[client].result.source, GUARD_FROM_LOAD);
    assert_false(asks[client].result.stored);
    expect_answer(&asks[client], clients[client]);
}

static void pass_rows(void)
{
    atomic_store(&fleet.source.of_asker, true);
    say(&PASSED);
}

/* In two processes, one of which waits for the other's lease. */
TEST(each_client_gets_its_own_row_and_none_waits_for_another_one, P149)
{
    fleet.config.max_loads = CROWD;
    fleet_open(2);
    pass_rows();
    source_shut(&fleet.source);
    ask_for_client(HOLDER, 0, "k");
    WAIT_UNTIL(loads_begun() == 1);
    for (size_t i = 1; i < CROWD; i++)
        ask_for_client(i % 2, i, "k");
    WAIT_UNTIL(FLEET_SUM(waiters) == CROWD && stats_of(fleet.guards[WAITER]).lease_busy > 0);
    source_open(&fleet.source);
    expect_own_row(0);
    for (size_t i = 1; i < CROWD; i++)
        expect_own_row(i);
    assert_int_equal(loads_begun(), CROWD);
}

/* The gate is shut when they find it: all of them load, side by side. */
TEST(while_the_mark_stands_all_load_at_once, P149)
{
    fleet.config.max_loads = CROWD;
    fleet_keep_near();
    fleet_open(2);
    pass_rows();
    ask_for_client(HOLDER, 0, "k");
    expect_own_row(0);
    WAIT_UNTIL(is_cached("k"));
    const uint64_t leases = FLEET_SUM(lease_acquired) + FLEET_SUM(lease_busy);
    source_shut(&fleet.source);
    for (size_t i = 1; i < CROWD; i++)
        ask_for_client(i % 2, i, "k");
    WAIT_UNTIL(atomic_load(&fleet.source.running) == CROWD - 1);
    source_open(&fleet.source);
    for (size_t i = 1; i < CROWD; i++)
        expect_own_row(i);
    assert_int_equal(FLEET_SUM(lease_acquired) + FLEET_SUM(lease_busy), leases);
    assert_int_equal(FLEET_SUM(near_entries), 0);
}

TEST(in_every_mode_and_without_redis_each_client_gets_its_own_row, P149)
{
    static const enum guard_mode MODES[] = {GUARD_MODE_LOCAL, GUARD_MODE_OFF, GUARD_MODE_SHADOW,
                                            GUARD_MODE_FLEET};
    for (size_t m = 0; m < sizeof MODES / sizeof *MODES; m++) {
        fleet_init();
        fleet.config.mode = MODES[m];
        fleet.config.max_loads = CROWD;
        if (MODES[m] == GUARD_MODE_FLEET) {
            fleet.config.redis_url = "redis://127.0.0.1:1/0";
            fleet_add();
        } else {
            fleet_open(1);
        }
        pass_rows();
        for (size_t i = 0; i < CROWD; i++)
            ask_for_client(0, i, "k");
        for (size_t i = 0; i < CROWD; i++)
            expect_own_row(i);
        assert_int_equal(loads_begun(), CROWD);
        fleet_close();
    }
}

TEST(an_asker_is_held_for_as_long_as_its_load_needs_it, P145)
{
    static char client[] = "client";
    fleet.config.max_waiters = 1;
    fleet_open(1);
    pass_rows();
    source_shut(&fleet.source);
    const struct guard_request request = {
        .key = "k", .asker = client, .asker_ref = ref_asker, .asker_unref = unref_asker};
    assert_int_equal(ask_as(0, &asks[0], request), GUARD_OK);
    WAIT_UNTIL(loads_begun() == 1);
    const int held = atomic_load(&asker_refs);
    assert_int_equal(ask_as(0, &asks[1], request), GUARD_SHED);
    assert_int_equal(atomic_load(&asker_refs), held);
    guard_cancel(fleet.guards[0], NULL, asks[0].ticket);
    ask_wait(&asks[0]);
    assert_int_equal(asks[0].result.status, GUARD_CANCELLED);
    assert_in_range(atomic_load(&asker_refs), 1, 2);
    source_open(&fleet.source);
    WAIT_UNTIL(atomic_load(&asker_refs) == 0);
}

/* Its answer is a stale row, and its client's name is the new one. A key of its own: a loop does not ask for
 * a refresh of the same key again at once. */
static void refresh_for(struct guard_request request, const char *stale, const char *fresh)
{
    const uint64_t stored = stats_of(fleet.guards[0]).fill_stored;
    atomic_store(&fleet.source.of_asker, false);
    expect_row(0, request.key, stale);
    WAIT_UNTIL(is_cached(request.key));
    atomic_store(&fleet.source.of_asker, true);
    age_value(request.key, 30000);
    assert_int_equal(ask_as(0, &asks[0], request), GUARD_OK);
    expect_answer(&asks[0], stale);
    WAIT_UNTIL(stats_of(fleet.guards[0]).fill_stored == stored + 2);
    expect_row(0, request.key, fresh);
}

TEST(the_asker_of_a_stale_answer_reaches_the_refresh_behind_it_if_it_is_counted, P145)
{
    static char client[] = "client";
    fleet.policy.stale_ms = 60000;
    fleet_open(1);
    refresh_for(
        (struct guard_request){
            .key = "k", .asker = client, .asker_ref = ref_asker, .asker_unref = unref_asker},
        "k v1", "client");
    refresh_for((struct guard_request){.key = "other", .asker = client}, "other v1", "");
    WAIT_UNTIL(atomic_load(&asker_refs) == 0);
}

TEST_GROUP(.up = rig_start, .down = rig_stop, .before = fleet_before, .end = fleet_close);
