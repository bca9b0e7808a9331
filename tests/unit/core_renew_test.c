/* SPDX-License-Identifier: MIT */
/*
 * core_renew_test.c - renewals against everything that ends a lease: wherever the timer stands when a load
 * ends or the guard closes, and however long Redis takes to answer, no renewal follows the fill or release.
 */
#include "core_bench.h"

enum { STEP_MS = 125, SPAN_MS = 4500, ANSWER_MS = 200 };

enum ending { ENDS_LOADED, ENDS_ABSENT, ENDS_FAILED, ENDS_CLOSED, ENDINGS };

/* Answers every renewal at once, so that the lease stands for as long as the load runs. */
static void run_until(uint64_t until_us)
{
    while (bench.now_us < until_us) {
        pass(STEP_MS);
        while (bench.seen_first < bench.seen_count)
            reply_code(expect(CORE_RENEW), 1);
    }
}

static void end_it(struct seen *load, enum ending ending)
{
    if (ending == ENDS_LOADED)
        loaded(load, "v1");
    else if (ending == ENDS_ABSENT)
        load_is_absent(load);
    else if (ending == ENDS_FAILED)
        load_fails(load, GUARD_FAILURE_UNAVAILABLE);
    else
        core_close(bench.core, bench.now_us);
    drain();
}

static bool ends_a_lease(const struct seen *seen)
{
    return seen->action.kind == CORE_FILL || seen->action.kind == CORE_RELEASE;
}

/* Of what was sent, in its order: none renews a lease that something before it gave back. */
static void assert_no_renewal_behind_its_end(void)
{
    size_t ends = 0;
    for (size_t i = 0; i < bench.seen_count; i++) {
        if (!ends_a_lease(&bench.seen[i]))
            continue;
        ends++;
        for (size_t later = i + 1; later < bench.seen_count; later++)
            if (bench.seen[later].action.kind == CORE_RENEW)
                assert_string_not_equal(bench.seen[later].token, bench.seen[i].token);
    }
    assert_true(ends > 0);
}

/* Once through a life whose load ends after end_ms, and whose last command is answered answer_ms later. */
static void live_through(uint64_t end_ms, enum ending ending, uint32_t answer_ms)
{
    static struct caller caller;
    bench_again();
    struct seen *load = begin_load("k", &caller);
    run_until(bench.now_us + end_ms * BENCH_MS);
    end_it(load, ending);
    pass(answer_ms); /* the fill or the release is on its way */
    for (size_t i = 0; i < bench.seen_count; i++)
        if (ends_a_lease(&bench.seen[i]) && !bench.seen[i].over)
            reply_code(&bench.seen[i], 1);
    pass(SPAN_MS);
    assert_no_renewal_behind_its_end();
}

TEST(no_renewal_follows_what_ends_the_lease_wherever_the_timer_stands, P3)
{
    static const uint32_t answers_ms[] = {0, ANSWER_MS, SPAN_MS};
    for (enum ending ending = 0; ending < ENDINGS; ending++)
        for (uint64_t end_ms = 0; end_ms <= SPAN_MS; end_ms += STEP_MS)
            for (size_t i = 0; i < sizeof answers_ms / sizeof *answers_ms; i++)
                live_through(end_ms, ending, answers_ms[i]);
}

TEST_GROUP(.before = bench_up, .end = bench_close);
