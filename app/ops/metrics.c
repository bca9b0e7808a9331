/* SPDX-License-Identifier: MIT */
/*
 * metrics.c - one row per number. Rows of one family stand together and the first carries its help text.
 */
#include "app/ops/metrics.h"

#include <inttypes.h>
#include <stddef.h>

enum kind { U64, U32, BOOL };

struct row {
    const char *name;  /* without _total */
    const char *label; /* name="value", or NULL */
    const char *help;  /* on the first row of a family */
    enum kind kind;
    size_t offset; /* in struct metrics */
};

#define GUARD(field) offsetof(struct metrics, guard.field)
#define SERVER(field) offsetof(struct metrics, server.field)

static const struct row COUNTERS[] = {
    {"guard_gets", "outcome=\"hit\"", "Requests to the guard, each in one outcome: how it was answered.", U64,
     GUARD(hit)},
    {"guard_gets", "outcome=\"near\"", NULL, U64, GUARD(near_hit)},
    {"guard_gets", "outcome=\"stale\"", NULL, U64, GUARD(stale)},
    {"guard_gets", "outcome=\"absent_hit\"", NULL, U64, GUARD(absent_hit)},
    {"guard_gets", "outcome=\"failed_hit\"", NULL, U64, GUARD(failed_hit)},
    {"guard_gets", "outcome=\"loaded\"", NULL, U64, GUARD(loaded)},
    {"guard_gets", "outcome=\"collapsed_process\"", NULL, U64, GUARD(collapsed_process)},
    {"guard_gets", "outcome=\"collapsed_fleet\"", NULL, U64, GUARD(collapsed_fleet)},
    {"guard_gets", "outcome=\"failed\"", NULL, U64, GUARD(failed)},
    {"guard_gets", "outcome=\"shed\"", NULL, U64, GUARD(shed)},
    {"guard_gets", "outcome=\"timeout\"", NULL, U64, GUARD(timed_out)},
    {"guard_gets", "outcome=\"cancelled\"", NULL, U64, GUARD(cancelled)},
    {"guard_gets", "outcome=\"closed\"", NULL, U64, GUARD(closed)},
    {"guard_loads_started", NULL, "Loads begun by this process.", U64, GUARD(load_started)},
    {"guard_loads", "result=\"ok\"", "Loads of this process by their end.", U64, GUARD(load_ok)},
    {"guard_loads", "result=\"absent\"", NULL, U64, GUARD(load_absent)},
    {"guard_loads", "result=\"unchanged\"", NULL, U64, GUARD(load_unchanged)},
    {"guard_loads", "result=\"failed\"", NULL, U64, GUARD(load_failed)},
    {"guard_loads", "result=\"cancelled\"", NULL, U64, GUARD(load_cancelled)},
    {"guard_loads_uncached", NULL, "Loads begun without a lease.", U64, GUARD(load_uncached)},
    {"guard_loads_duplicate", NULL, "Loads begun while another of the key ran here under a live lease; 0.",
     U64, GUARD(load_duplicate)},
    {"guard_refreshes", "reason=\"stale\"", "Loads begun behind a value that is there, by why.", U64,
     GUARD(refresh_started)},
    {"guard_refreshes", "reason=\"early\"", NULL, U64, GUARD(refresh_early)},
    {"guard_refreshes_failed", NULL, "Loads behind a value that is there which failed.", U64,
     GUARD(refresh_failed)},
    {"guard_stale_late", "reason=\"soft_limit\"",
     "Stale answers after a wait for a fresh one, by what ended it.", U64, GUARD(stale_soft)},
    {"guard_stale_late", "reason=\"error\"", NULL, U64, GUARD(stale_rescued)},
    {"guard_leases", "event=\"acquired\"", "What became of leases.", U64, GUARD(lease_acquired)},
    {"guard_leases", "event=\"busy\"", NULL, U64, GUARD(lease_busy)},
    {"guard_leases", "event=\"renewed\"", NULL, U64, GUARD(lease_renewed)},
    {"guard_leases", "event=\"lost\"", NULL, U64, GUARD(lease_lost)},
    {"guard_leases", "event=\"released\"", NULL, U64, GUARD(lease_released)},
    {"guard_fills", "result=\"stored\"", "Values offered to Redis by what it said.", U64, GUARD(fill_stored)},
    {"guard_fills", "result=\"late\"", NULL, U64, GUARD(fill_late)},
    {"guard_fills", "result=\"refused\"", NULL, U64, GUARD(fill_refused)},
    {"guard_fills", "result=\"unknown\"", NULL, U64, GUARD(fill_unknown)},
    {"guard_fills", "result=\"too_big\"", NULL, U64, GUARD(fill_too_big)},
    {"guard_wakes", "by=\"message\"",
     "Messages of other processes heard, polls of waiting flights, resynchronisations.", U64,
     GUARD(wake_messages)},
    {"guard_wakes", "by=\"poll\"", NULL, U64, GUARD(wake_polls)},
    {"guard_wakes", "by=\"resync\"", NULL, U64, GUARD(wake_resyncs)},
    {"guard_push_answered", NULL, "Requests answered by a value that came with a wake-up message.", U64,
     GUARD(push_answered)},
    {"guard_invalidations", "result=\"done\"", "Invalidations by what Redis confirmed.", U64,
     GUARD(invalidated)},
    {"guard_invalidations", "result=\"unknown\"", NULL, U64, GUARD(invalidate_unknown)},
    {"guard_entries_rejected", NULL, "Redis entries that were damaged, foreign or of another key.", U64,
     GUARD(entry_rejected)},
    {"guard_entries_outdated", NULL, "Redis entries older than an invalidation of one of their tags.", U64,
     GUARD(entry_outdated)},
    {"guard_shadow_saved", NULL, "Mode shadow: loads that mode fleet would not have made.", U64,
     GUARD(shadow_saved)},
    {"guard_shadow_hits", NULL, "Of those, gets that the cache would have answered.", U64,
     GUARD(shadow_hits)},
    {"guard_shadow_waits", NULL, "Of those, gets that would have waited for a load.", U64,
     GUARD(shadow_waits)},
    {"guard_shadow_loads", NULL, "Loads that it would have made.", U64, GUARD(shadow_loads)},
    {"guard_permits", "result=\"granted\"", "Fleet-wide load permits asked for, by Redis's answer.", U64,
     GUARD(permit_granted)},
    {"guard_permits", "result=\"refused\"", NULL, U64, GUARD(permit_refused)},
    {"guard_permits_lost", NULL, "Permits that ran out or were forgotten while their loads ran.", U64,
     GUARD(permit_lost)},
    {"guard_permits_spared", NULL, "Loads begun without a permit because Redis could not be asked.", U64,
     GUARD(permit_spared)},
    {"guard_refreshes_yielded", NULL, "Queued refreshes that gave up their place, to a request or in vain.",
     U64, GUARD(refresh_yielded)},
    {"guard_loads_nested", NULL, "Loads begun inside a loader that waited for them.", U64,
     GUARD(load_nested)},
    {"guard_near_lookups", "result=\"hit\"", "Looks into the near cache, by what was there.", U64,
     GUARD(near_hit)},
    {"guard_near_lookups", "result=\"miss\"", NULL, U64, GUARD(near_miss)},
    {"guard_near_removed", "reason=\"evicted\"", "Entries that left the near cache before their time.", U64,
     GUARD(near_evicted)},
    {"guard_near_removed", "reason=\"invalidated\"", NULL, U64, GUARD(near_dropped)},
    {"guard_near_removed", "reason=\"unheard\"", NULL, U64, GUARD(near_cleared)},
    {"guard_redis_commands", NULL, "Commands sent to Redis.", U64, GUARD(redis_commands)},
    {"guard_redis_round_trips", NULL, "Batches of commands written to Redis.", U64, GUARD(redis_round_trips)},
    {"guard_redis_timeouts", NULL,
     "Connections to Redis given up for a limit, of connecting or of a command.", U64, GUARD(redis_timeouts)},
    {"guard_redis_errors", NULL, "Error replies of Redis.", U64, GUARD(redis_errors)},
    {"guard_redis_connects", NULL, "Connections made to Redis.", U64, GUARD(redis_connects)},
    {"guard_redis_reigns", NULL, "Times that the master was found to be another, or none any more.", U64,
     GUARD(redis_reigns)},
    {"guard_breaker_opened", NULL, "Times the breaker opened.", U64, GUARD(breaker_opened)},
    {"catalogd_connections_expired", NULL,
     "Connections ended for sending or reading too slowly, or to make room for others.", U64,
     SERVER(connections_expired)},
};

static const struct row GAUGES[] = {
    {"guard_waiters", NULL, "Requests waiting in the guard.", U32, GUARD(waiters)},
    {"guard_flights", NULL, "Keys being loaded or waited for.", U32, GUARD(flights)},
    {"guard_loads_running", NULL, "Loads that occupy a worker.", U32, GUARD(loads_running)},
    {"guard_loads_queued", NULL, "Loads that wait for a worker or a permit.", U32, GUARD(loads_queued)},
    {"guard_permits_held", NULL, "Fleet-wide load permits that this process has.", U32, GUARD(permits_held)},
    {"guard_permits_waiting", NULL, "Loads that a worker is free for and that wait for a permit.", U32,
     GUARD(permits_waiting)},
    {"guard_near_entries", NULL, "Entries in the near cache.", U64, GUARD(near_entries)},
    {"guard_near_bytes", NULL, "Memory of the near cache.", U64, GUARD(near_bytes)},
    {"guard_breaker_open", NULL, "1 while Redis is not asked.", BOOL, GUARD(breaker_open)},
    {"catalogd_connections", NULL, "Open client connections.", U32, SERVER(connections)},
    {"catalogd_connections_busy", NULL, "Of those, with a request not yet answered.", U32,
     SERVER(connections_busy)},
    {"catalogd_connections_parked", NULL, "Of those, suspended until the guard answers.", U32,
     SERVER(connections_parked)},
    {"catalogd_server_loops", NULL, "Threads that serve connections.", U32, SERVER(loops)},
    {"catalogd_database_ready", NULL, "1 if the database was reached at the last try.", BOOL,
     offsetof(struct metrics, database_ready)},
    {"process_open_fds", NULL, "Open file descriptors.", U32, offsetof(struct metrics, open_fds)},
    {"process_max_fds", NULL, "Most file descriptors that may be open.", U32,
     offsetof(struct metrics, max_fds)},
    {"process_resident_memory_bytes", NULL, "Resident memory.", U64,
     offsetof(struct metrics, resident_bytes)},
};

static const struct {
    const char *name, *help;
    size_t offset;
} HISTOGRAMS[] = {
    {"guard_get_duration_seconds", "From asking the guard to its answer; near hits count as 0.",
     GUARD(get_duration)},
    {"guard_load_duration_seconds", "From the start of a loader to its end.", GUARD(load_duration)},
    {"guard_lease_wait_seconds", "Waiting for the lease of another process.", GUARD(lease_wait)},
};

static const uint64_t BOUNDS_US[] = GUARD_HISTOGRAM_BOUNDS_US;
_Static_assert(sizeof(BOUNDS_US) / sizeof(BOUNDS_US[0]) == GUARD_HISTOGRAM_BUCKETS - 1,
               "the last one has none");

static const char *const MODES[] = {[GUARD_MODE_FLEET] = "fleet",
                                    [GUARD_MODE_LOCAL] = "local",
                                    [GUARD_MODE_OFF] = "off",
                                    [GUARD_MODE_SHADOW] = "shadow"};
static const char *const REDIS_STATES[] = {[GUARD_REDIS_DOWN] = "down",
                                           [GUARD_REDIS_DENIED] = "denied",
                                           [GUARD_REDIS_UP] = "up",
                                           [GUARD_REDIS_REPLICA] = "replica",
                                           [GUARD_REDIS_FENCED] = "fenced"};
enum { REDIS_STATE_COUNT = sizeof(REDIS_STATES) / sizeof(REDIS_STATES[0]) };

static uint64_t value_of(const struct metrics *metrics, const struct row *row)
{
    const char *at = (const char *)metrics + row->offset;

    switch (row->kind) {
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

static void write_rows(const struct metrics *metrics, const struct row *rows, size_t count,
                       const char *suffix, const char *type, FILE *out)
{
    for (const struct row *row = rows; row < rows + count; row++) {
        if (row->help != NULL)
            write_head(row->name, suffix, type, row->help, out);
        fprintf(out, "%s%s", row->name, suffix);
        if (row->label != NULL)
            fprintf(out, "{%s}", row->label);
        fprintf(out, " %" PRIu64 "\n", value_of(metrics, row));
    }
}

/* Seconds without floating point: exact, and the same in every locale. */
static void write_seconds(uint64_t us, FILE *out)
{
    fprintf(out, "%" PRIu64 ".%06" PRIu64, us / 1000000, us % 1000000);
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
    write_head("catalogd_http_requests", "_total", "counter", "Answers by route and status class.", out);
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

static void write_one(const char *name, const char *type, const char *help, uint64_t value, FILE *out)
{
    const bool is_counter = type[0] == 'c';

    write_head(name, is_counter ? "_total" : "", type, help, out);
    fprintf(out, "%s%s %" PRIu64 "\n", name, is_counter ? "_total" : "", value);
}

/* Only where writes are on: a process that cannot pay what is owed does not know how much it is. */
static void write_writes(const struct writer_stats *writes, FILE *out)
{
    const struct outbox_stats *outbox = &writes->outbox;

    write_head("catalogd_writes", "_total", "counter", "Writes by what became of them.", out);
    for (size_t i = 0; i < WRITE_OUTCOME_COUNT; i++)
        fprintf(out, "catalogd_writes_total{outcome=\"%s\"} %" PRIu64 "\n",
                write_outcome_name((enum write_outcome)i), writes->outcomes[i]);
    write_one("catalogd_writes_invisible", "counter",
              "Writes committed and answered before every cache confirmed their invalidations.",
              writes->invisible, out);
    write_one("catalogd_writes_settled", "counter",
              "Writes whose invalidations were confirmed before the answer.", outbox->settled, out);
    write_one("catalogd_writes_running", "gauge", "Writes that occupy a worker.", writes->running, out);
    write_one("catalogd_writes_queued", "gauge", "Writes that wait for a worker.", writes->queued, out);
    write_one("catalogd_outbox_rows", "gauge", "Invalidations owed by committed changes; counted to 10000.",
              outbox->row_count, out);
    write_head("catalogd_outbox_oldest_seconds", "", "gauge", "For how long the oldest has been owed.", out);
    fputs("catalogd_outbox_oldest_seconds ", out);
    write_seconds(outbox->oldest_age_ms * 1000, out);
    fputc('\n', out);
    write_one("catalogd_outbox_paid", "counter", "Rows of the outbox that this process paid.", outbox->paid,
              out);
    write_one("catalogd_outbox_unpaid", "counter", "Rows that Redis did not confirm in time; tried again.",
              outbox->unpaid, out);
    write_one("catalogd_outbox_notified", "counter", "Notifications of changes heard.", outbox->notified,
              out);
    write_one("catalogd_outbox_listening", "gauge", "1 while notifications can be heard.", outbox->listening,
              out);
    write_one("catalogd_caches_registered", "gauge", "Caches that changes are owed to, as of the last beat.",
              outbox->cache_count, out);
    write_one("catalogd_caches_dropped", "counter", "Caches silent for too long that this process dropped.",
              outbox->caches_dropped, out);
    write_one("catalogd_cache_in_use", "gauge", "1 while what is loaded is stored: its cache is registered.",
              writes->may_store, out);
    write_one("catalogd_loads_unstored", "counter",
              "Loads not stored because their cache was not registered.", writes->unstored, out);
}

void metrics_write(const struct metrics *metrics, FILE *out)
{
    write_rows(metrics, COUNTERS, sizeof(COUNTERS) / sizeof(COUNTERS[0]), "_total", "counter", out);
    write_answers(&metrics->server, out);
    if (metrics->server.writes_on)
        write_writes(&metrics->server.writes, out);
    write_rows(metrics, GAUGES, sizeof(GAUGES) / sizeof(GAUGES[0]), "", "gauge", out);
    write_redis_states(&metrics->guard, out);
    write_head("guard_turn_age_seconds", "", "gauge", "Since the guard's thread last turned; every 0.5 s.",
               out);
    fputs("guard_turn_age_seconds ", out);
    write_seconds((uint64_t)metrics->guard.beat_age_ms * 1000, out);
    fputc('\n', out);
    write_head("catalogd_uptime_seconds", "", "gauge", "Since the start.", out);
    fputs("catalogd_uptime_seconds ", out);
    write_seconds(metrics->uptime_ms * 1000, out);
    fputc('\n', out);
    write_head("catalogd_build_info", "", "gauge", "Always 1.", out);
    fprintf(out, "catalogd_build_info{version=\"%s\",mode=\"%s\"} 1\n", GUARD_VERSION, MODES[metrics->mode]);
    for (size_t i = 0; i < sizeof(HISTOGRAMS) / sizeof(HISTOGRAMS[0]); i++) {
        const char *at = (const char *)metrics + HISTOGRAMS[i].offset;
        write_histogram(HISTOGRAMS[i].name, HISTOGRAMS[i].help,
                        (const struct guard_histogram *)(const void *)at, out);
    }
}
