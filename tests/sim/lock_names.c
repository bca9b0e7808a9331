/* SPDX-License-Identifier: MIT */
/* lock_names.c - names of faults and answers in traces and on the command line; the simulator as the program sees
 * it. */
#include "lock_sim.h"
#include "simulator.h"

#define LOCK_NAME(name, text) [name] = text,

const char *const lock_fault_names[LOCK_FAULTS] = {LOCK_FAULTS_OF_ALL(LOCK_NAME)};
const char *const lock_seen_names[LOCK_SEENS] = {LOCK_SEENS_OF_ALL(LOCK_NAME)};

const char *const lock_status_names[GUARD_LOCK_NO_MEMORY + 1] = {
    [GUARD_LOCK_OK] = "ok",
    [GUARD_LOCK_BUSY] = "busy",
    [GUARD_LOCK_UNREACHABLE] = "unreachable",
    [GUARD_LOCK_LOST] = "lost",
    [GUARD_LOCK_UNKNOWN] = "unknown",
    [GUARD_LOCK_CANCELLED] = "cancelled",
    [GUARD_LOCK_CLOSING] = "closing",
    [GUARD_LOCK_SHED] = "shed",
    [GUARD_LOCK_INVALID] = "invalid",
    [GUARD_LOCK_NO_MEMORY] = "no memory",
};

static struct lock_sim sim;

/* Bugs are sown into its model as into the core: by tests/mutants/table. */
static const char *const mutant_names[] = {"none"};

static bool run(uint64_t seed, uint32_t mutant, bool trace)
{
    (void)mutant;
    return lock_sim_run(&sim, seed, trace);
}

const struct simulator lock_simulator = {
    .course = &sim.course,
    .run = run,
    .mutant_names = mutant_names,
    .first_mutant = 1,
    .end_mutant = 1,
    .tallies = {{"faults", lock_fault_names, sim.hit, LOCK_FAULTS, 0, LOCK_FAULTS},
                {"answers", lock_status_names, sim.answers, GUARD_LOCK_NO_MEMORY + 1, GUARD_LOCK_OK,
                 GUARD_LOCK_UNREACHABLE + 1},
                {"seen", lock_seen_names, sim.seen, LOCK_SEENS, 0, LOCK_SEENS}},
};
