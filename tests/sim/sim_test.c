/* SPDX-License-Identifier: MIT */
/*
 * sim_test.c - the simulator within the test suite: a bounded number of seeds, the seeds that once failed,
 * and whether it would notice. `sim` runs any number of them.
 */
#include "sim.h"
#include "tests/support/test.h"

#include <inttypes.h>

static struct sim sim;

static void assert_good(uint64_t seed)
{
    if (!sim_run(&sim, seed, MUTANT_NONE, false))
        fail_msg("SEED=%" PRIu64 ": %s", seed, sim.course.failure);
}

static void assert_all_good(uint64_t from, uint64_t seeds, int faults, int seens)
{
    uint64_t hit[FAULTS] = {0}, seen[SEENS] = {0}, answers[STATUSES] = {0};
    for (uint64_t seed = from; seed < from + seeds; seed++) {
        assert_good(seed);
        for (int fault = 0; fault < FAULTS; fault++)
            hit[fault] += sim.hit[fault];
        for (int status = 0; status < STATUSES; status++)
            answers[status] += sim.answers[status];
        for (int what = 0; what < SEENS; what++)
            seen[what] += sim.seen[what];
    }
    for (int what = 0; what < seens; what++)
        if (seen[what] == 0)
            fail_msg("%s: none", seen_names[what]);
    for (int fault = 0; fault < faults; fault++)
        if (hit[fault] == 0)
            fail_msg("%s: never happened", fault_names[fault]);
    for (int status = GUARD_OK; status <= GUARD_CLOSING; status++)
        if (answers[status] == 0)
            fail_msg("nobody was answered %s", status_names[status]);
}

TEST(no_seed_finds_anything, P16, P22, P39, P42, P45, P46, P48, P74, P94)
{
    enum { SEEDS = 6000 };
    assert_all_good(1, SEEDS, FAULTS_OF_ONE, SEENS_OF_ONE);
}

TEST(nor_does_one_of_several_masters)
{
    enum { SEEDS = 3000 };
    assert_all_good(SIM_OF_SHARDS + 1, SEEDS, FAULTS_OF_SHARDS, SEENS_OF_SHARDS);
}

TEST(nor_does_one_with_wishes, P149, P152, P154)
{
    enum { SEEDS = 2000 };
    uint64_t made[WISHES] = {0}, seen[SEENS] = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        assert_good(SIM_OF_WISHES + seed);
        for (int wish = 0; wish < WISHES; wish++)
            made[wish] += sim.wishes.count[wish];
        for (int what = 0; what < SEENS; what++)
            seen[what] += sim.seen[what];
    }
    for (int wish = 0; wish < WISHES; wish++)
        if (wish_is_drawn((enum wish)wish) && made[wish] == 0)
            fail_msg("%s: never wished", wish_names[wish]);
    for (int what = SEENS_OF_SHARDS; what < SEENS_WISHED; what++)
        if (seen[what] == 0)
            fail_msg("%s: none", seen_names[what]);
}

TEST(nor_does_one_with_outages)
{
    enum { SEEDS = 400 };
    uint64_t hit[FAULTS] = {0}, seen[SEENS] = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        assert_good(SIM_OF_OUTAGES + seed);
        for (int fault = FAULTS_OF_SHARDS; fault < FAULTS; fault++)
            hit[fault] += sim.hit[fault];
        for (int what = SEENS_WISHED; what < SEENS; what++)
            seen[what] += sim.seen[what];
    }
    for (int fault = FAULTS_OF_SHARDS; fault < FAULTS; fault++)
        if (hit[fault] == 0)
            fail_msg("%s: never happened", fault_names[fault]);
    for (int what = SEENS_WISHED; what < SEENS; what++)
        if (seen[what] == 0)
            fail_msg("%s: none", seen_names[what]);
}

/* Each was the first to find a bug, in the core, in a mutated copy of it or in the simulator. What a seed stands for
 * changes with the simulator; they are kept because runs that are near a bug tend to stay near others. */
TEST(seeds_that_once_failed_no_longer_do)
{
    static const uint64_t seeds[] = {
        14,      43,      49,      59,      61,      82,      93,       233,     322,   354,   415,
        576,     601,     611,     668,     676,     705,     772,      820,     1684,  2444,  3368,
        7438,    8274,    8738,    9893,    11373,   11683,   14490,    17782,   18246, 21493, 257409,
        1028723, 1767917, 1958672, 3922833, 4600969, 5158253, 30036369, 55140317};
    static const uint64_t of_shards[] = {66433,  93076,  113433, 318064, 348448, 465041,
                                         818457, 865984, 923296, 445653, 805837, 50433074},
                          of_wishes[] = {177,   319,   334,   1821,   17561,  509,    722,    731,     20074,
                                         22803, 53915, 56993, 131530, 217389, 832096, 967173, 20202048},
                          of_outages[] = {116, 718, 4624, 7399, 8455, 8657, 8848, 9133, 9202, 10699, 46388};
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        assert_good(seeds[i]);
    for (size_t i = 0; i < sizeof of_shards / sizeof *of_shards; i++)
        assert_good(SIM_OF_SHARDS + of_shards[i]);
    for (size_t i = 0; i < sizeof of_wishes / sizeof *of_wishes; i++)
        assert_good(SIM_OF_WISHES + of_wishes[i]);
    for (size_t i = 0; i < sizeof of_outages / sizeof *of_outages; i++)
        assert_good(SIM_OF_OUTAGES + of_outages[i]);
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

TEST(every_bug_sown_into_the_model_is_found, P69, P75, P84)
{
    enum { SEEDS = 20000 };
    for (int mutant = MUTANT_NONE + 1; mutant < MUTANTS; mutant++) {
        uint64_t seed = 1, from = mutant < MUTANTS_OF_ONE ? 0 : SIM_OF_SHARDS;
        if (mutant >= MUTANTS_OF_SHARDS)
            from = mutant < MUTANTS_WISHED ? SIM_OF_WISHES : SIM_OF_OUTAGES;
        while (seed <= SEEDS && sim_run(&sim, from + seed, (enum mutant)mutant, false))
            seed++;
        if (seed > SEEDS)
            fail_msg("%s: not found", mutant_names[mutant]);
    }
}

static bool clear(void)
{
    events_clear(&sim.course.events);
    return true;
}

TEST_GROUP(.down = clear);
