/* SPDX-License-Identifier: MIT */
/*
 * metrics.c - the guard's numbers, as the guard itself lists them, then the service's own: one row per number.
 */
#include "app/ops/paths.h"

#include "app/base/settings.h"
#include "app/view/live.h"

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

/*
 * The guard's numbers that have another name here, or are one family together, as a list with the label's values
 * (stat_list_next()). A number that is not named here is a family by its own name; so new ones need no line.
 */
static const struct family {
    const char *name, *label;
    const char *help; /* NULL: the number's own */
    const char *numbers;
} FAMILIES[] = {
    {"gets", "outcome", "Requests to the guard, each counted once, by how it was answered.",
     "hit near:near_hit kept stale absent_hit failed_hit loaded collapsed_process collapsed_fleet failed "
     "shed "
     "timeout:timed_out cancelled closed missed"},
    {"loads_started", NULL, NULL, "load_started"},
    {"queries", NULL, NULL, "load_queries"},
    {"loads", "result", "Loads of this process, by how they ended.",
     "ok:load_ok absent:load_absent unchanged:load_unchanged failed:load_failed cancelled:load_cancelled"},
    {"loads_uncached", NULL, NULL, "load_uncached"},
    {"loads_duplicate", NULL, NULL, "load_duplicate"},
    {"loads_nested", NULL, NULL, "load_nested"},
    {"refreshes", "reason", "Background and early refreshes begun, by reason.",
     "stale:refresh_started early:refresh_early"},
    {"refreshes_failed", NULL, NULL, "refresh_failed"},
    {"refreshes_yielded", NULL, NULL, "refresh_yielded"},
    {"stale_late", "reason", "Stale answers after a wait for a fresh one, by what ended the wait.",
     "soft_limit:stale_soft error:stale_rescued"},
    {"leases", "event", "Leases, by what happened to them.",
     "acquired:lease_acquired busy:lease_busy renewed:lease_renewed lost:lease_lost released:lease_released"},
    {"fills", "result", "Fills, by Redis's answer.",
     "stored:fill_stored late:fill_late refused:fill_refused unknown:fill_unknown too_big:fill_too_big"},
    {"wakes", "by", "Wake-up messages heard, polls by waiting flights, resynchronisations.",
     "message:wake_messages poll:wake_polls resync:wake_resyncs"},
    {"invalidations", "result", "Invalidations, by whether Redis confirmed them.",
     "done:invalidated unknown:invalidate_unknown"},
    {"replays", "result", "Confirmed invalidations sent again to another master, and those too many to be.",
     "done:replayed dropped:replay_dropped"},
    {"entries_rejected", NULL, NULL, "entry_rejected"},
    {"entries_outdated", NULL, NULL, "entry_outdated"},
    {"permits", "result", "Requests for fleet-wide load permits, by Redis's answer.",
     "granted:permit_granted refused:permit_refused"},
    {"permits_lost", NULL, NULL, "permit_lost"},
    {"permits_spared", NULL, NULL, "permit_spared"},
    {"near_lookups", "result", "Near cache lookups, by result.", "hit:near_hit miss:near_miss"},
    {"near_removed", "reason", "Entries that left the near cache early, by reason.",
     "evicted:near_evicted invalidated:near_dropped unheard:near_cleared"},
    {"turn_age", NULL, NULL, "beat_age_ms"},
};
enum { FAMILY_COUNT = sizeof(FAMILIES) / sizeof(FAMILIES[0]) };

/* One gauge for each state, see write_redis_states(). */
static const char STATES[] = "redis_state wake_state";

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

    write_head(row->name, suffix, row->type == TYPE_COUNTER ? "counter" : "gauge", row->help, out);
    fprintf(out, "%s%s ", row->name, suffix);
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

/* ---- the guard's ---- */

/* Where a number is written. */
struct sample {
    FILE *out;
    const char *prefix, *family;
    char labels[3 * STAT_NAME_BYTES]; /* without braces; "": none */
};

static void write_sample(const struct sample *sample, const char *suffix, const char *bound)
{
    const bool both = sample->labels[0] != '\0' && bound[0] != '\0';
    const bool any = sample->labels[0] != '\0' || bound[0] != '\0';

    fprintf(sample->out, "%s%s%s%s%s%s%s%s ", sample->prefix, sample->family, suffix, any ? "{" : "",
            sample->labels, both ? "," : "", bound, any ? "}" : "");
}

static void write_histogram(const struct sample *sample, const struct guard_histogram *histogram)
{
    uint64_t total = 0;

    for (size_t i = 0; i < GUARD_HISTOGRAM_BUCKETS; i++) {
        char bound[STAT_NAME_BYTES] = "le=\"+Inf\"";

        total += histogram->count[i];
        if (i < GUARD_HISTOGRAM_BUCKETS - 1)
            snprintf(bound, sizeof(bound), "le=\"%" PRIu64 ".%06" PRIu64 "\"", BOUNDS_US[i] / 1000000,
                     BOUNDS_US[i] % 1000000);
        write_sample(sample, "_seconds_bucket", bound);
        fprintf(sample->out, "%" PRIu64 "\n", total);
    }
    write_sample(sample, "_seconds_sum", "");
    write_seconds(histogram->sum_us, sample->out);
    fputc('\n', sample->out);
    write_sample(sample, "_seconds_count", "");
    fprintf(sample->out, "%" PRIu64 "\n", total);
}

static bool is_ms(size_t number)
{
    return strcmp(guard_stat_info(number)->unit, "ms") == 0;
}

static const char *suffix_of(size_t number)
{
    static const char *const SUFFIXES[] = {
        [GUARD_STAT_COUNTER] = "_total", [GUARD_STAT_HISTOGRAM] = "_seconds"};
    const char *suffix = is_ms(number) ? "_seconds" : SUFFIXES[guard_stat_info(number)->type];

    return suffix != NULL ? suffix : "";
}

static void write_number(const struct sample *sample, const struct guard_stats *stats, size_t number)
{
    const struct guard_histogram *histogram = guard_stat_histogram(stats, number);

    if (histogram != NULL) {
        write_histogram(sample, histogram);
        return;
    }
    write_sample(sample, suffix_of(number), "");
    if (is_ms(number))
        write_seconds(guard_stat_value(stats, number) * 1000, sample->out);
    else
        fprintf(sample->out, "%" PRIu64, guard_stat_value(stats, number));
    fputc('\n', sample->out);
}

static void set_labels(struct sample *sample, const struct metrics_kind *kind, const char *label,
                       const char *value)
{
    char *text = sample->labels;
    int bytes = 0;

    text[0] = '\0';
    if (kind != NULL)
        bytes = snprintf(text, sizeof(sample->labels), "kind=\"%s\"", kind->name);
    if (label != NULL)
        snprintf(text + bytes, sizeof(sample->labels) - (size_t)bytes, "%s%s=\"%s\"", bytes > 0 ? "," : "",
                 label, value);
}

/* Of one kind, or (NULL) the whole. */
static void write_numbers(struct sample *sample, const struct family *family, const struct guard_stats *stats,
                          const struct metrics_kind *kind)
{
    char value[STAT_NAME_BYTES];
    size_t number = 0;

    for (const char *list = family->numbers; stat_list_next(&list, &number, value);) {
        if (kind != NULL && !guard_stat_info(number)->per_kind)
            continue;
        set_labels(sample, kind, family->label, value);
        write_number(sample, stats, number);
    }
}

static void write_family_head(const struct sample *sample, const struct family *family, size_t number)
{
    static const char *const TYPES[] = {
        [GUARD_STAT_COUNTER] = "counter", [GUARD_STAT_GAUGE] = "gauge", [GUARD_STAT_HISTOGRAM] = "histogram"};
    const struct guard_stat_info *info = guard_stat_info(number);
    char name[2 * STAT_NAME_BYTES];

    snprintf(name, sizeof(name), "%s%s", sample->prefix, sample->family);
    write_head(name, info->type == GUARD_STAT_HISTOGRAM ? "_seconds" : suffix_of(number), TYPES[info->type],
               family->help != NULL ? family->help : info->help, sample->out);
}

/* Of each kind in a family of its own, so that a sum over the other one counts nothing twice. */
static void write_family(const struct metrics *metrics, const struct family *family, FILE *out)
{
    struct sample sample = {.out = out, .prefix = "guard_", .family = family->name};
    char value[STAT_NAME_BYTES];
    const char *list = family->numbers;
    size_t last = 0, number = 0;

    while (stat_list_next(&list, &number, value))
        last = number;
    write_family_head(&sample, family, last);
    write_numbers(&sample, family, &metrics->guard, NULL);
    if (!guard_stat_info(last)->per_kind || metrics->kind_count == 0)
        return;
    sample.prefix = "guard_kind_";
    write_family_head(&sample, family, last);
    for (size_t i = 0; i < metrics->kind_count; i++)
        write_numbers(&sample, family, &metrics->kinds[i].stats, &metrics->kinds[i]);
}

static bool is_in(const char *list, size_t wanted)
{
    char value[STAT_NAME_BYTES];
    size_t number = 0;

    while (stat_list_next(&list, &number, value))
        if (number == wanted)
            return true;
    return false;
}

static void write_guard(const struct metrics *metrics, FILE *out)
{
    for (size_t i = 0; i < FAMILY_COUNT; i++)
        write_family(metrics, &FAMILIES[i], out);
    for (size_t number = 0; guard_stat_info(number) != NULL; number++) {
        const char *name = guard_stat_info(number)->name;
        size_t family = 0;

        while (family < FAMILY_COUNT && !is_in(FAMILIES[family].numbers, number))
            family++;
        if (family == FAMILY_COUNT && !is_in(STATES, number))
            write_family(metrics, &(struct family){name, NULL, NULL, name}, out);
    }
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
    write_guard(metrics, out);
    write_redis_states(&metrics->guard, out);
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
