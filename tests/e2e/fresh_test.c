/* SPDX-License-Identifier: MIT */
/*
 * fresh_test.c - the row changes: no request that begins after an invalidation returned sees the row before it, in
 * any process.
 *
 * A product's version is its ETag and moves with every UPDATE, so each answer says which row it saw.
 */
#include "tests/support/probe.h"

#include "load/base/clock.h"
#include "tests/support/test.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PROCESSES = 2,
    REQUESTS = 1000, /* 500 on each */
};

/* ---- versions ---- */

/* "\"7\"" is 7; 0: no version. */
static unsigned long version_of_etag(const char *etag)
{
    return etag[0] == '"' ? strtoul(etag + 1, NULL, 10) : 0;
}

static unsigned long version_of(const struct burst_answer *answer)
{
    char etag[64];
    return version_of_etag(burst_header(answer, "ETag", etag, sizeof etag));
}

/* Version of the row as this process answers it; 0: no 200. */
static unsigned long ask_version(size_t process, const char *path)
{
    struct http_answer answer;
    char etag[64];
    fleet_ask(process, NULL, path, &answer);
    unsigned long version =
        answer.status == 200 ? version_of_etag(http_header(&answer, "ETag", etag, sizeof etag)) : 0;
    http_answer_clear(&answer);
    return version;
}

static void edit(uint32_t id)
{
    assert_true(fleet_sql(NULL, 0, "UPDATE products SET stock = stock + 1 WHERE id = %" PRIu32, id));
}

static struct fleet_invalidated invalidate(size_t process, uint32_t id)
{
    struct fleet_invalidated done;
    char key[32];
    snprintf(key, sizeof key, "product:%" PRIu32, id);
    fleet_invalidate(process, key, &done);
    assert_int_equal(done.status, 200);
    return done;
}

/* An entry has its key and its validator, which begins with the version, each on a line. */
static void assert_cached_version(uint32_t id, unsigned long version)
{
    char key[FLEET_KEY_BYTES], lines[64];
    fleet_redis_key(key, id, 'v');
    snprintf(lines, sizeof lines, "\nproduct:%" PRIu32 "\n%lu-", id, version);
    assert_true(stack_redis_mentions(&fleet.redis, lines, "GET %s", key));
}

/* ---- an invalidation while the load runs ---- */

struct change {
    const char *path;
    uint32_t id;
    size_t by;       /* process that is told */
    uint32_t run_ms; /* the query has run for this long by then */
    struct burst_summary after;
    unsigned long oldest_after; /* version among the answers to requests that began afterwards */
};

static unsigned long oldest_version(const struct burst *burst, uint32_t count)
{
    unsigned long oldest = ULONG_MAX;
    for (uint32_t i = 0; i < count; i++) {
        unsigned long version = version_of(&burst_answers(burst)[i]);
        oldest = version < oldest ? version : oldest;
    }
    return oldest;
}

/* The query's snapshot is taken when it starts; it sleeps afterwards. */
static void wait_until_it_has_run(uint32_t run_ms)
{
    uint64_t end_us = clock_after_ms(FLEET_LIMIT_MS);
    for (char runs[8] = "f"; runs[0] != 't';) {
        assert_true(fleet_sql(runs, sizeof runs,
                              "SELECT bool_or(clock_timestamp() - query_start > interval '%" PRIu32
                              " ms') FROM pg_stat_activity WHERE state = 'active' "
                              "AND strpos(query, '/' || '* load product *') > 0",
                              run_ms));
        assert_true(clock_us() < end_us);
    }
}

/* The old row has been read, its load still sleeps: the row changes, and as many ask again. */
static void change_the_row_meanwhile(void *context)
{
    struct change *change = context;
    struct burst_target targets[FLEET_PROCESSES_MAX];
    struct burst *burst = NULL;
    struct burst_options options = fleet_options(targets, change->path, REQUESTS);
    wait_until_it_has_run(change->run_ms);
    edit(change->id);
    struct fleet_invalidated done = invalidate(change->by, change->id);
    assert_true(done.load_voided);
    assert_false(done.value_dropped);
    assert_true(burst_open(&options, &burst));
    assert_true(burst_run(burst));
    burst_summarise(burst, &change->after);
    change->oldest_after = oldest_version(burst, REQUESTS);
    burst_close(&burst);
}

static void change_while_loading(const char *const *settings, size_t by, uint32_t run_ms)
{
    char path[BURST_PATH_BYTES];
    struct burst_summary before;
    assert_true(fleet_start(PROCESSES, settings));
    struct change change = {.path = path, .by = by, .run_ms = run_ms};
    change.id = fleet_cold_product(path);
    const struct burst_event event = {.run = change_the_row_meanwhile, .context = &change};
    assert_true(fleet_burst(path, REQUESTS, &event, &before));
    assert_int_equal(before.statuses[200], REQUESTS);
    assert_in_range(before.bodies, 1, 2);
    assert_int_equal(change.after.statuses[200], REQUESTS);
    assert_int_equal(change.oldest_after, 2);
    assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), 2);
    assert_cached_version(change.id, 2);
    assert_int_equal(fleet_sum("guard_fills_total{result=\"stored\"}"), 1);
}

/* Much of its limit is left: the load that was voided is cancelled. */
TEST(a_row_changed_early_in_its_load_is_loaded_again, P20, P39, P43)
{
    const char *const settings[] = {"LOAD_DELAY_MS=3000", "LOAD_LIMIT_MS=10000", NULL};
    for (size_t by = 0; by < PROCESSES; by++) {
        change_while_loading(settings, by, 0);
        assert_int_equal(fleet_sum("guard_fills_total{result=\"late\"}"), 0);
    }
}

/* The third time its answer is a prepared one. */
TEST(what_is_answered_again_and_again_changes_with_its_invalidation, P39)
{
    char path[BURST_PATH_BYTES];
    assert_true(
        fleet_start(1, (const char *[]){"SERVER_LOOPS=1", "NEAR_BYTES=1000000", "NEAR_MS=60000", NULL}));
    const uint32_t id = fleet_cold_product(path);
    for (unsigned version = 1; version <= 4; version++) {
        for (unsigned times = 0; times < 5; times++)
            assert_int_equal(ask_version(0, path), version);
        edit(id);
        assert_int_equal(ask_version(0, path), version); /* nobody has said so */
        assert_true(invalidate(0, id).value_dropped);
    }
    assert_true(fleet_metric(0, "guard_near_lookups_total{result=\"hit\"}") >= 4 * 3);
}

TEST_GROUP(.up = fleet_up, .down = fleet_down, .after = fleet_end);
