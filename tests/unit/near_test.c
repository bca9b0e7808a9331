/* SPDX-License-Identifier: MIT */
#include "guard/core/near.h"
#include "tests/support/test.h"

#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { NOW_US = 1000000, NEAR_MS = 1000, LATER_US = 2000000, FAR_MS = 8000, MIB = 1 << 20 };

static const uint8_t hash_key[16] = {7};

static struct near *near;

/* Another one, with so much room. */
static void subscribe_with(size_t max_bytes)
{
    near_free(&near);
    near = near_new(max_bytes, hash_key);
    assert_non_null(near);
    near_subscribed(near, true);
}

static bool subscribe(void)
{
    subscribe_with(MIB);
    return true;
}

static bool unsubscribe(void)
{
    near_free(&near);
    return near == NULL;
}

static struct near_lookup sent(const char *key, uint64_t now_us)
{
    return near_look_up(near, key, strlen(key), now_us);
}

/* body: NULL: absent. */
static void put_found(const struct near_lookup *lookup, const char *body, const char *tags)
{
    const struct guard_result found = {.status = body != NULL ? GUARD_OK : GUARD_ABSENT, .left_ms = FAR_MS};
    struct value *value = body != NULL ? value_new(body, strlen(body), "", 0, tags, strlen(tags)) : NULL;
    near_keep(lookup, &(struct near_life){.near_ms = NEAR_MS}, value, &found);
    value_unref(&value);
}

static void put(const char *key, const char *body)
{
    struct near_lookup lookup = sent(key, NOW_US);
    put_found(&lookup, body, "");
}

/* What a get finds: its body, "absent", or NULL. */
static const char *got(const char *key, uint64_t now_us)
{
    static _Thread_local char text[64];
    struct guard_result result;
    if (!near_answer(near, key, strlen(key), 0, now_us, &result))
        return NULL;
    snprintf(text, sizeof text, "%s", result.value != NULL ? result.value->body : "absent");
    guard_value_unref(&result.value);
    return text;
}

/* ---- an entry ---- */

TEST(what_was_put_is_found_until_its_time_is_up)
{
    put("k", "v1");
    assert_string_equal(got("k", NOW_US), "v1");
    assert_string_equal(got("k", LATER_US - 1), "v1");
    assert_null(got("k", LATER_US));
    assert_null(got("other", NOW_US));
}

TEST(an_entry_never_outlives_its_freshness)
{
    struct near_lookup lookup = sent("k", NOW_US);
    const struct guard_result found = {.status = GUARD_ABSENT, .left_ms = NEAR_MS};
    near_keep(&lookup, &(struct near_life){.near_ms = FAR_MS}, NULL, &found);
    assert_non_null(got("k", LATER_US - 1));
    assert_null(got("k", LATER_US));
}

TEST(an_absent_row_is_an_entry_too)
{
    put("k", NULL);
    assert_string_equal(got("k", NOW_US), "absent");
}

/* Another thread may put it in after the asker has looked at the clock. */
TEST(an_entry_is_never_younger_than_nothing)
{
    struct guard_result result;
    put("k", "v");
    assert_true(near_answer(near, "k", 1, 0, NOW_US - 1, &result));
    assert_int_equal(result.age_ms, 0);
    guard_value_unref(&result.value);
}

TEST(of_two_lookups_the_younger_value_stays)
{
    struct near_lookup early = sent("k", NOW_US), late = sent("k", NOW_US + 1);
    put_found(&late, "young", "");
    put_found(&early, "old", "");
    assert_string_equal(got("k", NOW_US + 1), "young");
}

/* ---- coherence ---- */

static void put_tagged(const char *key, const char *tags)
{
    struct near_lookup lookup = sent(key, NOW_US);
    put_found(&lookup, "v", tags);
}

TEST(a_dropped_tag_takes_all_that_have_it_and_no_others)
{
    struct near_counters counters;
    put_tagged("both", "a b");
    put_tagged("one", "b");
    put_tagged("other", "c");
    put("none", "v");
    near_heard_tag(near, "b", 1);
    assert_null(got("both", NOW_US));
    assert_null(got("one", NOW_US));
    assert_string_equal(got("other", NOW_US), "v");
    assert_string_equal(got("none", NOW_US), "v");
    near_heard_tag(near, "a", 1);
    assert_string_equal(got("other", NOW_US), "v");
    near_count(near, &counters);
    assert_int_equal(counters.dropped, 2);
    assert_int_equal(counters.entries, 2);
}

TEST(what_was_looked_up_before_its_tag_was_dropped_stays_out, P45)
{
    struct near_lookup before = sent("k", NOW_US);
    near_heard_tag(near, "a", 1);
    put_found(&before, "v", "a");
    assert_null(got("k", NOW_US));
    put_tagged("k", "a");
    assert_string_equal(got("k", NOW_US), "v");
    near_heard_tag(near, "b", 1);
    near_heard_tag(near, "b", 1);
    assert_string_equal(got("k", NOW_US), "v");
}

TEST(without_a_subscription_nothing_is_near_and_when_it_comes_all_goes)
{
    near_free(&near);
    near = near_new(MIB, hash_key);
    struct near_counters counters;
    put("k", "v1");
    assert_null(got("k", NOW_US));
    near_subscribed(near, true);
    assert_null(got("k", NOW_US));
    struct near_lookup before = sent("k", NOW_US);
    put("k", "v1");
    near_subscribed(near, false);
    put("k", "v1");
    assert_null(got("k", NOW_US));
    near_subscribed(near, true);
    put_found(&before, "v1", "");
    assert_null(got("k", NOW_US));
    near_count(near, &counters);
    assert_int_equal(counters.entries, 0);
    assert_int_equal(counters.cleared, 2);
}

/* ---- bounds ---- */

TEST(memory_stays_below_its_bound)
{
    struct near_counters counters;
    char key[32], body[200];
    memset(body, 'x', sizeof body - 1);
    body[sizeof body - 1] = '\0';
    for (int i = 0; i < 20000; i++) {
        snprintf(key, sizeof key, "k%d", i);
        put(key, body);
    }
    near_count(near, &counters);
    assert_true(counters.bytes <= MIB);
    assert_true(counters.bytes > MIB * 9 / 10);
    assert_int_equal(counters.entries + counters.evicted, 20000);
}

/* What malloc() itself says; a sanitizer's says nothing, and only glibc's can be asked. */
static size_t heap_bytes(void)
{
#ifdef __GLIBC__
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
#else
    test_skip("only glibc says what malloc() has taken");
    return 0;
#endif
}

TEST(what_malloc_and_the_table_take_is_within_the_bound_too)
{
    enum { ENTRIES = 100000 };
    char key[32];
    for (size_t body_bytes = 0; body_bytes < 64; body_bytes += 21) {
        near_free(&near);
        size_t before = heap_bytes();
        subscribe_with(8 * MIB);
        for (unsigned i = 0; i < ENTRIES; i++) {
            snprintf(key, sizeof key, "product:%u", i);
            put(key, &"................................................................"[64 - body_bytes]);
        }
        assert_true(heap_bytes() < before + 8 * MIB + MIB / 4);
    }
}

static void put_many(unsigned count)
{
    char key[32];
    for (unsigned i = 0; i < count; i++) {
        snprintf(key, sizeof key, "product:%u", i);
        put(key, "a short body");
    }
}

/* A subscription that comes up must hold up neither the thread that hears of it nor one that asks. */
TEST(what_a_new_subscription_lets_go_is_freed_bit_by_bit)
{
    enum { ENTRIES = 20000, SWEPT_MOST = 256 + 32 };
    subscribe_with(8 * MIB);
    struct near_counters before, after;
    unsigned sweeps = 0;
    bool more = true;
    put_many(ENTRIES);
    near_subscribed(near, false);
    near_count(near, &before);
    near_subscribed(near, true);
    near_count(near, &after);
    assert_int_equal(after.entries, 0);
    assert_int_equal(after.cleared, ENTRIES);
    assert_int_equal(after.bytes, before.bytes);
    for (; more && sweeps < ENTRIES; sweeps++) {
        uint64_t bytes = after.bytes;
        more = near_sweep(near);
        near_count(near, &after);
        assert_true(bytes - after.bytes <= before.bytes / ENTRIES * SWEPT_MOST * 2);
    }
    assert_int_equal(after.bytes, 0);
    assert_in_range(sweeps, ENTRIES / SWEPT_MOST, ENTRIES / 64);
    assert_false(near_sweep(near));
}

TEST(memory_stays_below_its_bound_while_that_is_freed)
{
    struct near_counters counters;
    size_t before = heap_bytes();
    for (int i = 0; i < 5; i++) {
        put_many(20000);
        near_subscribed(near, false);
        near_subscribed(near, true);
    }
    put_many(20000);
    near_count(near, &counters);
    assert_true(counters.bytes <= MIB && counters.bytes > MIB * 9 / 10);
    assert_true(heap_bytes() < before + MIB + MIB / 4);
    put("k", "v");
    assert_string_equal(got("k", NOW_US), "v");
}

TEST(a_value_too_large_for_its_shard_is_not_kept)
{
    subscribe_with(16 * 4096);
    char body[2048];
    memset(body, 'x', sizeof body - 1);
    body[sizeof body - 1] = '\0';
    put("k", body);
    assert_null(got("k", NOW_US));
    put("k", "small");
    assert_string_equal(got("k", NOW_US), "small");
}

/* ---- threads: no get returns what was dropped before it began ---- */

enum { KEYS = 4, ROUNDS = 20000, READERS = 3 };

static struct race {
    _Atomic uint32_t source[KEYS];  /* what the database holds */
    _Atomic uint32_t settled[KEYS]; /* its drop has returned */
    atomic_bool over;
    atomic_uint stale, hits;
} race;

static void *change(void *context)
{
    char key[8];
    (void)context;
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        unsigned k = i % KEYS;
        snprintf(key, sizeof key, "k%u", k);
        atomic_store(&race.source[k], i);
        near_stored(near, 0, key, strlen(key));
        atomic_store(&race.settled[k], i);
        for (unsigned hits = atomic_load(&race.hits), turns = 0; i % 500 == 0 && turns < 1000000; turns++) {
            if (atomic_load(&race.hits) != hits)
                break;
            sched_yield(); /* without a change for a while, a thread must have a hit */
        }
        if (i % 1000 == 0) {
            near_subscribed(near, false);
            near_subscribed(near, true);
        }
    }
    atomic_store(&race.over, true);
    return NULL;
}

static void read_once(unsigned k)
{
    char key[8], body[16];
    snprintf(key, sizeof key, "k%u", k);
    uint32_t least = atomic_load(&race.settled[k]);
    const char *found = got(key, NOW_US);
    if (found != NULL) {
        atomic_fetch_add(&race.hits, 1);
        if (strtoul(found, NULL, 10) < least)
            atomic_fetch_add(&race.stale, 1);
        return;
    }
    struct near_lookup lookup = sent(key, NOW_US);
    snprintf(body, sizeof body, "%u", (unsigned)atomic_load(&race.source[k]));
    sched_yield(); /* the drop may come here */
    put_found(&lookup, body, "");
}

static void *read_on(void *context)
{
    (void)context;
    for (unsigned k = 0; !atomic_load(&race.over); k = (k + 1) % KEYS)
        read_once(k);
    return NULL;
}

TEST(no_thread_gets_what_was_dropped_before_it_asked, P45)
{
    pthread_t writer, readers[READERS];
    for (size_t i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_on, NULL), 0);
    assert_int_equal(pthread_create(&writer, NULL, change, NULL), 0);
    pthread_join(writer, NULL);
    for (size_t i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    assert_int_equal(race.stale, 0);
    assert_true(race.hits > 0);
}

/* ---- eviction: SIEVE beside LRU, on a trace ---- */

enum {
    TRACE = 400000,
    POPULAR = 20000,
    CAPACITY = 1600,
    SCAN_EVERY = 20000,
    SCAN = 2000,
    IDS = POPULAR + TRACE
};

static uint32_t trace[TRACE];
static uint64_t dice = 88172645463325252u;

static double roll(void)
{
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return (double)(dice >> 11) / 9007199254740992.0;
}

/* Zipf's law with the exponent 0.9, one request in ten for an id that is never asked for again, and now and then a
 * crawler that walks through ids of its own. */
static void make_trace(void)
{
    static double cumulative[POPULAR];
    double sum = 0;
    uint32_t unique = POPULAR, scanning = 0;
    for (int i = 0; i < POPULAR; i++)
        cumulative[i] = sum += 1 / pow(i + 1, 0.9);
    for (int i = 0; i < TRACE; i++) {
        if (i % SCAN_EVERY == SCAN_EVERY - 1)
            scanning = SCAN;
        if (scanning > 0 || roll() < 0.1) {
            scanning -= scanning > 0;
            trace[i] = unique++;
            continue;
        }
        double wanted = roll() * sum;
        uint32_t low = 0, high = POPULAR - 1;
        while (low < high) {
            uint32_t middle = (low + high) / 2;
            if (cumulative[middle] < wanted)
                low = middle + 1;
            else
                high = middle;
        }
        trace[i] = low;
    }
}

/* LRU: by the time of the last hit. */
static double run_lru(void)
{
    static uint32_t seen[IDS], order[TRACE];
    size_t begin = 0, kept = 0, hits = 0;
    for (size_t i = 0; i < TRACE; i++) {
        uint32_t id = order[i] = trace[i];
        hits += seen[id] != 0;
        kept += seen[id] == 0;
        seen[id] = (uint32_t)i + 1;
        for (; kept > CAPACITY; begin++) {
            bool is_last = seen[order[begin]] == begin + 1;
            kept -= is_last;
            if (is_last)
                seen[order[begin]] = 0;
        }
    }
    return (double)hits / TRACE;
}

static size_t charged_for_one(void)
{
    struct near_counters counters;
    put("1234567", "");
    near_count(near, &counters);
    return (size_t)counters.bytes;
}

static double run_near(void)
{
    subscribe_with(CAPACITY * charged_for_one());
    struct near_counters counters;
    char key[16];
    for (size_t i = 0; i < TRACE; i++) {
        snprintf(key, sizeof key, "%07u", (unsigned)trace[i]);
        if (got(key, NOW_US) == NULL)
            put(key, "");
    }
    near_count(near, &counters);
    return (double)counters.hits[0] / TRACE;
}

TEST(on_a_skewed_trace_it_keeps_more_hits_than_lru)
{
    make_trace();
    double sieve = run_near(), lru = run_lru();
    print_message("hits of %d requests, room for %d of %d popular ids: SIEVE %.1f %%, LRU %.1f %%\n", TRACE,
                  CAPACITY, POPULAR, sieve * 100, lru * 100);
    assert_true(sieve > lru * 1.05);
}

TEST_GROUP(.before = subscribe, .after = unsubscribe);
