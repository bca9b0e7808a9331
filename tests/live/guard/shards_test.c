/* SPDX-License-Identifier: MIT */
/*
 * shards_test.c - guards over a Redis Cluster of three masters, each with a replica: what one master's absence, or a
 * slot on the move, costs, and what it does not.
 */
#include "guard/base/key.h"
#include "guard_rig.h"
#include "tests/support/stack_cluster.h"

enum { MASTERS = 3, KEYS = 30, KEY_BYTES = 24 };

static struct stack_cluster cluster;
static char urls[2][STACK_CLUSTER_URL_BYTES + 64];

static bool start_cluster(void)
{
    const struct stack_cluster_options options = {
        .master_count = MASTERS, .replicas_per_master = 1, .node_timeout_ms = 20000, .serves_in_part = true};
    return stack_cluster_start(&cluster, &options);
}

static bool stop_cluster(void)
{
    stack_cluster_stop(&cluster);
    return true;
}

static bool before(void)
{
    fleet_init();
    fleet.config.redis_url = cluster.url;
    return true;
}

static void resume_all(void)
{
    for (size_t i = 0; i < cluster.count; i++)
        stack_redis_resume(&cluster.node[i]);
}

/* Which keys the guards may use. A test may have killed a node. */
static void allow_keys(const char *pattern)
{
    for (size_t i = 0; i < MASTERS; i++) {
        if (!stack_redis_runs(&cluster.node[i]))
            continue;
        assert_true(stack_redis_do(&cluster.node[i], "ACL SETUSER default resetkeys ~%s", pattern));
    }
}

static bool after(void)
{
    resume_all();
    allow_keys("*");
    return true;
}

/* ---- who has what ---- */

static size_t owner_of(const char *name)
{
    return stack_cluster_owner(&cluster, stack_cluster_slot(&cluster, name));
}

static unsigned slot_of_key(const char *key)
{
    char name[KEY_NAME_SIZE];
    key_name(fleet.name_space, key, KEY_VALUE, name);
    return stack_cluster_slot(&cluster, name);
}

static size_t owner_of_tags(void)
{
    char name[KEY_NAME_SIZE];
    key_tag_clock(fleet.name_space, name);
    return owner_of(name);
}

/* The next key, from *number on, that is there, or is not. */
static void find_key(size_t node, bool there, unsigned *number, char key[KEY_BYTES])
{
    enum { TRIES = 10000 };
    for (unsigned i = 0; i < TRIES; i++) {
        snprintf(key, KEY_BYTES, "k%u", ++*number);
        if ((stack_cluster_owner(&cluster, slot_of_key(key)) == node) == there)
            return;
    }
    fail_msg("no key is %s node %zu", there ? "on" : "beside", node);
}

static uint64_t calls_of_masters(const char *command)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < MASTERS; i++)
        sum += stack_redis_calls(&cluster.node[i], command);
    return sum;
}

static enum guard_source get_source(const char *key, unsigned version)
{
    char row[64];
    snprintf(row, sizeof row, "%s v%u", key, version);
    return expect_row(0, key, row).source;
}

static void expect_key(size_t i, const char *key, unsigned version, enum guard_source source)
{
    char row[64];
    snprintf(row, sizeof row, "%s v%u", key, version);
    struct guard_result result = expect_row(i, key, row);
    if (result.source != source)
        fail_msg("%s comes from %d", key, (int)result.source);
}

static struct guard_invalidated invalidate(const char *key, uint32_t deadline_ms)
{
    struct guard_invalidated result;
    guard_invalidate_wait(fleet.guards[0], KEY_CHANGE(key, deadline_ms), &result);
    return result;
}

/* ---- all there ---- */

TEST(keys_of_all_masters_are_loaded_once_and_then_hits_in_every_process, P143)
{
    char key[KEY_BYTES], id[2][GUARD_CACHE_ID_BYTES + 1];
    fleet_open(2);
    for (unsigned i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "k%u", i);
        expect_key(0, key, 1, GUARD_FROM_LOAD);
        expect_key(1, key, 1, GUARD_FROM_CACHE);
    }
    atomic_store(&fleet.source.version, 2);
    for (unsigned i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "k%u", i);
        struct guard_invalidated result = invalidate(key, 0);
        assert_true(result.status == GUARD_OK && result.value_dropped);
        expect_key(1, key, 2, GUARD_FROM_LOAD);
    }
    WAIT_UNTIL(guard_cache(fleet.guards[0], id[0]) && guard_cache(fleet.guards[1], id[1]));
    assert_string_equal(id[0], id[1]);
    assert_int_equal(atomic_load(&fleet.source.begun), 2 * KEYS);
}

TEST(many_keys_of_all_masters_are_one_request, P143)
{
    static char names[KEYS][KEY_BYTES];
    const char *keys[KEYS];
    struct guard_result results[KEYS];
    fleet_open(1);
    for (unsigned i = 0; i < KEYS; i++) {
        snprintf(names[i], KEY_BYTES, "m%u", i);
        keys[i] = names[i];
        expect_key(0, names[i], 1, GUARD_FROM_LOAD);
    }
    uint64_t trips = stats_of(fleet.guards[0]).redis_round_trips;
    struct guard_request request = {.kind = fleet.kinds[0], .keys = keys, .count = KEYS};
    atomic_fetch_add(&fleet.accepted[0], KEYS);
    assert_int_equal(guard_get_wait(fleet.guards[0], &request, results), GUARD_OK);
    atomic_fetch_add(&fleet.answered, KEYS);
    trips = stats_of(fleet.guards[0]).redis_round_trips - trips;
    for (unsigned i = 0; i < KEYS; i++) {
        assert_true(results[i].status == GUARD_OK && results[i].source == GUARD_FROM_CACHE);
        guard_value_unref(&results[i].value);
    }
    assert_in_range(trips, MASTERS, MASTERS + 4); /* canaries go their own way meanwhile */
}

TEST(many_keys_of_all_masters_are_changed_in_one_round_trip_to_each, P186)
{
    static char names[KEYS][KEY_BYTES];
    const char *keys[KEYS];
    struct guard_invalidated result;
    fleet_open(1);
    for (unsigned i = 0; i < KEYS; i++) {
        snprintf(names[i], KEY_BYTES, "c%u", i);
        keys[i] = names[i];
        expect_key(0, names[i], 1, GUARD_FROM_LOAD);
    }
    const struct guard_change change = {.keys = keys, .keys_count = KEYS};
    uint64_t trips = stats_of(fleet.guards[0]).redis_round_trips;
    result = rig_invalidate(0, &change);
    trips = stats_of(fleet.guards[0]).redis_round_trips - trips;
    assert_true(result.value_dropped);
    assert_in_range(trips, MASTERS, MASTERS + 4);
    atomic_store(&fleet.source.version, 2);
    for (unsigned i = 0; i < KEYS; i++)
        expect_key(0, keys[i], 2, GUARD_FROM_LOAD);
}

/* ---- tags, which have one master ---- */

static void open_tagged(void)
{
    fleet.policy.tagged = true;
    fleet.source.tag = "all";
    fleet_open(1);
}

TEST(a_tag_reaches_its_entries_on_every_master_and_is_read_where_only_a_master_answers, P143)
{
    char key[KEY_BYTES];
    open_tagged();
    uint64_t mgets = calls_of_masters("mget");
    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 0; i < KEYS; i++) {
            snprintf(key, sizeof key, "t%u", i);
            expect_key(0, key, 1, round == 0 ? GUARD_FROM_LOAD : GUARD_FROM_CACHE);
        }
    assert_int_equal(calls_of_masters("mget"), mgets);
    atomic_store(&fleet.source.version, 2);
    rig_invalidate(0, TAG_CHANGE("all", 0));
    for (unsigned i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "t%u", i);
        expect_key(0, key, 2, GUARD_FROM_LOAD);
        expect_key(0, key, 2, GUARD_FROM_CACHE);
    }
    assert_int_equal(stats_of(fleet.guards[0]).entry_outdated, KEYS);
}

/* The first letter of a key is its tag. */
static void load_of_letter(struct guard_load *load, void *context)
{
    const char letter[2] = {guard_load_key(load)[0], '\0'};
    assert_int_equal(guard_load_tag(load, letter), GUARD_OK);
    source_load(load, context);
}

/* The epochs of a turn's entries are read together, but each entry is judged by its own. */
TEST(a_tag_that_cannot_be_read_spoils_no_entry_of_the_same_turn_that_does_not_have_it, P76)
{
    const char *const keys[] = {"a1", "b1", "a2", "c1"};
    enum { COUNT = sizeof keys / sizeof keys[0], SPOILT = 1 };
    struct guard_result results[COUNT];
    fleet.policy.tagged = true;
    fleet.policy.loader = load_of_letter;
    fleet_open(1);
    const struct guard_request request = {.kind = fleet.kinds[0], .keys = keys, .count = COUNT};
    for (size_t i = 0; i < 2 * COUNT; i++) /* from the second time on their tags are remembered */
        expect_key(0, keys[i % COUNT], 1, i < COUNT ? GUARD_FROM_LOAD : GUARD_FROM_CACHE);
    allow_keys("*[^b]"); /* not the epoch of "b" */
    atomic_fetch_add(&fleet.accepted[0], COUNT);
    assert_int_equal(guard_get_wait(fleet.guards[0], &request, results), GUARD_OK);
    atomic_fetch_add(&fleet.answered, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(results[i].status, GUARD_OK);
        if ((results[i].source == GUARD_FROM_CACHE) == (i == SPOILT))
            fail_msg("%s comes from %d", keys[i], (int)results[i].source);
        guard_value_unref(&results[i].value);
    }
}

/* ---- one is away ---- */

static bool is_told_away(size_t i)
{
    return stats_of(fleet.guards[i]).redis_state != GUARD_REDIS_UP;
}

/* It has the tags, too: tagged kinds are then as if all Redis were away, but no other master is blamed for that. */
TEST(a_master_that_is_away_costs_its_own_keys_and_those_with_tags_if_it_has_the_tags, P141)
{
    char tagged[KEY_BYTES], here[KEY_BYTES], there[KEY_BYTES];
    unsigned number = 0;
    fleet.policy.outage_ms = 0; /* each answer is Redis's or a load's */
    open_tagged();
    size_t away = owner_of_tags();
    find_key(away, false, &number, tagged);
    expect_key(0, tagged, 1, GUARD_FROM_LOAD);
    expect_key(0, tagged, 1, GUARD_FROM_CACHE);
    fleet.policy.tagged = false;
    fleet.source.tag = NULL;
    fleet_open(2); /* another process, without tags */
    find_key(away, true, &number, here);
    find_key(away, false, &number, there);
    expect_key(1, here, 1, GUARD_FROM_LOAD);
    expect_key(1, there, 1, GUARD_FROM_LOAD);
    stack_redis_kill(&cluster.node[away]);
    WAIT_UNTIL(is_told_away(0) && is_told_away(1));
    for (int i = 0; i < 20; i++) {
        expect_key(0, tagged, 1, GUARD_FROM_LOAD);
        expect_key(1, here, 1, GUARD_FROM_LOAD);
        expect_key(1, there, 1, GUARD_FROM_CACHE);
        assert_int_equal(invalidate(there, 0).status, GUARD_OK);
        expect_key(1, there, 1, GUARD_FROM_LOAD);
    }
    assert_int_equal(invalidate(here, 200).status, GUARD_UNKNOWN);
    const char *const both[] = {there, here};
    struct guard_invalidated result;
    guard_invalidate_wait(fleet.guards[0],
                          &(struct guard_change){.keys = both, .keys_count = 2, .deadline_ms = 200}, &result);
    assert_int_equal(result.status, GUARD_UNKNOWN);
    assert_true(result.value_dropped);
    assert_true(stack_redis_restart(&cluster.node[away]));
    WAIT_UNTIL(is_up(fleet.guards[0]) && is_up(fleet.guards[1]));
}

/* ---- a slot on the move ---- */

TEST(a_key_whose_slot_moves_is_invalidated_without_its_script, P142)
{
    char key[KEY_BYTES];
    unsigned number = 100;
    fleet.config.redis_limit_ms = 500; /* for the script, twice */
    fleet_open(1);
    find_key(0, true, &number, key);
    WAIT_UNTIL(get_source(key, 1) == GUARD_FROM_CACHE);
    unsigned slot = slot_of_key(key);
    assert_true(stack_cluster_begin_move(&cluster, slot, 0, 1));
    WAIT_UNTIL(get_source(key, 1) == GUARD_FROM_CACHE);
    atomic_store(&fleet.source.version, 2);
    struct guard_invalidated result = invalidate(key, 20000);
    assert_true(result.status == GUARD_OK && result.value_dropped);
    assert_true(stats_of(fleet.guards[0]).moving > 0);
    assert_true(stack_cluster_end_move(&cluster, slot, 0, 1));
    WAIT_UNTIL(get_source(key, 2) == GUARD_FROM_CACHE);
}

/* ---- replicas that are waited for ---- */

TEST(an_invalidation_waits_for_the_replicas_of_its_own_master, P136)
{
    char here[KEY_BYTES], there[KEY_BYTES];
    unsigned number = 200;
    snprintf(urls[0], sizeof urls[0], "%s?wait_replicas=1&wait_ms=100", cluster.url);
    fleet.config.redis_url = urls[0];
    fleet_open(1);
    find_key(2, true, &number, here);
    find_key(2, false, &number, there);
    WAIT_UNTIL(invalidate(here, 0).status == GUARD_OK);
    expect_key(0, here, 1, GUARD_FROM_LOAD);
    expect_key(0, there, 1, GUARD_FROM_LOAD);
    size_t replica = stack_cluster_replica(&cluster, 2);
    stack_redis_pause(&cluster.node[replica]);
    assert_int_equal(invalidate(here, 600).status, GUARD_UNKNOWN);
    WAIT_UNTIL(invalidate(there, 0).status == GUARD_OK);
    stack_redis_resume(&cluster.node[replica]);
    WAIT_UNTIL(invalidate(here, 0).status == GUARD_OK);
}

/* ---- another master; from here on the nodes have other parts ---- */

/* What mode shadow has of the key. */
static size_t owner_of_shadow(const char *key)
{
    char name_space[sizeof fleet.name_space + 1], name[KEY_NAME_SIZE];
    snprintf(name_space, sizeof name_space, "%s~", fleet.name_space);
    key_name(name_space, key, KEY_VALUE, name);
    return owner_of(name);
}

static bool have_both_said_it_again(void)
{
    return stats_of(fleet.guards[0]).replayed > 0 && stats_of(fleet.guards[1]).replayed > 0;
}

/* In mode shadow, too, which invalidates for those that answer from the cache. */
TEST(what_a_master_has_confirmed_is_said_again_to_the_replica_that_takes_over, P186)
{
    char key[KEY_BYTES], second[KEY_BYTES], there[KEY_BYTES];
    unsigned number = 300;
    fleet_open(1);
    fleet.config.mode = GUARD_MODE_SHADOW;
    fleet_open(2);
    do
        find_key(1, true, &number, key);
    while (owner_of_shadow(key) == 1);
    find_key(1, false, &number, there);
    find_key(1, true, &number, second);
    WAIT_UNTIL(is_up(fleet.guards[0]) && is_up(fleet.guards[1]));
    const char *const keys[] = {key, second, there};
    const struct guard_change change = {.keys = keys, .keys_count = 3};
    rig_invalidate(0, &change);
    rig_invalidate(1, KEY_CHANGE(key, 0));
    assert_true(stack_cluster_failover(&cluster, stack_cluster_replica(&cluster, 1), NULL));
    WAIT_UNTIL(have_both_said_it_again());
    WAIT_UNTIL(stats_of(fleet.guards[0]).replayed == 2);
    WAIT_UNTIL(get_source(key, 1) == GUARD_FROM_CACHE);
}

/* ---- a lease that is held meanwhile ---- */

typedef void happening(unsigned slot, size_t master);

TEST_GROUP(.up = start_cluster, .down = stop_cluster, .before = before, .after = after, .end = fleet_close);
