/* SPDX-License-Identifier: MIT */
/*
 * failover_test.c - another Redis becomes the master, and connections to the old one survive.
 *
 * The name of Redis is a symbolic link to its socket, which a failover turns round like an address that moves:
 * connections stay where they are. In each scene the old master still has the old value and cannot hear of the new one.
 * A PUT that said "visible" must be seen in every process from then on, whatever the old master says.
 *
 * In the last ones it is an address that leads to the master, and Redis's own FAILOVER.
 */
#include "load/stack/proxy.h"
#include "tests/support/probe.h"
#include "tests/support/test.h"
#include "tests/support/writes.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PROCESSES = 2, GETS = 200, CONNECTIONS = 3 /* of a process with one loop */ };

#define REIGNS "guard_redis_reigns_total"

struct scene {
    struct stack_redis replica;
    struct proxy *proxy; /* owned; NULL: the name is a link */
    char name[PROC_PATH_BYTES + 32];
    char url[PROC_PATH_BYTES + 64];
    uint32_t product;
    unsigned long version;
    bool quick; /* limits that pass */
};

static struct scene scene;

/* ---- the name ---- */

static void lead_to(const struct stack_redis *redis)
{
    char other[sizeof scene.name + 4];
    snprintf(other, sizeof other, "%s.to", scene.name);
    assert_int_equal(symlink(redis->socket_path, other), 0);
    assert_int_equal(rename(other, scene.name), 0);
}

#define tell(redis, command) assert_true(stack_redis_answers(redis, "OK", command))

/* ---- processes ---- */

static void show(size_t process, unsigned long version)
{
    assert_int_equal(writes_version(process, scene.product), version);
}

/* The process's own connection may have to find its master first: the first tries may not be confirmed. */
static void put_visibly(size_t process)
{
    static const char body[] = "{\"name\":\"n\",\"description\":\"d\",\"price_cents\":1,\"stock\":7}";
    char path[64], match[WRITES_CONDITION_BYTES];
    snprintf(path, sizeof path, "/products/%u", (unsigned)scene.product);
    for (unsigned tries = 0; tries < 100; tries++) {
        writes_condition(scene.product, scene.version, match);
        struct write_asked put = {
            .process = process, .method = "PUT", .path = path, .headers = match, .body = body};
        writes_ask(&put);
        assert_int_equal(put.status, 200);
        scene.version = put.version;
        if (put.visible)
            return;
    }
    fail_msg("100 edits, and none is visible");
}

static void add_process(void)
{
    const char *more[] = {scene.url, "SERVER_LOOPS=1", scene.quick ? "REDIS_LIMIT_MS=250" : NULL, NULL};
    assert_true(fleet_add(writes_settings(more)));
    assert_true(fleet_wait_ready(fleet.count - 1));
    assert_true(fleet_wait_registered(fleet.count - 1)); /* what it loads is stored from now on */
}

static bool answers_from_the_cache(size_t process)
{
    const double hits = fleet_metric(process, "guard_gets_total{outcome=\"hit\"}");
    show(process, scene.version);
    return fleet_metric(process, "guard_gets_total{outcome=\"hit\"}") > hits;
}

/* Every process has the product in the cache and answers it from there. */
static void warm(void)
{
    char path[BURST_PATH_BYTES];
    scene.product = fleet_cold_product(path);
    for (size_t i = 0; i < PROCESSES; i++)
        scene.version = writes_version(i, scene.product);
    assert_true(scene.version > 0);
    for (size_t i = 0; i < PROCESSES; i++)
        WAIT_UNTIL(answers_from_the_cache(i));
}

static void begin_with(bool quick)
{
    scene = (struct scene){.quick = quick};
    snprintf(scene.name, sizeof scene.name, "%s/redis.name", fleet.redis.folder);
    snprintf(scene.url, sizeof scene.url, "REDIS_URL=unix://%s", scene.name);
    lead_to(&fleet.redis);
    assert_true(fleet_start(0, NULL));
    for (size_t i = 0; i < PROCESSES; i++)
        add_process();
    warm();
    assert_true(stack_redis_start_replica(&scene.replica, &fleet.redis));
    assert_true(stack_redis_wait_in_sync(&scene.replica, &fleet.redis, FLEET_LIMIT_MS));
}

static bool begin(void)
{
    begin_with(false);
    return true;
}

static bool begin_quickly(void)
{
    begin_with(true);
    return true;
}

static bool end(void)
{
    bool ended = fleet_end();
    if (scene.proxy == NULL)
        unlink(scene.name);
    proxy_close(&scene.proxy);
    stack_redis_stop(&scene.replica);
    return stack_redis_restart(&fleet.redis) && ended;
}

static void expect_state(size_t process, const char *state)
{
    char sample[96];
    snprintf(sample, sizeof sample, "guard_redis_state{connection=\"commands\",state=\"%s\"}", state);
    assert_true(fleet_wait_metric(process, sample, 1));
}

static void expect_readyz(size_t process, const char *says)
{
    struct http_answer answer;
    assert_true(fleet_ask_ops(process, NULL, "/readyz", &answer));
    if (strstr(answer.body, says) == NULL)
        fail_msg("/readyz: %s says nothing of %s", answer.body, says);
    http_answer_clear(&answer);
}

/* ---- the scenes ---- */

TEST(a_confirmed_edit_is_seen_though_the_old_master_lives_on_as_a_replica, P84)
{
    assert_true(stack_redis_promote(&scene.replica));
    lead_to(&scene.replica);
    tell(&fleet.redis, "REPLICAOF 127.0.0.1 1"); /* nobody listens there */
    for (unsigned edits = 0; edits < 2; edits++) {
        put_visibly(0);
        for (unsigned i = 0; i < GETS; i++)
            show(i % PROCESSES, scene.version);
    }
    for (size_t i = 0; i < PROCESSES; i++) {
        assert_true(fleet_wait_metric(i, REIGNS, 1));
        expect_state(i, "up");
        expect_readyz(i, "\"reigns\":");
        assert_true(stack_log_count(fleet.catalogd[i].log_path, 0, "demoted to a replica") > 0);
    }
}

TEST(a_confirmed_edit_is_seen_though_the_old_master_is_cut_off_and_goes_on, P84, P86)
{
    assert_true(stack_redis_promote(&scene.replica));
    lead_to(&scene.replica);
    tell(&fleet.redis, "CONFIG SET min-replicas-to-write 1"); /* its only one has left */
    add_process();
    put_visibly(PROCESSES);
    for (unsigned i = 0; i < GETS; i++)
        show(i % (PROCESSES + 1), scene.version);
    for (size_t i = 0; i <= PROCESSES;
         i++) { /* it leads to the other one, so they do not stay with this one */
        expect_state(i, "up");
        assert_true(stack_log_count(fleet.catalogd[i].log_path, 0, "fenced: ") > 0 || i == PROCESSES);
    }
}

TEST(a_master_that_stays_without_replicas_is_told_and_used_again_when_they_are_back, P86)
{
    tell(&fleet.redis, "CONFIG SET min-replicas-to-write 2");
    for (size_t i = 0; i < PROCESSES; i++) {
        expect_state(i, "fenced");
        expect_readyz(i, "\"fenced\"");
    }
    tell(&fleet.redis, "CONFIG SET min-replicas-to-write 1");
    for (size_t i = 0; i < PROCESSES; i++)
        expect_state(i, "up");
}

static bool all_have_left_for_the_replica(void *context)
{
    (void)context;
    struct redisReply *reply = stack_redis_command(&scene.replica, "CLIENT LIST");
    size_t count = 0;
    for (const char *at = reply->str; (at = strstr(at, "name=stampede-guard ")) != NULL; at++)
        count++;
    freeReplyObject(reply);
    return count == PROCESSES * CONNECTIONS;
}

/* Nobody asks for anything while it is stopped: the heartbeat notices. */
TEST_WITH(a_master_that_was_stopped_and_replaced_is_not_believed_when_it_goes_on, begin_quickly, end, P84)
{
    stack_redis_pause(&fleet.redis);
    assert_true(stack_redis_promote(&scene.replica));
    lead_to(&scene.replica);
    assert_true(probe_wait("all connections lead to the new master", all_have_left_for_the_replica, NULL));
    put_visibly(0);
    stack_redis_resume(&fleet.redis);
    tell(&fleet.redis, "CONFIG SET maxmemory 0"); /* it goes on, and says it is the master */
    for (unsigned i = 0; i < GETS; i++)
        show(i % PROCESSES, scene.version);
}

/* ---- FAILOVER behind an address ---- */

enum {
    WAITS = 0,
    GOES_ON = 1,
    DIRECT = 2 /* processes: fence=write, fence=role, and one that asks the new master */
};

static bool old_master_waits_for_the_replica(void *context)
{
    (void)context;
    return stack_redis_mentions(&fleet.redis, "master_failover_state:waiting-for-sync", "INFO replication");
}

static bool replica_has_taken_over(void *context)
{
    (void)context;
    return stack_redis_mentions(&scene.replica, "role:master", "INFO replication") &&
           stack_redis_mentions(&fleet.redis, "role:slave", "INFO replication");
}

static void add_process_with(const char *parameters, uint16_t port)
{
    snprintf(scene.url, sizeof scene.url, "REDIS_URL=redis://127.0.0.1:%u%s", (unsigned)port, parameters);
    add_process();
}

static bool begin_behind_an_address(void)
{
    scene = (struct scene){.quick = true};
    assert_true(proxy_open_to(fleet.redis.port, &scene.proxy));
    assert_true(fleet_start(0, NULL));
    add_process_with("?fence=write", proxy_port(scene.proxy, 0));
    add_process_with("?fence=role", proxy_port(scene.proxy, 0));
    warm();
    assert_true(stack_redis_start_replica(&scene.replica, &fleet.redis));
    assert_true(stack_redis_wait_in_sync(&scene.replica, &fleet.redis, FLEET_LIMIT_MS));
    return true;
}

/* All writes pause until the replica has what the master has, and it is stopped. */
static void begin_failover(void)
{
    stack_redis_pause(&scene.replica);
    tell(&fleet.redis, "SET behind 1");
    tell(&fleet.redis, "FAILOVER");
    assert_true(probe_wait("the old master waits", old_master_waits_for_the_replica, NULL));
}

static void end_failover(void)
{
    stack_redis_resume(&scene.replica);
    assert_true(probe_wait("the replica is the master", replica_has_taken_over, NULL));
    tell(&fleet.redis, "REPLICAOF 127.0.0.1 1"); /* it hears nothing of what comes */
}

static void show_to_all(void)
{
    for (unsigned i = 0; i < GETS; i++)
        show(i % 2 == 0 ? WAITS : GOES_ON, scene.version);
}

/* Only who asks with GETEX waits, for it counts as a write: as long as a command of Redis may take. */
TEST_WITH(while_writes_pause_hits_wait_or_go_on_as_the_fence_says_and_nothing_old_is_shown_after_it,
          begin_behind_an_address, end)
{
    static const char hit[] = "guard_gets_total{outcome=\"hit\"}";
    begin_failover();
    const double gone_on = fleet_metric(GOES_ON, hit), waited = fleet_metric(WAITS, hit);
    for (unsigned i = 0; i < GETS; i++)
        show(GOES_ON, scene.version);
    show(WAITS, scene.version);
    assert_true(fleet_metric(GOES_ON, hit) > gone_on);
    assert_true(fleet_metric(WAITS, hit) <= waited);
    end_failover();
    add_process_with("", scene.replica.port);
    put_visibly(DIRECT); /* the address still leads to the old one */
    show_to_all();
    proxy_retarget(scene.proxy, 0, scene.replica.port);
    for (size_t i = WAITS; i <= GOES_ON; i++)
        expect_state(i, "up");
    put_visibly(WAITS);
    put_visibly(GOES_ON);
    show_to_all();
}

static bool up(void)
{
    return fleet_up() && writes_make_logins();
}

TEST_GROUP(.up = up, .down = fleet_down, .before = begin, .after = end);
