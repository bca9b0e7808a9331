/* SPDX-License-Identifier: MIT */
/*
 * simulator.h - what the program wants to know of a simulator: how a seed is run, what its faults and mutants are called,
 * and what the last run has met.
 */
#ifndef SIM_SIMULATOR_H
#define SIM_SIMULATOR_H

#include "course.h"

enum { TALLIES = 4, TALLY_MOST = 96 };

/* Things of one kind, counted in the last run. */
struct tally {
    const char *title;
    const char *const *names;
    const uint64_t *counts;
    uint32_t size;
    bool must; /* a number of runs that means something has met each */
};

struct simulator {
    struct course *course;
    /* True: nothing was found. */
    bool (*run)(uint64_t seed, uint32_t mutant, bool trace);
    const char *const *mutant_names; /* of bugs to be sown into the model; 0: none */
    uint32_t mutants;
    struct tally tallies[TALLIES];
};

extern const struct simulator guard_simulator, shard_simulator, wish_simulator, outage_simulator,
    lock_simulator;

#endif
