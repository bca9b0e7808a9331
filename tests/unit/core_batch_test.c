/* SPDX-License-Identifier: MIT */
/* core_batch_test.c - keys that were asked for together: when their loads begin, and as which queries. */
#include "core_bench.h"

enum { KEYS = 4 };

static const char *const keys[KEYS] = {"k0", "k1", "k2", "k3"};

static void load_batch(struct guard_load *const *loads, size_t count, void *context)
{
    (void)loads, (void)count, (void)context;
}

static int set_up(void **state)
{
    bench_up(state);
    struct bench *bench = *state;
    bench->policy.batch_loader = load_batch;
    bench->config.load_workers = 1;
    bench->config.load_queue = 10;
    bench_open(bench);
    return 0;
}

/* All in one turn; their acquires. */
static void get_all(struct bench *bench, struct caller callers[KEYS], struct seen *acquires[KEYS])
{
    for (int i = 0; i < KEYS; i++)
        get_together(bench, keys[i], &callers[i]);
    for (int i = 0; i < KEYS; i++)
        acquires[i] = expect(bench, CORE_ACQUIRE);
    turn_over(bench);
}

static void what_was_asked_in_one_turn_is_one_query(void **state)
{
    struct bench *bench = *state;
    struct caller callers[KEYS];
    struct seen *acquires[KEYS], *loads[KEYS];
    get_all(bench, callers, acquires);
    for (int i = 0; i < KEYS; i++) {
        reply_kind(bench, acquires[i], REPLY_LEASE);
        sent_nothing(bench); /* the turn is not over */
        if (i < KEYS - 1)
            turn_over(bench);
        sent_nothing(bench); /* an answer is outstanding */
    }
    turn_over(bench);
    for (int i = 0; i < KEYS; i++) {
        loads[i] = expect(bench, CORE_LOAD);
        assert_string_equal(loads[i]->key, keys[i]);
        assert_int_equal(loads[i]->action.batch, loads[0]->action.batch);
    }
    assert_true(loads[0]->action.batch != 0);
    for (int i = 0; i < KEYS; i++) {
        finish_load(bench, loads[i], "v");
        answered_value(&callers[i], "v", GUARD_FROM_LOAD);
    }
    bench_close(bench);
}

static void who_must_wait_for_another_process_holds_nobody_up(void **state)
{
    struct bench *bench = *state;
    struct caller callers[KEYS];
    struct seen *acquires[KEYS];
    get_all(bench, callers, acquires);
    reply_kind(bench, acquires[0], REPLY_LEASE);
    reply_busy(bench, acquires[1], 3000);
    reply_fresh(bench, acquires[2], "v");
    answered_value(&callers[2], "v", GUARD_FROM_CACHE);
    reply_kind(bench, acquires[3], REPLY_LEASE);
    turn_over(bench);
    struct seen *first = expect(bench, CORE_LOAD), *second = expect(bench, CORE_LOAD);
    assert_string_equal(first->key, "k0");
    assert_string_equal(second->key, "k3");
    assert_int_equal(first->action.batch, second->action.batch);
    sent_nothing(bench);
    still_waits(&callers[1]);
    bench_close(bench);
}

static void an_answer_that_never_comes_ends_the_wait_with_its_limit(void **state)
{
    struct bench *bench = *state;
    struct caller callers[KEYS];
    struct seen *acquires[KEYS];
    get_all(bench, callers, acquires);
    for (int i = 0; i < KEYS - 1; i++)
        reply_kind(bench, acquires[i], REPLY_LEASE);
    turn_over(bench);
    sent_nothing(bench);
    reply_kind(bench, acquires[KEYS - 1], REPLY_UNKNOWN);
    turn_over(bench);
    unsigned loads = 0;
    for (const struct seen *seen = next_seen(bench); seen != NULL; seen = next_seen(bench))
        loads += seen->action.kind == CORE_LOAD;
    assert_true(loads >= KEYS - 1);
    bench_close(bench);
}

static void what_is_asked_in_a_later_turn_is_not_waited_for(void **state)
{
    struct bench *bench = *state;
    struct caller first, second;
    get_together(bench, "k0", &first);
    struct seen *acquire = expect(bench, CORE_ACQUIRE);
    turn_over(bench);
    get_together(bench, "k1", &second);
    expect(bench, CORE_ACQUIRE);
    turn_over(bench);
    reply_kind(bench, acquire, REPLY_LEASE);
    turn_over(bench);
    assert_string_equal(expect(bench, CORE_LOAD)->key, "k0");
    sent_nothing(bench);
    bench_close(bench);
}

static void a_batch_is_one_query_until_its_last_load_is_over(void **state)
{
    struct bench *bench = *state; /* one worker */
    struct caller callers[KEYS], other;
    struct seen *acquires[KEYS], *loads[KEYS];
    get_all(bench, callers, acquires);
    for (int i = 0; i < KEYS; i++)
        reply_kind(bench, acquires[i], REPLY_LEASE);
    turn_over(bench);
    for (int i = 0; i < KEYS; i++)
        loads[i] = expect(bench, CORE_LOAD);
    get(bench, "other", &other);
    reply_kind(bench, expect(bench, CORE_ACQUIRE), REPLY_LEASE);
    for (int i = 0; i < KEYS - 1; i++) {
        finish_load(bench, loads[i], "v");
        answered_value(&callers[i], "v", GUARD_FROM_LOAD);
        sent_nothing(bench);
    }
    loaded(bench, loads[KEYS - 1], "v");
    reply_code(bench, expect(bench, CORE_FILL), 1);
    answered_value(&callers[KEYS - 1], "v", GUARD_FROM_LOAD);
    struct seen *load = expect(bench, CORE_LOAD);
    assert_string_equal(load->key, "other");
    assert_int_equal(load->action.batch, 0);
    finish_load(bench, load, "v");
    answered_value(&other, "v", GUARD_FROM_LOAD);
    bench_close(bench);
}

static void what_waits_for_a_worker_is_loaded_in_batches_of_the_size_allowed(void **state)
{
    struct bench *bench = *state;
    struct caller callers[KEYS];
    struct seen *acquires[KEYS];
    bench->policy.batch_max = 3;
    get_all(bench, callers, acquires);
    for (int i = 0; i < KEYS; i++)
        reply_kind(bench, acquires[i], REPLY_LEASE);
    turn_over(bench);
    struct seen *loads[3];
    for (int i = 0; i < 3; i++)
        loads[i] = expect(bench, CORE_LOAD);
    sent_nothing(bench); /* one worker */
    for (int i = 0; i < 3; i++) {
        finish_load(bench, loads[i], "v");
        answered_value(&callers[i], "v", GUARD_FROM_LOAD);
    }
    turn_over(bench);
    struct seen *last = expect(bench, CORE_LOAD);
    assert_string_equal(last->key, "k3");
    assert_true(last->action.batch != loads[0]->action.batch);
    finish_load(bench, last, "v");
    answered_value(&callers[3], "v", GUARD_FROM_LOAD);
    bench_close(bench);
}

static void a_key_asked_for_alone_waits_for_no_turn(void **state)
{
    struct bench *bench = *state;
    struct caller together, alone;
    get_together(bench, "k0", &together);
    struct seen *acquire = expect(bench, CORE_ACQUIRE);
    turn_over(bench);
    reply_kind(bench, acquire, REPLY_LEASE);
    get(bench, "alone", &alone);
    struct seen *load = lease(bench, expect(bench, CORE_ACQUIRE)); /* overtakes */
    assert_string_equal(load->key, "alone");
    assert_int_equal(load->action.batch, 0);
    finish_load(bench, load, "v");
    answered_value(&alone, "v", GUARD_FROM_LOAD);
    turn_over(bench);
    assert_string_equal(expect(bench, CORE_LOAD)->key, "k0");
    bench_close(bench);
}

static void closing_ends_what_gathers(void **state)
{
    struct bench *bench = *state;
    struct caller callers[KEYS];
    struct seen *acquires[KEYS];
    get_all(bench, callers, acquires);
    for (int i = 0; i < KEYS - 1; i++)
        reply_kind(bench, acquires[i], REPLY_LEASE);
    bench_close(bench);
    for (int i = 0; i < KEYS; i++)
        answered(&callers[i], GUARD_CLOSING);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(what_was_asked_in_one_turn_is_one_query),
        TEST(who_must_wait_for_another_process_holds_nobody_up),
        TEST(an_answer_that_never_comes_ends_the_wait_with_its_limit),
        TEST(what_is_asked_in_a_later_turn_is_not_waited_for),
        TEST(a_batch_is_one_query_until_its_last_load_is_over),
        TEST(what_waits_for_a_worker_is_loaded_in_batches_of_the_size_allowed),
        TEST(a_key_asked_for_alone_waits_for_no_turn),
        TEST(closing_ends_what_gathers),
    };
    return cmocka_run_group_tests_name("core: batches", tests, NULL, NULL);
}
