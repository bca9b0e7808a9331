/* SPDX-License-Identifier: MIT */
/*
 * lock_fault_test.c - locks over one Redis when something breaks: real processes killed and stopped, Redis hung and
 * killed, connections reset, frozen and deaf.
 *
 * Spans that a lease bounds are measured again if the machine was busy with something else: one good run will do.
 */
#include "load/stack/proxy.h"
#include "locks_rig.h"

enum {
    SHORT_LEASE_MS = 1500,
    SHORT_PLACE_MS = 1200,
    SHORT_LIMIT_MS = 250,
    LATE_MS = 50, /* what a dead holder or a dead place may cost beyond its end */
    RUNS = 20
};

static bool faults_before(void)
{
    locks_before();
    locks_rig.config.limit_ms = SHORT_LIMIT_MS;
    locks_rig.config.connect_limit_ms = 1000;
    locks_rig.config.place_ms = SHORT_PLACE_MS;
    locks_rig.config.log = guard_log_none;
    return true;
}

static struct proxy *proxy; /* before rig_redis, as the locks that are opened next see it */

static void use_proxy(void)
{
    static char url[64];
    assert_true(proxy_open_to(rig_redis.port, &proxy));
    snprintf(url, sizeof url, "redis://127.0.0.1:%u/0", (unsigned)proxy_port(proxy, 0));
    locks_rig.url = url;
}

static void use_redis(void)
{
    locks_rig.url = rig_redis.url;
}

static bool faults_after(void)
{
    locks_after();
    proxy_close(&proxy);
    return true;
}

static struct guard_lock_request short_request(enum guard_lock_kind kind, const char *const *name)
{
    struct guard_lock_request request = lock_request(kind, name);
    request.lease_ms = SHORT_LEASE_MS;
    return request;
}

static uint64_t since_us(uint64_t then_us)
{
    return clock_us() - then_us;
}

static struct pollfd lost_of(struct guard_hold *hold)
{
    return (struct pollfd){.fd = guard_hold_lost_fd(hold), .events = POLLIN};
}

/* ---- processes that die or stand still ---- */

/* False: sooner than while it was renewed, or later than it may be. */
static bool grant_after_a_killed_holder(struct guard_locks *locks, const char *name)
{
    struct guard_lock_request request = short_request(GUARD_LOCK_FAIR, &name);
    struct holder holder;
    struct taking next;
    unsigned long long fence = 0;
    holder_start(&holder, name, GUARD_LOCK_FAIR, SHORT_LEASE_MS);
    WAIT_UNTIL(holder_said(&holder, "held ", &fence));
    take_start(locks, &next, request);
    WAIT_UNTIL(waits(locks, name, 1));
    uint64_t killed_us = clock_us();
    holder_kill(&holder);
    take_expect(&next, GUARD_LOCK_OK);
    uint64_t span_ms = (atomic_load(&next.answered_us) - killed_us) / 1000;
    assert_true(next.result.fence[0] > fence);
    assert_given(&next.result.hold);
    print_message("granted %d ms after a holder was killed, lease %d ms\n", (int)span_ms, SHORT_LEASE_MS);
    return span_ms > SHORT_LEASE_MS / 2 && span_ms <= SHORT_LEASE_MS + LATE_MS;
}

TEST(a_killed_holder_blocks_for_its_lease, P113)
{
    struct guard_locks *locks = locks_open();
    int run = 0;
    while (!grant_after_a_killed_holder(locks, "catalog"))
        assert_true(++run < RUNS);
}

TEST(a_stopped_holder_hears_on_waking_that_it_has_lost, P111)
{
    const char *name = "catalog";
    struct guard_lock_request request = short_request(GUARD_LOCK_FAIR, &name);
    struct guard_locks *locks = locks_open();
    struct holder holder;
    unsigned long long fence = 0;
    holder_start(&holder, name, GUARD_LOCK_FAIR, SHORT_LEASE_MS);
    WAIT_UNTIL(holder_said(&holder, "held ", &fence));
    assert_true(proc_pause(holder.pid));
    struct guard_lock_result result = lock_of(locks, &request);
    assert_int_equal(result.status, GUARD_LOCK_OK);
    assert_true(result.fence[0] > fence);
    assert_false(holder_said(&holder, "lost", NULL));
    proc_resume(holder.pid);
    WAIT_UNTIL(holder_said(&holder, "lost", NULL));
    assert_true(guard_hold_left_ms(result.hold) > 0); /* what the other has lost is not ours */
    assert_given(&result.hold);
    holder_kill(&holder);
}

/* Its grant lies in its socket when it goes on, and the deadline is over. False: it was over before the process was
 * stopped, and nothing is shown. */
static bool grant_of_a_stopped_process(struct guard_locks *others, const char *name)
{
    struct holder holder;
    const uint64_t asked_us = clock_us();
    proxy_mark(proxy, 0, name, PROXY_FREEZE_REPLIES);
    holder_start(&holder, name, GUARD_LOCK_FAIR, 20000);
    WAIT_UNTIL(view_of(others, name).holder_count == 1);
    assert_true(proc_pause(holder.pid));
    const bool in_time = since_us(asked_us) < locks_rig.holder_wait_ms * UINT64_C(1000);
    proxy_set(proxy, 0, PROXY_NONE, 0);
    const uint64_t stopped_us = clock_us();
    WAIT_UNTIL(since_us(stopped_us) > (locks_rig.holder_wait_ms + LATE_MS) * UINT64_C(1000));
    proc_resume(holder.pid);
    WAIT_UNTIL(holder_said(&holder, "held ", NULL) || holder_said(&holder, "not held", NULL));
    assert_true(!in_time || holder_said(&holder, "held ", NULL));
    holder_kill(&holder);
    return in_time;
}

/* Where it is stopped decides what its loop does first, so one grant shows little. */
TEST(a_stopped_process_reads_what_has_come_before_it_judges_what_is_due, P118)
{
    enum { GRANTS = 3, ATTEMPTS = 10 };
    struct guard_locks *others = locks_open();
    size_t granted = 0;
    use_proxy();
    locks_rig.holder_limit_ms = 5000;
    locks_rig.config.place_ms = 20000;
    locks_rig.holder_wait_ms = 1000;
    for (size_t attempt = 0; granted < GRANTS; attempt++) {
        char name[32];
        assert_true(attempt < ATTEMPTS);
        snprintf(name, sizeof name, "catalog:%zu", attempt);
        granted += grant_of_a_stopped_process(others, name);
    }
}

/* ---- a Redis that is away ---- */

TEST(a_holder_without_redis_hears_early_and_once_that_it_loses, P111)
{
    enum { WARN_MS = 600 };
    const char *name = "catalog";
    use_proxy();
    locks_rig.config.warn_ms = WARN_MS;
    struct guard_locks *locks = locks_open();
    struct taking held;
    take_start(locks, &held, short_request(GUARD_LOCK_FAIR, &name));
    take_expect(&held, GUARD_LOCK_OK);
    struct pollfd lost = lost_of(held.result.hold);
    assert_true(lost.fd >= 0);
    assert_int_equal(poll(&lost, 1, 0), 0);
    assert_int_equal(guard_hold_lost_fd(held.result.hold), lost.fd);
    proxy_set(proxy, 0, PROXY_FREEZE_REQUESTS, 0);
    assert_int_equal(poll(&lost, 1, RIG_LIMIT_MS), 1);
    WAIT_UNTIL(atomic_load(&held.losses) == 1);
    assert_in_range(held.left_when_lost_ms, 0, WARN_MS);
    WAIT_UNTIL(guard_hold_left_ms(held.result.hold) == 0);
    proxy_set(proxy, 0, PROXY_NONE, 0);
    WAIT_UNTIL(lock_stats_of(locks).is_up);
    assert_int_equal(poll(&lost, 1, 0), 1); /* and stays so */
    struct guard_hold *next = hold_name(locks, name);
    assert_int_equal(guard_unlock_wait(&held.result.hold), GUARD_LOCK_LOST);
    assert_given(&next);
    assert_int_equal(atomic_load(&held.losses), 1);
}

TEST(giving_back_without_redis_is_unknown_after_two_limits, P122)
{
    const char *name = "catalog";
    use_proxy();
    struct guard_locks *locks = locks_open();
    struct guard_lock_request request = lock_request(GUARD_LOCK_FAIR, &name);
    uint64_t span_us = UINT64_MAX;
    for (int run = 0; run < RUNS && span_us > (2 * SHORT_LIMIT_MS + LATE_MS) * 1000; run++) {
        struct guard_hold *hold = hold_of(locks, &request);
        proxy_set(proxy, 0, PROXY_FREEZE_REQUESTS, 0);
        uint64_t begun_us = clock_us();
        assert_int_equal(guard_unlock_wait(&hold), GUARD_LOCK_UNKNOWN);
        span_us = since_us(begun_us);
        proxy_set(proxy, 0, PROXY_NONE, 0);
        WAIT_UNTIL(view_of(locks, name).holder_count == 0); /* it was given back later all the same */
    }
    assert_in_range(span_us, 0, (2 * SHORT_LIMIT_MS + LATE_MS) * 1000);
}

TEST(a_request_that_redis_does_not_answer_is_unreachable_not_busy, P118)
{
    const char *name = "catalog";
    struct guard_error error = {.text = ""};
    struct guard_lock_result result;
    use_proxy();
    struct guard_locks *locks = locks_open();
    struct guard_lock_request request = lock_request(GUARD_LOCK_FAIR, &name);
    proxy_set(proxy, 0, PROXY_FREEZE_REQUESTS, 0);
    request.wait_ms = 0;
    assert_int_equal(guard_lock_wait(locks, &request, &result, &error), GUARD_LOCK_UNREACHABLE);
    assert_true(error.text[0] != '\0');
    request.wait_ms = 700;
    assert_int_equal(guard_lock_wait(locks, &request, &result, &error), GUARD_LOCK_UNREACHABLE);
    assert_ptr_equal(result.why, error.text);
    proxy_set(proxy, 0, PROXY_NONE, 0);
    WAIT_UNTIL(lock_stats_of(locks).is_up);
    WAIT_UNTIL(view_of(locks, name).holder_count == 0); /* what runs late takes nothing */
}

TEST(a_redis_that_comes_back_empty_is_told_by_the_renewal, P111, P119)
{
    const char *name = "catalog";
    struct guard_locks *locks = locks_open(), *other = locks_open();
    struct taking held;
    struct guard_lock_request request = lock_request(GUARD_LOCK_FAIR, &name);
    take_start(locks, &held, request);
    take_expect(&held, GUARD_LOCK_OK);
    stack_redis_kill(&rig_redis);
    WAIT_UNTIL(!lock_stats_of(locks).is_up);
    assert_int_equal(atomic_load(&held.losses), 0);
    assert_true(stack_redis_restart(&rig_redis));
    WAIT_UNTIL(atomic_load(&held.losses) == 1); /* long before its lease ends */
    assert_int_equal(guard_hold_left_ms(held.result.hold), 0);
    struct guard_lock_result next = lock_of(other, &request);
    assert_int_equal(next.status, GUARD_LOCK_OK);
    assert_true(next.fence[0] > held.result.fence[0]); /* by Redis's clock */
    assert_int_equal(guard_unlock_wait(&held.result.hold), GUARD_LOCK_LOST);
    assert_given(&next.hold);
}

/* Its age is in whole seconds. */
TEST(a_redis_that_has_just_started_grants_nothing_to_those_that_wait_for_its_age, P124)
{
    const char *name = "catalog";
    locks_rig.config.max_lease_ms = 2000;
    locks_rig.config.wait_after_restart = true;
    stack_redis_kill(&rig_redis);
    uint64_t begun_us = clock_us();
    assert_true(stack_redis_restart(&rig_redis));
    struct guard_locks *locks = locks_open();
    struct guard_lock_request request = short_request(GUARD_LOCK_FAIR, &name);
    struct guard_hold *hold = hold_of(locks, &request);
    assert_true(since_us(begun_us) >= 2000 * UINT64_C(1000));
    assert_given(&hold);
    request.wait_ms = 0; /* it is old enough */
    hold = hold_of(locks, &request);
    assert_given(&hold);
}

TEST(a_login_that_may_not_ask_for_the_age_is_told_so, P124)
{
    const char *name = "catalog";
    struct guard_error error = {.text = ""};
    struct guard_lock_result result;
    char url[96];
    rig_do("ACL SETUSER %s on >secret ~* &* +@all -info", locks_rig.name_space);
    snprintf(url, sizeof url, "redis://%s:secret@127.0.0.1:%u/0", locks_rig.name_space,
             (unsigned)rig_redis.port);
    locks_rig.url = url;
    locks_rig.config.wait_after_restart = true;
    struct guard_locks *locks = locks_open();
    struct guard_lock_request request = lock_request(GUARD_LOCK_FAIR, &name);
    assert_int_equal(guard_lock_wait(locks, &request, &result, &error), GUARD_LOCK_INVALID);
    assert_non_null(strstr(error.text, "+info"));
    assert_ptr_equal(result.why, error.text);
}

/* ---- connections ---- */

TEST(a_connection_that_is_reset_costs_neither_holder_nor_waiter_anything, P109)
{
    enum { RESETS = 5 };
    const char *name = "catalog";
    struct taking held, waiter;
    use_proxy();
    struct guard_locks *locks = locks_open();
    use_redis();
    struct guard_locks *other = locks_open();
    struct guard_lock_request request = lock_request(GUARD_LOCK_FAIR, &name);
    take_start(locks, &held, request);
    take_expect(&held, GUARD_LOCK_OK);
    take_start(locks, &waiter, request);
    for (int i = 0; i < RESETS; i++) {
        proxy_set(proxy, 0, PROXY_RESET, 0);
        WAIT_UNTIL(!lock_stats_of(locks).is_up);
        proxy_set(proxy, 0, PROXY_NONE, 0);
        WAIT_UNTIL(lock_stats_of(locks).is_up);
    }
    assert_int_equal(atomic_load(&held.losses), 0);
    assert_int_equal(view_of(other, name).holder_count, 1);
    WAIT_UNTIL(waits(other, name, 1));
    assert_given(&held.result.hold);
    take_expect(&waiter, GUARD_LOCK_OK);
    assert_given(&waiter.result.hold);
}

TEST(a_deaf_subscription_costs_a_poll, P112)
{
    const char *name = "catalog";
    struct taking waiter;
    use_proxy();
    proxy_mark(proxy, 0, "SUBSCRIBE", PROXY_NONE);
    struct guard_locks *locks = locks_open();
    use_redis();
    struct guard_locks *other = locks_open();
    struct guard_hold *hold = hold_name(other, name);
    take_start(locks, &waiter, lock_request(GUARD_LOCK_FAIR, &name));
    WAIT_UNTIL(waits(other, name, 1));
    assert_true(proxy_wait_marked(proxy, 0, 1, RIG_LIMIT_MS));
    proxy_set(proxy, 0, PROXY_MUTE, 0);
    uint64_t hints = lock_stats_of(locks).hints;
    assert_given(&hold);
    take_expect(&waiter, GUARD_LOCK_OK);
    assert_int_equal(lock_stats_of(locks).hints, hints);
    assert_true(lock_stats_of(locks).polls > 0);
    assert_given(&waiter.result.hold);
    proxy_set(proxy, 0, PROXY_NONE, 0);
}

/* ---- the end ---- */

enum { DRAIN_MS = 300 };

struct second_close {
    struct guard_locks *locks;
    atomic_int calls;
    enum guard_lock_status given, status;
};

static void on_given_close_again(void *context, enum guard_lock_status status)
{
    struct second_close *second = context;
    second->given = status;
    second->status = guard_locks_close(&second->locks, 0);
    atomic_fetch_add(&second->calls, 1);
}

/* The last callbacks come when nothing is taken in any more. */
TEST(the_last_callback_cannot_close_the_locks_a_second_time)
{
    const char *name = "catalog";
    use_proxy();
    struct guard_locks *locks = locks_open();
    struct second_close second = {.locks = locks};
    struct guard_hold *hold = hold_name(locks, name);
    proxy_set(proxy, 0, PROXY_FREEZE_REQUESTS, 0);
    guard_unlock(&hold, on_given_close_again, &second);
    WAIT_UNTIL(lock_stats_of(locks).held == 0); /* it is on its way */
    assert_int_equal(guard_locks_close(&locks_rig.locks[0], DRAIN_MS), GUARD_LOCK_UNKNOWN);
    assert_int_equal(atomic_load(&second.calls), 1);
    assert_int_equal(second.given, GUARD_LOCK_UNKNOWN);
    assert_int_equal(second.status, GUARD_LOCK_INVALID);
    assert_ptr_equal(second.locks, locks);
}

TEST(locks_that_never_reach_redis_close_all_the_same, P122)
{
    static const char *const NOWHERE = "redis://127.0.0.1:1/0";
    const char *name = "catalog";
    struct guard_locks *locks = NULL;
    struct taking taking;
    locks_rig.config.urls = &NOWHERE;
    assert_int_equal(guard_locks_open(&locks_rig.config, &locks, NULL), GUARD_OK);
    take_start(locks, &taking, lock_request(GUARD_LOCK_FAIR, &name));
    assert_int_equal(guard_locks_close(&locks, 10000), GUARD_LOCK_OK);
    assert_int_equal(atomic_load(&taking.answers), 1);
    assert_int_equal(taking.result.status, GUARD_LOCK_CLOSING);
}

int main(int argc, char **argv)
{
    return locks_rig_main(argc, argv);
}

TEST_GROUP(.up = rig_start, .down = rig_stop, .before = faults_before, .after = faults_after);
