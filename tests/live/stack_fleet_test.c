/* SPDX-License-Identifier: MIT */
/* stack_fleet_test.c - the private Redis servers that watch and replace each other: under Sentinels, and as a Cluster. */
#include "tests/support/stack_cluster.h"
#include "tests/support/stack_sentinel.h"
#include "tests/support/test.h"

#include <hiredis/hiredis.h>
#include <string.h>

enum { LIMIT_MS = STACK_SENTINEL_LIMIT_MS };

static void expect_error(struct stack_redis *redis, const char *wanted, const char *command)
{
    struct redisReply *reply = stack_redis_command(redis, command);
    assert_non_null(reply);
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    assert_memory_equal(reply->str, wanted, strlen(wanted));
    freeReplyObject(reply);
}

/* ---- Sentinel ---- */

static struct stack_sentinel the_sentinels;

TEST(the_sentinels_agree_on_the_master_and_know_who_there_is)
{
    assert_int_equal(stack_sentinel_master(&the_sentinels), 0);
    assert_true(stack_redis_answers(&the_sentinels.node[0], "OK", "SET kept yes"));
    for (size_t i = 1; i < the_sentinels.node_count; i++) {
        assert_true(stack_redis_wait_in_sync(&the_sentinels.node[i], &the_sentinels.node[0], LIMIT_MS));
        assert_true(stack_redis_answers(&the_sentinels.node[i], "yes", "GET kept"));
    }
    assert_memory_equal(the_sentinels.url, "redis+sentinel://127.0.0.1:", 27);
}

TEST(a_planned_failover_makes_the_old_master_a_replica)
{
    size_t old = stack_sentinel_master(&the_sentinels);
    assert_true(stack_sentinel_failover(&the_sentinels));
    size_t now = stack_sentinel_wait_switch(&the_sentinels, old, LIMIT_MS);
    assert_int_not_equal(now, STACK_SENTINEL_NOBODY);
    assert_true(stack_sentinel_wait_settled(&the_sentinels, LIMIT_MS));
    assert_true(stack_redis_follows(&the_sentinels.node[old], the_sentinels.node[now].port));
}

TEST(a_killed_master_is_replaced_and_comes_back_as_a_replica)
{
    size_t old = stack_sentinel_master(&the_sentinels);
    assert_true(stack_redis_answers(&the_sentinels.node[old], "OK", "SET kept still"));
    assert_true(stack_redis_answers(&the_sentinels.node[old], "OK", "CONFIG SET maxmemory 0"));
    for (size_t i = 0; i < the_sentinels.node_count; i++)
        assert_true(i == old ||
                    stack_redis_wait_in_sync(&the_sentinels.node[i], &the_sentinels.node[old], LIMIT_MS));
    stack_redis_kill(&the_sentinels.node[old]);
    size_t now = stack_sentinel_wait_switch(&the_sentinels, old, LIMIT_MS);
    assert_int_not_equal(now, STACK_SENTINEL_NOBODY);
    assert_true(stack_redis_answers(&the_sentinels.node[now], "still", "GET kept"));
    assert_true(stack_redis_restart(&the_sentinels.node[old]));
    assert_true(stack_sentinel_wait_settled(&the_sentinels, LIMIT_MS));
    assert_true(stack_redis_answers(&the_sentinels.node[old], "still", "GET kept"));
}

TEST(sentinels_and_servers_may_each_want_a_password)
{
    struct stack_sentinel fleet;
    assert_true(
        stack_sentinel_start(&fleet, &(struct stack_sentinel_options){.replica_count = 1,
                                                                      .password = "of-the-data",
                                                                      .sentinel_user = "asker",
                                                                      .sentinel_password = "of-the-three"}));
    assert_true(stack_redis_answers(&fleet.node[0], "PONG", "PING"));
    assert_non_null(strstr(fleet.url, "//:of-the-data@127.0.0.1:"));
    assert_non_null(strstr(fleet.url, "?sentinel_username=asker&sentinel_password=of-the-three"));
    fleet.node[0].password = NULL;
    stack_redis_kill(&fleet.node[0]);
    assert_true(stack_redis_restart(&fleet.node[0]));
    expect_error(&fleet.node[0], "NOAUTH", "GET kept");
    stack_sentinel_stop(&fleet);
}

static bool sentinels_up(void)
{
    return stack_sentinel_start(
        &the_sentinels,
        &(struct stack_sentinel_options){.replica_count = 2, .hurried = true, .failover_limit_ms = 1500});
}

static bool sentinels_down(void)
{
    stack_sentinel_stop(&the_sentinels);
    return true;
}

TEST_GROUP(.up = sentinels_up, .down = sentinels_down);

/* ---- Cluster ---- */

static struct stack_cluster the_cluster;

/* A key of the node, and what another one says to who asks for it. */
TEST(each_master_has_its_slots_and_names_the_owner_of_others)
{
    char moved[64];
    unsigned slot = stack_cluster_slot(&the_cluster, "{a}b");
    assert_int_equal(slot, 15495);
    assert_int_equal(stack_cluster_slot(&the_cluster, "a"), slot);
    assert_int_equal(stack_cluster_owner(&the_cluster, slot), 2);
    assert_true(stack_redis_answers(&the_cluster.node[2], "OK", "SET a yes"));
    snprintf(moved, sizeof moved, "MOVED %u 127.0.0.1:%u", slot, (unsigned)the_cluster.node[2].port);
    expect_error(&the_cluster.node[0], moved, "GET a");
    assert_int_equal(stack_cluster_replica(&the_cluster, 2), 5);
}

TEST(a_slot_moves_there_and_back_and_is_split_in_between)
{
    const unsigned slot = stack_cluster_slot(&the_cluster, "m");
    size_t from = stack_cluster_owner(&the_cluster, slot), to = (from + 1) % the_cluster.master_count;
    for (unsigned i = 0; i < 250; i++)
        freeReplyObject(stack_redis_command(&the_cluster.node[from], "SET {m}%u %u", i, i));
    assert_true(stack_cluster_begin_move(&the_cluster, slot, from, to));
    assert_int_equal(stack_cluster_move_keys(&the_cluster, slot, from, to, 120), 120);
    expect_error(&the_cluster.node[from], "ASK ", "GET {m}nothing");
    assert_int_equal(stack_cluster_owner(&the_cluster, slot), from);
    assert_int_equal(stack_cluster_move_keys(&the_cluster, slot, from, to, 1000), 130);
    assert_true(stack_cluster_end_move(&the_cluster, slot, from, to));
    assert_int_equal(stack_cluster_owner(&the_cluster, slot), to);
    assert_true(stack_redis_answers(&the_cluster.node[to], "249", "GET {m}249"));
    assert_true(stack_cluster_move(&the_cluster, slot, from));
    assert_true(stack_redis_answers(&the_cluster.node[from], "249", "GET {m}249"));
    assert_true(stack_cluster_wait_ok(&the_cluster, LIMIT_MS));
}

TEST(a_replica_takes_over_as_planned_and_after_a_kill)
{
    const unsigned slot = stack_cluster_slot(&the_cluster, "a");
    size_t first = stack_cluster_owner(&the_cluster, slot),
           second = stack_cluster_replica(&the_cluster, first);
    assert_true(stack_redis_answers(&the_cluster.node[first], "OK", "SET a kept"));
    assert_true(stack_cluster_failover(&the_cluster, second, NULL));
    assert_int_equal(stack_cluster_wait_owner(&the_cluster, slot, first, LIMIT_MS), second);
    assert_true(stack_cluster_wait_ok(&the_cluster, LIMIT_MS));
    assert_true(stack_redis_answers(&the_cluster.node[second], "kept", "GET a"));

    stack_redis_kill(&the_cluster.node[second]);
    assert_int_equal(stack_cluster_wait_owner(&the_cluster, slot, second, LIMIT_MS), first);
    assert_true(stack_redis_restart(&the_cluster.node[second]));
    assert_true(stack_cluster_wait_ok(&the_cluster, LIMIT_MS));
    assert_true(stack_redis_answers(&the_cluster.node[first], "kept", "GET a"));
    assert_int_equal(stack_cluster_replica(&the_cluster, first), second);
}

static bool cluster_up(void)
{
    return stack_cluster_start(
        &the_cluster, &(struct stack_cluster_options){.replicas_per_master = 1, .node_timeout_ms = 3000});
}

static bool cluster_down(void)
{
    stack_cluster_stop(&the_cluster);
    return true;
}

TEST_GROUP(.up = cluster_up, .down = cluster_down);
