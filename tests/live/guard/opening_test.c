/* SPDX-License-Identifier: MIT */
/*
 * opening_test.c - the promises that guard.h opens with: threads, once, ownership, time, errors. That a call back
 * never comes from inside its call is asserted by guard_rig.h, and so by every test that has it.
 */
#include "guard_rig.h"

#include <dlfcn.h>
#include <errno.h>

enum { DAY_S = 86400, NOBODYS_ERRNO = 4711 };

/* ---- a wall clock that leaps ---- */

static _Atomic int64_t leapt_s;

/* Exported, so that the guard and what it uses find this one. */
__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *out)
{
    static int (*real)(clockid_t, struct timespec *);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, out);
    if (failed == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        out->tv_sec += (time_t)atomic_load(&leapt_s);
    return failed;
}

static bool clock_before(void)
{
    atomic_store(&leapt_s, 0);
    return fleet_before();
}

/* A day forward and a day back: with a load under way, a request that waits for it, and values in Redis and near. */
TEST(no_wall_clock_takes_part_in_any_decision, P182)
{
    static const int64_t leaps_s[] = {DAY_S, -DAY_S};
    static struct ask loading, waiting;
    char key[16];
    fleet_keep_near();
    fleet_open(2);
    for (size_t i = 0; i < 2; i++) {
        atomic_store(&leapt_s, 0);
        snprintf(key, sizeof key, "k%zu", i);
        expect_row(0, "stored", "stored v1");
        source_shut(&fleet.source);
        ask_start(0, &loading, key);
        WAIT_UNTIL(atomic_load(&fleet.source.running) == 1);
        ask_start(1, &waiting, key);
        WAIT_UNTIL(stats_of(fleet.guards[1]).lease_busy > i);
        atomic_store(&leapt_s, leaps_s[i]);
        struct guard_result stored = expect_row(0, "stored", "stored v1");
        assert_in_range(stored.age_ms, 0, RIG_LIMIT_MS);
        assert_true(is_leased(key));
        assert_int_equal(atomic_load(&loading.answers) + atomic_load(&waiting.answers), 0);
        source_open(&fleet.source);
        snprintf(key, sizeof key, "k%zu v1", i);
        expect_answer(&loading, key);
        expect_answer(&waiting, key);
    }
    assert_int_equal(atomic_load(&fleet.source.begun), 3);
    assert_int_equal(FLEET_SUM(timed_out) + FLEET_SUM(failed), 0);
}

/* ---- errors ---- */

/* What the call before has left. */
static void expect_errno(const char *call)
{
    if (errno != NOBODYS_ERRNO)
        fail_msg("%s has set errno to %d (%s)", call, errno, strerror(errno));
}

#define CALL(call)                                                                                           \
    do {                                                                                                     \
        errno = NOBODYS_ERRNO;                                                                               \
        call;                                                                                                \
        expect_errno(#call);                                                                                 \
    } while (0)

static void call_all(struct guard *guard)
{
    static struct ask ask;
    struct guard_hot_key hot[1];
    struct guard_stats stats;
    struct guard_invalidated invalidated;
    char cache[GUARD_CACHE_ID_BYTES + 1];
    enum guard_status status = GUARD_INVALID;
    struct guard_result result = {.value = NULL};
    const struct guard_request request = {.kind = fleet.kinds[0], .key = "k"};
    CALL(ask_start(0, &ask, "k"));
    ask_wait(&ask);
    ask_clear(&ask);
    atomic_fetch_add(&fleet.accepted[0], 1);
    CALL(status = guard_get_wait(guard, &request, &result));
    atomic_fetch_add(&fleet.answered, 1);
    assert_int_equal(status, GUARD_OK);
    CALL(guard_value_unref(&result.value));
    CALL(guard_invalidate(guard, KEY_CHANGE("k", 300)));
    CALL(guard_invalidate_wait(guard, TAG_CHANGE("t", 300), &invalidated));
    CALL(guard_stats(guard, &stats));
    CALL(guard_hot(guard, GUARD_HOT_WAIT, hot, 1));
    CALL(guard_cache(guard, cache));
    CALL(guard_cancel(guard, NULL, ask.ticket));
    CALL(guard_get(guard, NULL, NULL, NULL)); /* refused */
}

TEST(no_call_sets_errno_or_goes_by_it, P183)
{
    fleet.policy.tagged = true;
    fleet_open(1);
    call_all(fleet.guards[0]);
    rig_do("CLIENT KILL TYPE normal");
    call_all(fleet.guards[0]);
    stack_redis_pause(&rig_redis);
    CALL(guard_invalidate(fleet.guards[0], KEY_CHANGE("k", 50)));
    stack_redis_resume(&rig_redis);
}

/* ---- ownership ---- */

/* Its own memory, which is overwritten and freed as soon as the call has returned. */
static char *lent(const char *text)
{
    char *copy = strdup(text);
    assert_non_null(copy);
    return copy;
}

static void take_back(char *text)
{
    memset(text, '?', strlen(text));
    free(text);
}

TEST(arguments_are_copied_where_nothing_else_is_said, P181)
{
    static struct ask ask;
    char *url = lent(rig_redis.url), *name_space = lent(fleet.name_space), *key = lent("copied");
    fleet.config.redis_url = url;
    fleet.config.name_space = name_space;
    fleet_add();
    take_back(url);
    take_back(name_space);
    WAIT_UNTIL(is_up(fleet.guards[0]));
    uint64_t connects = stats_of(fleet.guards[0]).redis_connects;
    rig_do("CLIENT KILL TYPE normal SKIPME yes");
    WAIT_UNTIL(stats_of(fleet.guards[0]).redis_connects > connects && is_up(fleet.guards[0]));
    source_shut(&fleet.source);
    ask_start(0, &ask, key);
    take_back(key);
    source_open(&fleet.source);
    expect_answer(&ask, "copied v1");
    assert_true(is_cached("copied"));
}

/* A string that ends where another begins: what comes behind it is never read. */
TEST(a_key_and_a_tag_need_no_nul_where_their_length_is_said, P181)
{
    static const char *const texts[] = {"one, two", "two, three"};
    static const size_t lengths[] = {3, 3};
    struct guard_result result, results[2];
    struct guard_invalidated invalidated;
    fleet.policy.tagged = true;
    fleet.source.tag = "tag";
    fleet_open(1);
    const struct guard_request single = {.kind = fleet.kinds[0], .key = texts[0], .key_bytes = 3};
    const struct guard_request many = {
        .kind = fleet.kinds[0], .keys = texts, .keys_bytes = lengths, .count = 2};
    assert_int_equal(guard_get_wait(fleet.guards[0], &single, &result), GUARD_OK);
    assert_string_equal(result.value->body, "one v1");
    guard_value_unref(&result.value);
    assert_int_equal(guard_get_wait(fleet.guards[0], &many, results), GUARD_OK);
    assert_string_equal(results[1].value->body, "two v1");
    for (size_t i = 0; i < 2; i++)
        guard_value_unref(&results[i].value);
    assert_true(is_cached("one") && is_cached("two"));

    const struct guard_change key = {.key = texts[0], .key_bytes = 3}, tag = {.tag = "tags", .tag_bytes = 3};
    invalidated = rig_invalidate(0, &key);
    assert_true(invalidated.value_dropped && !is_cached("one"));
    invalidated = rig_invalidate(0, &tag);
    struct guard_request peek = {.kind = fleet.kinds[0], .key = "two", .flags = GUARD_PEEK};
    assert_int_equal(guard_get_wait(fleet.guards[0], &peek, &result), GUARD_MISS);
    atomic_fetch_add(&fleet.accepted[0], 4); /* keys, for the rig's own count */
    atomic_fetch_add(&fleet.answered, 4);
}

TEST_GROUP(.up = rig_start, .down = rig_stop, .before = clock_before, .end = fleet_close);
