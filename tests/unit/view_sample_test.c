/* SPDX-License-Identifier: MIT */
/*
 * view_sample_test.c - a sample says what was counted, and running loads are those that the guard has told of.
 */
#include "app/view/live.h"
#include "tests/support/test.h"

/* ---- samples ---- */

static struct live_sample sample;
static json_t *line; /* what was made last */

static bool begin(void)
{
    sample = (struct live_sample){.redis_state = "up", .wake_state = "down"};
    return true;
}

static bool forget(void)
{
    json_decref(line);
    line = NULL;
    return true;
}

static void make(void)
{
    forget();
    line = live_json(&sample);
    assert_non_null(line);
}

/* A number by its path, "http.statuses.2xx"; -1: there is none. */
static long long number(const char *path)
{
    char name[64];
    const json_t *at = line;

    while (*path != '\0') {
        const size_t bytes = strcspn(path, ".");

        snprintf(name, sizeof name, "%.*s", (int)bytes, path);
        at = json_object_get(at, name);
        path += bytes + (path[bytes] == '.');
    }
    return json_is_number(at) ? json_integer_value(at) : -1;
}

/* Whatever guard_stats.h counts as an answer is in `answers`, and once. */
TEST(every_answer_is_in_one_group)
{
    static const char *const answers[] = {
        "hit",       "near_hit",          "stale",           "absent_hit", "failed_hit",
        "loaded",    "collapsed_process", "collapsed_fleet", "failed",     "shed",
        "timed_out", "cancelled",         "closed",          "missed"};
    const char *name;
    json_t *count;
    uint64_t *numbers[] = {&sample.guard.hit,
                           &sample.guard.near_hit,
                           &sample.guard.stale,
                           &sample.guard.absent_hit,
                           &sample.guard.failed_hit,
                           &sample.guard.loaded,
                           &sample.guard.collapsed_process,
                           &sample.guard.collapsed_fleet,
                           &sample.guard.failed,
                           &sample.guard.shed,
                           &sample.guard.timed_out,
                           &sample.guard.cancelled,
                           &sample.guard.closed,
                           &sample.guard.missed};
    long long sum = 0;

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        *numbers[i] = 1ull << i;
    make();
    json_object_foreach(json_object_get(line, "answers"), name, count) sum += json_integer_value(count);
    assert_int_equal(sum, (1 << sizeof answers / sizeof *answers) - 1);
    assert_int_equal(number("answers.cache"), 1);
    assert_int_equal(number("answers.near"), 2);
    assert_int_equal(number("answers.flight"), 1 << 6);
    assert_int_equal(number("answers.fleet"), 1 << 7);
}

TEST(numbers_are_where_the_schema_has_them)
{
    sample.at_ms = 1700000000123;
    sample.up_ms = 61000;
    sample.database_ready = true;
    sample.guard.waiters = 3;
    sample.guard.flights = 2;
    sample.guard.load_started = 7;
    sample.guard.load_failed = 4;
    sample.guard.loads_running = 5;
    sample.guard.loads_queued = 6;
    sample.guard.get_duration = (struct guard_histogram){.count = {[0] = 9, [15] = 8}, .sum_us = 123};
    sample.guard.permits_held = 10;
    sample.guard.near_bytes = 11;
    sample.guard.redis_commands = 12;
    sample.guard.breaker_open = true;
    sample.server.answers[ROUTE_PRODUCT][2] = 13;
    sample.server.answers[ROUTE_PING][2] = 14;
    sample.server.answers[ROUTE_OTHER][4] = 15;
    sample.server.connections_parked = 16;
    make();
    assert_int_equal(number("v"), 1);
    assert_int_equal(number("at_ms"), 1700000000123);
    assert_int_equal(number("up_ms"), 61000);
    assert_int_equal(number("waiters"), 3);
    assert_int_equal(number("flights"), 2);
    assert_int_equal(number("loads.started"), 7);
    assert_int_equal(number("loads.failed"), 4);
    assert_int_equal(number("loads.running"), 5);
    assert_int_equal(number("loads.queued"), 6);
    assert_int_equal(number("get_us.sum"), 123);
    const json_t *counts = json_object_get(json_object_get(line, "get_us"), "count");
    assert_int_equal(json_array_size(counts), GUARD_HISTOGRAM_BUCKETS);
    assert_int_equal(json_integer_value(json_array_get(counts, 15)), 8);
    assert_int_equal(number("permits.held"), 10);
    assert_int_equal(number("near.bytes"), 11);
    assert_int_equal(number("redis.commands"), 12);
    assert_true(json_is_true(json_object_get(json_object_get(line, "redis"), "breaker")));
    assert_string_equal(json_string_value(json_object_get(json_object_get(line, "redis"), "wake")), "down");
    assert_true(json_is_true(json_object_get(json_object_get(line, "database"), "ready")));
    assert_int_equal(number("http.requests"), 13 + 14 + 15);
    assert_int_equal(number("http.statuses.2xx"), 13 + 14);
    assert_int_equal(number("http.statuses.4xx"), 15);
    assert_int_equal(number("http.parked"), 16);
}

/* A name that the guard does not have would end its list. */
TEST(no_number_of_a_group_is_missing)
{
    static const struct {
        const char *name;
        size_t count;
    } groups[] = {{"answers", 15}, {"loads", 12}, {"leases", 4},   {"permits", 4},
                  {"shadow", 4},   {"near", 4},   {"redis", 4 + 3}};

    make();
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        assert_int_equal(json_object_size(json_object_get(line, groups[i].name)), groups[i].count);
}

TEST(loads_and_hot_keys_are_listed)
{
    sample.running[0] =
        (struct running_load){.key = "product:7", .load = 0xc0ffee, .for_ms = 40, .waiters = 3};
    sample.running_count = 1;
    snprintf(sample.hot[0].key, sizeof sample.hot[0].key, "category:3");
    sample.hot[0].weight = 611;
    sample.hot_count = 1;
    make();
    char *running = json_dumps(json_object_get(line, "running"), JSON_COMPACT);
    char *hot = json_dumps(json_object_get(line, "hot"), JSON_COMPACT);
    assert_string_equal(
        running, "[{\"key\":\"product:7\",\"load\":\"0000000000c0ffee\",\"for_ms\":40,\"waiters\":3}]");
    assert_string_equal(hot, "[{\"key\":\"category:3\",\"saved\":611}]");
    free(running);
    free(hot);
}

TEST(the_first_line_says_what_does_not_change)
{
    static const uint64_t bounds[] = GUARD_HISTOGRAM_BOUNDS_US;
    const struct live_about about = {.pid = 17,
                                     .name_space = "shop",
                                     .address = "127.0.0.1:8080",
                                     .mode = GUARD_MODE_LOCAL,
                                     .max_loads = 8,
                                     .load_permits = 40};

    line = live_first_json(&sample, &about, 250);
    assert_int_equal(number("about.pid"), 17);
    assert_int_equal(number("about.every_ms"), 250);
    assert_int_equal(number("about.load_permits"), 40);
    assert_string_equal(json_string_value(json_object_get(json_object_get(line, "about"), "mode")), "local");
    const json_t *told = json_object_get(json_object_get(line, "about"), "bounds_us");
    assert_int_equal(json_array_size(told), GUARD_HISTOGRAM_BUCKETS - 1);
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        assert_int_equal(json_integer_value(json_array_get(told, i)), bounds[i]);
    make();
    assert_null(json_object_get(line, "about"));
}

TEST_GROUP(.before = begin, .after = forget);

/* ---- running loads ---- */

static struct running *running;
static struct running_load listed[RUNNING_MAX + 1];

static bool open_it(void)
{
    running = running_open();
    return running != NULL;
}

static bool close_it(void)
{
    running_close(&running);
    return running == NULL;
}

static void happens(enum guard_event_what what, uint64_t load, const char *key)
{
    running_note(running, &(struct guard_event){.what = what, .key = key, .load = load, .count = load * 10});
}

static size_t list(void)
{
    return running_list(running, listed, RUNNING_MAX + 1);
}

TEST(a_load_is_listed_until_it_ends)
{
    happens(GUARD_EVENT_LOAD_STARTED, 1, "a");
    happens(GUARD_EVENT_LOAD_STARTED, 2, "b");
    happens(GUARD_EVENT_LOAD_STARTED, 3, "a");
    happens(GUARD_EVENT_LEASE_LOST, 1, "a");
    happens(GUARD_EVENT_INVALIDATED, 0, NULL);
    assert_int_equal(list(), 3);
    assert_string_equal(listed[0].key, "a");
    assert_int_equal(listed[1].load, 2);
    assert_int_equal(listed[1].waiters, 20);
    happens(GUARD_EVENT_LOAD_ENDED, 1, "a");
    happens(GUARD_EVENT_LOAD_ENDED, 9, "never seen");
    assert_int_equal(list(), 2);
    assert_int_equal(listed[0].load, 2);
    assert_int_equal(running_list(running, listed, 1), 1);
    happens(GUARD_EVENT_LOAD_ENDED, 2, "b");
    happens(GUARD_EVENT_LOAD_ENDED, 3, "a");
    assert_int_equal(list(), 0);
}

TEST(a_long_key_is_cut)
{
    char key[2 * RUNNING_KEY_BYTES];

    memset(key, 'k', sizeof key);
    key[sizeof key - 1] = '\0';
    happens(GUARD_EVENT_LOAD_STARTED, 1, key);
    assert_int_equal(list(), 1);
    assert_int_equal(strlen(listed[0].key), RUNNING_KEY_BYTES - 1);
}

/* If ends were lost, the oldest go. */
TEST(there_are_never_more_than_so_many)
{
    for (uint64_t load = 1; load <= RUNNING_MAX + 5; load++)
        happens(GUARD_EVENT_LOAD_STARTED, load, "k");
    assert_int_equal(list(), RUNNING_MAX);
    assert_int_equal(listed[0].load, 6);
}

TEST_GROUP(.before = open_it, .after = close_it);
