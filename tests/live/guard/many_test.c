/* SPDX-License-Identifier: MIT */
/* many_test.c - many keys in one call: one query, few round trips. */
#include "guard/adapters/libuv.h"
#include "guard_rig.h"

enum { KEYS = 50, MOST_KEYS = GUARD_MANY_MAX, KEY_BYTES = 32 };

/* ---- the batch loader: the source's loads, counted by batches too ---- */

static struct {
    atomic_uint batches, spoilt;
} batch;

static void batch_reset(void)
{
    memset(&batch, 0, sizeof batch);
}

static void load_batch(struct guard_load *const *loads, size_t count, void *context)
{
    struct source *source = context;
    unsigned version = atomic_load(&source->version);
    rig_raise(&source->most, atomic_fetch_add(&source->running, 1) + 1);
    atomic_fetch_add(&source->begun, (unsigned)count);
    atomic_fetch_add(&batch.batches, 1);
    bool passed = source_pass(source, loads[0]);
    bool opened = poll(&(struct pollfd){source->gate, POLLIN, 0}, 1, 0) > 0;
    atomic_fetch_add(&batch.spoilt,
                     passed && !opened); /* told of a key that is not wanted as if it were all */
    for (size_t i = 0; i < count; i++) {
        atomic_fetch_add(&batch.spoilt, guard_load_cancel_fd(loads[i]) != guard_load_cancel_fd(loads[0]));
        if (passed)
            source_finish(source, loads[i], version);
    }
    atomic_fetch_sub(&source->running, 1);
    atomic_fetch_add(&source->over, (unsigned)count);
}

static void many_init(void)
{
    batch_reset();
    fleet_init();
    fleet.policy.batch_loader = load_batch;
}

/* ---- asking ---- */

struct keys {
    char text[MOST_KEYS][KEY_BYTES];
    const char *list[MOST_KEYS];
    size_t count;
};

/* KEY 0, 1, ... */
static void keys_of(struct keys *keys, size_t first, size_t count)
{
    keys->count = count;
    for (size_t i = 0; i < count; i++) {
        snprintf(keys->text[i], KEY_BYTES, "key:%zu", first + i);
        keys->list[i] = keys->text[i];
    }
}

struct many_ask {
    struct guard_result results[MOST_KEYS]; /* their values are ours */
    size_t count;
    atomic_uint answers;
    guard_ticket ticket;
};

static void many_answered(void *context, const struct guard_result *results)
{
    struct many_ask *ask = context;
    for (size_t i = 0; i < ask->count; i++) {
        ask->results[i] = results[i];
        if (results[i].value != NULL)
            guard_value_ref(results[i].value);
    }
    atomic_fetch_add(&fleet.answered, (unsigned)ask->count);
    atomic_fetch_add(&ask->answers, 1);
}

static void many_start(size_t i, struct many_ask *ask, const struct keys *keys)
{
    const struct guard_request request = {.kind = fleet.kinds[i],
                                          .keys = keys->list,
                                          .count = keys->count,
                                          .answered = many_answered,
                                          .context = ask};
    memset(ask, 0, sizeof *ask);
    ask->count = keys->count;
    atomic_fetch_add(&fleet.accepted[i], (unsigned)keys->count);
    assert_int_equal(guard_get(fleet.guards[i], &request, NULL, &ask->ticket), GUARD_OK);
    assert_true(ask->ticket != 0);
}

static void many_wait(struct many_ask *ask)
{
    WAIT_UNTIL(atomic_load(&ask->answers) > 0);
    assert_int_equal(atomic_load(&ask->answers), 1);
}

static void many_clear(struct many_ask *ask)
{
    for (size_t i = 0; i < ask->count; i++)
        guard_value_unref(&ask->results[i].value);
}

/* Every key has the row of its name, in the order asked. */
static void assert_rows(const struct many_ask *ask, const struct keys *keys)
{
    assert_int_equal(ask->count, keys->count);
    for (size_t i = 0; i < keys->count; i++) {
        char row[KEY_BYTES + 8];
        snprintf(row, sizeof row, "%s v1", keys->text[i]);
        assert_row(&ask->results[i], row);
    }
}

static void get_rows(size_t i, const struct keys *keys)
{
    struct many_ask ask;
    many_start(i, &ask, keys);
    many_wait(&ask);
    assert_rows(&ask, keys);
    many_clear(&ask);
}

/* The keys are asked for with so many commands. False: more were sent, which may have been canaries, with round trips
 * of their own. */
static bool get_within(const struct keys *keys, uint64_t commands, uint64_t trips)
{
    const uint64_t begun_ms = rig_now_ms();
    const struct guard_stats before = stats_of(fleet.guards[0]);
    get_rows(0, keys);
    const struct guard_stats after = stats_of(fleet.guards[0]);
    const uint64_t sent = after.redis_commands - before.redis_commands;
    assert_in_range(sent, commands, commands + canaries_since(begun_ms));
    assert_in_range(after.redis_round_trips - before.redis_round_trips, 1, trips + sent - commands);
    return sent == commands;
}

/* ---- queries and round trips ---- */

/* True: no canary came in between. */
static bool cold_and_warm(const struct keys *keys)
{
    const unsigned begun = atomic_load(&fleet.source.begun), batches = atomic_load(&batch.batches);
    const bool cold = get_within(keys, (2 + 1 + 1) * KEYS, 3); /* PTTL and GET, acquire, fill */
    assert_int_equal(atomic_load(&batch.batches) - batches, 1);
    assert_int_equal(atomic_load(&fleet.source.begun) - begun, KEYS);
    const bool warm = get_within(keys, 2 * KEYS, 1);
    assert_int_equal(atomic_load(&fleet.source.begun) - begun, KEYS);
    return cold && warm;
}

TEST(fifty_cold_keys_are_one_batch_and_three_round_trips_and_warm_ones_are_one)
{
    enum { TRIES = 20 };
    struct keys keys;
    bool exact = false;
    many_init();
    fleet_open(1);
    WAIT_UNTIL(expect_row(0, "first", "first v1").status == GUARD_OK); /* its scripts are loaded */
    for (size_t try = 0; try < TRIES && !exact; try++) {
        keys_of(&keys, try * KEYS, KEYS);
        exact = cold_and_warm(&keys);
    }
    if (!exact)
        fail_msg("%d times more commands were sent than the keys need", (int)TRIES);
    assert_int_equal(batch.spoilt, 0);
}

/* ---- outcomes by key ---- */

TEST(the_blocking_form_answers_from_near_what_is_near, P144)
{
    struct keys keys;
    struct guard_result results[4];
    many_init();
    fleet_keep_near();
    fleet_open(1);
    keys_of(&keys, 0, 4);
    const struct guard_request request = {.kind = fleet.kinds[0], .keys = keys.list, .count = 4};
    expect_row(0, "key:1", "key:1 v1");
    WAIT_UNTIL(expect_row(0, "key:1", "key:1 v1").source == GUARD_FROM_NEAR);
    for (int round = 0; round < 2; round++) {
        atomic_fetch_add(&fleet.accepted[0], 4);
        assert_int_equal(guard_get_wait(fleet.guards[0], &request, results), GUARD_OK);
        atomic_fetch_add(&fleet.answered, 4);
        for (size_t i = 0; i < 4; i++) {
            char row[KEY_BYTES + 8];
            snprintf(row, sizeof row, "%s v1", keys.text[i]);
            assert_row(&results[i], row);
            guard_value_unref(&results[i].value);
        }
        assert_int_equal(results[1].source, GUARD_FROM_NEAR);
    }
}

/* ---- on a host's loop ---- */

static void detached(void *context)
{
    *(bool *)context = true;
}

static void loop_until_answered(uv_loop_t *loop, const struct many_ask *ask)
{
    uint64_t end_ms = rig_now_ms() + RIG_LIMIT_MS;
    while (atomic_load(&ask->answers) == 0 && rig_now_ms() < end_ms)
        uv_run(loop, UV_RUN_NOWAIT);
    assert_int_equal(atomic_load(&ask->answers), 1);
}

static void loop_start(struct guard_loop *loop, struct many_ask *ask, const struct keys *keys)
{
    const struct guard_request request = {.kind = fleet.kinds[0],
                                          .keys = keys->list,
                                          .count = keys->count,
                                          .loop = loop,
                                          .answered = many_answered,
                                          .context = ask};
    memset(ask, 0, sizeof *ask);
    ask->count = keys->count;
    atomic_fetch_add(&fleet.accepted[0], (unsigned)keys->count);
    assert_int_equal(guard_get(fleet.guards[0], &request, NULL, &ask->ticket), GUARD_OK);
    assert_int_equal(atomic_load(&ask->answers), 0);
}

TEST(many_keys_on_a_loop_of_the_hosts)
{
    struct keys keys;
    struct many_ask ask;
    struct guard_loop *loop = NULL;
    uv_loop_t uv;
    bool gone = false;
    many_init();
    fleet_open(1);
    uv_loop_init(&uv);
    assert_int_equal(guard_loop_attach(fleet.guards[0], &uv, &loop, NULL), GUARD_OK);
    uint64_t connects = stats_of(fleet.guards[0]).redis_connects;
    for (int i = 0; i < 20000 && stats_of(fleet.guards[0]).redis_connects == connects; i++) {
        uv_run(&uv, UV_RUN_NOWAIT);
        test_pause();
    }
    for (int i = 0; i < 20; i++) {
        uv_run(&uv, UV_RUN_NOWAIT);
        test_pause();
    }
    keys_of(&keys, 0, KEYS);
    for (int round = 0; round < 2; round++) {
        loop_start(loop, &ask, &keys);
        loop_until_answered(&uv, &ask);
        assert_rows(&ask, &keys);
        many_clear(&ask);
        assert_int_equal(atomic_load(&batch.batches), 1);
        assert_int_equal(atomic_load(&fleet.source.begun), KEYS);
    }
    source_shut(&fleet.source);
    keys_of(&keys, 100, KEYS);
    loop_start(loop, &ask, &keys);
    guard_cancel(fleet.guards[0], loop, ask.ticket); /* all are being looked up */
    loop_until_answered(&uv, &ask);
    assert_int_equal(ask.results[KEYS - 1].status, GUARD_CANCELLED);
    many_clear(&ask);
    loop_start(loop, &ask, &keys);
    for (int i = 0; i < 100 && atomic_load(&batch.batches) < 2; i++) {
        uv_run(&uv, UV_RUN_NOWAIT);
        test_pause();
    }
    guard_loop_detach(&loop, detached, &gone);
    while (!gone)
        uv_run(&uv, UV_RUN_ONCE);
    assert_int_equal(atomic_load(&ask.answers), 1);
    assert_int_equal(ask.results[0].status, GUARD_CLOSING);
    many_clear(&ask);
    assert_int_equal(uv_loop_close(&uv), 0);
}

TEST_GROUP(.up = rig_start, .down = rig_stop, .before = fleet_before, .end = fleet_close);
