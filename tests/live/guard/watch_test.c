/* SPDX-License-Identifier: MIT */
/*
 * watch_test.c - what a host can watch: which load made an answer, in every process; numbers by kind; events.
 */
#include "guard_rig.h"

enum { LEADER, FOLLOWER, NOTED_MAX = 256 };

/* ---- which load it was ---- */

static _Atomic uint64_t last_load; /* as its loader saw it */

static void load_and_note(struct guard_load *load, void *context)
{
    atomic_store(&last_load, guard_load_id(load));
    source_load(load, context);
}

static void watch_init(void)
{
    fleet_init();
    fleet.policy.loader = load_and_note;
    atomic_store(&last_load, 0);
}

static void expect_load(const struct guard_result *result, uint64_t load)
{
    assert_true(load != 0);
    if (result->load != load)
        fail_msg("an answer from %s names load %016llx, not %016llx", guard_source_name(result->source),
                 (unsigned long long)result->load, (unsigned long long)load);
}

/* The leader's, another request's of its process, and that of another process which waits. */
static void expect_one_load_for_all(const char *key)
{
    struct ask leader, other, follower;
    struct guard_stats before = stats_of(fleet.guards[FOLLOWER]);
    unsigned begun = atomic_load(&fleet.source.begun);
    source_shut(&fleet.source);
    ask_start(LEADER, &leader, key);
    WAIT_UNTIL(atomic_load(&fleet.source.begun) == begun + 1);
    ask_start(LEADER, &other, key);
    WAIT_UNTIL(stats_of(fleet.guards[LEADER]).waiters == 2);
    ask_start(FOLLOWER, &follower, key);
    WAIT_UNTIL(stats_of(fleet.guards[FOLLOWER]).lease_busy > before.lease_busy);
    source_open(&fleet.source);
    ask_wait(&leader);
    ask_wait(&other);
    ask_wait(&follower);
    assert_int_equal(leader.result.source, GUARD_FROM_LOAD);
    assert_int_equal(other.result.source, GUARD_FROM_FLIGHT);
    expect_load(&leader.result, last_load);
    expect_load(&other.result, last_load);
    expect_load(&follower.result, last_load);
    ask_clear(&leader);
    ask_clear(&other);
    ask_clear(&follower);
}

TEST(who_waits_in_another_process_names_the_load_of_its_leader, P159)
{
    static const uint32_t push_bytes[] = {16384, 0}; /* by the message, and by another look */
    for (size_t i = 0; i < 2; i++) {
        watch_init();
        fleet.config.push_bytes = push_bytes[i];
        fleet_open(2);
        expect_one_load_for_all("k");
        fleet.source.verdict = SOURCE_ABSENT;
        expect_one_load_for_all("absent");
        fleet_close();
    }
}

TEST(a_failure_names_the_load_that_failed_in_every_process, P159)
{
    watch_init();
    fleet.policy.failure_ms = 30000;
    fleet.source.verdict = SOURCE_FAIL;
    fleet_open(2);
    struct guard_result first = expect(LEADER, "k", GUARD_FAILED);
    expect_load(&first, last_load);
    for (size_t i = 0; i < 2; i++) {
        struct guard_result result = expect(i, "k", GUARD_FAILED);
        assert_int_equal(result.source, GUARD_FROM_CACHE);
        assert_int_equal(result.failure, GUARD_FAILURE_UNAVAILABLE);
        expect_load(&result, first.load);
    }
    assert_int_equal(fleet.source.begun, 1);
}

TEST(a_hit_a_near_one_and_a_stale_one_name_the_load_that_filled_the_entry, P159)
{
    struct guard_result result;
    watch_init();
    fleet_keep_near();
    fleet.policy.stale_ms = 60000;
    fleet_open(2);
    expect_row(LEADER, "k", "k v1");
    uint64_t load = last_load;
    result = expect_row(FOLLOWER, "k", "k v1");
    assert_int_equal(result.source, GUARD_FROM_CACHE);
    expect_load(&result, load);
    bring_near(FOLLOWER, "k", "k v1");
    assert_true(near_of(FOLLOWER, "k", &result));
    expect_load(&result, load);
    guard_value_unref(&result.value);
    expect_row(LEADER, "old", "old v1");
    load = last_load;
    source_shut(&fleet.source);
    age_value("old", 30000); /* of its stale time */
    result = expect_row(FOLLOWER, "old", "old v1");
    assert_int_equal(result.source, GUARD_FROM_STALE);
    expect_load(&result, load);
}

/* ---- numbers by kind ---- */

static struct guard_kind *add_kind(const char *name)
{
    struct guard_error error = {.text = ""};
    struct guard_policy policy = fleet.policy;
    struct guard_kind *kind = NULL;
    policy.name = name;
    if (guard_kind_add(fleet.guards[0], &policy, &kind, &error) != GUARD_OK)
        fail_msg("guard_kind_add: %s", error.text);
    return kind;
}

static struct guard_stats kind_stats_of(const struct guard_kind *kind)
{
    struct guard_stats stats;
    guard_kind_stats(kind, &stats);
    return stats;
}

static void get_of_kind(struct guard_kind *kind, const char *key)
{
    struct guard_result result;
    atomic_fetch_add(&fleet.accepted[0], 1);
    guard_get_wait(fleet.guards[0], &(struct guard_request){.kind = kind, .key = key}, &result);
    atomic_fetch_add(&fleet.answered, 1);
    guard_value_unref(&result.value);
}

static uint64_t answers_of_kind(const struct guard_kind *kind)
{
    struct guard_stats stats = kind_stats_of(kind);
    return answers_of(&stats);
}

/* All gets of this guard are of these kinds. A flight may go on behind its answers: it would end between two
 * looks. */
static void expect_the_whole_to_be_the_sum(struct guard_kind *const *kinds, size_t count)
{
    WAIT_UNTIL(stats_of(fleet.guards[0]).flights == 0);
    struct guard_stats whole = stats_of(fleet.guards[0]), parts[8];
    for (size_t kind = 0; kind < count; kind++)
        parts[kind] = kind_stats_of(kinds[kind]);
    for (size_t i = 0; guard_stat_info(i) != NULL; i++) {
        const struct guard_stat_info *info = guard_stat_info(i);
        const struct guard_histogram *spans = guard_stat_histogram(&whole, i);
        uint64_t sum = 0, expected = spans != NULL ? spans->sum_us : guard_stat_value(&whole, i);
        for (size_t kind = 0; kind < count; kind++)
            sum += spans != NULL ? guard_stat_histogram(&parts[kind], i)->sum_us
                                 : guard_stat_value(&parts[kind], i);
        if (sum != (info->per_kind ? expected : 0))
            fail_msg("%s is %llu, and of its kinds %llu", info->name, (unsigned long long)expected,
                     (unsigned long long)sum);
    }
}

TEST(each_kind_has_numbers_of_its_own_and_the_whole_is_their_sum, P160)
{
    watch_init();
    fleet_keep_near();
    fleet.policy.name = "products";
    fleet_open(1);
    struct guard_kind *kinds[] = {fleet.kinds[0], add_kind("pages"), add_kind(NULL)};
    assert_string_equal(guard_kind_name(kinds[0]), "products");
    assert_string_equal(guard_kind_name(kinds[1]), "pages");
    assert_string_equal(guard_kind_name(kinds[2]), "kind2");
    bring_near(0, "product", "product v1");
    get_of_kind(kinds[0], "product");
    fleet.source.verdict = SOURCE_ABSENT;
    WAIT_UNTIL((get_of_kind(kinds[1], "page"), kind_stats_of(kinds[1]).near_hit > 0));
    fleet.source.verdict = SOURCE_FAIL;
    get_of_kind(kinds[1], "broken");
    struct guard_stats products = kind_stats_of(kinds[0]), pages = kind_stats_of(kinds[1]);
    assert_true(products.near_hit > 0 && products.near_miss > 0 && products.hit > 0);
    assert_int_equal(pages.near_hit, 1);
    assert_true(pages.absent_hit > 0 && pages.hit == 0);
    assert_int_equal(products.load_ok, 1);
    assert_int_equal(products.load_absent + products.load_failed, 0);
    assert_int_equal(pages.load_absent, 1);
    assert_int_equal(pages.load_failed, 1);
    assert_int_equal(pages.failed, 1);
    assert_int_equal(pages.load_started, 2);
    assert_int_equal(answers_of_kind(kinds[2]), 0);
    expect_the_whole_to_be_the_sum(kinds, 3);
}

/* ---- events ---- */

static struct noted {
    struct guard_event event;
    char key[32];
} noted[NOTED_MAX];
static atomic_size_t noted_count;
static atomic_bool may_ask; /* guard_open() has returned: an event may come before */

/* It may do what any callback may. */
static void note_event(void *context, const struct guard_event *event)
{
    struct guard_stats stats;
    size_t at = atomic_load(&noted_count);
    assert_ptr_equal(context, noted);
    if (at == NOTED_MAX)
        return;
    noted[at] = (struct noted){.event = *event};
    snprintf(noted[at].key, sizeof noted[at].key, "%s", event->key != NULL ? event->key : "");
    if (atomic_load(&may_ask)) {
        guard_stats(fleet.guards[0], &stats);
        if (event->what == GUARD_EVENT_LOAD_STARTED)
            assert_true(stats.load_started > 0);
    }
    atomic_store(&noted_count, at + 1);
}

/* How many of them there are of this key; *last is the last one. */
static unsigned events_of(enum guard_event_what what, const char *key, struct guard_event *last)
{
    unsigned count = 0;
    for (size_t i = 0; i < atomic_load(&noted_count); i++) {
        if (noted[i].event.what != what || strcmp(noted[i].key, key) != 0)
            continue;
        *last = noted[i].event;
        count++;
    }
    return count;
}

static void events_init(void)
{
    watch_init();
    atomic_store(&noted_count, 0);
    fleet.config.event = note_event;
    fleet.config.event_context = noted;
    fleet.policy.name = "rows";
}

static void open_with_events(void)
{
    atomic_store(&may_ask, false);
    fleet_open(1);
    atomic_store(&may_ask, true);
}

TEST(a_kind_keeps_its_numbers_when_its_policy_changes, P160)
{
    struct guard_error error = {.text = ""};
    watch_init();
    fleet_open(1);
    struct guard_kind *kind = add_kind("pages");
    get_of_kind(kind, "a");
    struct guard_policy policy;
    guard_kind_get(kind, &policy);
    policy.fresh_ms /= 2;
    assert_int_equal(guard_kind_set(kind, &policy, &error), GUARD_OK);
    get_of_kind(kind, "b");
    assert_int_equal(kind_stats_of(kind).loaded, 2);
    assert_int_equal(kind_stats_of(kind).load_started, 2);
    assert_int_equal(answers_of_kind(fleet.kinds[0]), 0);
}

TEST(a_load_and_an_invalidation_are_told_once_and_no_hit_is, P161)
{
    struct guard_event event;
    events_init();
    open_with_events();
    expect_row(0, "k", "k v1");
    assert_int_equal(events_of(GUARD_EVENT_LOAD_STARTED, "k", &event), 1);
    assert_string_equal(guard_kind_name(event.kind), "rows");
    assert_true(event.load == last_load);
    assert_int_equal(event.count, 1);
    assert_int_equal(events_of(GUARD_EVENT_LOAD_ENDED, "k", &event), 1);
    assert_true(event.load == last_load);
    assert_int_equal(event.status, GUARD_OK);
    size_t before = atomic_load(&noted_count);
    for (int i = 0; i < 10; i++)
        expect_row(0, "k", "k v1");
    assert_int_equal(atomic_load(&noted_count), before);
    rig_invalidate(0, KEY_CHANGE("k", RIG_LIMIT_MS));
    assert_int_equal(events_of(GUARD_EVENT_INVALIDATED, "k", &event), 1);
    assert_int_equal(event.count, 0);
    assert_null(event.kind);
    rig_invalidate(0, TAG_CHANGE("t", RIG_LIMIT_MS));
    assert_int_equal(events_of(GUARD_EVENT_INVALIDATED, "t", &event), 1);
    assert_int_equal(event.count, 1);
    assert_int_equal(event.status, GUARD_OK);
    const char *const keys[] = {"one", "two"};
    rig_invalidate(0, &(struct guard_change){.keys = keys, .keys_count = 2});
    assert_int_equal(events_of(GUARD_EVENT_INVALIDATED, "one", &event), 1);
    assert_int_equal(events_of(GUARD_EVENT_INVALIDATED, "two", &event), 1);
}

/* In mode shadow a load is told once, though two cores know of it. */
TEST(the_rehearsal_of_mode_shadow_tells_of_no_load)
{
    struct guard_event event;
    events_init();
    fleet.config.mode = GUARD_MODE_SHADOW;
    open_with_events();
    expect_row(0, "k", "k v1");
    WAIT_UNTIL(kind_stats_of(fleet.kinds[0]).fill_stored == 1);
    assert_int_equal(kind_stats_of(fleet.kinds[0]).shadow_loads, 1);
    assert_int_equal(events_of(GUARD_EVENT_LOAD_STARTED, "k", &event), 1);
    assert_int_equal(events_of(GUARD_EVENT_LOAD_ENDED, "k", &event), 1);
}

TEST(the_connection_is_told_when_it_comes_and_goes)
{
    struct guard_event event;
    events_init();
    fleet.config.redis_limit_ms = 1000;
    open_with_events();
    WAIT_UNTIL(events_of(GUARD_EVENT_REDIS, "", &event) > 0);
    assert_int_equal(event.redis_state, GUARD_REDIS_UP);
    unsigned told = events_of(GUARD_EVENT_REDIS, "", &event);
    rig_do("CLIENT KILL TYPE normal SKIPME yes");
    WAIT_UNTIL(events_of(GUARD_EVENT_REDIS, "", &event) >= told + 2 && event.redis_state == GUARD_REDIS_UP);
}

TEST_GROUP(.up = rig_start, .down = rig_stop, .before = fleet_before, .end = fleet_close);
