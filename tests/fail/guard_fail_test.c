/* SPDX-License-Identifier: MIT */
/*
 * guard_fail_test.c - the life of a guard beside a real Redis, again and again; each time the next allocation
 * or system call fails.
 *
 * Expected of every single one: no crash, nothing lost (blocks and descriptors are counted), every accepted
 * get and invalidation answered once, a status that guard.h names, and, once nothing fails any more, a guard
 * that works again without help.
 *
 * Left out, and why; libuv is the loop of a host:
 *
 *     libuv     uv_loop_init(), pipe, eventfd   leaks its epoll descriptor when it cannot have them
 *     libuv     maybe_resize() (uv__io_start)   aborts when its table of watchers cannot grow: realloc()
 *     libuv     uv__io_poll(), epoll_ctl()      aborts when a descriptor that it accepted cannot be watched
 *     libuv     uv_async_send()                 aborts when its eventfd cannot be written
 *     hiredis   its own malloc()                not ours to count; redis_reader_next() reports what it reports
 */
#include "guard/adapters/libuv.h"
#include "tests/fail/failing.h"
#include "tests/live/guard/guard_rig.h"

enum { ASKS = 4, STREAK = 8, KEY_SIZE = 48 };

/* ---- a guard and those who ask it ---- */

struct life {
    void (*days)(struct life *life); /* what happens in it */
    unsigned run;
    struct guard_config config;
    struct guard_policy policy;
    struct source source;
    struct guard *guard;
    struct guard_kind *kind;
    atomic_uint accepted, answered;
    atomic_int askers; /* references that requests and loads have to their asker, which is this life */
    uv_loop_t loop;
    struct guard_loop *host;
    bool detached;
};

static void load_batch(struct guard_load *const *loads, size_t count, void *context)
{
    for (size_t i = 0; i < count; i++)
        source_finish(context, loads[i], 1);
}

/* A key says how its answer is kept: with a life of its own, shared, passed; or that it has a tag, or that its load
 * is deferred. */
static void load_kept(struct guard_load *load, void *context)
{
    static const struct {
        const char *prefix;
        struct guard_keep keep;
    } kept[] = {{"own", {.how = GUARD_STORE, .fresh_ms = 5000, .stale_ms = 100}},
                {"shared", {.how = GUARD_SHARE}},
                {"passed", {.how = GUARD_PASS, .pass_ms = 5000}}};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (strncmp(guard_load_key(load), kept[i].prefix, strlen(kept[i].prefix)) == 0)
            assert_int_equal(guard_load_keep(load, &kept[i].keep), GUARD_OK);
    if (strncmp(guard_load_key(load), "deferred", 8) == 0) {
        enum guard_status status = guard_load_defer(load, NULL, NULL, NULL);
        assert_true(status == GUARD_OK || status == GUARD_NO_MEMORY);
    }
    if (strncmp(guard_load_key(load), "tagged", 6) == 0) {
        enum guard_status status = guard_load_tag(load, "tag");
        assert_true(status == GUARD_OK || status == GUARD_NO_MEMORY);
        status = guard_load_meta(load, "meta", 4);
        assert_true(status == GUARD_OK || status == GUARD_NO_MEMORY);
    }
    source_load(load, context);
}

static const char *life_url; /* NULL: that of the Redis */

static void init_life(struct life *life, void (*days)(struct life *life))
{
    static unsigned runs;
    memset(life, 0, sizeof *life);
    life->days = days;
    life->run = ++runs;
    assert_int_equal(uv_loop_init(&life->loop), 0);
    source_init(&life->source);
    life->config = (struct guard_config)GUARD_CONFIG_DEFAULTS;
    life->config.redis_url = life_url != NULL ? life_url : rig_redis.url;
    life->config.name_space = "failing";
    life->config.redis_limit_ms = life_url != NULL ? 10 : 200;
    life->config.max_loads = 2;
    life->policy = (struct guard_policy)GUARD_POLICY_DEFAULTS;
    life->policy.loader = load_kept;
    life->policy.batch_loader = load_batch;
    life->policy.context = &life->source;
    life->policy.lease_ms = 600;
    life->policy.failure_ms = 10;
    life->policy.stale_ms = 1000;
    life->policy.tagged = true;
}

static void name_key(const struct life *life, const char *what, char key[KEY_SIZE])
{
    snprintf(key, KEY_SIZE, "%s:%u", what, life->run);
}

/* Everything that a get may end in when something fails on its way. */
static void check_answer(const struct guard_result *result)
{
    bool named = result->status == GUARD_OK || result->status == GUARD_ABSENT ||
                 result->status == GUARD_FAILED || result->status == GUARD_CANCELLED ||
                 result->status == GUARD_CLOSING || result->status == GUARD_NO_MEMORY ||
                 result->status == GUARD_MISS || result->status == GUARD_UNKNOWN;
    if (!named)
        fail_msg("answered %s", guard_status_name(result->status));
    if (result->failure == GUARD_FAILURE_INTERNAL) /* its loaders keep their contract */
        fail_msg("what fails in this process is told as a failure of the source");
    assert_true((result->status == GUARD_OK) == (result->value != NULL));
}

static void answered_one(void *context, const struct guard_result *result)
{
    struct life *life = context;
    check_answer(result);
    atomic_fetch_add(&life->answered, 1);
}

static enum guard_status get_waiting(struct life *life, const char *what)
{
    char key[KEY_SIZE];
    struct guard_result result;
    name_key(life, what, key);
    enum guard_status status =
        guard_get_wait(life->guard, &(struct guard_request){.kind = life->kind, .key = key}, &result);
    check_answer(&result);
    guard_value_unref(&result.value);
    return status;
}

static guard_ticket get_later(struct life *life, const char *what)
{
    char key[KEY_SIZE];
    guard_ticket ticket = 0;
    name_key(life, what, key);
    struct guard_request request = {
        .kind = life->kind, .key = key, .answered = answered_one, .context = life};
    enum guard_status status = guard_get(life->guard, &request, NULL, &ticket);
    assert_true(status == GUARD_OK ? ticket != 0 : status == GUARD_NO_MEMORY);
    atomic_fetch_add(&life->accepted, status == GUARD_OK);
    return ticket;
}

/* ---- its days ---- */

/* Present, again from Redis, absent, failing, and what the blocking form makes of them. */
static void ask_one_by_one(struct life *life)
{
    get_waiting(life, "row");
    get_waiting(life, "row");
    atomic_store(&life->source.verdict, SOURCE_ABSENT);
    get_waiting(life, "absent");
    get_waiting(life, "absent");
    atomic_store(&life->source.verdict, SOURCE_FAIL);
    get_waiting(life, "failing");
    atomic_store(&life->source.verdict, SOURCE_ROW);
}

/* Several at once behind one load, one of whom leaves. */
static void ask_together(struct life *life)
{
    guard_ticket tickets[ASKS];
    source_shut(&life->source);
    for (size_t i = 0; i < ASKS; i++)
        tickets[i] = get_later(life, i % 2 == 0 ? "even" : "odd");
    guard_cancel(life->guard, NULL, tickets[0]);
    source_open(&life->source);
    WAIT_UNTIL(atomic_load(&life->answered) == atomic_load(&life->accepted));
}

/* ---- many keys in one call ---- */

static void answered_many(void *context, const struct guard_result *results)
{
    struct life *life = context;
    for (size_t i = 0; i < ASKS; i++)
        check_answer(&results[i]);
    atomic_fetch_add(&life->answered, 1);
}

static void ask_many(struct life *life, const char *what, bool leave)
{
    char text[ASKS][KEY_SIZE], each[24];
    const char *keys[ASKS];
    struct guard_result results[ASKS];
    guard_ticket ticket = 0;
    for (size_t i = 0; i < ASKS; i++) {
        snprintf(each, sizeof each, "%s%zu", what, i);
        name_key(life, each, text[i]);
        keys[i] = text[i];
    }
    struct guard_request request = {
        .kind = life->kind, .keys = keys, .count = ASKS, .answered = answered_many, .context = life};
    enum guard_status status = guard_get_wait(life->guard, &request, results);
    assert_true(status == GUARD_OK || status == GUARD_NO_MEMORY);
    for (size_t i = 0; i < ASKS && status == GUARD_OK; i++) {
        check_answer(&results[i]);
        guard_value_unref(&results[i].value);
    }
    status = guard_get(life->guard, &request, NULL, &ticket);
    assert_true(status == GUARD_OK ? ticket != 0 : status == GUARD_NO_MEMORY);
    atomic_fetch_add(&life->accepted, status == GUARD_OK);
    if (leave)
        guard_cancel(life->guard, NULL, ticket);
    WAIT_UNTIL(atomic_load(&life->answered) == atomic_load(&life->accepted));
}

static void invalidated_one(void *context, const struct guard_invalidated *result)
{
    struct life *life = context;
    assert_true(result->status == GUARD_OK || result->status == GUARD_UNKNOWN ||
                result->status == GUARD_NO_MEMORY);
    atomic_fetch_add(&life->answered, 1);
}

static void invalidate(struct life *life)
{
    char key[KEY_SIZE];
    struct guard_invalidated result;
    name_key(life, "row", key);
    const char *const keys[] = {"one", key, "two"};
    enum guard_status status = guard_invalidate(
        life->guard, &(const struct guard_change){
                         .keys = keys, .keys_count = 3, .done = invalidated_one, .context = life});
    atomic_fetch_add(&life->accepted, status == GUARD_OK);
    assert_true(status == GUARD_OK || status == GUARD_NO_MEMORY);
    status = guard_invalidate_wait(life->guard, KEY_CHANGE(key, 0), &result);
    assert_true(status == GUARD_OK || status == GUARD_UNKNOWN || status == GUARD_NO_MEMORY);
    WAIT_UNTIL(atomic_load(&life->answered) == atomic_load(&life->accepted));
    get_waiting(life, "row");
}

/* ---- what loaders and requests may say ---- */

static void take_asker(void *asker)
{
    atomic_fetch_add(&((struct life *)asker)->askers, 1);
}

static void give_asker_back(void *asker)
{
    atomic_fetch_sub(&((struct life *)asker)->askers, 1);
}

static void wish(struct life *life, const char *what, unsigned flags)
{
    char key[KEY_SIZE];
    struct guard_result result;
    name_key(life, what, key);
    guard_get_wait(life->guard,
                   &(struct guard_request){.kind = life->kind,
                                           .key = key,
                                           .flags = flags,
                                           .asker = life,
                                           .asker_ref = take_asker,
                                           .asker_unref = give_asker_back},
                   &result);
    check_answer(&result);
    guard_value_unref(&result.value);
}

/* Several at once behind one load that passes: they part, and each has a load of its own. */
static void part(struct life *life)
{
    source_shut(&life->source);
    for (size_t i = 0; i < ASKS; i++)
        get_later(life, "passed-by-all");
    source_open(&life->source);
    WAIT_UNTIL(atomic_load(&life->answered) == atomic_load(&life->accepted));
}

static void expire_and_clear(struct life *life)
{
    char key[KEY_SIZE];
    struct guard_invalidated expired;
    struct guard_cleared cleared;
    name_key(life, "own", key);
    enum guard_status status = guard_expire_wait(life->guard, KEY_CHANGE(key, 0), &expired);
    assert_true(status == GUARD_OK || status == GUARD_UNKNOWN || status == GUARD_NO_MEMORY);
    wish(life, "own", 0);
    status = guard_clear_wait(life->guard, 1000, &cleared);
    assert_true(status == GUARD_OK || status == GUARD_UNKNOWN || status == GUARD_NO_MEMORY);
    status = guard_connected_wait(life->guard);
    assert_true(status == GUARD_OK || status == GUARD_UNKNOWN || status == GUARD_NO_MEMORY);
}

/* ---- on a host's loop ---- */

static void host_detached(void *context)
{
    struct life *life = context;
    life->detached = true;
}

static void get_on_host(struct life *life, const char *what, bool leave)
{
    char key[KEY_SIZE];
    guard_ticket ticket = 0;
    name_key(life, what, key);
    struct guard_request request = {
        .kind = life->kind, .key = key, .loop = life->host, .answered = answered_one, .context = life};
    enum guard_status status = guard_get(life->guard, &request, NULL, &ticket);
    assert_true(status == GUARD_OK || status == GUARD_NO_MEMORY);
    atomic_fetch_add(&life->accepted, status == GUARD_OK);
    if (leave)
        guard_cancel(life->guard, life->host, ticket);
}

static bool attach(struct life *life)
{
    struct guard_error error = {.text = ""};
    enum guard_status status = guard_loop_attach(life->guard, &life->loop, &life->host, &error);
    if (status == GUARD_OK)
        return true;
    assert_int_equal(status, GUARD_NO_MEMORY);
    assert_string_not_equal(error.text, "");
    return false;
}

static void detach(struct life *life)
{
    guard_loop_detach(&life->host, host_detached, life);
    while (!life->detached)
        uv_run(&life->loop, UV_RUN_ONCE);
}

static void live_on_host_only(struct life *life)
{
    if (attach(life))
        detach(life);
}

static void live_on_host(struct life *life)
{
    if (!attach(life))
        return;
    get_on_host(life, "row", false);
    get_on_host(life, "host", false);
    get_on_host(life, "host", true);
    while (atomic_load(&life->answered) < atomic_load(&life->accepted))
        uv_run(&life->loop, UV_RUN_ONCE);
    get_on_host(life, "row", false); /* now its own connection may be up */
    detach(life);
    assert_int_equal(atomic_load(&life->answered), atomic_load(&life->accepted));
}

/* ---- from beginning to end ---- */

static bool open_guard(struct life *life)
{
    struct guard_error error = {.text = ""};
    enum guard_status status = guard_open(&life->config, &life->guard, &error);
    if (status == GUARD_OK)
        return true;
    assert_int_equal(status, GUARD_NO_MEMORY);
    assert_int_equal(error.status, GUARD_NO_MEMORY);
    assert_string_not_equal(error.text, "");
    assert_null(life->guard);
    return false;
}

/* Once nothing fails any more it must work as if nothing had been. */
static void expect_health(struct life *life)
{
    failing_stop();
    WAIT_UNTIL(is_up(life->guard));
    assert_int_equal(get_waiting(life, "healthy"), GUARD_OK);
    assert_int_equal(get_waiting(life, "healthy"), GUARD_OK);
}

static void live_with_kind(struct life *life)
{
    get_waiting(life, "early"); /* not connected yet */
    WAIT_UNTIL(is_up(life->guard));
    ask_one_by_one(life);
    ask_together(life);
    invalidate(life);
    live_on_host(life);
    expect_health(life);
}

static void live_with_many(struct life *life)
{
    ask_many(life, "early", false); /* not connected yet */
    WAIT_UNTIL(is_up(life->guard));
    ask_many(life, "some", false);
    ask_many(life, "gone", true);
    expect_health(life);
}

static void change_policy(struct life *life)
{
    struct guard_error error = {.text = ""};
    struct guard_policy policy;
    guard_kind_get(life->kind, &policy);
    policy.fresh_ms *= 2;
    enum guard_status status = guard_kind_set(life->kind, &policy, &error);
    assert_true(status == GUARD_OK || status == GUARD_NO_MEMORY);
    assert_true((status == GUARD_OK) == (error.text[0] == '\0'));
}

static void live_with_wishes(struct life *life)
{
    WAIT_UNTIL(is_up(life->guard));
    wish(life, "own", GUARD_PEEK);
    wish(life, "own", 0);
    wish(life, "own", GUARD_PEEK);
    wish(life, "own", GUARD_REVALIDATE);
    wish(life, "shared", 0);
    wish(life, "passed", 0);
    wish(life, "passed", 0);
    wish(life, "deferred", 0);
    wish(life, "tagged", 0);
    wish(life, "tagged", 0);
    change_policy(life);
    part(life);
    expire_and_clear(life);
    expect_health(life);
    WAIT_UNTIL(atomic_load(&life->askers) == 0);
}

/* Nobody is there who could say where the masters are. */
static void live_without_masters(struct life *life)
{
    get_waiting(life, "row");
    live_on_host_only(life);
    failing_stop();
    assert_int_equal(get_waiting(life, "healthy"), GUARD_OK);
}

static void live(struct life *life)
{
    struct guard_error error = {.text = ""};
    if (!open_guard(life))
        return;
    if (guard_kind_add(life->guard, &life->policy, &life->kind, &error) == GUARD_OK)
        life->days(life);
    else
        assert_string_not_equal(error.text, "");
    assert_int_equal(guard_close(&life->guard, 1000), GUARD_OK);
    assert_int_equal(atomic_load(&life->answered), atomic_load(&life->accepted));
}

/* True: it came to a failure. The host's loop runs once more after the guard is gone: what an attempt to attach
 * has left there must not need it. */
static bool live_failing(enum failing what, void (*days)(struct life *life), unsigned first, unsigned streak)
{
    struct life life;
    failing_prepare();
    init_life(&life, days);
    failing_begin(what, first, streak);
    live(&life);
    uv_run(&life.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&life.loop), 0);
    source_clear(&life.source);
    return failing_end(first);
}

static void sweep(enum failing what, void (*days)(struct life *life), unsigned streak)
{
    SWEEP(first, live_failing(what, days, first, streak));
}

/* ---- the sweeps ---- */

TEST(any_allocation_may_fail)
{
    sweep(FAIL_MEMORY, live_with_kind, 1);
}

TEST(any_allocation_for_many_keys_may_fail)
{
    sweep(FAIL_MEMORY, live_with_many, 1);
}

TEST(any_allocation_for_what_may_be_wished_may_fail)
{
    sweep(FAIL_MEMORY, live_with_wishes, 1);
}

TEST(several_allocations_in_a_row_may_fail)
{
    sweep(FAIL_MEMORY, live_with_kind, STREAK);
}

static void sweep_without_masters(const char *url)
{
    static const enum failing WHATS[] = {FAIL_MEMORY, FAIL_SOCKET, FAIL_DESCRIPTOR, FAIL_THREAD};
    life_url = url;
    for (size_t i = 0; i < sizeof WHATS / sizeof *WHATS; i++)
        sweep(WHATS[i], live_without_masters, 1);
    sweep(FAIL_RANDOM, live_on_host_only, 1);
    life_url = NULL;
}

TEST(anything_may_fail_while_no_sentinel_is_there)
{
    sweep_without_masters("redis+sentinel://127.0.0.1:1,127.0.0.1:2/cache");
}

TEST(anything_may_fail_while_no_node_of_the_cluster_is_there)
{
    sweep_without_masters("redis+cluster://127.0.0.1:1,127.0.0.1:2");
}

TEST(any_socket_may_be_refused)
{
    sweep(FAIL_SOCKET, live_with_kind, 1);
}

TEST(any_connect_may_fail)
{
    sweep(FAIL_CONNECT, live_with_kind, 1);
}

TEST(any_write_may_fail_or_be_interrupted)
{
    sweep(FAIL_SEND, live_with_kind, 1);
    sweep(FAIL_SEND_SIGNAL, live_with_kind, 1);
}

TEST(any_read_may_fail_or_be_interrupted)
{
    sweep(FAIL_RECV, live_with_kind, 1);
    sweep(FAIL_RECV_SIGNAL, live_with_kind, 1);
}

TEST(descriptors_may_run_out)
{
    sweep(FAIL_DESCRIPTOR, live_with_kind, 1);
    sweep(FAIL_WATCH, live_with_kind, 1);
}

TEST(any_thread_may_be_refused)
{
    sweep(FAIL_THREAD, live_with_kind, 1);
}

TEST(a_guard_without_randomness_does_not_open)
{
    sweep(FAIL_RANDOM, live_on_host_only, 1);
    sweep(FAIL_RANDOM_SIGNAL, live_with_kind, 1);
}

/* As in a sandbox that is closed behind a process which has started. */
TEST(randomness_may_end_at_any_moment)
{
    sweep(FAIL_RANDOM, live_with_kind, UINT32_MAX);
}

static bool start(void)
{
    return failing_take_over_libuv() && rig_start();
}

TEST_GROUP(.up = start, .down = rig_stop);
