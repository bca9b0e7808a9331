/* SPDX-License-Identifier: MIT */
/*
 * core_watch_test.c - what can be watched of a core: which load made an answer, what is counted for which kind, and
 * what is told as it happens.
 */
#include "core_bench.h"
#include "guard/base/load_id.h"

enum { KINDS = 3, TOLD_MAX = 16, MS = 1000 };

static struct told {
    struct guard_event event;
    char key[32];
    unsigned kind;
} told[TOLD_MAX];
static size_t told_first, told_count;

static void note_event(void *context, const struct guard_event *event, unsigned kind)
{
    (void)context;
    assert_true(told_count < TOLD_MAX);
    struct told *at = &told[told_count++];
    *at = (struct told){.event = *event, .kind = kind};
    snprintf(at->key, sizeof at->key, "%s", event->key);
}

/* Each kind is a policy of its own. */
static struct guard_policy policies[KINDS];

static unsigned kind_of(void *context, const struct guard_policy *policy)
{
    (void)context;
    return policy == &bench.policy ? 0 : (unsigned)(policy - policies);
}

static bool watch_up(void)
{
    bench_up();
    bench.config.kind_of = kind_of;
    bench.config.kinds = KINDS;
    bench.config.tell = note_event;
    for (size_t i = 0; i < KINDS; i++)
        policies[i] = bench.policy;
    told_first = told_count = 0;
    bench_open();
    return true;
}

/* The next event, of a load or a key of kind 0. */
static const struct guard_event *expect_event(enum guard_event_what what, const char *key)
{
    assert_true(told_first < told_count);
    const struct told *next = &told[told_first++];
    assert_int_equal(next->event.what, what);
    assert_string_equal(next->key, key);
    assert_null(next->event.kind);
    assert_int_equal(next->kind, what == GUARD_EVENT_INVALIDATED ? CORE_NO_KIND : 0);
    return &next->event;
}

static void told_nothing(void)
{
    assert_int_equal(told_first, told_count);
}

static void get_of_kind(unsigned kind, const char *key, struct caller *caller)
{
    struct core_key core_key = {key, strlen(key), key, strlen(key)};
    *caller = (struct caller){.waiter.start_us = bench.now_us};
    caller->accepted = core_get(bench.core, bench.now_us, &core_key, &policies[kind], &caller->waiter,
                                bench.now_us + 1000 * MS);
    bench.accepted_count += caller->accepted == GUARD_OK;
    drain();
}

static struct caller leader, other, fresh, stale, later, caller, one, two;

/* ---- which load it was ---- */

TEST(a_load_is_called_by_the_token_of_its_lease_and_its_answers_say_so, P159)
{
    struct seen *acquire = lookup_of("k", &leader);
    get("k", &other);
    uint64_t id = load_id_of_uuid(acquire->token);
    struct seen *load = lease(acquire);
    assert_true(id != 0 && load->action.load == id);
    finish_load(load, "row");
    assert_true(leader.waiter.result.load == id);
    assert_true(other.waiter.result.load == id);
    answered_value(&leader, "row", GUARD_FROM_LOAD);
    answered_value(&other, "row", GUARD_FROM_FLIGHT);
}

TEST(an_entry_that_was_found_names_its_filler)
{
    static const char FILLER[] = "0123abcd-4567-4fed-8000-000000000000";
    reply_value(lookup_of("k", &fresh),
                (struct core_reply){.kind = REPLY_FRESH, .left_ms = 9, .head = FILLER}, "row");
    assert_true(fresh.waiter.result.load == UINT64_C(0x0123abcd45674fed));
    answered_value(&fresh, "row", GUARD_FROM_CACHE);
    reply_value(lookup_of("s", &stale),
                (struct core_reply){.kind = REPLY_STALE, .refresher = REFRESH_COOLING, .head = FILLER},
                "row");
    assert_true(stale.waiter.result.load == UINT64_C(0x0123abcd45674fed));
    answered_value(&stale, "row", GUARD_FROM_STALE);
}

TEST(without_a_lease_a_load_has_a_name_of_its_own)
{
    static struct caller first, second;
    struct seen *acquire = lookup_of("a", &first);
    reply_kind(acquire, REPLY_REFUSED);
    struct seen *load = expect(CORE_LOAD);
    assert_true(load->action.load != load_id_of_uuid(acquire->token));
    loaded(load, "row");
    assert_true(first.waiter.result.load == load->action.load && load->action.load != 0);
    answered_value(&first, "row", GUARD_FROM_LOAD);
    reply_kind(lookup_of("a", &second), REPLY_REFUSED);
    struct seen *next = expect(CORE_LOAD);
    assert_true(next->action.load != 0 && next->action.load != load->action.load);
    load_fails(next, GUARD_FAILURE_REJECTED);
    assert_true(second.waiter.result.load == next->action.load);
    get("a", &first); /* the failure is remembered here */
    answered_from(&first, GUARD_FAILED, GUARD_FROM_CACHE);
    assert_true(first.waiter.result.load == next->action.load);
}

TEST(a_failure_that_is_remembered_names_the_load_that_failed)
{
    struct seen *load = begin_load("k", &leader);
    load_fails(load, GUARD_FAILURE_REJECTED);
    assert_true(leader.waiter.result.load == load->action.load);
    struct seen *release = expect(CORE_RELEASE);
    assert_true(release->action.load == load->action.load);
    reply_code(release, 1);
    reply(lookup_of("k", &later), (struct core_reply){.kind = REPLY_FAILED,
                                                      .failure = GUARD_FAILURE_REJECTED,
                                                      .pttl_ms = 50,
                                                      .load = load->action.load});
    answered_from(&later, GUARD_FAILED, GUARD_FROM_CACHE);
    assert_true(later.waiter.result.load == load->action.load);
}

/* ---- what is told ---- */

TEST(a_load_is_told_when_it_begins_and_when_it_ends, P161)
{
    struct seen *load = begin_load("k", &leader);
    const struct guard_event *event = expect_event(GUARD_EVENT_LOAD_STARTED, "k");
    assert_true(event->load == load->action.load);
    assert_int_equal(event->count, 1);
    get("k", &other);
    told_nothing();
    loaded(load, "row");
    event = expect_event(GUARD_EVENT_LOAD_ENDED, "k");
    assert_true(event->load == load->action.load);
    assert_int_equal(event->status, GUARD_OK);
    assert_int_equal(event->failure, GUARD_FAILURE_NONE);
    assert_int_equal(event->us, 5000);
    assert_int_equal(event->count, 2);
    reply_code(expect(CORE_FILL), 1);
    told_nothing();
    answered_value(&leader, "row", GUARD_FROM_LOAD);
    answered_value(&other, "row", GUARD_FROM_FLIGHT);
}

TEST(how_a_load_ended_is_told)
{
    struct seen *load = begin_load("absent", &caller);
    load_is_absent(load);
    expect_event(GUARD_EVENT_LOAD_STARTED, "absent");
    assert_int_equal(expect_event(GUARD_EVENT_LOAD_ENDED, "absent")->status, GUARD_ABSENT);
    reply_code(expect(CORE_FILL), 1);
    load = begin_load("failed", &caller);
    load_fails(load, GUARD_FAILURE_UNAVAILABLE);
    expect_event(GUARD_EVENT_LOAD_STARTED, "failed");
    const struct guard_event *event = expect_event(GUARD_EVENT_LOAD_ENDED, "failed");
    assert_int_equal(event->status, GUARD_FAILED);
    assert_int_equal(event->failure, GUARD_FAILURE_UNAVAILABLE);
    reply_code(expect(CORE_RELEASE), 1);
    told_nothing();
}

/* Its flight has gone on without it: the key is told all the same. */
TEST(a_load_that_is_given_up_ends_when_its_loader_does, P161)
{
    struct seen *load = begin_load("k", &caller);
    expect_event(GUARD_EVENT_LOAD_STARTED, "k");
    close_core();
    expect_given_up();
    told_nothing();
    load_fails(load, GUARD_FAILURE_UNAVAILABLE);
    const struct guard_event *event = expect_event(GUARD_EVENT_LOAD_ENDED, "k");
    assert_int_equal(event->status, GUARD_CANCELLED);
    assert_int_equal(event->failure, GUARD_FAILURE_NONE);
    assert_int_equal(event->count, 0);
}

TEST(a_loader_that_hangs_past_the_hold_limit_ends_as_timeout)
{
    bench.policy.max_hold_ms = bench.policy.load_limit_ms = bench.policy.lease_ms = 900;
    struct seen *load = begin_load("k", &caller);
    expect_event(GUARD_EVENT_LOAD_STARTED, "k");
    pass(900);
    answered_from(&caller, GUARD_FAILED, GUARD_FROM_LOAD);
    told_nothing();
    load_fails(load, GUARD_FAILURE_UNAVAILABLE);
    const struct guard_event *event = expect_event(GUARD_EVENT_LOAD_ENDED, "k");
    assert_int_equal(event->status, GUARD_FAILED);
    assert_int_equal(event->failure, GUARD_FAILURE_TIMEOUT);
}

/* Nobody finishes it: told when it is waited for no more. */
TEST(a_deferred_load_that_never_comes_back_ends_once, P161)
{
    bench.policy.lease_ms = 900;
    bench.policy.load_limit_ms = 900;
    bench.policy.max_hold_ms = 2000;
    struct seen *load = begin_load("k", &caller);
    uint64_t id = load->action.load;
    expect_event(GUARD_EVENT_LOAD_STARTED, "k");
    core_deferred(bench.core, bench.now_us, id);
    drain();
    load->over = true;
    pass(5000);
    expect_event(GUARD_EVENT_LEASE_LOST, "k"); /* no renewal was answered */
    const struct guard_event *event = expect_event(GUARD_EVENT_LOAD_ENDED, "k");
    assert_true(event->load == id);
    assert_int_equal(event->failure, GUARD_FAILURE_TIMEOUT);
    told_nothing();
}

TEST(a_lost_lease_is_told_and_so_is_the_fill_that_it_costs)
{
    bench.policy.load_limit_ms = 5000; /* more than half of it is over: the load goes on */
    struct seen *load = begin_load("k", &caller);
    expect_event(GUARD_EVENT_LOAD_STARTED, "k");
    pass_to_renewal(1000, 1);
    pass_to_renewal(1000, 1);
    pass_to_renewal(1000, 0);
    assert_true(expect_event(GUARD_EVENT_LEASE_LOST, "k")->load == load->action.load);
    told_nothing();
    loaded(load, "row");
    expect_event(GUARD_EVENT_LOAD_ENDED, "k");
    assert_true(expect_event(GUARD_EVENT_FILL_REFUSED, "k")->load == load->action.load);
    told_nothing();
    answered_value(&caller, "row", GUARD_FROM_LOAD);
}

TEST(a_fill_that_redis_refuses_is_told)
{
    struct seen *load = begin_load("k", &caller);
    loaded(load, "row");
    expect_event(GUARD_EVENT_LOAD_STARTED, "k");
    expect_event(GUARD_EVENT_LOAD_ENDED, "k");
    reply_code(expect(CORE_FILL), -1);
    assert_true(expect_event(GUARD_EVENT_FILL_REFUSED, "k")->load == load->action.load);
    told_nothing();
    answered_value(&caller, "row", GUARD_FROM_LOAD);
}

/* Two loads run, two are queued. */
TEST(requests_without_a_place_are_told_once_and_counted)
{
    static const char *const keys[] = {"a", "b", "c", "d"};
    static struct caller callers[4], first, second;
    for (size_t i = 0; i < 2; i++)
        begin_load(keys[i], &callers[i]);
    for (size_t i = 2; i < 4; i++)
        reply_kind(lookup_of(keys[i], &callers[i]), REPLY_LEASE);
    told_first = told_count;
    struct seen *acquire = lookup_of("k", &first);
    get("k", &second);
    reply_kind(acquire, REPLY_FREE);
    assert_int_equal(expect_event(GUARD_EVENT_SHED, "k")->count, 2);
    told_nothing();
    answered(&first, GUARD_SHED);
    answered(&second, GUARD_SHED);
}

TEST(an_invalidation_is_told_with_its_time_and_whether_it_was_of_a_tag)
{
    struct core_invalidation of_key = {.key = {"k", 1, "k", 1}, .deadline_us = bench.now_us + 1000 * MS};
    struct core_invalidation of_tag = {
        .key = {"t", 1, "t", 1}, .of_tag = true, .deadline_us = bench.now_us + 100 * MS};
    assert_int_equal(core_invalidate(bench.core, bench.now_us, &of_key), GUARD_OK);
    assert_int_equal(core_invalidate(bench.core, bench.now_us, &of_tag), GUARD_OK);
    drain();
    pass(7);
    reply_code(expect(CORE_INVALIDATE), 1);
    const struct guard_event *event = expect_event(GUARD_EVENT_INVALIDATED, "k");
    assert_int_equal(event->status, GUARD_OK);
    assert_int_equal(event->us, 7 * MS);
    assert_int_equal(event->count, 0);
    expect(CORE_INVALIDATE)->over = true;
    pass(100);
    event = expect_event(GUARD_EVENT_INVALIDATED, "t");
    assert_int_equal(event->status, GUARD_UNKNOWN);
    assert_int_equal(event->count, 1);
}

/* ---- kinds ---- */

TEST(what_is_counted_is_counted_for_its_kind_and_the_whole_is_the_sum)
{
    get_of_kind(1, "a", &one);
    loaded(lease(expect(CORE_ACQUIRE)), "row");
    reply_code(expect(CORE_FILL), 1);
    get_of_kind(2, "b", &two);
    assert_int_equal(core_stats_of(bench.core, 2)->waiters, 1);
    load_fails(lease(expect(CORE_ACQUIRE)), GUARD_FAILURE_REJECTED);
    reply_code(expect(CORE_RELEASE), 1);
    const struct guard_stats *first = core_stats_of(bench.core, 1), *second = core_stats_of(bench.core, 2);
    assert_int_equal(first->load_ok + first->fill_stored + first->loaded, 3);
    assert_int_equal(first->load_failed + first->failed, 0);
    assert_int_equal(second->load_failed + second->failed + second->lease_released, 3);
    assert_int_equal(second->load_ok + second->loaded, 0);
    assert_int_equal(first->waiters + first->flights + second->waiters + second->flights, 0);
    struct guard_stats whole = stats_of();
    assert_int_equal(whole.load_started, 2);
    assert_int_equal(whole.lease_acquired, 2);
    assert_int_equal(whole.load_duration.sum_us, first->load_duration.sum_us + second->load_duration.sum_us);
    answered_value(&one, "row", GUARD_FROM_LOAD);
}

TEST(which_kinds_have_changed_is_said_once)
{
    core_take_changed(bench.core);
    get_of_kind(2, "b", &caller);
    assert_int_equal(core_take_changed(bench.core), 1u << 2);
    assert_int_equal(core_take_changed(bench.core), 0);
    load_is_absent(lease(expect(CORE_ACQUIRE)));
    reply_code(expect(CORE_FILL), 1);
    assert_int_equal(core_take_changed(bench.core), 1u << 2);
}

TEST_GROUP(.before = watch_up, .end = bench_close);
