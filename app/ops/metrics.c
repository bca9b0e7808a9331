/* SPDX-License-Identifier: MIT */
/*
 * metrics.c - the guard's numbers (guard/adapters/prometheus.h), then the service's own: one row per number.
 */
#include "app/ops/paths.h"

#include "app/base/settings.h"
#include "guard/adapters/prometheus.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

enum type { TYPE_COUNTER, TYPE_GAUGE, TYPE_SECONDS /* a gauge whose number is milliseconds */ };
enum width { U64, U32, BOOL };

struct row {
    enum type type;
    const char *name; /* of a counter without _total */
    const char *help;
    enum width width;
    size_t offset; /* in struct metrics */
};

#define WIDTH_OF(field) _Generic(((struct metrics *)NULL)->field, uint64_t : U64, uint32_t : U32, bool : BOOL)
#define ROW(type, name, help, field)                                                                         \
    {                                                                                                        \
        type, name, help, WIDTH_OF(field), offsetof(struct metrics, field)                                   \
    }
#define COUNTER(name, help, field) ROW(TYPE_COUNTER, name, help, field)
#define GAUGE(name, help, field) ROW(TYPE_GAUGE, name, help, field)
#define SECONDS(name, help, field) ROW(TYPE_SECONDS, name, help, field)

static const struct row COUNTERS[] = {
    COUNTER("catalogd_connections_expired",
            "Connections closed because the client was too slow, or to make room for others.",
            server.connections_expired),
    COUNTER("catalogd_access_lines", "Lines of the access log, those that were dropped later included.",
            server.access.lines),
    COUNTER("catalogd_access_lines_dropped",
            "Lines of the access log lost because its file or pipe did not take them in time.",
            server.access.dropped),
    COUNTER("catalogd_log_lines_dropped",
            "Lines of the log lost because the reader of stderr stood still, or its file could not grow.",
            log_dropped),
};

static const struct row GAUGES[] = {
    GAUGE("catalogd_connections", "Open client connections.", server.connections),
    GAUGE("catalogd_connections_busy", "Connections with a request not yet answered.",
          server.connections_busy),
    GAUGE("catalogd_connections_parked", "Connections suspended until the guard answers.",
          server.connections_parked),
    GAUGE("catalogd_server_loops", "Threads that serve connections.", server.loops),
    GAUGE("catalogd_shelf_bytes", "Memory of the answers that are kept prepared.", server.shelf_bytes),
    GAUGE("catalogd_database_ready", "1 if the database was reached at the last try.", database_ready),
    GAUGE("process_open_fds", "Open file descriptors.", open_fds),
    GAUGE("process_max_fds", "File descriptors that may be open.", max_fds),
    GAUGE("process_resident_memory_bytes", "Resident memory.", resident_bytes),
    SECONDS("process_start_time_seconds", "Start of the process, since 1970.", started_at_ms),
    SECONDS("catalogd_uptime_seconds", "Time since the start.", uptime_ms),
};

/* Only where writes are on: a process that cannot pay what is owed does not know how much it is. */
static const struct row WRITES[] = {
    COUNTER("catalogd_writes_invisible",
            "Writes committed and answered before every cache confirmed their invalidations.",
            server.writes.invisible),
    COUNTER("catalogd_writes_settled", "Writes whose invalidations were all confirmed before the answer.",
            server.writes.outbox.settled),
    GAUGE("catalogd_writes_running", "Writes that occupy a worker.", server.writes.running),
    GAUGE("catalogd_writes_queued", "Writes that wait for a worker.", server.writes.queued),
    GAUGE("catalogd_outbox_rows", "Invalidations owed by committed changes; counted to 10000.",
          server.writes.outbox.row_count),
    SECONDS("catalogd_outbox_oldest_seconds", "Age of the oldest invalidation owed.",
            server.writes.outbox.oldest_age_ms),
    COUNTER("catalogd_outbox_paid", "Outbox rows that this process paid.", server.writes.outbox.paid),
    COUNTER("catalogd_outbox_unpaid", "Outbox rows that Redis did not confirm in time; they are tried again.",
            server.writes.outbox.unpaid),
    COUNTER("catalogd_outbox_notified", "Change notifications heard.", server.writes.outbox.notified),
    GAUGE("catalogd_outbox_listening", "1 while notifications can be heard.", server.writes.outbox.listening),
    GAUGE("catalogd_caches_registered", "Caches that changes are owed to, as of the last beat.",
          server.writes.outbox.cache_count),
    COUNTER("catalogd_caches_dropped",
            "Caches that this process dropped because they were silent for too long.",
            server.writes.outbox.caches_dropped),
    GAUGE("catalogd_cache_in_use", "1 while loads are stored: this process's cache is registered.",
          server.writes.may_store),
    COUNTER("catalogd_loads_unstored", "Loads not stored because their cache was not registered.",
            server.writes.unstored),
};

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

static void write_row(const struct metrics *metrics, const struct row *row, FILE *out)
{
    const char *suffix = row->type == TYPE_COUNTER ? "_total" : "";
    const uint64_t value = value_of(metrics, row);

    write_head(row->name, suffix, row->type == TYPE_COUNTER ? "counter" : "gauge", row->help, out);
    fprintf(out, "%s%s ", row->name, suffix);
    if (row->type == TYPE_SECONDS) /* without floating point: exact, and the same in every locale */
        fprintf(out, "%" PRIu64 ".%03" PRIu64 "000\n", value / 1000, value % 1000);
    else
        fprintf(out, "%" PRIu64 "\n", value);
}

#define WRITE_ROWS(metrics, rows, out) write_rows(metrics, rows, sizeof(rows) / sizeof((rows)[0]), out)
static void write_rows(const struct metrics *metrics, const struct row *rows, size_t count, FILE *out)
{
    for (size_t i = 0; i < count; i++)
        write_row(metrics, &rows[i], out);
}

static void write_guard(const struct metrics *metrics, FILE *out)
{
    struct guard_sample kinds[GUARD_KINDS_MAX];
    char labels[GUARD_KINDS_MAX][48];

    for (size_t i = 0; i < metrics->kind_count; i++) {
        snprintf(labels[i], sizeof(labels[i]), "kind=\"%s\"", metrics->kinds[i].name);
        kinds[i] = (struct guard_sample){labels[i], &metrics->kinds[i].stats};
    }
    guard_prometheus(out, &(struct guard_sample){"", &metrics->guard}, 1, kinds, metrics->kind_count);
}

/* ---- the service's ---- */

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

static void write_outcomes(const struct writer_stats *writes, FILE *out)
{
    write_head("catalogd_writes", "_total", "counter", "Writes, by outcome.", out);
    for (size_t i = 0; i < WRITE_OUTCOME_COUNT; i++)
        fprintf(out, "catalogd_writes_total{outcome=\"%s\"} %" PRIu64 "\n",
                write_outcome_name((enum write_outcome)i), writes->outcomes[i]);
}

void metrics_write(const struct metrics *metrics, FILE *out)
{
    write_guard(metrics, out);
    WRITE_ROWS(metrics, COUNTERS, out);
    write_answers(&metrics->server, out);
    if (metrics->server.writes_on) {
        write_outcomes(&metrics->server.writes, out);
        WRITE_ROWS(metrics, WRITES, out);
    }
    WRITE_ROWS(metrics, GAUGES, out);
    write_head("catalogd_build_info", "", "gauge", "Always 1.", out);
    fprintf(out, "catalogd_build_info{version=\"%s\",mode=\"%s\"} 1\n", GUARD_VERSION,
            settings_mode_name(metrics->mode));
}
