/* SPDX-License-Identifier: MIT */
/*
 * lock_sim_test.c - the simulator of the locks within the test suite: a bounded number of seeds, and those that once
 * failed. `sim locks` runs any number of them; `make mutants` shows that it would notice.
 */
#include "seeds.h"

TEST(no_seed_finds_anything, P107, P108)
{
    expect_good_to(&lock_simulator, 6000);
}

/* Each once found something wrong, in the core, the scripts or the oracle. What a seed stands for changes with the
 * simulator; they are kept because runs that are near a bug tend to stay near others. */
TEST(seeds_that_once_failed_no_longer_do)
{
    EXPECT_EACH_GOOD(&lock_simulator, 61, 224, 869, 1114, 1630, 2382, 4709, 24355, 54648, 66481, 116663,
                     235575, 257613);
}

TEST(one_seed_is_one_run)
{
    expect_one_run_a_seed(&lock_simulator);
}

static bool clear(void)
{
    events_clear(&lock_simulator.course->events);
    return true;
}

TEST_GROUP(.down = clear);
