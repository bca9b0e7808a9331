/* SPDX-License-Identifier: MIT */
/*
 * lock_sim_test.c - the simulator of the locks within the test suite: a bounded number of seeds, and those that once
 * failed. `sim locks` runs any number of them; `make mutants` shows that it would notice.
 */
#include "lock_sim.h"
#include "tests/support/test.h"

#include <inttypes.h>

static struct lock_sim sim;

static void assert_good(uint64_t seed)
{
    if (!lock_sim_run(&sim, seed, false))
        fail_msg("SEED=%" PRIu64 ": %s", seed, sim.course.failure);
}

TEST(no_seed_finds_anything, P107, P108)
{
    enum { SEEDS = 6000 };
    uint64_t hit[LOCK_FAULTS] = {0}, seen[LOCK_SEENS] = {0}, answers[GUARD_LOCK_NO_MEMORY + 1] = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        assert_good(seed);
        for (int fault = 0; fault < LOCK_FAULTS; fault++)
            hit[fault] += sim.hit[fault];
        for (int status = 0; status <= GUARD_LOCK_NO_MEMORY; status++)
            answers[status] += sim.answers[status];
        for (int what = 0; what < LOCK_SEENS; what++)
            seen[what] += sim.seen[what];
    }
    for (int what = 0; what < LOCK_SEENS; what++)
        if (seen[what] == 0)
            fail_msg("%s: none", lock_seen_names[what]);
    for (int fault = 0; fault < LOCK_FAULTS; fault++)
        if (hit[fault] == 0)
            fail_msg("%s: never happened", lock_fault_names[fault]);
    for (int status = GUARD_LOCK_OK; status <= GUARD_LOCK_UNREACHABLE; status++)
        if (answers[status] == 0)
            fail_msg("no request was answered %s", lock_status_names[status]);
}

/* Each once found something wrong, in the core, the scripts or the oracle. What a seed stands for changes with the
 * simulator; they are kept because runs that are near a bug tend to stay near others. */
TEST(seeds_that_once_failed_no_longer_do)
{
    static const uint64_t seeds[] = {61,    224,   869,   1114,   1630,   2382,  4709,
                                     24355, 54648, 66481, 116663, 235575, 257613};
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        assert_good(seeds[i]);
}

TEST(one_seed_is_one_run)
{
    for (uint64_t seed = 1; seed <= 50; seed++) {
        assert_good(seed);
        uint64_t events = sim.course.events_seen, tokens = sim.tokens, end = chance_next(&sim.course.chance);
        assert_good(seed);
        assert_true(sim.course.events_seen == events && sim.tokens == tokens &&
                    chance_next(&sim.course.chance) == end);
    }
}

static bool clear(void)
{
    events_clear(&sim.course.events);
    return true;
}

TEST_GROUP(.down = clear);
