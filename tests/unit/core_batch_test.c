/* SPDX-License-Identifier: MIT */
/* core_batch_test.c - keys of a request for many: when their loads begin, as which queries, and what is theirs
 * beside single gets. */
#include "core_bench.h"

enum { KEYS = 4 };

static const char *const keys[KEYS] = {"k0", "k1", "k2", "k3"};

static void load_batch(struct guard_load *const *loads, size_t count, void *context)
{
    (void)loads, (void)count, (void)context;
}

static bool set_up(void)
{
    bench_up();
    bench.policy.batch_loader = load_batch;
    bench.config.max_loads = 1;
    bench.config.load_queue = 10;
    bench_open();
    return true;
}

/* All in one turn; their acquires. */
static void get_all(struct caller callers[KEYS], struct seen *acquires[KEYS])
{
    for (int i = 0; i < KEYS; i++)
        get_of_many(keys[i], &callers[i]);
    for (int i = 0; i < KEYS; i++)
        acquires[i] = expect(CORE_ACQUIRE);
    turn_over();
}

TEST(what_was_asked_in_one_turn_is_one_query)
{
    static struct caller callers[KEYS];
    struct seen *acquires[KEYS], *loads[KEYS];
    get_all(callers, acquires);
    for (int i = 0; i < KEYS; i++) {
        reply_kind(acquires[i], REPLY_LEASE);
        sent_nothing(); /* the turn is not over */
        if (i < KEYS - 1)
            turn_over();
        sent_nothing(); /* an answer is outstanding */
    }
    turn_over();
    for (int i = 0; i < KEYS; i++) {
        loads[i] = expect(CORE_LOAD);
        assert_string_equal(loads[i]->key, keys[i]);
        assert_int_equal(loads[i]->action.batch, loads[0]->action.batch);
    }
    assert_true(loads[0]->action.batch != 0);
    for (int i = 0; i < KEYS; i++) {
        finish_load_for(loads[i], "v", &callers[i], GUARD_FROM_LOAD);
    }
}

TEST(an_answer_that_never_comes_ends_the_wait_with_its_limit)
{
    static struct caller callers[KEYS];
    struct seen *acquires[KEYS];
    get_all(callers, acquires);
    for (int i = 0; i < KEYS - 1; i++)
        reply_kind(acquires[i], REPLY_LEASE);
    turn_over();
    sent_nothing();
    reply_kind(acquires[KEYS - 1], REPLY_UNKNOWN);
    turn_over();
    unsigned loads = 0;
    for (const struct seen *seen = next_seen(); seen != NULL; seen = next_seen())
        loads += seen->action.kind == CORE_LOAD;
    assert_true(loads >= KEYS - 1);
}

TEST(a_key_asked_for_alone_waits_for_no_turn)
{
    bench.config.max_loads = 2;
    bench_open();
    static struct caller many, single;
    get_of_many("k0", &many);
    struct seen *acquire = expect(CORE_ACQUIRE);
    turn_over();
    reply_kind(acquire, REPLY_LEASE);
    struct seen *load = begin_load("alone", &single); /* overtakes */
    assert_string_equal(load->key, "alone");
    assert_int_equal(load->action.batch, 0);
    finish_load_for(load, "v", &single, GUARD_FROM_LOAD);
    turn_over();
    assert_string_equal(expect(CORE_LOAD)->key, "k0");
}

TEST(closing_ends_what_gathers)
{
    static struct caller callers[KEYS];
    struct seen *acquires[KEYS];
    get_all(callers, acquires);
    for (int i = 0; i < KEYS - 1; i++)
        reply_kind(acquires[i], REPLY_LEASE);
    bench_close();
    for (int i = 0; i < KEYS; i++)
        answered(&callers[i], GUARD_CLOSING);
}

/* ---- shares ---- */

/* So many workers and further places; of the keys of a request for many so many are one query. */
static void open_shares(uint32_t workers, uint32_t queue, uint32_t batch_max)
{
    bench.config.max_loads = workers;
    bench.config.load_queue = queue;
    bench.policy.batch_max = batch_max;
    bench_open();
}

/* Its lease is granted; it starts if a worker is free. */
static void line_up_alone(const char *key, struct caller *caller)
{
    get(key, caller);
    reply_kind(expect(CORE_ACQUIRE), REPLY_LEASE);
}

static void line_up_together(const char *key, struct caller *caller)
{
    get_of_many(key, caller);
    struct seen *acquire = expect(CORE_ACQUIRE);
    assert_int_equal(acquire->action.lookup, LOOKUP_NO_STALE); /* it has a place */
    turn_over();
    reply_kind(acquire, REPLY_LEASE);
    turn_over();
}

static void is_shed(const struct caller *caller)
{
    struct seen *acquire = expect(CORE_ACQUIRE);
    assert_int_equal(acquire->action.lookup, LOOKUP_PEEK);
    reply_kind(acquire, REPLY_FREE);
    answered(caller, GUARD_SHED);
}

static struct seen *expect_load(const char *key)
{
    struct seen *load = expect(CORE_LOAD);
    assert_string_equal(load->key, key);
    return load;
}

/* The values that they have got. */
static const char *const singles[KEYS] = {"s0", "s1", "s2", "s3"};

/* Nor do they wait for the end of a turn, at which no worker would ever be free. */
TEST(with_one_worker_batches_and_single_loads_take_turns, P95)
{
    open_shares(1, 10, 1);
    static const char *const order[] = {"k0", "s0", "k1", "s1", "k2", "s2", "k3", "s3"};
    static struct caller first, callers[2 * KEYS];
    struct seen *load = begin_load("first", &first);
    for (size_t i = 0; i < KEYS; i++)
        line_up_together(keys[i], &callers[i]);
    for (size_t i = 0; i < KEYS; i++)
        line_up_alone(singles[i], &callers[KEYS + i]);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        finish_load(load, "v");
        load = expect_load(order[i]);
    }
}

/* What began before the others came runs on; then each has half, however long its loads take. */
TEST(each_share_gets_half_of_the_workers_as_they_become_free, P95)
{
    open_shares(4, 10, 1);
    static const char *const more[] = {"m0", "m1", "m2", "m3"};
    static struct caller callers[3 * KEYS];
    struct seen *batches[KEYS], *single[KEYS];
    for (size_t i = 0; i < KEYS; i++) {
        line_up_together(keys[i], &callers[i]);
        batches[i] = expect_load(keys[i]); /* no other one waits */
    }
    for (size_t i = 0; i < KEYS; i++)
        line_up_together(more[i], &callers[KEYS + i]);
    for (size_t i = 0; i < KEYS; i++)
        line_up_alone(singles[i], &callers[2 * KEYS + i]);
    sent_nothing();
    for (size_t i = 0; i < 2; i++) {
        finish_load(batches[i], "v");
        single[i] = expect_load(singles[i]);
    }
    finish_load(single[0], "v"); /* two batches and one of these run */
    single[2] = expect_load(singles[2]);
    finish_load(batches[2], "v");
    expect_load(more[0]);
    finish_load(single[1], "v");
    expect_load(singles[3]);
    finish_load(single[2], "v"); /* none of them waits any more */
    expect_load(more[1]);
}

TEST(what_batches_hold_refuses_no_single_get, P94)
{
    open_shares(1, 1, 1);
    static struct caller callers[3], single[3];
    line_up_together(keys[0], &callers[0]);
    expect_load(keys[0]);
    line_up_together(keys[1], &callers[1]);
    get_of_many(keys[2], &callers[2]);
    is_shed(&callers[2]);
    for (size_t i = 0; i < 2; i++)
        line_up_alone(singles[i], &single[i]);
    get(singles[2], &single[2]);
    is_shed(&single[2]);
}

TEST(keys_that_are_one_query_take_one_place, P94)
{
    open_shares(1, 1, KEYS);
    static struct caller first, callers[KEYS], further[KEYS + 1];
    static const char *const more[] = {"m0", "m1", "m2", "m3"};
    struct seen *acquires[KEYS];
    get_all(callers, acquires);
    for (int i = 0; i < KEYS; i++)
        reply_kind(acquires[i], REPLY_LEASE);
    turn_over();
    for (int i = 0; i < KEYS; i++)
        expect_load(keys[i]);
    for (int i = 0; i < KEYS; i++)
        line_up_together(more[i], &further[i]);
    get_of_many("one more", &further[KEYS]);
    is_shed(&further[KEYS]);
    line_up_alone("alone", &first);
    still_waits(&first);
}

TEST(a_queued_key_that_is_asked_for_alone_too_leaves_its_batch, P94)
{
    bench.policy.apart = true;
    open_shares(1, 1, KEYS);
    static struct caller first, callers[KEYS], single, last;
    struct seen *acquires[KEYS], *load = begin_load("first", &first);
    get_all(callers, acquires);
    for (int i = 0; i < KEYS; i++)
        reply_kind(acquires[i], REPLY_LEASE);
    turn_over();
    get(keys[1], &single); /* takes the other place of those */
    sent_nothing();
    get(keys[2], &last); /* there is none left: this one waits with the batch */
    sent_nothing();
    finish_load(load, "v");
    struct seen *loads[] = {expect_load(keys[0]), expect_load(keys[2]), expect_load(keys[3])};
    for (size_t i = 0; i < 3; i++)
        finish_load(loads[i], "v");
    load = expect_load(keys[1]);
    assert_int_equal(load->action.batch, 0);
    finish_load_for(load, "v", &single, GUARD_FROM_FLIGHT);
    answered_value(&callers[1], "v", GUARD_FROM_LOAD);
    answered_value(&last, "v", GUARD_FROM_FLIGHT);
}

TEST(each_has_as_many_waiters_as_are_allowed, P94)
{
    static struct caller callers[3], single[3];
    bench.config.max_waiters = 2;
    bench_open();
    for (int i = 0; i < 3; i++)
        get_of_many(keys[i], &callers[i]);
    for (int i = 0; i < 3; i++)
        get(singles[i], &single[i]);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(callers[i].accepted, i < 2 ? GUARD_OK : GUARD_SHED);
        assert_int_equal(single[i].accepted, i < 2 ? GUARD_OK : GUARD_SHED);
    }
    cancel(&callers[0]);
    get_of_many(keys[3], &callers[2]);
    assert_int_equal(callers[2].accepted, GUARD_OK);
}

/* ---- what has to wait leaves together ---- */

/* Singles, queued behind a load that has the only worker. */
static struct seen *queue_singles(struct caller *first, struct caller callers[KEYS])
{
    struct seen *load = begin_load("first", first);
    for (size_t i = 0; i < KEYS; i++)
        line_up_alone(singles[i], &callers[i]);
    sent_nothing();
    return load;
}

/* The next loads are these, in this order, as one query; nothing else begins. */
static void expect_query(struct seen *loads[], const char *const names[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        loads[i] = expect_load(names[i]);
        assert_int_equal(loads[i]->action.batch, loads[0]->action.batch);
    }
    assert_true(count == 1 || loads[0]->action.batch != 0);
    sent_nothing();
}

static void finish_all(struct seen *loads[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        finish_load(loads[i], "v");
}

TEST(single_gets_that_wait_for_a_worker_are_one_query, P94)
{
    static struct caller first, callers[KEYS];
    struct seen *load = queue_singles(&first, callers), *loads[KEYS];
    finish_load(load, "v");
    expect_query(loads, singles, KEYS);
    finish_all(loads, KEYS);
    for (size_t i = 0; i < KEYS; i++)
        answered_value(&callers[i], "v", GUARD_FROM_LOAD);
    assert_int_equal(stats_of().load_started, 1 + KEYS);
    assert_int_equal(stats_of().load_queries, 2);
}

TEST(singles_and_keys_of_many_are_one_query_of_the_share_whose_turn_it_is)
{
    static const char *const order[] = {"k0", "k1", "s0", "s1"};
    static struct caller first, callers[6];
    struct seen *load = begin_load("first", &first), *loads[4];
    for (size_t i = 0; i < 2; i++) {
        line_up_alone(singles[i], &callers[2 + i]);
        line_up_together(keys[i], &callers[i]);
    }
    finish_load(load, "v"); /* of the singles' share: now it is the others' turn */
    expect_query(loads, order, 4);
    line_up_together(keys[2], &callers[4]);
    line_up_alone(singles[2], &callers[5]);
    finish_all(loads, 4);
    expect_query(loads, (const char *const[]){"s2", "k2"}, 2); /* and now that of the singles */
    finish_all(loads, 2);
}

TEST(without_a_guard_each_request_is_a_query_of_its_own)
{
    bench.config.mode = GUARD_MODE_OFF;
    bench_open();
    static struct caller callers[3];
    struct seen *load = begin_load("s0", &callers[0]);
    for (size_t i = 1; i < 3; i++)
        line_up_alone("s0", &callers[i]);
    finish_load(load, "v");
    expect_load("s0");
    sent_nothing();
}

/* A refresh fills what users leave free, and never takes a user with it. */
TEST(users_are_one_query_before_refreshes_and_with_them_where_there_is_room, P94)
{
    static const char *const refreshes[] = {"r0", "r1", "r2"}, *const order[] = {"s0", "s1", "r0"};
    open_shares(1, 10, 3);
    static struct caller first, callers[2];
    struct seen *load = begin_load("first", &first), *loads[3];
    for (size_t i = 0; i < 3; i++) {
        refresh_behind(refreshes[i], (struct core_refresh){.filler = NULL});
        reply_stale(expect(CORE_ACQUIRE), REFRESH_OURS, "old");
    }
    for (size_t i = 0; i < 2; i++)
        line_up_alone(singles[i], &callers[i]);
    finish_load(load, "v");
    expect_query(loads, order, 3);
    finish_all(loads, 3);
    expect_query(loads, &refreshes[1], 2);
}

TEST(a_query_of_singles_has_one_place_and_one_worker_until_its_last_load_is_over, P94)
{
    open_shares(1, KEYS, KEYS);
    static struct caller first, callers[KEYS], further[KEYS + 1];
    static const char *const more[] = {"m0", "m1", "m2", "m3"};
    struct seen *load = queue_singles(&first, callers), *loads[KEYS];
    get("one more", &further[KEYS]);
    is_shed(&further[KEYS]); /* one runs, and four wait */
    finish_load(load, "v");
    expect_query(loads, singles, KEYS);
    for (size_t i = 0; i < KEYS; i++)
        line_up_alone(more[i], &further[i]);
    get("one more", &further[KEYS]);
    is_shed(&further[KEYS]);
    finish_all(loads, KEYS - 1);
    sent_nothing();
    finish_load(loads[KEYS - 1], "v");
    expect_query(loads, more, KEYS);
}

TEST(what_nobody_waits_for_any_more_is_in_no_query)
{
    static const char *const order[] = {"s0", "s2"};
    static struct caller first, callers[KEYS];
    struct seen *load = queue_singles(&first, callers), *loads[KEYS];
    cancel(&callers[1]);
    cancel(&callers[3]);
    reply_code(expect(CORE_RELEASE), 1);
    reply_code(expect(CORE_RELEASE), 1);
    finish_load(load, "v");
    expect_query(loads, order, 2);
    finish_all(loads, 2);
}

/* ---- a query that fails as one ---- */

static void fail_as_one(struct seen *loads[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        sent_nothing(); /* not before all of them are back */
        loaded_as(loads[i], (struct core_loaded){
                                .outcome = LOAD_FAILED, .failure = GUARD_FAILURE_REJECTED, .as_one = true});
    }
}

/* s2 is what the source refuses. */
TEST(a_query_that_fails_as_one_is_halved_until_the_key_stands_alone, P94)
{
    static const char *const even[] = {"s0", "s2"}, *const odd[] = {"s1", "s3"};
    static struct caller first, callers[KEYS], newcomer;
    struct seen *load = queue_singles(&first, callers), *loads[KEYS];
    finish_load(load, "v");
    expect_query(loads, singles, KEYS);
    line_up_alone("newcomer", &newcomer);
    fail_as_one(loads, KEYS);
    expect_query(loads, (const char *const[]){"newcomer"}, 1); /* older, and beside none of them */
    finish_load(loads[0], "v");
    expect_query(loads, even, 2);
    fail_as_one(loads, 2);
    expect_query(loads, odd, 2);
    finish_all(loads, 2);
    expect_query(loads, even, 1);
    finish_load(loads[0], "v");
    load = expect_load("s2");
    load_fails(load, GUARD_FAILURE_REJECTED);
    reply_code(expect(CORE_RELEASE), 1);
    answered(&callers[2], GUARD_FAILED);
    for (size_t i = 0; i < KEYS; i++)
        if (i != 2)
            answered_value(&callers[i], "v", GUARD_FROM_LOAD);
}

/* ---- where the source refuses all, or many ---- */

enum { CROWD = 64 };

/* Keys that are one query. The source refuses those before the one with the number `poison`, at once, and takes its
 * time with what it answers. */
struct crowd {
    char names[CROWD][8];
    struct caller callers[CROWD];
    size_t poison;
    struct seen *running[CROWD];
    size_t running_count;
    size_t queries;
};

static void see_loads(struct crowd *crowd)
{
    uint64_t batch = 0;
    for (struct seen *seen = next_seen(); seen != NULL; seen = next_seen()) {
        if (seen->action.kind == CORE_RELEASE || seen->action.kind == CORE_FILL)
            reply_code(seen, 1);
        if (seen->action.kind != CORE_LOAD)
            continue;
        crowd->queries += seen->action.batch == 0 || seen->action.batch != batch;
        batch = seen->action.batch;
        crowd->running[crowd->running_count++] = seen;
    }
}

static bool is_refused(const struct crowd *crowd, const struct seen *load)
{
    return strtoul(load->key + 1, NULL, 10) < crowd->poison;
}

/* A load of the query that is over first. */
static const struct seen *first_over(const struct crowd *crowd)
{
    size_t i = 0;
    while (i < crowd->running_count && !is_refused(crowd, crowd->running[i]))
        i++;
    return crowd->running[i < crowd->running_count ? i : 0];
}

static void end_query(struct crowd *crowd)
{
    struct seen *ended[CROWD];
    size_t count = 0, left = 0;
    const struct seen *first = first_over(crowd);
    const bool fails = is_refused(crowd, first);
    for (size_t i = 0; i < crowd->running_count; i++) {
        struct seen *load = crowd->running[i];
        bool is_mate =
            load == first || (first->action.batch != 0 && load->action.batch == first->action.batch);
        *(is_mate ? &ended[count++] : &crowd->running[left++]) = load;
    }
    crowd->running_count = left;
    const struct core_loaded failed = {
        .outcome = LOAD_FAILED, .failure = GUARD_FAILURE_REJECTED, .as_one = count > 1};
    for (size_t i = 0; i < count; i++)
        if (fails)
            loaded_as(ended[i], failed);
        else
            loaded(ended[i], "v");
}

/* Each has a lease, or Redis refuses to say. Returns how many queries they cost. */
static size_t ask_crowd(enum core_reply_kind lease, size_t poison, uint32_t workers)
{
    static struct crowd crowd;
    static struct caller busy[8];
    struct seen *loads[8];
    crowd = (struct crowd){.poison = poison};
    bench.policy.batch_max = CROWD;
    open_shares(workers, CROWD, CROWD + workers);
    for (size_t i = 0; i < workers; i++)
        loads[i] = begin_load((const char *const[]){"b0", "b1", "b2", "b3"}[i], &busy[i]);
    for (size_t i = 0; i < CROWD; i++) {
        snprintf(crowd.names[i], sizeof crowd.names[i], "c%zu", i);
        get(crowd.names[i], &crowd.callers[i]);
        reply_kind(expect(CORE_ACQUIRE), lease);
    }
    finish_load(loads[0], "v");
    see_loads(&crowd);
    assert_int_equal(crowd.running_count, CROWD);
    for (size_t i = 1; i < workers; i++)
        finish_load(loads[i], "v");
    for (; crowd.running_count > 0; see_loads(&crowd))
        end_query(&crowd);
    for (size_t i = 0; i < CROWD; i++)
        assert_int_equal(crowd.callers[i].waiter.result.status, i < poison ? GUARD_FAILED : GUARD_OK);
    return crowd.queries;
}

/* One key costs two queries for each halving; seven lie in as many eighths, and fail none of their neighbours; a
 * source that refuses everything is asked fifteen times, and what ran beside the fifteenth has begun before. */
TEST(a_query_that_fails_is_halved_for_a_few_keys_and_given_up_for_many)
{
    static const struct {
        size_t poison;
        uint32_t workers;
        size_t least, most;
    } ROWS[] = {{1, 1, 1 + 2 * 6, 1 + 2 * 6},
                {7, 1, 16, 2 * CROWD},
                {7, 4, 16, 2 * CROWD},
                {CROWD, 1, 15, 15},
                {CROWD, 4, 15, 15 + 3}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        bench_close();
        set_up();
        assert_in_range(ask_crowd(REPLY_LEASE, ROWS[i].poison, ROWS[i].workers), ROWS[i].least, ROWS[i].most);
    }
}

/* Without leases each process remembers the failures of its own. */
TEST(so_it_is_without_redis)
{
    assert_int_equal(ask_crowd(REPLY_REFUSED, CROWD, 1), 15);
    static struct caller again;
    get("c63", &again);
    answered(&again, GUARD_FAILED);
    assert_int_equal(again.waiter.result.source, GUARD_FROM_CACHE);
    static struct caller others[CROWD]; /* there are places for all of them */
    for (size_t i = 0; i < CROWD; i++) {
        char name[8];
        snprintf(name, sizeof name, "o%zu", i);
        get(name, &others[i]);
        assert_int_not_equal(expect(CORE_ACQUIRE)->action.lookup, LOOKUP_PEEK);
    }
}

/* However many workers are free: here one for each key, and more. */
TEST(a_half_is_one_query_though_its_keys_need_not_wait)
{
    enum { BUSY = KEYS + 1 };
    static const char *const even[] = {"s0", "s2"}, *const odd[] = {"s1", "s3"};
    static const char *const busy[BUSY] = {"b0", "b1", "b2", "b3", "b4"};
    open_shares(1 + BUSY, 10, KEYS);
    static struct caller first, callers[KEYS], others[BUSY];
    struct seen *running[BUSY], *loads[KEYS];
    for (size_t i = 0; i < BUSY; i++)
        running[i] = begin_load(busy[i], &others[i]);
    struct seen *load = queue_singles(&first, callers);
    finish_load(load, "v");
    expect_query(loads, singles, KEYS);
    finish_all(running, BUSY);
    fail_as_one(loads, KEYS);
    for (size_t i = 0; i < 2; i++)
        loads[i] = expect_load(even[i]);
    for (size_t i = 0; i < 2; i++)
        loads[2 + i] = expect_load(odd[i]);
    assert_true(loads[0]->action.batch != 0 && loads[2]->action.batch != 0);
    assert_int_equal(loads[0]->action.batch, loads[1]->action.batch);
    assert_int_equal(loads[2]->action.batch, loads[3]->action.batch);
    assert_true(loads[0]->action.batch != loads[2]->action.batch);
    finish_all(loads, KEYS);
}

TEST(a_half_for_which_there_is_no_place_any_more_is_shed_and_its_key_has_not_failed)
{
    open_shares(1, 2, 2);
    static struct caller first, callers[2], further[2];
    struct seen *load = begin_load("first", &first), *loads[2];
    for (size_t i = 0; i < 2; i++)
        line_up_alone(singles[i], &callers[i]);
    finish_load(load, "v");
    expect_query(loads, singles, 2);
    for (size_t i = 0; i < 2; i++)
        line_up_alone(keys[i], &further[i]);
    fail_as_one(loads, 2);
    still_waits(&callers[0]); /* it has the place of the query */
    answered(&callers[1], GUARD_SHED);
    struct seen *release = expect(CORE_RELEASE);
    assert_int_equal(release->action.failure, GUARD_FAILURE_NONE);
}

/* ---- neighbours ---- */

/* s0 and s1 are one query. */
static void begin_two(struct seen *loads[2], struct caller callers[2])
{
    static struct caller first;
    struct seen *load = begin_load("first", &first);
    for (size_t i = 0; i < 2; i++)
        line_up_alone(singles[i], &callers[i]);
    finish_load(load, "v");
    expect_query(loads, singles, 2);
}

/* Its neighbour leaves the query, and is loaded by itself on the thread that stands still for it. */
TEST(a_key_that_a_loader_needs_leaves_the_query_that_it_is_in, P94)
{
    static struct caller callers[2], nested, circle;
    struct seen *loads[2];
    begin_two(loads, callers);
    get_nested(singles[1], &nested, loads[0], 5000);
    still_waits(&nested);
    assert_true(expect(CORE_CANCEL)->action.load == loads[1]->action.load);
    reply_code(expect(CORE_RELEASE), 1);
    struct seen *own = lease(expect(CORE_ACQUIRE));
    assert_string_equal(own->key, singles[1]);
    assert_true(own->action.lender == loads[0]->action.load);
    assert_true(own->action.load != loads[1]->action.load);
    get_nested(singles[0], &circle, own, 5000); /* this one is a circle */
    answered(&circle, GUARD_FAILED);
    assert_int_equal(circle.waiter.result.failure, GUARD_FAILURE_CYCLE);
    finish_load_for(own, "own", &nested, GUARD_FROM_FLIGHT);
    answered_value(&callers[1], "own", GUARD_FROM_LOAD);
    loaded(loads[1], "what the query has brought all the same");
    finish_load_for(loads[0], "v", &callers[0], GUARD_FROM_LOAD);
}

/* s0 needs k0, and that needs s1, which only stands beside s0. */
TEST(so_does_one_that_is_needed_further_down)
{
    static struct caller callers[2], inner, nested;
    struct seen *loads[2];
    begin_two(loads, callers);
    get_nested("k0", &inner, loads[0], 5000);
    struct seen *load = lease(expect(CORE_ACQUIRE));
    get_nested(singles[1], &nested, load, 5000);
    still_waits(&nested);
    assert_true(expect(CORE_CANCEL)->action.load == loads[1]->action.load);
    reply_code(expect(CORE_RELEASE), 1);
    struct seen *own = lease(expect(CORE_ACQUIRE));
    assert_true(own->action.lender == load->action.load);
    finish_load_for(own, "own", &nested, GUARD_FROM_FLIGHT);
    finish_load_for(load, "inner", &inner, GUARD_FROM_LOAD);
}

TEST(what_a_load_waits_for_is_in_no_query_of_others)
{
    open_shares(2, 10, KEYS);
    static struct caller outer, first, nested[2], callers[2];
    struct seen *load = begin_load("outer", &outer), *other = begin_load("first", &first);
    core_deferred(bench.core, bench.now_us, load->action.load); /* it may wait for several */
    drain();
    get_nested("n0", &nested[0], load, 5000);
    struct seen *inner = lease(expect(CORE_ACQUIRE)), *loads[2];
    get_nested("n1", &nested[1], load, 5000);
    reply_kind(expect(CORE_ACQUIRE), REPLY_LEASE); /* the place is taken: it is queued */
    for (size_t i = 0; i < 2; i++)
        line_up_alone(singles[i], &callers[i]);
    finish_load(other, "v");
    assert_int_equal(expect_load("n1")->action.batch, 0);
    sent_nothing();
    finish_load(inner, "v");
    load_fails(load, GUARD_FAILURE_UNAVAILABLE);
    reply_code(expect(CORE_RELEASE), 1);
    expect_query(loads, singles, 2);
}

/* One may revalidate beside one that does not, if neither has a lease. */
TEST(no_key_is_in_a_query_twice)
{
    bench.config.without_redis = true;
    bench_open();
    static struct caller first, callers[3];
    get("first", &first);
    struct seen *load = expect_load("first"), *loads[2];
    get(singles[0], &callers[0]);
    callers[1] = (struct caller){.waiter.revalidates = true};
    get_as_prepared(singles[0], &callers[1], bench.now_us + 5000 * BENCH_MS);
    get(singles[1], &callers[2]);
    loaded(load, "v");
    expect_query(loads, singles, 2);
    loaded(loads[0], "v");
    loaded(loads[1], "v");
    assert_string_equal(expect_load(singles[0])->key, "s0");
}

TEST_GROUP(.before = set_up, .end = bench_close);
