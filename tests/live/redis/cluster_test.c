/* SPDX-License-Identifier: MIT */
/*
 * cluster_test.c - a Redis Cluster of three masters and three replicas as one loop sees it: who is asked,
 * redirections while a slot moves, failovers, one node's death, the subscription.
 */
#include "guard/redis/redis.h"
#include "guard/redis/slots.h"
#include "guard/wire/protocol.h"
#include "load/base/clock.h"
#include "tests/support/redis_rig.h"
#include "tests/support/stack_cluster.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MASTERS = 3, KEYS = 3000, NAME_SIZE = 48, SHORT_LIMIT_MS = 300, WAIT_MS = 40000, LOOK_EVERY_MS = 5 };

static struct stack_cluster cluster;
static unsigned reigns[REDIS_SHARDS_MAX], links[REDIS_SHARDS_MAX];

/* What is opened once per process is opened here. */
static bool start_cluster(void)
{
    uv_loop_t loop;

    return stack_cluster_start(&cluster, &(struct stack_cluster_options){.master_count = MASTERS,
                                                                         .replicas_per_master = 1,
                                                                         .node_timeout_ms = 3000,
                                                                         .serves_in_part = true}) &&
           uv_loop_init(&loop) == 0 && uv_loop_close(&loop) == 0;
}

static bool stop_cluster(void)
{
    stack_cluster_stop(&cluster);
    return true;
}

/* ---- what the nodes say ---- */

enum { CLAIM_SIZE = 2048, CLAIMS_MAX = 2 * STACK_CLUSTER_NODES_MAX };

static int compare_texts(const void *one, const void *other)
{
    return strcmp(one, other);
}

/* Each master's id, config epoch and slots, as that node has them. */
static void read_claims(size_t node, char out[CLAIMS_MAX][CLAIM_SIZE])
{
    struct redisReply *reply = stack_redis_command(&cluster.node[node], "CLUSTER NODES");
    size_t count = 0;

    memset(out, 0, CLAIMS_MAX * sizeof *out);
    assert_non_null(reply);
    for (char *line = strtok(reply->str, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char id[48], flags[64], epoch[24];
        int used = 0;
        if (sscanf(line, "%47s %*s %63s %*s %*s %*s %23s %*s%n", id, flags, epoch, &used) < 3 ||
            strstr(flags, "master") == NULL || strstr(flags, "fail") != NULL)
            continue;
        assert_in_range(count, 0, CLAIMS_MAX - 1);
        snprintf(out[count++], sizeof out[0], "%s %s%s", id, epoch, line + used);
    }
    qsort(out, count, sizeof *out, compare_texts);
    freeReplyObject(reply);
}

static bool all_agree(void)
{
    static char first[CLAIMS_MAX][CLAIM_SIZE], other[CLAIMS_MAX][CLAIM_SIZE];

    read_claims(0, first);
    for (size_t i = 1; i < cluster.count; i++) {
        read_claims(i, other);
        if (memcmp(first, other, sizeof first) != 0)
            return false;
    }
    return true;
}

/* A node that has not heard of one move may undo the next one. */
static bool wait_until_all_agree(void)
{
    uint64_t end_us = clock_after_ms(WAIT_MS);

    while (!all_agree())
        if (clock_us() > end_us)
            fail_msg("the nodes do not agree about the slots");
        else
            clock_pause_ms(LOOK_EVERY_MS);
    return true;
}

static void move_slot(unsigned slot, size_t to)
{
    assert_true(stack_cluster_move(&cluster, slot, to));
    wait_until_all_agree();
}

/* Redis from 7.4 on names the keys of a slot in no order: of those that move only ours may be there. */
static void empty_node(size_t node)
{
    assert_true(stack_redis_do(&cluster.node[node], "FLUSHALL"));
}

static void begin_move(unsigned slot, size_t from, size_t to)
{
    assert_true(stack_cluster_begin_move(&cluster, slot, from, to));
    assert_int_equal(stack_cluster_move_keys(&cluster, slot, from, to, 1), 1);
}

static void end_move(unsigned slot, size_t from, size_t to)
{
    assert_true(stack_cluster_move_keys(&cluster, slot, from, to, 100) >= 0);
    assert_true(stack_cluster_end_move(&cluster, slot, from, to));
    wait_until_all_agree();
}

/* ---- the loop ---- */

static void on_reign(void *context, unsigned shard)
{
    (void)context;
    assert_in_range(shard, 0, REDIS_SHARDS_MAX - 1);
    reigns[shard]++;
}

static void on_link(void *context, unsigned shard, bool up)
{
    (void)context;
    assert_int_equal(links[shard], !up);
    links[shard] = up;
}

static void prepare(const char *url)
{
    memset(reigns, 0, sizeof reigns);
    memset(links, 0, sizeof links);
    rig_prepare(url);
    rig.config.hooks.link = on_link;
    rig.config.hooks.reign = on_reign;
}

static bool is_good(void)
{
    return rig.state_count > 0 && rig.states[rig.state_count - 1] == GUARD_REDIS_UP;
}

static void start(void)
{
    prepare(cluster.url);
    rig_open();
    rig_wait_until(is_good());
    assert_non_null(strstr(rig.text, "3 of 3 masters are up"));
}

/* ---- keys ---- */

/* A name with other names of its slot: {n}, {n}:a ... */
static void name_in_slot(unsigned slot, char name[NAME_SIZE])
{
    for (unsigned i = 0;; i++) {
        int bytes = snprintf(name, NAME_SIZE, "{%u}", i);
        if (redis_slot(name, (size_t)bytes) == slot)
            return;
    }
}

/* A slot of that node, not the first ones: tests move slots about. */
static unsigned slot_of_node(size_t node)
{
    for (unsigned slot = (unsigned)node * REDIS_SLOTS / MASTERS + 100; slot < REDIS_SLOTS; slot++)
        if (stack_cluster_owner(&cluster, slot) == node)
            return slot;
    fail_msg("node %zu has no slot", node);
    return 0;
}

static unsigned shard_of(const char *name)
{
    return redis_shard(rig.redis, name, strlen(name));
}

static void expect_text(struct call *call, const char *text)
{
    rig_wait_until(call->answered > 0);
    assert_int_equal(call->outcome, REDIS_REPLIED);
    assert_string_equal(call->text, text);
}

static void set(const char *name, const char *value)
{
    struct call call;

    call_send(&call, "SET", name, value);
    expect_text(&call, "OK");
}

static void expect_stored(const char *name, const char *value)
{
    struct call call;

    call_send(&call, "GET", name);
    expect_text(&call, value);
}

/* ---- lookups ---- */

struct look {
    struct redis_lookup lookup;
    unsigned answered;
    enum redis_outcome outcome;
    int64_t pttl_ms;
    char text[32];
};

static void on_looked_up(void *context, enum redis_outcome outcome, int64_t pttl_ms,
                         const struct redisReply *reply)
{
    struct look *look = context;

    look->answered++;
    look->outcome = outcome;
    look->pttl_ms = pttl_ms;
    if (reply != NULL && reply->str != NULL)
        snprintf(look->text, sizeof look->text, "%s", reply->str);
}

static bool look_up(struct look *look, const char *name)
{
    *look = (struct look){.lookup = {.done = on_looked_up, .context = look}};
    return redis_look_up(rig.redis, &look->lookup, name, strlen(name));
}

static void expect_look(struct look *look, const char *text)
{
    rig_wait_until(look->answered > 0);
    assert_int_equal(look->answered, 1);
    assert_int_equal(look->outcome, REDIS_REPLIED);
    assert_string_equal(look->text, text);
    assert_in_range(look->pttl_ms, 1, 100000);
}

/* ---- scripts ---- */

static void expect_integer(struct call *call, long long integer)
{
    rig_wait_until(call->answered > 0);
    assert_int_equal(call->outcome, REDIS_REPLIED);
    assert_int_equal(call->type, REDIS_REPLY_INTEGER);
    assert_int_equal(call->integer, integer);
}

static void flush_scripts(void)
{
    for (size_t i = 0; i < cluster.count; i++)
        assert_true(stack_redis_do(&cluster.node[i], "SCRIPT FLUSH"));
}

TEST(commands_lookups_and_scripts_reach_the_node_that_has_their_slot_in_one_round_trip_each, P143)
{
    struct look *looks = calloc(KEYS, sizeof *looks);
    struct call *calls = calloc(KEYS, sizeof *calls);
    char name[NAME_SIZE];
    bool used[REDIS_SHARDS_MAX] = {false};
    unsigned shards = 0;

    start();
    for (unsigned i = 0; i < KEYS; i++) {
        snprintf(name, sizeof name, "k%u", i);
        call_send(&calls[i], "SET", name, name, "PX", "90000");
        shards += !used[shard_of(name)];
        used[shard_of(name)] = true;
    }
    assert_int_equal(shards, MASTERS);
    for (unsigned i = 0; i < KEYS; i++)
        expect_text(&calls[i], "OK");
    uint64_t round_trips = rig.counters.round_trips;
    for (unsigned i = 0; i < KEYS; i++) {
        snprintf(name, sizeof name, "k%u", i);
        assert_true(redis_may_look_up(rig.redis, name, strlen(name)));
        assert_true(look_up(&looks[i], name));
    }
    for (unsigned i = 0; i < KEYS; i++) {
        snprintf(name, sizeof name, "k%u", i);
        expect_look(&looks[i], name);
    }
    assert_int_equal(rig.counters.round_trips - round_trips, MASTERS);
    for (unsigned i = 0; i < MASTERS * 20; i++) {
        snprintf(name, sizeof name, "k%u", i);
        call_renew(&calls[i], name);
    }
    for (unsigned i = 0; i < MASTERS * 20; i++)
        expect_integer(&calls[i], 0);
    assert_int_equal(rig.counters.errors, 0);
    assert_int_equal(rig.counters.connects, MASTERS);
    rig_finish();
    free(calls);
    free(looks);
}

TEST(what_is_sent_before_the_map_is_known_waits_for_it)
{
    static struct call call, none;

    prepare(cluster.url);
    rig_open();
    call_send(&call, "SET", "early", "bird");
    call_send(&none, "PING");
    expect_text(&call, "OK");
    expect_text(&none, "PONG");
}

TEST(what_waits_for_the_map_is_answered_when_the_routes_are_closed)
{
    static struct call call;

    prepare(cluster.url);
    rig_open();
    call_send(&call, "SET", "early", "bird");
    rig_close();
    assert_int_equal(call.answered, 1);
    assert_int_equal(call.outcome, REDIS_UNSENT);
}

TEST(a_moved_slot_is_followed_at_once_and_from_then_on, P140)
{
    unsigned slot = slot_of_node(0);
    static struct call call;
    struct look look;
    char name[NAME_SIZE];

    start();
    name_in_slot(slot, name);
    call_send(&call, "SET", name, "value", "PX", "90000");
    expect_text(&call, "OK");
    unsigned shard = shard_of(name);
    move_slot(slot, 1);
    assert_true(look_up(&look, name));
    expect_look(&look, "value");
    assert_int_not_equal(shard_of(name), shard);
    uint64_t round_trips = rig.counters.round_trips;
    assert_true(look_up(&look, name));
    expect_look(&look, "value");
    assert_int_equal(rig.counters.round_trips - round_trips, 1);
    move_slot(slot, 0);
    expect_stored(name, "value");
    call_renew(&call, name);
    expect_integer(&call, 0);
    assert_int_equal(rig.counters.errors, 0);
    assert_int_equal(reigns[shard_of(name)], 0);
}

TEST(while_a_slot_moves_each_key_is_found_where_it_is, P140)
{
    unsigned slot = slot_of_node(0);
    struct look here, gone;
    static struct call call;
    char name[NAME_SIZE], other[NAME_SIZE + 2], fresh[NAME_SIZE + 2];

    start();
    empty_node(0);
    name_in_slot(slot, name);
    snprintf(other, sizeof other, "%s:b", name);
    snprintf(fresh, sizeof fresh, "%s:c", name);
    call_send(&call, "SET", name, "token", "PX", "90000");
    expect_text(&call, "OK");
    call_send(&call, "SET", other, "token", "PX", "90000");
    expect_text(&call, "OK");
    flush_scripts();
    begin_move(slot, 0, 1);
    unsigned shard = shard_of(name);
    assert_true(look_up(&here, name));
    assert_true(look_up(&gone, other));
    expect_look(&here, "token");
    expect_look(&gone, "token");
    /* one at the source, one behind ASK, where nobody knows the script */
    call_renew(&call, name);
    expect_integer(&call, 1);
    call_renew(&call, other);
    expect_integer(&call, 1);
    set(fresh, "new");
    expect_stored(fresh, "new");
    assert_int_equal(shard_of(name), shard);
    end_move(slot, 0, 1);
    expect_stored(fresh, "new");
    assert_int_not_equal(shard_of(name), shard);
    move_slot(slot, 0);
}

/* Both keys are there before, one of them after the first step. */
static void split_slot(unsigned slot, char one[NAME_SIZE], char other[NAME_SIZE + 2])
{
    name_in_slot(slot, one);
    snprintf(other, NAME_SIZE + 2, "%s:b", one);
    empty_node(0);
    set(one, "1");
    set(other, "2");
    begin_move(slot, 0, 1);
}

TEST(keys_that_are_split_by_a_move_are_tried_again_until_it_is_over, P140)
{
    unsigned slot = slot_of_node(0);
    char one[NAME_SIZE], other[NAME_SIZE + 2];
    static struct call call;

    start();
    split_slot(slot, one, other);
    uint64_t round_trips = rig.counters.round_trips;
    call_send(&call, "DEL", one, other);
    rig_wait_until(rig.counters.round_trips - round_trips > 3);
    assert_int_equal(call.answered, 0);
    end_move(slot, 0, 1);
    expect_integer(&call, 2);
    assert_int_equal(rig.counters.commands, 3);
    assert_int_equal(rig.counters.errors, 0);
    move_slot(slot, 0);
}

TEST(keys_that_are_split_for_longer_than_the_limit_come_back_as_moving, P140)
{
    unsigned slot = slot_of_node(0);
    char one[NAME_SIZE], other[NAME_SIZE + 2];
    static struct call call;

    prepare(cluster.url);
    rig.config.limit_ms = SHORT_LIMIT_MS;
    rig_open();
    rig_wait_until(is_good());
    split_slot(slot, one, other);
    uint64_t begin = 0;
    do { /* UNKNOWN: this machine stood still for longer than the limit */
        rig_wait_until(is_good());
        begin = uv_hrtime();
        call_send(&call, "DEL", one, other);
        rig_wait_until(call.answered > 0);
    } while (call.outcome == REDIS_UNKNOWN && elapsed_ms(begin) >= SHORT_LIMIT_MS);
    assert_int_equal(call.outcome, REDIS_MOVING);
    assert_true(elapsed_ms(begin) >= SHORT_LIMIT_MS / 2);
    end_move(slot, 0, 1);
    move_slot(slot, 0);
}

TEST(keys_of_two_slots_are_refused_and_said_to_be)
{
    static struct call call;

    start();
    call_send(&call, "DEL", "{1}", "{2}");
    rig_wait_until(call.answered > 0);
    assert_int_equal(call.outcome, REDIS_REPLIED);
    assert_non_null(strstr(call.text, "CROSSSLOT"));
    rig_wait_until(strstr(rig.text, "CROSSSLOT") != NULL);
}

/* ---- other servers than the URL says ---- */

static void expect_refused(const char *url, const char *said)
{
    prepare(url);
    rig_open();
    rig_wait_until(rig.state_count > 0 && strstr(rig.text, said) != NULL);
    assert_int_equal(rig.states[rig.state_count - 1], GUARD_REDIS_DENIED);
    assert_false(redis_is_up(rig.redis));
    rig_finish();
}

TEST(a_url_of_the_wrong_topology_is_refused_by_name, P132)
{
    char url[64];
    static struct stack_redis alone;

    assert_true(stack_redis_start(&alone, NULL));
    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%u", (unsigned)alone.port);
    expect_refused(url, "must begin with redis://");
    snprintf(url, sizeof url, "redis://127.0.0.1:%u", (unsigned)cluster.node[0].port);
    expect_refused(url, "must begin with redis+cluster://");
    stack_redis_stop(&alone);
}

TEST(a_wrong_password_is_a_denial)
{
    char url[64];

    snprintf(url, sizeof url, "redis+cluster://nobody:wrong@127.0.0.1:%u", (unsigned)cluster.node[0].port);
    expect_refused(url, "AUTH refused: WRONGPASS");
}

/* ---- the subscription ---- */

TEST(a_subscription_hears_what_is_published_at_any_node, P143)
{
    prepare(cluster.url);
    rig.config.channel = "news";
    rig_open();
    rig_wait_up();
    for (size_t i = 0; i < cluster.count; i++) {
        size_t before = rig.message_count;
        assert_true(stack_redis_do(&cluster.node[i], "PUBLISH news hello"));
        rig_wait_until(rig.message_count > before);
    }
}

/* ---- failovers ---- */

static const char *url_of_node(size_t node)
{
    static char label[32];

    snprintf(label, sizeof label, "127.0.0.1:%u", (unsigned)cluster.node[node].port);
    return label;
}

TEST(a_planned_failover_is_followed_and_its_shard_told_of_another_reign, P139)
{
    size_t old = 2, replica = stack_cluster_replica(&cluster, old);
    unsigned slot = slot_of_node(old);
    struct look look;
    static struct call call;
    char name[NAME_SIZE];

    start();
    name_in_slot(slot, name);
    call_send(&call, "SET", name, "before", "PX", "90000");
    expect_text(&call, "OK");
    unsigned shard = shard_of(name);
    assert_true(stack_cluster_failover(&cluster, replica, NULL));
    assert_int_equal(stack_cluster_wait_owner(&cluster, slot, old, WAIT_MS), replica);
    wait_until_all_agree();
    assert_true(look_up(&look, name));
    expect_look(&look, "before");
    rig_wait_until(shard_of(name) != shard && links[shard_of(name)] && !links[shard]);
    rig_wait_until(reigns[shard_of(name)] >
                   0); /* a redirection of one slot may come before the map that says so */
    assert_int_equal(reigns[shard_of(name)], 1);
    rig_wait_until(is_good() && strstr(rig.text, "3 of 3") != NULL);
    assert_int_equal(rig.counters.errors, 0);
    assert_true(stack_cluster_failover(&cluster, old, NULL));
    assert_int_equal(stack_cluster_wait_owner(&cluster, slot, replica, WAIT_MS), old);
    wait_until_all_agree();
    call_renew(&call, name);
    expect_integer(&call, 0);
}

/* The commands of a turn, each for another master. */
static void expect_others_alive(size_t dead)
{
    struct call call;
    char name[NAME_SIZE];

    for (size_t i = 0; i < MASTERS; i++) {
        if (i == dead)
            continue;
        name_in_slot(slot_of_node(i), name);
        call_send(&call, "SET", name, "alive");
        expect_text(&call, "OK");
    }
}

/* Sent again and again until it is answered; what a node that is down does not take costs no time. */
static void set_until_it_is_answered(const char *name)
{
    const char *argv[] = {"SET", name, "after"};
    const size_t bytes[] = {3, strlen(name), 5};
    uint64_t begin = uv_hrtime();

    while (elapsed_ms(begin) < WAIT_MS) {
        struct call call = {.answered = 0};
        if (redis_send(rig.redis, 3, argv, bytes, call_replied, &call))
            rig_wait_until(call.answered > 0);
        else
            rig_turn();
        if (call.outcome == REDIS_REPLIED && call.answered > 0 && call.type == REDIS_REPLY_STATUS)
            return;
    }
    fail_msg("nobody takes %s; last state: %s", name, rig.text);
}

TEST(a_dead_master_costs_only_its_keys_until_its_replica_has_them, P141)
{
    size_t dead = 1, replica = stack_cluster_replica(&cluster, dead);
    char name[NAME_SIZE];

    name_in_slot(slot_of_node(dead), name);
    start();
    set(name, "before");
    unsigned shard = shard_of(name);
    stack_redis_kill(&cluster.node[dead]);
    rig_wait_until(!links[shard]);
    assert_false(redis_may_look_up(rig.redis, name, strlen(name)));
    assert_false(redis_send(rig.redis, 2, (const char *[]){"GET", name}, (size_t[]){3, strlen(name)},
                            call_replied, NULL));
    rig_wait_until(strstr(rig.text, "2 of 3 masters are up") != NULL);
    assert_non_null(strstr(rig.text, url_of_node(dead)));
    assert_true(redis_is_up(rig.redis));
    assert_false(redis_is_whole(rig.redis));
    expect_others_alive(dead);
    set_until_it_is_answered(name);
    assert_int_equal(stack_cluster_owner(&cluster, redis_slot(name, strlen(name))), replica);
    rig_wait_until(reigns[shard_of(name)] >
                   0); /* a redirection of one slot may come before the map that says so */
    assert_int_equal(reigns[shard_of(name)], 1);
    rig_wait_until(is_good());
    assert_true(redis_is_whole(rig.redis));
    assert_true(stack_redis_restart(&cluster.node[dead]));
    assert_true(stack_cluster_wait_ok(&cluster, WAIT_MS));
}

TEST(a_stopped_master_that_goes_on_answers_nobody_from_the_past, P139)
{
    unsigned slot = slot_of_node(2);
    size_t replica = stack_cluster_replica(&cluster, 2);
    struct look look;
    char name[NAME_SIZE];

    name_in_slot(slot, name);
    prepare(cluster.url);
    rig.config.limit_ms = SHORT_LIMIT_MS;
    rig_open();
    rig_wait_until(is_good());
    set(name, "before");
    stack_redis_pause(&cluster.node[2]);
    assert_int_equal(stack_cluster_wait_owner(&cluster, slot, 2, WAIT_MS), replica);
    set_until_it_is_answered(name);
    stack_redis_resume(&cluster.node[2]);
    for (unsigned answers = 0; answers < 200;) {
        rig_wait_until(look_up(&look, name));
        rig_wait_until(look.answered > 0);
        if (look.outcome != REDIS_REPLIED)
            continue; /* this machine stood still for longer than the limit */
        assert_string_equal(look.text, "after");
        answers++;
    }
    rig_finish();
    assert_true(stack_cluster_wait_ok(&cluster, WAIT_MS));
}

/* Views cannot be had meanwhile, so that nobody hears of the heir before the address is reached again. */
static void let_views_be_had(bool can_be)
{
    for (size_t i = 0; i < cluster.count; i++)
        assert_true(
            !stack_redis_runs(&cluster.node[i]) ||
            stack_redis_do(&cluster.node[i], "ACL SETUSER default %scluster|slots", can_be ? "+" : "-"));
}

TEST(a_master_that_was_replaced_and_comes_back_as_another_node_has_lost_all_its_slots, P139)
{
    const unsigned slot = REDIS_SLOTS / 2;
    const size_t replaced = stack_cluster_owner(&cluster, slot);
    char name[NAME_SIZE], unused[NAME_SIZE];

    assert_int_not_equal(replaced, STACK_CLUSTER_NOBODY);
    name_in_slot(slot, name);
    name_in_slot(slot + 1, unused);
    start();
    set(name, "before");
    assert_int_equal(shard_of(unused), shard_of(name));
    let_views_be_had(false);
    assert_true(stack_cluster_replace(&cluster, replaced));
    rig_wait_until(strstr(rig.text, "2 of 3 masters are up") != NULL);
    assert_true(stack_cluster_rejoin(&cluster, replaced));
    let_views_be_had(false);
    rig_wait_until(strstr(rig.text, "3 of 3 masters are up") != NULL);
    let_views_be_had(true);
    assert_int_equal(shard_of(unused), shard_of(name));
    set_until_it_is_answered(name);
    rig_wait_until(shard_of(unused) == shard_of(name));
    rig_finish();
    assert_true(stack_cluster_return(&cluster, replaced));
}

/* An operator gives up a master that has died with its replica. The last test: the others never take the two back. */
TEST(a_slot_of_a_master_that_is_forgotten_goes_to_whoever_has_it_at_a_lower_epoch, P139)
{
    unsigned slot = REDIS_SLOTS / 2; /* the second's, at first; the last slot is the third's */
    size_t dead = stack_cluster_owner(&cluster, slot), replica = stack_cluster_replica(&cluster, dead);
    size_t heir = stack_cluster_owner(&cluster, REDIS_SLOTS - 1);
    char name[NAME_SIZE];

    assert_true(dead != heir && dead != STACK_CLUSTER_NOBODY && heir != STACK_CLUSTER_NOBODY);
    name_in_slot(slot, name);
    assert_true(stack_redis_do(&cluster.node[dead], "CLUSTER BUMPEPOCH"));
    wait_until_all_agree();
    start();
    set(name, "before");
    stack_redis_kill(&cluster.node[replica]);
    stack_redis_kill(&cluster.node[dead]);
    rig_wait_until(strstr(rig.text, "2 of 3 masters are up") != NULL);
    assert_true(stack_cluster_forget(&cluster, dead) && stack_cluster_forget(&cluster, replica));
    assert_true(stack_redis_do(&cluster.node[heir], "CLUSTER ADDSLOTS %u", slot));
    set_until_it_is_answered(name);
    assert_int_equal(stack_cluster_owner(&cluster, slot), heir);
    assert_true(stack_redis_restart(&cluster.node[dead]) && stack_redis_restart(&cluster.node[replica]));
}

TEST_GROUP(.up = start_cluster, .down = stop_cluster, .before = rig_forget, .end = rig_finish);
