/* SPDX-License-Identifier: MIT */
/*
 * cluster_test.c - the service over a Redis Cluster of three masters, each with a replica, and what befalls these.
 *
 * Four processes, clients and writers go on all the while; the checker judges what they saw (tests/chaos/check.h).
 * LONG=1 repeats each scenario.
 */
#include "load/base/http.h"
#include "tests/chaos/story.h"
#include "tests/support/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AFTER_MS = 1300 /* what a mistake would be seen in */, BURSTS = 10, BURST_REQUESTS = 40 };

static struct scene scene;
static uint32_t next_cold = SCENE_KEYS + 1000;

static unsigned times(unsigned few, unsigned many)
{
    return test_is_long() ? many : few;
}

static void tell(const char *name, enum fault_kind kind, unsigned slot, unsigned count)
{
    assert_true(story_tell(&scene, name, kind, slot, count, AFTER_MS));
}

/* What makes a process load for itself though others do: the limits of a scene are short, for what befalls it. */
static double excuses(void)
{
    static const char *const samples[] = {"guard_redis_timeouts_total", "guard_leases_total{event=\"lost\"}",
                                          "guard_loads_uncached_total"};
    double sum = 0;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        for (size_t process = 0; process < SCENE_PROCESSES; process++)
            sum += scene_metric(&scene, process, samples[i]);
    return sum;
}

static bool is_one_load(uint32_t product)
{
    const double before = excuses();
    const int loads = scene_burst(&scene, product, BURST_REQUESTS);
    if (loads != 1 && (loads < 1 || excuses() == before))
        fail_msg("%d loads", loads);
    return loads == 1;
}

static void expect_one_load_each(unsigned bursts)
{
    for (unsigned i = 0; i < bursts; i++)
        WAIT_UNTIL(is_one_load(next_cold++));
}

/* Cold keys, so that some are of each master. */
TEST(a_burst_on_a_cold_key_makes_one_load_whichever_master_has_it, P143)
{
    expect_one_load_each(times(BURSTS, 30));
}

/* ---- many keys ---- */

enum { MANY = 50, MANY_FROM = SCENE_KEYS + 500, MANY_TRIES = 8, MASTERS = 3 };

static void ask_many(void)
{
    char path[512] = "/products?ids=";
    struct http_answer answer;
    for (unsigned i = 0; i < MANY; i++)
        snprintf(path + strlen(path), sizeof path - strlen(path), "%s%u", i > 0 ? "," : "", MANY_FROM + i);
    http_ask(&(struct http_request){.host = "127.0.0.1",
                                    .port = scene.catalogd[0].port,
                                    .path = path,
                                    .deadline_ms = SCENE_DEADLINE_MS * 2},
             &answer);
    assert_int_equal(answer.status, 200);
    http_answer_clear(&answer);
}

/* The least of some: the guard talks to Redis by itself, too, and at first its loops connect. Nothing is loaded any
 * more by then, unless Redis did not answer in time. */
TEST(many_keys_are_one_round_trip_for_each_master_at_most, P143)
{
    static const char trips[] = "guard_redis_round_trips_total";
    uint64_t mark = 0;
    double least = 1e9, excused = 0;
    for (unsigned i = 0; i < MANY_TRIES; i++) {
        if (i == MANY_TRIES / 2) {
            mark = stack_postgres_mark(&scene.postgres);
            excused = excuses();
        }
        double before = scene_metric(&scene, 0, trips);
        ask_many();
        double took = scene_metric(&scene, 0, trips) - before;
        least = took < least ? took : least;
    }
    assert_true(least >= 1 && least <= MASTERS);
    assert_true(stack_postgres_count(&scene.postgres, mark, "/* load products */") == 0 ||
                excuses() > excused);
}

static unsigned slot_of_product(uint32_t product)
{
    char key[64];
    snprintf(key, sizeof key, "{chaos:product:%" PRIu32 "}", product);
    return stack_cluster_slot(&scene.cluster, key);
}

TEST(slots_move_to_and_fro_and_nobody_notices, P142)
{
    tell("cluster-move", FAULT_SLOTS_MOVE, slot_of_product(1), times(1, 10));
}

TEST(the_slot_of_the_tags_moves_and_no_old_page_is_shown, P142)
{
    tell("cluster-move-tags", FAULT_SLOTS_MOVE, MASTERS_ANY_SLOT, times(1, 10));
}

/* So many tags of others beside ours, so that the move takes its time. */
TEST(the_slot_of_fifty_thousand_tags_moves_and_no_old_page_is_shown, P142)
{
    test_needs_long();
    const unsigned slot = stack_cluster_slot(&scene.cluster, "{chaos:tags}");
    struct stack_redis *owner = &scene.cluster.node[stack_cluster_owner(&scene.cluster, slot)];
    const char *fill =
        "for i = 1, 50000 do redis.call('SET', KEYS[1] .. i, i, 'PX', 600000) end return 50000";
    assert_int_equal(stack_redis_number(owner, "EVAL %s 1 csg1:{chaos:tags}:t:x", fill), 50000);
    tell("cluster-move-many-tags", FAULT_SLOTS_MOVE, MASTERS_ANY_SLOT, 1);
}

TEST(a_planned_failover_of_one_master_loses_nothing)
{
    tell("cluster-failover", FAULT_MASTER_FAILOVER, slot_of_product(1), times(1, 5));
}

/* Hits go on while it is dead and nobody has taken over. Not that of the tags, which every hit here has. */
TEST(a_killed_master_costs_only_its_own_keys, P141)
{
    struct story story;
    bool spared = true, good = story_begin(&story, &scene, "cluster-kill");
    for (unsigned i = 0; good && i < times(1, 5); i++) {
        uint32_t took_ms;
        const unsigned slot = slot_of_product(3);
        good = story_strikes(&story, FAULT_MASTER_KILL, slot) &&
               story_wait_hits(&story, STORY_LIMIT_MS, &took_ms);
        spared = spared && stack_cluster_owner(&scene.cluster, slot) == STACK_CLUSTER_NOBODY;
        good = good && story_recovers(&story) && story_watch(&story, AFTER_MS);
    }
    good = story_end(&story) && good;
    assert_true(good);
    assert_true(spared);
}

TEST(what_no_replica_has_of_the_tags_is_repaid_to_the_one_that_took_over, P137)
{
    tell("cluster-behind-tags", FAULT_REPLICA_BEHIND, MASTERS_ANY_SLOT, times(1, 5));
}

TEST(a_master_that_was_stopped_and_replaced_answers_nobody_when_it_goes_on, P84)
{
    tell("cluster-stop", FAULT_MASTER_STOP, slot_of_product(1), times(1, 4));
}

/* Every hit here has the tags. */
TEST(a_forgotten_master_is_replaced_by_a_node_with_a_lower_epoch_and_hits_are_back, P139)
{
    tell("cluster-forgotten", FAULT_MASTER_FORGOTTEN, MASTERS_ANY_SLOT, times(1, 5));
}

static bool up(void)
{
    return scene_open(
        &scene, &(struct scene_options){.seed = 1, .topology = FAULT_CLUSTER, .fresh_ms = STORY_FRESH_MS});
}

static bool down(void)
{
    return scene_close(&scene);
}

TEST_GROUP(.up = up, .down = down);

/* ---- over TLS ---- */

TEST(over_tls_bursts_moves_and_a_killed_master_end_the_same_way)
{
    test_needs_long();
    expect_one_load_each(BURSTS);
    tell("cluster-tls-move", FAULT_SLOTS_MOVE, slot_of_product(1), 2);
    tell("cluster-tls-kill", FAULT_MASTER_KILL, slot_of_product(1), 1);
}

static bool up_over_tls(void)
{
    return !test_is_long() || scene_open(&scene, &(struct scene_options){.seed = 1,
                                                                         .topology = FAULT_CLUSTER,
                                                                         .fresh_ms = STORY_FRESH_MS,
                                                                         .over_tls = true});
}

static bool down_if_up(void)
{
    return !test_is_long() || scene_close(&scene);
}

TEST_GROUP(.up = up_over_tls, .down = down_if_up);
