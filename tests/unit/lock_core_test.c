/* SPDX-License-Identifier: MIT */
/* lock_core_test.c - one request, one name: asked for, waited for, held, given back. Rules L1 to L9 of lock_core.h. */
#include "lock_bench.h"

/* ---- asking and granting ---- */

TEST(a_free_name_is_granted_with_its_fencing_number)
{
    struct caller caller;
    ask_for(&caller, "a");
    struct seen *take = expect(LOCK_TAKE);
    assert_string_equal(take->names[0], "a");
    assert_int_equal(take->action.units, LOCK_ALL);
    assert_int_equal(take->action.limit, LOCK_ALL);
    assert_int_equal(take->action.lease_ms, BENCH_LEASE_MS);
    assert_int_equal(take->action.place_ms, 3000);
    assert_false(take->action.overtakes);
    grant(take, 41);
    holds(&caller);
    assert_int_equal(caller.request.result.fence[0], 41);
    give_back(&caller);
}

TEST_GROUP(.before = bench_up, .after = bench_close);
