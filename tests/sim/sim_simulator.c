/* SPDX-License-Identifier: MIT */
/*
 * sim_simulator.c - the guard's simulator, as the program sees it: with one master, with several, with wishes,
 * and with outages.
 */
#include "sim.h"
#include "simulator.h"

static struct sim sim;

static bool run(uint64_t seed, uint32_t mutant, bool trace)
{
    return sim_run(&sim, seed, (enum mutant)mutant, trace);
}

_Static_assert((int)SEENS <= (int)TALLY_MOST && (int)FAULTS <= (int)TALLY_MOST, "room for the tallies");

const struct simulator guard_simulator = {
    .course = &sim.course,
    .run = run,
    .mutant_names = mutant_names,
    .first_mutant = MUTANT_NONE + 1,
    .end_mutant = MUTANTS_OF_ONE,
    .tallies = {{"faults", fault_names, sim.hit, FAULTS_OF_ONE, 0, FAULTS_OF_ONE},
                {"answers", status_names, sim.answers, STATUSES, GUARD_OK, GUARD_CLOSING + 1},
                {"seen", seen_names, sim.seen, SEENS_OF_ONE, 0, SEENS_OF_ONE}},
};

const struct simulator shard_simulator = {
    .course = &sim.course,
    .run = run,
    .seeds_from = SIM_OF_SHARDS,
    .mutant_names = mutant_names,
    .first_mutant = MUTANTS_OF_ONE,
    .end_mutant = MUTANTS_OF_SHARDS,
    .tallies = {{"faults", fault_names, sim.hit, FAULTS_OF_SHARDS, 0, FAULTS_OF_SHARDS},
                {"answers", status_names, sim.answers, STATUSES, GUARD_OK, GUARD_CLOSING + 1},
                {"seen", seen_names, sim.seen, SEENS_OF_SHARDS, 0, SEENS_OF_SHARDS}},
};

const struct simulator wish_simulator = {
    .course = &sim.course,
    .run = run,
    .seeds_from = SIM_OF_WISHES,
    .mutant_names = mutant_names,
    .first_mutant = MUTANTS_OF_SHARDS,
    .end_mutant = MUTANTS_WISHED,
    .tallies = {{"faults", fault_names, sim.hit, FAULTS_OF_SHARDS, 0, FAULTS_OF_ONE},
                {"answers", status_names, sim.answers, STATUSES, 0, 0},
                {"seen", seen_names, sim.seen, SEENS_WISHED, SEENS_OF_SHARDS, SEENS_WISHED},
                {"wishes", wish_names, sim.wishes.count, WISHES, 0, WISHES}},
};

const struct simulator outage_simulator = {
    .course = &sim.course,
    .run = run,
    .seeds_from = SIM_OF_OUTAGES,
    .mutant_names = mutant_names,
    .first_mutant = MUTANTS_WISHED,
    .end_mutant = MUTANTS,
    .tallies = {{"faults", fault_names, sim.hit, FAULTS, FAULTS_OF_SHARDS, FAULTS},
                {"answers", status_names, sim.answers, STATUSES, 0, 0},
                {"seen", seen_names, sim.seen, SEENS, SEENS_WISHED, SEENS}},
};
