/* SPDX-License-Identifier: MIT */
/*
 * simulator.h - what the program wants to know of a simulator: how a seed is run, what its faults and mutants are
 * called, and what the last run has met.
 */
#pragma once

#include "course.h"

enum { TALLIES = 4, TALLY_MOST = 96 };

/* Things of one kind, counted in the last run. */
struct tally {
    const char *title;
    const char *const *names;
    const uint64_t *counts;
    uint32_t size;
    uint32_t first, end; /* a number of runs that means something has met these */
};

struct simulator {
    struct course *course;
    /* True: nothing was found. */
    bool (*run)(uint64_t seed, uint32_t mutant, bool trace);
    uint64_t seeds_from;             /* what run() takes in place of its seed 0 */
    const char *const *mutant_names; /* of bugs to be sown into the model; 0: none */
    uint32_t first_mutant, end_mutant;
    struct tally tallies[TALLIES];
};

extern const struct simulator guard_simulator, shard_simulator, wish_simulator, outage_simulator,
    lock_simulator;

/* What the last run has met, added to what others have. */
static inline void simulator_add_up(const struct simulator *simulator, uint64_t total[TALLIES][TALLY_MOST])
{
    for (int i = 0; i < TALLIES; i++)
        for (uint32_t what = 0; what < simulator->tallies[i].size; what++)
            total[i][what] += simulator->tallies[i].counts[what];
}

static inline bool tally_misses(const struct tally *tally, const uint64_t *counts, uint32_t what)
{
    return what >= tally->first && what < tally->end && tally->names[what] != NULL && counts[what] == 0;
}
