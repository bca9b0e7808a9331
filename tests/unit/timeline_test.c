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

/* Of an entry for each; all began when the run did. */
static size_t drops_of(const struct scenario_action *actions, size_t count)
{
    uint64_t drops_us[TIMELINE_ENTRIES_MAX];
    timeline = (struct timeline){.count = count};
    for (size_t i = 0; i < count; i++)
        timeline.entries[i] = (struct timeline_entry){.action = actions[i], .state = TIMELINE_DONE};
    return timeline_drops(&timeline, drops_us);
}

TEST(what_may_have_dropped_values_explains_loads)
{
    static const struct scenario_action dropping[] = {{.party = SCENARIO_REDIS, .verb = SCENARIO_FLUSH},
                                                      {.party = SCENARIO_REDIS, .verb = SCENARIO_KILL},
                                                      {.party = SCENARIO_REDIS, .verb = SCENARIO_START},
                                                      {.party = SCENARIO_REDIS, .verb = SCENARIO_RESTART},
                                                      {.party = SCENARIO_NOBODY, .verb = SCENARIO_POST},
                                                      {.party = SCENARIO_NOBODY, .verb = SCENARIO_RUN}};
    static const struct scenario_action keeping[] = {{.party = SCENARIO_REDIS, .verb = SCENARIO_PAUSE},
                                                     {.party = SCENARIO_LEADER, .verb = SCENARIO_KILL},
                                                     {.party = SCENARIO_NOBODY, .verb = SCENARIO_SQL}};
    assert_int_equal(drops_of(dropping, 6), 6);
    timeline.entries[0].state = TIMELINE_FAILED;
    assert_int_equal(timeline_drops(&timeline, (uint64_t[TIMELINE_ENTRIES_MAX]){0}), 5);
    assert_int_equal(drops_of(keeping, 3), 0);
}

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
