/* SPDX-License-Identifier: MIT */
/*
 * reign_test.c - connections to a master that has lost its office, may have lost it, or was stopped: what they
 * answer.
 *
 * Two real servers; the second is another master. That is all that a process connected to the first sees of a
 * failover.
 */
#include "load/stack/stack.h"
#include "tests/support/redis_rig.h"
#include <stdio.h>
#include <string.h>

enum { LIMIT_MS = 250 };

static struct stack_redis server, other;

#define tell(redis, ...) assert_true(stack_redis_do(redis, __VA_ARGS__))

static bool start_servers(void)
{
    uv_loop_t loop; /* what libuv opens once is opened here */
    if (!stack_redis_start(&server, NULL) || !stack_redis_start(&other, NULL))
        return false;
    if (uv_loop_init(&loop) != 0 || uv_loop_close(&loop) != 0)
        return false;
    tell(&server, "SET k old");
    tell(&other, "SET k new");
    return true;
}

static bool stop_servers(void)
{
    stack_redis_stop(&server);
    stack_redis_stop(&other);
    return true;
}

static bool heal_server(void)
{
    stack_redis_resume(&server);
    tell(&server, "REPLICAOF NO ONE");
    tell(&server, "CONFIG SET min-replicas-to-write 0");
    tell(&server, "CONFIG SET save %s", "");
    return true;
}

static void read_k(struct call *call)
{
    memset(call, 0, sizeof *call);
    assert_true(redis_send_get(rig.redis, "k", 1, call_replied, call));
    rig_wait_until(call->answered > 0);
}

static void read_as(const char *value)
{
    struct call call;
    read_k(&call);
    assert_int_equal(call.outcome, REDIS_REPLIED);
    assert_string_equal(call.text, value);
}

/* ---- a server that is no master, or may be none ---- */

TEST(a_replica_that_takes_writes_is_known_by_its_role, P86)
{
    rig_start(server.url);
    rig_wait_up();
    tell(&server, "CONFIG SET replica-read-only no");
    tell(&server, "REPLICAOF 127.0.0.1 1");
    rig_wait_until(strstr(rig.text, "demoted to a replica: ROLE says so") != NULL);
    tell(&server, "CONFIG SET replica-read-only yes");
}

static void start_fenced(void)
{
    struct call call;
    rig_start(server.url);
    rig_wait_up();
    tell(&server, "CONFIG SET min-replicas-to-write 1");
    read_k(&call);
    assert_memory_equal(call.text, "NOREPLICAS", 10);
    assert_int_equal(rig.states[rig.state_count - 1], GUARD_REDIS_FENCED);
    assert_false(redis_may_look_up(rig.redis, "k", 1));
}

static void finish_with_replicas(void)
{
    tell(&server, "CONFIG SET min-replicas-to-write 0");
    rig_wait_until(redis_may_look_up(rig.redis, "k", 1)); /* the heartbeat */
    assert_int_equal(rig.states[rig.state_count - 1], GUARD_REDIS_UP);
    read_as("old");
    rig_finish();
}

TEST(a_master_without_its_replicas_is_up_and_answers_no_value, P84)
{
    static struct call call;
    start_fenced();
    assert_true(redis_is_up(rig.redis));
    assert_false(redis_send_get(rig.redis, "k", 1, call_replied, &call));
    redis_reset(rig.redis, "made anew");
    rig_wait_until(rig.states[rig.state_count - 1] == GUARD_REDIS_FENCED && redis_is_up(rig.redis));
    assert_false(redis_may_look_up(rig.redis, "k", 1));
    finish_with_replicas();
}

/* Its address may lead to another one by then. */
TEST(a_master_that_stays_without_replicas_is_connected_to_anew_and_not_told_to_be_up, P86)
{
    start_fenced();
    const size_t told = rig.state_count;
    rig_wait_until(atomic_load(&rig.counters.connects) >= 2 && redis_is_up(rig.redis));
    for (size_t i = told; i < rig.state_count; i++)
        assert_int_not_equal(rig.states[i], GUARD_REDIS_UP);
    assert_false(redis_may_look_up(rig.redis, "k", 1));
    finish_with_replicas();
}

/* A chain of commands, so that one is pending at every instant, until it is told to stop. */
static struct call chained;
static bool chain_ends;

static void go_on(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    (void)context;
    call_replied(&chained, outcome, reply);
    if (!chain_ends && outcome == REDIS_REPLIED)
        assert_true(redis_send(rig.redis, 1, (const char *[]){"PING"}, (size_t[]){4}, go_on, NULL));
}

TEST(the_fence_opens_again_however_busy_the_connection_is, P86)
{
    static struct call call;
    rig_start(server.url);
    rig_wait_up();
    tell(&server, "CONFIG SET min-replicas-to-write 1");
    read_k(&call);
    assert_false(redis_may_look_up(rig.redis, "k", 1));
    tell(&server, "CONFIG SET min-replicas-to-write 0");
    chained = (struct call){.answered = 0};
    chain_ends = false;
    assert_true(redis_send(rig.redis, 1, (const char *[]){"PING"}, (size_t[]){4}, go_on, NULL));
    rig_wait_until(redis_may_look_up(rig.redis, "k", 1));
    chain_ends = true;
}

/* ---- fence=role ---- */

/* While writes pause a GETEX would wait; so would the heartbeat, until its limit. */
TEST(with_fence_role_hits_go_on_while_all_writes_pause)
{
    char url[96];

    snprintf(url, sizeof url, "redis://127.0.0.1:%u?fence=role", (unsigned)server.port);
    rig_start(url);
    rig_wait_up();
    tell(&server, "CLIENT PAUSE 60000 WRITE");
    uint64_t roles = stack_redis_calls(&server, "role");
    rig_wait_until(stack_redis_calls(&server, "role") - roles >= 2);
    read_as("old");
    assert_int_equal(rig.state_count, 1);
    tell(&server, "CLIENT UNPAUSE");
}

/* ---- logins that may not ask all ---- */

static void start_as(const char *denied, const char *too)
{
    char url[96];
    tell(&server, "ACL SETUSER narrow reset on >pw ~* &* +@all %s %s", denied, too);
    snprintf(url, sizeof url, "redis://narrow:pw@127.0.0.1:%u", (unsigned)server.port);
    rig_start(url);
    rig_wait_up();
}

/* It cannot try the fence by GETEX. */
TEST(a_login_without_getex_notices_that_replicas_leave_and_come_back, P86)
{
    start_as("-getex", "-wait");
    tell(&server, "CONFIG SET min-replicas-to-write 1");
    rig_wait_until(rig.states[rig.state_count - 1] == GUARD_REDIS_FENCED);
    assert_false(redis_may_look_up(rig.redis, "k", 1));
    tell(&server, "CONFIG SET min-replicas-to-write 0");
    rig_wait_until(rig.states[rig.state_count - 1] == GUARD_REDIS_UP);
    uint64_t roles = stack_redis_calls(&server, "role");
    read_as("old");
    assert_int_equal(stack_redis_calls(&server, "role") - roles, 1);
}

TEST(a_role_that_is_forbidden_while_up_shuts_the_fence)
{
    static struct call call;
    start_as("-getex", "-wait");
    tell(&server, "ACL SETUSER narrow -role");
    read_k(&call);
    assert_int_equal(call.outcome, REDIS_UNKNOWN);
    assert_false(redis_may_look_up(rig.redis, "k", 1));
}

TEST(a_login_without_info_is_told_what_it_lacks)
{
    start_as("-info", "-wait");
    assert_non_null(strstr(rig.text, "INFO is refused"));
    read_as("old");
}

/* ---- one process, two masters ---- */

/* A second connection of the rig's process, made when the master's address leads there. */
static struct redis *open_beside(const char *url)
{
    struct redis_config config = rig.config;
    struct redis_url parsed;
    assert_true(redis_url_read(url, &parsed, NULL));
    redis_place_move(&rig.topology->place, &parsed.hosts[0]);
    config.hooks.state = NULL;
    return redis_open(rig.host, &config);
}

static void note_closed(void *context)
{
    *(bool *)context = true;
}

static void close_beside(struct redis *redis)
{
    bool closed = false;
    redis_close(redis, note_closed, &closed);
    rig_wait_until(closed);
}

TEST(a_reply_of_the_old_master_reaches_nobody_once_the_new_one_is_known, P85)
{
    static struct call call = {.answered = 0};
    rig_prepare(server.url);
    rig_open();
    rig_wait_up();
    stack_redis_pause(&server);
    assert_true(redis_send_get(rig.redis, "k", 1, call_replied, &call));
    struct redis *beside = open_beside(other.url);
    rig_wait_until(redis_is_up(beside));
    assert_int_equal(redis_topology_reigns(rig.topology), 1);
    assert_false(redis_may_look_up(rig.redis, "k", 1));
    stack_redis_resume(&server);
    rig_wait_until(call.answered > 0);
    assert_int_equal(call.outcome, REDIS_UNKNOWN);
    assert_non_null(strstr(rig.text, "another master was confirmed"));
    close_beside(beside);
}

/* Nobody asks it anything, and a subscriber could not. */
TEST(an_idle_connection_and_a_subscription_to_the_old_master_are_given_up, P85)
{
    for (unsigned subscribes = 0; subscribes < 2; subscribes++) {
        rig_prepare(server.url);
        rig.config.channel = subscribes ? "news" : NULL;
        rig_open();
        rig_wait_up();
        rig.config.channel = NULL;
        struct redis *beside = open_beside(other.url);
        rig_wait_until(strstr(rig.text, "another master was confirmed") != NULL);
        close_beside(beside);
        rig_finish();
    }
}

/* Its name of the reign is not known: what one connection is told counts for all. */
TEST(who_is_told_of_a_demotion_ends_the_reign_for_all, P85)
{
    static struct call call;
    char url[96];
    tell(&server, "ACL SETUSER narrow reset on >pw ~* &* +@all -info");
    snprintf(url, sizeof url, "redis://narrow:pw@127.0.0.1:%u", (unsigned)server.port);
    rig_prepare(url);
    rig_open();
    struct redis *beside = open_beside(url);
    rig_wait_until(redis_may_look_up(rig.redis, "k", 1) && redis_may_look_up(beside, "k", 1));
    tell(&server, "REPLICAOF 127.0.0.1 1");
    read_k(&call);
    assert_false(redis_may_look_up(beside, "k", 1));
    assert_int_equal(redis_topology_reigns(rig.topology), 1);
    close_beside(beside);
}

/* ---- a server that was stopped ---- */

TEST(a_server_that_stops_is_noticed_though_nobody_asks, P86)
{
    rig_prepare(server.url);
    rig.config.limit_ms = LIMIT_MS;
    rig_open();
    rig_wait_up();
    stack_redis_pause(&server);
    rig_wait_until(strstr(rig.text, "command: no answer within 250 ms") != NULL);
    assert_int_equal(rig.counters.commands, 0);
    assert_int_equal(rig.counters.round_trips, 0);
    stack_redis_resume(&server);
    rig_wait_up();
}

TEST_GROUP(.up = start_servers, .down = stop_servers, .before = rig_forget, .after = heal_server,
           .end = rig_finish);
