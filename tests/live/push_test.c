/* SPDX-License-Identifier: MIT */
/*
 * push_test.c - the value travels with the message: a request that waits for another process's load is answered without
 * another lookup, and no request gets a value that it must not see.
 *
 * A waiting flight also polls: a test that needs the time between two polls begins right after one, and begins again if
 * the next one came too early (await_poll(), undisturbed()).
 */
#include "guard_rig.h"

enum { HOLDER, WAITER, THIRD, TRIES = 20, CROWD = 50 };

struct scene {
    struct fleet fleet;
    struct ask holder, waiter;
    struct guard_stats before; /* the waiter's, before it waited */
    struct guard_stats poll;   /* the waiter's, when its last poll had been answered */
    uint64_t scripts;          /* of all, then */
};

static void scene_init(struct scene *scene)
{
    memset(scene, 0, sizeof *scene);
    fleet_init(&scene->fleet);
    scene->fleet.policy.lease_ms = scene->fleet.policy.max_hold_ms = 30000; /* no renewal in between */
}

static struct guard_stats waiter_stats(struct scene *scene)
{
    return stats_of(scene->fleet.guards[WAITER]);
}

/* Runs of scripts that Redis counts so far. */
static uint64_t scripts_run(void)
{
    static const char *const COMMANDS[] = {"cmdstat_evalsha:calls=", "cmdstat_eval:calls="};
    uint64_t sum = 0;
    redisReply *reply = stack_redis_command(&rig_redis, "INFO commandstats");
    assert_int_equal(reply->type, REDIS_REPLY_STRING);
    for (size_t i = 0; i < 2; i++) {
        const char *at = strstr(reply->str, COMMANDS[i]);
        sum += at != NULL ? strtoull(at + strlen(COMMANDS[i]), NULL, 10) : 0;
    }
    freeReplyObject(reply);
    return sum;
}

/* The holder loads, its gate shut; the waiter's process has found that out. */
static void begin_wait(struct scene *scene, const char *key)
{
    unsigned begun = atomic_load(&scene->fleet.source.begun);
    scene->before = waiter_stats(scene);
    source_shut(&scene->fleet.source);
    ask_start(&scene->fleet, HOLDER, &scene->holder, key);
    WAIT_UNTIL(atomic_load(&scene->fleet.source.begun) == begun + 1);
    ask_start(&scene->fleet, WAITER, &scene->waiter, key);
    WAIT_UNTIL(waiter_stats(scene).lease_busy > scene->before.lease_busy);
}

static void await_pause(struct scene *scene)
{
    scene->poll = await_poll(scene->fleet.guards[WAITER], &scene->before);
    scene->scripts = scripts_run();
}

static bool has_paused(struct scene *scene)
{
    return undisturbed(scene->fleet.guards[WAITER], &scene->before, &scene->poll);
}

static void expect_both(struct scene *scene, const char *row)
{
    source_open(&scene->fleet.source);
    expect_answer(&scene->holder, row);
    expect_answer(&scene->waiter, row);
    assert_int_equal(scene->waiter.result.source, GUARD_FROM_FLEET);
}

/* A load for which somebody waits elsewhere, on keys k0, k1, ... until no poll came in between. How many scripts ran
 * since the last poll: the fill, and what the waiter asked. */
static uint64_t scripts_of_one_load(struct scene *scene)
{
    char key[16], row[24];
    for (int try = 0; try < TRIES; try++) {
        snprintf(key, sizeof key, "k%d", try);
        snprintf(row, sizeof row, "k%d v1", try);
        begin_wait(scene, key);
        await_pause(scene);
        expect_both(scene, row);
        if (has_paused(scene))
            return scripts_run() - scene->scripts;
    }
    fail_msg("%d times a poll came in between", (int)TRIES);
    return 0;
}

/* ---- without another question ---- */

TEST(who_waits_in_another_process_is_answered_by_the_message_itself)
{
    struct scene scene;
    scene_init(&scene);
    fleet_open(&scene.fleet, 2);
    assert_int_equal(scripts_of_one_load(&scene), 1);
    assert_true(waiter_stats(&scene).push_answered >= 1);
    assert_int_equal(stats_of(scene.fleet.guards[HOLDER]).push_answered, 0);
    fleet_close(&scene.fleet);
}

/* Either of the two may have it switched off, and an entry may be too large. */
TEST(otherwise_the_waiter_looks_again)
{
    static const struct {
        uint32_t holder_bytes, waiter_bytes;
    } ROWS[] = {{0, 16384}, {16384, 0}, {0, 0}, {100, 16384}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        struct scene scene;
        scene_init(&scene);
        scene.fleet.config.push_bytes = ROWS[i].holder_bytes;
        fleet_add(&scene.fleet);
        scene.fleet.config.push_bytes = ROWS[i].waiter_bytes;
        fleet_open(&scene.fleet, 2);
        assert_int_equal(scripts_of_one_load(&scene), 2);
        assert_int_equal(FLEET_SUM(&scene.fleet, push_answered), 0);
        fleet_close(&scene.fleet);
    }
}

TEST(one_message_answers_the_crowds_of_all_processes)
{
    struct scene scene;
    static struct ask crowd[2 * CROWD];
    scene_init(&scene);
    fleet_open(&scene.fleet, 3);
    begin_wait(&scene, "k");
    for (size_t i = 0; i < 2 * CROWD; i++)
        ask_start(&scene.fleet, WAITER + i % 2, &crowd[i], "k");
    WAIT_UNTIL(FLEET_SUM(&scene.fleet, waiters) == 2 + 2 * CROWD);
    for (size_t i = WAITER; i <= THIRD; i++) { /* a lookup after all have joined, and its answer */
        uint64_t polls = stats_of(scene.fleet.guards[i]).wake_polls;
        uint64_t busy = stats_of(scene.fleet.guards[i]).lease_busy;
        WAIT_UNTIL(stats_of(scene.fleet.guards[i]).wake_polls >= polls + 2 &&
                   stats_of(scene.fleet.guards[i]).lease_busy >= busy + 2);
    }
    expect_both(&scene, "k v1");
    for (size_t i = 0; i < 2 * CROWD; i++) {
        expect_answer(&crowd[i], "k v1");
        assert_int_equal(crowd[i].result.source, GUARD_FROM_FLEET);
    }
    assert_int_equal(atomic_load(&scene.fleet.source.begun), 1);
    fleet_close(&scene.fleet);
}

TEST(a_row_that_is_not_there_travels_as_well)
{
    struct scene scene;
    scene_init(&scene);
    fleet_open(&scene.fleet, 2);
    atomic_store(&scene.fleet.source.verdict, SOURCE_ABSENT);
    for (int try = 0; try < TRIES && waiter_stats(&scene).push_answered == 0; try++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", try);
        begin_wait(&scene, key);
        await_pause(&scene);
        source_open(&scene.fleet.source);
        ask_wait(&scene.holder);
        ask_wait(&scene.waiter);
        assert_int_equal(scene.waiter.result.status, GUARD_ABSENT);
        assert_int_equal(scene.waiter.result.source, GUARD_FROM_FLEET);
    }
    assert_int_equal(waiter_stats(&scene).push_answered, 1);
    fleet_close(&scene.fleet);
}

/* He has a stale value in hand, and up to his soft limit he waits for the fresh one. */
TEST(who_waits_for_a_refresh_is_answered_by_its_message)
{
    struct scene scene;
    scene_init(&scene);
    scene.fleet.policy.fresh_ms = 60000;
    scene.fleet.policy.stale_ms = 60000;
    scene.fleet.policy.soft_ms = scene.fleet.policy.deadline_ms;
    fleet_open(&scene.fleet, 2);
    for (int try = 0; try < TRIES && waiter_stats(&scene).push_answered == 0; try++) {
        char key[16], row[24];
        snprintf(key, sizeof key, "k%d", try);
        snprintf(row, sizeof row, "k%d v1", try);
        expect_row(&scene.fleet, HOLDER, key, row);
        age_value(&scene.fleet, key, 50000);
        source_shut(&scene.fleet.source);
        unsigned begun = atomic_load(&scene.fleet.source.begun);
        ask_start(&scene.fleet, HOLDER, &scene.holder, key);
        WAIT_UNTIL(atomic_load(&scene.fleet.source.begun) == begun + 1);
        scene.before = waiter_stats(&scene);
        ask_start(&scene.fleet, WAITER, &scene.waiter, key);
        await_pause(&scene);
        expect_both(&scene, row);
    }
    assert_int_equal(waiter_stats(&scene).push_answered, 1);
    fleet_close(&scene.fleet);
}

/* The near cache keeps what a lookup has found, under an epoch that was read before it: not what was sent to us. */
TEST(what_came_with_a_message_is_not_kept_near)
{
    struct scene scene;
    struct guard_result result;
    scene_init(&scene);
    scene.fleet.config.near_bytes = 1 << 20;
    scene.fleet.policy.near_ms = 60000;
    fleet_open(&scene.fleet, 2);
    for (int try = 0; try < TRIES && waiter_stats(&scene).push_answered == 0; try++) {
        char key[16], row[24];
        snprintf(key, sizeof key, "k%d", try);
        snprintf(row, sizeof row, "k%d v1", try);
        begin_wait(&scene, key);
        await_pause(&scene);
        expect_both(&scene, row);
        assert_false(guard_near(scene.fleet.guards[WAITER], scene.fleet.kinds[WAITER], key, &result));
    }
    assert_int_equal(waiter_stats(&scene).push_answered, 1);
    fleet_close(&scene.fleet);
}

/* ---- messages by hand ---- */

/* The holder's guard may not publish: what the waiter hears is what the test says. */
static void mute_the_holder(struct scene *scene, char url[static RIG_URL_BYTES])
{
    rig_permit("mute", "on >PASSWORD ~* &* +@all -publish");
    rig_url_of("mute", 0, url);
    const char *loud = scene->fleet.config.redis_url;
    scene->fleet.config.redis_url = url;
    fleet_add(&scene->fleet);
    scene->fleet.config.redis_url = loud;
    fleet_open(&scene->fleet, 2);
}

static redisReply *read_key(struct scene *scene, const char *key, char role)
{
    char name[64];
    snprintf(name, sizeof name, "csg1:{%s:%s}:%c", scene->fleet.name_space, key, role);
    redisReply *reply = stack_redis_command(&rig_redis, "GET %s", name);
    assert_int_equal(reply->type, REDIS_REPLY_STRING);
    return reply;
}

static void tag_of_lease(struct scene *scene, const char *key, char tag[17])
{
    redisReply *lease = read_key(scene, key, 'l');
    snprintf(tag, 17, "%.16s", lease->str + 37);
    freeReplyObject(lease);
}

/* What a fill of k under that lease would say. */
static void say_filled(struct scene *scene, const char *key, const char *tag, const char *entry, size_t bytes)
{
    char head[64];
    int head_bytes = snprintf(head, sizeof head, "f %s %s ", tag, key);
    char *text = malloc((size_t)head_bytes + bytes);
    assert_non_null(text);
    memcpy(text, head, (size_t)head_bytes);
    memcpy(text + head_bytes, entry, bytes);
    freeReplyObject(stack_redis_command(&rig_redis, "PUBLISH csg1:wake:%s:0 %b", scene->fleet.name_space,
                                        text, (size_t)head_bytes + bytes));
    free(text);
}

/* The waiter joined before the lookup that found this lease; the late one after that, and after an invalidation that
 * came behind the fill, and of which their process has not heard. True: the message answered the waiter. */
static bool late_joiner_gets_the_newer_row(struct scene *scene, const char *key, const char *old_row,
                                           const char *new_row)
{
    struct fleet *fleet = &scene->fleet;
    struct guard_invalidated done;
    struct ask late;
    char tag[17];
    begin_wait(scene, key);
    tag_of_lease(scene, key, tag);
    await_pause(scene);
    const uint64_t answered = waiter_stats(scene).push_answered;
    source_open(&fleet->source);
    ask_wait(&scene->holder);
    redisReply *entry = read_key(scene, key, 'v');
    atomic_fetch_add(&fleet->source.version, 1);
    assert_int_equal(guard_invalidate_wait(fleet->guards[HOLDER], key, RIG_LIMIT_MS, &done), GUARD_OK);
    ask_start(fleet, WAITER, &late, key);
    WAIT_UNTIL(waiter_stats(scene).waiters == 2 || !has_paused(scene));
    say_filled(scene, key, tag, entry->str, entry->len);
    freeReplyObject(entry);
    ask_wait(&scene->waiter);
    expect_answer(&late, new_row);
    bool shown = waiter_stats(scene).push_answered > answered;
    if (shown)
        assert_row(&scene->waiter.result, old_row);
    assert_true(waiter_stats(scene).push_answered <= answered + 1);
    ask_clear(&scene->waiter);
    ask_clear(&scene->holder);
    return shown;
}

TEST(who_joined_after_the_lookup_that_found_the_lease_looks_again)
{
    struct scene scene;
    char url[RIG_URL_BYTES], key[16], old_row[32], new_row[32];
    bool shown = false;
    scene_init(&scene);
    mute_the_holder(&scene, url);
    for (int try = 0; try < TRIES && !shown; try++) {
        snprintf(key, sizeof key, "k%d", try);
        snprintf(old_row, sizeof old_row, "k%d v%d", try, try + 1);
        snprintf(new_row, sizeof new_row, "k%d v%d", try, try + 2);
        shown = late_joiner_gets_the_newer_row(&scene, key, old_row, new_row);
    }
    assert_true(shown);
    fleet_close(&scene.fleet);
}

/* An old fill's message, late: the row has been changed since, and is loaded anew. */
TEST(the_value_of_an_earlier_lease_answers_nobody_who_waits_for_a_later_one)
{
    struct scene scene;
    struct guard_invalidated done;
    char url[RIG_URL_BYTES], tag[17];
    scene_init(&scene);
    mute_the_holder(&scene, url);
    begin_wait(&scene, "k");
    tag_of_lease(&scene, "k", tag);
    expect_both(&scene, "k v1");
    redisReply *entry = read_key(&scene, "k", 'v');
    atomic_store(&scene.fleet.source.version, 2);
    assert_int_equal(guard_invalidate_wait(scene.fleet.guards[HOLDER], "k", RIG_LIMIT_MS, &done), GUARD_OK);
    begin_wait(&scene, "k");
    uint64_t messages = waiter_stats(&scene).wake_messages;
    say_filled(&scene, "k", tag, entry->str, entry->len);
    WAIT_UNTIL(waiter_stats(&scene).wake_messages > messages);
    assert_int_equal(atomic_load(&scene.waiter.answers), 0);
    expect_both(&scene, "k v2");
    assert_int_equal(waiter_stats(&scene).push_answered, 0);
    freeReplyObject(entry);
    fleet_close(&scene.fleet);
}

/* ---- what no fill would send ---- */

static void expect_ignored(struct scene *scene, const char *tag, const char *entry, size_t bytes)
{
    uint64_t messages = waiter_stats(scene).wake_messages;
    say_filled(scene, "k", tag, entry, bytes);
    WAIT_UNTIL(waiter_stats(scene).wake_messages > messages);
    assert_int_equal(atomic_load(&scene->waiter.answers), 0);
}

TEST(what_is_not_a_sound_entry_of_the_key_is_only_a_wake_up)
{
    enum { HUGE_BYTES = 8 << 20 };
    struct scene scene;
    char tag[17], *huge = calloc(1, HUGE_BYTES);
    assert_non_null(huge);
    scene_init(&scene);
    fleet_open(&scene.fleet, 2);
    expect_row(&scene.fleet, HOLDER, "other", "other v1");
    redisReply *other = read_key(&scene, "other", 'v');
    begin_wait(&scene, "k");
    tag_of_lease(&scene, "k", tag);
    expect_ignored(&scene, tag, other->str, other->len);     /* of another key */
    expect_ignored(&scene, tag, other->str, other->len - 1); /* cut */
    expect_ignored(&scene, tag, other->str, 36);
    expect_ignored(&scene, tag, "", 0);
    expect_ignored(&scene, tag, "no entry at all", 15);
    expect_ignored(&scene, tag, huge, HUGE_BYTES);
    memcpy(huge, other->str, other->len); /* a sound head, and lengths that do not agree */
    expect_ignored(&scene, tag, huge, HUGE_BYTES);
    expect_both(&scene, "k v1");
    assert_int_equal(waiter_stats(&scene).wake_resyncs, 0);
    freeReplyObject(other);
    free(huge);
    fleet_close(&scene.fleet);
}

/* ---- in Redis ---- */

TEST(the_mark_goes_with_the_lease)
{
    struct scene scene;
    scene_init(&scene);
    fleet_open(&scene.fleet, 2);
    begin_wait(&scene, "k");
    assert_int_equal(redis_number(&scene.fleet, "EXISTS", "k", 'w'), 1);
    assert_in_range(redis_number(&scene.fleet, "PTTL", "k", 'w'), 1, scene.fleet.policy.lease_ms);
    expect_both(&scene, "k v1");
    assert_int_equal(redis_number(&scene.fleet, "EXISTS", "k", 'w'), 0);
    fleet_close(&scene.fleet);
}

TEST(with_push_bytes_0_nobody_leaves_a_mark)
{
    struct scene scene;
    scene_init(&scene);
    scene.fleet.config.push_bytes = 0;
    fleet_open(&scene.fleet, 2);
    begin_wait(&scene, "k");
    assert_int_equal(redis_number(&scene.fleet, "EXISTS", "k", 'w'), 0);
    expect_both(&scene, "k v1");
    fleet_close(&scene.fleet);
}

TEST_GROUP(.up = rig_start, .down = rig_stop);
