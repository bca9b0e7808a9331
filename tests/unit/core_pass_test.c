/* SPDX-License-Identifier: MIT */
/*
 * core_pass_test.c - loads whose value is for one request alone: which waiter gets it, what the others do, the mark,
 * and what such loads may take from other keys.
 */
#include "core_bench.h"

#define TAG_A "aaaaaaaaaaaaaaaa"

static const struct guard_keep PASS = {.how = GUARD_PASS, .pass_ms = 5000};

static void passed(struct seen *load, const char *body)
{
    loaded_kept(load, body, PASS);
}

static void reply_mark(struct seen *to)
{
    reply(to, (struct core_reply){.kind = REPLY_FRESH,
                                  .mark = true,
                                  .left_ms = 4000,
                                  .head = "11111111-1111-4111-8111-111111111111"});
}

/* A get whose lookup has found the mark. */
static void get_passing(const char *key, struct caller *caller)
{
    get_as(key, caller, (struct core_waiter){.passes = true});
}

static void get_passing_of_many(const char *key, struct caller *caller)
{
    get_as(key, caller, (struct core_waiter){.of_many = true, .passes = true});
}

/* The load that this caller has started. */
static struct seen *load_of(struct caller *caller)
{
    struct seen *load = expect(CORE_LOAD);
    assert_ptr_equal(load->action.starter, &caller->waiter);
    return load;
}

static struct caller caller, starter, other, hit, late, first, second, a, b, a_again;

/* ---- who gets it ---- */

TEST(the_starter_is_the_one_that_the_host_has_chosen, P149)
{
    bench_open();
    struct seen *acquire = lookup_of("k", &caller);
    get("k", &starter);
    reply_kind(acquire, REPLY_LEASE);
    struct seen *load = load_of(&caller);
    core_starts(bench.core, &load->action, &starter.waiter);
    passed(load, "its own");
    answered_value(&starter, "its own", GUARD_FROM_LOAD);
    still_waits(&caller);
}

TEST(only_the_starter_is_answered_and_the_others_load_at_once, P149)
{
    static struct caller callers[3];
    bench_open_with(3, 2);
    struct seen *acquire = lookup_of("k", &callers[0]);
    get("k", &callers[1]);
    reply_kind(acquire, REPLY_LEASE);
    struct seen *load = load_of(&callers[0]);
    get("k", &callers[2]);
    passed(load, "of 0");
    answered_value(&callers[0], "of 0", GUARD_FROM_LOAD);
    assert_false(callers[0].waiter.result.stored);
    still_waits(&callers[1]);
    still_waits(&callers[2]);
    struct seen *fill = expect(CORE_FILL);
    struct seen *next = load_of(&callers[1]), *last = load_of(&callers[2]);
    loaded_for(last, "of 2", &callers[2], GUARD_FROM_LOAD);
    still_waits(&callers[1]);
    passed(next, "of 1");
    answered_value(&callers[1], "of 1", GUARD_FROM_LOAD);
    reply_code(fill, 1);
    sent_nothing();
    assert_int_equal(stats_of().flights, 0);
}

TEST(a_starter_that_has_left_leaves_it_to_nobody)
{
    struct seen *load = begin_load_of_two("k", &starter, &other);
    cancel(&starter);
    passed(load, "of the starter");
    still_waits(&other);
    expect(CORE_FILL);
    loaded_for(load_of(&other), "of the other", &other, GUARD_FROM_LOAD);
}

TEST(an_absent_row_is_passed_as_well)
{
    struct seen *load = begin_load_of_two("k", &starter, &other);
    passed(load, NULL);
    answered_from(&starter, GUARD_ABSENT, GUARD_FROM_LOAD);
    struct seen *fill = expect(CORE_FILL);
    assert_true(fill->action.mark && !fill->action.absent);
    load_is_absent(load_of(&other));
    answered_from(&other, GUARD_ABSENT, GUARD_FROM_LOAD);
}

/* ---- the mark ---- */

TEST(it_is_filled_in_under_the_lease_for_pass_ms_or_the_policys_failure_ms_and_at_most_the_limit)
{
    static const struct {
        uint32_t pass_ms, is_ms, cut;
    } ROWS[] = {
        {5000, 5000, 0}, {GUARD_POLICY_MS, 1000, 0}, {10001, 10000, 1}, {GUARD_POLICY_MS - 1, 10000, 1}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        bench_again();
        bench.config.max_value_ms = 10000;
        bench_open();
        struct seen *load = begin_load("k", &caller);
        loaded_kept(load, "row", (struct guard_keep){.how = GUARD_PASS, .pass_ms = ROWS[i].pass_ms});
        struct seen *fill = expect(CORE_FILL);
        assert_true(fill->action.mark && fill->action.stale_ms == 0);
        assert_string_equal(fill->token, load->token);
        assert_int_equal(fill->action.fresh_ms, ROWS[i].is_ms);
        answered_value(&caller, "row", GUARD_FROM_LOAD);
        assert_int_equal(stats_of().keep_cut, ROWS[i].cut);
    }
}

/* Those that wait in other processes hear of it all the same. */
TEST(for_no_time_there_is_no_mark_and_the_release_says_so)
{
    struct seen *load = begin_load("k", &caller);
    loaded_kept(load, "row", (struct guard_keep){.how = GUARD_PASS, .pass_ms = 0});
    struct seen *release = expect(CORE_RELEASE);
    assert_true(release->action.shares && release->action.mark);
    assert_null(release->action.value);
    answered_value(&caller, "row", GUARD_FROM_LOAD);
}

TEST(what_comes_back_of_its_fill_answers_nobody)
{
    static const enum core_reply_kind KINDS[] = {REPLY_REFUSED, REPLY_UNKNOWN, REPLY_MOVING};
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
        bench_again();
        struct seen *load = begin_load("k", &starter);
        passed(load, "row");
        answered_value(&starter, "row", GUARD_FROM_LOAD);
        struct seen *fill = expect(CORE_FILL);
        get("k", &late);
        reply_kind(fill, KINDS[i]);
        still_waits(&late);
        loaded_for(load_of(&late), "its own", &late, GUARD_FROM_LOAD);
    }
}

/* ---- finding it ---- */

TEST(it_joins_no_load_that_runs_under_a_lease)
{
    static struct caller waiting, passing;
    struct seen *load = begin_load("k", &waiting);
    get_passing("k", &passing);
    loaded_for(load_of(&passing), "its own", &passing, GUARD_FROM_LOAD);
    finish_load_for(load, "row", &waiting, GUARD_FROM_LOAD);
    assert_int_equal(stats_of().load_duplicate, 0);
}

static void push_mark(bool shared, uint32_t fresh_ms)
{
    const struct core_reply pushed = {
        .lease_tag = TAG_A, .mark = true, .shared = shared, .left_ms = fresh_ms};
    hear_pushed("k", &pushed);
}

TEST(the_waiters_of_another_process_part_when_they_hear_of_it, P149)
{
    for (int shared = 0; shared < 2; shared++) {
        bench_again();
        get("k", &first);
        reply_leased(expect(CORE_ACQUIRE), TAG_A);
        get("k", &second);
        push_mark(shared, shared ? 1 : 5000);
        loaded(load_of(&first), "of the first");
        loaded(load_of(&second), "of the second");
        answered_value(&first, "of the first", GUARD_FROM_LOAD);
        answered_value(&second, "of the second", GUARD_FROM_LOAD);
        assert_int_equal(stats_of().push_answered, 0);
        sent_nothing();
    }
}

TEST(a_mark_that_is_over_when_its_message_comes_is_only_a_wake_up)
{
    get("k", &caller);
    reply_leased(expect(CORE_ACQUIRE), TAG_A);
    pass(5);
    push_mark(false, 5);
    expect(CORE_ACQUIRE);
}

TEST(a_peek_beside_a_refresh_that_finds_it_parts_its_waiters)
{
    bench.policy.stale_ms = 1000;
    reply_stale(lookup_of("k", &hit), REFRESH_OURS, "old");
    answered_value(&hit, "old", GUARD_FROM_STALE);
    expect(CORE_LOAD);
    get("k", &late);
    reply_mark(expect(CORE_ACQUIRE));
    loaded_for(load_of(&late), "its own", &late, GUARD_FROM_LOAD);
}

/* ---- its limits ---- */

static void fill_with_passing(struct caller *callers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        get_passing("k", &callers[i]);
}

TEST(so_do_the_waiters_that_part)
{
    static struct caller callers[20];
    bench.config.load_queue = 8;
    bench_open();
    for (size_t i = 0; i < 20; i++)
        get("k", &callers[i]);
    struct seen *load = lease(expect(CORE_ACQUIRE));
    passed(load, "of 0");
    answered_value(&callers[0], "of 0", GUARD_FROM_LOAD);
    unsigned shed = 0;
    for (size_t i = 1; i < 20; i++)
        shed += callers[i].answers == 1 && callers[i].waiter.result.status == GUARD_SHED;
    assert_int_equal(shed, 19 - 6);
}

TEST(with_no_queue_it_loads_if_a_worker_is_free)
{
    static struct caller callers[3];
    bench.config.load_queue = 0;
    bench_open();
    fill_with_passing(callers, 3);
    loaded_for(load_of(&callers[0]), "a", &callers[0], GUARD_FROM_LOAD);
    loaded_for(load_of(&callers[1]), "b", &callers[1], GUARD_FROM_LOAD);
    answered(&callers[2], GUARD_SHED);
}

TEST(a_failure_of_such_a_load_is_remembered_by_nobody)
{
    get_passing("k", &first);
    load_fails(load_of(&first), GUARD_FAILURE_UNAVAILABLE);
    answered_from(&first, GUARD_FAILED, GUARD_FROM_LOAD);
    get_passing("k", &second);
    loaded_for(load_of(&second), "row", &second, GUARD_FROM_LOAD);
    assert_int_equal(stats_of().flights, 0);
}

TEST(it_ends_at_its_deadline_and_its_load_answers_nobody)
{
    caller = (struct caller){.waiter.passes = true};
    get_as_prepared("k", &caller, bench.now_us + 100 * BENCH_MS);
    struct seen *load = load_of(&caller);
    pass(200);
    answered(&caller, GUARD_TIMEOUT);
    loaded(load, "too late");
    assert_int_equal(stats_of().flights, 0);
}

/* ---- batches ---- */

static void no_batch_loader(struct guard_load *const *loads, size_t count, void *context)
{
    (void)loads, (void)count, (void)context;
}

TEST(several_keys_that_pass_are_one_query_but_no_key_is_in_it_twice)
{
    bench.policy.batch_loader = no_batch_loader;
    get_passing_of_many("a", &a);
    get_passing_of_many("a", &a_again);
    get_passing_of_many("b", &b);
    sent_nothing();
    turn_over();
    struct seen *one = expect(CORE_LOAD), *two = expect(CORE_LOAD), *three = expect(CORE_LOAD);
    assert_ptr_equal(one->action.starter, &a.waiter);
    assert_ptr_equal(two->action.starter, &b.waiter);
    assert_ptr_equal(three->action.starter, &a_again.waiter);
    assert_true(one->action.batch != 0 && one->action.batch == two->action.batch);
    assert_true(three->action.batch != one->action.batch);
    loaded_for(three, "of the other", &a_again, GUARD_FROM_LOAD);
    loaded_for(one, "a", &a, GUARD_FROM_LOAD);
    loaded_for(two, "b", &b, GUARD_FROM_LOAD);
}

TEST_GROUP(.before = bench_up, .end = bench_close);
