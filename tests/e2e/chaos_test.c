/* SPDX-License-Identifier: MIT */
/* chaos_test.c - one round of `make chaos`: a short storm over four processes, judged as the long ones are. */
#include "tests/chaos/chaos.h"
#include "tests/support/test.h"

TEST(a_fleet_keeps_its_promises_through_a_storm_of_faults)
{
    struct chaos_options options;
    chaos_options_init(&options, false);
    options.seed = 20;
    options.seconds = 1;
    options.storm_ms = 6000;
    assert_true(chaos_run(&options));
}
