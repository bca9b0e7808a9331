/* SPDX-License-Identifier: MIT */
/* chaos_test.c - one round of `make chaos`: a short storm over four processes, judged as the long ones are. */
#include "tests/chaos/chaos.h"
#include "tests/support/test.h"

static void storm(enum fault_topology topology, uint64_t seed, uint32_t storm_ms)
{
    struct chaos_options options;
    chaos_options_init(&options, false);
    options.topology = topology;
    options.seed = seed;
    options.seconds = 1;
    options.storm_ms = storm_ms;
    assert_true(chaos_run(&options));
}

TEST(a_fleet_keeps_its_promises_through_a_storm_of_faults)
{
    storm(FAULT_ONE_REDIS, 20, 6000);
}

/* One is forgotten and comes back, and another is: all that is calm is judged without it. */
TEST(a_storm_that_leaves_a_master_forgotten_leaves_its_slots_cached, P139)
{
    storm(FAULT_CLUSTER, 495, 5000);
}
