/* SPDX-License-Identifier: MIT */
/*
 * core_permits_test.c - the fleet's load permits and who comes first, in virtual time. See guard/core/permits.h.
 */
#include "core_bench.h"

enum { PERMIT_MS = 3000 };

/* Not opened: the test may change more. */
static struct bench *with_permits(void **state, uint32_t permits)
{
    struct bench *bench = *state;
    bench->config.permits = permits;
    bench->config.permit_ms = PERMIT_MS;
    return bench;
}

/* Two, as many as there are workers, and stale values. */
static struct bench *open_with_permits(void **state)
{
    struct bench *bench = with_permits(state, 2);
    bench->config.load_queue = 10;
    bench->policy.stale_ms = 10000;
    bench_open(bench);
    return bench;
}

/* Granted; `further` ones are free. */
static void grant(struct bench *bench, struct seen *acquire, int64_t further)
{
    reply_code(bench, acquire, 1 + further);
}

static void refuse(struct bench *bench, struct seen *acquire, uint32_t earliest_ms)
{
    reply_code(bench, acquire, -(int64_t)earliest_ms);
}

static void freed(struct bench *bench, const struct seen *asked)
{
    core_permit_freed(bench->core, bench->now_us, asked->waiter, strlen(asked->waiter));
    drain(bench);
}

/* The next ask for a permit, on behalf of somebody who waits, or of a refresh. */
static struct seen *expect_users_ask(struct bench *bench)
{
    struct seen *asked = expect(bench, CORE_PERMIT_ACQUIRE);
    assert_false(asked->action.background);
    return asked;
}

static struct seen *expect_refreshs_ask(struct bench *bench)
{
    struct seen *asked = expect(bench, CORE_PERMIT_ACQUIRE);
    assert_true(asked->action.background);
    return asked;
}

static struct seen *expect_load_of(struct bench *bench, const char *key)
{
    struct seen *load = expect(bench, CORE_LOAD);
    assert_string_equal(load->key, key);
    return load;
}

/* A get whose lease is granted: its load is queued. */
static void queue_load(struct bench *bench, const char *key, struct caller *caller)
{
    get(bench, key, caller);
    reply_kind(bench, expect(bench, CORE_ACQUIRE), REPLY_LEASE);
}

/* The same, and a permit is asked for. */
static struct seen *ask_for_one(struct bench *bench, const char *key, struct caller *caller)
{
    queue_load(bench, key, caller);
    return expect_users_ask(bench);
}

static struct seen *load_with_permit(struct bench *bench, const char *key, struct caller *caller)
{
    grant(bench, ask_for_one(bench, key, caller), 0);
    return expect(bench, CORE_LOAD);
}

static void finish_load_of(struct bench *bench, struct seen *load)
{
    loaded(bench, load, "row");
    reply_code(bench, expect(bench, CORE_PERMIT_RELEASE), 1);
    reply_code(bench, expect(bench, CORE_FILL), 1);
}

/* A stale value is found by somebody who is answered with it; its refresh may load. */
static void queue_refresh(struct bench *bench, const char *key)
{
    struct caller caller;
    get(bench, key, &caller);
    reply_stale(bench, expect(bench, CORE_ACQUIRE), TURN_OURS, "old");
    answered_value(&caller, "old", GUARD_FROM_STALE);
}

/* To the next instant for which something is due; permits are refused, all else succeeds. Returns the last command of
 * this kind, or NULL. */
static struct seen *pass_without_permits(struct bench *bench, enum core_action_kind kind)
{
    struct seen *last = NULL;
    pass_to_next(bench);
    for (struct seen *seen = next_seen(bench); seen != NULL; seen = next_seen(bench)) {
        reply_code(bench, seen, seen->action.kind == CORE_PERMIT_ACQUIRE ? -PERMIT_MS : 1);
        last = seen->action.kind == kind ? seen : last;
    }
    return last;
}

/* ---- one permit, one query ---- */

TEST(a_load_starts_once_it_has_lease_and_permit_and_gives_both_back)
{
    struct bench *bench = open_with_permits(state);
    struct caller caller;
    struct seen *asked = ask_for_one(bench, "k", &caller);
    sent_nothing(bench);
    assert_int_equal(stats_of(bench).permits_waiting, 1);
    assert_int_equal(stats_of(bench).loads_queued, 1);
    assert_false(asked->action.more);
    grant(bench, asked, 0);
    struct seen *load = expect(bench, CORE_LOAD);
    assert_string_equal(load->permit, asked->token);
    assert_int_equal(stats_of(bench).permits_held, 1);
    assert_int_equal(stats_of(bench).permits_waiting, 0);
    loaded(bench, load, "row");
    struct seen *released = expect(bench, CORE_PERMIT_RELEASE);
    assert_string_equal(released->token, asked->token);
    assert_int_equal(stats_of(bench).permits_held, 0);
    reply_code(bench, expect(bench, CORE_FILL), 1);
    answered_value(&caller, "row", GUARD_FROM_LOAD);
    reply_code(bench, released, 1);
    sent_nothing(bench);
    bench_close(bench);
}

TEST(a_load_that_fails_gives_its_permit_back)
{
    struct bench *bench = open_with_permits(state);
    struct caller caller;
    struct seen *load = load_with_permit(bench, "k", &caller);
    load_fails(bench, load, GUARD_FAILURE_UNAVAILABLE);
    assert_string_equal(expect(bench, CORE_PERMIT_RELEASE)->token, load->permit);
    expect(bench, CORE_RELEASE);
    bench_close(bench);
}

TEST(no_permit_is_asked_for_without_a_fleet_or_a_limit)
{
    for (int which = 0; which < 4; which++) {
        struct bench *bench = *state;
        struct caller caller;
        bench_init(bench);
        bench->config.permits = which == 0 ? 0 : 2;
        bench->config.permit_ms = PERMIT_MS;
        bench->config.mode = which == 1 ? GUARD_MODE_LOCAL : which == 2 ? GUARD_MODE_OFF : GUARD_MODE_FLEET;
        bench->config.without_redis = which == 3;
        bench_open(bench);
        get(bench, "k", &caller);
        if (which != 3)
            reply_kind(bench, expect(bench, CORE_ACQUIRE), REPLY_LEASE);
        loaded(bench, expect(bench, CORE_LOAD), "row");
        assert_int_equal(stats_of(bench).permit_spared, 0);
        if (which != 3)
            reply_code(bench, expect(bench, CORE_FILL), 1);
        sent_nothing(bench);
        answered_value(&caller, "row", GUARD_FROM_LOAD);
        bench_close(bench);
    }
}

TEST(a_permit_that_nobody_needs_any_more_goes_back)
{
    struct bench *bench = open_with_permits(state);
    struct caller caller;
    struct seen *asked = ask_for_one(bench, "k", &caller);
    cancel(bench, &caller);
    reply_code(bench, expect(bench, CORE_RELEASE), 1);
    grant(bench, asked, 0);
    assert_string_equal(expect(bench, CORE_PERMIT_RELEASE)->token, asked->token);
    sent_nothing(bench);
    bench_close(bench);
}

TEST(a_batch_takes_one_permit_and_keeps_it_to_its_last_load)
{
    struct bench *bench = with_permits(state, 1);
    struct caller callers[2];
    bench->policy.batch_loader = (guard_batch_loader *)(uintptr_t)1;
    bench->policy.batch_max = 8;
    bench_open(bench);
    get_together(bench, "a", &callers[0]);
    get_together(bench, "b", &callers[1]);
    struct seen *first = expect(bench, CORE_ACQUIRE), *second = expect(bench, CORE_ACQUIRE);
    reply_kind(bench, first, REPLY_LEASE);
    struct seen *asked = expect(bench, CORE_PERMIT_ACQUIRE);
    reply_kind(bench, second, REPLY_LEASE);
    grant(bench, asked, 0);
    sent_nothing(bench);
    turn_over(bench);
    struct seen *loads[] = {expect(bench, CORE_LOAD), expect(bench, CORE_LOAD)};
    assert_true(loads[0]->action.batch != 0 && loads[0]->action.batch == loads[1]->action.batch);
    assert_string_equal(loads[0]->permit, loads[1]->permit);
    sent_nothing(bench);
    loaded(bench, loads[0], "row");
    expect(bench, CORE_FILL);
    sent_nothing(bench);
    loaded(bench, loads[1], "row");
    assert_string_equal(expect(bench, CORE_PERMIT_RELEASE)->token, asked->token);
    bench_close(bench);
    for (int i = 0; i < 2; i++)
        guard_value_unref(&callers[i].waiter.result.value);
}

/* Redis has one permit. The next load, or NULL; *out: the permit is. */
static struct seen *next_load(struct bench *bench, bool *out)
{
    for (struct seen *seen = next_seen(bench); seen != NULL; seen = next_seen(bench)) {
        if (seen->action.kind == CORE_LOAD)
            return seen;
        bool asks = seen->action.kind == CORE_PERMIT_ACQUIRE, refused = asks && *out;
        *out = asks || (*out && seen->action.kind != CORE_PERMIT_RELEASE);
        reply_code(bench, seen, refused ? -PERMIT_MS : 1);
    }
    return NULL;
}

TEST(who_gets_the_next_permit_is_who_would_get_the_worker)
{
    static const char *const order[] = {"t0", "s0", "t1", "s1"};
    struct bench *bench = with_permits(state, 1);
    struct caller first, callers[4];
    bool out = true;
    bench->config.load_queue = 10;
    bench->policy.batch_loader = (guard_batch_loader *)(uintptr_t)1;
    bench->policy.batch_max = 1;
    bench_open(bench);
    struct seen *load = load_with_permit(bench, "first", &first);
    for (int i = 0; i < 4; i++) {
        (i < 2 ? get : get_together)(bench, order[i < 2 ? 2 * i + 1 : 2 * i - 4], &callers[i]);
        reply_kind(bench, expect(bench, CORE_ACQUIRE), REPLY_LEASE);
        assert_null(next_load(bench, &out));
        if (i >= 2)
            turn_over(bench);
    }
    for (int i = 0; i < 4; i++) {
        loaded(bench, load, "row");
        load = next_load(bench, &out);
        assert_non_null(load);
        assert_string_equal(load->key, order[i]);
    }
    bench_close(bench);
    guard_value_unref(&first.waiter.result.value);
    for (int i = 0; i < 4; i++)
        guard_value_unref(&callers[i].waiter.result.value);
}

TEST(a_nested_load_needs_no_permit)
{
    struct bench *bench = open_with_permits(state);
    struct caller outer, inner;
    struct seen *load = load_with_permit(bench, "outer", &outer);
    get_nested(bench, "inner", &inner, load, 1000);
    struct seen *nested = lease(bench, expect(bench, CORE_ACQUIRE));
    assert_int_equal(nested->action.lender, load->action.load);
    loaded(bench, nested, "row");
    reply_code(bench, expect(bench, CORE_FILL), 1);
    sent_nothing(bench);
    answered_value(&inner, "row", GUARD_FROM_LOAD);
    loaded(bench, load, "row");
    expect(bench, CORE_PERMIT_RELEASE);
    bench_close(bench);
    guard_value_unref(&outer.waiter.result.value);
}

/* Whose lease that is may be waiting for the very permit that the outer load holds. */
TEST(a_nested_load_holds_its_permit_only_briefly_for_another_process)
{
    struct bench *bench = open_with_permits(state);
    struct caller outer, inner;
    struct seen *load = load_with_permit(bench, "outer", &outer), *next = NULL;
    const uint64_t began_us = bench->now_us;
    get_nested(bench, "inner", &inner, load, 10000);
    for (int i = 0; i < 100 && next == NULL; i++) {
        struct seen *seen = next_seen(bench);
        if (seen == NULL) {
            pass_to_next(bench);
        } else if (seen->action.kind == CORE_LOAD) {
            next = seen;
        } else {
            assert_int_equal(seen->action.kind, CORE_ACQUIRE);
            reply_busy(bench, seen, 3000);
        }
    }
    assert_non_null(next);
    assert_in_range(bench->now_us - began_us, 1, 300000);
    loaded(bench, next, "row");
    answered_value(&inner, "row", GUARD_FROM_LOAD);
    loaded(bench, load, "row");
    expect(bench, CORE_PERMIT_RELEASE);
    bench_close(bench);
    guard_value_unref(&outer.waiter.result.value);
}

/* ---- waiting ---- */

TEST(who_was_refused_asks_again_when_a_message_names_him)
{
    struct bench *bench = open_with_permits(state);
    struct caller caller;
    struct seen *asked = ask_for_one(bench, "k", &caller);
    refuse(bench, asked, PERMIT_MS);
    sent_nothing(bench);
    core_permit_freed(bench->core, bench->now_us, "somebody else", 13);
    drain(bench);
    sent_nothing(bench);
    freed(bench, asked);
    struct seen *again = expect(bench, CORE_PERMIT_ACQUIRE);
    assert_string_not_equal(again->token, asked->token);
    assert_string_equal(again->waiter, asked->waiter);
    grant(bench, again, 0);
    expect(bench, CORE_LOAD);
    assert_int_equal(stats_of(bench).permit_refused, 1);
    assert_int_equal(stats_of(bench).permit_granted, 1);
    bench_close(bench);
}

TEST(a_message_that_overtakes_the_refusal_counts)
{
    struct bench *bench = open_with_permits(state);
    struct caller caller;
    struct seen *asked = ask_for_one(bench, "k", &caller);
    freed(bench, asked);
    refuse(bench, asked, PERMIT_MS);
    expect(bench, CORE_PERMIT_ACQUIRE);
    bench_close(bench);
}

/* Meanwhile the lease goes on being renewed. */
static struct seen *await_next_ask(struct bench *bench)
{
    struct seen *seen = next_seen(bench);
    for (; seen == NULL || seen->action.kind == CORE_RENEW; seen = next_seen(bench)) {
        if (seen == NULL)
            pass_to_next(bench);
        else
            reply_code(bench, seen, 1);
    }
    assert_int_equal(seen->action.kind, CORE_PERMIT_ACQUIRE);
    return seen;
}

TEST(a_lost_message_costs_a_poll_that_grows_to_half_a_second)
{
    enum { FIRST_US = 20000, MOST_US = 500000, POLLS = 12 }; /* each half of that more or less */
    struct bench *bench = open_with_permits(state);
    struct caller caller;
    struct seen *asked = ask_for_one(bench, "k", &caller);
    for (int poll = 1; poll <= POLLS; poll++) {
        uint64_t since_us = bench->now_us;
        refuse(bench, asked, PERMIT_MS);
        asked = await_next_ask(bench);
        uint64_t waited_us = bench->now_us - since_us;
        assert_in_range(waited_us, poll == POLLS ? MOST_US / 2 : 1,
                        poll == 1 ? FIRST_US * 3 / 2 : MOST_US * 3 / 2);
    }
    grant(bench, asked, 0);
    expect(bench, CORE_LOAD);
    bench_close(bench);
}

TEST(the_end_of_a_dead_holders_permit_is_not_slept_through)
{
    struct bench *bench = open_with_permits(state);
    struct caller caller;
    refuse(bench, ask_for_one(bench, "k", &caller), 3);
    pass(bench, 3 + 5); /* before the shortest poll */
    grant(bench, expect(bench, CORE_PERMIT_ACQUIRE), 1);
    expect(bench, CORE_LOAD);
    sent_nothing(bench);
    bench_close(bench);
}

TEST(a_waiting_load_keeps_its_lease_and_holds_no_worker)
{
    struct bench *bench = open_with_permits(state);
    struct caller caller;
    refuse(bench, ask_for_one(bench, "k", &caller), PERMIT_MS);
    unsigned renewals = 0;
    while (bench->now_us < 1000000 + 4 * (uint64_t)bench->policy.lease_ms * BENCH_MS)
        renewals += pass_without_permits(bench, CORE_RENEW) != NULL;
    still_waits(&caller);
    assert_true(renewals >= 10);
    assert_int_equal(stats_of(bench).lease_lost, 0);
    assert_int_equal(stats_of(bench).loads_running, 0);
    bench_close(bench);
}

TEST(who_waits_longer_than_the_hold_limit_is_shed_and_leaves_the_queue)
{
    struct bench *bench = with_permits(state, 1);
    struct caller caller;
    bench->policy.max_hold_ms = 3500;
    bench_open(bench);
    refuse(bench, ask_for_one(bench, "k", &caller), PERMIT_MS);
    struct seen *left = NULL;
    while (caller.answers == 0 || left == NULL) {
        struct seen *released = pass_without_permits(bench, CORE_PERMIT_RELEASE);
        left = released != NULL ? released : left;
    }
    answered(&caller, GUARD_SHED);
    assert_string_equal(left->token, "");
    bench_close(bench);
}

TEST(as_many_are_asked_for_as_there_are_workers_and_the_rest_in_turn)
{
    struct bench *bench = open_with_permits(state); /* two workers */
    struct caller callers[5];
    struct seen *first = ask_for_one(bench, "a", &callers[0]);
    struct seen *second = ask_for_one(bench, "b", &callers[1]);
    queue_load(bench, "c", &callers[2]);
    queue_load(bench, "d", &callers[3]);
    queue_load(bench, "e", &callers[4]);
    sent_nothing(bench);
    grant(bench, first, 0);
    struct seen *load = expect(bench, CORE_LOAD);
    refuse(bench, second, PERMIT_MS);
    sent_nothing(bench);
    loaded(bench, load, "row");
    expect(bench, CORE_PERMIT_RELEASE);
    expect(bench, CORE_FILL);
    struct seen *next = expect(bench, CORE_PERMIT_ACQUIRE); /* behind its own release, and only one */
    assert_true(next->action.more);
    sent_nothing(bench);
    grant(bench, next, 1);
    expect_load_of(bench, "b");         /* the oldest */
    expect(bench, CORE_PERMIT_ACQUIRE); /* the reply said that one more is free */
    sent_nothing(bench);
    bench_close(bench);
    guard_value_unref(&callers[0].waiter.result.value);
}

/* ---- renewal, loss, unknown outcomes ---- */

TEST(a_permit_is_renewed_at_a_third_while_its_load_runs)
{
    struct bench *bench = open_with_permits(state);
    struct caller caller;
    bench->policy.load_limit_ms = bench->policy.max_hold_ms;
    struct seen *load = load_with_permit(bench, "k", &caller);
    unsigned renewed = 0;
    for (uint32_t ms = 0; ms < 2 * PERMIT_MS; ms += 100) {
        pass(bench, 100);
        for (struct seen *seen = next_seen(bench); seen != NULL; seen = next_seen(bench)) {
            assert_true(seen->action.kind == CORE_RENEW || seen->action.kind == CORE_PERMIT_RENEW);
            if (seen->action.kind == CORE_PERMIT_RENEW)
                assert_string_equal(seen->token, load->permit);
            renewed += seen->action.kind == CORE_PERMIT_RENEW;
            reply_code(bench, seen, 1);
        }
    }
    assert_in_range(renewed, 5, 6);
    assert_int_equal(stats_of(bench).permit_lost, 0);
    bench_close(bench);
}

TEST(a_lost_permit_is_counted_once_and_its_load_goes_on)
{
    struct bench *bench = open_with_permits(state);
    struct caller caller;
    bench->policy.lease_ms = bench->policy.max_hold_ms = 60000;
    struct seen *load = load_with_permit(bench, "k", &caller);
    pass(bench, PERMIT_MS / 3);
    reply_code(bench, expect(bench, CORE_PERMIT_RENEW), 0);
    assert_int_equal(stats_of(bench).permit_lost, 1);
    assert_int_equal(stats_of(bench).permits_held, 1);
    sent_nothing(bench);
    pass(bench, PERMIT_MS / 3);
    reply_code(bench, expect(bench, CORE_PERMIT_RENEW), 1);
    assert_int_equal(stats_of(bench).permit_lost, 1);
    finish_load_of(bench, load);
    answered_value(&caller, "row", GUARD_FROM_LOAD);
    bench_close(bench);
}

TEST(unanswered_renewals_lose_it_at_the_end_of_its_validity)
{
    struct bench *bench = open_with_permits(state);
    struct caller caller;
    bench->policy.lease_ms = bench->policy.max_hold_ms = 60000;
    struct seen *load = load_with_permit(bench, "k", &caller);
    pass(bench, PERMIT_MS / 3);
    reply_kind(bench, expect(bench, CORE_PERMIT_RENEW), REPLY_UNKNOWN);
    pass(bench, PERMIT_MS / 3);
    expect(bench, CORE_PERMIT_RENEW);
    pass(bench, PERMIT_MS / 3 - 1);
    assert_int_equal(stats_of(bench).permit_lost, 0);
    pass(bench, 1);
    assert_int_equal(stats_of(bench).permit_lost, 1);
    finish_load_of(bench, load);
    answered_value(&caller, "row", GUARD_FROM_LOAD);
    bench_close(bench);
}

TEST(a_new_link_renews_what_is_held_at_once)
{
    struct bench *bench = open_with_permits(state);
    struct caller caller;
    load_with_permit(bench, "k", &caller);
    core_link(bench->core, bench->now_us, false);
    core_link(bench->core, bench->now_us, true);
    pass(bench, 0);
    expect(bench, CORE_PERMIT_RENEW);
    bench_close(bench);
}

TEST(an_unanswered_acquire_is_asked_again_with_its_token_then_done_without)
{
    struct bench *bench = open_with_permits(state);
    struct caller caller;
    struct seen *asked = ask_for_one(bench, "k", &caller);
    reply_kind(bench, asked, REPLY_UNKNOWN);
    struct seen *again = expect(bench, CORE_PERMIT_ACQUIRE);
    assert_string_equal(again->token, asked->token);
    assert_true(again->action.op != asked->action.op);
    reply_kind(bench, again, REPLY_UNSENT);
    struct seen *released = expect(bench, CORE_PERMIT_RELEASE); /* it may have run */
    assert_string_equal(released->token, asked->token);
    struct seen *load = expect(bench, CORE_LOAD);
    assert_string_equal(load->permit, "");
    assert_int_equal(stats_of(bench).permit_spared, 1);
    loaded(bench, load, "row");
    reply_code(bench, expect(bench, CORE_PERMIT_RELEASE), 0); /* of a place in the queue */
    reply_code(bench, expect(bench, CORE_FILL), 1);
    answered_value(&caller, "row", GUARD_FROM_LOAD);
    sent_nothing(bench);
    bench_close(bench);
}

TEST(a_script_that_is_refused_costs_no_load)
{
    struct bench *bench = open_with_permits(state);
    struct caller caller;
    reply_kind(bench, ask_for_one(bench, "k", &caller), REPLY_REFUSED);
    struct seen *load = expect(bench, CORE_LOAD);
    assert_string_equal(load->permit, "");
    sent_nothing(bench);
    assert_int_equal(stats_of(bench).permit_spared, 1);
    bench_close(bench);
}

TEST(a_grant_that_comes_after_its_time_is_given_back_and_asked_for_again)
{
    struct bench *bench = with_permits(state, 1);
    struct caller caller;
    bench->config.permit_ms = 100;
    bench_open(bench);
    struct seen *asked = ask_for_one(bench, "k", &caller);
    pass(bench, 100);
    grant(bench, asked, 0);
    assert_string_equal(expect(bench, CORE_PERMIT_RELEASE)->token, asked->token);
    struct seen *again = expect(bench, CORE_PERMIT_ACQUIRE);
    assert_string_not_equal(again->token, asked->token);
    sent_nothing(bench);
    bench_close(bench);
}

TEST(while_the_breaker_is_open_loads_start_without)
{
    struct bench *bench = open_with_permits(state);
    struct caller callers[2];
    refuse(bench, ask_for_one(bench, "a", &callers[0]), PERMIT_MS);
    sent_nothing(bench);
    get(bench, "b", &callers[1]);
    reply_kind(bench, expect(bench, CORE_ACQUIRE), REPLY_UNKNOWN);
    reply_kind(bench, expect(bench, CORE_ACQUIRE), REPLY_UNKNOWN);
    /* bypassed: asks for a permit, too, while it may */
    pass(bench, 100);
    struct seen *poll = expect(bench, CORE_PERMIT_ACQUIRE);
    reply_kind(bench, poll, REPLY_UNKNOWN); /* the third in a row */
    expect(bench, CORE_PERMIT_RELEASE);
    expect(bench, CORE_LOAD);
    expect(bench, CORE_LOAD);
    assert_int_equal(stats_of(bench).permit_spared, 2);
    assert_true(stats_of(bench).breaker_open);
    bench_close(bench);
}

TEST(closing_gives_back_what_is_held_and_leaves_the_queue)
{
    struct bench *bench = open_with_permits(state);
    struct caller callers[2];
    struct seen *load = load_with_permit(bench, "a", &callers[0]);
    refuse(bench, ask_for_one(bench, "b", &callers[1]), PERMIT_MS);
    core_close(bench->core, bench->now_us);
    drain(bench);
    expect(bench, CORE_CANCEL);
    reply_code(bench, expect(bench, CORE_RELEASE), 1);
    reply_code(bench, expect(bench, CORE_RELEASE), 1);
    struct seen *left = expect(bench, CORE_PERMIT_RELEASE);
    assert_string_equal(left->token, "");
    reply_code(bench, left, 0);
    assert_false(core_idle(bench->core));
    load_fails(bench, load, GUARD_FAILURE_UNAVAILABLE);
    struct seen *released = expect(bench, CORE_PERMIT_RELEASE);
    assert_string_equal(released->token, load->permit);
    for (int i = 0; i < 2; i++) { /* repeated, but not for ever */
        reply_kind(bench, released, REPLY_UNSENT);
        released = expect(bench, CORE_PERMIT_RELEASE);
        assert_false(core_idle(bench->core));
    }
    reply_kind(bench, released, REPLY_UNSENT);
    sent_nothing(bench);
    assert_true(core_idle(bench->core));
    bench_close(bench);
}

/* ---- who comes first ---- */

TEST(users_start_before_refreshes_that_queued_earlier)
{
    struct bench *bench = open_with_permits(state);
    struct caller caller;
    queue_refresh(bench, "old");
    refuse(bench, expect_refreshs_ask(bench), PERMIT_MS);
    struct seen *asked = ask_for_one(bench, "user", &caller); /* not behind refreshes in Redis's queue */
    assert_false(asked->action.more);
    grant(bench, asked, 0);
    expect_load_of(bench, "user");
    expect_refreshs_ask(bench);
    sent_nothing(bench);
    bench_close(bench);
}

/* So many refreshes were refused, and a user asks. */
static struct seen *ask_among_refreshes(struct bench *bench, unsigned count, struct caller *user)
{
    struct seen *asked[8];
    char key[] = "r0";
    bench->config.load_workers = 8;
    bench->config.load_queue = 10;
    bench->policy.stale_ms = 10000;
    bench_open(bench);
    for (unsigned i = 0; i < count; i++, key[1]++) {
        queue_refresh(bench, key);
        asked[i] = expect_refreshs_ask(bench);
    }
    for (unsigned i = 0; i < count; i++)
        refuse(bench, asked[i], PERMIT_MS);
    return ask_for_one(bench, "user", user);
}

TEST(no_more_are_asked_for_as_users_than_users_are_queued)
{
    struct bench *bench = with_permits(state, 8);
    struct caller user;
    struct seen *asked = ask_among_refreshes(bench, 7, &user);
    assert_false(asked->action.more);
    refuse(bench, asked, PERMIT_MS);
    sent_nothing(bench);
    freed(bench, asked);
    struct seen *again = expect_users_ask(bench);
    assert_false(again->action.more);
    freed(bench, asked);
    sent_nothing(bench); /* the refreshes wait until he has his */
    grant(bench, again, 0);
    expect_load_of(bench, "user");
    assert_true(expect_refreshs_ask(bench)->action.more);
    sent_nothing(bench);
    bench_close(bench);
}

/* His permit took this process out of Redis's queue: no message would name it. */
TEST(refreshes_line_up_again_once_the_last_user_has_his_permit)
{
    struct bench *bench = with_permits(state, 8);
    struct caller user;
    struct seen *asked = ask_among_refreshes(bench, 2, &user);
    grant(bench, asked, 0);
    expect_load_of(bench, "user");
    struct seen *refresh = expect_refreshs_ask(bench);
    sent_nothing(bench);
    refuse(bench, refresh, PERMIT_MS);
    sent_nothing(bench); /* once */
    bench_close(bench);
}

TEST(a_user_who_came_while_another_ones_ask_was_under_way_lines_up_for_himself)
{
    struct bench *bench = with_permits(state, 8);
    struct caller users[2];
    struct seen *asked = ask_among_refreshes(bench, 2, &users[0]);
    queue_load(bench, "next", &users[1]);
    sent_nothing(bench);
    grant(bench, asked, 0);
    expect_load_of(bench, "user");
    assert_false(expect_users_ask(bench)->action.more);
    sent_nothing(bench);
    bench_close(bench);
}

TEST(nothing_is_asked_for_refreshes_while_a_users_ask_is_under_way)
{
    struct bench *bench = with_permits(state, 8);
    struct caller user;
    struct seen *asked = ask_among_refreshes(bench, 2, &user);
    freed(bench, asked);
    cancel(bench, &user);
    reply_code(bench, expect(bench, CORE_RELEASE), 1);
    sent_nothing(bench);
    refuse(bench, asked, PERMIT_MS);
    expect_refreshs_ask(bench); /* the message came for it */
    sent_nothing(bench);
    bench_close(bench);
}

/* A user does not wait for the answer to a refresh's ask while there are workers for both. */
TEST(a_user_asks_beside_a_refresh_that_asks)
{
    struct bench *bench = open_with_permits(state);
    struct caller user;
    queue_refresh(bench, "r");
    struct seen *refresh = expect(bench, CORE_PERMIT_ACQUIRE);
    struct seen *asked = ask_for_one(bench, "user", &user);
    reply_kind(bench, refresh, REPLY_UNKNOWN);
    expect_refreshs_ask(bench); /* as it was asked before */
    grant(bench, asked, 0);
    expect_load_of(bench, "user");
    bench_close(bench);
}

TEST(a_refreshs_unanswered_ask_is_repeated_for_the_user_who_came_meanwhile)
{
    struct bench *bench = with_permits(state, 1);
    struct caller user;
    bench->config.load_workers = 1;
    bench->policy.stale_ms = 10000;
    bench_open(bench);
    queue_refresh(bench, "r");
    struct seen *refresh = expect(bench, CORE_PERMIT_ACQUIRE);
    queue_load(bench, "user", &user);
    sent_nothing(bench); /* the only worker has asked */
    reply_kind(bench, refresh, REPLY_UNKNOWN);
    expect_users_ask(bench);
    sent_nothing(bench);
    bench_close(bench);
}

TEST(who_joins_a_queued_refresh_in_vain_makes_it_a_users)
{
    struct bench *bench = open_with_permits(state);
    struct caller caller;
    queue_refresh(bench, "first");
    struct seen *asked = expect(bench, CORE_PERMIT_ACQUIRE);
    queue_refresh(bench, "second");
    struct seen *other = expect(bench, CORE_PERMIT_ACQUIRE);
    refuse(bench, asked, PERMIT_MS);
    refuse(bench, other, PERMIT_MS);
    get(bench, "second", &caller);
    struct seen *peek = expect(bench, CORE_ACQUIRE);
    assert_int_equal(peek->action.lookup, LOOKUP_PEEK);
    sent_nothing(bench);
    reply_busy(bench, peek, 1000); /* the stale value has gone */
    still_waits(&caller);
    asked = expect_users_ask(bench);
    grant(bench, asked, 0);
    expect_load_of(bench, "second");
    bench_close(bench);
}

TEST(who_is_answered_with_the_stale_value_raises_nothing)
{
    struct bench *bench = open_with_permits(state);
    struct caller caller;
    queue_refresh(bench, "k");
    refuse(bench, expect(bench, CORE_PERMIT_ACQUIRE), PERMIT_MS);
    get(bench, "k", &caller);
    reply_stale(bench, expect(bench, CORE_ACQUIRE), TURN_OTHERS, "old");
    answered_value(&caller, "old", GUARD_FROM_STALE);
    sent_nothing(bench);
    bench_close(bench);
}

TEST(a_queued_refresh_gives_its_place_to_a_user_instead_of_his_being_shed)
{
    struct bench *bench = *state;
    struct caller callers[2];
    bench->config.load_workers = 1;
    bench->config.load_queue = 1;
    bench->policy.stale_ms = 10000;
    bench_open(bench);
    struct seen *load = begin_load(bench, "running", &callers[0]);
    queue_refresh(bench, "refreshed");
    sent_nothing(bench);
    get(bench, "user", &callers[1]);
    struct seen *asked = expect(bench, CORE_ACQUIRE);
    assert_int_equal(asked->action.lookup, LOOKUP_PEEK);
    reply_kind(bench, asked, REPLY_FREE);
    struct seen *released = expect(bench, CORE_RELEASE);
    assert_string_equal(released->key, "refreshed");
    asked = expect(bench, CORE_ACQUIRE);
    assert_string_equal(asked->key, "user");
    assert_int_equal(asked->action.lookup, LOOKUP_NORMAL);
    reply_kind(bench, asked, REPLY_LEASE);
    still_waits(&callers[1]);
    assert_int_equal(stats_of(bench).refresh_yielded, 1);
    finish_load(bench, load, "row");
    expect_load_of(bench, "user");
    bench_close(bench);
    guard_value_unref(&callers[0].waiter.result.value);
}

/* It would take the place again, for whoever has joined it. */
TEST(a_refresh_that_somebody_has_joined_gives_its_place_to_nobody)
{
    struct bench *bench = *state;
    struct caller callers[3];
    bench->config.load_workers = 1;
    bench->config.load_queue = 2;
    bench->policy.stale_ms = 10000;
    bench_open(bench);
    begin_load(bench, "running", &callers[0]);
    queue_refresh(bench, "plain");
    queue_refresh(bench, "joined");
    get(bench, "joined", &callers[1]);
    struct seen *peek = expect(bench, CORE_ACQUIRE);
    get(bench, "user", &callers[2]);
    reply_kind(bench, expect(bench, CORE_ACQUIRE), REPLY_FREE);
    assert_string_equal(expect(bench, CORE_RELEASE)->key, "plain");
    assert_string_equal(expect(bench, CORE_ACQUIRE)->key, "user");
    still_waits(&callers[2]);
    reply_stale(bench, peek, TURN_OTHERS, "old");
    answered_value(&callers[1], "old", GUARD_FROM_STALE);
    bench_close(bench);
    guard_value_unref(&callers[0].waiter.result.value);
}

TEST(a_user_gives_no_place_to_a_user)
{
    struct bench *bench = *state;
    struct caller callers[3];
    bench->config.load_workers = 1;
    bench->config.load_queue = 1;
    bench_open(bench);
    begin_load(bench, "running", &callers[0]);
    queue_load(bench, "queued", &callers[1]);
    get(bench, "late", &callers[2]);
    reply_kind(bench, expect(bench, CORE_ACQUIRE), REPLY_FREE);
    answered(&callers[2], GUARD_SHED);
    assert_int_equal(stats_of(bench).refresh_yielded, 0);
    bench_close(bench);
}

TEST(a_refresh_that_queues_for_a_leases_time_gives_its_lease_back)
{
    struct bench *bench = open_with_permits(state);
    queue_refresh(bench, "k");
    refuse(bench, expect(bench, CORE_PERMIT_ACQUIRE), PERMIT_MS);
    uint64_t since_us = bench->now_us;
    while (pass_without_permits(bench, CORE_RELEASE) == NULL)
        assert_true(bench->now_us <= since_us + (uint64_t)bench->policy.lease_ms * BENCH_MS);
    assert_int_equal(stats_of(bench).refresh_yielded, 1);
    assert_int_equal(stats_of(bench).flights, 0);
    bench_close(bench);
}

TEST_GROUP(.before = bench_up);
