/* SPDX-License-Identifier: MIT */
/*
 * core_permits_test.c - the fleet's load permits and which load comes first, in virtual time. See
 * guard/core/permits.h.
 */
#include "core_bench.h"

enum { PERMIT_MS = 3000, TURN_MS = 50, TURN_QUERIES = 8 };

/* Not opened: the test may change more. */
static void with_permits(uint32_t permits)
{
    bench_again();
    bench.config.permits = permits;
    bench.config.permit_ms = PERMIT_MS;
}

/* Two, as many as there are workers, and stale values. */
static void open_with_permits(void)
{
    with_permits(2);
    bench.config.load_queue = 10;
    bench.policy.stale_ms = 10000;
    bench_open();
}

static bool permits_up(void)
{
    bench_up();
    open_with_permits();
    return true;
}

/* Granted; `further` ones are free. */
static void grant(struct seen *acquire, int64_t further)
{
    reply_code(acquire, 1 + further);
}

static void refuse(struct seen *acquire, uint32_t earliest_ms)
{
    reply_code(acquire, -(int64_t)earliest_ms);
}

static void freed(const struct seen *asked)
{
    core_permit_freed(bench.core, bench.now_us, asked->waiter, strlen(asked->waiter));
    drain();
}

/* The next request for a permit, for a user or for a refresh. */
static struct seen *expect_users_request(void)
{
    struct seen *asked = expect(CORE_PERMIT_ACQUIRE);
    assert_false(asked->action.background);
    return asked;
}

static struct seen *expect_refreshs_request(void)
{
    struct seen *asked = expect(CORE_PERMIT_ACQUIRE);
    assert_true(asked->action.background);
    return asked;
}

static struct seen *expect_load_of(const char *key)
{
    struct seen *load = expect(CORE_LOAD);
    assert_string_equal(load->key, key);
    return load;
}

/* A get whose lease is granted: its load is queued. */
static void queue_load(const char *key, struct caller *caller)
{
    get(key, caller);
    reply_kind(expect(CORE_ACQUIRE), REPLY_LEASE);
}

/* The same, and a permit is asked for. */
static struct seen *request_one(const char *key, struct caller *caller)
{
    queue_load(key, caller);
    return expect_users_request();
}

static struct seen *load_with_permit(const char *key, struct caller *caller)
{
    grant(request_one(key, caller), 0);
    return expect(CORE_LOAD);
}

static void finish_load_of(struct seen *load)
{
    loaded(load, "row");
    reply_code(expect(CORE_PERMIT_RELEASE), 1);
    reply_code(expect(CORE_FILL), 1);
}

/* A hit was stale, and its refresh may load. */
static void queue_refresh(const char *key)
{
    refresh_behind(key, (struct core_refresh){.filler = NULL});
    reply_stale(expect(CORE_ACQUIRE), REFRESH_OURS, "old");
}

/* To the next instant for which something is due; permits are refused, all else succeeds. Returns the last command of
 * this kind, or NULL. */
static struct seen *pass_without_permits(enum core_action_kind kind)
{
    struct seen *last = NULL;
    pass_to_next();
    for (struct seen *seen = next_seen(); seen != NULL; seen = next_seen()) {
        reply_code(seen, seen->action.kind == CORE_PERMIT_ACQUIRE ? -PERMIT_MS : 1);
        last = seen->action.kind == kind ? seen : last;
    }
    return last;
}

/* Past the turn of every permit that is out. */
static void end_turns(void)
{
    uint64_t until_us = bench.now_us + TURN_MS * BENCH_MS;
    while (bench.now_us < until_us)
        pass_without_permits(CORE_PERMIT_ACQUIRE);
}

/* A get for no user, as those of guard_refresh(); its lease is granted. */
static void queue_warm_up(const char *key, struct caller *caller)
{
    get_as(key, caller, (struct core_waiter){.refreshes = true});
    reply_kind(expect(CORE_ACQUIRE), REPLY_LEASE);
}

static struct caller caller, outer, inner, user;

/* ---- one permit, one query at a time ---- */

TEST(a_load_starts_once_it_has_lease_and_permit_and_gives_both_back, P49)
{
    struct seen *asked = request_one("k", &caller);
    sent_nothing();
    assert_int_equal(stats_of().permits_waiting, 1);
    assert_int_equal(stats_of().loads_queued, 1);
    assert_false(asked->action.more);
    grant(asked, 0);
    struct seen *load = expect(CORE_LOAD);
    assert_string_equal(load->permit, asked->token);
    assert_int_equal(stats_of().permits_held, 1);
    assert_int_equal(stats_of().permits_waiting, 0);
    loaded(load, "row");
    struct seen *released = expect(CORE_PERMIT_RELEASE);
    assert_string_equal(released->token, asked->token);
    assert_int_equal(stats_of().permits_held, 0);
    reply_code(expect(CORE_FILL), 1);
    answered_value(&caller, "row", GUARD_FROM_LOAD);
    reply_code(released, 1);
    sent_nothing();
}

TEST(a_load_that_fails_gives_its_permit_back)
{
    struct seen *load = load_with_permit("k", &caller);
    load_fails(load, GUARD_FAILURE_UNAVAILABLE);
    assert_string_equal(expect(CORE_PERMIT_RELEASE)->token, load->permit);
    expect(CORE_RELEASE);
}

TEST(no_permit_is_asked_for_without_a_fleet_or_a_limit)
{
    for (int which = 0; which < 4; which++) {
        bench_again();
        bench.config.permits = which == 0 ? 0 : 2;
        bench.config.permit_ms = PERMIT_MS;
        bench.config.mode = which == 1 ? GUARD_MODE_LOCAL : which == 2 ? GUARD_MODE_OFF : GUARD_MODE_FLEET;
        bench.config.without_redis = which == 3;
        bench_open();
        get("k", &caller);
        if (which != 3)
            reply_kind(expect(CORE_ACQUIRE), REPLY_LEASE);
        loaded(expect(CORE_LOAD), "row");
        assert_int_equal(stats_of().permit_spared, 0);
        if (which != 3)
            reply_code(expect(CORE_FILL), 1);
        sent_nothing();
        answered_value(&caller, "row", GUARD_FROM_LOAD);
    }
}

TEST(a_batch_takes_one_permit_and_keeps_it_to_its_last_load)
{
    with_permits(1);
    static struct caller callers[2];
    bench.policy.batch_loader = (guard_batch_loader *)(uintptr_t)1;
    bench.policy.batch_max = 8;
    bench_open();
    get_of_many("a", &callers[0]);
    get_of_many("b", &callers[1]);
    struct seen *first = expect(CORE_ACQUIRE), *second = expect(CORE_ACQUIRE);
    reply_kind(first, REPLY_LEASE);
    struct seen *asked = expect(CORE_PERMIT_ACQUIRE);
    reply_kind(second, REPLY_LEASE);
    grant(asked, 0);
    sent_nothing();
    turn_over();
    struct seen *loads[] = {expect(CORE_LOAD), expect(CORE_LOAD)};
    assert_true(loads[0]->action.batch != 0 && loads[0]->action.batch == loads[1]->action.batch);
    assert_string_equal(loads[0]->permit, loads[1]->permit);
    sent_nothing();
    loaded(loads[0], "row");
    expect(CORE_FILL);
    sent_nothing();
    loaded(loads[1], "row");
    assert_string_equal(expect(CORE_PERMIT_RELEASE)->token, asked->token);
}

/* All that wait for it leave together when it comes, and none asks for another one. */
TEST(single_gets_that_wait_for_a_permit_are_one_query_under_it, P94)
{
    with_permits(1);
    static struct caller callers[3];
    static const char *const names[] = {"a", "b", "c"};
    bench.policy.batch_loader = (guard_batch_loader *)(uintptr_t)1;
    bench.config.max_loads = 8;
    bench_open();
    struct seen *asked = request_one(names[0], &callers[0]), *loads[3];
    refuse(asked, PERMIT_MS);
    for (int i = 1; i < 3; i++)
        queue_load(names[i], &callers[i]);
    sent_nothing();
    freed(asked);
    grant(expect_users_request(), 0);
    for (int i = 0; i < 3; i++) {
        loads[i] = expect_load_of(names[i]);
        assert_int_equal(loads[i]->action.batch, loads[0]->action.batch);
        assert_string_equal(loads[i]->permit, loads[0]->permit);
    }
    sent_nothing();
    for (int i = 0; i < 3; i++) {
        loaded(loads[i], "row");
        if (i == 2)
            assert_string_equal(expect(CORE_PERMIT_RELEASE)->token, loads[0]->permit);
        reply_code(expect(CORE_FILL), 1);
        answered_value(&callers[i], "row", GUARD_FROM_LOAD);
    }
    sent_nothing();
}

/* Two keys are a query: the third one is the first that needs another permit, expected as well as queued. */
TEST(as_many_are_asked_for_as_there_are_full_queries)
{
    with_permits(4);
    static struct caller callers[5];
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    bench.policy.batch_loader = (guard_batch_loader *)(uintptr_t)1;
    bench.policy.batch_max = 2;
    bench.config.max_loads = 8;
    bench_open();
    struct seen *acquires[5], *asked[3];
    for (int i = 0; i < 5; i++) {
        get(names[i], &callers[i]);
        acquires[i] = expect(CORE_ACQUIRE);
        if (i % 2 == 0)
            asked[i / 2] = expect_users_request();
        sent_nothing();
    }
    for (int i = 0; i < 5; i++)
        reply_kind(acquires[i], REPLY_LEASE);
    sent_nothing();
    for (int i = 0; i < 3; i++)
        grant(asked[i], 0);
    for (int i = 0; i < 5; i++) {
        struct seen *load = expect_load_of(names[i]);
        assert_string_equal(load->permit, asked[i / 2]->token);
    }
    sent_nothing();
}

/* Redis has one permit. The next load, or NULL; *out: the permit is. */
static struct seen *next_load(bool *out)
{
    for (struct seen *seen = next_seen(); seen != NULL; seen = next_seen()) {
        if (seen->action.kind == CORE_LOAD)
            return seen;
        bool asks = seen->action.kind == CORE_PERMIT_ACQUIRE, refused = asks && *out;
        *out = asks || (*out && seen->action.kind != CORE_PERMIT_RELEASE);
        reply_code(seen, refused ? -PERMIT_MS : 1);
    }
    return NULL;
}

TEST(the_next_permit_goes_where_the_worker_would, P95)
{
    static const char *const order[] = {"t0", "s0", "t1", "s1"};
    with_permits(1);
    static struct caller first, callers[4];
    bool out = true;
    bench.config.load_queue = 10;
    bench.policy.batch_loader = (guard_batch_loader *)(uintptr_t)1;
    bench.policy.batch_max = 1;
    bench_open();
    struct seen *load = load_with_permit("first", &first);
    for (int i = 0; i < 4; i++) {
        (i < 2 ? get : get_of_many)(order[i < 2 ? 2 * i + 1 : 2 * i - 4], &callers[i]);
        reply_kind(expect(CORE_ACQUIRE), REPLY_LEASE);
        assert_null(next_load(&out));
        if (i >= 2)
            turn_over();
    }
    for (int i = 0; i < 4; i++) {
        loaded(load, "row");
        load = next_load(&out);
        assert_non_null(load);
        assert_string_equal(load->key, order[i]);
    }
}

TEST(a_nested_load_needs_no_permit, P49)
{
    struct seen *load = load_with_permit("outer", &outer);
    get_nested("inner", &inner, load, 1000);
    struct seen *nested = lease(expect(CORE_ACQUIRE));
    assert_int_equal(nested->action.lender, load->action.load);
    finish_load(nested, "row");
    sent_nothing();
    answered_value(&inner, "row", GUARD_FROM_LOAD);
    loaded(load, "row");
    expect(CORE_PERMIT_RELEASE);
}

/* Whose lease that is may be waiting for the very permit that the outer load holds. */
TEST(a_nested_load_holds_its_permit_only_briefly_for_another_process)
{
    struct seen *load = load_with_permit("outer", &outer), *next = NULL;
    const uint64_t began_us = bench.now_us;
    get_nested("inner", &inner, load, 10000);
    for (int i = 0; i < 100 && next == NULL; i++) {
        struct seen *seen = next_seen();
        if (seen == NULL) {
            pass_to_next();
        } else if (seen->action.kind == CORE_LOAD) {
            next = seen;
        } else {
            assert_int_equal(seen->action.kind, CORE_ACQUIRE);
            reply_busy(seen, 3000);
        }
    }
    assert_non_null(next);
    assert_in_range(bench.now_us - began_us, 1, 300000);
    loaded_for(next, "row", &inner, GUARD_FROM_LOAD);
    loaded(load, "row");
    expect(CORE_PERMIT_RELEASE);
}

/* ---- beside the lease ---- */

TEST(a_permit_is_requested_beside_the_lease, P49)
{
    get("k", &caller);
    struct seen *acquire = expect(CORE_ACQUIRE), *asked = expect_users_request();
    assert_int_equal(stats_of().permits_waiting, 0); /* no load does */
    reply_kind(acquire, REPLY_LEASE);
    grant(asked, 0);
    assert_string_equal(expect_load_of("k")->permit, asked->token);
    sent_nothing();
}

TEST(a_permit_whose_load_is_anothers_goes_back, P49)
{
    static struct caller callers[2];
    get("granted", &callers[0]);
    struct seen *acquire = expect(CORE_ACQUIRE), *asked = expect_users_request();
    grant(asked, 0);
    reply_busy(acquire, 1000);
    assert_string_equal(expect(CORE_PERMIT_RELEASE)->token, asked->token);
    acquire = lookup_of("refused", &callers[1]);
    refuse(expect_users_request(), PERMIT_MS);
    reply_busy(acquire, 1000);
    assert_string_equal(expect(CORE_PERMIT_RELEASE)->token, ""); /* its place in the queue */
    sent_nothing();
}

TEST(who_looks_again_requests_no_permit_before_it_has_the_lease)
{
    struct seen *acquire = lookup_of("k", &caller);
    grant(expect_users_request(), 0);
    reply_busy(acquire, 1000);
    expect(CORE_PERMIT_RELEASE);
    pass_to_next();
    acquire = expect(CORE_ACQUIRE);
    sent_nothing();
    reply_kind(acquire, REPLY_LEASE);
    expect_users_request();
}

/* ---- a turn ---- */

static void open_with_one_permit(void)
{
    with_permits(1);
    bench.config.load_queue = 20;
    bench.policy.stale_ms = 10000;
    bench_open();
}

TEST(a_permit_passes_to_users_of_its_process_for_a_turn, P48)
{
    static char keys[TURN_QUERIES + 1][8];
    static struct caller callers[TURN_QUERIES + 1];
    open_with_one_permit();
    struct seen *load = load_with_permit("0", &callers[0]);
    char *token = load->permit;
    for (int i = 1; i <= TURN_QUERIES; i++) {
        snprintf(keys[i], sizeof keys[i], "%d", i);
        queue_load(keys[i], &callers[i]);
        if (i == 1)
            refuse(expect_users_request(), PERMIT_MS);
    }
    for (int i = 1; i < TURN_QUERIES; i++) {
        loaded(load, "row");
        expect(CORE_FILL);
        load = expect_load_of(keys[i]);
        assert_string_equal(load->permit, token);
        sent_nothing();
    }
    loaded(load, "row");
    assert_string_equal(expect(CORE_PERMIT_RELEASE)->token, token);
    expect(CORE_FILL);
    assert_string_not_equal(expect_users_request()->token, token);
}

TEST(a_refresh_has_no_turn)
{
    open_with_one_permit();
    struct seen *load = load_with_permit("a", &caller);
    queue_refresh("b");
    refuse(expect_refreshs_request(), PERMIT_MS);
    loaded(load, "row");
    expect(CORE_PERMIT_RELEASE);
    expect(CORE_FILL);
    expect_refreshs_request();
}

TEST(a_permit_that_was_lost_has_no_turn, P48)
{
    for (int runs_out = 0; runs_out < 2; runs_out++) {
        static struct caller callers[2];
        with_permits(1);
        bench.config.permit_ms = 30;
        bench_open();
        struct seen *load = load_with_permit("a", &callers[0]);
        queue_load("b", &callers[1]);
        refuse(expect_users_request(), 1000);
        if (runs_out == 0) {
            pass(10);
            reply_code(expect(CORE_PERMIT_RENEW), 0);
        } else {
            bench.now_us += 30 * BENCH_MS;
        }
        loaded(load, "row");
        if (runs_out == 1)
            expect(CORE_FILL);
        expect(CORE_PERMIT_RELEASE);
    }
}

/* ---- waiting ---- */

TEST(a_refused_process_requests_again_when_a_message_names_it)
{
    struct seen *asked = request_one("k", &caller);
    refuse(asked, PERMIT_MS);
    sent_nothing();
    core_permit_freed(bench.core, bench.now_us, "another one..", 13);
    drain();
    sent_nothing();
    freed(asked);
    struct seen *again = expect(CORE_PERMIT_ACQUIRE);
    assert_string_not_equal(again->token, asked->token);
    assert_string_equal(again->waiter, asked->waiter);
    grant(again, 0);
    expect(CORE_LOAD);
    assert_int_equal(stats_of().permit_refused, 1);
    assert_int_equal(stats_of().permit_granted, 1);
}

/* Meanwhile the lease goes on being renewed. */
static struct seen *await_next_ask(void)
{
    struct seen *seen = next_seen();
    for (; seen == NULL || seen->action.kind == CORE_RENEW; seen = next_seen()) {
        if (seen == NULL)
            pass_to_next();
        else
            reply_code(seen, 1);
    }
    assert_int_equal(seen->action.kind, CORE_PERMIT_ACQUIRE);
    return seen;
}

TEST(a_lost_message_costs_a_poll_that_grows_to_half_a_second)
{
    enum { FIRST_US = 20000, MOST_US = 500000, POLLS = 12 }; /* each half of that more or less */
    struct seen *asked = request_one("k", &caller);
    for (int poll = 1; poll <= POLLS; poll++) {
        uint64_t since_us = bench.now_us;
        refuse(asked, PERMIT_MS);
        asked = await_next_ask();
        uint64_t waited_us = bench.now_us - since_us;
        assert_in_range(waited_us, poll == POLLS ? MOST_US / 2 : 1,
                        poll == 1 ? FIRST_US * 3 / 2 : MOST_US * 3 / 2);
    }
    grant(asked, 0);
    expect(CORE_LOAD);
}

TEST(the_end_of_a_dead_holders_permit_is_not_slept_through)
{
    refuse(request_one("k", &caller), 3);
    pass(3 + 5); /* before the shortest poll */
    grant(expect(CORE_PERMIT_ACQUIRE), 1);
    expect(CORE_LOAD);
    sent_nothing();
}

TEST(a_load_that_waits_longer_than_the_hold_limit_is_shed_and_leaves_the_queue)
{
    with_permits(1);
    bench.policy.max_hold_ms = 3500;
    bench_open();
    refuse(request_one("k", &caller), PERMIT_MS);
    struct seen *left = NULL;
    while (caller.answers == 0 || left == NULL) {
        struct seen *released = pass_without_permits(CORE_PERMIT_RELEASE);
        left = released != NULL ? released : left;
    }
    answered(&caller, GUARD_SHED);
    assert_string_equal(left->token, "");
}

TEST(as_many_are_asked_for_as_there_are_workers_and_the_rest_in_turn)
{
    open_with_permits(); /* two workers */
    static struct caller callers[5];
    struct seen *first = request_one("a", &callers[0]);
    struct seen *second = request_one("b", &callers[1]);
    queue_load("c", &callers[2]);
    queue_load("d", &callers[3]);
    queue_load("e", &callers[4]);
    sent_nothing();
    grant(first, 0);
    struct seen *load = expect(CORE_LOAD);
    refuse(second, PERMIT_MS);
    sent_nothing();
    end_turns();
    loaded(load, "row");
    expect(CORE_PERMIT_RELEASE);
    expect(CORE_FILL);
    struct seen *next = expect(CORE_PERMIT_ACQUIRE); /* behind its own release, and only one */
    assert_true(next->action.more);
    sent_nothing();
    grant(next, 1);
    expect_load_of("b");         /* the oldest */
    expect(CORE_PERMIT_ACQUIRE); /* the reply said that one more is free */
    sent_nothing();
}

/* ---- renewal, loss, unknown outcomes ---- */

TEST(a_permit_is_renewed_at_a_third_while_its_load_runs)
{
    bench.policy.load_limit_ms = bench.policy.max_hold_ms;
    struct seen *load = load_with_permit("k", &caller);
    unsigned renewed = 0;
    for (uint32_t ms = 0; ms < 2 * PERMIT_MS; ms += 100) {
        pass(100);
        for (struct seen *seen = next_seen(); seen != NULL; seen = next_seen()) {
            assert_true(seen->action.kind == CORE_RENEW || seen->action.kind == CORE_PERMIT_RENEW);
            if (seen->action.kind == CORE_PERMIT_RENEW)
                assert_string_equal(seen->token, load->permit);
            renewed += seen->action.kind == CORE_PERMIT_RENEW;
            reply_code(seen, 1);
        }
    }
    assert_in_range(renewed, 5, 6);
    assert_int_equal(stats_of().permit_lost, 0);
}

TEST(a_lost_permit_is_counted_once_and_its_load_goes_on)
{
    bench.policy.lease_ms = bench.policy.max_hold_ms = 60000;
    struct seen *load = load_with_permit("k", &caller);
    pass(PERMIT_MS / 3);
    reply_code(expect(CORE_PERMIT_RENEW), 0);
    assert_int_equal(stats_of().permit_lost, 1);
    assert_int_equal(stats_of().permits_held, 1);
    sent_nothing();
    pass(PERMIT_MS / 3);
    reply_code(expect(CORE_PERMIT_RENEW), 1);
    assert_int_equal(stats_of().permit_lost, 1);
    finish_load_of(load);
    answered_value(&caller, "row", GUARD_FROM_LOAD);
}

TEST(unanswered_renewals_lose_it_at_the_end_of_its_validity)
{
    bench.policy.lease_ms = bench.policy.max_hold_ms = 60000;
    struct seen *load = load_with_permit("k", &caller);
    pass(PERMIT_MS / 3);
    reply_kind(expect(CORE_PERMIT_RENEW), REPLY_UNKNOWN);
    pass(PERMIT_MS / 3);
    expect(CORE_PERMIT_RENEW);
    pass(PERMIT_MS / 3 - 1);
    assert_int_equal(stats_of().permit_lost, 0);
    pass(1);
    assert_int_equal(stats_of().permit_lost, 1);
    finish_load_of(load);
    answered_value(&caller, "row", GUARD_FROM_LOAD);
}

TEST(a_new_link_renews_what_is_held_at_once)
{
    load_with_permit("k", &caller);
    core_link(bench.core, bench.now_us, 0, false);
    core_link(bench.core, bench.now_us, 0, true);
    pass(0);
    expect(CORE_PERMIT_RENEW);
}

TEST(an_unanswered_acquire_is_asked_again_with_its_token_then_done_without)
{
    struct seen *asked = request_one("k", &caller);
    reply_kind(asked, REPLY_UNKNOWN);
    struct seen *again = expect(CORE_PERMIT_ACQUIRE);
    assert_string_equal(again->token, asked->token);
    assert_true(again->action.op != asked->action.op);
    reply_kind(again, REPLY_UNSENT);
    struct seen *released = expect(CORE_PERMIT_RELEASE); /* it may have run */
    assert_string_equal(released->token, asked->token);
    struct seen *load = expect(CORE_LOAD);
    assert_string_equal(load->permit, "");
    assert_int_equal(stats_of().permit_spared, 1);
    loaded(load, "row");
    reply_code(expect(CORE_PERMIT_RELEASE), 0); /* of a place in the queue */
    reply_code(expect(CORE_FILL), 1);
    answered_value(&caller, "row", GUARD_FROM_LOAD);
    sent_nothing();
}

TEST(a_script_that_is_refused_or_whose_keys_move_costs_no_load)
{
    static const enum core_reply_kind KINDS[] = {REPLY_REFUSED, REPLY_MOVING};
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
        open_with_permits();
        reply_kind(request_one("k", &caller), KINDS[i]);
        struct seen *load = expect(CORE_LOAD);
        assert_string_equal(load->permit, "");
        sent_nothing(); /* nothing ran, nothing is given back */
        assert_int_equal(stats_of().permit_spared, 1);
    }
}

TEST(while_the_breaker_is_open_loads_start_without)
{
    static struct caller callers[2];
    refuse(request_one("a", &callers[0]), PERMIT_MS);
    sent_nothing();
    reply_kind(lookup_of("b", &callers[1]), REPLY_UNKNOWN);
    reply_kind(expect(CORE_ACQUIRE), REPLY_UNKNOWN);
    /* bypassed: asks for a permit, too, while it may */
    pass(100);
    struct seen *poll = expect(CORE_PERMIT_ACQUIRE);
    reply_kind(poll, REPLY_UNKNOWN); /* the third in a row */
    expect(CORE_PERMIT_RELEASE);
    expect(CORE_LOAD);
    expect(CORE_LOAD);
    assert_int_equal(stats_of().permit_spared, 2);
    assert_true(stats_of().breaker_open);
}

/* We were stopped, and hear of both at once. */
TEST(a_permit_that_ran_out_is_not_used_when_redis_goes)
{
    struct seen *acquire = lookup_of("k", &caller);
    grant(expect_users_request(), 0);
    static struct core_invalidation invalidation = {.key = {"x", 1, "x", 1}, .deadline_us = UINT64_MAX};
    assert_int_equal(core_invalidate(bench.core, bench.now_us, &invalidation), GUARD_OK);
    drain();
    for (int i = 0; i < 2; i++) {
        reply_kind(expect(CORE_INVALIDATE), REPLY_UNKNOWN);
        pass_to_next();
    }
    expect(CORE_INVALIDATE);
    bench.now_us += PERMIT_MS * BENCH_MS;
    reply_kind(acquire, REPLY_UNKNOWN);
    assert_true(stats_of().breaker_open);
    expect(CORE_PERMIT_RELEASE);
    assert_string_equal(expect(CORE_LOAD)->permit, "");
}

TEST(closing_gives_back_what_is_held_and_leaves_the_queue)
{
    static struct caller callers[2];
    struct seen *load = load_with_permit("a", &callers[0]);
    refuse(request_one("b", &callers[1]), PERMIT_MS);
    close_core();
    expect_given_up();
    reply_code(expect(CORE_RELEASE), 1);
    struct seen *left = expect(CORE_PERMIT_RELEASE);
    assert_string_equal(left->token, "");
    reply_code(left, 0);
    assert_false(core_idle(bench.core));
    load_fails(load, GUARD_FAILURE_UNAVAILABLE);
    struct seen *released = expect(CORE_PERMIT_RELEASE);
    assert_string_equal(released->token, load->permit);
    for (int i = 0; i < 2; i++) { /* repeated, but not for ever */
        reply_kind(released, REPLY_UNSENT);
        released = expect(CORE_PERMIT_RELEASE);
        assert_false(core_idle(bench.core));
    }
    reply_kind(released, REPLY_UNSENT);
    at_rest();
}

/* ---- users come first ---- */

/* So many refreshes were refused, and a user asks. */
static struct seen *ask_among_refreshes(unsigned count, struct caller *asking)
{
    struct seen *asked[8];
    char key[] = "r0";
    bench.policy.stale_ms = 10000;
    bench_open_with(8, 10);
    for (unsigned i = 0; i < count; i++, key[1]++) {
        queue_refresh(key);
        asked[i] = expect_refreshs_request();
    }
    for (unsigned i = 0; i < count; i++)
        refuse(asked[i], PERMIT_MS);
    return request_one("user", asking);
}

TEST(no_more_are_asked_for_as_users_than_users_are_queued)
{
    with_permits(8);
    struct seen *asked = ask_among_refreshes(7, &user);
    assert_false(asked->action.more);
    refuse(asked, PERMIT_MS);
    sent_nothing();
    freed(asked);
    struct seen *again = expect_users_request();
    assert_false(again->action.more);
    freed(asked);
    sent_nothing(); /* the refreshes wait until the user has its permit */
    grant(again, 0);
    expect_load_of("user");
    assert_true(expect_refreshs_request()->action.more);
    sent_nothing();
}

/* The user's permit took this process out of Redis's queue: no message would name it. */
TEST(refreshes_line_up_again_once_the_last_user_has_his_permit)
{
    with_permits(8);
    struct seen *asked = ask_among_refreshes(2, &user);
    grant(asked, 0);
    expect_load_of("user");
    struct seen *refresh = expect_refreshs_request();
    sent_nothing();
    refuse(refresh, PERMIT_MS);
    sent_nothing(); /* once */
}

TEST(nothing_is_asked_for_refreshes_while_a_users_ask_is_under_way)
{
    with_permits(8);
    struct seen *asked = ask_among_refreshes(2, &user);
    freed(asked);
    cancel(&user);
    reply_code(expect(CORE_RELEASE), 1);
    sent_nothing();
    refuse(asked, PERMIT_MS);
    expect_refreshs_request(); /* the message came for it */
    sent_nothing();
}

/* A user does not wait for the answer to a refresh's ask while there are workers for both. */
TEST(a_user_asks_beside_a_refresh_that_asks)
{
    queue_refresh("r");
    struct seen *refresh = expect(CORE_PERMIT_ACQUIRE);
    struct seen *asked = request_one("user", &user);
    reply_kind(refresh, REPLY_UNKNOWN);
    expect_refreshs_request(); /* as it was asked before */
    grant(asked, 0);
    expect_load_of("user");
}

TEST(an_unanswered_request_for_a_refresh_is_repeated_for_the_user_that_came_meanwhile)
{
    with_permits(1);
    bench.config.max_loads = 1;
    bench.policy.stale_ms = 10000;
    bench_open();
    queue_refresh("r");
    struct seen *refresh = expect(CORE_PERMIT_ACQUIRE);
    queue_load("user", &user);
    sent_nothing(); /* the only worker has asked */
    reply_kind(refresh, REPLY_UNKNOWN);
    expect_users_request();
    sent_nothing();
}

TEST(a_waiter_that_joins_a_queued_refresh_in_vain_makes_it_a_users)
{
    queue_refresh("first");
    struct seen *asked = expect(CORE_PERMIT_ACQUIRE);
    queue_refresh("second");
    struct seen *other = expect(CORE_PERMIT_ACQUIRE);
    refuse(asked, PERMIT_MS);
    refuse(other, PERMIT_MS);
    struct seen *peek = lookup_of("second", &caller);
    assert_int_equal(peek->action.lookup, LOOKUP_PEEK);
    sent_nothing();
    reply_busy(peek, 1000); /* the stale value has gone */
    still_waits(&caller);
    asked = expect_users_request();
    grant(asked, 0);
    expect_load_of("second");
}

TEST_GROUP(.before = permits_up, .end = bench_close);

/* A warm-up is a get that only refreshes. */
TEST(a_user_that_joins_a_queued_warm_up_makes_it_a_users, P157)
{
    static struct caller warming[2];
    open_with_permits();
    queue_warm_up("first", &warming[0]);
    refuse(expect_refreshs_request(), PERMIT_MS);
    queue_warm_up("hot", &warming[1]);
    sent_nothing();
    get("hot", &user);
    grant(expect_users_request(), 0);
    expect_load_of("hot");
    still_waits(&warming[0]);
}

TEST(a_warm_up_whose_user_has_left_is_a_refresh_again)
{
    static struct caller running, warming[2], users[2];
    bench_open_with(1, 3);
    struct seen *load = begin_load("running", &running);
    queue_warm_up("left", &warming[0]);
    get("left", &users[0]);
    queue_warm_up("hot", &warming[1]);
    queue_load("user", &users[1]);
    cancel(&users[0]);
    get("hot", &user);
    finish_load(load, "row");
    load = expect_load_of("user"); /* they have waited in this order */
    finish_load(load, "row");
    load = expect_load_of("hot");
    still_waits(&warming[0]);
    finish_load(load, "row");
    finish_load(expect_load_of("left"), "row");
    answered(&warming[0], GUARD_OK);
}

TEST(a_waiter_answered_with_the_stale_value_promotes_nothing)
{
    open_with_permits();
    queue_refresh("k");
    refuse(expect(CORE_PERMIT_ACQUIRE), PERMIT_MS);
    reply_stale(lookup_of("k", &caller), REFRESH_OTHERS, "old");
    answered_value(&caller, "old", GUARD_FROM_STALE);
    sent_nothing();
}

TEST(a_queued_refresh_gives_its_place_to_a_user_instead_of_his_being_shed, P157)
{
    static struct caller callers[2];
    bench.policy.stale_ms = 10000;
    bench_open_with(1, 1);
    struct seen *load = begin_load("running", &callers[0]);
    queue_refresh("refreshed");
    sent_nothing();
    struct seen *asked = lookup_of("user", &callers[1]);
    assert_int_equal(asked->action.lookup, LOOKUP_PEEK);
    reply_kind(asked, REPLY_FREE);
    struct seen *released = expect(CORE_RELEASE);
    assert_string_equal(released->key, "refreshed");
    asked = expect(CORE_ACQUIRE);
    assert_string_equal(asked->key, "user");
    assert_int_equal(asked->action.lookup, LOOKUP_NORMAL);
    reply_kind(asked, REPLY_LEASE);
    still_waits(&callers[1]);
    assert_int_equal(stats_of().refresh_yielded, 1);
    finish_load(load, "row");
    expect_load_of("user");
}

/* It was queued for a user that has had the stale value since. */
TEST(a_queued_refresh_whose_user_has_left_gives_its_place_to_a_user)
{
    static struct caller callers[3];
    enum { SOFT_MS = 50 };
    bench.policy.stale_ms = 10000;
    bench_open_with(1, 1);
    struct seen *load = begin_load("running", &callers[0]);
    bench.policy.soft_ms = SOFT_MS;
    const struct core_reply stale = {
        .kind = REPLY_STALE, .refresher = REFRESH_OURS, .age_ms = 70, .pttl_ms = 3000};
    reply_value(lookup_of("refreshed", &callers[1]), stale, "old");
    still_waits(&callers[1]);
    pass(SOFT_MS);
    answered_value(&callers[1], "old", GUARD_FROM_STALE);
    reply_kind(lookup_of("user", &callers[2]), REPLY_FREE);
    assert_string_equal(expect(CORE_RELEASE)->key, "refreshed");
    reply_kind(expect(CORE_ACQUIRE), REPLY_LEASE);
    still_waits(&callers[2]);
    assert_int_equal(stats_of().refresh_yielded, 1);
    finish_load(load, "row");
    expect_load_of("user");
}

/* It would take the place again, for its waiter. */
TEST(a_refresh_with_a_waiter_keeps_its_place)
{
    static struct caller callers[3];
    bench.policy.stale_ms = 10000;
    bench_open_with(1, 2);
    begin_load("running", &callers[0]);
    queue_refresh("plain");
    queue_refresh("joined");
    struct seen *peek = lookup_of("joined", &callers[1]);
    reply_kind(lookup_of("user", &callers[2]), REPLY_FREE);
    assert_string_equal(expect(CORE_RELEASE)->key, "plain");
    assert_string_equal(expect(CORE_ACQUIRE)->key, "user");
    still_waits(&callers[2]);
    reply_stale(peek, REFRESH_OTHERS, "old");
    answered_value(&callers[1], "old", GUARD_FROM_STALE);
}

TEST(a_refresh_that_queues_for_a_leases_time_gives_its_lease_back)
{
    open_with_permits();
    queue_refresh("k");
    refuse(expect(CORE_PERMIT_ACQUIRE), PERMIT_MS);
    uint64_t since_us = bench.now_us;
    while (pass_without_permits(CORE_RELEASE) == NULL)
        assert_true(bench.now_us <= since_us + (uint64_t)bench.policy.lease_ms * BENCH_MS);
    assert_int_equal(stats_of().refresh_yielded, 1);
    assert_int_equal(stats_of().flights, 0);
}

/* A user of another process may be waiting for that lease. */
TEST(a_warm_up_that_queues_for_a_leases_time_gives_its_lease_back_unless_a_user_waits, P157)
{
    for (int joined = 0; joined < 2; joined++) {
        static struct caller warming;
        open_with_permits();
        bench.policy.stale_ms = 0;
        queue_warm_up("k", &warming);
        refuse(expect_refreshs_request(), PERMIT_MS);
        if (joined) {
            get("k", &user);
            refuse(expect_users_request(), PERMIT_MS);
        }
        uint64_t until_us = bench.now_us + (uint64_t)(bench.policy.lease_ms + 1) * BENCH_MS;
        struct seen *released = NULL;
        while (released == NULL && core_next_us(bench.core) <= until_us)
            released = pass_without_permits(CORE_RELEASE);
        assert_true((released != NULL) == !joined);
        if (!joined)
            answered(&warming, GUARD_SHED);
        else
            still_waits(&warming);
    }
}

TEST_GROUP(.before = bench_up, .end = bench_close);
