/* SPDX-License-Identifier: MIT */
/*
 * push_test.c - the value travels with the message: a request that waits for another process's load is answered without
 * another lookup, and no request gets a value that it must not see.
 *
 * A waiting flight also polls: a test that needs the time between two polls begins right after one, and begins again if
 * the next one came too early (await_poll(), undisturbed()).
 */
#include "guard_rig.h"
#include <hiredis/hiredis.h>

enum { HOLDER, WAITER, TRIES = 20 };

static struct scene {
    struct ask holder, waiter;
    struct guard_stats before; /* the waiter's, before it waited */
    struct guard_stats poll;   /* the waiter's, when its last poll had been answered */
    uint64_t scripts;          /* of all, then */
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

/* Runs of scripts that Redis counts so far, one for each lease at least. */
static uint64_t scripts_run(void)
{
    uint64_t count = stack_redis_calls(&rig_redis, "evalsha") + stack_redis_calls(&rig_redis, "eval");
    assert_true(count > 0);
    return count;
}

/* The holder loads, its gate shut; the waiter's process has found that out. */
static void begin_wait(const char *key)
{
    unsigned begun = atomic_load(&fleet.source.begun);
    scene.before = waiter_stats();
    source_shut(&fleet.source);
    ask_start(HOLDER, &scene.holder, key);
    WAIT_UNTIL(atomic_load(&fleet.source.begun) == begun + 1);
    ask_start(WAITER, &scene.waiter, key);
    WAIT_UNTIL(waiter_stats().lease_busy > scene.before.lease_busy);
}

static void await_pause(void)
{
    scene.poll = await_poll(fleet.guards[WAITER], &scene.before);
    scene.scripts = scripts_run();
}

static bool has_paused(void)
{
    return undisturbed(fleet.guards[WAITER], &scene.before, &scene.poll);
}

static void expect_both(const char *row)
{
    source_open(&fleet.source);
    expect_answer(&scene.holder, row);
    expect_answer(&scene.waiter, row);
    assert_int_equal(scene.waiter.result.source, GUARD_FROM_FLEET);
}

/* A load for which somebody waits elsewhere, on keys k0, k1, ... until no poll came in between. How many scripts ran
 * since the last poll: the fill, and what the waiter asked. */
static uint64_t scripts_of_one_load(void)
{
    char key[16], row[24];
    for (int try = 0; try < TRIES; try++) {
        snprintf(key, sizeof key, "k%d", try);
        snprintf(row, sizeof row, "k%d v1", try);
        begin_wait(key);
        await_pause();
        expect_both(row);
        if (has_paused())
            return scripts_run() - scene.scripts;
    }
    fail_msg("%d times a poll came in between", (int)TRIES);
    return 0;
}

/* ---- without another question ---- */

TEST(who_waits_in_another_process_is_answered_by_the_message_itself)
{
    scene_init();
    fleet_open(2);
    assert_int_equal(scripts_of_one_load(), 1);
    assert_true(waiter_stats().push_answered >= 1);
    assert_int_equal(stats_of(fleet.guards[HOLDER]).push_answered, 0);
}

/* Either of the two may have it switched off, and an entry may be too large. */
TEST(otherwise_the_waiter_looks_again)
{
    static const struct {
        uint32_t holder_bytes, waiter_bytes;
    } ROWS[] = {{0, 16384}, {16384, 0}, {0, 0}, {100, 16384}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        scene_init();
        fleet.config.push_bytes = ROWS[i].holder_bytes;
        fleet_add();
        fleet.config.push_bytes = ROWS[i].waiter_bytes;
        fleet_open(2);
        assert_int_equal(scripts_of_one_load(), 2);
        assert_int_equal(FLEET_SUM(push_answered), 0);
        fleet_close();
    }
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
