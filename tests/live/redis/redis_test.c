/* SPDX-License-Identifier: MIT */
/* redis_test.c - the Redis connection against real servers: logins, limits, faults, closing, slow DNS. */
#include "guard/redis/fence.h"
#include "guard/redis/subscription.h"
#include "load/stack/stack.h"
#include "tests/support/files.h"
#include "tests/support/redis_rig.h"
#include <dlfcn.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A limit that is waited for to pass, and one that only a hung server passes, not a slow machine. */
enum { LIMIT_MS = 250, HUNG_LIMIT_MS = 3000, KEY_SIZE = 32, MANY = 10000 };

/* ---- DNS that can be held: getaddrinfo() itself, behind a gate ---- */

static atomic_bool dns_held;
static sem_t dns_gate, dns_entered, dns_left;

/* False: not within RIG_WAIT_MS. */
static bool wait_for(sem_t *semaphore)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += RIG_WAIT_MS / 1000;
    return sem_timedwait(semaphore, &until) == 0;
}

/* Exported, so that the guard finds this one. */
__attribute__((visibility("default"))) int getaddrinfo(const char *node, const char *service,
                                                       const struct addrinfo *hints, struct addrinfo **out)
{
    static int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (!atomic_load(&dns_held))
        return real(node, service, hints, out);
    sem_post(&dns_entered);
    wait_for(&dns_gate);
    int failed = real(node, service, hints, out);
    sem_post(&dns_left);
    return failed;
}

/* ---- clocks that leap: a loop that stands still, in no time ---- */

static _Atomic uint64_t leapt_ms;

/* Exported likewise. The wall clock is as it was. */
__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *out)
{
    static int (*real)(clockid_t, struct timespec *);

    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, out);
    if (failed != 0 || clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
        return failed;
    uint64_t ns = (uint64_t)out->tv_nsec + atomic_load(&leapt_ms) * 1000000;
    out->tv_sec += (time_t)(ns / 1000000000);
    out->tv_nsec = (long)(ns % 1000000000);
    return 0;
}

/* ---- the real server ---- */

static struct stack_redis server;

/* What is opened once per process (libuv's signal pipe, the helper's own connection) is opened here. */
static bool start_server(void)
{
    uv_loop_t loop;

    sem_init(&dns_gate, 0, 0);
    sem_init(&dns_entered, 0, 0);
    sem_init(&dns_left, 0, 0);
    if (!stack_redis_start(&server, NULL) || uv_loop_init(&loop) != 0 || uv_loop_close(&loop) != 0)
        return false;
    freeReplyObject(stack_redis_command(&server, "PING"));
    return true;
}

static bool resume_server(void)
{
    stack_redis_resume(&server);
    return true;
}

static bool stop_server(void)
{
    stack_redis_stop(&server);
    return true;
}

/* Asks the server itself, past the connection that is tested. */
#define ask_server(...) assert_true(stack_redis_do(&server, __VA_ARGS__))

TEST(ten_thousand_commands_in_one_turn_leave_in_one_batch_and_are_answered_in_order)
{
    struct call *calls = calloc(MANY, sizeof *calls);

    rig_start(server.url);
    rig_wait_up();
    uint64_t batches = rig.counters.round_trips;
    ask_server("DEL counter");
    for (size_t i = 0; i < MANY; i++)
        call_send(&calls[i], "INCR", "counter");
    rig_wait_until(calls[MANY - 1].answered > 0);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(calls[i].answered, 1);
        assert_int_equal(calls[i].integer, i + 1);
    }
    assert_int_equal(rig.counters.round_trips - batches, 1);
    assert_int_equal(rig.counters.commands, MANY);
    assert_int_equal(rig.counters.connects, 1);
    assert_int_equal(rig.counters.errors, 0);
    rig_finish();
    free(calls);
}

TEST(a_unix_socket_works_like_tcp)
{
    rig_start(server.socket_url);
    rig_wait_up();
    rig_expect_pong();
    assert_non_null(strstr(rig.text, server.socket_path));
}

TEST(an_acl_user_and_a_database_number_are_used)
{
    char url[96];
    static struct call call;

    ask_server("ACL SETUSER writer on >p@ss ~* &* +@all");
    snprintf(url, sizeof url, "redis://writer:p%%40ss@127.0.0.1:%u/3", (unsigned)server.port);
    rig_start(url);
    rig_wait_up();
    call_send(&call, "SET", "where", "three");
    rig_wait_until(call.answered > 0);
    ask_server("SELECT 3");
    assert_true(stack_redis_answers(&server, "three", "GET where"));
    assert_true(stack_redis_mentions(&server, "name=redis_test", "CLIENT LIST"));
    assert_true(stack_redis_mentions(&server, "user=writer", "CLIENT LIST"));
    ask_server("SELECT 0");
}

/* Until it has been written the connection is down, and says neither where the file is nor what is in it. */
TEST(a_password_in_a_file_is_read_at_each_login)
{
    char path[128], url[256];

    snprintf(path, sizeof path, "%s/hunter2", server.folder);
    snprintf(url, sizeof url, "redis://filed@127.0.0.1:%u?password_file=%s", (unsigned)server.port, path);
    ask_server("ACL SETUSER filed reset on >first ~* &* +@all");
    rig_start(url);
    rig_wait_until(rig.state_count > 0);
    assert_non_null(strstr(rig.text, "the file with the password: no such file or directory"));
    assert_null(strstr(rig.text, "hunter2"));
    file_write(path, "first\n");
    rig_wait_up();
    file_write(path, "second\n");
    ask_server("ACL SETUSER filed resetpass >second");
    rig.state_count = 0;
    ask_server("CLIENT KILL USER filed");
    rig_wait_until(rig.state_count > 1);
    rig_wait_up();
    rig_expect_pong();
    rig_finish();
    assert_int_equal(unlink(path), 0);
}

TEST(a_login_without_setname_role_and_script_load_works_with_eval)
{
    char url[96];
    static struct call first, second;

    ask_server("ACL SETUSER narrow on >pw ~* -@all +ping +eval +get +set +del +pexpire");
    snprintf(url, sizeof url, "redis://narrow:pw@127.0.0.1:%u", (unsigned)server.port);
    rig_start(url);
    rig_wait_up();
    ask_server("SCRIPT FLUSH");
    call_renew(&first, "no-such-lease");
    call_renew(&second, "no-such-lease");
    rig_wait_until(second.answered > 0);
    assert_int_equal(first.outcome, REDIS_REPLIED);
    assert_int_equal(first.type, REDIS_REPLY_INTEGER);
    assert_int_equal(second.type, REDIS_REPLY_INTEGER);
    assert_int_equal(rig.counters.errors, 0);
}

TEST(a_script_runs_by_its_digest_and_by_its_source_once_the_server_has_forgotten_it)
{
    static struct call early, known, forgotten[3], after;

    rig_start(server.url);
    call_renew(&early, "no-such-lease"); /* before the first greeting: nobody knows the digest yet */
    rig_wait_until(early.answered > 0);
    assert_int_equal(early.type, REDIS_REPLY_INTEGER);

    uint64_t evals = stack_redis_calls(&server, "eval");
    call_renew(&known, "no-such-lease");
    rig_wait_until(known.answered > 0);
    assert_int_equal(known.type, REDIS_REPLY_INTEGER);
    assert_int_equal(known.integer, 0);
    assert_int_equal(stack_redis_calls(&server, "eval"), evals);

    ask_server("SCRIPT FLUSH");
    for (size_t i = 0; i < 3; i++)
        call_renew(&forgotten[i], "no-such-lease");
    call_send(&after, "PING");
    rig_wait_until(forgotten[2].answered > 0);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(forgotten[i].answered, 1);
        assert_int_equal(forgotten[i].type, REDIS_REPLY_INTEGER);
    }
    assert_string_equal(after.text, "PONG");
    assert_int_equal(stack_redis_calls(&server, "eval"), evals + 3);
    assert_int_equal(rig.counters.errors, 0);
    call_renew(&known, "no-such-lease");
    rig_wait_until(known.answered > 0);
    assert_int_equal(stack_redis_calls(&server, "eval"), evals + 3);
}

TEST(an_error_reply_reaches_its_caller_and_leaves_the_connection_up, P53)
{
    static struct call wrong;

    rig_start(server.url);
    rig_wait_up();
    ask_server("RPUSH list a");
    call_send(&wrong, "GET", "list");
    rig_wait_until(wrong.answered > 0);
    assert_int_equal(wrong.outcome, REDIS_REPLIED);
    assert_int_equal(wrong.type, REDIS_REPLY_ERROR);
    assert_int_equal(rig.counters.errors, 1);
    assert_int_equal(rig.state_count, 1);
    rig_expect_pong();
}

TEST(a_master_that_becomes_a_replica_is_left_and_found_again, P54)
{
    static struct call write;

    rig_start(server.url);
    rig_wait_up();
    ask_server("REPLICAOF 127.0.0.1 1");
    call_send(&write, "SET", "key", "value");
    rig_wait_until(write.answered > 0);
    assert_int_equal(write.outcome, REDIS_REPLIED);
    assert_memory_equal(write.text, "READONLY", 8);
    rig_wait_until(strstr(rig.text, "ROLE: a replica, not the master") != NULL);
    assert_int_equal(rig.states[1], GUARD_REDIS_REPLICA);
    ask_server("REPLICAOF NO ONE");
    rig_wait_up();
    rig_expect_pong();
}

TEST(a_refused_port_answers_unsent_within_the_limit_and_says_so, P56)
{
    static struct call call;
    uint64_t start_ns = uv_hrtime();

    rig_prepare("redis://127.0.0.1:1");
    rig.config.limit_ms = LIMIT_MS;
    rig_open();
    call_send(&call, "PING");
    rig_wait_until(call.answered > 0);
    assert_int_equal(call.outcome, REDIS_UNSENT);
    assert_in_range(elapsed_ms(start_ns), LIMIT_MS - 1, RIG_WAIT_MS);
    assert_string_equal(rig.text, "127.0.0.1:1: connect: connection refused");
    assert_int_equal(rig.state_count, 1); /* the same news again is no news */
}

TEST_WITH(a_hung_server_costs_one_limit_and_its_late_replies_reach_nobody, NULL, resume_server, P52)
{
    enum { CALLS = 50 };
    struct call lost[CALLS], later[CALLS];
    char key[CALLS][KEY_SIZE];

    rig_prepare(server.url);
    rig.config.limit_ms = HUNG_LIMIT_MS;
    rig_open();
    rig_wait_up();
    stack_redis_pause(&server);
    uint64_t start_ns = uv_hrtime();
    for (size_t i = 0; i < CALLS; i++)
        call_send(&lost[i], "ECHO", "of-the-lost");
    rig_wait_until(lost[CALLS - 1].answered > 0);
    assert_in_range(elapsed_ms(start_ns), HUNG_LIMIT_MS - 1, RIG_WAIT_MS);
    for (size_t i = 0; i < CALLS; i++)
        assert_int_equal(lost[i].outcome, REDIS_UNKNOWN);
    assert_int_equal(rig.counters.timeouts, 1);
    assert_non_null(strstr(rig.text, "command: no answer within 3000 ms"));

    stack_redis_resume(&server);
    rig_wait_up();
    for (size_t i = 0; i < CALLS; i++) {
        snprintf(key[i], KEY_SIZE, "later-%zu", i);
        call_send(&later[i], "ECHO", key[i]);
    }
    rig_wait_until(later[CALLS - 1].answered > 0);
    for (size_t i = 0; i < CALLS; i++) {
        assert_int_equal(lost[i].answered, 1);
        assert_int_equal(later[i].answered, 1);
        assert_string_equal(later[i].text, key[i]);
    }
    rig_finish();
}

TEST_WITH(what_a_hung_server_has_not_taken_is_unsent, NULL, resume_server)
{
    enum { BIG = 1 << 16, CALLS = 40 };
    struct call calls[CALLS];
    char *value = malloc(BIG);
    const char *argv[] = {"ECHO", value};
    const size_t argv_bytes[] = {4, BIG};
    size_t unknown = 0;

    memset(value, 'x', BIG);
    memset(calls, 0, sizeof calls);
    rig_prepare(server.socket_url);
    rig.config.limit_ms = HUNG_LIMIT_MS;
    rig_open();
    rig_wait_up();
    stack_redis_pause(&server);
    for (size_t i = 0; i < CALLS; i++)
        assert_true(redis_send(rig.redis, 2, argv, argv_bytes, call_replied, &calls[i]));
    rig_wait_until(calls[CALLS - 1].answered > 0);
    while (unknown < CALLS && calls[unknown].outcome == REDIS_UNKNOWN)
        unknown++;
    for (size_t i = unknown; i < CALLS; i++)
        assert_int_equal(calls[i].outcome, REDIS_UNSENT);
    assert_in_range(unknown, 1, CALLS - 1); /* what fits into the socket */
    assert_int_equal(rig.counters.timeouts, 1);
    stack_redis_resume(&server);
    rig_finish();
    free(value);
}

/* ---- the subscriber ---- */

static void publish_until_heard(const char *payload)
{
    size_t before = rig.message_count;

    ask_server("PUBLISH news %s", payload);
    rig_wait_until(rig.message_count > before);
    assert_string_equal(rig.message, payload);
}

TEST(a_subscription_gets_messages_and_is_made_again_when_it_is_killed, P25)
{
    rig_prepare(server.url);
    rig.config.channel = "news";
    rig_open();
    rig_wait_up();
    publish_until_heard("first");
    publish_until_heard("second");
    assert_int_equal(rig.message_count, 2);

    ask_server("CLIENT KILL TYPE pubsub");
    rig_wait_until(rig.state_count >= 3); /* up, down, up */
    assert_int_equal(rig.states[1], GUARD_REDIS_DOWN);
    publish_until_heard("third");

    redis_reset(rig.redis, "the canary has died");
    assert_int_equal(rig.states[3], GUARD_REDIS_DOWN);
    assert_non_null(strstr(rig.text, "the canary has died"));
    rig_wait_up();
    publish_until_heard("fourth");
}

static void on_told(void *context, const char *text)
{
    (void)text;
    (*(unsigned *)context)++;
}

static void on_resync(void *context)
{
    (void)context;
}

static void on_news(void *context, const char *payload, size_t payload_bytes)
{
    (void)context, (void)payload, (void)payload_bytes;
}

/* A canary has left: nothing else is sent. */
static void await_canary(void)
{
    uint64_t sent = rig.counters.round_trips;

    rig_wait_until(rig.counters.round_trips > sent);
}

/* By the end what we had been sent has arrived: twice the server has answered somebody else. */
static void stand_still(uint64_t span_ms)
{
    ask_server("PING");
    ask_server("PING");
    atomic_fetch_add(&leapt_ms, span_ms);
}

TEST(a_canary_that_came_back_during_a_stall_is_read_before_it_is_judged, P24)
{
    unsigned told = 0;
    const struct subscription_hooks hooks = {&told, on_news, on_resync, on_told, NULL};

    rig_start(server.url);
    rig_wait_up();
    struct subscription *subscription = subscription_open(rig.host, "news", &rig.config, rig.redis, &hooks);
    assert_non_null(subscription);
    rig_wait_until(subscription_state(subscription) == GUARD_REDIS_UP);
    stack_redis_pause(&server);
    await_canary();
    stack_redis_resume(&server);
    stand_still(CANARY_LIMIT_MS + 100);
    await_canary();
    assert_int_equal(told, 1); /* that it is up */
    assert_int_equal(rig.counters.connects, 2);
    subscription_close(subscription, NULL, NULL);
}

/* A slip of whoever writes the ACL, and its correction: no connection has to end for it. */
TEST(what_an_acl_took_away_and_gave_back_is_used_again)
{
    char url[96];

    ask_server("ACL SETUSER slip on >pw ~* &* +@all");
    snprintf(url, sizeof url, "redis://slip:pw@127.0.0.1:%u", (unsigned)server.port);
    rig_start(url);
    rig_wait_up();
    assert_true(redis_is_whole(rig.redis));
    ask_server("ACL SETUSER slip -getex -role");
    rig_wait_until(!redis_is_whole(rig.redis)); /* a heartbeat finds out */
    stand_still(REDIS_ROLE_MS);
    rig_wait_until(!redis_may_look_up(rig.redis, "k", 1));
    stand_still(REDIS_AGAIN_MS);
    rig_expect_pong();
    assert_false(redis_is_whole(rig.redis));
    ask_server("ACL SETUSER slip +getex +role");
    stand_still(REDIS_AGAIN_MS);
    rig_wait_until(redis_is_whole(rig.redis));
    assert_true(redis_may_look_up(rig.redis, "k", 1));
    assert_int_equal(rig.counters.connects, 1);
    rig_finish();
    ask_server("ACL DELUSER slip");
}

/* ---- what callers do ---- */

TEST(more_than_max_pending_bytes_is_refused_at_once, P55)
{
    static struct call call;
    char big[1000];
    const char *argv[] = {"ECHO", big};
    const size_t argv_bytes[] = {4, sizeof big};
    size_t accepted = 0;

    memset(big, 'x', sizeof big);
    memset(&call, 0, sizeof call);
    rig_prepare(server.url);
    rig.config.max_pending_bytes = 10000;
    rig_open();
    while (accepted < 100 && redis_send(rig.redis, 2, argv, argv_bytes, call_replied, &call))
        accepted++;
    assert_in_range(accepted, 8, 10);
    rig_wait_until(call.answered == accepted);
    assert_true(redis_send(rig.redis, 2, argv, argv_bytes, call_replied, &call));
    rig_wait_until(call.answered == accepted + 1);
    assert_int_equal(call.outcome, REDIS_REPLIED);
}

/* Longer than the limit of a command. */
static void stall(uv_timer_t *timer)
{
    (void)timer;
    stand_still(HUNG_LIMIT_MS + 100);
}

TEST(a_loop_that_was_busy_reads_the_reply_before_it_declares_it_late, P55)
{
    static struct call call;
    static uv_timer_t busy;

    rig_prepare(server.url);
    rig.config.limit_ms = HUNG_LIMIT_MS;
    rig_open();
    rig_wait_up();
    call_send(&call, "PING");
    uv_run(&rig.loop, UV_RUN_NOWAIT); /* now it is written, and surely not answered for the loop to see */
    uv_timer_init(&rig.loop, &busy);
    if (call.answered == 0) {
        uv_timer_start(&busy, stall, 0, 0);
        rig_wait_until(call.answered > 0);
    }
    uv_close((uv_handle_t *)&busy, NULL);
    assert_int_equal(call.outcome, REDIS_REPLIED);
    assert_int_equal(rig.counters.timeouts, 0);
}

enum { LONG_LIMIT_MS = 10000 }; /* half of it is more than any machine takes */

/* The younger command is late when this is over; it was not when the reading began. */
static void stand_still_on_reply(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    call_replied(context, outcome, reply);
    ask_server("RPUSH bell rings");
    stand_still(LONG_LIMIT_MS / 2);
}

TEST(a_slow_callback_makes_no_younger_command_late_unread, P55)
{
    struct call older = {.answered = 0}, younger;
    const char *argv[] = {"PING"};
    const size_t argv_bytes[] = {4};

    rig_prepare(server.url);
    rig.config.limit_ms = LONG_LIMIT_MS;
    rig_open();
    rig_wait_up();
    stack_redis_pause(&server);
    assert_true(redis_send(rig.redis, 1, argv, argv_bytes, stand_still_on_reply, &older));
    uv_run(&rig.loop, UV_RUN_NOWAIT);
    atomic_fetch_add(&leapt_ms, LONG_LIMIT_MS / 2);
    call_send(&younger, "BLPOP", "bell", "0");
    uv_run(&rig.loop, UV_RUN_NOWAIT);
    stack_redis_resume(&server);
    stand_still(LONG_LIMIT_MS / 2 + 100);
    rig_wait_until(older.answered > 0);
    assert_int_equal(older.outcome, REDIS_REPLIED);
    rig_wait_until(younger.answered > 0);
    assert_int_equal(younger.outcome, REDIS_REPLIED);
    assert_int_equal(rig.counters.timeouts, 0);
}

TEST(what_a_stall_kept_from_being_written_is_written_behind_it)
{
    static struct call call, later;

    rig_prepare(server.url);
    rig.config.limit_ms = HUNG_LIMIT_MS;
    rig_open();
    rig_wait_up();
    call_send(&call, "SET", "not", "late");
    stall(NULL); /* in the same rig_turn, before it could be written */
    call_send(&later, "PING");
    rig_wait_until(later.answered > 0); /* its time has begun behind the stall */
    assert_int_equal(call.outcome, REDIS_REPLIED);
    assert_int_equal(later.outcome, REDIS_REPLIED);
    assert_true(redis_is_up(rig.redis));
    assert_int_equal(rig.counters.timeouts, 0);
}

/* The timers of a loop before the end of its turn, as in what_a_stall_kept_from_being_written_is_written_behind_it on
 * some, or behind it, as here. The server is not there to answer in between. */
static void ring_behind_a_stalled_turn(bool goes_on)
{
    static struct call call, later;

    rig_prepare(server.url);
    rig.config.limit_ms = HUNG_LIMIT_MS;
    rig_open();
    rig_wait_up();
    call_send(&call, "SET", "not", "late");
    stall(NULL);
    stack_redis_pause(&server); /* before the last look at the clock: what follows is within its tick */
    if (goes_on)
        call_send(&later, "PING");
    guard_host_turn_over(rig.host);
    guard_host_rang(rig.host);
    stack_redis_resume(&server);
    rig_wait_until(call.answered > 0);
    assert_int_equal(call.outcome, REDIS_REPLIED);
    if (goes_on)
        rig_wait_until(later.answered > 0);
    assert_true(redis_is_up(rig.redis));
    assert_int_equal(rig.counters.timeouts, 0);
}

TEST(what_a_stall_kept_from_being_written_is_not_late_where_timers_ring_behind_the_turn)
{
    ring_behind_a_stalled_turn(false);
}

TEST(nor_is_it_late_where_the_turn_goes_on_to_send_behind_the_stall)
{
    ring_behind_a_stalled_turn(true);
}

static struct call prepared_call;

static void send_while_preparing(uv_prepare_t *handle)
{
    uv_prepare_stop(handle);
    call_send(&prepared_call, "PING");
}

TEST(a_command_sent_just_before_the_loop_waits_does_not_wait_with_it)
{
    static uv_prepare_t handle;

    rig_start(server.url);
    rig_wait_up();
    uv_prepare_init(&rig.loop, &handle);
    uv_prepare_start(&handle, send_while_preparing);
    uint64_t start_ns = uv_hrtime();
    rig_wait_until(prepared_call.answered > 0);
    assert_in_range(elapsed_ms(start_ns), 0, RIG_LIMIT_MS - 1000);
    assert_string_equal(prepared_call.text, "PONG");
    uv_close((uv_handle_t *)&handle, NULL);
}

static void close_on_reply(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    call_replied(context, outcome, reply);
    if (rig.redis != NULL)
        redis_close(rig.redis, rig_closed, NULL);
    rig.redis = NULL;
}

TEST(closing_within_a_callback_answers_the_rest)
{
    static struct call first, rest[10];
    const char *argv[] = {"PING"};
    const size_t argv_bytes[] = {4};

    rig_start(server.url);
    rig_wait_up();
    memset(&first, 0, sizeof first);
    assert_true(redis_send(rig.redis, 1, argv, argv_bytes, close_on_reply, &first));
    for (size_t i = 0; i < 10; i++)
        call_send(&rest[i], "PING");
    rig_wait_until(rig.closed);
    assert_string_equal(first.text, "PONG");
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(rest[i].answered, 1);
        assert_int_equal(rest[i].outcome, REDIS_UNKNOWN);
    }
}

static void reset_on_reply(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    call_replied(context, outcome, reply);
    redis_reset(rig.redis, "a callback wants so");
}

/* Asks again from inside the answer, once. */
static void retry_on_loss(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct call *call = context;
    const char *argv[] = {"PING"};
    const size_t argv_bytes[] = {4};

    call_replied(context, outcome, reply);
    if (outcome != REDIS_REPLIED)
        assert_true(redis_send(rig.redis, 1, argv, argv_bytes, call_replied, call));
}

TEST(resetting_within_a_callback_loses_the_rest_and_they_may_try_again)
{
    static struct call first, second;
    const char *argv[] = {"PING"};
    const size_t argv_bytes[] = {4};

    rig_start(server.url);
    rig_wait_up();
    memset(&first, 0, sizeof first);
    memset(&second, 0, sizeof second);
    assert_true(redis_send(rig.redis, 1, argv, argv_bytes, reset_on_reply, &first));
    assert_true(redis_send(rig.redis, 1, argv, argv_bytes, retry_on_loss, &second));
    rig_wait_until(second.answered == 2);
    assert_int_equal(first.answered, 1);
    assert_int_equal(second.outcome, REDIS_REPLIED);
    assert_int_equal(rig.counters.connects, 2);
}

TEST(closing_answers_what_waits_whatever_the_stage)
{
    for (unsigned turns = 0; turns < 8; turns++) {
        struct call call;

        rig_start(server.url);
        call_send(&call, "PING");
        for (unsigned i = 0; i < turns; i++)
            uv_run(&rig.loop, UV_RUN_NOWAIT);
        redis_close(rig.redis, rig_closed, NULL);
        rig.redis = NULL;
        assert_int_equal(call.answered, 1);
        rig_finish();
    }
}

/* ---- slow DNS ---- */

static void hold_dns(void)
{
    atomic_store(&dns_held, true);
}

/* And waits until it has closed what it opens. */
static void let_dns_go(void)
{
    atomic_store(&dns_held, false);
    sem_post(&dns_gate);
    assert_true(wait_for(&dns_left));
}

TEST(a_lookup_that_hangs_is_given_up_and_its_late_answer_harms_nobody, P56)
{
    static struct call call;
    char url[64];

    snprintf(url, sizeof url, "redis://localhost:%u", (unsigned)server.port);
    rig_prepare(url);
    rig.config.connect_limit_ms = rig.config.limit_ms = HUNG_LIMIT_MS;
    rig.config.backoff_ms = rig.config.max_backoff_ms = 1000000; /* one attempt at a time */
    hold_dns();
    rig_open();
    call_send(&call, "PING");
    rig_wait_until(rig.state_count > 0 && call.answered > 0);
    assert_non_null(strstr(rig.text, "DNS: no answer within 3000 ms"));
    assert_int_equal(call.outcome, REDIS_UNSENT);
    assert_true(wait_for(&dns_entered));
    let_dns_go();
    redis_reset(rig.redis, "try again");
    rig_wait_up();
}

TEST(neither_closing_nor_the_loop_waits_for_a_lookup)
{
    rig_prepare("redis://localhost");
    hold_dns();
    rig_open();
    uv_run(&rig.loop, UV_RUN_NOWAIT);
    assert_true(wait_for(&dns_entered));
    redis_close(rig.redis, rig_closed, NULL);
    rig.redis = NULL;
    rig_wait_until(rig.closed);
    rig_finish();
    let_dns_go();
}

TEST(an_unknown_name_is_named)
{
    rig_start("redis://no-such-host.invalid");
    rig_wait_until(rig.state_count > 0);
    assert_int_equal(rig.states[0], GUARD_REDIS_DOWN);
    assert_memory_equal(rig.text, "no-such-host.invalid:6379: DNS: ", 32);
}

TEST_GROUP(.up = start_server, .down = stop_server, .before = rig_forget, .end = rig_finish);
