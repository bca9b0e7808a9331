/* SPDX-License-Identifier: MIT */
/* lock_names.c - names of faults and answers in traces and on the command line; the simulator as the program sees it. */
#include "lock_sim.h"
#include "simulator.h"

const char *const lock_fault_names[LOCK_FAULTS] = {
    [LOCK_FAULT_COMMAND_LOST] = "command lost",
    [LOCK_FAULT_COMMAND_LATE] = "command ran late",
    [LOCK_FAULT_REPLY_LOST] = "reply lost",
    [LOCK_FAULT_MESSAGE_LOST] = "message lost",
    [LOCK_FAULT_MESSAGE_TWICE] = "message twice",
    [LOCK_FAULT_MESSAGE_LATE] = "message late",
    [LOCK_FAULT_MESSAGE_FIRST] = "message before reply",
    [LOCK_FAULT_MESSAGE_STRAY] = "message about nothing",
    [LOCK_FAULT_CANCEL] = "request cancelled",
    [LOCK_FAULT_HOLD_LONG] = "hold beyond its lease",
    [LOCK_FAULT_CONNECTION] = "connection broken",
    [LOCK_FAULT_SUBSCRIPTION] = "subscription dead",
    [LOCK_FAULT_KILL] = "process killed",
    [LOCK_FAULT_CLOSE] = "locks closed",
    [LOCK_FAULT_STALL] = "process stalled",
    [LOCK_FAULT_OWNER_FREED] = "owner freed",
    [LOCK_FAULT_DROPPED] = "hold dropped",
    [LOCK_FAULT_HELD_GONE] = "held evicted",
    [LOCK_FAULT_QUEUE_GONE] = "queue evicted",
    [LOCK_FAULT_ALIVE_GONE] = "alive evicted",
    [LOCK_FAULT_FENCE_GONE] = "fence evicted",
    [LOCK_FAULT_TOMBSTONES_GONE] = "tombstones evicted",
    [LOCK_FAULT_EMPTY] = "redis back empty",
    [LOCK_FAULT_FAILOVER] = "redis failover",
    [LOCK_FAULT_HANG] = "redis hung",
    [LOCK_FAULT_READONLY] = "redis read-only",
    [LOCK_FAULT_CLOCK_FORWARD] = "clock forward",
    [LOCK_FAULT_CLOCK_BACK] = "clock back",
};

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

const char *const lock_seen_names[LOCK_SEENS] = {
    [LOCK_SEEN_GRANTED] = "granted at once",
    [LOCK_SEEN_WAITED] = "granted after waiting",
    [LOCK_SEEN_SEVERAL] = "of several names",
    [LOCK_SEEN_REENTERED] = "re-entered",
    [LOCK_SEEN_TOGETHER] = "beside others",
    [LOCK_SEEN_LATCHED] = "latches open",
    [LOCK_SEEN_RENEWED] = "renewals",
    [LOCK_SEEN_LOST] = "holds lost",
    [LOCK_SEEN_LOST_EARLY] = "of them before their end",
    [LOCK_SEEN_GAVE_LOST] = "given back, but gone",
    [LOCK_SEEN_GAVE_UNKNOWN] = "given back in the dark",
    [LOCK_SEEN_LATE_GRANT] = "grants that came too late",
    [LOCK_SEEN_GONE] = "refused by a tombstone",
    [LOCK_SEEN_STAYED] = "places kept together",
    [LOCK_SEEN_PLACE_LOST] = "places lost",
    [LOCK_SEEN_OVERTAKEN] = "overtaken by a mutex",
    [LOCK_SEEN_EXCUSED] = "held twice, with a reason",
    [LOCK_SEEN_REFUSED] = "requests refused",
    [LOCK_SEEN_GAVE_ASKING] = "given back under renewal",
    [LOCK_SEEN_HANDED] = "hand-overs counted",
    [LOCK_SEEN_AGREED] = "granted by a quorum",
    [LOCK_SEEN_DISAGREED] = "refused for want of one",
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
