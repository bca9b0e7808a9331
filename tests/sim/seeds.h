/* SPDX-License-Identifier: MIT */
/* seeds.h - what the test of a simulator asks of it: that no seed finds anything, and that a seed is one run. */
#pragma once

#include "simulator.h"
#include "tests/support/test.h"

#include <inttypes.h>

static inline void expect_good(const struct simulator *simulator, uint64_t seed)
{
    if (!simulator->run(simulator->seeds_from + seed, 0, false))
        fail_msg("SEED=%" PRIu64 ": %s", seed, simulator->course->failure);
}

/* The first ones, which together meet whatever there is. */
static inline void expect_good_to(const struct simulator *simulator, uint64_t seeds)
{
    uint64_t total[TALLIES][TALLY_MOST] = {{0}};
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        expect_good(simulator, seed);
        simulator_add_up(simulator, total);
    }
    for (int i = 0; i < TALLIES; i++)
        for (uint32_t what = 0; what < simulator->tallies[i].size; what++)
            if (tally_misses(&simulator->tallies[i], total[i], what))
                fail_msg("%s: no \"%s\"", simulator->tallies[i].title, simulator->tallies[i].names[what]);
}

#define EXPECT_EACH_GOOD(simulator, ...)                                                                     \
    expect_each_good(simulator, (const uint64_t[]){__VA_ARGS__},                                             \
                     sizeof(const uint64_t[]){__VA_ARGS__} / sizeof(uint64_t))
static inline void expect_each_good(const struct simulator *simulator, const uint64_t *seeds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        expect_good(simulator, seeds[i]);
}

static inline void expect_one_run_a_seed(const struct simulator *simulator)
{
    const struct course *course = simulator->course;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        expect_good(simulator, seed);
        struct course first = *course;
        expect_good(simulator, seed);
        assert_true(course->events_seen == first.events_seen && course->hash == first.hash &&
                    course->chance.state == first.chance.state);
    }
}
