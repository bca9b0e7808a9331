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

/* A mutant by its number among those that are found here. */
static bool run_shards(uint64_t seed, uint32_t mutant, bool trace)
{
    enum mutant of_shards = mutant == 0 ? MUTANT_NONE : (enum mutant)(MUTANTS_OF_ONE + mutant - 1);
    return sim_run(&sim, SIM_OF_SHARDS + seed, of_shards, trace);
}

static bool run_wishes(uint64_t seed, uint32_t mutant, bool trace)
{
    enum mutant of_wishes = mutant == 0 ? MUTANT_NONE : (enum mutant)(MUTANTS_OF_SHARDS + mutant - 1);
    return sim_run(&sim, SIM_OF_WISHES + seed, of_wishes, trace);
}

static bool run_outages(uint64_t seed, uint32_t mutant, bool trace)
{
    enum mutant of_outages = mutant == 0 ? MUTANT_NONE : (enum mutant)(MUTANTS_WISHED + mutant - 1);
    return sim_run(&sim, SIM_OF_OUTAGES + seed, of_outages, trace);
}

_Static_assert((int)SEENS <= (int)TALLY_MOST && (int)FAULTS <= (int)TALLY_MOST, "room for the tallies");

const struct simulator guard_simulator = {
    .course = &sim.course,
    .run = run,
    .mutant_names = mutant_names,
    .mutants = MUTANTS_OF_ONE,
    .tallies = {{"faults", fault_names, sim.hit, FAULTS_OF_ONE, true},
                {"answers", status_names, sim.answers, STATUSES, false},
                {"seen", seen_names, sim.seen, SEENS_OF_ONE, true}},
};

const struct simulator shard_simulator = {
    .course = &sim.course,
    .run = run_shards,
    .mutant_names = shard_mutant_names,
    .mutants = 1 + MUTANTS_OF_SHARDS - MUTANTS_OF_ONE,
    .tallies = {{"faults", fault_names, sim.hit, FAULTS_OF_SHARDS, true},
                {"answers", status_names, sim.answers, STATUSES, false},
                {"seen", seen_names, sim.seen, SEENS_OF_SHARDS, true}},
};

const struct simulator wish_simulator = {
    .course = &sim.course,
    .run = run_wishes,
    .mutant_names = wish_mutant_names,
    .mutants = 1 + MUTANTS_WISHED - MUTANTS_OF_SHARDS,
    .tallies = {{"faults", fault_names, sim.hit, FAULTS_OF_ONE, true},
                {"answers", status_names, sim.answers, STATUSES, false},
                {"seen", seen_names, sim.seen, SEENS_WISHED, false},
                {"wishes", wish_names, sim.wishes.count, WISHES, true}},
};

const struct simulator outage_simulator = {
    .course = &sim.course,
    .run = run_outages,
    .mutant_names = outage_mutant_names,
    .mutants = 1 + MUTANTS - MUTANTS_WISHED,
    .tallies = {{"faults", fault_names, sim.hit, FAULTS, false},
                {"answers", status_names, sim.answers, STATUSES, false},
                {"seen", seen_names, sim.seen, SEENS, false}},
};
