/* SPDX-License-Identifier: MIT */
/*
 * lock_contract_test.c - what locks.h promises, whatever the locks stand on: each promise on each provider that has
 * its kind. What is a provider's own, its servers' faults above all, is in the tests that bear its name.
 *
 * The table's order is that of what they have: a group has a turn for each of the first so many.
 */
#include "load/stack/proxy.h"
#include "locks_rig.h"

enum { WITH_PERMITS = 2, WITH_READERS = 3, ALL = 4, MASTERS = 3, NO_KIND = 99, SHORT_MS = 3000 };

static struct stack_postgres postgres;
static struct stack_zookeeper zookeeper;
static struct stack_redis masters[MASTERS];

static const char *urls[MASTERS];

static bool redis_up(void)
{
    urls[0] = rig_redis.url;
    return rig_start();
}

static bool zookeeper_up(void)
{
    urls[0] = zookeeper.url;
    return stack_zookeeper_start(&zookeeper, 1);
}

static bool postgres_up(void)
{
    urls[0] = postgres.url;
    return stack_postgres_start(&postgres, 40);
}

static bool masters_up(void)
{
    bool all = true;
    for (size_t i = 0; i < MASTERS; i++) {
        all = all && stack_redis_start(&masters[i], NULL);
        urls[i] = masters[i].url;
    }
    return all;
}

static const struct provider {
    enum guard_lock_provider which;
    const char *name;
    bool (*up)(void);
    size_t url_count;
    uint32_t lease_ms; /* the masters of RedLock have to be up for so long before they vote */
    int lacks;         /* a kind that it has not */
} providers[ALL] = {
    {GUARD_LOCKS_REDIS, "REDIS", redis_up, 1, 20000, NO_KIND},
    {GUARD_LOCKS_ZOOKEEPER, "ZOOKEEPER", zookeeper_up, 1, 20000, GUARD_LOCK_LATCH},
    {GUARD_LOCKS_POSTGRES, "POSTGRES", postgres_up, 1, 20000, GUARD_LOCK_PERMITS},
    {GUARD_LOCKS_REDLOCK, "REDLOCK", masters_up, MASTERS, 6000, GUARD_LOCK_FAIR},
};

static const struct provider *provider; /* of this turn */

static bool provider_up(void)
{
    provider = &providers[test_turn()];
    printf("%s\n", provider->name);
    return provider->up();
}

static bool provider_down(void)
{
    rig_stop();
    stack_zookeeper_stop(&zookeeper);
    stack_postgres_stop(&postgres);
    for (size_t i = 0; i < MASTERS; i++)
        stack_redis_stop(&masters[i]);
    return true;
}

static bool contract_before(void)
{
    locks_before();
    locks_rig.config.provider = provider->which;
    locks_rig.config.urls = urls;
    locks_rig.config.url_count = provider->url_count;
    locks_rig.config.max_lease_ms = provider->lease_ms;
    locks_rig.config.limit_ms = provider->lease_ms / 5;
    locks_rig.config.log = guard_log_none;
    return true;
}

static struct proxy *proxy;

static bool contract_after(void)
{
    locks_after();
    proxy_close(&proxy);
    return true;
}

/* The way to the one server, which the test can cut. */
static const char *url_through_proxy(void)
{
    static char url[96];
    const char *port = strrchr(urls[0], ':') + 1;
    assert_true(proxy_open_to((uint16_t)strtoul(port, NULL, 10), &proxy));
    snprintf(url, sizeof url, "%.*s%u%s", (int)(port - urls[0]), urls[0], (unsigned)proxy_port(proxy, 0),
             port + strspn(port, "0123456789"));
    return url;
}

static struct guard_lock_request request_for(enum guard_lock_kind kind, const char *const *names)
{
    struct guard_lock_request request = lock_request(kind, names);
    request.lease_ms = provider->lease_ms;
    return request;
}

/* For one at a time. */
static struct guard_lock_request exclusive(const char *const *names)
{
    return request_for(provider->which == GUARD_LOCKS_REDLOCK ? GUARD_LOCK_MUTEX : GUARD_LOCK_FAIR, names);
}

static struct guard_lock_request at_once(const char *const *names)
{
    struct guard_lock_request request = exclusive(names);
    request.wait_ms = 0;
    return request;
}

/* ---- permits ---- */

TEST(permits_count_units, P116)
{
    struct guard_locks *one = locks_open(), *other = locks_open();
    const char *name = "exports";
    struct guard_lock_request request = request_for(GUARD_LOCK_PERMITS, &name);
    static struct taking waiter;
    request.limit = 3;
    request.units = 2;
    struct guard_hold *two = hold_of(one, &request);
    request.wait_ms = 0;
    assert_int_equal(lock_of(other, &request).status, GUARD_LOCK_BUSY);
    request.units = 1;
    struct guard_hold *third = hold_of(other, &request);
    assert_int_equal(lock_of(one, &request).status, GUARD_LOCK_BUSY);
    request.units = 2;
    request.wait_ms = RIG_LIMIT_MS;
    take_start(one, &waiter, request);
    WAIT_UNTIL(waits(other, name, 1));
    assert_given(&third);
    WAIT_UNTIL(view_of(other, name).holder_count == 1);
    assert_int_equal(atomic_load(&waiter.answers), 0);
    assert_given(&two);
    take_expect(&waiter, GUARD_LOCK_OK);
    assert_given(&waiter.result.hold);
}

TEST_GROUP(.turns = WITH_PERMITS, .up = provider_up, .down = provider_down, .before = contract_before,
           .after = contract_after);

/* ---- a line, and readers ---- */

TEST(readers_share_and_stand_behind_a_writer_that_waits, P116)
{
    struct guard_locks *one = locks_open(), *other = locks_open();
    const char *name = "catalog";
    struct guard_lock_request read = request_for(GUARD_LOCK_READ, &name);
    static struct taking writer, late;
    struct guard_hold *first = hold_of(one, &read), *second = hold_of(other, &read);
    take_start(one, &writer, request_for(GUARD_LOCK_WRITE, &name));
    WAIT_UNTIL(waits(one, name, 1));
    take_start(other, &late, read);
    WAIT_UNTIL(waits(one, name, 2));
    assert_int_equal(atomic_load(&late.answers), 0);
    assert_given(&first);
    assert_int_equal(atomic_load(&writer.answers), 0);
    assert_given(&second);
    take_expect(&writer, GUARD_LOCK_OK);
    assert_int_equal(atomic_load(&late.answers), 0);
    uint64_t fence = writer.result.fence[0];
    assert_given(&writer.result.hold);
    take_expect(&late, GUARD_LOCK_OK);
    assert_true(late.result.fence[0] >= fence);
    assert_given(&late.result.hold);
}

TEST(waiters_of_several_processes_are_served_in_their_order, P118)
{
    enum { WAITERS = 6 };
    struct guard_locks *holder = locks_open(), *processes[] = {locks_open(), locks_open(), locks_open()};
    static struct taking waiters[WAITERS];
    const char *name = "catalog";
    struct guard_lock_request request = exclusive(&name);
    struct guard_hold *hold = hold_of(holder, &request);
    for (uint32_t i = 0; i < WAITERS; i++) {
        take_start(processes[i % 3], &waiters[i], request);
        WAIT_UNTIL(waits(holder, name, i + 1));
    }
    assert_given(&hold);
    for (unsigned i = 0; i < WAITERS; i++) {
        uint64_t begun_us = clock_us();
        take_expect(&waiters[i], GUARD_LOCK_OK);
        assert_true(clock_us() - begun_us <
                    4000000); /* it was told, and has not found out when it asked again */
        if (i > 0)
            assert_true(waiters[i].result.fence[0] > waiters[i - 1].result.fence[0]);
        if (i + 1 < WAITERS)
            assert_int_equal(atomic_load(&waiters[i + 1].answers), 0);
        assert_given(&waiters[i].result.hold);
    }
}

TEST(a_look_shows_holders_and_those_that_wait_in_their_order)
{
    struct guard_locks *one = locks_open(), *other = locks_open();
    const char *name = "catalog";
    struct guard_lock_request read = request_for(GUARD_LOCK_READ, &name);
    static struct taking writer, reader;
    char me[32];
    struct guard_lock_view view = view_of(one, name);
    assert_int_equal(view.holder_count + view.waiter_count + view.seen_count, 0);
    struct guard_lock_result held = lock_of(one, &read);
    take_start(other, &writer, request_for(GUARD_LOCK_WRITE, &name));
    WAIT_UNTIL(waits(one, name, 1));
    take_start(other, &reader, read);
    WAIT_UNTIL(waits(one, name, 2));
    view = view_of(other, name);
    snprintf(me, sizeof me, ":%d", (int)getpid());
    assert_int_equal(view.holder_count, 1);
    assert_int_equal(view.seen_count, 3);
    assert_int_equal(view.fence, held.fence[0]);
    for (size_t i = 0; i < 3; i++) {
        assert_non_null(strstr(view.seen[i].who, me));
        assert_in_range(view.seen[i].since_s, time(NULL) - 60, time(NULL));
        assert_int_equal(view.seen[i].holds, i == 0);
        assert_int_equal(view.seen[i].units, i == 1 ? 1000000 : 1);
        assert_int_equal(view.seen[i].limit, 1000000);
    }
    assert_given(&held.hold);
    take_expect(&writer, GUARD_LOCK_OK);
    assert_given(&writer.result.hold);
    take_expect(&reader, GUARD_LOCK_OK);
    assert_given(&reader.result.hold);
}

/* It cannot know what has become of it: it stops before its lease, or its session, can be over. */
TEST(a_holder_that_is_cut_off_is_told_before_another_is_granted, P126)
{
    const char *name = "catalog", *url = NULL;
    struct guard_lock_request request = exclusive(&name), patient = request;
    struct guard_locks *others = locks_open();
    url = url_through_proxy();
    locks_rig.config.urls = &url;
    locks_rig.config.limit_ms = SHORT_MS / 5;
    request.lease_ms = locks_rig.config.max_lease_ms = SHORT_MS;
    struct guard_locks *locks = locks_open();
    struct guard_lock_result held = lock_of(locks, &request);
    struct pollfd lost = {.fd = guard_hold_lost_fd(held.hold), .events = POLLIN};
    assert_int_equal(held.status, GUARD_LOCK_OK);
    assert_int_equal(poll(&lost, 1, 0), 0);
    proxy_set(proxy, 0, PROXY_SILENT, 0);
    struct guard_lock_result next = lock_of(others, &patient);
    assert_int_equal(next.status, GUARD_LOCK_OK);
    assert_int_equal(poll(&lost, 1, 0), 1);
    assert_int_equal(guard_hold_left_ms(held.hold), 0);
    assert_true(next.fence[0] > held.fence[0]);
    proxy_set(proxy, 0, PROXY_NONE, 0);
    assert_int_equal(guard_unlock_wait(&held.hold), GUARD_LOCK_LOST);
    assert_given(&next.hold);
}

static void *lock_pair(void *locks)
{
    struct guard_lock_request request = exclusive((const char *const[]){"first", "second"});
    request.count = 2;
    struct guard_hold *hold = hold_of(locks, &request);
    assert_given(&hold);
    return NULL;
}

/* What has a session of PostgreSQL for the first name needs none for the second: only so many may stand in line. */
TEST(more_requests_for_several_names_than_sessions_come_through)
{
    enum { REQUESTS = 12, SESSIONS = 8 };
    struct guard_locks *locks = locks_open(), *other = locks_open();
    const char *second = "second";
    struct guard_lock_request request = exclusive(&second);
    struct guard_hold *hold = hold_of(locks, &request);
    pthread_t threads[REQUESTS];
    for (size_t i = 0; i < REQUESTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, lock_pair, locks), 0);
    WAIT_UNTIL(view_of(other, "first").waiter_count >= SESSIONS - 2); /* one holds each of the names */
    assert_given(&hold);
    for (size_t i = 0; i < REQUESTS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

TEST_GROUP(.turns = WITH_READERS, .up = provider_up, .down = provider_down, .before = contract_before,
           .after = contract_after);

/* ---- one at a time ---- */

TEST(every_kind_is_granted_with_a_fence_and_given_back)
{
    static const enum guard_lock_kind kinds[] = {GUARD_LOCK_MUTEX, GUARD_LOCK_FAIR, GUARD_LOCK_WRITE};
    const size_t count = provider->lacks == GUARD_LOCK_FAIR ? 1 : 3;
    struct guard_locks *locks = locks_open();
    const char *name = "catalog";
    uint64_t fence = 0;
    for (size_t i = 0; i < count; i++) {
        struct guard_lock_request request = request_for(kinds[i], &name);
        struct guard_lock_result result = lock_of(locks, &request);
        assert_int_equal(result.status, GUARD_LOCK_OK);
        assert_true(result.fence[0] > fence);
        fence = result.fence[0];
        assert_in_range(guard_hold_left_ms(result.hold), 1, provider->lease_ms);
        assert_given(&result.hold);
    }
    assert_int_equal(lock_stats_of(locks).granted, count);
    WAIT_UNTIL(lock_stats_of(locks).held == 0);
}

TEST(a_kind_that_it_has_not_is_refused_by_name)
{
    const char *name = "catalog";
    struct guard_lock_request request = exclusive(&name);
    struct guard_lock_result result;
    struct guard_error error = {.text = ""};
    struct guard_locks *locks = locks_open();
    request.kind = (enum guard_lock_kind)provider->lacks;
    request.limit = request.kind == GUARD_LOCK_FAIR ? 0 : 2;
    assert_int_equal(guard_lock_wait(locks, &request, &result, &error), GUARD_LOCK_INVALID);
    if (strstr(error.text, provider->lacks == NO_KIND ? "kind" : provider->name) == NULL)
        fail_msg("%s", error.text);
}

TEST(a_holder_keeps_others_out_until_it_gives_back, P119)
{
    struct guard_locks *one = locks_open(), *other = locks_open();
    const char *name = "catalog";
    struct guard_lock_request request = at_once(&name), patient = exclusive(&name);
    struct guard_lock_result first = lock_of(one, &patient), second = lock_of(other, &request);
    assert_int_equal(first.status, GUARD_LOCK_OK);
    assert_int_equal(second.status, GUARD_LOCK_BUSY);
    assert_null(second.hold);
    WAIT_UNTIL(view_of(other, name).holder_count == 1 && view_of(other, name).waiter_count == 0);
    assert_given(&first.hold);
    second = lock_of(other, &patient);
    assert_int_equal(second.status, GUARD_LOCK_OK);
    assert_true(second.fence[0] > first.fence[0]);
    assert_given(&second.hold);
}

TEST(a_bounded_wait_ends_with_busy_and_leaves_no_place, P118)
{
    struct guard_locks *one = locks_open(), *other = locks_open();
    const char *name = "catalog";
    struct guard_lock_request request = exclusive(&name);
    struct guard_hold *hold = hold_of(one, &request);
    request.wait_ms = 300;
    struct guard_lock_result result = lock_of(other, &request);
    assert_int_equal(result.status, GUARD_LOCK_BUSY);
    assert_in_range(result.waited_ms, 300, RIG_LIMIT_MS);
    WAIT_UNTIL(waits(one, name, 0));
    assert_given(&hold);
    assert_int_equal(lock_stats_of(other).busy, 1);
}

TEST(a_cancelled_waiter_is_told_so_once_and_leaves_its_place, P118)
{
    struct guard_locks *one = locks_open(), *other = locks_open();
    const char *name = "catalog";
    struct guard_lock_request request = exclusive(&name);
    static struct taking waiter, next;
    struct guard_hold *hold = hold_of(one, &request);
    take_start(other, &waiter, request);
    WAIT_UNTIL(waits(one, name, 1));
    take_start(one, &next, request);
    WAIT_UNTIL(waits(one, name, 2));
    guard_lock_cancel(other, waiter.ticket);
    guard_lock_cancel(other, waiter.ticket);
    take_expect(&waiter, GUARD_LOCK_CANCELLED);
    guard_lock_cancel(other, waiter.ticket);
    WAIT_UNTIL(waits(one, name, 1));
    assert_given(&hold);
    take_expect(&next, GUARD_LOCK_OK);
    assert_given(&next.result.hold);
}

/* ---- several names ---- */

TEST(several_names_are_granted_all_or_none, P117)
{
    static const char *const BOTH[] = {"category:3", "category:8"};
    struct guard_locks *one = locks_open(), *other = locks_open();
    struct guard_lock_request both = exclusive(BOTH), second = exclusive(&BOTH[1]), hasty = at_once(BOTH);
    static struct taking waiter;
    both.count = hasty.count = 2;
    struct guard_hold *hold = hold_of(one, &second);
    assert_int_equal(lock_of(other, &hasty).status, GUARD_LOCK_BUSY);
    WAIT_UNTIL(view_of(one, BOTH[0]).holder_count == 0); /* it keeps none of them */
    take_start(other, &waiter, both);
    WAIT_UNTIL(waits(one, BOTH[1], 1));
    assert_given(&hold);
    take_expect(&waiter, GUARD_LOCK_OK);
    assert_true(waiter.result.fence[0] > 0 && waiter.result.fence[1] > 0);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(view_of(one, BOTH[i]).holder_count, 1);
    assert_given(&waiter.result.hold);
    for (size_t i = 0; i < 2; i++)
        WAIT_UNTIL(view_of(one, BOTH[i]).holder_count == 0);
}

/* ---- contenders ---- */

enum { CONTENDERS = 4, TURNS = 10 };

static struct ring {
    atomic_uint inside;
    _Atomic uint64_t valid_until_us; /* of the one inside */
    _Atomic uint64_t fence;
    atomic_uint overlaps, turns;
} ring;

static void one_turn(const struct guard_lock_result *result)
{
    uint64_t now_us = clock_us(), left_us = (uint64_t)guard_hold_left_ms(result->hold) * 1000;
    if (atomic_fetch_add(&ring.inside, 1) > 0 && now_us < atomic_load(&ring.valid_until_us) && left_us > 0)
        atomic_fetch_add(&ring.overlaps, 1);
    atomic_store(&ring.valid_until_us, now_us + left_us);
    if (atomic_exchange(&ring.fence, result->fence[0]) >= result->fence[0] && left_us > 0)
        atomic_fetch_add(&ring.overlaps, 1);
    atomic_fetch_add(&ring.turns, 1);
    atomic_fetch_sub(&ring.inside, 1);
}

static void *contend(void *locks)
{
    const char *name = "ring";
    struct guard_lock_request request = exclusive(&name);
    for (int i = 0; i < TURNS; i++) {
        struct guard_lock_result result;
        if (guard_lock_wait(locks, &request, &result, NULL) != GUARD_LOCK_OK)
            continue;
        one_turn(&result);
        guard_unlock_wait(&result.hold);
    }
    return NULL;
}

TEST(of_those_that_contend_one_at_a_time_is_inside, P123)
{
    pthread_t threads[CONTENDERS];
    memset(&ring, 0, sizeof ring);
    for (size_t i = 0; i < CONTENDERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, contend, locks_open()), 0);
    for (size_t i = 0; i < CONTENDERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&ring.overlaps), 0);
    assert_int_equal(atomic_load(&ring.turns), CONTENDERS * TURNS);
}

/* ---- owners, and the end ---- */

TEST(an_owner_enters_its_own_lock_again_and_the_last_one_out_gives_it_back, P115)
{
    struct guard_locks *one = locks_open(), *other = locks_open();
    struct guard_owner *owner = NULL;
    const char *name = "catalog";
    struct guard_lock_request request = exclusive(&name), others = at_once(&name);
    static struct taking held;
    assert_int_equal(guard_owner_new(one, &owner), GUARD_LOCK_OK);
    request.owner = owner;
    struct guard_lock_result outer = lock_of(one, &request), inner = lock_of(one, &request);
    assert_int_equal(inner.status, GUARD_LOCK_OK);
    assert_int_equal(inner.fence[0], outer.fence[0]);
    assert_int_equal(lock_stats_of(one).reentered, 1);
    assert_given(&outer.hold);
    assert_int_equal(lock_of(other, &others).status, GUARD_LOCK_BUSY);
    assert_given(&inner.hold);
    others.wait_ms = RIG_LIMIT_MS;
    struct guard_hold *theirs = hold_of(other, &others);
    assert_given(&theirs);
    take_start(one, &held, request);
    take_expect(&held, GUARD_LOCK_OK);
    guard_owner_free(&owner); /* what it holds goes with it */
    assert_null(owner);
    theirs = hold_of(other, &others);
    WAIT_UNTIL(atomic_load(&held.losses) == 1);
    assert_int_equal(guard_hold_left_ms(held.result.hold), 0);
    assert_int_equal(guard_unlock_wait(&held.result.hold), GUARD_LOCK_LOST);
    assert_given(&theirs);
}

TEST(closing_answers_those_that_wait_and_gives_back_what_is_held, P121)
{
    struct guard_locks *one = locks_open(), *other = locks_open();
    const char *name = "catalog", *second = "second";
    struct guard_lock_request request = exclusive(&second);
    static struct taking held, waiter;
    struct guard_owner *owner = NULL;
    assert_int_equal(guard_owner_new(one, &owner), GUARD_LOCK_OK);
    take_start(one, &held, exclusive(&name));
    take_expect(&held, GUARD_LOCK_OK);
    struct guard_hold *theirs = hold_of(other, &request);
    take_start(one, &waiter, request);
    WAIT_UNTIL(waits(other, second, 1));
    assert_int_equal(guard_locks_close(&locks_rig.locks[0], 10000), GUARD_LOCK_OK);
    assert_null(locks_rig.locks[0]);
    take_expect(&waiter, GUARD_LOCK_CLOSING);
    assert_int_equal(atomic_load(&held.losses), 1);
    assert_int_equal(guard_hold_left_ms(held.result.hold), 0);
    WAIT_UNTIL(view_of(other, name).holder_count == 0);
    WAIT_UNTIL(waits(other, second, 0));
    struct pollfd lost = {.fd = guard_hold_lost_fd(held.result.hold), .events = POLLIN};
    assert_int_equal(poll(&lost, 1, 0), 1);
    guard_unlock(&held.result.hold, on_taken_given, &held); /* the last to know of them are gone after this */
    assert_int_equal(atomic_load(&held.given), GUARD_LOCK_LOST);
    guard_owner_free(&owner);
    assert_given(&theirs);
}

TEST_GROUP(.turns = ALL, .up = provider_up, .down = provider_down, .before = contract_before,
           .after = contract_after);

/* ZooKeeper's library, see lock_zookeeper_test.c. */
#define VISIBLE __attribute__((visibility("default")))
VISIBLE const char *__lsan_default_suppressions(void);
VISIBLE const char *__tsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
    return "leak:libzookeeper_mt.so\n";
}

const char *__tsan_default_suppressions(void)
{
    return "race_top:vsprintf\n";
}
