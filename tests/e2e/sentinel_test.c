/* SPDX-License-Identifier: MIT */
/*
 * sentinel_test.c - the service over a master with two replicas under three Sentinels, and what befalls these.
 *
 * Four processes, clients and writers go on all the while; the checker judges what they saw (tests/chaos/check.h).
 * LONG=1 tells the rest as well, repeats each, and has Sentinels that are as slow as they are by themselves.
 */
#include "tests/chaos/story.h"
#include "tests/support/test.h"

#include <stdio.h>

enum { AFTER_MS = 1300 /* what a mistake would be seen in */, BELIEVED_MS = 13000 };

static struct scene scene;

static void tell(const char *name, enum fault_kind kind, unsigned times)
{
    assert_true(story_tell(&scene, name, kind, MASTERS_ANY_SLOT, times, AFTER_MS));
}

/* A replica that is there need not have the last write yet: only wait_replicas asks for that. */
TEST(where_every_replica_must_be_there_a_planned_failover_loses_what_was_on_its_way_and_that_is_repaid, P134)
{
    tell("sentinel-failover", FAULT_MASTER_GUARDED_BY_ALL, test_is_long() ? 3 : 1);
}

TEST(what_the_old_master_confirmed_with_the_other_replica_is_repaid, P137)
{
    test_needs_long();
    tell("sentinel-guarded", FAULT_MASTER_GUARDED, test_is_long() ? 3 : 1);
}

TEST(a_killed_master_is_replaced_and_what_it_had_confirmed_is_repaid, P134)
{
    test_needs_long();
    tell("sentinel-kill", FAULT_MASTER_KILL, test_is_long() ? 3 : 1);
}

TEST(a_master_that_was_stopped_and_replaced_answers_nobody_when_it_goes_on, P84, P134)
{
    tell("sentinel-stop", FAULT_MASTER_STOP, test_is_long() ? 3 : 1);
}

TEST(an_invalidation_that_no_replica_has_is_repaid_to_the_one_that_took_over, P137)
{
    tell("sentinel-behind", FAULT_REPLICA_BEHIND, test_is_long() ? 3 : 1);
}

TEST(without_replicas_to_write_an_old_master_is_believed_no_longer_than_until_it_is_told, P135)
{
    test_needs_long();
    tell("sentinel-unguarded", FAULT_MASTER_UNGUARDED, test_is_long() ? 3 : 1);
}

TEST(all_sentinels_and_the_master_may_die_and_come_back)
{
    test_needs_long();
    tell("sentinel-all", FAULT_SENTINELS_KILL, test_is_long() ? 2 : 1);
}

static const char *const guarded[] = {"--min-replicas-to-write", "1", "--min-replicas-max-lag", "3", NULL};

/* As operators have them: the master is fenced before another one takes over. */
static const struct stack_sentinel_options slow = {
    .replica_count = 2, .arguments = guarded, .down_after_ms = 6000, .failover_limit_ms = 5000};

static bool up(void)
{
    return scene_open(&scene, &(struct scene_options){.seed = 1,
                                                      .topology = FAULT_SENTINELS,
                                                      .sentinel = test_is_long() ? &slow : NULL,
                                                      .fresh_ms = STORY_FRESH_MS});
}

static bool down(void)
{
    return scene_close(&scene);
}

TEST_GROUP(.up = up, .down = down);

/* ---- over TLS ---- */

TEST(over_tls_what_a_failover_and_a_kill_lose_is_repaid, P134)
{
    test_needs_long();
    tell("sentinel-tls-failover", FAULT_MASTER_GUARDED_BY_ALL, 1);
    tell("sentinel-tls-kill", FAULT_MASTER_KILL, 1);
}

static bool up_over_tls(void)
{
    return !test_is_long() || scene_open(&scene, &(struct scene_options){.seed = 1,
                                                                         .topology = FAULT_SENTINELS,
                                                                         .fresh_ms = STORY_FRESH_MS,
                                                                         .over_tls = true});
}

static bool down_if_up(void)
{
    return !test_is_long() || scene_close(&scene);
}

TEST_GROUP(.up = up_over_tls, .down = down_if_up);

/* ---- every replica is waited for ---- */

TEST(what_every_replica_had_confirmed_is_not_lost_with_a_master_that_is_killed, P136)
{
    test_needs_long();
    tell("sentinel-kept", FAULT_MASTER_KEPT, 3);
}

TEST(what_every_replica_had_confirmed_is_not_lost_by_a_planned_failover, P136)
{
    test_needs_long();
    tell("sentinel-kept-failover", FAULT_MASTER_FAILOVER, 5);
}

static bool up_waiting(void)
{
    return !test_is_long() || scene_open(&scene, &(struct scene_options){.seed = 1,
                                                                         .topology = FAULT_SENTINELS,
                                                                         .fresh_ms = STORY_FRESH_MS,
                                                                         .wait_replicas = 2});
}

TEST_GROUP(.up = up_waiting, .down = down_if_up);

/* ---- a cable is pulled ---- */

TEST(a_master_that_is_cut_off_with_some_of_its_clients_answers_them_nothing_old, P84)
{
    test_needs_long();
    if (network_is_possible())
        tell("sentinel-cut", FAULT_MASTER_CUT, 1);
    else
        tell("sentinel-cut-by-stopping", FAULT_MASTER_STOP, 1);
}

/* Those who are cut off with it may believe it; how many answers that were, and until when, the line says. */
TEST(a_master_that_needs_no_replica_is_believed_until_the_cut_is_over_and_10_s_more, P135)
{
    test_needs_long();
    if (!network_is_possible())
        test_skip("networks of our own need root and the program ip");
    assert_true(story_tell(&scene, "sentinel-cut-unguarded", FAULT_MASTER_CUT_UNGUARDED, MASTERS_ANY_SLOT, 1,
                           BELIEVED_MS));
}

static bool beyond_a_cable(void)
{
    return !test_is_long() ||
           scene_open(&scene, &(struct scene_options){.seed = 1,
                                                      .topology = FAULT_SENTINELS,
                                                      .sentinel = &slow,
                                                      .fresh_ms = STORY_FRESH_MS,
                                                      .in_two_networks = network_is_possible()});
}

TEST_GROUP(.up = beyond_a_cable, .down = down_if_up);
