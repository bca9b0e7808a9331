/* SPDX-License-Identifier: MIT */
/* live.c - see live.h: its groups of numbers are tables. */
#include "app/view/live.h"

#include "app/base/settings.h"

#include <inttypes.h>
#include <stdio.h>

/* A number of guard_stats. */
struct number {
    const char *name;
    size_t offset;
    bool is_32; /* bits; 64 otherwise */
};
#define OF(name, field)                                                                                      \
    {                                                                                                        \
        name, offsetof(struct guard_stats, field), false                                                     \
    }
#define OF_32(name, field)                                                                                   \
    {                                                                                                        \
        name, offsetof(struct guard_stats, field), true                                                      \
    }

static const struct number ANSWERS[] = {
    OF("near", near_hit),
    OF("cache", hit),
    OF("stale", stale),
    OF("absent", absent_hit),
    OF("failed_before", failed_hit),
    OF("load", loaded),
    OF("flight", collapsed_process),
    OF("fleet", collapsed_fleet),
    OF("failed", failed),
    OF("shed", shed),
    OF("timeout", timed_out),
    OF("cancelled", cancelled),
    OF("closing", closed),
    OF("missed", missed),
};
static const struct number LOADS[] = {
    OF("started", load_started),     OF("ok", load_ok),
    OF("absent", load_absent),       OF("unchanged", load_unchanged),
    OF("failed", load_failed),       OF("cancelled", load_cancelled),
    OF("uncached", load_uncached),   OF("duplicate", load_duplicate),
    OF("nested", load_nested),       OF("refreshes", refresh_started),
    OF_32("running", loads_running), OF_32("queued", loads_queued),
};
static const struct number LEASES[] = {
    OF("acquired", lease_acquired),
    OF("busy", lease_busy),
    OF("renewed", lease_renewed),
    OF("lost", lease_lost),
};
static const struct number PERMITS[] = {
    OF_32("held", permits_held),
    OF_32("waiting", permits_waiting),
    OF("refused", permit_refused),
    OF("lost", permit_lost),
};
static const struct number SHADOW[] = {
    OF("saved", shadow_saved),
    OF("hits", shadow_hits),
    OF("waits", shadow_waits),
    OF("loads", shadow_loads),
};
static const struct number NEAR[] = {
    OF("entries", near_entries),
    OF("bytes", near_bytes),
    OF("missed", near_miss),
    OF("evicted", near_evicted),
};
static const struct number REDIS[] = {
    OF("commands", redis_commands),
    OF("round_trips", redis_round_trips),
    OF("timeouts", redis_timeouts),
    OF("errors", redis_errors),
};

static const uint64_t BOUNDS_US[] = GUARD_HISTOGRAM_BOUNDS_US;

static uint64_t value_of(const struct guard_stats *stats, const struct number *number)
{
    const char *at = (const char *)stats + number->offset;

    return number->is_32 ? *(const uint32_t *)(const void *)at : *(const uint64_t *)(const void *)at;
}

#define GROUP(stats, rows) group_json(stats, rows, sizeof(rows) / sizeof((rows)[0]))
static json_t *group_json(const struct guard_stats *stats, const struct number *rows, size_t count)
{
    json_t *group = json_object();

    for (size_t i = 0; i < count; i++)
        json_object_set_new(group, rows[i].name, json_integer((json_int_t)value_of(stats, &rows[i])));
    return group;
}

static json_t *numbers_json(const uint64_t *numbers, size_t count)
{
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_integer((json_int_t)numbers[i]));
    return list;
}

static json_t *histogram_json(const struct guard_histogram *histogram)
{
    return json_pack("{s:o, s:I}", "count", numbers_json(histogram->count, GUARD_HISTOGRAM_BUCKETS), "sum",
                     (json_int_t)histogram->sum_us);
}

static json_t *running_json(const struct live_sample *sample)
{
    json_t *list = json_array();

    for (size_t i = 0; i < sample->running_count; i++) {
        const struct running_load *load = &sample->running[i];
        char number[17];

        snprintf(number, sizeof(number), "%016" PRIx64, load->load);
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:I, s:I}", "key", load->key, "load", number, "for_ms",
                                        (json_int_t)load->for_ms, "waiters", (json_int_t)load->waiters));
    }
    return list;
}

static json_t *hot_json(const struct live_sample *sample)
{
    json_t *list = json_array();

    for (size_t i = 0; i < sample->hot_count; i++)
        json_array_append_new(list, json_pack("{s:s, s:I}", "key", sample->hot[i].key, "saved",
                                              (json_int_t)sample->hot[i].weight));
    return list;
}

/* ---- the service's ---- */

static uint64_t answers_of(const struct server_stats *server, size_t hundreds)
{
    uint64_t total = 0;

    for (size_t target = 0; target < ROUTE_TARGET_COUNT; target++)
        total += server->answers[target][hundreds];
    return total;
}

static json_t *http_json(const struct server_stats *server)
{
    json_t *statuses = json_object();
    uint64_t requests = 0;

    for (size_t hundreds = 2; hundreds < CLIENT_STATUS_CLASSES; hundreds++) {
        const char name[] = {(char)('0' + hundreds), 'x', 'x', '\0'};
        const uint64_t answers = answers_of(server, hundreds);

        requests += answers;
        json_object_set_new(statuses, name, json_integer((json_int_t)answers));
    }
    return json_pack("{s:I, s:I, s:I, s:I, s:o}", "requests", (json_int_t)requests, "connections",
                     (json_int_t)server->connections, "busy", (json_int_t)server->connections_busy, "parked",
                     (json_int_t)server->connections_parked, "statuses", statuses);
}

static json_t *redis_json(const struct live_sample *sample)
{
    json_t *redis = GROUP(&sample->guard, REDIS);

    json_object_set_new(redis, "state", json_string(sample->redis_state));
    json_object_set_new(redis, "wake", json_string(sample->wake_state));
    json_object_set_new(redis, "breaker", json_boolean(sample->guard.breaker_open));
    return redis;
}

static json_t *about_json(const struct live_about *about, uint32_t every_ms)
{
    return json_pack("{s:I, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:o}", "pid", (json_int_t)about->pid,
                     "version", GUARD_VERSION, "namespace", about->name_space, "mode",
                     settings_mode_name(about->mode), "address", about->address, "every_ms",
                     (json_int_t)every_ms, "max_loads", (json_int_t)about->max_loads, "load_permits",
                     (json_int_t)about->load_permits, "near_bytes", (json_int_t)about->near_bytes,
                     "bounds_us", numbers_json(BOUNDS_US, sizeof(BOUNDS_US) / sizeof(BOUNDS_US[0])));
}

/* ---- all ---- */

json_t *live_json(const struct live_sample *sample)
{
    const struct guard_stats *guard = &sample->guard;

    return json_pack(
        "{s:i, s:I, s:I, s:b, s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
        "s:{s:b}, s:o}",
        "v", LIVE_VERSION, "at_ms", (json_int_t)sample->at_ms, "up_ms", (json_int_t)sample->up_ms, "draining",
        (int)sample->draining, "answers", GROUP(guard, ANSWERS), "waiters", (json_int_t)guard->waiters,
        "flights", (json_int_t)guard->flights, "loads", GROUP(guard, LOADS), "running", running_json(sample),
        "get_us", histogram_json(&guard->get_duration), "load_us", histogram_json(&guard->load_duration),
        "leases", GROUP(guard, LEASES), "permits", GROUP(guard, PERMITS), "shadow", GROUP(guard, SHADOW),
        "near", GROUP(guard, NEAR), "hot", hot_json(sample), "redis", redis_json(sample), "database", "ready",
        (int)sample->database_ready, "http", http_json(&sample->server));
}

json_t *live_first_json(const struct live_sample *sample, const struct live_about *about, uint32_t every_ms)
{
    json_t *line = live_json(sample);

    if (line != NULL)
        json_object_set_new(line, "about", about_json(about, every_ms));
    return line;
}
