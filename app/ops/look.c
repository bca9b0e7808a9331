/* SPDX-License-Identifier: MIT */
/*
 * look.c - what an operator may look at, and that changes nothing: health, readiness, numbers, hot keys; and the
 * samples of the live view. None of it blocks.
 */
#include "app/ops/paths.h"

#include "app/base/clock.h"
#include "app/base/log.h"
#include "app/http/reply.h"
#include "app/ops/ops_reply.h"
#include "guard/adapters/prometheus.h"

#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    HOT_SHOWN = 20,
    STUCK_MS = 5000, /* a server loop or a guard thread that has not turned for this long is stuck */
};

static const char METRICS_TYPE[] = "text/plain; version=0.0.4; charset=utf-8";

struct health ops_health(const struct server *server, struct guard *guard)
{
    struct server_stats of_server;
    struct guard_stats of_guard;

    server_stats(server, &of_server);
    guard_stats(guard, &of_guard);
    return (struct health){
        .is_well = of_server.beat_age_ms < STUCK_MS && of_guard.beat_age_ms < STUCK_MS,
        .server_loops = of_server.loops,
        .server_turn_ms = of_server.beat_age_ms,
        .guard_turn_ms = of_guard.beat_age_ms,
    };
}

bool look_healthz(const struct ops_parts *parts, struct MHD_Connection *connection)
{
    const struct health health = ops_health(parts->of.server, parts->of.guard);
    const bool well = health.is_well || atomic_load(parts->draining);

    return ops_send(connection, well ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
                    json_pack("{s:b, s:i, s:I, s:I}", "healthy", (int)well, "server_loops",
                              (int)health.server_loops, "oldest_turn_ms", (json_int_t)health.server_turn_ms,
                              "guard_turn_ms", (json_int_t)health.guard_turn_ms));
}

bool look_readyz(const struct ops_parts *parts, struct MHD_Connection *connection)
{
    const bool draining = atomic_load(parts->draining);
    const bool database = catalog_ready(parts->of.catalog);
    const bool ready = database && !draining;
    struct guard_stats stats;

    guard_stats(parts->of.guard, &stats);
    const bool degraded =
        stats.redis_state != GUARD_REDIS_UP || stats.wake_state != GUARD_REDIS_UP || stats.breaker_open;
    return ops_send(connection, ready ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
                    json_pack("{s:b, s:b, s:s, s:s, s:s, s:I, s:b}", "ready", (int)ready, "draining",
                              (int)draining, "database", database ? "up" : "down", "redis",
                              guard_redis_state_name(stats.redis_state), "wake",
                              guard_redis_state_name(stats.wake_state), "reigns",
                              (json_int_t)stats.redis_reigns, "degraded", (int)degraded));
}

static uint32_t count_open_fds(void)
{
    DIR *folder = opendir("/proc/self/fd");
    uint32_t count = 0;

    if (folder == NULL)
        return 0;
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder))
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count - 1; /* the folder's own */
}

static uint64_t read_resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long long pages = 0;

    if (file == NULL)
        return 0;
    if (fscanf(file, "%*u %llu", &pages) != 1)
        pages = 0;
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void collect_kinds(const struct ops_parts *parts, struct metrics_kind kinds[DOCUMENT_KIND_COUNT])
{
    for (size_t i = 0; i < DOCUMENT_KIND_COUNT; i++) {
        const struct guard_kind *kind = catalog_kind(parts->of.catalog, (enum document_kind)i);

        kinds[i].name = guard_kind_name(kind);
        guard_kind_stats(kind, &kinds[i].stats);
    }
}

static void collect(const struct ops_parts *parts, struct metrics *out)
{
    struct rlimit limit = {0};

    *out = (struct metrics){.mode = parts->mode};
    guard_stats(parts->of.guard, &out->guard);
    server_stats(parts->of.server, &out->server);
    out->database_ready = catalog_ready(parts->of.catalog);
    out->started_at_ms = parts->started_at_ms;
    out->uptime_ms = clock_ms() - parts->started_ms;
    out->resident_bytes = read_resident_bytes();
    out->open_fds = count_open_fds();
    out->log_dropped = log_dropped();
    getrlimit(RLIMIT_NOFILE, &limit);
    out->max_fds = limit.rlim_cur < UINT32_MAX ? (uint32_t)limit.rlim_cur : UINT32_MAX;
}

bool look_metrics(const struct ops_parts *parts, struct MHD_Connection *connection)
{
    struct metrics_kind kinds[DOCUMENT_KIND_COUNT];
    struct metrics numbers;
    char *text = NULL;
    size_t text_bytes = 0;
    FILE *out = open_memstream(&text, &text_bytes);

    if (out == NULL)
        return false;
    collect(parts, &numbers);
    collect_kinds(parts, kinds);
    numbers.kinds = kinds;
    numbers.kind_count = DOCUMENT_KIND_COUNT;
    metrics_write(&numbers, out);
    const bool whole = fclose(out) == 0;
    const struct reply_document document = {
        .status = MHD_HTTP_OK, .content_type = METRICS_TYPE, .body = whole ? text : ""};
    const bool queued = whole && reply_document(connection, &document);
    free(text);
    return queued;
}

static json_t *heat(const struct ops_parts *parts, enum guard_hot_by by, uint64_t unit)
{
    struct guard_hot_key keys[HOT_SHOWN];
    const size_t count = guard_hot(parts->of.guard, by, keys, HOT_SHOWN);
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_pack("{s:s, s:I, s:I}", "key", keys[i].key, "weight",
                                              (json_int_t)(keys[i].weight / unit), "too_high_by_at_most",
                                              (json_int_t)(keys[i].error / unit)));
    return list;
}

bool look_hot(const struct ops_parts *parts, struct MHD_Connection *connection)
{
    return ops_send(connection, MHD_HTTP_OK,
                    json_pack("{s:s, s:o, s:o}", "about", "this process; weights halve every minute",
                              "loads_saved", heat(parts, GUARD_HOT_COLLAPSED, 1), "waited_ms",
                              heat(parts, GUARD_HOT_WAIT, 1000)));
}

/* ---- the live view ---- */

void look_sample(void *context, struct live_sample *out)
{
    const struct ops_parts *parts = context;
    guard_stats(parts->of.guard, &out->guard);
    server_stats(parts->of.server, &out->server);
    out->at_ms = clock_wall_ms();
    out->up_ms = clock_ms() - parts->started_ms;
    out->draining = atomic_load(parts->draining);
    out->database_ready = parts->of.catalog != NULL && catalog_ready(parts->of.catalog);
    out->redis_state = guard_redis_state_name(out->guard.redis_state);
    out->wake_state = guard_redis_state_name(out->guard.wake_state);
    if (parts->of.running != NULL)
        out->running_count = running_list(parts->of.running, out->running, LIVE_RUNNING_MAX);
    out->hot_count = guard_hot(parts->of.guard, GUARD_HOT_COLLAPSED, out->hot, LIVE_HOT_MAX);
}
