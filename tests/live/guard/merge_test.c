/* SPDX-License-Identifier: MIT */
/*
 * merge_test.c - requests for one key each whose loads have to wait: how many queries they become, and what is one
 * key's own in a query of many.
 */
#include "guard_rig.h"
#include <inttypes.h>

enum { MOST = 100, KEY_BYTES = 32, SAID_BYTES = 65536 };

/* ---- the source: the rig's, which counts and has a gate, and its batch loader ---- */

static struct {
    atomic_uint queries, most_keys;
    atomic_bool away;                     /* it cannot be reached */
    const char *poison;                   /* a query with this key is refused; NULL: none */
    _Atomic(struct guard_load *) earlier; /* of a load that is over */
    atomic_bool names_earlier;            /* finishes that, too */
} merged;

static struct {
    pthread_mutex_t mutex;
    size_t bytes;
    char text[SAID_BYTES];
} said = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void hear(void *context, const char *text, bool good)
{
    (void)context, (void)good;
    pthread_mutex_lock(&said.mutex);
    said.bytes += (size_t)snprintf(said.text + said.bytes, sizeof said.text - said.bytes, "%s\n", text);
    pthread_mutex_unlock(&said.mutex);
}

static void assert_said(const char *text)
{
    pthread_mutex_lock(&said.mutex);
    if (strstr(said.text, text) == NULL)
        fail_msg("\"%s\" was not said, but:\n%s", text, said.text);
    pthread_mutex_unlock(&said.mutex);
}

static bool is_key(const struct guard_load *load, const char *key)
{
    return key != NULL && strcmp(guard_load_key(load), key) == 0;
}

static bool has_key(struct guard_load *const *loads, size_t count, const char *key)
{
    size_t i = 0;
    while (i < count && !is_key(loads[i], key))
        i++;
    return i < count;
}

static void answer(struct source *source, struct guard_load *const *loads, size_t count)
{
    bool refused = has_key(loads, count, merged.poison), away = atomic_load(&merged.away);
    unsigned version = atomic_load(&source->version);
    if (atomic_load(&merged.names_earlier))
        guard_load_done(atomic_load(&merged.earlier), "another", 7, NULL);
    for (size_t i = 0; i < count; i++) {
        if (refused || away)
            guard_load_fail(loads[i], away ? GUARD_FAILURE_UNAVAILABLE : GUARD_FAILURE_REJECTED);
        else
            source_row(source, loads[i], version);
    }
}

static void load_all(struct guard_load *const *loads, size_t count, void *context)
{
    struct source *source = context;
    rig_raise(&source->most, atomic_fetch_add(&source->running, 1) + 1);
    atomic_fetch_add(&merged.queries, 1);
    rig_raise(&merged.most_keys, (unsigned)count);
    source_pass(source, loads[0]);
    answer(source, loads, count);
    atomic_fetch_sub(&source->running, 1);
}

static void load_one(struct guard_load *load, void *context)
{
    if (is_key(load, "before"))
        atomic_store(&merged.earlier, load);
    load_all(&load, 1, context);
}

/* ---- asking ---- */

static struct ask asks[MOST + 2];
static char keys[MOST][KEY_BYTES];

static bool merge_before(void)
{
    memset(&merged, 0, sizeof merged);
    said.bytes = 0;
    fleet_init();
    fleet.policy.loader = load_one;
    fleet.policy.batch_loader = load_all;
    fleet.config.max_loads = 1;
    fleet.config.log = hear;
    for (size_t i = 0; i < MOST; i++)
        snprintf(keys[i], KEY_BYTES, "key:%zu", i);
    return true;
}

/* Each worker has a load, which stands at the gate, and so many requests wait behind them. */
static void queue_up(size_t count)
{
    source_shut(&fleet.source);
    atomic_store(&merged.queries, 0);
    for (uint32_t i = 0; i < fleet.config.max_loads; i++) {
        char first[KEY_BYTES];
        snprintf(first, sizeof first, "first:%" PRIu32, i);
        ask_start(0, &asks[MOST + i], first);
        WAIT_UNTIL(atomic_load(&merged.queries) == i + 1);
    }
    for (size_t i = 0; i < count; i++)
        ask_start(0, &asks[i], keys[i]);
    WAIT_UNTIL(stats_of(fleet.guards[0]).loads_queued == count);
}

/* Queries of those that waited. */
static unsigned let_go(size_t count)
{
    source_open(&fleet.source);
    for (size_t i = 0; i < count; i++)
        ask_wait(&asks[i]);
    for (uint32_t i = 0; i < fleet.config.max_loads; i++) {
        ask_wait(&asks[MOST + i]);
        ask_clear(&asks[MOST + i]);
    }
    return atomic_load(&merged.queries) - fleet.config.max_loads;
}

static void expect_rows(size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        char row[2 * KEY_BYTES];
        snprintf(row, sizeof row, "%s v1", keys[i]);
        assert_row(&asks[i].result, row);
        ask_clear(&asks[i]);
    }
}

/* ---- how many ---- */

TEST(a_hundred_cold_keys_that_wait_for_a_worker_are_four_queries, P94)
{
    fleet.config.max_loads = 2;
    fleet.policy.batch_max = 30;
    fleet_open(1);
    queue_up(MOST);
    assert_int_equal(let_go(MOST), 4);
    assert_int_equal(atomic_load(&merged.most_keys), 30);
    assert_int_equal(atomic_load(&fleet.source.most), 2);
    assert_int_equal(stats_of(fleet.guards[0]).load_queries, 6);
    expect_rows(0, MOST);
}

/* ---- what fails ---- */

/* 16, 8, 4, 2, 1: beside each that fails there is one that does not. */
TEST(a_key_that_makes_its_query_fail_fails_alone, P94)
{
    merged.poison = keys[5];
    fleet_open(1);
    queue_up(16);
    assert_int_equal(let_go(16), 9);
    assert_int_equal(asks[5].result.status, GUARD_FAILED);
    assert_int_equal(asks[5].result.failure, GUARD_FAILURE_REJECTED);
    expect_rows(0, 5);
    expect_rows(6, 16);
    assert_int_equal(stats_of(fleet.guards[0]).load_failed, 1);
}

TEST(a_source_that_is_away_is_asked_once_for_all, P94)
{
    fleet_open(1);
    queue_up(16);
    atomic_store(&merged.away, true);
    assert_int_equal(let_go(16), 1);
    for (size_t i = 0; i < 16; i++)
        assert_int_equal(asks[i].result.failure, GUARD_FAILURE_UNAVAILABLE);
}

TEST(what_a_batch_loader_answers_that_it_was_not_asked_for_is_told_and_changes_nothing, P94)
{
    fleet_open(1);
    expect_row(0, "before", "before v1");
    queue_up(8);
    atomic_store(&merged.names_earlier, true);
    let_go(8);
    expect_rows(0, 8);
    assert_said("guard_load_done: the load is over");
}

/* ---- warmed up ---- */

static struct {
    struct guard_refreshed result;
    atomic_uint calls;
} warm;

static void note_warm(void *context, const struct guard_refreshed *result)
{
    (void)context;
    warm.result = *result;
    atomic_fetch_add(&warm.calls, 1);
}

static void begin_warm_up(void)
{
    static const char *names[MOST];
    for (size_t i = 0; i < MOST; i++)
        names[i] = keys[i];
    const struct guard_refresh_request request = {
        .kind = fleet.kinds[0], .keys = names, .count = MOST, .done = note_warm};
    atomic_store(&merged.queries, 0);
    atomic_store(&warm.calls, 0);
    assert_int_equal(guard_refresh(fleet.guards[0], &request), GUARD_OK);
}

/* Its gets are accepted and answered, too: each key is looked at, and what is not fresh is asked for. */
static unsigned end_warm_up(void)
{
    WAIT_UNTIL(atomic_load(&warm.calls) == 1);
    assert_int_equal(warm.result.loaded + warm.result.fresh, MOST);
    atomic_fetch_add(&fleet.accepted[0], MOST + (unsigned)warm.result.loaded);
    atomic_fetch_add(&fleet.answered, MOST + (unsigned)warm.result.loaded);
    return atomic_load(&merged.queries);
}

TEST(a_warm_up_is_full_queries_four_at_a_time_and_leaves_workers_to_users)
{
    fleet.config.max_loads = 20;
    fleet.policy.batch_max = 10;
    fleet_open(1);
    source_shut(&fleet.source);
    begin_warm_up();
    WAIT_UNTIL(atomic_load(&merged.queries) == 4);
    ask_start(0, &asks[0], "user");
    WAIT_UNTIL(atomic_load(&merged.queries) == 5);
    source_open(&fleet.source);
    ask_wait(&asks[0]);
    ask_clear(&asks[0]);
    assert_int_equal(end_warm_up(), MOST / 10 + 1);
    assert_int_equal(atomic_load(&merged.most_keys), 10);
    assert_int_equal(atomic_load(&fleet.source.most), 5);
}

TEST(a_warm_up_has_a_quarter_of_the_waiters_at_the_most)
{
    fleet.config.max_waiters = 32;
    fleet.policy.batch_max = 100;
    fleet_open(1);
    begin_warm_up();
    assert_true(end_warm_up() >= MOST / 8);
    assert_in_range(atomic_load(&merged.most_keys), 2, 8); /* what waits for the worker leaves together */
}

TEST_GROUP(.up = rig_start, .down = rig_stop, .before = merge_before, .end = fleet_close);
