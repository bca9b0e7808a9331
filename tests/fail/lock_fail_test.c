/* SPDX-License-Identifier: MIT */
/*
 * lock_fail_test.c - the life of locks beside a real Redis, again and again; each time the next allocation or system
 * call fails.
 *
 * Expected of every single one: no crash, nothing lost (blocks and descriptors are counted), every accepted request
 * answered once and every hold given back once, a status that locks.h names, and, once nothing fails any more, locks
 * that work again without help. What is left out, and why, is in guard_fail_test.c; a token is made as one of the
 * guard is.
 *
 * The three masters of RedLock are three databases of one Redis.
 */
#include "tests/fail/failing.h"
#include "tests/live/guard/guard_rig.h"

#include "guard/locks.h"

enum { MASTERS = 3, LIMIT_MS = 200 };

struct life {
    void (*days)(struct life *life); /* what happens in it */
    unsigned run;
    struct guard_locks_config config;
    enum guard_lock_kind kind;
    char urls[MASTERS][64];
    const char *url_list[MASTERS];
    char name[32], second[32];
    struct guard_locks *locks;
    atomic_uint accepted, answered, given, done;
};

static struct stack_redis others[MASTERS - 1];

static void init_life(struct life *life, void (*days)(struct life *life), enum guard_lock_provider provider)
{
    static unsigned runs;
    memset(life, 0, sizeof *life);
    life->days = days;
    life->run = ++runs;
    life->kind = provider == GUARD_LOCKS_REDLOCK ? GUARD_LOCK_MUTEX : GUARD_LOCK_FAIR;
    life->config = (struct guard_locks_config)GUARD_LOCKS_CONFIG_DEFAULTS;
    for (size_t i = 0; i < MASTERS; i++) {
        const struct stack_redis *master = i == 0 ? &rig_redis : &others[i - 1];
        snprintf(life->urls[i], sizeof life->urls[i], "redis://127.0.0.1:%u", (unsigned)master->port);
        life->url_list[i] = life->urls[i];
    }
    snprintf(life->name, sizeof life->name, "name:%u", life->run);
    snprintf(life->second, sizeof life->second, "second:%u", life->run);
    life->config.provider = provider;
    life->config.urls = life->url_list;
    life->config.url_count = provider == GUARD_LOCKS_REDLOCK ? MASTERS : 1;
    life->config.name_space = "failing";
    life->config.limit_ms = LIMIT_MS;
    life->config.max_lease_ms = life->config.place_ms = 5 * LIMIT_MS;
    life->config.log = guard_log_none;
}

static struct guard_lock_request request_of(struct life *life, const char *const *names)
{
    struct guard_lock_request request = GUARD_LOCK_REQUEST_DEFAULTS;
    request.kind = life->kind;
    request.names = names;
    request.lease_ms = 5 * LIMIT_MS;
    request.wait_ms = RIG_LIMIT_MS;
    return request;
}

/* ---- its days ---- */

static void on_done(void *context, enum guard_lock_status status)
{
    struct life *life = context;
    assert_true(status == GUARD_LOCK_OK || status == GUARD_LOCK_LOST || status == GUARD_LOCK_UNKNOWN);
    atomic_fetch_add(&life->done, 1);
}

static void give(struct life *life, struct guard_hold *hold)
{
    if (hold == NULL)
        return;
    atomic_fetch_add(&life->given, 1);
    guard_unlock(&hold, on_done, life);
}

/* Everything that a request may end in when something fails on its way. */
static void on_answer(void *context, const struct guard_lock_result *result)
{
    struct life *life = context;
    assert_true(result->status == GUARD_LOCK_OK || result->status == GUARD_LOCK_CANCELLED ||
                result->status == GUARD_LOCK_NO_MEMORY || result->status == GUARD_LOCK_UNREACHABLE);
    assert_true((result->status == GUARD_LOCK_OK) == (result->hold != NULL));
    give(life, result->hold);
    atomic_fetch_add(&life->answered, 1);
}

static guard_ticket lock_later(struct life *life, const char *const *names)
{
    struct guard_lock_request request = request_of(life, names);
    guard_ticket ticket = 0;
    request.answered = on_answer;
    request.context = life;
    enum guard_lock_status status = guard_lock(life->locks, &request, &ticket, NULL);
    assert_true(status == GUARD_LOCK_OK ? ticket != 0 : status == GUARD_LOCK_NO_MEMORY);
    atomic_fetch_add(&life->accepted, status == GUARD_LOCK_OK);
    return ticket;
}

static enum guard_lock_status lock_waiting(struct life *life, const char *const *names, size_t count,
                                           struct guard_owner *owner)
{
    struct guard_lock_request request = request_of(life, names);
    struct guard_lock_result result;
    request.count = count;
    request.owner = owner;
    enum guard_lock_status status = guard_lock_wait(life->locks, &request, &result, NULL);
    assert_true(status == GUARD_LOCK_OK || status == GUARD_LOCK_NO_MEMORY);
    if (status != GUARD_LOCK_OK)
        return status;
    int fd = guard_hold_lost_fd(result.hold);
    assert_true(fd >= -1);
    status = guard_unlock_wait(&result.hold);
    assert_true(status == GUARD_LOCK_OK || status == GUARD_LOCK_LOST || status == GUARD_LOCK_UNKNOWN);
    return status;
}

/* One holds, another waits behind it, a third leaves. */
static void lock_together(struct life *life)
{
    const char *const name = life->second;
    lock_later(life, &name);
    lock_later(life, &name);
    guard_lock_cancel(life->locks, lock_later(life, &name));
    WAIT_UNTIL(atomic_load(&life->answered) == atomic_load(&life->accepted));
    WAIT_UNTIL(atomic_load(&life->done) == atomic_load(&life->given));
}

static void lock_as_owner(struct life *life)
{
    const char *const names[] = {life->name, life->second};
    struct guard_owner *owner = NULL;
    enum guard_lock_status status = guard_owner_new(life->locks, &owner);
    assert_true(status == GUARD_LOCK_OK || status == GUARD_LOCK_NO_MEMORY);
    if (status != GUARD_LOCK_OK)
        return;
    lock_waiting(life, names, 2, owner);
    guard_owner_free(&owner);
}

static void look(struct life *life)
{
    struct guard_lock_view view;
    enum guard_lock_status status = guard_lock_look(life->locks, life->name, &view, NULL);
    assert_true(status == GUARD_LOCK_OK || status == GUARD_LOCK_UNREACHABLE ||
                status == GUARD_LOCK_NO_MEMORY);
}

static bool locks_up(struct guard_locks *locks)
{
    struct guard_locks_stats stats;
    guard_locks_stats(locks, &stats);
    return stats.is_up;
}

/* Once nothing fails any more it works as if nothing had been; an unlock may not be confirmed where the machine stood
 * still for longer than LIMIT_MS. */
static void expect_recovered(struct life *life, const char *name)
{
    failing_stop();
    WAIT_UNTIL(locks_up(life->locks));
    WAIT_UNTIL(lock_waiting(life, &name, 1, NULL) == GUARD_LOCK_OK);
}

static void lock_in_every_way(struct life *life)
{
    const char *const name = life->name;
    lock_waiting(life, &name, 1, NULL); /* not connected yet */
    lock_together(life);
    lock_as_owner(life);
    look(life);
    expect_recovered(life, name);
}

static void lock_once(struct life *life)
{
    const char *const name = life->name;
    lock_waiting(life, &name, 1, NULL);
    look(life);
    expect_recovered(life, name);
}

static void do_nothing(struct life *life)
{
    (void)life;
}

/* ---- from beginning to end ---- */

static bool open_locks(struct life *life)
{
    struct guard_error error = {.text = ""};
    enum guard_status status = guard_locks_open(&life->config, &life->locks, &error);
    if (status == GUARD_OK)
        return true;
    assert_int_equal(status, GUARD_NO_MEMORY);
    assert_int_equal(error.status, GUARD_NO_MEMORY);
    assert_string_not_equal(error.text, "");
    assert_null(life->locks);
    return false;
}

static bool live_failing(enum failing what, void (*days)(struct life *life),
                         enum guard_lock_provider provider, unsigned first)
{
    struct life life;
    failing_prepare();
    init_life(&life, days, provider);
    failing_begin(what, first, 1);
    if (open_locks(&life)) {
        life.days(&life);
        guard_locks_close(&life.locks, 1000);
    }
    assert_int_equal(atomic_load(&life.answered), atomic_load(&life.accepted));
    assert_int_equal(atomic_load(&life.done), atomic_load(&life.given));
    return failing_end(first);
}

static void sweep(enum failing what, void (*days)(struct life *life), enum guard_lock_provider provider)
{
    SWEEP(first, live_failing(what, days, provider, first));
}

TEST(any_allocation_may_fail, P121)
{
    sweep(FAIL_MEMORY, lock_in_every_way, GUARD_LOCKS_REDIS);
}

TEST(any_allocation_for_several_masters_may_fail)
{
    sweep(FAIL_MEMORY, lock_once, GUARD_LOCKS_REDLOCK);
}

TEST(any_socket_or_connect_may_fail)
{
    sweep(FAIL_SOCKET, lock_in_every_way, GUARD_LOCKS_REDIS);
    sweep(FAIL_CONNECT, lock_in_every_way, GUARD_LOCKS_REDIS);
}

TEST(any_write_or_read_may_fail)
{
    sweep(FAIL_SEND, lock_in_every_way, GUARD_LOCKS_REDIS);
    sweep(FAIL_RECV, lock_in_every_way, GUARD_LOCKS_REDIS);
}

TEST(descriptors_and_threads_may_run_out)
{
    sweep(FAIL_DESCRIPTOR, lock_in_every_way, GUARD_LOCKS_REDIS);
    sweep(FAIL_WATCH, lock_in_every_way, GUARD_LOCKS_REDIS);
    sweep(FAIL_THREAD, lock_in_every_way, GUARD_LOCKS_REDIS);
}

TEST(locks_without_randomness_do_not_open)
{
    sweep(FAIL_RANDOM, do_nothing, GUARD_LOCKS_REDLOCK);
    sweep(FAIL_RANDOM_SIGNAL, lock_in_every_way, GUARD_LOCKS_REDIS);
    sweep(FAIL_RANDOM, lock_in_every_way, GUARD_LOCKS_REDIS); /* later it costs nothing */
}

static bool start(void)
{
    bool good = failing_take_over_libuv() && rig_start();
    for (size_t i = 0; i + 1 < MASTERS && good; i++)
        good = stack_redis_start(&others[i], NULL);
    return good;
}

static bool stop(void)
{
    for (size_t i = 0; i + 1 < MASTERS; i++)
        stack_redis_stop(&others[i]);
    return rig_stop();
}

TEST_GROUP(.up = start, .down = stop);
