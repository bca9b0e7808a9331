/* SPDX-License-Identifier: MIT */
/*
 * metrics.c - one row per number. Rows of one family stand together and the first carries its help text.
 */
#include "app/ops/metrics.h"

#include "app/base/settings.h"

#include <inttypes.h>
#include <stddef.h>

enum type { TYPE_COUNTER, TYPE_GAUGE, TYPE_SECONDS /* a gauge whose number is milliseconds */ };
enum width { U64, U32, BOOL };

struct row {
    enum type type;
    const char *name;  /* of a counter without _total */
    const char *label; /* name="value", or NULL */
    const char *help;  /* on the first row of a family */
    enum width width;
    size_t offset; /* in struct metrics */
};

#define WIDTH_OF(field) _Generic(((struct metrics *)NULL)->field, uint64_t : U64, uint32_t : U32, bool : BOOL)
#define ROW(type, name, label, help, field)                                                                  \
    {                                                                                                        \
        type, name, label, help, WIDTH_OF(field), offsetof(struct metrics, field)                            \
    }
#define COUNTER(name, label, help, field) ROW(TYPE_COUNTER, name, label, help, field)
#define GAUGE(name, label, help, field) ROW(TYPE_GAUGE, name, label, help, field)
#define SECONDS(name, help, field) ROW(TYPE_SECONDS, name, NULL, help, field)

static const struct row COUNTERS[] = {
    COUNTER("guard_gets", "outcome=\"hit\"",
            "Requests to the guard, each counted once, by how it was answered.", guard.hit),
    COUNTER("guard_gets", "outcome=\"near\"", NULL, guard.near_hit),
    COUNTER("guard_gets", "outcome=\"stale\"", NULL, guard.stale),
    COUNTER("guard_gets", "outcome=\"absent_hit\"", NULL, guard.absent_hit),
    COUNTER("guard_gets", "outcome=\"failed_hit\"", NULL, guard.failed_hit),
    COUNTER("guard_gets", "outcome=\"loaded\"", NULL, guard.loaded),
    COUNTER("guard_gets", "outcome=\"collapsed_process\"", NULL, guard.collapsed_process),
    COUNTER("guard_gets", "outcome=\"collapsed_fleet\"", NULL, guard.collapsed_fleet),
    COUNTER("guard_gets", "outcome=\"failed\"", NULL, guard.failed),
    COUNTER("guard_gets", "outcome=\"shed\"", NULL, guard.shed),
    COUNTER("guard_gets", "outcome=\"timeout\"", NULL, guard.timed_out),
    COUNTER("guard_gets", "outcome=\"cancelled\"", NULL, guard.cancelled),
    COUNTER("guard_gets", "outcome=\"closed\"", NULL, guard.closed),
    COUNTER("guard_loads_started", NULL, "Loads begun by this process.", guard.load_started),
    COUNTER("guard_loads", "result=\"ok\"", "Loads of this process, by how they ended.", guard.load_ok),
    COUNTER("guard_loads", "result=\"absent\"", NULL, guard.load_absent),
    COUNTER("guard_loads", "result=\"unchanged\"", NULL, guard.load_unchanged),
    COUNTER("guard_loads", "result=\"failed\"", NULL, guard.load_failed),
    COUNTER("guard_loads", "result=\"cancelled\"", NULL, guard.load_cancelled),
    COUNTER("guard_loads_uncached", NULL, "Loads begun without a lease.", guard.load_uncached),
    COUNTER("guard_loads_duplicate", NULL,
            "Loads begun while another of the same key ran here under a live lease; stays 0.",
            guard.load_duplicate),
    COUNTER("guard_refreshes", "reason=\"stale\"", "Background and early refreshes begun, by reason.",
            guard.refresh_started),
    COUNTER("guard_refreshes", "reason=\"early\"", NULL, guard.refresh_early),
    COUNTER("guard_refreshes_failed", NULL, "Background and early refreshes that failed.",
            guard.refresh_failed),
    COUNTER("guard_stale_late", "reason=\"soft_limit\"",
            "Stale answers after a wait for a fresh one, by what ended the wait.", guard.stale_soft),
    COUNTER("guard_stale_late", "reason=\"error\"", NULL, guard.stale_rescued),
    COUNTER("guard_leases", "event=\"acquired\"", "Leases, by what happened to them.", guard.lease_acquired),
    COUNTER("guard_leases", "event=\"busy\"", NULL, guard.lease_busy),
    COUNTER("guard_leases", "event=\"renewed\"", NULL, guard.lease_renewed),
    COUNTER("guard_leases", "event=\"lost\"", NULL, guard.lease_lost),
    COUNTER("guard_leases", "event=\"released\"", NULL, guard.lease_released),
    COUNTER("guard_fills", "result=\"stored\"", "Fills, by Redis's answer.", guard.fill_stored),
    COUNTER("guard_fills", "result=\"late\"", NULL, guard.fill_late),
    COUNTER("guard_fills", "result=\"refused\"", NULL, guard.fill_refused),
    COUNTER("guard_fills", "result=\"unknown\"", NULL, guard.fill_unknown),
    COUNTER("guard_fills", "result=\"too_big\"", NULL, guard.fill_too_big),
    COUNTER("guard_wakes", "by=\"message\"",
            "Wake-up messages heard, polls by waiting flights, resynchronisations.", guard.wake_messages),
    COUNTER("guard_wakes", "by=\"poll\"", NULL, guard.wake_polls),
    COUNTER("guard_wakes", "by=\"resync\"", NULL, guard.wake_resyncs),
    COUNTER("guard_push_answered", NULL, "Requests answered with a value that came with a wake-up message.",
            guard.push_answered),
    COUNTER("guard_invalidations", "result=\"done\"", "Invalidations, by whether Redis confirmed them.",
            guard.invalidated),
    COUNTER("guard_invalidations", "result=\"unknown\"", NULL, guard.invalidate_unknown),
    COUNTER("guard_replays", "result=\"done\"",
            "Confirmed invalidations sent again to another master, and those too many to be.",
            guard.replayed),
    COUNTER("guard_replays", "result=\"dropped\"", NULL, guard.replay_dropped),
    COUNTER("guard_moving", NULL,
            "Commands that did not run because their keys were moving to another master.", guard.moving),
    COUNTER("guard_entries_rejected", NULL,
            "Redis entries that were damaged, foreign or under the wrong key.", guard.entry_rejected),
    COUNTER("guard_entries_outdated", NULL, "Redis entries older than an invalidation of one of their tags.",
            guard.entry_outdated),
    COUNTER("guard_shadow_saved", NULL, "Mode shadow: loads that mode fleet would not have made.",
            guard.shadow_saved),
    COUNTER("guard_shadow_hits", NULL, "Of those, requests that the cache would have answered.",
            guard.shadow_hits),
    COUNTER("guard_shadow_waits", NULL, "Of those, requests that would have waited for a load.",
            guard.shadow_waits),
    COUNTER("guard_shadow_loads", NULL, "Loads that mode fleet would have made.", guard.shadow_loads),
    COUNTER("guard_permits", "result=\"granted\"", "Requests for fleet-wide load permits, by Redis's answer.",
            guard.permit_granted),
    COUNTER("guard_permits", "result=\"refused\"", NULL, guard.permit_refused),
    COUNTER("guard_permits_lost", NULL, "Permits that ran out or were forgotten while their loads ran.",
            guard.permit_lost),
    COUNTER("guard_permits_spared", NULL, "Loads begun without a permit because Redis did not answer.",
            guard.permit_spared),
    COUNTER("guard_refreshes_yielded", NULL,
            "Queued refreshes that made way for a request, or waited too long.", guard.refresh_yielded),
    COUNTER("guard_loads_nested", NULL, "Loads begun inside a loader that waited for them.",
            guard.load_nested),
    COUNTER("guard_near_lookups", "result=\"hit\"", "Near cache lookups, by result.", guard.near_hit),
    COUNTER("guard_near_lookups", "result=\"miss\"", NULL, guard.near_miss),
    COUNTER("guard_near_removed", "reason=\"evicted\"", "Entries that left the near cache early, by reason.",
            guard.near_evicted),
    COUNTER("guard_near_removed", "reason=\"invalidated\"", NULL, guard.near_dropped),
    COUNTER("guard_near_removed", "reason=\"unheard\"", NULL, guard.near_cleared),
    COUNTER("guard_redis_commands", NULL, "Commands sent to Redis.", guard.redis_commands),
    COUNTER("guard_redis_round_trips", NULL, "Batches of commands written to Redis.",
            guard.redis_round_trips),
    COUNTER("guard_redis_timeouts", NULL,
            "Connections to Redis given up because connecting or a command took too long.",
            guard.redis_timeouts),
    COUNTER("guard_redis_errors", NULL, "Error replies from Redis.", guard.redis_errors),
    COUNTER("guard_redis_connects", NULL, "Connections to Redis opened.", guard.redis_connects),
    COUNTER("guard_redis_reigns", NULL, "Times that the master turned out to be another one, or none.",
            guard.redis_reigns),
    COUNTER("guard_breaker_opened", NULL, "Times the breaker opened.", guard.breaker_opened),
    COUNTER("catalogd_connections_expired", NULL,
            "Connections closed because the client was too slow, or to make room for others.",
            server.connections_expired),
};

static const struct row GAUGES[] = {
    GAUGE("guard_waiters", NULL, "Requests waiting in the guard.", guard.waiters),
    GAUGE("guard_flights", NULL, "Keys being loaded or waited for.", guard.flights),
    GAUGE("guard_loads_running", NULL, "Loads that occupy a worker.", guard.loads_running),
    GAUGE("guard_loads_queued", NULL, "Loads that wait for a worker or a permit.", guard.loads_queued),
    GAUGE("guard_permits_held", NULL, "Fleet-wide load permits that this process holds.", guard.permits_held),
    GAUGE("guard_permits_waiting", NULL, "Loads that wait for a permit while a worker is free.",
          guard.permits_waiting),
    GAUGE("guard_near_entries", NULL, "Entries in the near cache.", guard.near_entries),
    GAUGE("guard_near_bytes", NULL, "Memory of the near cache.", guard.near_bytes),
    GAUGE("guard_breaker_open", NULL, "1 while the breaker keeps commands from Redis.", guard.breaker_open),
    GAUGE("catalogd_connections", NULL, "Open client connections.", server.connections),
    GAUGE("catalogd_connections_busy", NULL, "Connections with a request not yet answered.",
          server.connections_busy),
    GAUGE("catalogd_connections_parked", NULL, "Connections suspended until the guard answers.",
          server.connections_parked),
    GAUGE("catalogd_server_loops", NULL, "Threads that serve connections.", server.loops),
    GAUGE("catalogd_database_ready", NULL, "1 if the database was reached at the last try.", database_ready),
    GAUGE("process_open_fds", NULL, "Open file descriptors.", open_fds),
    GAUGE("process_max_fds", NULL, "File descriptors that may be open.", max_fds),
    GAUGE("process_resident_memory_bytes", NULL, "Resident memory.", resident_bytes),
};

/* Only where writes are on: a process that cannot pay what is owed does not know how much it is. */
static const struct row WRITES[] = {
    COUNTER("catalogd_writes_invisible", NULL,
            "Writes committed and answered before every cache confirmed their invalidations.",
            server.writes.invisible),
    COUNTER("catalogd_writes_settled", NULL,
            "Writes whose invalidations were all confirmed before the answer.", server.writes.outbox.settled),
    GAUGE("catalogd_writes_running", NULL, "Writes that occupy a worker.", server.writes.running),
    GAUGE("catalogd_writes_queued", NULL, "Writes that wait for a worker.", server.writes.queued),
    GAUGE("catalogd_outbox_rows", NULL, "Invalidations owed by committed changes; counted to 10000.",
          server.writes.outbox.row_count),
    SECONDS("catalogd_outbox_oldest_seconds", "Age of the oldest invalidation owed.",
            server.writes.outbox.oldest_age_ms),
    COUNTER("catalogd_outbox_paid", NULL, "Outbox rows that this process paid.", server.writes.outbox.paid),
    COUNTER("catalogd_outbox_unpaid", NULL,
            "Outbox rows that Redis did not confirm in time; they are tried again.",
            server.writes.outbox.unpaid),
    COUNTER("catalogd_outbox_notified", NULL, "Change notifications heard.", server.writes.outbox.notified),
    GAUGE("catalogd_outbox_listening", NULL, "1 while notifications can be heard.",
          server.writes.outbox.listening),
    GAUGE("catalogd_caches_registered", NULL, "Caches that changes are owed to, as of the last beat.",
          server.writes.outbox.cache_count),
    COUNTER("catalogd_caches_dropped", NULL,
            "Caches that this process dropped because they were silent for too long.",
            server.writes.outbox.caches_dropped),
    GAUGE("catalogd_cache_in_use", NULL, "1 while loads are stored: this process's cache is registered.",
          server.writes.may_store),
    COUNTER("catalogd_loads_unstored", NULL, "Loads not stored because their cache was not registered.",
            server.writes.unstored),
};

static const struct row AGES[] = {
    SECONDS("guard_turn_age_seconds", "Time since the guard's thread last turned; it does so every 0.5 s.",
            guard.beat_age_ms),
    SECONDS("catalogd_uptime_seconds", "Time since the start.", uptime_ms),
};

static const struct {
    const char *name, *help;
    size_t offset;
} HISTOGRAMS[] = {
    {"guard_get_duration_seconds", "From the request to the guard to its answer; near hits count as 0.",
     offsetof(struct metrics, guard.get_duration)},
    {"guard_load_duration_seconds", "From the start of a loader to its end.",
     offsetof(struct metrics, guard.load_duration)},
    {"guard_lease_wait_seconds", "Waits for another process's lease.",
     offsetof(struct metrics, guard.lease_wait)},
};

static const uint64_t BOUNDS_US[] = GUARD_HISTOGRAM_BOUNDS_US;
_Static_assert(sizeof(BOUNDS_US) / sizeof(BOUNDS_US[0]) == GUARD_HISTOGRAM_BUCKETS - 1,
               "the last one has none");

static const char *const REDIS_STATES[] = {[GUARD_REDIS_DOWN] = "down",
                                           [GUARD_REDIS_DENIED] = "denied",
                                           [GUARD_REDIS_UP] = "up",
                                           [GUARD_REDIS_REPLICA] = "replica",
                                           [GUARD_REDIS_FENCED] = "fenced"};
enum { REDIS_STATE_COUNT = sizeof(REDIS_STATES) / sizeof(REDIS_STATES[0]) };

const char *metrics_redis_state_name(enum guard_redis_state state)
{
    return REDIS_STATES[state];
}

static uint64_t value_of(const struct metrics *metrics, const struct row *row)
{
    const char *at = (const char *)metrics + row->offset;

    switch (row->width) {
    case U64:
        return *(const uint64_t *)(const void *)at;
    case U32:
        return *(const uint32_t *)(const void *)at;
    case BOOL:
        return *(const bool *)at;
    }
    return 0;
}

static void write_head(const char *name, const char *suffix, const char *type, const char *help, FILE *out)
{
    fprintf(out, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, suffix, help, name, suffix, type);
}

/* Seconds without floating point: exact, and the same in every locale. */
static void write_seconds(uint64_t us, FILE *out)
{
    fprintf(out, "%" PRIu64 ".%06" PRIu64, us / 1000000, us % 1000000);
}

static void write_row(const struct metrics *metrics, const struct row *row, FILE *out)
{
    const char *suffix = row->type == TYPE_COUNTER ? "_total" : "";

    if (row->help != NULL)
        write_head(row->name, suffix, row->type == TYPE_COUNTER ? "counter" : "gauge", row->help, out);
    fprintf(out, "%s%s", row->name, suffix);
    if (row->label != NULL)
        fprintf(out, "{%s}", row->label);
    fputc(' ', out);
    if (row->type == TYPE_SECONDS)
        write_seconds(value_of(metrics, row) * 1000, out);
    else
        fprintf(out, "%" PRIu64, value_of(metrics, row));
    fputc('\n', out);
}

#define WRITE_ROWS(metrics, rows, out) write_rows(metrics, rows, sizeof(rows) / sizeof((rows)[0]), out)
static void write_rows(const struct metrics *metrics, const struct row *rows, size_t count, FILE *out)
{
    for (size_t i = 0; i < count; i++)
        write_row(metrics, &rows[i], out);
}

static void write_histogram(const char *name, const char *help, const struct guard_histogram *histogram,
                            FILE *out)
{
    uint64_t total = 0;

    write_head(name, "", "histogram", help, out);
    for (size_t i = 0; i < GUARD_HISTOGRAM_BUCKETS; i++) {
        total += histogram->count[i];
        fprintf(out, "%s_bucket{le=\"", name);
        if (i < GUARD_HISTOGRAM_BUCKETS - 1)
            write_seconds(BOUNDS_US[i], out);
        else
            fputs("+Inf", out);
        fprintf(out, "\"} %" PRIu64 "\n", total);
    }
    fprintf(out, "%s_sum ", name);
    write_seconds(histogram->sum_us, out);
    fprintf(out, "\n%s_count %" PRIu64 "\n", name, total);
}

static void write_answers(const struct server_stats *server, FILE *out)
{
    write_head("catalogd_http_requests", "_total", "counter", "Answers, by route and status class.", out);
    for (size_t target = 0; target < ROUTE_TARGET_COUNT; target++) {
        for (unsigned hundreds = 2; hundreds < CLIENT_STATUS_CLASSES; hundreds++)
            fprintf(out, "catalogd_http_requests_total{route=\"%s\",status=\"%uxx\"} %" PRIu64 "\n",
                    route_target_name((enum route_target)target), hundreds,
                    server->answers[target][hundreds]);
    }
}

static void write_redis_states(const struct guard_stats *guard, FILE *out)
{
    const enum guard_redis_state states[] = {guard->redis_state, guard->wake_state};
    static const char *const connections[] = {"commands", "wake"};

    write_head("guard_redis_state", "", "gauge", "1 for the state each connection to Redis is in.", out);
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        for (unsigned state = 0; state < REDIS_STATE_COUNT; state++)
            fprintf(out, "guard_redis_state{connection=\"%s\",state=\"%s\"} %d\n", connections[i],
                    REDIS_STATES[state], states[i] == state);
    }
}

static void write_outcomes(const struct writer_stats *writes, FILE *out)
{
    write_head("catalogd_writes", "_total", "counter", "Writes, by outcome.", out);
    for (size_t i = 0; i < WRITE_OUTCOME_COUNT; i++)
        fprintf(out, "catalogd_writes_total{outcome=\"%s\"} %" PRIu64 "\n",
                write_outcome_name((enum write_outcome)i), writes->outcomes[i]);
}

void metrics_write(const struct metrics *metrics, FILE *out)
{
    WRITE_ROWS(metrics, COUNTERS, out);
    write_answers(&metrics->server, out);
    if (metrics->server.writes_on) {
        write_outcomes(&metrics->server.writes, out);
        WRITE_ROWS(metrics, WRITES, out);
    }
    WRITE_ROWS(metrics, GAUGES, out);
    write_redis_states(&metrics->guard, out);
    WRITE_ROWS(metrics, AGES, out);
    write_head("catalogd_build_info", "", "gauge", "Always 1.", out);
    fprintf(out, "catalogd_build_info{version=\"%s\",mode=\"%s\"} 1\n", GUARD_VERSION,
            settings_mode_name(metrics->mode));
    for (size_t i = 0; i < sizeof(HISTOGRAMS) / sizeof(HISTOGRAMS[0]); i++) {
        const char *at = (const char *)metrics + HISTOGRAMS[i].offset;

        write_histogram(HISTOGRAMS[i].name, HISTOGRAMS[i].help,
                        (const struct guard_histogram *)(const void *)at, out);
    }
}
