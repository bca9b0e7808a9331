/* SPDX-License-Identifier: MIT */
/* live.c - see live.h: its groups of numbers are lists. */
#include "app/view/live.h"

#include "app/base/settings.h"
#include "guard/adapters/prometheus.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The guard's numbers by their names here (guard_numbers_next()). */
static const char ANSWERS[] =
    "near:near_hit cache:hit kept stale absent:absent_hit failed_before:failed_hit load:loaded "
    "flight:collapsed_process "
    "fleet:collapsed_fleet failed shed timeout:timed_out cancelled closing:closed missed";
static const char LOADS[] =
    "started:load_started ok:load_ok absent:load_absent unchanged:load_unchanged failed:load_failed "
    "cancelled:load_cancelled uncached:load_uncached duplicate:load_duplicate nested:load_nested "
    "refreshes:refresh_started running:loads_running queued:loads_queued";
static const char LEASES[] = "acquired:lease_acquired busy:lease_busy renewed:lease_renewed lost:lease_lost";
static const char PERMITS[] =
    "held:permits_held waiting:permits_waiting refused:permit_refused lost:permit_lost";
static const char SHADOW[] = "saved:shadow_saved hits:shadow_hits waits:shadow_waits loads:shadow_loads";
static const char NEAR[] = "entries:near_entries bytes:near_bytes missed:near_miss evicted:near_evicted";
static const char REDIS[] =
    "commands:redis_commands round_trips:redis_round_trips timeouts:redis_timeouts errors:redis_errors";

static const uint64_t BOUNDS_US[] = GUARD_HISTOGRAM_BOUNDS_US;

static json_t *group_json(const struct guard_stats *stats, const char *list)
{
    json_t *group = json_object();
    char name[GUARD_NUMBER_BYTES];
    size_t number = 0;

    while (guard_numbers_next(&list, &number, name))
        json_object_set_new(group, name, json_integer((json_int_t)guard_stat_value(stats, number)));
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
    json_t *redis = group_json(&sample->guard, REDIS);

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
        "{s:i, s:I, s:I, s:b, s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:{s:b}, s:o}",
        "v", LIVE_VERSION, "at_ms", (json_int_t)sample->at_ms, "up_ms", (json_int_t)sample->up_ms, "draining",
        (int)sample->draining, "answers", group_json(guard, ANSWERS), "waiters", (json_int_t)guard->waiters,
        "flights", (json_int_t)guard->flights, "loads", group_json(guard, LOADS), "running",
        running_json(sample), "get_us", histogram_json(&guard->get_duration), "load_us",
        histogram_json(&guard->load_duration), "leases", group_json(guard, LEASES), "permits",
        group_json(guard, PERMITS), "shadow", group_json(guard, SHADOW), "near", group_json(guard, NEAR),
        "hot", hot_json(sample), "redis", redis_json(sample), "database", "ready",
        (int)sample->database_ready, "http", http_json(&sample->server));
}

json_t *live_first_json(const struct live_sample *sample, const struct live_about *about, uint32_t every_ms)
{
    json_t *line = live_json(sample);

    if (line != NULL)
        json_object_set_new(line, "about", about_json(about, every_ms));
    return line;
}
