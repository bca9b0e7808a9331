/* SPDX-License-Identifier: MIT */
/*
 * lock_test.c - locks over one Redis: every kind, every way to wait and to give back. Faults are in lock_fault_test.c.
 */
#include "locks_rig.h"

/* ---- kinds ---- */

TEST(every_kind_is_granted_with_a_fence_and_given_back)
{
    static const enum guard_lock_kind KINDS[] = {GUARD_LOCK_FAIR, GUARD_LOCK_MUTEX, GUARD_LOCK_WRITE,
                                                 GUARD_LOCK_READ, GUARD_LOCK_PERMITS};
    struct guard_locks *locks = locks_open();
    const char *name = "catalog";
    uint64_t fence = 0;
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
        struct guard_lock_request request = lock_request(KINDS[i], &name);
        struct guard_lock_result result = lock_of(locks, &request);
        assert_int_equal(result.status, GUARD_LOCK_OK);
        assert_true(result.fence[0] > fence);
        fence = result.fence[0];
        assert_in_range(guard_hold_left_ms(result.hold), 1, 20000);
        assert_given(&result.hold);
    }
    assert_int_equal(lock_stats_of(locks).granted, 5);
    WAIT_UNTIL(lock_stats_of(locks).held == 0);
}

TEST(a_holder_keeps_others_out_until_it_gives_back)
{
    struct guard_locks *one = locks_open(), *other = locks_open();
    const char *name = "catalog";
    struct guard_lock_request at_once = lock_request(GUARD_LOCK_FAIR, &name);
    at_once.wait_ms = 0;
    struct guard_lock_result first = lock_of(one, &at_once);
    assert_int_equal(first.status, GUARD_LOCK_OK);
    struct guard_lock_result second = lock_of(other, &at_once);
    assert_int_equal(second.status, GUARD_LOCK_BUSY);
    assert_null(second.hold);
    assert_given(&first.hold);
    second = lock_of(other, &at_once);
    assert_int_equal(second.status, GUARD_LOCK_OK);
    assert_true(second.fence[0] > first.fence[0]);
    assert_given(&second.hold);
}

int main(int argc, char **argv)
{
    return locks_rig_main(argc, argv);
}

TEST_GROUP(.up = rig_start, .down = rig_stop, .before = locks_before, .after = locks_after);
