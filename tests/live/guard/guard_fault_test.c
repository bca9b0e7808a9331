/* SPDX-License-Identifier: MIT */
/*
 * guard_fault_test.c - Redis away, hung or deaf; holders that die; guards that close in the middle of it.
 */
#include "guard_rig.h"
#include "load/stack/proxy.h"
#include "tests/support/files.h"
#include <sys/stat.h>

/* A guard whose commands time out soon, though not because the machine is slow. */
static void fault_init(void)
{
    fleet_init();
    fleet.config.redis_limit_ms = 1000;
}

/* The same with a Redis of the test's own, which may go. */
static void fault_init_apart(struct stack_redis *redis)
{
    *redis = (struct stack_redis){.pid = 0};
    assert_true(stack_redis_start(redis, NULL));
    fault_init();
    fleet.config.redis_url = redis->url;
}

/* ---- Redis away ---- */

/* The lookup may take the limit, and then the first command of the flight; nothing after these two. */
TEST(a_hung_redis_delays_an_answer_by_twice_its_limit_at_most)
{
    enum { LIMIT_MS = 3000, MACHINE_MS = 2800 }; /* three times the limit is too much, and still told apart */
    uint64_t longest_ms = 0;
    struct stack_redis redis = {.pid = 0};
    char key[16], row[24];
    assert_true(stack_redis_start(&redis, NULL));
    fault_init();
    fleet.config.redis_limit_ms = LIMIT_MS;
    fleet.config.redis_url = redis.url;
    fleet_open(1);
    expect_row(0, "k", "k v1");
    stack_redis_pause(&redis);
    for (int i = 0; i < 20; i++) {
        snprintf(key, sizeof key, "h%d", i);
        snprintf(row, sizeof row, "h%d v1", i);
        uint64_t begun_ms = rig_now_ms();
        assert_false(expect_row(0, key, row).stored);
        if (rig_now_ms() - begun_ms > longest_ms)
            longest_ms = rig_now_ms() - begun_ms;
    }
    assert_in_range(longest_ms, 0, 2 * LIMIT_MS + MACHINE_MS);
    assert_true(stats_of(fleet.guards[0]).redis_timeouts > 0);
    stack_redis_resume(&redis);
    WAIT_UNTIL(is_up(fleet.guards[0]));
    struct guard_result result;
    WAIT_UNTIL((result = expect_row(0, "after", "after v1"), result.stored));
    fleet_close();
    stack_redis_stop(&redis);
}

TEST(an_invalidation_that_redis_does_not_confirm_is_unknown_at_its_deadline, P40)
{
    struct stack_redis redis;
    struct guard_invalidated result;
    fault_init_apart(&redis);
    fleet_open(1);
    stack_redis_kill(&redis);
    uint64_t begun_ms = rig_now_ms();
    assert_int_equal(guard_invalidate_wait(fleet.guards[0], KEY_CHANGE("k", 400), &result), GUARD_UNKNOWN);
    assert_in_range(rig_now_ms() - begun_ms, 400, 10000);
    assert_false(result.value_dropped || result.load_voided);
    assert_int_equal(guard_invalidate_wait(fleet.guards[0], KEY_CHANGE("k", 0), &result), GUARD_UNKNOWN);
    assert_int_equal(stats_of(fleet.guards[0]).invalidate_unknown, 2);
    assert_int_equal(stats_of(fleet.guards[0]).invalidated, 0);
    fleet_close();
    stack_redis_stop(&redis);
}

/* ---- holders ---- */

TEST(a_late_fill_is_refused_and_its_own_callers_are_still_answered, P11)
{
    static struct ask late;
    fleet_open(2);
    fleet.source.stubborn = true;
    source_shut(&fleet.source);
    ask_start(0, &late, "k");
    WAIT_UNTIL(fleet.source.begun == 1);
    rig_do("DEL csg1:{%s:k}:l", fleet.name_space);
    source_open(&fleet.source);
    ask_wait(&late);
    assert_row(&late.result, "k v1");
    assert_false(late.result.stored);
    ask_clear(&late);
    assert_false(is_cached("k"));
    assert_int_equal(stats_of(fleet.guards[0]).fill_late, 1);
}

/* ---- hearing of others ---- */

/* A flight that asks in the very moment of the reconnection looks anyway and is not counted. */
static bool resyncs_after_a_kill(size_t i)
{
    uint64_t connects = FLEET_SUM(redis_connects);
    rig_do("CLIENT KILL TYPE pubsub");
    WAIT_UNTIL(FLEET_SUM(redis_connects) >= connects + fleet.count && is_up(fleet.guards[i]));
    return stats_of(fleet.guards[i]).wake_resyncs > 0;
}

TEST(a_killed_subscription_comes_back_and_all_who_wait_look_again, P25)
{
    static struct ask holder, waiter;
    fleet_open(2);
    source_shut(&fleet.source);
    ask_start(0, &holder, "k");
    WAIT_UNTIL(fleet.source.begun == 1);
    ask_start(1, &waiter, "k");
    WAIT_UNTIL(stats_of(fleet.guards[1]).lease_busy > 0);
    WAIT_UNTIL(resyncs_after_a_kill(1));
    source_open(&fleet.source);
    ask_wait(&waiter);
    ask_wait(&holder);
    assert_row(&waiter.result, "k v1");
    ask_clear(&waiter);
    ask_clear(&holder);
    assert_int_equal(fleet.source.begun, 1);
}

TEST(a_silently_dead_subscription_is_noticed_by_the_canary_and_costs_no_answer, P24)
{
    static struct ask holder, waiter;
    enum { SILENCE_MS = 2000, NOTICED_MS = 12000 }; /* a canary a second, the silence, and a slow machine */
    struct proxy *proxy = NULL;
    char url[64];
    assert_true(proxy_open_to(rig_redis.port, &proxy));
    proxy_mark(proxy, 0, "SUBSCRIBE", PROXY_NONE);
    snprintf(url, sizeof url, "redis://127.0.0.1:%u/0", (unsigned)proxy_port(proxy, 0));
    fleet_add();
    fleet.config.redis_url = url;
    fleet_open(2);
    source_shut(&fleet.source);
    ask_start(0, &holder, "a");
    WAIT_UNTIL(fleet.source.begun == 1);
    ask_start(1, &waiter, "a");
    WAIT_UNTIL(stats_of(fleet.guards[1]).lease_busy > 0);
    uint64_t begun_ms = rig_now_ms();
    proxy_set(proxy, 0, PROXY_MUTE, 0);
    WAIT_UNTIL(proxy_hits(proxy, PROXY_MUTE) > 0); /* the first canary is lost */
    source_open(&fleet.source);                    /* nobody hears of this fill: the poll finds it */
    ask_wait(&waiter);
    assert_row(&waiter.result, "a v1");
    ask_wait(&holder);
    ask_clear(&holder);
    ask_clear(&waiter);
    assert_true(proxy_wait_marked(proxy, 0, 2, RIG_LIMIT_MS));
    assert_in_range(rig_now_ms() - begun_ms, SILENCE_MS, NOTICED_MS);
    proxy_set(proxy, 0, PROXY_NONE, 0);
    WAIT_UNTIL(is_up(fleet.guards[1]));
    assert_int_equal(fleet.source.begun, 1);
    fleet_close();
    proxy_close(&proxy);
}

/* ---- the first word of Redis ---- */

/* A process that starts: it waits, and then all ask it at once for a key that is cached and for one that is not. */
struct start {
    pthread_t thread;
    size_t process;
    enum guard_status connected;
    struct ask warm, cold;
};

static void *start_and_ask(void *context)
{
    struct start *start = context;
    start->connected = guard_connected_wait(fleet.guards[start->process]);
    ask_start(start->process, &start->warm, "warm");
    ask_start(start->process, &start->cold, "cold");
    return NULL;
}

TEST(five_processes_that_wait_behind_a_slow_connection_load_what_is_not_cached_once)
{
    enum { PROCESSES = 6, LIMIT_MS = 500, SLOW_MS = 3 * LIMIT_MS };
    static struct start starts[PROCESSES];
    struct proxy *proxy = NULL;
    char url[64];
    fleet_open(1);
    expect_row(0, "warm", "warm v1");
    assert_true(proxy_open_to(rig_redis.port, &proxy));
    proxy_set(proxy, 0, PROXY_FREEZE_REPLIES, 0);
    snprintf(url, sizeof url, "redis://127.0.0.1:%u/0", (unsigned)proxy_port(proxy, 0));
    fleet.config.redis_url = url;
    fleet.config.redis_limit_ms = LIMIT_MS;
    fleet.config.connect_limit_ms = RIG_LIMIT_MS;
    const uint64_t begun_ms = rig_now_ms();
    for (size_t i = 1; i < PROCESSES; i++) {
        fleet_add();
        starts[i] = (struct start){.process = i};
        assert_int_equal(pthread_create(&starts[i].thread, NULL, start_and_ask, &starts[i]), 0);
    }
    WAIT_UNTIL(rig_now_ms() >= begun_ms + SLOW_MS); /* so slow is the connection */
    proxy_set(proxy, 0, PROXY_NONE, 0);
    for (size_t i = 1; i < PROCESSES; i++) {
        pthread_join(starts[i].thread, NULL);
        assert_int_equal(starts[i].connected, GUARD_OK);
    }
    for (size_t i = 1; i < PROCESSES; i++) {
        expect_answer(&starts[i].warm, "warm v1");
        expect_answer(&starts[i].cold, "cold v1");
    }
    assert_int_equal(fleet.source.begun, 2);
    fleet_close();
    proxy_close(&proxy);
}

TEST(who_is_refused_or_not_answered_is_told_so_and_how_it_is_later)
{
    struct proxy *proxy = NULL;
    char url[64];
    assert_true(proxy_open_to(rig_redis.port, &proxy));
    snprintf(url, sizeof url, "redis://127.0.0.1:%u/0", (unsigned)proxy_port(proxy, 0));
    fleet.config.redis_url = url;
    fleet.config.connect_limit_ms = RIG_LIMIT_MS;
    proxy_set(proxy, 0, PROXY_RESET, 0);
    const uint64_t begun_ms = rig_now_ms();
    fleet_add();
    assert_int_equal(guard_connected_wait(fleet.guards[0]), GUARD_UNKNOWN);
    fleet.config.connect_limit_ms = 100;
    proxy_set(proxy, 0, PROXY_SILENT, 0);
    fleet_add();
    assert_int_equal(guard_connected_wait(fleet.guards[1]), GUARD_UNKNOWN);
    assert_true(rig_now_ms() - begun_ms < RIG_LIMIT_MS);
    proxy_set(proxy, 0, PROXY_NONE, 0);
    for (size_t i = 0; i < fleet.count; i++) {
        WAIT_UNTIL(is_up(fleet.guards[i]));
        assert_int_equal(guard_connected_wait(fleet.guards[i]), GUARD_OK);
    }
    fleet_close();
    proxy_close(&proxy);
}

static void note_word(void *context, enum guard_status status)
{
    atomic_store((atomic_int *)context, (int)status);
}

TEST(who_still_waits_for_the_first_word_when_the_guard_closes_is_told_so)
{
    static atomic_int word;
    struct proxy *proxy = NULL;
    char url[64];
    assert_true(proxy_open_to(rig_redis.port, &proxy));
    proxy_set(proxy, 0, PROXY_SILENT, 0);
    snprintf(url, sizeof url, "redis://127.0.0.1:%u/0", (unsigned)proxy_port(proxy, 0));
    fleet.config.redis_url = url;
    fleet.config.connect_limit_ms = RIG_LIMIT_MS;
    fleet_add();
    atomic_store(&word, -1);
    assert_int_equal(guard_connected(fleet.guards[0], NULL, NULL), GUARD_INVALID);
    assert_int_equal(guard_connected(fleet.guards[0], note_word, &word), GUARD_OK);
    assert_int_equal(word, -1);
    guard_drain(fleet.guards[0]);
    fleet_close();
    assert_int_equal(word, GUARD_CLOSING);
    proxy_close(&proxy);
}

/* ---- closing ---- */

static struct guard *abandoned; /* so that its memory is reachable, as a leak checker sees it */

static struct {
    atomic_bool begun, goes_on, over;
    enum guard_status inner, done;
} late;

/* Ignores its cancellation, and uses its load when nobody waits for it any more and the guard has no loop. */
static void load_late(struct guard_load *load, void *context)
{
    const struct guard_request request = {.kind = fleet.kinds[0], .key = "inner"};
    struct guard_result result;
    (void)context;
    atomic_store(&late.begun, true);
    WAIT_UNTIL(atomic_load(&late.goes_on));
    late.inner = guard_load_get(load, &request, &result);
    assert_true(guard_load_cancelled(load));
    assert_int_equal(guard_load_defer(load, NULL, NULL, NULL), GUARD_OK);
    late.done = guard_load_done(load, "row", 3, NULL);
    atomic_store(&late.over, true);
}

TEST(closing_gives_up_on_a_loader_that_ignores_its_cancellation_and_may_still_use_its_load)
{
    static struct ask ask;
    fleet.policy.loader = load_late;
    fleet_open(1);
    ask_start(0, &ask, "k");
    WAIT_UNTIL(atomic_load(&late.begun));
    abandoned = fleet.guards[0];
    uint64_t begun_ms = rig_now_ms();
    assert_int_equal(guard_close(&fleet.guards[0], 0), GUARD_TIMEOUT);
    assert_null(fleet.guards[0]);
    assert_in_range(rig_now_ms() - begun_ms, 4900, 15000);
    assert_int_equal(ask.answers, 1);
    assert_int_equal(ask.result.status, GUARD_CLOSING);
    assert_false(is_leased("k"));
    atomic_store(&late.goes_on, true);
    WAIT_UNTIL(atomic_load(&late.over));
    assert_int_equal(late.inner, GUARD_CLOSING);
    assert_int_equal(late.done, GUARD_OK);
    assert_int_equal(ask.answers, 1);
}

static void *ask_and_wait(void *context)
{
    (void)context;
    struct guard_request request = {.kind = fleet.kinds[0], .key = "k"};
    struct guard_result result;
    guard_get_wait(fleet.guards[0], &request, &result);
    return (void *)(uintptr_t)result.status;
}

TEST(closing_frees_those_who_block)
{
    pthread_t threads[8];
    fleet_open(1);
    source_shut(&fleet.source);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_and_wait, NULL), 0);
    WAIT_UNTIL(stats_of(fleet.guards[0]).waiters == 8);
    assert_int_equal(guard_close(&fleet.guards[0], 0), GUARD_OK);
    for (size_t i = 0; i < 8; i++) {
        void *status = NULL;
        pthread_join(threads[i], &status);
        assert_int_equal((uintptr_t)status, GUARD_CLOSING);
    }
}

/* ---- entries of others ---- */

TEST(an_entry_larger_than_ones_own_limit_is_served_and_breaks_no_connection)
{
    enum { BODY_BYTES = 400000 };
    char *body = malloc(BODY_BYTES + 1);
    assert_non_null(body);
    memset(body, 'x', BODY_BYTES);
    body[BODY_BYTES] = '\0';
    fleet.source.body = body;
    fleet.source.body_bytes = BODY_BYTES;
    fleet.config.max_value_bytes = 1 << 20;
    fleet_add();
    fleet.config.max_value_bytes = 256 << 10;
    fleet_add();
    fleet_open(2);
    uint64_t connects = stats_of(fleet.guards[1]).redis_connects;
    assert_true(expect_row(0, "k", body).stored);
    for (int i = 0; i < 3; i++)
        assert_int_equal(expect_row(1, "k", body).source, GUARD_FROM_CACHE);
    assert_false(expect_row(1, "own", body).stored);
    assert_int_equal(fleet.source.begun, 2);
    assert_int_equal(stats_of(fleet.guards[1]).redis_connects, connects);
    assert_int_equal(stats_of(fleet.guards[1]).fill_too_big, 1);
    assert_int_equal(FLEET_SUM(entry_rejected), 0);
    fleet_close();
    free(body);
}

/* ---- permissions ---- */

/* The very first one too: it is asked for again. */
TEST(hits_go_on_though_redis_cannot_save, P86)
{
    struct stack_redis redis;
    fault_init_apart(&redis);
    fleet_open(1);
    expect_row(0, "k", "k v1");
    assert_int_equal(chmod(redis.folder, 0555), 0);
    assert_true(stack_redis_do(&redis, "CONFIG SET save %s", "3600 1"));
    assert_true(stack_redis_do(&redis, "BGSAVE"));
    WAIT_UNTIL(stack_redis_mentions(&redis, "rdb_last_bgsave_status:err", "INFO persistence"));
    for (uint64_t hit = 1; hit <= 10; hit++) {
        expect_row(0, "k", "k v1");
        assert_int_equal(stats_of(fleet.guards[0]).hit, hit);
    }
    assert_int_equal(fleet.source.begun, 1);
    fleet_close();
    chmod(redis.folder, 0755);
    stack_redis_stop(&redis);
}

TEST(who_may_not_publish_is_told_so_and_keeps_nothing_near)
{
    char url[RIG_URL_BYTES];
    rig_permit("fickle", "on >PASSWORD ~* &* +@all -publish");
    rig_url_of("fickle", 0, url);
    fleet.config.redis_url = url;
    fleet_keep_near();
    fleet_add();
    WAIT_UNTIL(stats_of(fleet.guards[0]).wake_state == GUARD_REDIS_DENIED);
    expect_row(0, "k", "k v1");
    expect_row(0, "k", "k v1");
    assert_false(is_near(0, "k"));
    rig_permit("fickle", "+publish");
    WAIT_UNTIL(is_up(fleet.guards[0]));
    fleet_close();
    rig_forget("fickle");
}

/* ---- resources ---- */

TEST(a_closed_guard_leaves_no_descriptor_behind, P22)
{
    fleet_close(); /* with the gate of its settings */
    size_t before = count_descriptors();
    for (int i = 0; i < 10; i++) {
        fleet_init();
        fleet_open(2);
        expect_row(0, "k", "k v1");
        fleet_close();
        fleet_init();
        fleet_add();
        fleet_close(); /* at whatever stage of connecting it is */
    }
    assert_int_equal(count_descriptors(), before);
}

TEST_GROUP(.up = rig_start, .down = rig_stop, .before = fleet_before, .end = fleet_close);
