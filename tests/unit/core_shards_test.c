/* SPDX-License-Identifier: MIT */
/*
 * core_shards_test.c - several masters, each with its part of the keys: what one of them does not answer is no matter of
 * the others. The test says which shard a key is of: the digit that it begins with.
 */
#include "core_bench.h"
#include "guard/core/breaker.h"

enum { SHARD_OF_TAGS = 10, SHARD_OF_PERMITS, SHARDS_HERE };

static struct {
    unsigned offset; /* of all shards: a reshard in one stroke */
    unsigned asked;
} map;

static unsigned shard_of(void *context, const char *encoded, size_t encoded_bytes)
{
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

TEST(the_answers_of_others_do_not_excuse_it)
{
    static struct core_invalidation invalidations[BREAKER_TRIP];
    for (unsigned i = 0; i < BREAKER_TRIP; i++) {
        assert_false(stats_of().breaker_open);
        invalidate(&invalidations[i], "1 is away", false);
        reply_kind(expect(CORE_INVALIDATE), REPLY_UNKNOWN);
        load_with_lease("0 lives", &caller);
    }
    assert_true(stats_of().breaker_open);
}

TEST(a_reply_counts_for_the_master_that_was_asked_wherever_the_key_is_by_then)
{
    static struct caller callers[BREAKER_TRIP];
    struct seen *asked[BREAKER_TRIP];
    char key[BREAKER_TRIP][8];
    for (unsigned i = 0; i < BREAKER_TRIP; i++) {
        snprintf(key[i], sizeof key[i], "1 %u", i);
        asked[i] = lookup_of(key[i], &callers[i]);
    }
    map.offset = 1; /* what was shard 1 is 2 */
    for (unsigned i = 0; i < BREAKER_TRIP; i++)
        reply_kind(asked[i], REPLY_UNKNOWN);
    assert_true(stats_of().breaker_open);
    for (unsigned i = 0; i < BREAKER_TRIP; i++) /* tried again, at the new one */
        reply_fresh(expect(CORE_ACQUIRE), "v1");
    for (unsigned i = 0; i < BREAKER_TRIP; i++)
        answered_value(&callers[i], "v1", GUARD_FROM_CACHE);
    assert_true(stats_of().breaker_open);
    go_without("0 is shard 1 by now");
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

TEST(tags_are_a_matter_of_their_own_shard)
{
    static struct core_invalidation invalidations[BREAKER_TRIP];
    for (unsigned i = 0; i < BREAKER_TRIP; i++) {
        invalidate(&invalidations[i], "1 is its name", true);
        reply_kind(expect(CORE_INVALIDATE), REPLY_UNKNOWN);
    }
    assert_true(stats_of().breaker_open);
    load_with_lease("1 is no tag", &caller);
    core_shard_gone(bench.core, SHARD_OF_TAGS);
    assert_false(stats_of().breaker_open);
}

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

TEST(without_another_master_permits_go_on)
{
    open_with_permits();
    for (unsigned i = 0; i < BREAKER_TRIP; i++)
        core_replied(bench.core, bench.now_us, 1 /* of nothing, at shard 0 */,
                     &(struct core_reply){.kind = REPLY_UNKNOWN});
    assert_true(stats_of().breaker_open);
    reply_kind(lookup_of("1", &caller), REPLY_LEASE);
    reply_code(expect(CORE_PERMIT_ACQUIRE), 1);
    struct seen *load = expect(CORE_LOAD);
    assert_string_not_equal(load->permit, "");
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

/* ---- batches ---- */

static void batch_loader(struct guard_load *const *loads, size_t count, void *context)
{
    (void)context;
    (void)loads;
    (void)count;
}

TEST(a_batch_waits_for_all_masters_that_were_asked_in_one_turn)
{
    static struct caller callers[2];
    bench.policy.batch_loader = batch_loader;
    bench.policy.batch_max = 10;
    get_of_many("0", &callers[0]);
    get_of_many("1", &callers[1]);
    struct seen *quick = expect(CORE_ACQUIRE), *slow = expect(CORE_ACQUIRE);
    turn_over();
    reply_kind(quick, REPLY_LEASE);
    turn_over();
    sent_nothing();
    reply_kind(slow, REPLY_LEASE);
    turn_over();
    struct seen *one = expect(CORE_LOAD), *other = expect(CORE_LOAD);
    assert_int_equal(one->action.batch, other->action.batch);
}

TEST(a_batch_waits_no_longer_than_for_the_limit_of_a_command)
{
    static struct caller callers[2];
    bench.policy.batch_loader = batch_loader;
    bench.policy.batch_max = 10;
    get_of_many("0", &callers[0]);
    get_of_many("1 is away", &callers[1]);
    struct seen *quick = expect(CORE_ACQUIRE), *slow = expect(CORE_ACQUIRE);
    turn_over();
    reply_kind(quick, REPLY_LEASE);
    turn_over();
    sent_nothing();
    reply_kind(slow, REPLY_UNKNOWN);           /* is what its limit says */
    struct seen *again = expect(CORE_ACQUIRE); /* of a later turn */
    turn_over();
    assert_string_equal(expect(CORE_LOAD)->key, "0");
    sent_nothing();
    again->over = false;
}

TEST(a_batch_waits_neither_for_moving_keys_nor_for_a_master_that_is_away)
{
    static struct caller callers[3];
    bench.policy.batch_loader = batch_loader;
    bench.policy.batch_max = 10;
    open_breaker_of("1 is away");
    get_of_many("0", &callers[0]);
    get_of_many("1 is away", &callers[1]);
    get_of_many("2 is moving", &callers[2]);
    struct seen *quick = expect(CORE_ACQUIRE), *moving = expect(CORE_ACQUIRE);
    reply_kind(moving, REPLY_MOVING);
    reply_kind(quick, REPLY_LEASE);
    turn_over();
    uint64_t batch = expect(CORE_LOAD)->action.batch;
    assert_int_equal(expect(CORE_LOAD)->action.batch, batch);
    assert_int_equal(expect(CORE_LOAD)->action.batch, batch);
    sent_nothing();
}

TEST_GROUP(.before = shards_up, .end = bench_close);
