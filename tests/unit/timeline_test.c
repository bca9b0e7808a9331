/* SPDX-License-Identifier: MIT */
/* timeline_test.c - when the events of a scenario are tried, and for how long, without any server. */
#include "load/base/clock.h"
#include "load/play/timeline.h"
#include "tests/support/test.h"

/* The machine was busy until now, and nobody holds a lease. */
enum { LATE_MS = 60000, LIMIT_MS = 5000 };

static struct servers servers;
static struct timeline timeline;
static struct scenario scenario;

static void begin_late(void)
{
    servers = (struct servers){.scenario = &scenario};
    scenario = (struct scenario){.event_count = 1};
    scenario.events[0] = (struct scenario_event){.text = "leader kill",
                                                 .action = {.party = SCENARIO_LEADER, .verb = SCENARIO_KILL}};
    timeline_begin(&timeline, &scenario, &servers, clock_us() - (uint64_t)LATE_MS * 1000);
}

TEST(a_leader_is_waited_for_from_the_first_look_on_however_late_that_is)
{
    begin_late();
    timeline_tick(&timeline, 0);
    assert_int_equal(timeline.entries[0].state, TIMELINE_TRYING);
    timeline.entries[0].tried_us -= (uint64_t)LIMIT_MS * 1000;
    timeline_tick(&timeline, 0);
    assert_int_equal(timeline.entries[0].state, TIMELINE_FAILED);
    assert_string_equal(timeline.entries[0].why, "no process held a lease for 5 s");
}
