/* SPDX-License-Identifier: MIT */
/* chaos_test.c - one round of `make chaos`: a short storm over four processes, judged as the long ones are. */
#include "tests/chaos/chaos.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void a_fleet_keeps_its_promises_through_a_storm_of_faults(void **state)
{
    struct chaos_options options;
    (void)state;
    chaos_options_init(&options, false);
    options.seed = 20;
    options.seconds = 1;
    options.storm_ms = 6000;
    assert_true(chaos_run(&options));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fleet_keeps_its_promises_through_a_storm_of_faults)};
    return cmocka_run_group_tests_name("chaos", tests, NULL, NULL);
}
