/* SPDX-License-Identifier: MIT */
/*
 * bench_growth.c - how the library's cost grows: with keys, tags, the size of values, waiters, guards of a fleet.
 *
 * Each curve is a row with a bar for each point. A point is measured in a process that holds nothing else, without
 * HTTP, so a million of something fits. A fleet of a thousand is a thousand guards in one process: each has threads,
 * a login and a subscription of its own, and Redis cannot tell them from a thousand processes.
 *
 * One point is measured once: read the shape of a curve, not its last digit.
 */
#include "load/base/clock.h"
#include "load/base/proc.h"
#include "load/bench/bench.h"
#include "load/bench/host.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LIMIT_MS = 600000, OPEN = 256, FLEET_LIMIT_MS = 60000, NEAR_MS = 60000, SETTLE_MS = 300 };
enum { POINTS_MAX = 6, LINES_MAX = 8 };

/* What a point has, in the order of its curve's lines. */
typedef double numbers[LINES_MAX];

static bool apart(struct bench *bench, bench_part *part, const void *of, numbers found)
{
    return bench_apart(bench, part, of, found, sizeof(numbers), LIMIT_MS);
}

static double rss_bytes(void)
{
    return (double)proc_status(getpid(), "VmRSS") * 1024;
}

static double redis_bytes(struct bench *bench)
{
    return (double)stack_redis_info(&bench->redis, "memory", "used_memory");
}

/* ---- what is loaded ---- */

struct rows {
    uint32_t tags, value_bytes;
    char *value;
    sem_t released; /* loads wait for it, if they are to wait */
    bool is_gated;
};

static void load_row(struct guard_load *load, void *context)
{
    struct rows *rows = context;
    char tag[16];
    if (rows->is_gated)
        sem_wait(&rows->released);
    for (uint32_t i = 0; i < rows->tags; i++) {
        snprintf(tag, sizeof tag, "tag%u", (unsigned)i);
        guard_load_tag(load, tag);
    }
    guard_load_done(load, rows->value, rows->value_bytes, NULL);
}

static struct guard_policy policy_of(void *context, guard_loader *loader)
{
    struct guard_policy policy = GUARD_POLICY_DEFAULTS;
    policy.loader = loader;
    policy.context = context;
    policy.fresh_ms = 3600000;
    policy.load_limit_ms = policy.deadline_ms = policy.max_hold_ms = FLEET_LIMIT_MS;
    return policy;
}

static bool open_host(struct host *host, const struct bench *bench, struct rows *rows,
                      struct guard_config config, bool is_near)
{
    struct guard_policy policy = policy_of(rows, load_row);
    policy.tagged = rows->tags > 0;
    policy.near_ms = is_near ? NEAR_MS : 0;
    policy.outage_ms = 0;
    config.near_bytes = is_near ? UINT32_MAX : 0;
    config.redis_url = bench->redis.url;
    rows->value = malloc(rows->value_bytes + 1);
    if (rows->value == NULL || sem_init(&rows->released, 0, 0) != 0)
        return false;
    memset(rows->value, 'x', rows->value_bytes);
    return host_open(host, config, &policy);
}

/* ---- keys ---- */

/* Each value has so many bytes and each entry so many tags. */
struct keys_of {
    uint32_t keys, value_bytes, tags;
    bool is_near;
};
enum { LOAD_US, HIT_US, NEAR_US, REDIS_BYTES, NEAR_BYTES, RSS_BYTES };

/* CPU for each of so many keys; of few, again and again. */
static bool time_round(struct host *host, uint32_t keys, double *us)
{
    enum { LEAST = 2000 };
    const uint32_t rounds = keys < LEAST ? LEAST / keys : 1;
    const uint64_t before_us = clock_cpu_us();
    for (uint32_t i = 0; i < rounds; i++)
        if (!host_ask_all(host, 0, keys, OPEN))
            return false;
    *us = (double)(clock_cpu_us() - before_us) / rounds / keys;
    return true;
}

static bool count_keys(struct bench *bench, const void *of_what, void *outcome)
{
    static struct host host;
    static struct rows rows;
    const struct keys_of *of = of_what;
    double *out = outcome;
    struct guard_config config = GUARD_CONFIG_DEFAULTS;
    struct guard_stats stats;
    rows = (struct rows){.tags = of->tags, .value_bytes = of->value_bytes};
    const double before = redis_bytes(bench);
    if (!open_host(&host, bench, &rows, config, of->is_near) || !host_ask_all(&host, 0, 1, 1))
        return false;
    const double memory = rss_bytes();
    const uint64_t began_us = clock_cpu_us();
    if (!host_ask_all(&host, 0, of->keys, OPEN))
        return false;
    out[LOAD_US] = (double)(clock_cpu_us() - began_us) / of->keys;
    out[REDIS_BYTES] = (redis_bytes(bench) - before) / of->keys;
    if (!host_ask_all(&host, 0, of->keys, OPEN) ||
        !time_round(&host, of->keys, &out[of->is_near ? NEAR_US : HIT_US]))
        return false;
    guard_stats(host.guard, &stats);
    out[NEAR_BYTES] = stats.near_entries > 0 ? (double)stats.near_bytes / (double)stats.near_entries : 0;
    out[RSS_BYTES] = (rss_bytes() - memory) / of->keys;
    if (of->is_near && stats.near_entries < of->keys)
        fprintf(stderr, "bench: growth: only %u of %u keys are near\n", (unsigned)stats.near_entries,
                (unsigned)of->keys);
    return !of->is_near || stats.near_entries >= of->keys;
}

/* The first process loads them; the second one finds them in Redis, and keeps them near. */
static bool keys_of(struct bench *bench, struct keys_of of, double *out)
{
    numbers near = {0};
    if (!apart(bench, count_keys, &of, out))
        return false;
    of.is_near = true;
    bool good = apart(bench, count_keys, &of, near);
    stack_redis_do(&bench->redis, "FLUSHALL");
    out[NEAR_US] = near[NEAR_US];
    out[NEAR_BYTES] = near[NEAR_BYTES];
    out[RSS_BYTES] = near[RSS_BYTES];
    return good;
}

static bool so_many_keys(struct bench *bench, double keys, double *out)
{
    return keys_of(bench, (struct keys_of){.keys = (uint32_t)keys, .value_bytes = 300}, out);
}

static bool so_many_tags(struct bench *bench, double tags, double *out)
{
    return keys_of(bench, (struct keys_of){.keys = 10000, .value_bytes = 300, .tags = (uint32_t)tags}, out);
}

/* Some 250 MiB of each size at the most. */
static bool so_many_bytes(struct bench *bench, double bytes, double *out)
{
    const uint32_t keys = bytes > 250000 ? 250 : 1000;
    return keys_of(bench, (struct keys_of){.keys = keys, .value_bytes = (uint32_t)bytes}, out);
}

/* ---- waiters ---- */

static bool count_waiters(struct bench *bench, const void *of, void *outcome)
{
    static struct host host;
    static struct rows rows = {.value_bytes = 1024};
    const uint32_t waiters = *(const uint32_t *)of;
    double *out = outcome;
    struct guard_config config = GUARD_CONFIG_DEFAULTS;
    struct guard_stats stats = {.waiters = 0};
    char name_space[32];
    snprintf(name_space, sizeof name_space, "growth.%d", (int)getpid());
    config.name_space = name_space;
    config.max_waiters = waiters + 1;
    if (!open_host(&host, bench, &rows, config, false) || !host_ask_all(&host, 0, 1, 1))
        return false;
    rows.is_gated = true;
    host.asked = host.answered = host.good = 0;
    const double memory = rss_bytes();
    const uint64_t began_us = clock_cpu_us();
    while (host.asked < waiters)
        if (!host_ask(&host, 1))
            return false;
    for (uint64_t end_us = clock_after_ms(FLEET_LIMIT_MS); stats.waiters < waiters;
         guard_stats(host.guard, &stats)) {
        if (clock_us() > end_us)
            return false;
        host_turn(&host);
    }
    const uint64_t asked_us = clock_cpu_us();
    out[2] = (rss_bytes() - memory) / waiters;
    out[0] = (double)(asked_us - began_us) / waiters;
    sem_post(&rows.released);
    while (host.answered < waiters)
        host_turn(&host);
    out[1] = (double)(clock_cpu_us() - asked_us) / waiters;
    return host.good == waiters;
}

static bool so_many_waiters(struct bench *bench, double count, double *out)
{
    const uint32_t waiters = (uint32_t)count;
    return apart(bench, count_waiters, &waiters, out);
}

/* ---- a fleet ---- */

struct member {
    struct guard *guard;
    struct guard_kind *rows;
};

struct fleet {
    struct member *members;
    uint32_t count;
    atomic_uint loads, good;
    sem_t answered, released;
};

static void load_slowly(struct guard_load *load, void *context)
{
    struct fleet *fleet = context;
    fleet->loads++;
    sem_wait(&fleet->released);
    guard_load_done(load, "x", 1, NULL);
}

static void note_member(void *context, const struct guard_result *result)
{
    struct fleet *fleet = context;
    fleet->good += result->status == GUARD_OK;
    sem_post(&fleet->answered);
}

static bool fleet_open(struct fleet *fleet, const struct bench *bench)
{
    struct guard_config config = GUARD_CONFIG_DEFAULTS;
    struct guard_policy policy = policy_of(fleet, load_slowly);
    struct guard_error error = {.text = ""};
    char name_space[32];
    snprintf(name_space, sizeof name_space, "growth.%d", (int)getpid());
    config.redis_url = bench->redis.url;
    config.name_space = name_space;
    config.max_loads = 1;
    config.redis_limit_ms = policy.lease_ms / 3;
    for (uint32_t i = 0; i < fleet->count; i++) {
        struct member *member = &fleet->members[i];
        if (guard_open(&config, &member->guard, &error) != GUARD_OK ||
            guard_kind_add(member->guard, &policy, &member->rows, &error) != GUARD_OK) {
            fprintf(stderr, "bench: growth: %s\n", error.text);
            return false;
        }
    }
    return true;
}

/* What the guards say of themselves, all together. */
static double fleet_sum(const struct fleet *fleet, uint64_t (*number)(const struct guard_stats *stats))
{
    double sum = 0;
    for (uint32_t i = 0; i < fleet->count; i++) {
        struct guard_stats stats;
        guard_stats(fleet->members[i].guard, &stats);
        sum += (double)number(&stats);
    }
    return sum;
}

static uint64_t messages_of(const struct guard_stats *stats)
{
    return stats->wake_messages;
}

static uint64_t polls_of(const struct guard_stats *stats)
{
    return stats->wake_polls;
}

static uint64_t is_up(const struct guard_stats *stats)
{
    return stats->redis_state == GUARD_REDIS_UP && stats->wake_state == GUARD_REDIS_UP;
}

static uint64_t is_waiting(const struct guard_stats *stats)
{
    return stats->waiters > 0 && (stats->lease_busy > 0 || stats->loads_running > 0);
}

static bool fleet_until(const struct fleet *fleet, uint64_t (*number)(const struct guard_stats *stats))
{
    for (uint64_t end_us = clock_after_ms(FLEET_LIMIT_MS); fleet_sum(fleet, number) < fleet->count;
         clock_pause_ms(5))
        if (clock_us() > end_us)
            return false;
    return true;
}

static bool fleet_miss(struct fleet *fleet)
{
    for (uint32_t i = 0; i < fleet->count; i++) {
        const struct member *member = &fleet->members[i];
        const struct guard_request request = {
            .kind = member->rows, .key = "hot", .answered = note_member, .context = fleet};
        if (guard_get(member->guard, &request, NULL, NULL) != GUARD_OK)
            return false;
    }
    return fleet_until(fleet, is_waiting);
}

static bool count_fleet(struct bench *bench, const void *of, void *outcome)
{
    static struct fleet fleet;
    double *out = outcome;
    fleet.count = *(const uint32_t *)of;
    fleet.members = calloc(fleet.count, sizeof *fleet.members);
    sem_init(&fleet.answered, 0, 0);
    sem_init(&fleet.released, 0, 0);
    if (fleet.members == NULL || !fleet_open(&fleet, bench) || !fleet_until(&fleet, is_up))
        return false;
    double messages = fleet_sum(&fleet, messages_of);
    uint64_t commands = stack_redis_calls(&bench->redis, NULL);
    if (!fleet_miss(&fleet))
        return false;
    const uint64_t released_us = clock_us();
    for (uint32_t i = 0; i < fleet.count; i++) /* more than one load is what must not be, but hangs nobody */
        sem_post(&fleet.released);
    for (uint32_t i = 0; i < fleet.count; i++)
        sem_wait(&fleet.answered);
    out[4] = (double)(clock_us() - released_us) / 1e3;
    out[0] = fleet.loads;
    out[1] = (double)(stack_redis_calls(&bench->redis, NULL) - commands);
    out[2] = fleet_sum(&fleet, messages_of) - messages;
    out[3] = fleet_sum(&fleet, polls_of);

    messages = fleet_sum(&fleet, messages_of);
    commands = stack_redis_calls(&bench->redis, NULL);
    const struct guard_change change = {.key = "hot"};
    struct guard_invalidated invalidated;
    const uint64_t began_us = clock_us();
    if (guard_invalidate_wait(fleet.members[0].guard, &change, &invalidated) != GUARD_OK)
        return false;
    out[7] = (double)(clock_us() - began_us) / 1e3;
    clock_pause_ms(SETTLE_MS);
    out[5] = (double)(stack_redis_calls(&bench->redis, NULL) - commands);
    out[6] = fleet_sum(&fleet, messages_of) - messages;
    return fleet.good == fleet.count;
}

static bool so_many_guards(struct bench *bench, double guards, double *out)
{
    const uint32_t count = (uint32_t)guards;
    return apart(bench, count_fleet, &count, out);
}

/* ---- curves ---- */

struct line {
    const char *what, *unit;
    unsigned decimals;
};

struct curve {
    const char *name, *heading;
    bool (*measure)(struct bench *bench, double at, double *numbers);
    const struct line *lines;
    size_t line_count;
    const char *of; /* what there are so many of */
    size_t count;
    double at[POINTS_MAX];
};

static bool grow(struct bench *bench, const struct curve *curve)
{
    numbers found[POINTS_MAX] = {{0}};
    bool good = true;
    progress_begin(curve->name);
    for (size_t i = 0; good && i < curve->count; i++) {
        progress_repetition(i + 1);
        good = curve->measure(bench, curve->at[i], found[i]);
        if (!good)
            fprintf(stderr, "bench: growth: a point was not measured\n");
    }
    if (good)
        report_heading("Growth: %s", curve->heading);
    for (size_t line = 0; good && line < curve->line_count; line++) {
        double ys[POINTS_MAX];
        for (size_t i = 0; i < curve->count; i++)
            ys[i] = found[i][line];
        report_curve(curve->lines[line].what, curve->lines[line].unit, curve->lines[line].decimals, curve->of,
                     curve->at, ys, curve->count);
    }
    return progress_end(good);
}

static const struct line key_lines[] = {{"CPU of a miss", "us", 1},
                                        {"CPU of a hit in Redis", "us", 2},
                                        {"CPU of a near hit", "us", 2},
                                        {"memory of Redis for each", "B", 0},
                                        {"of the near cache for each", "B", 0},
                                        {"of the process for each", "B", 0}};
static const struct line waiter_lines[] = {
    {"CPU to begin to wait", "us", 2}, {"CPU to be answered", "us", 2}, {"memory for each", "B", 0}};
static const struct line fleet_lines[] = {{"loads", "", 0},
                                          {"commands of a miss", "", 0},
                                          {"messages heard of a miss", "", 0},
                                          {"polls of a miss", "", 0},
                                          {"from the load's end to the last answer", "ms", 1},
                                          {"commands of an invalidation", "", 0},
                                          {"messages heard of an invalidation", "", 0},
                                          {"invalidation confirmed", "ms", 1}};

#define LINES(list) list, sizeof(list) / sizeof *(list)

static const struct curve curves[] = {
    {"keys:",
     "keys of 300 bytes, 256 requests at a time",
     so_many_keys,
     LINES(key_lines),
     "keys",
     6,
     {1, 100, 1000, 10000, 100000, 1000000}},
    {"tags:", "tags of each of 10 000 entries", so_many_tags, LINES(key_lines), "tags", 5, {0, 1, 2, 4, 8}},
    {"sizes of values:",
     "bytes of a value",
     so_many_bytes,
     LINES(key_lines),
     "bytes",
     5,
     {100, 1024, 16384, 262144, 1000000}},
    {"waiters of one process:",
     "requests of one process that wait for one load",
     so_many_waiters,
     LINES(waiter_lines),
     "waiters",
     6,
     {1, 100, 1000, 10000, 100000, 1000000}},
    {"guards of a fleet:",
     "a fleet that asks for one cold key at once, and is told of its invalidation",
     so_many_guards,
     LINES(fleet_lines),
     "guards",
     5,
     {1, 10, 100, 300, 1000}},
};

bool measure_growth(struct bench *bench)
{
    bool good = true;
    for (size_t i = 0; good && i < sizeof curves / sizeof *curves; i++)
        good = grow(bench, &curves[i]);
    return good;
}
