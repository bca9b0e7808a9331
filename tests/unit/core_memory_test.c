/* SPDX-License-Identifier: MIT */
/*
 * core_memory_test.c - the n-th allocation fails, for every n: refused cleanly, no waiter forgotten, nothing
 * lost.
 */
#include "core_bench.h"
#include "failing_memory.h"

enum { CALLERS = 90, INVALIDATIONS = 40 };

static bool accepted_or_refused(enum guard_status status)
{
    return status == GUARD_OK || status == GUARD_NO_MEMORY;
}

static void core_new_may_fail(void)
{
    counting = true;
    struct core *core = core_new(&bench.config);
    counting = false;
    assert_null(core);
}

static void load_batch(struct guard_load *const *loads, size_t count, void *context)
{
    (void)loads, (void)count, (void)context;
}

static uint64_t refused_query; /* 0: there was none of several keys yet */

/* The first query of several keys is refused as a whole. */
static void load_ends(struct seen *load, struct value *value)
{
    static const struct core_loaded refused = {
        .outcome = LOAD_FAILED, .failure = GUARD_FAILURE_REJECTED, .as_one = true};
    const struct core_loaded good = {.outcome = LOAD_OK, .value = value};
    if (refused_query == 0)
        refused_query = load->action.batch;
    bool refuses = refused_query != 0 && load->action.batch == refused_query;
    core_loaded(bench.core, bench.now_us, load->action.load, refuses ? &refused : &good);
}

/* Gets of many keys, their loads, invalidations in between, which are remembered; big enough for every table to
 * grow. */
static void go_through_everything(struct caller *caller, struct core_invalidation *invalidation,
                                  char (*key)[16])
{
    for (int i = 0; i < CALLERS; i++) {
        counting = true;
        get(key[i % 60], &caller[i]);
        counting = false;
        assert_true(accepted_or_refused(caller[i].accepted));
    }
    for (int i = 0; i < INVALIDATIONS; i++) {
        const char *name = key[i];
        invalidation[i] = (struct core_invalidation){.key = {name, strlen(name), name, strlen(name)},
                                                     .deadline_us = UINT64_MAX};
        counting = true;
        enum guard_status status = core_invalidate(bench.core, bench.now_us, &invalidation[i]);
        counting = false;
        drain();
        assert_true(accepted_or_refused(status));
    }
    for (size_t i = 0; i < bench.seen_count; i++) {
        struct seen *seen = &bench.seen[i];
        struct value *value = value_new("v", 1, "", 0, NULL, 0);
        seen->over = true;
        counting = true;
        if (seen->action.kind == CORE_ACQUIRE)
            core_replied(bench.core, bench.now_us, seen->action.op,
                         &(struct core_reply){.kind = REPLY_LEASE});
        else if (seen->action.kind == CORE_LOAD)
            load_ends(seen, value);
        else
            core_replied(bench.core, bench.now_us, seen->action.op,
                         &(struct core_reply){.kind = REPLY_CODE, .code = 1});
        counting = false;
        value_unref(&value);
        drain();
    }
}

static void check_answers(struct caller *caller)
{
    for (int i = 0; i < CALLERS; i++) {
        if (caller[i].accepted != GUARD_OK)
            continue;
        assert_int_equal(caller[i].answers, 1);
        enum guard_status status = caller[i].waiter.result.status;
        assert_true(accepted_or_refused(status));
    }
    assert_int_equal(bench.answered_count, bench.accepted_count);
    assert_true(core_idle(bench.core));
}

/* merges: with one worker, and what waits for it is one query. */
static void fail_each(bool merges)
{
    static struct caller caller[CALLERS];
    static struct core_invalidation invalidation[INVALIDATIONS];
    char key[60][16];
    for (int i = 0; i < 60; i++)
        snprintf(key[i], sizeof key[i], "k%d", i);
    counting = false;
    until_failure = 1;
    core_new_may_fail();
    unsigned n = 0;
    do {
        bench_again();
        bench.config.max_loads = merges ? 1 : 80;
        bench.config.load_queue = 80;
        bench.config.replay = true;
        bench.policy.batch_loader = merges ? load_batch : NULL;
        bench_open();
        until_failure = ++n;
        failures = 0;
        refused_query = 0;
        go_through_everything(caller, invalidation, key);
        assert_true(!merges || refused_query != 0);
        check_answers(caller);
        until_failure = 0;
        bench_close();
    } while (failures > 0);
    assert_in_range(n, 130, 10000); /* 60 flights and 60 loads at least */
}

TEST(every_allocation_may_fail)
{
    fail_each(false);
}

TEST(so_may_those_of_a_query_that_is_halved)
{
    fail_each(true);
}

TEST_GROUP(.before = bench_up, .end = bench_close);
