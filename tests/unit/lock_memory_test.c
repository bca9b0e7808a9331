/* SPDX-License-Identifier: MIT */
/*
 * lock_memory_test.c - the n-th allocation of the locks' core fails, for every n: refused cleanly, no request
 * forgotten, nothing lost.
 */
#include "failing_memory.h"
#include "lock_bench.h"

enum { CALLERS = 120, OWNED = 40 };

static struct caller callers[CALLERS];

/* The bench takes memory of its own only outside of an event. */
static void ask_under_failure(struct caller *caller, unsigned n)
{
    until_failure = n;
    caller->accepted = lock_core_ask(bench.core, bench.now_us, &caller->request, &caller->why);
    until_failure = 0;
    assert_true(caller->accepted == GUARD_LOCK_OK || caller->accepted == GUARD_LOCK_NO_MEMORY);
    bench.accepted_count += caller->accepted == GUARD_LOCK_OK;
    drain();
}

static const char *name_of(unsigned i)
{
    static char names[CALLERS][8];
    snprintf(names[i], sizeof names[i], "n%u", i % 70);
    return names[i];
}

/* Many names, some of them twice, some of them an owner's; big enough for every table to grow. */
static void ask_for_much(struct lock_owner *owner, unsigned failing, unsigned n)
{
    for (unsigned i = 0; i < CALLERS; i++) {
        prepare(&callers[i], NAMES(name_of(i), "x", "y"));
        callers[i].request.count = i % 5 == 0 ? 3 : 1;
        callers[i].request.lock_owner = i < OWNED ? owner : NULL;
        ask_under_failure(&callers[i], i == failing ? n : 0);
        if (i == failing && failures > 0)
            assert_int_equal(callers[i].accepted, GUARD_LOCK_NO_MEMORY);
    }
}

TEST(a_core_and_an_owner_for_which_there_is_no_memory_are_not_made)
{
    bench_up();
    until_failure = 1;
    assert_null(lock_core_new(&bench.config));
    until_failure = 1;
    assert_null(lock_core_owner_new(bench.core));
    bench_close();
}

TEST(every_allocation_of_a_request_may_fail)
{
    for (unsigned failing = 0; failing < CALLERS; failing++) {
        for (unsigned n = 1; n < 100; n++) {
            bench_up();
            failures = 0;
            ask_for_much(lock_core_owner_new(bench.core), failing, n);
            bench_close();
            if (failures == 0)
                break;
        }
        assert_int_equal(failures, 0);
    }
}

TEST(every_allocation_for_a_claim_in_place_of_another_may_fail)
{
    unsigned n = 0;
    do {
        bench_up();
        struct lock_owner *owner = lock_core_owner_new(bench.core);
        for (unsigned i = 0; i < 3; i++)
            ask_as(&callers[i], "a", GUARD_LOCK_FAIR, owner);
        failures = 0;
        until_failure = ++n;
        lock_core_replied(bench.core, bench.now_us, expect(LOCK_TAKE)->action.op,
                          &(struct lock_reply){.kind = LOCK_GONE});
        until_failure = 0;
        drain();
        bench.seen[0].over = true;
        still_waits(&callers[1]);
        if (failures > 0)
            answered(&callers[0], GUARD_LOCK_NO_MEMORY);
        grant(expect(LOCK_TAKE), 1);
        if (failures == 0)
            holds(&callers[0]);
        holds(&callers[1]);
        holds(&callers[2]);
        bench_close();
    } while (failures > 0);
    assert_in_range(n, 2, 100);
}
