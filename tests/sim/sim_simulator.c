/* SPDX-License-Identifier: MIT */
/* sim_simulator.c - the guard's simulator, as the program sees it. */
#include "sim.h"
#include "simulator.h"

static struct sim sim;

static bool run(uint64_t seed, uint32_t mutant, bool trace)
{
    return sim_run(&sim, seed, (enum mutant)mutant, trace);
}

const struct simulator guard_simulator = {
    .course = &sim.course,
    .run = run,
    .mutant_names = mutant_names,
    .mutants = MUTANTS,
    .tallies = {{"faults", fault_names, sim.hit, FAULTS, true},
                {"answers", status_names, sim.answers, GUARD_NO_MEMORY + 1, false},
                {"seen", seen_names, sim.seen, SEENS, true}},
};
