/* SPDX-License-Identifier: MIT */
/* sample.c - see sample.h. */
#include "tests/support/sample.h"

#include "load/base/dice.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { QUERY_US = 200000, PROCESSES = 2, KEYS = 4, MOST_AT_ONCE = 97 };

static const uint64_t begin_us = UINT64_C(7000000000);

struct world {
    const struct sample *sample;
    uint64_t random;
    struct record *records;
    size_t record_count;
    struct record_samples bad;
    struct witness_load *loads;
    size_t load_count;
    uint64_t loaded_us[PROCESSES][KEYS], ready_us[PROCESSES][KEYS]; /* the last load of a key in a process */
};

static double chance(struct world *world)
{
    return (double)(dice_next(&world->random) >> 11) / 9007199254740992.0;
}

/* Most answers are quick, some are not. */
static double quick_us(struct world *world)
{
    return 250 * exp(0.6 * sqrt(-2 * log(chance(world) + 1e-12)) * cos(6.2831853 * chance(world)));
}

/* The log has milliseconds. */
static void load(struct world *world, uint64_t at_us, uint32_t key)
{
    struct witness_load *one = &world->loads[world->load_count++];
    one->at_us = at_us / 1000 * 1000;
    one->end_us = one->at_us + QUERY_US;
    snprintf(one->key, sizeof one->key, "%u", key + 7);
}

static bool is_away(const struct sample *sample, uint64_t due_us)
{
    uint64_t at_ms = (due_us - begin_us) / 1000;
    return sample->fault_until_ms > 0 && at_ms >= sample->fault_at_ms && at_ms < sample->fault_until_ms;
}

/* How long a request waits for the value; who is the first to miss it has it queried. */
static double wait_us(struct world *world, uint64_t due_us, uint32_t key, uint8_t *cache)
{
    const struct sample *sample = world->sample;
    size_t process = sample->guard == SAMPLE_LOCAL ? world->record_count % PROCESSES : 0;
    uint64_t *ready_us = &world->ready_us[process][key], *loaded_us = &world->loaded_us[process][key];
    bool is_fresh =
        *ready_us != 0 && due_us >= *ready_us && due_us < *ready_us + (uint64_t)sample->ttl_ms * 1000;
    if (is_fresh && !is_away(sample, due_us)) {
        *cache = RECORD_CACHE_HIT;
        return 0;
    }
    if (*ready_us > due_us && (sample->guard != SAMPLE_OFF || is_away(sample, due_us))) {
        *cache = RECORD_CACHE_COLLAPSED;
        return (double)(*ready_us - due_us);
    }
    *cache = RECORD_CACHE_MISS;
    load(world, due_us, key);
    if (*ready_us > due_us) /* nobody minds the others: each query makes all of them slower */
        return QUERY_US * (1 + 18 * chance(world));
    *loaded_us = due_us;
    *ready_us = due_us + QUERY_US + (uint64_t)(quick_us(world) * 20);
    return (double)(*ready_us - due_us);
}

/* The first few, as a generator keeps them. */
static void show(struct world *world, const struct record *record)
{
    static const char body[] = "{\"error\": \"the cache is away\"}";
    uint32_t slot = (uint32_t)world->record_count;
    struct record_sample *sample =
        record_samples_take(&world->bad, slot, (enum record_outcome)record->outcome, record->status);
    if (sample == NULL)
        return;
    record_sample_add(sample, body, sizeof body - 1);
    sample->record = *record;
}

static void request(struct world *world, uint64_t due_us)
{
    struct record *record = &world->records[world->record_count];
    uint32_t key = world->sample->per_second > 0 ? (uint32_t)(chance(world) * chance(world) * KEYS) : 0;
    double slowness = world->sample->slowness > 0 ? world->sample->slowness : 1;
    *record = (struct record){
        .due_us = due_us, .key = key + 7, .status = 200, .body_bytes = 1200, .received_bytes = 1400};
    bool is_bad = false;
    double us = (quick_us(world) + wait_us(world, due_us, key, &record->cache)) * slowness;
    if (is_away(world->sample, due_us) && chance(world) < 0.02) {
        record->status = 503;
        record->cache = RECORD_CACHE_NONE;
        is_bad = true;
    }
    record->connect_us = world->record_count % 5 == 0 ? 90 + (uint32_t)world->record_count % 40 : 0;
    record->sent_us = (uint32_t)(50 * chance(world)) + 1;
    record->end_us = record->sent_us + (uint32_t)us;
    record->first_us = record->end_us - record->sent_us / 2;
    if (is_bad)
        show(world, record);
    world->record_count++;
}

static void run(struct world *world)
{
    const struct sample *sample = world->sample;
    for (uint32_t round = 0; round < sample->round_count; round++) {
        memset(world->ready_us, 0, sizeof world->ready_us);
        for (uint32_t i = 0; i < sample->connection_count; i++)
            request(world, begin_us + (uint64_t)round * 2000000);
    }
    size_t count = (size_t)sample->per_second * sample->duration_ms / 1000;
    for (size_t i = 0; i < count; i++)
        request(world, begin_us + (uint64_t)((double)i * 1e6 / sample->per_second));
}

static void describe_strain(const struct sample *sample, struct herd_strain *strain)
{
    *strain = (struct herd_strain){.generator_count = 2,
                                   .busiest = 0.41,
                                   .late_p99_us = 180,
                                   .late_max_us = 2100,
                                   .spread_us = 4300,
                                   .late_count = sample->per_second > 0 ? 12 : 0};
    snprintf(strain->verdict, sizeof strain->verdict,
             "The generator kept up: its busiest process used 41 %% of a core.");
}

static void take_rest(struct witness_view *view)
{
    static const struct witness_command commands[] = {
        {"evalsha", 2104}, {"get", 1830}, {"pttl", 1830}, {"set", 11}, {"publish", 11}};
    witness_most_at_once(view->loads, view->load_count, 0, &view->at_once);
    view->at_once = view->at_once > MOST_AT_ONCE ? MOST_AT_ONCE : view->at_once;
    view->has_ends = true;
    view->has_redis = true;
    view->command_count = sizeof commands / sizeof *commands;
    memcpy(view->commands, commands, sizeof commands);
    for (size_t i = 0; i < view->command_count; i++)
        view->command_sum += view->commands[i].calls;
}

static struct result *make(struct world *world)
{
    const struct sample *sample = world->sample;
    char what[RESULT_TEXT_BYTES];
    static struct work work;
    struct herd_strain strain;
    struct records records = {.at = world->records,
                              .count = world->record_count,
                              .samples = world->bad.at,
                              .sample_count = world->bad.count};
    struct witness_view view = {.way = WITNESS_LOG, .loads = world->loads, .load_count = world->load_count};
    struct result_source source = {.name = sample->name,
                                   .what = what,
                                   .work = &work,
                                   .records = &records,
                                   .view = &view,
                                   .strain = &strain,
                                   .begin_us = begin_us,
                                   .wall_s = 1795000000,
                                   .ttl_ms = sample->ttl_ms};
    struct result *result = malloc(sizeof *result);
    work = (struct work){.shape = sample->per_second > 0 ? WORK_RATE : WORK_BURST,
                         .connection_count = sample->connection_count,
                         .round_count = sample->round_count,
                         .per_second = sample->per_second,
                         .duration_ms = sample->duration_ms};
    if (sample->per_second > 0)
        snprintf(what, sizeof what, "%u requests per second for %u ms over 200 connections, 2 targets",
                 sample->per_second, sample->duration_ms);
    else
        snprintf(what, sizeof what, "%u connections at one instant, %u times, 2 targets",
                 sample->connection_count, sample->round_count);
    describe_strain(sample, &strain);
    take_rest(&view);
    assert(result != NULL && result_make(&source, result));
    return result;
}

struct result *sample_result(const struct sample *sample)
{
    size_t most = (size_t)sample->round_count * sample->connection_count +
                  (size_t)sample->per_second * sample->duration_ms / 1000 + 1;
    struct world world = {.sample = sample, .random = sample->seed};
    world.records = calloc(most, sizeof *world.records);
    world.loads = calloc(most, sizeof *world.loads);
    assert(world.records != NULL && world.loads != NULL);
    run(&world);
    struct result *result = make(&world);
    free(world.records);
    free(world.loads);
    return result;
}

/* ---- reports ---- */

static void check(struct result *result, const char *text, bool held, double number, const char *unit)
{
    struct result_check *check = &result->checks[result->check_count++];
    snprintf(check->text, sizeof check->text, "%s", text);
    snprintf(check->measured, sizeof check->measured, "%.2f%s", number, unit);
    check->held = held;
}

static void fill(struct report *report, struct sample *sample)
{
    static const char *const names[] = {"off", "local", "fleet"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        sample->name = names[i];
        sample->guard = (enum sample_guard)i;
        struct result *result = sample_result(sample);
        report_add(report, result);
        if (sample->fault_until_ms > 0)
            result_mark(result, RESULT_FAULT, sample->fault_at_ms, sample->fault_until_ms, "redis kill");
        check(result, "answered = 100%", result->outcomes[RECORD_ANSWERED] == result->requests,
              100 * (double)result->outcomes[RECORD_ANSWERED] / (double)result->requests, "%");
        if (i < 2)
            continue;
        check(result, "loads per expiry <= 1", result->loads_per_expiry <= 1, result->loads_per_expiry, "");
        check(result, "p99 <= 300ms", result->all.p99_us <= 300000, (double)result->all.p99_us / 1e3, " ms");
    }
}

void sample_burst_report(struct report *report)
{
    struct sample sample = {.seed = 1, .round_count = 1, .connection_count = 1000, .ttl_ms = 60000};
    *report = (struct report){
        .title = "Cold burst",
        .about =
            "A thousand clients ask two processes for one cold product at the same instant. The query takes "
            "200 ms.\n\nOne query must be enough for everybody.",
        .command = "build/stampede run load/scenarios/cold-burst --html burst.html",
        .machine = "2 cores, Linux 6.18.44 x86_64; Redis 7.0.15, PostgreSQL 15.20",
    };
    fill(report, &sample);
}

void sample_rate_report(struct report *report)
{
    struct sample sample = {.seed = 2,
                            .per_second = 2000,
                            .duration_ms = 10000,
                            .ttl_ms = 1000,
                            .fault_at_ms = 4000,
                            .fault_until_ms = 6000};
    *report = (struct report){
        .title = "Hot keys expire while Redis is killed",
        .about = "Two thousand requests a second for four products that live for one second each; Redis is "
                 "killed at 4 s and back at 6 s.",
        .command = "build/stampede run load/scenarios/hot-expiry --html hot.html",
        .machine = "2 cores, Linux 6.18.44 x86_64; Redis 7.0.15, PostgreSQL 15.20",
    };
    fill(report, &sample);
    for (size_t i = 0; i < report->result_count; i++) {
        result_mark(report->results[i], RESULT_FAULT, 7000, 0, "leader pause");
        result_mark(report->results[i], RESULT_NOTE, 8200, 0, "product 7 gets a new price");
    }
}
