/* SPDX-License-Identifier: MIT */
/*
 * core_shards_test.c - several masters, each with its part of the keys: what one of them does not answer is no matter
 * of the others. The test says which shard a key is of: the digit that it begins with.
 */
#include "core_bench.h"
#include "guard/core/breaker.h"

enum { SHARD_OF_TAGS = 10, SHARD_OF_PERMITS, SHARDS_HERE };

static struct {
    unsigned offset; /* of all shards: a reshard in one stroke */
    unsigned asked;
} map;

static unsigned shard_of(void *context, bool invalidated, const char *encoded, size_t encoded_bytes)
{
    (void)invalidated;
    assert_ptr_equal(context, &map);
    map.asked++;
    if (encoded_bytes == sizeof TAGS_KEY - 1 && memcmp(encoded, TAGS_KEY, encoded_bytes) == 0)
        return SHARD_OF_TAGS;
    if (encoded_bytes == sizeof PERMIT_KEY - 1 && memcmp(encoded, PERMIT_KEY, encoded_bytes) == 0)
        return SHARD_OF_PERMITS;
    return ((unsigned char)encoded[0] - (unsigned)'0' + map.offset) % SHARDS_HERE;
}

static bool shards_up(void)
{
    bench_up();
    map.offset = map.asked = 0;
    bench.config.shard_of = shard_of;
    bench.config.shard_context = &map;
    bench_open();
    for (unsigned shard = 0; shard < SHARDS_HERE; shard++)
        core_link(bench.core, bench.now_us, shard, true);
    return true;
}

static void invalidate(struct core_invalidation *invalidation, const char *name, bool of_tag)
{
    *invalidation = (struct core_invalidation){
        .key = {name, strlen(name), name, strlen(name)}, .of_tag = of_tag, .deadline_us = UINT64_MAX};
    assert_int_equal(core_invalidate(bench.core, bench.now_us, invalidation), GUARD_OK);
    drain();
}

static void go_without(const char *key)
{
    static struct caller caller;
    get(key, &caller);
    loaded_for(expect(CORE_LOAD), "bare", &caller, GUARD_FROM_LOAD);
}

static struct seen *load_with_lease(const char *key, struct caller *caller)
{
    struct seen *load = begin_load(key, caller);
    finish_load(load, "kept");
    answered_value(caller, "kept", GUARD_FROM_LOAD);
    return load;
}

/* Commands about this key stay without an answer until the breaker of its shard opens. */
static void open_breaker_of(const char *key)
{
    static struct caller caller;
    for (unsigned i = 0; i < BREAKER_TRIP;) {
        get(key, &caller);
        struct seen *seen = next_seen();
        for (; seen->action.kind == CORE_ACQUIRE; seen = next_seen(), i++)
            reply_kind(seen, REPLY_UNSENT);
        loaded_for(seen, "bare", &caller, GUARD_FROM_LOAD);
    }
    go_without(key);
}

static struct caller caller;

/* ---- breakers ---- */

TEST(one_dead_master_opens_its_own_breaker_and_no_other, P141)
{
    open_breaker_of("1 is away");
    for (int i = 0; i < 5; i++) {
        load_with_lease("0 lives", &caller);
        load_with_lease("2 lives", &caller);
        go_without("1 is away");
    }
    assert_true(stats_of().breaker_open);
    assert_int_equal(stats_of().breaker_opened, 1);
    open_breaker_of("2 follows");
    load_with_lease("0 lives", &caller);
    assert_int_equal(stats_of().breaker_opened, 2); /* of all */
}

/* Were it asked twice, the probe of one master could be sent to another, and none would ever be sent to the first. */
TEST(the_shard_of_a_command_is_asked_for_once)
{
    static struct core_invalidation invalidation;
    get("0", &caller);
    assert_int_equal(map.asked, 1);
    invalidate(&invalidation, "0", false);
    assert_int_equal(map.asked, 2);
}

TEST(a_new_link_ends_the_pause_of_its_own_master)
{
    open_breaker_of("1");
    open_breaker_of("2");
    core_link(bench.core, bench.now_us, 1, false);
    core_link(bench.core, bench.now_us, 2, false);
    core_link(bench.core, bench.now_us, 1, true);
    load_with_lease("1", &caller);
    go_without("2");
    assert_true(stats_of().breaker_open);
}

TEST(a_shard_without_keys_is_no_open_breaker_and_its_number_begins_anew)
{
    open_breaker_of("1");
    core_shard_gone(bench.core, 1);
    assert_false(stats_of().breaker_open);
    assert_int_equal(stats_of().breaker_opened, 1);
    load_with_lease("1", &caller);
}

/* ---- tags and permits ---- */

static void open_with_permits(void)
{
    bench.config.permits = 4;
    bench.config.permit_ms = 1000;
    bench_open();
    for (unsigned shard = 0; shard < SHARDS_HERE; shard++)
        core_link(bench.core, bench.now_us, shard, true);
}

/* The lease is granted, the permit is requested and stays without an answer; the load starts all the same. */
static void load_without_an_answer_about_its_permit(const char *key)
{
    reply_kind(lookup_of(key, &caller), REPLY_LEASE);
    struct seen *seen = next_seen();
    for (; seen->action.kind != CORE_LOAD; seen = next_seen())
        reply_kind(seen, REPLY_UNSENT);
    loaded(seen, "row");
    for (seen = next_seen(); seen->action.kind != CORE_FILL; seen = next_seen())
        reply_kind(seen, REPLY_UNSENT);
    reply_code(seen, 1);
    answered_value(&caller, "row", GUARD_FROM_LOAD);
}

TEST(without_the_master_of_the_permits_loads_start_without_and_keep_their_leases)
{
    open_with_permits();
    while (!stats_of().breaker_open)
        load_without_an_answer_about_its_permit("0");
    uint64_t stored = stats_of().fill_stored;
    struct seen *load = load_with_lease("0", &caller);
    assert_string_equal(load->permit, "");
    assert_int_equal(stats_of().fill_stored, stored + 1);
}

TEST(only_a_link_to_the_master_of_the_permits_renews_them)
{
    open_with_permits();
    reply_kind(lookup_of("1", &caller), REPLY_LEASE);
    reply_code(expect(CORE_PERMIT_ACQUIRE), 1);
    expect(CORE_LOAD);
    core_link(bench.core, bench.now_us, 1, true);
    pass(0);
    sent_nothing();
    core_link(bench.core, bench.now_us, SHARD_OF_PERMITS, true);
    pass(0);
    expect(CORE_PERMIT_RENEW);
}

TEST_GROUP(.before = shards_up, .end = bench_close);
