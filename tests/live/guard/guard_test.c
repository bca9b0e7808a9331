/* SPDX-License-Identifier: MIT */
/*
 * guard_test.c - what guard.h promises about asking and answering, with a real Redis.
 */
#include "guard/run/kind.h"
#include "guard_rig.h"
#include <hiredis/hiredis.h>

enum { CROWD = 50 };

/* ---- one load ---- */

TEST(a_missing_key_is_loaded_once_for_the_whole_fleet)
{
    static struct ask asks[2 * CROWD];
    fleet_open(2);
    source_shut(&fleet.source);
    for (size_t i = 0; i < 2 * CROWD; i++)
        ask_start(i % 2, &asks[i], "product:7");
    WAIT_UNTIL(FLEET_SUM(waiters) == 2 * CROWD);
    uint64_t busy = FLEET_SUM(lease_busy);
    WAIT_UNTIL(FLEET_SUM(lease_busy) > busy + 1); /* the last was asked when all were there */
    WAIT_UNTIL(FLEET_SUM(loads_running) == 1);    /* the other may hear first that it is leased */
    assert_int_equal(FLEET_SUM(flights), 2);
    source_open(&fleet.source);
    unsigned from[6] = {0};
    for (size_t i = 0; i < 2 * CROWD; i++) {
        ask_wait(&asks[i]);
        assert_row(&asks[i].result, "product:7 v1");
        assert_true(asks[i].result.stored);
        assert_true(asks[i].result.left_ms > 0 && asks[i].result.left_ms <= fleet.policy.fresh_ms);
        from[asks[i].result.source]++;
        ask_clear(&asks[i]);
    }
    assert_int_equal(fleet.source.begun, 1);
    assert_int_equal(from[GUARD_FROM_LOAD], 1);
    assert_int_equal(from[GUARD_FROM_FLIGHT], CROWD - 1);
    assert_int_equal(from[GUARD_FROM_FLEET], CROWD);
    assert_int_equal(FLEET_SUM(loaded), 1);
    assert_int_equal(FLEET_SUM(collapsed_process), CROWD - 1);
    assert_int_equal(FLEET_SUM(collapsed_fleet), CROWD);
    assert_int_equal(FLEET_SUM(fill_stored), 1);
    assert_false(is_leased("product:7"));
    uint64_t saved = 0;
    for (size_t i = 0; i < 2; i++) {
        struct guard_hot_key key;
        assert_int_equal(guard_hot(fleet.guards[i], GUARD_HOT_WAIT, &key, 1), 1);
        assert_string_equal(key.key, "product:7");
        assert_int_equal(guard_hot(fleet.guards[i], GUARD_HOT_COLLAPSED, &key, 1), 1);
        assert_string_equal(key.key, "product:7");
        saved += key.weight;
    }
    assert_int_equal(saved, 2 * CROWD - 1);
}

TEST(one_failed_load_answers_the_waiters_of_all_processes, P15, P30)
{
    static const enum guard_failure FAILURES[] = {GUARD_FAILURE_UNAVAILABLE, GUARD_FAILURE_REJECTED,
                                                  GUARD_FAILURE_TIMEOUT, GUARD_FAILURE_INTERNAL};
    for (size_t f = 0; f < sizeof FAILURES / sizeof *FAILURES; f++) {
        static struct ask asks[8];
        fleet_init();
        fleet.policy.failure_ms = 30000;
        fleet.source.verdict = SOURCE_FAIL;
        fleet.source.failure = FAILURES[f];
        fleet_open(2);
        source_shut(&fleet.source);
        for (size_t i = 0; i < 8; i++)
            ask_start(i % 2, &asks[i], "bad");
        WAIT_UNTIL(FLEET_SUM(waiters) == 8 && FLEET_SUM(lease_busy) > 0);
        source_open(&fleet.source);
        for (size_t i = 0; i < 8; i++) {
            ask_wait(&asks[i]);
            assert_int_equal(asks[i].result.status, GUARD_FAILED);
            assert_int_equal(asks[i].result.failure, FAILURES[f]);
            assert_in_range(asks[i].result.retry_ms, 1, 30000);
            assert_null(asks[i].result.value);
        }
        struct guard_result remembered = expect(1, "bad", GUARD_FAILED);
        assert_int_equal(remembered.source, GUARD_FROM_CACHE);
        assert_int_equal(fleet.source.begun, 1);
        assert_true(FLEET_SUM(failed_hit) > 0);
        fleet_close();
    }
}

/* ---- what a value may be ---- */

static void check_body(const char *body, size_t body_bytes)
{
    fleet_init();
    fleet.source.body = body;
    fleet.source.body_bytes = body_bytes;
    fleet.source.validator = "\"v 7~\"";
    fleet_open(2);
    for (size_t i = 0; i < 2; i++) {
        struct guard_result result = get_of(i, "k");
        assert_int_equal(result.status, GUARD_OK);
        assert_int_equal(result.source, i == 0 ? GUARD_FROM_LOAD : GUARD_FROM_CACHE);
        assert_int_equal(result.value->body_bytes, body_bytes);
        assert_memory_equal(result.value->body, body, body_bytes);
        assert_int_equal(result.value->body[body_bytes], 0);
        assert_string_equal(result.value->validator, "\"v 7~\"");
        guard_value_unref(&result.value);
    }
    assert_int_equal(fleet.source.begun, 1);
}

TEST(a_body_may_be_empty_and_hold_any_bytes, P33)
{
    static const char BYTES[] = "a\0b\r\n$5\r\n}{*1\r\n\xff\xfe\x80";
    check_body("", 0);
    fleet_close();
    check_body(BYTES, sizeof BYTES);
}

TEST(a_body_may_have_the_largest_size_but_one_more_byte_is_not_cached, P33)
{
    enum { MOST = 1 << 16 };
    static char body[MOST + 1];
    memset(body, 'x', sizeof body);
    fleet.config.max_value_bytes = MOST;
    fleet.policy.failure_ms = 30000;
    fleet.source.body = body;
    fleet.source.body_bytes = MOST;
    fleet_open(2);
    struct guard_result most = get_of(0, "most");
    assert_int_equal(most.value->body_bytes, MOST);
    assert_true(most.stored);
    guard_value_unref(&most.value);
    most = get_of(1, "most");
    assert_int_equal(most.source, GUARD_FROM_CACHE);
    guard_value_unref(&most.value);

    fleet.source.body_bytes = MOST + 1;
    for (size_t i = 0; i < 2; i++) {
        struct guard_result more = get_of(i, "more");
        assert_int_equal(more.status, GUARD_OK);
        assert_int_equal(more.value->body_bytes, MOST + 1);
        assert_false(more.stored);
        assert_int_equal(more.left_ms, 0);
        guard_value_unref(&more.value);
    }
    assert_false(is_cached("more"));
    assert_int_equal(FLEET_SUM(fill_too_big), 1);
    assert_int_equal(FLEET_SUM(lease_acquired), 2); /* the mark spares the second one the lease */
}

TEST(a_value_outlives_its_callback_and_the_guard)
{
    fleet_open(1);
    struct guard_result result = get_of(0, "k");
    const struct guard_value *mine = guard_value_ref(result.value);
    guard_value_unref(&result.value);
    fleet_close();
    assert_string_equal(mine->body, "k v1");
    assert_string_equal(mine->validator, "");
    guard_value_unref(&mine);
    assert_null(mine);
    guard_value_unref(&mine);
}

/* ---- keys ---- */

TEST(a_key_may_have_any_bytes_and_4096_of_them)
{
    char key[4097], row[4200];
    fleet_open(1);
    expect_row(0, "sp ce}{\n\xc3\xa4%", "sp ce}{\n\xc3\xa4% v1");
    memset(key, 'k', sizeof key);
    key[4096] = '\0';
    snprintf(row, sizeof row, "%s v1", key);
    expect_row(0, key, row);
}

/* ---- loaders ---- */

TEST(a_load_past_its_limit_is_cancelled_and_fails_as_timeout)
{
    enum { LIMIT_MS = 1000 };
    fleet.policy.load_limit_ms = LIMIT_MS;
    fleet_open(1);
    source_shut(&fleet.source);
    struct guard_result result = expect(0, "slow", GUARD_FAILED);
    assert_int_equal(result.failure, GUARD_FAILURE_TIMEOUT);
    WAIT_UNTIL(fleet.source.saw_cancel == 1);
    assert_in_range(fleet.source.left_ms, 0, LIMIT_MS);
    assert_int_equal(stats_of(fleet.guards[0]).load_cancelled, 1);
}

TEST(a_long_load_keeps_its_lease_by_renewing_it)
{
    static struct ask asks[2];
    fleet.config.redis_limit_ms = 1500;
    fleet.policy.lease_ms = 4500; /* it may be three seconds late */
    fleet_open(2);
    source_shut(&fleet.source);
    ask_start(0, &asks[0], "k");
    WAIT_UNTIL(fleet.source.begun == 1);
    assert_in_range(fleet.source.left_ms, 1, fleet.policy.load_limit_ms);
    ask_start(1, &asks[1], "k");
    WAIT_UNTIL(stats_of(fleet.guards[0]).lease_renewed >= 4); /* longer than the lease */
    assert_int_equal(fleet.source.begun, 1);
    source_open(&fleet.source);
    for (size_t i = 0; i < 2; i++)
        expect_answer(&asks[i], "k v1");
    assert_int_equal(fleet.source.begun, 1);
    assert_int_equal(FLEET_SUM(lease_lost), 0);
}

static void read_lease(const char *format, char uuid[static 37])
{
    char begin[38];
    assert_true(stack_redis_text(&rig_redis, begin, sizeof begin, format, fleet.name_space));
    assert_int_equal(strlen(begin), 37);
    snprintf(uuid, 37, "%.36s", begin);
}

TEST(every_attempt_has_a_token_of_its_own)
{
    static struct ask early, late;
    char first[37], second[37];
    fleet_open(1);
    source_shut(&fleet.source);
    ask_start(0, &early, "k");
    WAIT_UNTIL(fleet.source.begun == 1);
    read_lease("GET csg1:{%s:k}:l", first);
    assert_int_equal(guard_invalidate(fleet.guards[0], KEY_CHANGE("k", RIG_LIMIT_MS)), GUARD_OK);
    WAIT_UNTIL(stats_of(fleet.guards[0]).lease_lost == 1);
    ask_start(0, &late, "k");
    WAIT_UNTIL(stats_of(fleet.guards[0]).lease_acquired == 2);
    source_open(&fleet.source);
    expect_answer(&late, "k v1");
    expect_answer(&early, "k v1");
    read_lease("GET csg1:{%s:k}:v", second); /* an entry begins with the UUID it was filled under */
    assert_string_not_equal(first, second);
}

/* ---- deadlines, limits, cancelling ---- */

/* Nothing tells from outside at which stage a cancellation meets its get: all of them are met by many. */
TEST(a_get_can_be_cancelled_at_any_stage, P14, P180)
{
    enum { GETS = 2000 };
    static struct ask asks[GETS];
    char key[16];
    fleet_open(1);
    unsigned cancelled = 0;
    for (size_t i = 0; i < GETS; i++) {
        snprintf(key, sizeof key, "c%zu", i % 50);
        ask_start(0, &asks[i], key);
        if (i >= i % 7)
            guard_cancel(fleet.guards[0], NULL, asks[i - i % 7].ticket);
    }
    for (size_t i = 0; i < GETS; i++) {
        ask_wait(&asks[i]);
        assert_true(asks[i].result.status == GUARD_OK || asks[i].result.status == GUARD_CANCELLED);
        cancelled += asks[i].result.status == GUARD_CANCELLED;
        ask_clear(&asks[i]);
    }
    assert_true(cancelled > 0);
    WAIT_UNTIL(stats_of(fleet.guards[0]).cancelled == cancelled);
}

/* ---- threads ---- */

struct caller {
    size_t guard;
    pthread_t thread;
};

static void *call_often(void *context)
{
    struct caller *caller = context;
    char key[16], row[24];
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "k%d", i % 25);
        snprintf(row, sizeof row, "%s v1", key);
        expect_row(caller->guard, key, row);
    }
    return NULL;
}

TEST(any_thread_may_ask_and_block, P16, P179)
{
    struct caller callers[8];
    fleet_open(2);
    for (size_t i = 0; i < 8; i++) {
        callers[i] = (struct caller){.guard = i % 2};
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call_often, &callers[i]), 0);
    }
    for (size_t i = 0; i < 8; i++)
        pthread_join(callers[i].thread, NULL);
    assert_int_equal(fleet.source.begun, 25);
}

/* Asks for the next key from inside the callback of the one before. */
struct chain {
    struct guard *guard;
    atomic_uint links;
    pthread_t thread;
};

static void chain_answered(void *context, const struct guard_result *result)
{
    struct chain *chain = context;
    char key[16];
    assert_int_equal(result->status, GUARD_OK);
    atomic_fetch_add(&fleet.answered, 1);
    if (chain->links > 0)
        assert_true(pthread_equal(chain->thread, pthread_self()));
    chain->thread = pthread_self();
    if (atomic_fetch_add(&chain->links, 1) == 9)
        return;
    snprintf(key, sizeof key, "link%u", chain->links);
    struct guard_request request = {
        .kind = fleet.kinds[0], .key = key, .answered = chain_answered, .context = chain};
    atomic_fetch_add(&fleet.accepted[0], 1);
    assert_int_equal(guard_get(chain->guard, &request, NULL, NULL), GUARD_OK);
    guard_cancel(chain->guard, NULL, 0);
    assert_int_equal(guard_invalidate(chain->guard, KEY_CHANGE("nothing", 0)), GUARD_OK);
}

TEST(a_callback_may_ask_cancel_and_invalidate)
{
    fleet_open(1);
    struct chain chain = {.guard = fleet.guards[0]};
    struct guard_request request = {
        .kind = fleet.kinds[0], .key = "link0", .answered = chain_answered, .context = &chain};
    fleet.accepted[0] = 1;
    assert_int_equal(guard_get(chain.guard, &request, NULL, NULL), GUARD_OK);
    WAIT_UNTIL(chain.links == 10);
    assert_false(pthread_equal(chain.thread, pthread_self()));
}

/* ---- a policy changed while running ---- */

static void assert_refused_change(const struct guard_policy *policy, const char *field)
{
    struct guard_error error = {.text = ""};
    struct guard_policy before, after;
    guard_kind_get(fleet.kinds[0], &before);
    const struct guard_policy *version = kind_policy(fleet.kinds[0]);
    assert_int_equal(guard_kind_set(fleet.kinds[0], policy, &error), GUARD_INVALID);
    if (strstr(error.text, field) == NULL)
        fail_msg("\"%s\" does not name %s", error.text, field);
    assert_int_equal(guard_kind_set(fleet.kinds[0], policy, NULL), GUARD_INVALID);
    guard_kind_get(fleet.kinds[0], &after);
    assert_memory_equal(&after, &before, sizeof after);
    assert_ptr_equal(kind_policy(fleet.kinds[0]), version);
}

static void fails_by_itself(struct guard_load *load, void *context)
{
    (void)context;
    guard_load_fail(load, GUARD_FAILURE_REJECTED);
}

static void other_batch_loader(struct guard_load *const *loads, size_t count, void *context)
{
    (void)loads, (void)count, (void)context;
}

TEST(what_cannot_change_in_a_policy_is_refused_by_name, P146)
{
    enum { WRONG = 7 };
    struct guard_policy wrong[WRONG];
    static const char *const FIELDS[WRONG] = {"policy.loader", "batch_loader", "context", "tagged",
                                              "policy.name",   "fresh_ms",     "near_ms"};
    fleet.config.near_bytes = 0;
    fleet_open(1);
    for (size_t i = 0; i < WRONG; i++)
        guard_kind_get(fleet.kinds[0], &wrong[i]);
    wrong[0].loader = fails_by_itself;
    wrong[1].batch_loader = other_batch_loader;
    wrong[2].context = &fleet;
    wrong[3].tagged = true;
    wrong[4].name = "another";
    wrong[5].fresh_ms = 0;
    wrong[6].near_ms = 1;
    for (size_t i = 0; i < WRONG; i++)
        assert_refused_change(&wrong[i], FIELDS[i]);
    assert_refused_change(NULL, "struct_size");
}

TEST(an_equal_policy_makes_no_version_and_a_name_may_be_left_out)
{
    struct guard_policy policy;
    fleet_open(1);
    const struct guard_policy *version = kind_policy(fleet.kinds[0]);
    guard_kind_get(fleet.kinds[0], &policy);
    assert_string_equal(policy.name, guard_kind_name(fleet.kinds[0]));
    assert_int_equal(guard_kind_set(fleet.kinds[0], &policy, NULL), GUARD_OK);
    policy.name = NULL;
    assert_int_equal(guard_kind_set(fleet.kinds[0], &policy, NULL), GUARD_OK);
    assert_ptr_equal(kind_policy(fleet.kinds[0]), version);
    policy.abandon = !policy.abandon;
    assert_int_equal(guard_kind_set(fleet.kinds[0], &policy, NULL), GUARD_OK);
    assert_ptr_not_equal(kind_policy(fleet.kinds[0]), version);
    guard_kind_get(fleet.kinds[0], &policy);
    assert_string_equal(policy.name, guard_kind_name(fleet.kinds[0]));
}

TEST(a_changed_policy_is_for_what_begins_after_it, P146)
{
    static struct ask before, after;
    struct guard_policy policy;
    fleet_open(1);
    source_shut(&fleet.source);
    ask_start(0, &before, "k");
    WAIT_UNTIL(fleet.source.begun == 1);
    guard_kind_get(fleet.kinds[0], &policy);
    policy.deadline_ms = 20;
    policy.fresh_ms = 5000;
    assert_int_equal(guard_kind_set(fleet.kinds[0], &policy, NULL), GUARD_OK);
    ask_start(0, &after, "k"); /* joins the load, with its own patience */
    ask_wait(&after);
    assert_int_equal(after.result.status, GUARD_TIMEOUT);
    assert_int_equal(atomic_load(&before.answers), 0);
    source_open(&fleet.source);
    ask_wait(&before);
    assert_row(&before.result, "k v1");
    assert_true(before.result.left_ms > 5000); /* its load keeps the life it began with */
    ask_clear(&before);
    policy.deadline_ms = fleet.policy.deadline_ms;
    assert_int_equal(guard_kind_set(fleet.kinds[0], &policy, NULL), GUARD_OK);
    assert_true(expect_row(0, "other", "other v1").left_ms <= 5000);
}

static void *change_often(void *context)
{
    const atomic_bool *over = context;
    struct guard_policy policy;
    guard_kind_get(fleet.kinds[0], &policy);
    for (uint32_t i = 0; !atomic_load(over) && i < 20000; i++) {
        policy.stale_ms = i % 3 * 1000;
        policy.soft_ms = i % 3 * 10;
        policy.early_percent = i % 2 * 10000;
        assert_int_equal(guard_kind_set(fleet.kinds[0], &policy, NULL), GUARD_OK);
    }
    return NULL;
}

TEST(a_policy_may_be_changed_by_any_thread_under_load, P146)
{
    struct caller callers[4];
    pthread_t changer;
    atomic_bool over = false;
    fleet_open(2);
    assert_int_equal(pthread_create(&changer, NULL, change_often, &over), 0);
    for (size_t i = 0; i < 4; i++) {
        callers[i] = (struct caller){.guard = i % 2};
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call_often, &callers[i]), 0);
    }
    for (size_t i = 0; i < 4; i++)
        pthread_join(callers[i].thread, NULL);
    atomic_store(&over, true);
    pthread_join(changer, NULL);
}

TEST(a_kind_has_a_name_of_its_own)
{
    static const char *const WRONG[] = {"", "Upper", "with space", "a23456789_123456789_123456789_123"};
    struct guard_error error = {.text = ""};
    struct guard_kind *kind = NULL, *other = NULL;
    fleet_open(1);
    assert_string_equal(guard_kind_name(fleet.kinds[0]), "kind0");
    struct guard_policy policy = fleet.policy;
    char name[] = "users";
    policy.name = name;
    assert_int_equal(guard_kind_add(fleet.guards[0], &policy, &kind, &error), GUARD_OK);
    name[0] = 'x';
    assert_string_equal(guard_kind_name(kind), "users");
    policy.name = "users";
    assert_int_equal(guard_kind_add(fleet.guards[0], &policy, &other, &error), GUARD_INVALID);
    assert_non_null(strstr(error.text, "users"));
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        policy.name = WRONG[i];
        assert_int_equal(guard_kind_add(fleet.guards[0], &policy, &other, &error), GUARD_INVALID);
        assert_non_null(strstr(error.text, "guard_policy.name"));
    }
    assert_null(other);
}

/* ---- opening ---- */

TEST(a_wrong_setting_is_refused_by_name)
{
    struct guard *guard = NULL;
    struct guard_config wrong[] = {fleet.config, fleet.config, fleet.config};
    static const char *const NAMES[] = {"struct_size", "redis_url", "max_loads"};
    wrong[0].struct_size = 3;
    wrong[1].redis_url = "http://example.org";
    wrong[2].max_loads = 0;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct guard_error error = {.text = ""};
        assert_int_equal(guard_open(&wrong[i], &guard, &error), GUARD_INVALID);
        assert_int_equal(error.status, GUARD_INVALID);
        if (strstr(error.text, NAMES[i]) == NULL)
            fail_msg("\"%s\" does not name %s", error.text, NAMES[i]);
        assert_null(guard);
        assert_int_equal(guard_open(&wrong[i], &guard, NULL), GUARD_INVALID);
    }
    assert_int_equal(guard_open(NULL, &guard, NULL), GUARD_INVALID);
}

/* ---- calls that block, where nobody may wait ---- */

static struct {
    atomic_uint calls, refused;
    atomic_bool says_which;
} waited;

static void try_to_wait(void)
{
    atomic_fetch_add(&waited.refused, rig_blocking_refused(0));
    atomic_fetch_add(&waited.calls, 1);
}

static void wait_when_answered(void *context, const struct guard_result *result)
{
    try_to_wait();
    ask_answered(context, result);
}

static void wait_when_changed(void *context, const struct guard_invalidated *result)
{
    (void)context;
    (void)result;
    try_to_wait();
}

static void wait_when_cleared(void *context, const struct guard_cleared *result)
{
    (void)context;
    (void)result;
    try_to_wait();
}

static void wait_when_refreshed(void *context, const struct guard_refreshed *result)
{
    (void)context;
    (void)result;
    try_to_wait();
}

static void wait_when_connected(void *context, enum guard_status status)
{
    (void)context;
    (void)status;
    try_to_wait();
}

static void wait_when_told(void *context, const struct guard_event *event)
{
    (void)context;
    if (event->what == GUARD_EVENT_LOAD_ENDED)
        try_to_wait();
}

/* A line is said inside a call that is wrong, on whatever thread that is. */
static void wait_when_a_key_is_wrong(void *context, const char *text, bool good)
{
    (void)context;
    (void)good;
    if (strstr(text, "guard_get_wait: it blocks, and this is a callback") != NULL)
        atomic_store(&waited.says_which, true);
    if (strstr(text, "guard_refresh") != NULL)
        try_to_wait();
}

static void expect_refused(unsigned calls)
{
    WAIT_UNTIL(atomic_load(&waited.calls) == calls);
    assert_int_equal(waited.refused, calls * RIG_BLOCKING);
}

TEST(in_a_callback_whatever_blocks_is_refused, P162, P179)
{
    static struct ask ask;
    const char *const keys[] = {"warm"};
    struct guard_refresh_request refresh = {.keys = keys, .count = 0, .done = wait_when_refreshed};
    memset(&waited, 0, sizeof waited);
    fleet.config.log = wait_when_a_key_is_wrong;
    fleet.config.event = wait_when_told;
    fleet_open(1);
    struct guard *guard = fleet.guards[0];
    struct guard_request request = {
        .kind = fleet.kinds[0], .key = "k", .answered = wait_when_answered, .context = &ask};
    memset(&ask, 0, sizeof ask);
    atomic_fetch_add(&fleet.accepted[0], 1);
    assert_int_equal(guard_get(guard, &request, NULL, NULL), GUARD_OK);
    ask_wait(&ask);
    expect_refused(2); /* the event of its load, and its answer */
    ask_clear(&ask);
    struct guard_change change = {.key = "k", .done = wait_when_changed};
    assert_int_equal(guard_invalidate(guard, &change), GUARD_OK);
    expect_refused(3);
    assert_int_equal(guard_clear(guard, 0, wait_when_cleared, NULL), GUARD_OK);
    expect_refused(4);
    assert_int_equal(guard_connected(guard, wait_when_connected, NULL), GUARD_OK);
    expect_refused(5);
    refresh.kind = fleet.kinds[0];
    assert_int_equal(guard_refresh(guard, &refresh), GUARD_INVALID); /* the line */
    expect_refused(6);
    assert_true(waited.says_which);
    expect_row(0, "k", "k v1"); /* the guard is there, and this thread may wait again */
}

static void load_and_wait(struct guard_load *load, void *context)
{
    struct guard *closing = fleet.guards[0];
    const struct guard_request request = {.kind = fleet.kinds[0], .key = "other"};
    struct guard_result result;
    struct guard_invalidated changed;
    (void)context;
    unsigned refused = guard_close(&closing, 0) == GUARD_INVALID;
    refused += guard_get_wait(fleet.guards[0], &request, &result) == GUARD_INVALID;
    refused += guard_invalidate_wait(fleet.guards[0], KEY_CHANGE("other", 0), &changed) != GUARD_OK;
    atomic_store(&waited.refused, refused);
    guard_load_absent(load);
}

TEST(in_a_loader_its_own_guard_is_neither_waited_for_nor_closed, P67, P162)
{
    memset(&waited, 0, sizeof waited);
    fleet.config.log = guard_log_none;
    fleet.policy.loader = load_and_wait;
    fleet_open(1);
    expect(0, "k", GUARD_ABSENT);
    assert_int_equal(waited.refused, 2);
}

TEST_GROUP(.up = rig_start, .down = rig_stop, .before = fleet_before, .end = fleet_close);
