/* SPDX-License-Identifier: MIT */
/*
 * push_test.c - the value travels with the message, and no request gets one that it must not see.
 */
#include "guard_rig.h"
#include <hiredis/hiredis.h>

enum { HOLDER, WAITER };

static struct scene {
    struct ask holder, waiter;
} scene;

static void scene_init(void)
{
    memset(&scene, 0, sizeof scene);
    fleet_init();
    fleet.policy.lease_ms = fleet.policy.max_hold_ms = 30000; /* no renewal in between */
}

static struct guard_stats waiter_stats(void)
{
    return stats_of(fleet.guards[WAITER]);
}

/* The holder loads, its gate shut; the waiter's process has found that out. */
static void begin_wait(const char *key)
{
    unsigned begun = atomic_load(&fleet.source.begun);
    uint64_t busy = waiter_stats().lease_busy;
    source_shut(&fleet.source);
    ask_start(HOLDER, &scene.holder, key);
    WAIT_UNTIL(atomic_load(&fleet.source.begun) == begun + 1);
    ask_start(WAITER, &scene.waiter, key);
    WAIT_UNTIL(waiter_stats().lease_busy > busy);
}

static void expect_both(const char *row)
{
    source_open(&fleet.source);
    expect_answer(&scene.holder, row);
    expect_answer(&scene.waiter, row);
    assert_int_equal(scene.waiter.result.source, GUARD_FROM_FLEET);
}

/* ---- messages by hand ---- */

static redisReply *read_key(const char *key, char role)
{
    char name[64];
    snprintf(name, sizeof name, "csg1:{%s:%s}:%c", fleet.name_space, key, role);
    redisReply *reply = stack_redis_command(&rig_redis, "GET %s", name);
    assert_int_equal(reply->type, REDIS_REPLY_STRING);
    return reply;
}

static void tag_of_lease(const char *key, char tag[17])
{
    redisReply *lease = read_key(key, 'l');
    snprintf(tag, 17, "%.16s", lease->str + 37);
    freeReplyObject(lease);
}

/* What a fill of k under that lease would say. */
static void say_filled(const char *key, const char *tag, const char *entry, size_t bytes)
{
    char head[64];
    int head_bytes = snprintf(head, sizeof head, "f %s %s ", tag, key);
    char *text = malloc((size_t)head_bytes + bytes);
    assert_non_null(text);
    memcpy(text, head, (size_t)head_bytes);
    memcpy(text + head_bytes, entry, bytes);
    rig_do("PUBLISH csg1:wake:%s:0 %b", fleet.name_space, text, (size_t)head_bytes + bytes);
    free(text);
}

/* ---- what no fill would send ---- */

static void expect_ignored(const char *tag, const char *entry, size_t bytes)
{
    uint64_t messages = waiter_stats().wake_messages;
    say_filled("k", tag, entry, bytes);
    WAIT_UNTIL(waiter_stats().wake_messages > messages);
    assert_int_equal(atomic_load(&scene.waiter.answers), 0);
}

TEST(what_is_not_a_sound_entry_of_the_key_is_only_a_wake_up, P23)
{
    enum { HUGE_BYTES = 8 << 20 };
    char tag[17], *huge = calloc(1, HUGE_BYTES);
    assert_non_null(huge);
    scene_init();
    fleet_open(2);
    expect_row(HOLDER, "other", "other v1");
    redisReply *other = read_key("other", 'v');
    begin_wait("k");
    tag_of_lease("k", tag);
    expect_ignored(tag, other->str, other->len);     /* of another key */
    expect_ignored(tag, other->str, other->len - 1); /* cut */
    expect_ignored(tag, other->str, 36);
    expect_ignored(tag, "", 0);
    expect_ignored(tag, "no entry at all", 15);
    expect_ignored(tag, huge, HUGE_BYTES);
    memcpy(huge, other->str, other->len); /* a sound head, and lengths that do not agree */
    expect_ignored(tag, huge, HUGE_BYTES);
    expect_both("k v1");
    assert_int_equal(waiter_stats().wake_resyncs, 0);
    freeReplyObject(other);
    free(huge);
}

TEST_GROUP(.up = rig_start, .down = rig_stop, .before = fleet_before, .end = fleet_close);
