/* SPDX-License-Identifier: MIT */
/*
 * fresh_test.c - the row changes: no request that begins after an invalidation returned sees the row before it, in any
 * process; and its time is over: which answer comes, and how many queries that costs.
 *
 * A product's version is its ETag and moves with every UPDATE, so each answer says which row it saw. Values are made old
 * by shortening their TTL in Redis, not by waiting. While the gate is shut a query of a product hangs in PostgreSQL, so
 * that "at once" needs no clock: the answer came although the refresh cannot.
 */
#include "tests/support/probe.h"

#include "load/base/clock.h"
#include "tests/support/test.h"

#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PROCESSES = 2,
    REQUESTS = 1000, /* 500 on each */
    EDITS = 20,
    READERS = 20,
    SAMPLES_MAX = 100000,
    ROUND_PAUSE_MS = 2,
    STALE_REQUESTS = 400,
    HOUR_MS = 3600000,
    OLD_MS = 3000000,
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

/* ---- order, under way ---- */

/* One answer of the readers, one edit of the writer. */
struct sample {
    uint64_t sent_us;
    unsigned long version;
};

struct history {
    const char *path;
    bool failed, ending; /* `ending` by atomic access */
    struct sample *answers;
    size_t answer_count;
};

static void note_round(struct history *history, const struct burst *burst)
{
    for (uint32_t i = 0; i < READERS && history->answer_count < SAMPLES_MAX; i++) {
        const struct burst_answer *answer = &burst_answers(burst)[i];
        history->failed = history->failed || answer->status != 200;
        history->answers[history->answer_count++] =
            (struct sample){.sent_us = answer->sent_us, .version = version_of(answer)};
    }
}

/* Runs in a thread: round after round on both processes until told to end, and leaves the edits some of the cores. */
static void *read_all_the_time(void *context)
{
    struct history *history = context;
    struct burst_target targets[FLEET_PROCESSES_MAX];
    struct burst_options options = fleet_options(targets, history->path, READERS);
    struct burst *burst = NULL;
    history->failed = !burst_open(&options, &burst);
    while (!history->failed && !__atomic_load_n(&history->ending, __ATOMIC_ACQUIRE)) {
        history->failed = !burst_run(burst);
        note_round(history, burst);
        clock_pause_ms(ROUND_PAUSE_MS);
    }
    if (burst != NULL)
        burst_close(&burst);
    return NULL;
}

/* Both lists are in order of time. An edit's sent_us is when its invalidation had returned. */
static void assert_nobody_saw_the_past(const struct history *history, const struct sample *edits)
{
    size_t edit = 0;
    unsigned long promised = 1;
    for (size_t i = 0; i < history->answer_count; i++) {
        while (edit < EDITS && edits[edit].sent_us < history->answers[i].sent_us)
            promised = edits[edit++].version;
        assert_true(history->answers[i].version >= promised);
    }
}

static void edit_under_way(const char *delay)
{
    char path[BURST_PATH_BYTES];
    static struct sample edits[EDITS];
    pthread_t thread;
    assert_true(fleet_start(PROCESSES, (const char *[]){delay, NULL}));
    uint32_t id = fleet_cold_product(path);
    struct history history = {.path = path};
    history.answers = calloc(SAMPLES_MAX, sizeof *history.answers);
    assert_non_null(history.answers);
    assert_int_equal(pthread_create(&thread, NULL, read_all_the_time, &history), 0);
    bool right = true;
    for (uint32_t i = 0; i < EDITS; i++) {
        edit(id);
        invalidate(i % PROCESSES, id);
        edits[i] = (struct sample){.sent_us = clock_us(), .version = i + 2};
        for (size_t process = 0; i % 3 != 0 && process < PROCESSES; process++)
            right = right && ask_version(process, path) == i + 2;
    }
    __atomic_store_n(&history.ending, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    assert_true(right);
    assert_false(history.failed);
    assert_true(history.answer_count > READERS);
    assert_nobody_saw_the_past(&history, edits);
    free(history.answers);
    /* A load per edit, and one more for each that was voided: two per edit at most. */
    assert_in_range(fleet_loads(FLEET_LOAD_PRODUCT), 1, 2 * EDITS + 1);
}

/* Quick loads end before their loss is known, slow ones are cancelled for it. */
TEST(whoever_begins_after_an_invalidation_sees_the_row_it_was_for, P19, P39)
{
    edit_under_way("LOAD_DELAY_MS=0");
    edit_under_way("LOAD_DELAY_MS=15");
}

/* ---- a product whose time is over ---- */

#define STALE_FOR_AN_HOUR "FRESH_MS=3600000", "STALE_MS=3600000", "JITTER_PERCENT=0"
#define UNCHANGED "guard_loads_total{result=\"unchanged\"}"
#define LOADED "guard_loads_total{result=\"ok\"}"
#define STORED "guard_fills_total{result=\"stored\"}"
#define SOFT "guard_stale_late_total{reason=\"soft_limit\"}"

struct scene {
    struct pg_conn *gate;
    uint32_t product;
    char path[BURST_PATH_BYTES], key[FLEET_KEY_BYTES];
};

static struct scene scene;

/* Both processes up and one product loaded. */
static void begin(const char *const *settings)
{
    scene = (struct scene){0};
    assert_true(fleet_start(PROCESSES, settings));
    scene.product = fleet_cold_product(scene.path);
    fleet_redis_key(scene.key, scene.product, 'v');
    fleet_mark();
    assert_int_equal(fleet_ask_status(0, scene.path), 200);
    assert_true(probe_wait_for(scene.product, PROBE_VALUE));
}

static bool end(void)
{
    probe_gate_open(&scene.gate);
    return fleet_end();
}

static void shut_gate(void)
{
    assert_true(probe_gate_shut(&scene.gate));
}

/* What it has left of its life is part of its stale time. */
static void make_stale(void)
{
    assert_true(probe_redis("PEXPIRE %s %d", scene.key, OLD_MS));
}

static uint32_t loads(void)
{
    return fleet_loads(FLEET_LOAD_PRODUCT);
}

static void wait_sum(const char *sample, double at_least)
{
    uint64_t end_us = clock_after_ms(FLEET_LIMIT_MS);
    while (fleet_sum(sample) < at_least) {
        if (clock_us() > end_us)
            fail_msg("%s stays below %g", sample, at_least);
        clock_pause_ms(2);
    }
}

struct seen {
    unsigned status;
    long age_s;
    bool stale;
    char cache_status[128];
};

static struct seen ask(size_t process)
{
    struct http_answer answer;
    char age[32];
    assert_true(fleet_ask(process, NULL, scene.path, &answer));
    struct seen seen = {.status = answer.status};
    http_header(&answer, "Cache-Status", seen.cache_status, sizeof seen.cache_status);
    seen.age_s = strtol(http_header(&answer, "Age", age, sizeof age), NULL, 10);
    seen.stale = strstr(seen.cache_status, "fwd=stale") != NULL;
    http_answer_clear(&answer);
    return seen;
}

/* A hit may be one of too many that ask for a refresh; the next ones ask again. */
static void ask_until(const char *sample, double at_least)
{
    uint64_t end_us = clock_after_ms(FLEET_LIMIT_MS);
    while (fleet_sum(sample) < at_least) {
        assert_int_equal(ask(1).status, 200);
        assert_true(clock_us() < end_us);
        clock_pause_ms(2);
    }
}

static void expect_stale(size_t process)
{
    struct seen seen = ask(process);
    assert_int_equal(seen.status, 200);
    if (!seen.stale || strstr(seen.cache_status, "ttl=-") == NULL)
        fail_msg("not stale: %s", seen.cache_status);
}

static void expect_fresh(size_t process)
{
    struct seen seen = ask(process);
    assert_int_equal(seen.status, 200);
    if (strstr(seen.cache_status, "hit; ttl=3") == NULL) /* 3600, or a little less */
        fail_msg("no fresh hit: %s", seen.cache_status);
    assert_in_range(seen.age_s, 0, FLEET_LIMIT_MS / 1000);
}

TEST(a_stale_product_never_waits_and_one_process_of_the_fleet_refreshes_it, P46)
{
    const char *const settings[] = {STALE_FOR_AN_HOUR, NULL};
    struct burst_target targets[FLEET_PROCESSES_MAX];
    struct burst *burst = NULL;
    begin(settings);
    make_stale();
    shut_gate(); /* nobody can be refreshed: whoever waited for that would wait for ever */
    struct burst_options options = fleet_options(targets, scene.path, STALE_REQUESTS);
    assert_true(burst_open(&options, &burst));
    assert_true(burst_run(burst));
    for (uint32_t i = 0; i < STALE_REQUESTS; i++) {
        char value[128];
        const struct burst_answer *answer = &burst_answers(burst)[i];
        assert_int_equal(answer->status, 200);
        assert_non_null(
            strstr(burst_header(answer, "Cache-Status", value, sizeof value), "fwd=stale; ttl=-"));
        assert_in_range(strtol(burst_header(answer, "Age", value, sizeof value), NULL, 10), HOUR_MS / 1000,
                        2 * HOUR_MS / 1000);
    }
    burst_close(&burst);
    wait_sum("guard_loads_running", 1);
    probe_gate_open(&scene.gate);
    wait_sum(STORED, 2);
    for (size_t i = 0; i < PROCESSES; i++)
        expect_fresh(i);
    assert_int_equal(loads(), 2); /* the first, and one refresh */
    assert_int_equal(probe_lease_count(), 0);
}

TEST(past_the_soft_limit_the_stale_product_is_served_and_the_load_goes_on, P71)
{
    enum { SOFT_MS = 300 };
    const char *const settings[] = {STALE_FOR_AN_HOUR, FLEET_PATIENT, "SOFT_MS=300", "DEADLINE_MS=20000",
                                    NULL};
    begin(settings);
    make_stale();
    shut_gate();
    for (size_t i = 0; i < PROCESSES; i++) { /* the second one waits for the refresh of the first */
        uint64_t begin_us = clock_us();
        expect_stale(i);
        assert_in_range(clock_us() - begin_us, SOFT_MS * 1000, 10000000);
    }
    assert_int_equal(fleet_sum(SOFT), PROCESSES);
    assert_int_equal(fleet_sum("guard_loads_running"), 1);
    probe_gate_open(&scene.gate);
    wait_sum(STORED, 2);
    expect_fresh(1);
    assert_int_equal(loads(), 2);
}

TEST(an_unchanged_product_lives_on_without_being_sent_and_a_changed_one_is, P72)
{
    const char *const settings[] = {STALE_FOR_AN_HOUR, NULL};
    struct http_answer answer;
    begin(settings);
    for (int i = 1; i <= 3; i++) { /* again and again: what was touched can be touched */
        make_stale();
        expect_stale(1);
        ask_until(STORED, 1 + i);
        assert_int_equal(fleet_sum(UNCHANGED), i);
        expect_fresh(0);
    }
    assert_int_equal(fleet_sum(LOADED), 1);
    assert_int_equal(fleet_sum("guard_entries_rejected_total"), 0);
    assert_true(
        fleet_sql(NULL, 0, "UPDATE products SET price_cents = 99887766 WHERE id = %u", scene.product));
    make_stale();
    ask_until(STORED, 5);
    assert_int_equal(fleet_sum(UNCHANGED), 3);
    assert_true(fleet_ask(0, NULL, scene.path, &answer));
    assert_non_null(strstr(answer.body, "99887766"));
    http_answer_clear(&answer);
}

TEST_GROUP(.up = fleet_up, .down = fleet_down, .after = end);
