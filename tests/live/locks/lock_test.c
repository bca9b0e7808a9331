/* SPDX-License-Identifier: MIT */
/*
 * lock_test.c - locks over one Redis: every kind, every way to wait and to give back. Faults are in
 * lock_fault_test.c.
 */
#include "locks_rig.h"

#include <sys/wait.h>

/* ---- kinds ---- */

TEST(a_latch_opens_once_all_parties_are_there, P116)
{
    struct guard_locks *one = locks_open(), *other = locks_open();
    const char *name = "start:42";
    struct guard_lock_request request = lock_request(GUARD_LOCK_LATCH, &name);
    struct taking first, onlooker;
    request.limit = 2;
    request.units = 0;
    take_start(other, &onlooker, request);
    request.units = 1;
    take_start(one, &first, request);
    WAIT_UNTIL(lock_stats_of(one).polls + lock_stats_of(one).hints + lock_stats_of(one).waiting > 0);
    struct guard_lock_result last = lock_of(other, &request);
    assert_int_equal(last.status, GUARD_LOCK_OK);
    assert_null(last.hold);
    take_expect(&first, GUARD_LOCK_OK);
    take_expect(&onlooker, GUARD_LOCK_OK);
    assert_null(first.result.hold);
    request.wait_ms = 0; /* open stays open */
    assert_int_equal(lock_of(one, &request).status, GUARD_LOCK_OK);
}

/* ---- waiting ---- */

TEST(what_one_thread_does_in_turn_is_done_in_that_order, P121)
{
    struct guard_locks *locks = locks_open();
    const char *name = "catalog";
    struct guard_lock_request request = lock_request(GUARD_LOCK_FAIR, &name);
    request.wait_ms = 0;
    struct guard_hold *hold = hold_of(locks, &request);
    for (int i = 0; i < 100; i++) {
        guard_unlock(&hold, NULL, NULL);
        hold = hold_of(locks, &request);
    }
    assert_given(&hold);
}

/* ---- callbacks ---- */

struct nested {
    struct guard_locks *locks;
    atomic_uint done;
    _Atomic(enum guard_lock_status) waited, closed, unlocked;
};

static void on_nested(void *context, const struct guard_lock_result *result)
{
    struct nested *nested = context;
    struct guard_hold *hold = result->hold;
    struct guard_locks *locks = nested->locks;
    const char *name = "other";
    struct guard_lock_request request = lock_request(GUARD_LOCK_FAIR, &name);
    struct guard_lock_result waited;
    atomic_store(&nested->waited, guard_lock_wait(nested->locks, &request, &waited, NULL));
    atomic_store(&nested->closed, guard_locks_close(&locks, 0));
    atomic_store(&nested->unlocked, guard_unlock_wait(&hold));
    atomic_fetch_add(&nested->done, 1);
}

TEST(what_would_wait_for_itself_in_a_callback_is_refused, P127)
{
    struct nested nested = {.locks = locks_open()};
    const char *name = "catalog";
    struct guard_lock_request request = lock_request(GUARD_LOCK_FAIR, &name);
    request.answered = on_nested;
    request.context = &nested;
    assert_int_equal(guard_lock(nested.locks, &request, NULL, NULL), GUARD_LOCK_OK);
    WAIT_UNTIL(atomic_load(&nested.done) == 1);
    assert_int_equal(atomic_load(&nested.waited), GUARD_LOCK_INVALID);
    assert_int_equal(atomic_load(&nested.closed), GUARD_LOCK_INVALID);
    assert_int_equal(atomic_load(&nested.unlocked), GUARD_LOCK_UNKNOWN);
    WAIT_UNTIL(view_of(nested.locks, name).holder_count == 0); /* it was given back all the same */
}

TEST(a_scoped_hold_is_given_back_when_its_block_is_left)
{
    struct guard_locks *locks = locks_open();
    const char *name = "catalog";
    struct guard_lock_request request = lock_request(GUARD_LOCK_FAIR, &name);
    request.wait_ms = 0;
    for (int i = 0; i < 3; i++) {
        GUARD_SCOPED_HOLD hold = hold_of(locks, &request);
        assert_non_null(hold);
    }
    assert_int_equal(view_of(locks, name).holder_count, 0);
}

/* ---- the end ---- */

struct stay {
    struct guard_locks *locks;
    atomic_bool is_there;
};

static void on_taken_give_back(void *context, const struct guard_lock_result *result)
{
    (void)context;
    struct guard_hold *hold = result->hold;
    guard_unlock(&hold, NULL, NULL);
}

/* Keeps the thread of the locks until somebody closes them. */
static void on_taken_stay(void *context, const struct guard_lock_result *result)
{
    struct stay *stay = context;
    const char *name = "other";
    struct guard_lock_request request = lock_request(GUARD_LOCK_FAIR, &name);
    request.answered = on_taken_give_back;
    atomic_store(&stay->is_there, true);
    while (guard_lock(stay->locks, &request, NULL, NULL) == GUARD_LOCK_OK)
        test_pause();
    on_taken_give_back(NULL, result);
}

TEST(what_was_given_back_before_the_close_is_not_lost_by_it, P121)
{
    const char *name = "catalog", *second = "second";
    struct taking held;
    struct stay stay = {.locks = locks_open()};
    take_start(stay.locks, &held, lock_request(GUARD_LOCK_FAIR, &name));
    take_expect(&held, GUARD_LOCK_OK);
    struct guard_lock_request request = lock_request(GUARD_LOCK_FAIR, &second);
    request.answered = on_taken_stay;
    request.context = &stay;
    assert_int_equal(guard_lock(stay.locks, &request, NULL, NULL), GUARD_LOCK_OK);
    WAIT_UNTIL(atomic_load(&stay.is_there));
    guard_unlock(&held.result.hold, on_taken_given, &held);
    assert_int_equal(guard_locks_close(&locks_rig.locks[0], 10000), GUARD_LOCK_OK);
    assert_int_equal(atomic_load(&held.losses), 0);
    assert_int_equal(atomic_load(&held.givens), 1);
    assert_int_equal(atomic_load(&held.given), GUARD_LOCK_OK);
}

static void *lock_and_unlock_until_refused(void *context)
{
    struct guard_locks *locks = context;
    const char *name = "catalog";
    struct guard_lock_request request = lock_request(GUARD_LOCK_MUTEX, &name);
    struct guard_lock_result result = {.status = GUARD_LOCK_OK};
    while (guard_lock_wait(locks, &request, &result, NULL) == GUARD_LOCK_OK)
        guard_unlock(&result.hold, NULL, NULL);
    return (void *)(uintptr_t)result.status;
}

/* The owner must outlive the calls of other threads; here it does by the hold that is out. */
TEST(threads_that_lock_meanwhile_are_told_that_the_locks_close, P121)
{
    enum { THREADS = 4 };
    struct guard_locks *locks = locks_open();
    struct guard_hold *out = hold_name(locks, "out");
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, lock_and_unlock_until_refused, locks), 0);
    WAIT_UNTIL(lock_stats_of(locks).granted > 100);
    assert_int_equal(guard_locks_close(&locks_rig.locks[0], 10000), GUARD_LOCK_OK);
    for (int i = 0; i < THREADS; i++) {
        void *status = NULL;
        assert_int_equal(pthread_join(threads[i], &status), 0);
        assert_int_equal((uintptr_t)status, GUARD_LOCK_CLOSING);
    }
    guard_unlock(&out, NULL, NULL);
}

/* ---- many ---- */

/* Calls of scripts: every way to Redis is one. */
static uint64_t scripts_run(void)
{
    return stack_redis_calls(&rig_redis, "evalsha") + stack_redis_calls(&rig_redis, "eval");
}

/* Its subscription is up: it was told. One that comes up later would make all that wait ask again. */
static bool hears(struct guard_locks *locks, struct guard_locks *other)
{
    const char *name = "hears";
    struct taking waiter;
    uint64_t hints = lock_stats_of(locks).hints;
    struct guard_hold *hold = hold_name(other, name);
    take_start(locks, &waiter, lock_request(GUARD_LOCK_FAIR, &name));
    WAIT_UNTIL(waits(other, name, 1));
    assert_given(&hold);
    take_expect(&waiter, GUARD_LOCK_OK);
    assert_given(&waiter.result.hold);
    return lock_stats_of(locks).hints > hints;
}

/* Two processes wait with 500 each. Commands are counted from one hand-over to the next, and only where no place was
 * renewed in between. */
TEST(a_hand_over_among_a_thousand_waiters_costs_four_commands_and_one_for_each_process, P120)
{
    enum { EACH = 500, HAND_OVERS = 40, PROCESSES = 2, COMMANDS_MOST = 4 + PROCESSES };
    static struct taking waiters[PROCESSES][EACH];
    locks_rig.config.place_ms = 60000;
    struct guard_locks *holder = locks_open(), *processes[PROCESSES] = {locks_open(), locks_open()};
    const char *name = "catalog";
    for (size_t p = 0; p < PROCESSES; p++)
        WAIT_UNTIL(hears(processes[p], holder));
    struct guard_hold *hold = hold_name(holder, name);
    uint64_t threads = proc_status(getpid(), "Threads");
    for (size_t i = 0; i < EACH; i++)
        for (size_t p = 0; p < PROCESSES; p++)
            take_start(processes[p], &waiters[p][i], lock_request(GUARD_LOCK_FAIR, &name));
    WAIT_UNTIL(waits(holder, name, EACH * PROCESSES));
    assert_int_equal(proc_status(getpid(), "Threads"), threads);
    uint64_t before = scripts_run();
    assert_given(&hold);
    for (size_t i = 0; i < HAND_OVERS; i++) {
        struct taking *next = NULL;
        while (next == NULL) {
            for (size_t p = 0; p < PROCESSES && next == NULL; p++)
                for (size_t at = 0; at < EACH && next == NULL; at++)
                    if (atomic_load(&waiters[p][at].answers) == 1 && waiters[p][at].result.hold != NULL)
                        next = &waiters[p][at];
            test_pause();
        }
        assert_given(&next->result.hold);
    }
    uint64_t commands = scripts_run() - before;
    print_message("%.2f scripts for a hand-over among %d waiters\n", (double)commands / HAND_OVERS,
                  EACH * PROCESSES);
    assert_in_range(commands, HAND_OVERS, HAND_OVERS * COMMANDS_MOST);
    for (size_t p = 0; p < PROCESSES; p++)
        for (size_t at = 0; at < EACH; at++)
            guard_lock_cancel(processes[p], waiters[p][at].ticket);
    for (size_t p = 0; p < PROCESSES; p++)
        for (size_t at = 0; at < EACH; at++) {
            WAIT_UNTIL(atomic_load(&waiters[p][at].answers) == 1);
            if (waiters[p][at].result.hold != NULL)
                assert_given(&waiters[p][at].result.hold);
        }
}

/* ---- fork ---- */

/* What a child finds of its parent's; its exit status is the first that is wrong. */
static int child_of_fork(struct guard_locks *locks, struct guard_hold *hold, struct guard_owner *owner)
{
    const char *name = "catalog";
    struct guard_lock_request request = lock_request(GUARD_LOCK_FAIR, &name);
    struct guard_lock_result result;
    struct guard_lock_view view;
    struct guard_owner *another = NULL;
    struct guard_hold *copy = hold;
    if (guard_hold_left_ms(hold) != 0 || guard_hold_lost_fd(hold) != -1)
        return 1;
    if (guard_lock_wait(locks, &request, &result, NULL) != GUARD_LOCK_INVALID)
        return 2;
    if (guard_lock_look(locks, name, &view, NULL) != GUARD_LOCK_INVALID ||
        guard_owner_new(locks, &another) != GUARD_LOCK_INVALID)
        return 3;
    guard_lock_cancel(locks, 1);
    if (guard_unlock_wait(&copy) != GUARD_LOCK_INVALID || copy != NULL)
        return 4;
    guard_owner_free(&owner);
    return guard_locks_close(&locks, 0) == GUARD_LOCK_OK && locks == NULL ? 0 : 5;
}

TEST(a_child_after_fork_holds_nothing_and_its_parent_everything, P127)
{
    struct guard_locks *locks = locks_open();
    struct guard_owner *owner = NULL;
    assert_int_equal(guard_owner_new(locks, &owner), GUARD_LOCK_OK);
    struct guard_hold *hold = hold_name(locks, "catalog");
    int status = -1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(child_of_fork(locks, hold, owner));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(view_of(locks, "catalog").holder_count, 1);
    assert_given(&hold);
    guard_owner_free(&owner);
}

int main(int argc, char **argv)
{
    return locks_rig_main(argc, argv);
}

TEST_GROUP(.up = rig_start, .down = rig_stop, .before = locks_before, .after = locks_after);
