/* SPDX-License-Identifier: MIT */
/*
 * sim_test.c - the simulator within the test suite: a bounded number of seeds, the seeds that once failed,
 * and whether it would notice. `sim` runs any number of them.
 */
#include "seeds.h"

TEST(no_seed_finds_anything, P16, P22, P39, P42, P45, P46, P48, P74, P94)
{
    expect_good_to(&guard_simulator, 6000);
}

TEST(nor_does_one_of_several_masters)
{
    expect_good_to(&shard_simulator, 3000);
}

TEST(nor_does_one_with_wishes, P149, P152, P154)
{
    expect_good_to(&wish_simulator, 2000);
}

TEST(nor_does_one_with_outages)
{
    expect_good_to(&outage_simulator, 400);
}

/* Each was the first to find a bug, in the core, in a mutated copy of it or in the simulator. What a seed stands for
 * changes with the simulator; they are kept because runs that are near a bug tend to stay near others. */
TEST(seeds_that_once_failed_no_longer_do)
{
    EXPECT_EACH_GOOD(&guard_simulator, 14, 43, 49, 59, 61, 82, 93, 233, 322, 354, 415, 576, 601, 611, 668,
                     676, 705, 772, 820, 1684, 2444, 3368, 7438, 8274, 8738, 9893, 11373, 11683, 14490, 17782,
                     18246, 21493, 257409, 1028723, 1767917, 1958672, 3922833, 4600969, 5158253, 30036369,
                     55140317);
    EXPECT_EACH_GOOD(&shard_simulator, 66433, 93076, 113433, 318064, 348448, 465041, 818457, 865984, 923296,
                     445653, 805837, 50433074);
    EXPECT_EACH_GOOD(&wish_simulator, 177, 319, 334, 1821, 17561, 509, 722, 731, 20074, 22803, 53915, 56993,
                     131530, 217389, 832096, 967173, 20202048);
    EXPECT_EACH_GOOD(&outage_simulator, 116, 718, 4624, 7399, 8455, 8657, 8848, 9133, 9202, 10699, 46388);
}

TEST(one_seed_is_one_run)
{
    expect_one_run_a_seed(&guard_simulator);
}

static void expect_found(const struct simulator *simulator)
{
    enum { SEEDS = 20000 };
    for (uint32_t mutant = simulator->first_mutant; mutant < simulator->end_mutant; mutant++) {
        uint64_t seed = 1;
        while (seed <= SEEDS && simulator->run(simulator->seeds_from + seed, mutant, false))
            seed++;
        if (seed > SEEDS)
            fail_msg("%s: not found", simulator->mutant_names[mutant]);
    }
}

TEST(every_bug_sown_into_the_model_is_found, P69, P75, P84)
{
    expect_found(&guard_simulator);
    expect_found(&shard_simulator);
    expect_found(&wish_simulator);
    expect_found(&outage_simulator);
}

static bool clear(void)
{
    events_clear(&guard_simulator.course->events);
    return true;
}

TEST_GROUP(.down = clear);
