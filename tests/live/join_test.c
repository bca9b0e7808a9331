/* SPDX-License-Identifier: MIT */
/*
 * join_test.c - a request that joins a flight late gets nothing that was under way before it came.
 *
 * Process 0 writes: it invalidates k, after which the row is v2. Process 1 has read v1 by then, and a proxy holds
 * back the reply that it waits for. Meanwhile a late request comes on a loop of its own, whose connection is not
 * held, and joins the flight of process 1. Then the proxy lets go. The early request may get v1; the late one
 * began after the invalidation returned and must get v2.
 *
 * The same scene shows what becomes of leases, tokens and places when a reply is late, lost or no longer wanted.
 */
#include "guard_rig.h"
#include "load/stack/proxy.h"
#include <uv.h>

enum { WRITER, READER, PROCESSES };

static struct scene {
    struct proxy *proxy; /* before the reader's Redis */
    char url[64];
    struct ask early, late;
    uv_loop_t loop; /* the late caller's; it turns while we wait */
    struct guard_loop *attached;
    bool detached;
} scene;

enum {
    PATIENT_MS = 10000, /* nothing is given up only because it is held */
    LIMIT_MS = 3000,    /* what is held is given up, but nothing only because the machine is slow */
};

static uint32_t soft_ms; /* of the next scene */

static void scene_open(uint32_t stale_ms, uint32_t redis_limit_ms)
{
    memset(&scene, 0, sizeof scene);
    assert_true(proxy_open_to(rig_redis.port, &scene.proxy));
    snprintf(scene.url, sizeof scene.url, "redis://127.0.0.1:%u/0", (unsigned)proxy_port(scene.proxy, 0));
    fleet_init();
    fleet.config.redis_limit_ms = redis_limit_ms;
    fleet.policy.lease_ms = fleet.policy.max_hold_ms = 30000;
    fleet.policy.failure_ms = 30000;
    fleet.policy.stale_ms = stale_ms;
    fleet.policy.soft_ms = soft_ms;
    if (stale_ms > 0) /* less than a lookup may take: every get goes through the flight */
        fleet.policy.deadline_ms = redis_limit_ms - 1000;
    fleet_add();
    fleet.config.redis_url = scene.url;
    fleet_open(PROCESSES);
    assert_int_equal(uv_loop_init(&scene.loop), 0);
    struct guard_error error = {.text = ""};
    assert_int_equal(guard_loop_attach(fleet.guards[READER], &scene.loop, &scene.attached, &error), GUARD_OK);
}

static bool turned(void)
{
    uv_run(&scene.loop, UV_RUN_NOWAIT);
    return true;
}

static void on_detached(void *context)
{
    (void)context;
    scene.detached = true;
}

static void detach(void)
{
    guard_loop_detach(&scene.attached, on_detached, NULL);
    WAIT_UNTIL(turned() && scene.detached);
}

static bool scene_before(void)
{
    scene.proxy = NULL; /* of a test that has failed */
    return fleet_before();
}

/* Does nothing if there is none. */
static void scene_close(void)
{
    if (scene.proxy == NULL)
        return;
    if (scene.attached != NULL)
        detach();
    assert_int_equal(uv_run(&scene.loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&scene.loop), 0);
    fleet_close();
    proxy_close(&scene.proxy);
}

static void hold(enum proxy_fault fault, const char *text)
{
    proxy_mark(scene.proxy, 0, text, fault);
}

static void wait_held(void)
{
    assert_true(proxy_wait_marked(scene.proxy, 0, 1, RIG_LIMIT_MS));
}

static void change_row(void)
{
    struct guard_invalidated done;
    atomic_store(&fleet.source.version, 2);
    assert_int_equal(guard_invalidate_wait(fleet.guards[WRITER], KEY_CHANGE("k", RIG_LIMIT_MS), &done),
                     GUARD_OK);
}

/* As change_row(), but the message is lost. */
static void change_row_unheard(void)
{
    atomic_store(&fleet.source.version, 2);
    rig_do("DEL csg1:{%s:k}:v", fleet.name_space);
    rig_do("DEL csg1:{%s:k}:l", fleet.name_space);
}

/* Returns once the late caller has joined the reader's flight, where `others` wait. */
static void join_late(uint32_t others)
{
    struct ask *late = &scene.late;
    struct guard_request request = {.kind = fleet.kinds[READER],
                                    .key = "k",
                                    .loop = scene.attached,
                                    .answered = ask_answered,
                                    .context = late};
    atomic_fetch_add(&fleet.accepted[READER], 1);
    assert_int_equal(guard_get(fleet.guards[READER], &request, NULL, &late->ticket), GUARD_OK);
    WAIT_UNTIL(turned() && stats_of(fleet.guards[READER]).waiters == others + 1);
}

static void expect_late_row(const char *row)
{
    WAIT_UNTIL(turned() && atomic_load(&scene.late.answers) > 0);
    assert_row(&scene.late.result, row);
    ask_clear(&scene.late);
}

static void expect_early_row(const char *row)
{
    expect_answer(&scene.early, row);
}

static void start_load(void)
{
    source_shut(&fleet.source);
    ask_start(READER, &scene.early, "k");
    WAIT_UNTIL(atomic_load(&fleet.source.begun) == 1);
}

/* The early caller's lookup finds v1; its reply is held, the row has changed and the late caller is there. */
static void hold_lookup_and_change_row(void)
{
    hold(PROXY_FREEZE_REPLIES, "EVAL");
    ask_start(READER, &scene.early, "k");
    wait_held();
    change_row();
    join_late(1);
}

static void change_row_during_lookup(void)
{
    hold_lookup_and_change_row();
    proxy_set(scene.proxy, 0, PROXY_NONE, 0);
}

/* A stale value is there. */
static void scene_open_stale(void)
{
    scene_open(60000, PATIENT_MS);
    expect_row(WRITER, "k", "k v1");
    age_value("k", 30000);
}

/* The value has lost its TTL, so the reader does not judge it but asks the script. */
TEST(a_lookup_answers_only_who_joined_before_it_was_sent)
{
    scene_open(0, PATIENT_MS);
    expect_row(WRITER, "k", "k v1");
    rig_do("PERSIST csg1:{%s:k}:v", fleet.name_space);
    change_row_during_lookup();
    expect_early_row("k v1");
    expect_late_row("k v2");
}

TEST(a_stale_lookup_answers_only_who_joined_before_it_was_sent)
{
    scene_open_stale();
    change_row_during_lookup();
    expect_early_row("k v1");
    expect_late_row("k v2");
}

/* Alarms ring in order, and this request begins last: its deadline passes after the soft limits of all that wait. */
static void pass_soft_limits(void)
{
    struct ask last;
    assert_int_equal(ask_try(READER, &last, "k", soft_ms + 1), GUARD_OK);
    ask_wait(&last);
    assert_int_equal(last.result.status, GUARD_TIMEOUT);
}

/* Both have waited past their soft limit when the stale value comes, which is held for the early one alone. */
TEST(a_held_stale_value_goes_only_to_who_joined_before_its_lookup_was_sent)
{
    soft_ms = 1;
    scene_open_stale();
    hold_lookup_and_change_row();
    pass_soft_limits();
    soft_ms = 0;
    proxy_set(scene.proxy, 0, PROXY_NONE, 0);
    expect_early_row("k v1");
    expect_late_row("k v2");
}

TEST(a_look_beside_the_refresh_answers_only_who_joined_before_it_was_sent)
{
    static struct ask first;
    scene_open_stale();
    source_shut(&fleet.source);
    ask_start(READER, &first, "k");
    expect_answer(&first, "k v1");
    WAIT_UNTIL(atomic_load(&fleet.source.begun) == 2);
    change_row_during_lookup();
    expect_early_row("k v1");
    source_open(&fleet.source);
    expect_late_row("k v2");
}

TEST(a_load_that_lost_its_lease_answers_only_who_joined_before_its_query)
{
    scene_open(0, PATIENT_MS);
    atomic_store(&fleet.source.stubborn, true);
    start_load();
    change_row();
    WAIT_UNTIL(stats_of(fleet.guards[READER]).lease_lost == 1);
    join_late(1);
    source_open(&fleet.source);
    expect_early_row("k v1");
    expect_late_row("k v2");
}

TEST(a_fill_that_is_rejected_answers_only_who_joined_before_its_query)
{
    scene_open(0, PATIENT_MS);
    start_load();
    change_row_unheard();
    join_late(1);
    source_open(&fleet.source);
    expect_early_row("k v1");
    expect_late_row("k v2");
    assert_int_equal(stats_of(fleet.guards[READER]).fill_late, 1);
}

/* What is held stays so, on the connection that is given up at the limit; the next one is free. */
TEST(a_fill_without_reply_answers_only_who_joined_before_its_query)
{
    scene_open(0, LIMIT_MS);
    start_load();
    change_row_unheard();
    join_late(1);
    hold(PROXY_FREEZE_REPLIES, " csg3 v "); /* only a fill carries an envelope */
    source_open(&fleet.source);
    wait_held();
    hold(PROXY_FREEZE_REPLIES, "nothing of this kind");
    expect_early_row("k v1");
    expect_late_row("k v2");
    assert_int_equal(stats_of(fleet.guards[READER]).fill_unknown, 1);
}

TEST(a_fill_that_is_stored_answers_only_who_joined_before_it_was_sent)
{
    scene_open(0, PATIENT_MS);
    start_load();
    hold(PROXY_FREEZE_REPLIES, " csg3 v ");
    source_open(&fleet.source);
    wait_held();
    WAIT_UNTIL(is_cached("k"));
    change_row();
    join_late(1);
    proxy_set(scene.proxy, 0, PROXY_NONE, 0);
    expect_early_row("k v1");
    expect_late_row("k v2");
}

static void read_lease(const char *format, char uuid[37])
{
    char begin[38];
    assert_true(stack_redis_text(&rig_redis, begin, sizeof begin, format, fleet.name_space));
    assert_int_equal(strlen(begin), 37);
    memcpy(uuid, begin, 36);
    uuid[36] = '\0';
}

TEST(every_attempt_has_a_token_of_its_own)
{
    char first[37], second[37];
    scene_open(0, PATIENT_MS);
    start_load();
    read_lease("GET csg1:{%s:k}:l", first);
    change_row();
    join_late(1);
    source_open(&fleet.source);
    expect_late_row("k v2");
    ask_wait(&scene.early);
    ask_clear(&scene.early);
    read_lease("GET csg1:{%s:k}:v", second); /* an entry begins with the UUID it was filled under */
    assert_string_not_equal(first, second);
}

/* Sent twice, a token could arrive twice: the second time after an invalidation has voided it. */
TEST(a_retry_has_a_new_token_and_takes_the_place_of_the_attempt_without_reply)
{
    char first[37], second[37];
    scene_open(0, LIMIT_MS);
    source_shut(&fleet.source);
    hold(PROXY_FREEZE_REPLIES, "EVAL");
    ask_start(READER, &scene.early, "k");
    wait_held();
    WAIT_UNTIL(is_leased("k"));
    read_lease("GET csg1:{%s:k}:l", first);
    hold(PROXY_FREEZE_REPLIES, "nothing of this kind");
    WAIT_UNTIL(atomic_load(&fleet.source.begun) == 1);
    read_lease("GET csg1:{%s:k}:l", second);
    assert_string_not_equal(first, second);
    source_open(&fleet.source);
    ask_wait(&scene.early);
    assert_true(scene.early.result.stored);
    ask_clear(&scene.early);
}

TEST(a_lease_that_comes_when_nobody_waits_any_more_is_given_back)
{
    scene_open(0, PATIENT_MS);
    hold(PROXY_FREEZE_REPLIES, "EVAL");
    ask_start(READER, &scene.early, "k");
    wait_held();
    WAIT_UNTIL(is_leased("k"));
    guard_cancel(fleet.guards[READER], NULL, scene.early.ticket);
    ask_wait(&scene.early);
    assert_int_equal(scene.early.result.status, GUARD_CANCELLED);
    proxy_set(scene.proxy, 0, PROXY_NONE, 0);
    WAIT_UNTIL(stats_of(fleet.guards[READER]).flights == 0);
    assert_false(is_leased("k")); /* long before it would have run out */
    assert_int_equal(atomic_load(&fleet.source.begun), 0);
}

TEST(a_look_beside_the_refresh_leaves_its_lease_alone)
{
    scene_open_stale();
    source_shut(&fleet.source);
    expect_row(READER, "k", "k v1");
    WAIT_UNTIL(atomic_load(&fleet.source.begun) == 2);
    assert_int_equal(expect_row(READER, "k", "k v1").source, GUARD_FROM_STALE);
    assert_true(is_leased("k"));
    source_open(&fleet.source);
    WAIT_UNTIL(stats_of(fleet.guards[READER]).fill_stored == 1);
}

TEST(a_load_that_lost_its_lease_is_cancelled_at_once)
{
    scene_open(0, PATIENT_MS);
    start_load();
    change_row();
    WAIT_UNTIL(atomic_load(&fleet.source.saw_cancel) == 1);
    source_open(&fleet.source);
    expect_early_row("k v2");
}

TEST(who_waits_behind_a_fill_is_answered_when_the_guard_closes)
{
    scene_open(0, LIMIT_MS);
    start_load();
    hold(PROXY_FREEZE_REPLIES, " csg3 v ");
    source_open(&fleet.source);
    wait_held();
    detach();
    assert_int_equal(guard_close(&fleet.guards[READER], 0), GUARD_OK);
    ask_wait(&scene.early);
    assert_int_equal(scene.early.result.status, GUARD_CLOSING);
}

TEST(who_joins_a_load_late_that_fails_finds_its_failure_and_tries_nothing_again)
{
    scene_open(0, PATIENT_MS);
    fleet.source.verdict = SOURCE_FAIL;
    start_load();
    join_late(1);
    source_open(&fleet.source);
    ask_wait(&scene.early);
    assert_int_equal(scene.early.result.status, GUARD_FAILED);
    WAIT_UNTIL(turned() && atomic_load(&scene.late.answers) > 0);
    assert_int_equal(scene.late.result.status, GUARD_FAILED);
    assert_int_equal(scene.late.result.source, GUARD_FROM_CACHE);
    assert_int_equal(atomic_load(&fleet.source.begun), 1);
}

TEST(every_load_gives_its_place_back)
{
    enum { PLACES = 2, LOADS = 3 * PLACES };
    char key[16], row[24];
    fleet.config.max_loads = fleet.config.load_queue = PLACES / 2;
    fleet_open(1);
    for (unsigned i = 0; i < LOADS; i++) {
        snprintf(key, sizeof key, "p%u", i);
        snprintf(row, sizeof row, "p%u v1", i);
        expect_row(0, key, row);
    }
    fleet_close();
}

TEST_GROUP(.up = rig_start, .down = rig_stop, .before = scene_before, .end = scene_close);
