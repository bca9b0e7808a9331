/* SPDX-License-Identifier: MIT */
/*
 * lock_zookeeper_fail_test.c - the life of a provider on a real ZooKeeper, again and again; each time the next allocation
 * fails, on whatever thread.
 *
 * Expected of every single one: no crash, nothing lost (blocks and descriptors are counted), every accepted action answered
 * once, and, once nothing fails any more, a provider that grants, tells, renews and gives back without help. Left out: what
 * libzookeeper takes itself, and the threads that it asserts to get.
 */
#include "guard/base/clock.h"
#include "guard/base/uv_host.h"
#include "guard/locks/provider.h"
#include "load/stack/stack.h"
#include "tests/fail/failing.h"

enum { LIMIT_MS = 250, TURN_MS = 10, TRIES_MAX = 2000 };

static struct stack_zookeeper zookeeper;
static uv_loop_t loop;
static struct guard_host *host;
static uv_timer_t turn_timer;

static bool start_server(void)
{
    return failing_take_over_libuv() && stack_zookeeper_start(&zookeeper, 1) && uv_loop_init(&loop) == 0 &&
           (host = uv_host_attach(&loop)) != NULL && uv_timer_init(&loop, &turn_timer) == 0;
}

static bool stop_server(void)
{
    host_close(host, NULL, NULL);
    uv_close((uv_handle_t *)&turn_timer, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    stack_zookeeper_stop(&zookeeper);
    return uv_loop_close(&loop) == 0;
}

/* ---- one life ---- */

static struct life {
    struct lock_provider *provider;
    bool is_up, is_answered, is_closed, has_looked, is_seen;
    unsigned told, holders;
    struct lock_reply reply;
} life;

static void on_replied(void *context, uint64_t op, const struct lock_reply *reply)
{
    (void)context, (void)op;
    assert_false(life.is_answered);
    life.is_answered = true;
    life.reply = *reply;
}

static void on_told(void *context, const char *uuid, const char *encoded, size_t encoded_bytes)
{
    (void)context, (void)uuid, (void)encoded, (void)encoded_bytes;
    life.told++;
}

static void on_dropped(void *context, const char *token, const char *why)
{
    (void)context, (void)token;
    fail_msg("%s", why);
}

static void on_resync(void *context)
{
    (void)context;
}

static void on_link(void *context, bool up, const char *why)
{
    (void)context, (void)why;
    life.is_up = up;
}

static void on_looked(void *context, const struct guard_lock_view *view, const char *why)
{
    (void)context, (void)why;
    life.has_looked = true;
    life.is_seen = view != NULL;
    life.holders = view != NULL ? view->holder_count : 0;
}

static void on_closed(void *context)
{
    (void)context;
    life.is_closed = true;
}

static void on_turn(uv_timer_t *timer)
{
    (void)timer;
}

/* A turn of the loop, a short one if nothing happens. */
static void turn(unsigned *turns)
{
    assert_in_range(++*turns, 0, TRIES_MAX);
    uv_timer_start(&turn_timer, on_turn, TURN_MS, 0);
    uv_run(&loop, UV_RUN_ONCE);
    uv_timer_stop(&turn_timer);
}

/* As the core does: again, until it is so. */
static void do_until(enum lock_action_kind kind, const char *token, enum lock_reply_kind wanted)
{
    const struct lock_name name = {.encoded = "failing", .bytes = strlen("failing")};
    const struct lock_action action = {.kind = kind,
                                       .lock = GUARD_LOCK_FAIR,
                                       .names = &name,
                                       .count = 1,
                                       .token = token,
                                       .units = LOCK_ALL,
                                       .limit = LOCK_ALL,
                                       .lease_ms = 4 * LIMIT_MS,
                                       .place_ms = 3000,
                                       .deadline_us = UINT64_MAX};
    unsigned turns = 0;
    do {
        life.is_answered = false;
        bool is_accepted = life.provider->perform(life.provider, &action);
        while (is_accepted && !life.is_answered)
            turn(&turns);
        turn(&turns);
    } while (!life.is_answered || life.reply.kind != wanted);
}

static void look_until_seen(void)
{
    const struct lock_name name = {.encoded = "failing", .bytes = strlen("failing")};
    unsigned turns = 0;
    do {
        life.has_looked = life.is_seen = false;
        bool is_accepted = life.provider->look(life.provider, &name, on_looked, NULL);
        while (is_accepted && !life.has_looked)
            turn(&turns);
        turn(&turns);
    } while (!life.is_seen);
    assert_int_equal(life.holders, 1);
}

static void make_token(char token[LOCK_TOKEN_SIZE])
{
    uint8_t random[16];
    char uuid[CLOCK_UUID_SIZE];
    assert_true(clock_random(random, sizeof random));
    clock_uuid(random, uuid);
    snprintf(token, LOCK_TOKEN_SIZE, "%s 1000000 1000000 %08d fail:1 1", uuid, 4 * LIMIT_MS);
}

static void live(void)
{
    char first[LOCK_TOKEN_SIZE], second[LOCK_TOKEN_SIZE];
    unsigned turns = 0;
    make_token(first);
    make_token(second);
    while (!life.is_up)
        turn(&turns);
    do_until(LOCK_TAKE, first, LOCK_GRANTED);
    do_until(LOCK_TAKE, second, LOCK_REFUSED);
    look_until_seen();
    do_until(LOCK_RENEW, first, LOCK_DONE);
    do_until(LOCK_GIVE, first, LOCK_DONE);
    while (life.told == 0)
        turn(&turns);
    do_until(LOCK_TAKE, second, LOCK_GRANTED);
    do_until(LOCK_GIVE, second, LOCK_DONE);
}

static void live_once(bool healthy)
{
    const char *const urls[] = {zookeeper.url};
    struct guard_locks_config locks = GUARD_LOCKS_CONFIG_DEFAULTS;
    struct guard_error error = {.text = ""};
    unsigned turns = 0;
    locks.urls = urls;
    locks.name_space = "fail";
    locks.limit_ms = LIMIT_MS;
    locks.connect_limit_ms = 20000;
    locks.max_lease_ms = 20000;
    const struct lock_provider_config config = {.host = host,
                                                .locks = &locks,
                                                .hooks = {.replied = on_replied,
                                                          .told = on_told,
                                                          .dropped = on_dropped,
                                                          .resync = on_resync,
                                                          .link = on_link}};
    memset(&life, 0, sizeof life);
    life.provider = lock_zookeeper_open(&config, &error);
    assert_true(life.provider != NULL || (!healthy && error.status == GUARD_NO_MEMORY));
    if (life.provider == NULL)
        return;
    live();
    life.provider->close(life.provider, on_closed, NULL);
    while (!life.is_closed)
        turn(&turns);
}

TEST(a_provider_on_zookeeper_outlives_any_allocation_that_fails)
{
    sweep_alone(FAIL_MEMORY, live_once);
}

TEST(a_provider_on_zookeeper_outlives_a_thread_that_cannot_be_had)
{
    sweep_alone(FAIL_THREAD, live_once);
}

TEST_GROUP(.up = start_server, .down = stop_server);
