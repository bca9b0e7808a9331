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

static struct timeline_entry entry(enum scenario_party party, enum scenario_verb verb, uint64_t begun_us,
                                   uint64_t done_us, uint64_t until_us)
{
    return (struct timeline_entry){.state = TIMELINE_DONE,
                                   .action = {.party = party, .verb = verb},
                                   .begun_us = begun_us,
                                   .done_us = done_us,
                                   .until_us = until_us};
}

static void expect_faults(uint64_t from_us, uint64_t until_us)
{
    uint64_t from, until;
    timeline_faults(&timeline, &from, &until);
    assert_int_equal(from, from_us);
    assert_int_equal(until, until_us);
}

TEST(faults_last_from_the_begin_of_the_first_to_the_end_of_the_last)
{
    timeline = (struct timeline){.count = 1};
    timeline.entries[0] = entry(SCENARIO_NOBODY, SCENARIO_NOTE, 5, 6, 0);
    expect_faults(0, 0); /* a note harms nobody */
    timeline.entries[1] = entry(SCENARIO_REDIS, SCENARIO_KILL, 20, 21, 31);
    timeline.entries[2] = entry(SCENARIO_REDIS, SCENARIO_START, 30, 31, 0);
    timeline.entries[3] = entry(SCENARIO_NOBODY, SCENARIO_SQL, 10, 12, 0);
    timeline.entries[4] = entry(SCENARIO_NOBODY, SCENARIO_RUN, 1, 90, 0);
    timeline.entries[4].state = TIMELINE_FAILED;
    timeline.count = 5;
    expect_faults(10, 31);
    timeline.entries[3].is_under_way = true;
    expect_faults(10, 0); /* a command that runs is a fault that goes on */
    timeline.entries[3].is_under_way = false;
    timeline.entries[1].until_us = 0;
    expect_faults(10, 0); /* it is still away */
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
