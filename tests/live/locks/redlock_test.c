/* SPDX-License-Identifier: MIT */
/*
 * redlock_test.c - locks over three independent masters: any two of them are enough, and a fence goes on whichever
 * two they are.
 *
 * The masters have to be up for max_lease_ms before they vote: it is short here, and waited for once.
 */
#include "load/stack/proxy.h"
#include "locks_rig.h"

/* A lease that a machine outlives which stands still for some seconds; and one that is over soon. */
enum { MASTERS = 3, LEASE_MS = 8000, LIMIT_MS = 1800, SHORT_LEASE_MS = 1500, SHORT_LIMIT_MS = 250 };

static struct stack_redis masters[MASTERS];
static const char *urls[MASTERS];

static bool masters_up(void)
{
    bool all = true;
    for (size_t i = 0; i < MASTERS; i++) {
        all = all && stack_redis_start(&masters[i], NULL);
        urls[i] = masters[i].url;
    }
    return all;
}

static bool masters_down(void)
{
    for (size_t i = 0; i < MASTERS; i++)
        stack_redis_stop(&masters[i]);
    return true;
}

static bool redlock_before(void)
{
    locks_before();
    for (size_t i = 0; i < MASTERS; i++) {
        stack_redis_resume(&masters[i]); /* a test that failed may have left it paused */
        urls[i] = masters[i].url;
    }
    locks_rig.config.provider = GUARD_LOCKS_REDLOCK;
    locks_rig.config.urls = urls;
    locks_rig.config.url_count = MASTERS;
    locks_rig.config.limit_ms = LIMIT_MS;
    locks_rig.config.connect_limit_ms = 1000;
    locks_rig.config.place_ms = LEASE_MS;
    locks_rig.config.max_lease_ms = LEASE_MS;
    locks_rig.config.log = guard_log_none;
    return true;
}

static void use_short_leases(void)
{
    locks_rig.config.limit_ms = SHORT_LIMIT_MS;
    locks_rig.config.max_lease_ms = SHORT_LEASE_MS;
}

static struct guard_lock_request mutex(const char *const *name)
{
    struct guard_lock_request request = lock_request(GUARD_LOCK_MUTEX, name);
    request.lease_ms = locks_rig.config.max_lease_ms;
    return request;
}

/* ---- all is well ---- */

static bool is_kept_beyond_its_lease(struct guard_locks *locks, const struct guard_lock_request *request)
{
    struct taking held;
    uint64_t renewals = lock_stats_of(locks).renewals;
    take_start(locks, &held, *request);
    take_expect(&held, GUARD_LOCK_OK);
    WAIT_UNTIL(lock_stats_of(locks).renewals >= renewals + 4 || atomic_load(&held.losses) > 0);
    return guard_unlock_wait(&held.result.hold) == GUARD_LOCK_OK && atomic_load(&held.losses) == 0;
}

TEST(a_hold_is_renewed_by_a_quorum_for_as_long_as_it_is_wanted)
{
    enum { RUNS = 4 }; /* again if the machine stood still */
    const char *name = "catalog";
    int run = 0;
    use_short_leases();
    struct guard_locks *locks = locks_open();
    struct guard_lock_request request = mutex(&name);
    while (!is_kept_beyond_its_lease(locks, &request))
        assert_true(++run < RUNS);
}

TEST(the_first_that_waits_is_told_of_a_release)
{
    const char *name = "catalog";
    struct guard_locks *one = locks_open(), *other = locks_open();
    struct guard_lock_request request = mutex(&name);
    uint64_t hints = 0;
    for (int run = 0; run < 20 && hints == 0; run++) { /* again if it has asked by itself just then */
        struct taking waiter;
        struct guard_hold *hold = hold_of(one, &request);
        take_start(other, &waiter, request);
        WAIT_UNTIL(waits(one, name, 1));
        guard_unlock_wait(&hold);
        take_expect(&waiter, GUARD_LOCK_OK);
        guard_unlock_wait(&waiter.result.hold);
        hints = lock_stats_of(other).hints;
    }
    assert_true(hints > 0);
}

/* ---- masters that are away ---- */

/* The first master counts far ahead of the others, as one whose clock does; then it is gone. */
TEST(a_fence_goes_on_above_that_of_a_master_that_is_gone, P123)
{
    const char *name = "catalog";
    struct guard_locks *locks = locks_open();
    struct guard_lock_request request = mutex(&name);
    assert_true(
        stack_redis_do(&masters[0], "SET csg1:{%s:catalog}:kf 4000000000000000", locks_rig.name_space));
    struct guard_lock_result first = lock_of(locks, &request);
    assert_int_equal(first.status, GUARD_LOCK_OK);
    assert_given(&first.hold);
    uint64_t ahead = first.fence[0];
    for (size_t i = 0; i < 20 && ahead < UINT64_C(4000000000000000); i++) { /* the other two were faster */
        first = lock_of(locks, &request);
        ahead = first.fence[0];
        assert_given(&first.hold);
    }
    stack_redis_pause(&masters[0]);
    struct guard_lock_result second = lock_of(locks, &request);
    assert_int_equal(second.status, GUARD_LOCK_OK);
    assert_true(second.fence[0] > ahead);
    stack_redis_resume(&masters[0]);
    assert_given(&second.hold);
}

TEST(without_a_quorum_nothing_is_granted_and_holders_lose_in_time, P123)
{
    const char *name = "catalog", *free_name = "free";
    use_short_leases();
    struct guard_locks *locks = locks_open();
    struct guard_lock_request request = mutex(&name), another = mutex(&free_name);
    struct taking held;
    struct guard_lock_result result;
    struct guard_error error = {.text = ""};
    take_start(locks, &held, request);
    take_expect(&held, GUARD_LOCK_OK);
    stack_redis_pause(&masters[0]);
    stack_redis_pause(&masters[2]);
    another.wait_ms = 600;
    assert_int_equal(guard_lock_wait(locks, &another, &result, &error), GUARD_LOCK_UNREACHABLE);
    assert_true(error.text[0] != '\0');
    WAIT_UNTIL(atomic_load(&held.losses) == 1);
    assert_false(lock_stats_of(locks).is_up);
    enum guard_lock_status given = guard_unlock_wait(&held.result.hold);
    assert_true(given == GUARD_LOCK_UNKNOWN ||
                given == GUARD_LOCK_LOST); /* as its lease has ended by then or not */
    stack_redis_resume(&masters[0]);
    stack_redis_resume(&masters[2]);
    WAIT_UNTIL(lock_stats_of(locks).is_up);
    struct guard_hold *hold = hold_of(locks, &request);
    assert_given(&hold);
}

/* ---- the end ---- */

TEST(a_url_that_is_wrong_refuses_them_all)
{
    struct guard_locks *locks = NULL;
    struct guard_error error = {.text = ""};
    urls[2] = "http://nowhere";
    assert_int_equal(guard_locks_open(&locks_rig.config, &locks, &error), GUARD_INVALID);
    assert_null(locks);
    assert_true(error.text[0] != '\0');
}

/* A master that has not been reached by each of its names yet has one vote. */
static bool is_no_grant(struct guard_locks *locks, const struct guard_lock_request *request,
                        struct guard_lock_result *result, struct guard_error *error)
{
    if (guard_lock_wait(locks, request, result, error) != GUARD_LOCK_OK)
        return true;
    guard_unlock(&result->hold, NULL, NULL);
    return false;
}

TEST(a_master_that_has_several_names_votes_for_none)
{
    char by_name[64];
    const char *name = "catalog";
    snprintf(by_name, sizeof by_name, "redis://localhost:%u", (unsigned)masters[0].port);
    urls[1] = by_name;
    struct guard_locks *locks = locks_open();
    struct guard_lock_request request = mutex(&name);
    struct guard_lock_result result;
    struct guard_error error = {.text = ""};
    WAIT_UNTIL(is_no_grant(locks, &request, &result, &error));
    assert_int_equal(result.status, GUARD_LOCK_INVALID);
    assert_non_null(strstr(error.text, "localhost:"));
    assert_non_null(strstr(error.text, "127.0.0.1:"));
    assert_non_null(strstr(error.text, "are one server"));
}

/* A replica that takes over has been up for long, and may never have heard of a holder. */
TEST(a_master_that_sentinels_name_is_no_member)
{
    struct guard_locks *locks = NULL;
    struct guard_error error = {.text = ""};
    urls[1] = "redis+sentinel://:hush@127.0.0.1:1/locks";
    assert_int_equal(guard_locks_open(&locks_rig.config, &locks, &error), GUARD_INVALID);
    assert_null(locks);
    assert_non_null(strstr(error.text, "redis+sentinel://"));
    assert_null(strstr(error.text, "hush"));
}

/* ---- masters that have forgotten; last, for those that have just started grant nothing for a while ---- */

/* Two of three have forgotten the holder. They do not vote before its lease must be over. */
TEST(masters_that_come_back_empty_do_not_vote_within_a_lease, P124)
{
    const char *name = "catalog";
    use_short_leases();
    struct guard_locks *one = locks_open(), *other = locks_open();
    struct taking held, next;
    take_start(one, &held, mutex(&name));
    take_expect(&held, GUARD_LOCK_OK);
    uint64_t begun_us = clock_us();
    for (size_t i = 1; i < MASTERS; i++) {
        stack_redis_kill(&masters[i]);
        assert_true(stack_redis_restart(&masters[i]));
    }
    take_start(other, &next, mutex(&name));
    WAIT_UNTIL(atomic_load(&held.losses) == 1); /* a quorum says that it does not know it */
    take_expect(&next, GUARD_LOCK_OK);
    assert_true(atomic_load(&next.answered_us) - begun_us >= SHORT_LEASE_MS * UINT64_C(1000));
    assert_given(&next.result.hold);
    guard_unlock_wait(&held.result.hold);
}

TEST_GROUP(.up = masters_up, .down = masters_down, .before = redlock_before, .after = locks_after);
