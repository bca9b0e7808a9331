/* SPDX-License-Identifier: MIT */
/*
 * core_end_test.c - invalidations until Redis confirms them, and the end: drain, close, rest.
 */
#include "core_bench.h"

/* ---- invalidations ---- */

static enum guard_status invalidate(struct core_invalidation *invalidation, uint32_t deadline_ms)
{
    *invalidation = (struct core_invalidation){
        .key = {"k", 1, "k", 1},
        .deadline_us = bench.now_us + (uint64_t)deadline_ms * BENCH_MS,
    };
    enum guard_status status = core_invalidate(bench.core, bench.now_us, invalidation);
    drain();
    return status;
}

TEST(an_unconfirmed_invalidation_is_repeated_until_its_deadline, P40)
{
    struct core_invalidation invalidation;
    uint64_t start_us = bench.now_us;
    assert_int_equal(invalidate(&invalidation, 1000), GUARD_OK);
    const enum core_reply_kind kinds[] = {REPLY_UNKNOWN, REPLY_UNSENT, REPLY_REFUSED};
    unsigned attempts = 0;
    while (bench.invalidated == 0) {
        reply_kind(expect(CORE_INVALIDATE), kinds[attempts++ % 3]);
        if (bench.invalidated == 0)
            pass_us(core_next_us(bench.core) - bench.now_us);
    }
    assert_in_range(attempts, 3, 20);
    assert_true(bench.now_us - start_us <= 1000000);
    assert_int_equal(invalidation.result.status, GUARD_UNKNOWN);
    assert_int_equal(stats_of().invalidate_unknown, 1);
}

TEST(a_later_attempt_may_confirm_it, P41)
{
    struct core_invalidation invalidation;
    assert_int_equal(invalidate(&invalidation, 1000), GUARD_OK);
    struct seen *first = expect(CORE_INVALIDATE);
    reply_kind(first, REPLY_UNKNOWN);
    pass(40);
    struct seen *second = expect(CORE_INVALIDATE);
    assert_true(second->action.op != first->action.op);
    reply_code(second, 0);
    assert_int_equal(invalidation.result.status, GUARD_OK);
}

/* ---- the end ---- */

/* Each brings two callers of one key and, where it matters, one of another, to where the test closes. */
static void to_asking(struct caller *caller)
{
    get("k", &caller[0]);
    expect(CORE_ACQUIRE);
}

static void to_waiting(struct caller *caller)
{
    reply_busy(lookup_of("k", &caller[0]), 3000);
}

static void to_loading(struct caller *caller)
{
    begin_load("k", &caller[0]);
}

static void to_renewing(struct caller *caller)
{
    begin_load("k", &caller[0]);
    pass(1000);
    expect(CORE_RENEW);
}

static void to_bare_loading(struct caller *caller)
{
    reply_kind(lookup_of("k", &caller[0]), REPLY_REFUSED);
    expect(CORE_LOAD);
}

static void to_queued(struct caller *caller)
{
    begin_load("k1", &caller[1]);
    begin_load("k2", &caller[2]);
    reply_kind(lookup_of("k", &caller[0]), REPLY_LEASE);
}

static void to_bare_queued(struct caller *caller)
{
    begin_load("k1", &caller[1]);
    begin_load("k2", &caller[2]);
    reply_kind(lookup_of("k", &caller[0]), REPLY_REFUSED);
}

static void to_filling(struct caller *caller)
{
    loaded(begin_load("k", &caller[0]), "v1");
    expect(CORE_FILL);
}

static void to_releasing(struct caller *caller)
{
    load_fails(begin_load("k", &caller[3]), GUARD_FAILURE_INTERNAL);
    expect(CORE_RELEASE);
    get("k", &caller[0]);
}

static void to_refreshing(struct caller *caller)
{
    bench.policy.stale_ms = 1000;
    reply_stale(lookup_of("k", &caller[3]), REFRESH_OURS, "old");
    answered_value(&caller[3], "old", GUARD_FROM_STALE);
    expect(CORE_LOAD);
    get("k", &caller[0]); /* peeks */
}

static void to_lost(struct caller *caller)
{
    begin_load("k", &caller[0]);
    pass_to_renewal(1000, 0);
    expect(CORE_CANCEL);
}

static void to_cooling(struct caller *caller)
{
    reply_kind(lookup_of("k", &caller[3]), REPLY_REFUSED);
    load_fails(expect(CORE_LOAD), GUARD_FAILURE_UNAVAILABLE);
    begin_load("k1", &caller[0]);
}

static void to_invalidating(struct caller *caller)
{
    static struct core_invalidation sent, pausing;
    begin_load("k", &caller[0]);
    assert_int_equal(invalidate(&sent, 1000), GUARD_OK);
    assert_int_equal(invalidate(&pausing, 1000), GUARD_OK);
    expect(CORE_INVALIDATE);
    reply_kind(expect(CORE_INVALIDATE), REPLY_UNKNOWN);
}

static void (*const stages[])(struct caller *) = {
    to_asking,  to_waiting,   to_loading,    to_renewing, to_bare_loading, to_queued,       to_bare_queued,
    to_filling, to_releasing, to_refreshing, to_lost,     to_cooling,      to_invalidating,
};
enum { STAGES = sizeof stages / sizeof *stages };

static bool is_given_back(const char *token)
{
    for (size_t i = 0; i < bench.seen_count; i++) {
        const struct seen *seen = &bench.seen[i];
        bool gives = seen->action.kind == CORE_RELEASE || seen->action.kind == CORE_FILL;
        if (gives && strcmp(seen->token, token) == 0)
            return true;
    }
    return false;
}

/* Redis grants every acquire and answers the rest as asked; loaders end. */
static void answer_all(const struct core_reply *acquired, const struct core_reply *others)
{
    for (size_t i = 0; i < bench.seen_count; i++) {
        struct seen *seen = &bench.seen[i];
        if (seen->over || seen->action.kind == CORE_CANCEL)
            continue;
        if (seen->action.kind == CORE_LOAD)
            load_fails(seen, GUARD_FAILURE_TIMEOUT);
        else
            reply(seen, seen->action.kind == CORE_ACQUIRE ? *acquired : *others);
    }
}

TEST(closing_in_every_state_answers_everybody_once_and_comes_to_rest)
{
    static const struct core_reply acquired[] = {
        {.kind = REPLY_LEASE},   {.kind = REPLY_BUSY, .pttl_ms = 100},
        {.kind = REPLY_UNKNOWN}, {.kind = REPLY_UNSENT},
        {.kind = REPLY_FREE},    {.kind = REPLY_FAILED},
        {.kind = REPLY_REFUSED},
    };
    static const struct core_reply others[] = {
        {.kind = REPLY_CODE, .code = 1}, {.kind = REPLY_CODE, .code = 0}, {.kind = REPLY_UNKNOWN},
        {.kind = REPLY_UNSENT},          {.kind = REPLY_REFUSED},
    };
    for (size_t stage = 0; stage < STAGES; stage++) {
        for (size_t a = 0; a < sizeof acquired / sizeof *acquired; a++) {
            for (size_t o = 0; o < sizeof others / sizeof *others; o++) {
                struct caller caller[4] = {{.answers = 0}}, refused;
                struct core_invalidation late;
                bench_again();
                stages[stage](caller);
                close_core();
                answered(&caller[0], GUARD_CLOSING);
                get("k", &refused);
                assert_int_equal(refused.accepted, GUARD_CLOSING);
                assert_int_equal(invalidate(&late, 1000), GUARD_CLOSING);
                answer_all(&acquired[a], &others[o]);
                assert_true(core_idle(bench.core));
                bench_close();
            }
        }
    }
}

/* A model of the lease: granted tokens stand until released, superseded or filled. */
static const char *leases_left(void)
{
    for (size_t i = 0; i < bench.seen_count; i++) {
        const struct seen *seen = &bench.seen[i];
        bool granted = seen->action.kind == CORE_ACQUIRE && seen->action.lookup != LOOKUP_PEEK && seen->over;
        if (granted && !is_given_back(seen->token))
            return seen->token;
    }
    return NULL;
}

TEST(closing_gives_back_every_lease)
{
    static const struct core_reply granted = {.kind = REPLY_LEASE}, stored = {.kind = REPLY_CODE, .code = 1};
    static const enum {
        ASKING,
        LOADING = 2,
        RENEWING = 3,
        QUEUED = 5,
        FILLING = 7
    } held[] = {
        ASKING, LOADING, RENEWING, QUEUED, FILLING,
    };
    for (size_t i = 0; i < sizeof held / sizeof *held; i++) {
        struct caller caller[4] = {{.answers = 0}};
        bench_again();
        stages[held[i]](caller);
        close_core();
        answer_all(&granted, &stored);
        assert_null(leases_left());
        assert_true(core_idle(bench.core));
        bench_close();
    }
}

TEST_GROUP(.before = bench_up, .end = bench_close);
