/* SPDX-License-Identifier: MIT */
/* stats.c - see stats.h. */
#include "stats.h"
#include <stdbool.h>
#include <stddef.h>

enum stat_width { STAT_U64, STAT_U32, STAT_BOOL, STAT_SPANS };

struct stat_row {
    struct guard_stat_info info;
    enum stat_width width;
    size_t offset;
};

/* An enum of this header is as wide as an unsigned, and is one here. */
#define WIDTH(field)                                                                                         \
    _Generic(((struct guard_stats *)NULL)->field, uint64_t                                                   \
             : STAT_U64, uint32_t                                                                            \
             : STAT_U32, bool                                                                                \
             : STAT_BOOL, struct guard_histogram                                                             \
             : STAT_SPANS)
#define ROW(type, field, unit, per_kind, help)                                                               \
    {                                                                                                        \
        {#field, unit, help, type, per_kind}, WIDTH(field), offsetof(struct guard_stats, field)              \
    }
/* K: of each kind, too. */
#define COUNT(field, help) ROW(GUARD_STAT_COUNTER, field, "", false, help)
#define COUNT_K(field, help) ROW(GUARD_STAT_COUNTER, field, "", true, help)
#define GAUGE(field, unit, help) ROW(GUARD_STAT_GAUGE, field, unit, false, help)
#define GAUGE_K(field, help) ROW(GUARD_STAT_GAUGE, field, "", true, help)
#define SPANS_K(field, help) ROW(GUARD_STAT_HISTOGRAM, field, "us", true, help)

static const struct stat_row ROWS[] = {
    COUNT_K(hit, "Requests answered with a fresh value from Redis, without waiting."),
    COUNT_K(stale, "Requests answered with a stale value."),
    COUNT_K(absent_hit, "Requests answered from Redis: there is no such row."),
    COUNT_K(failed_hit, "Requests answered with a failure that is remembered."),
    COUNT_K(loaded, "Requests answered by the load that they started."),
    COUNT_K(collapsed_process, "Requests answered by the load of another request of this process."),
    COUNT_K(collapsed_fleet, "Requests answered by the load of another process while they waited."),
    COUNT_K(failed, "Requests that failed because their load did."),
    COUNT_K(shed, "Requests refused because a limit was reached."),
    COUNT_K(timed_out, "Requests that were not answered by their deadline."),
    COUNT_K(cancelled, "Requests that were cancelled."),
    COUNT_K(closed, "Requests answered with the end of the guard or their loop."),
    COUNT_K(missed, "Requests that only looked and found nothing."),
    COUNT_K(load_started, "Loads begun by this process."),
    COUNT_K(load_queries, "Queries begun by this process: loads that are one batch are one."),
    COUNT_K(load_ok, "Loads that brought a value."),
    COUNT_K(load_absent, "Loads that found no such row."),
    COUNT_K(load_failed, "Loads that failed."),
    COUNT_K(load_cancelled, "Loads that were told to stop."),
    COUNT_K(load_uncached, "Loads begun without a lease."),
    COUNT_K(load_duplicate,
            "Loads begun while another of the same key ran here under a live lease; stays 0."),
    SPANS_K(load_duration, "From the start of a loader to its end."),
    SPANS_K(lease_wait, "Waits for another process's lease."),
    SPANS_K(get_duration, "From the request to the guard to its answer; near hits count as 0."),
    COUNT_K(lease_acquired, "Leases that this process was granted."),
    COUNT_K(lease_busy, "Lookups that found the lease with another process."),
    COUNT_K(lease_renewed, "Renewals of a lease."),
    COUNT_K(lease_lost, "Leases that ran out or were voided by an invalidation."),
    COUNT_K(lease_released, "Leases given back without a value."),
    COUNT_K(fill_stored, "Loaded values that were stored."),
    COUNT_K(fill_late, "Loaded values that were not stored because the lease was lost."),
    COUNT_K(fill_refused, "Loaded values that Redis refused to store."),
    COUNT_K(fill_unknown, "Attempts to store a value that Redis did not answer."),
    COUNT_K(fill_too_big, "Loaded values above max_value_bytes."),
    COUNT(wake_messages, "Wake-up messages heard."),
    COUNT_K(wake_polls, "Lookups by waiting flights that heard no message."),
    COUNT_K(wake_resyncs, "Lookups by waiting flights after the subscription came back."),
    COUNT(invalidated, "Invalidations that Redis confirmed."),
    COUNT(invalidate_unknown, "Invalidations that Redis did not confirm."),
    COUNT_K(entry_rejected, "Redis entries that were damaged, foreign or under the wrong key."),
    COUNT(redis_commands, "Commands sent to Redis."),
    COUNT(redis_round_trips, "Batches of commands written to Redis."),
    COUNT(redis_timeouts, "Connections to Redis given up because connecting or a command took too long."),
    COUNT(redis_errors, "Error replies from Redis."),
    COUNT(redis_connects, "Connections to Redis opened."),
    COUNT(breaker_opened, "Times the breaker opened."),
    COUNT_K(near_hit, "Requests answered from the near cache."),
    COUNT_K(near_miss, "Requests that looked into the near cache in vain."),
    COUNT(near_evicted, "Entries that left the near cache to make room."),
    COUNT(near_dropped, "Entries that left the near cache because they were invalidated."),
    COUNT(near_cleared, "Entries that left the near cache because invalidations could not be heard."),
    GAUGE(near_entries, "", "Entries in the near cache."),
    GAUGE(near_bytes, "bytes", "Memory of the near cache."),
    GAUGE_K(waiters, "Requests waiting in the guard."),
    GAUGE_K(flights, "Keys being loaded or waited for."),
    GAUGE_K(loads_running, "Loads that have a place among max_loads."),
    GAUGE_K(loads_queued, "Loads that wait for a place among max_loads or a permit."),
    GAUGE(beat_age_ms, "ms", "Time since the guard's thread last turned; it does so every 0.5 s."),
    GAUGE(redis_state, "", "State of the guard's connection for commands, as enum guard_redis_state."),
    GAUGE(wake_state, "", "State of the guard's subscription, as enum guard_redis_state."),
    GAUGE(breaker_open, "", "1 while the breaker keeps commands from Redis."),
    COUNT_K(stale_soft, "Stale answers at the soft limit."),
    COUNT_K(stale_rescued, "Stale answers instead of an error."),
    COUNT_K(refresh_started, "Background refreshes of a stale value that were begun."),
    COUNT_K(refresh_early, "Refreshes begun before a value was stale."),
    COUNT_K(refresh_failed, "Background and early refreshes that failed."),
    COUNT_K(load_unchanged, "Loads that found the value unchanged."),
    COUNT_K(load_nested, "Loads begun inside a loader that waited for them."),
    COUNT_K(shadow_saved, "Mode shadow: loads that mode fleet would not have made."),
    COUNT_K(shadow_hits, "Of those, requests that the cache would have answered."),
    COUNT_K(shadow_waits, "Of those, requests that would have waited for a load."),
    COUNT_K(shadow_loads, "Loads that mode fleet would have made."),
    COUNT_K(entry_outdated, "Redis entries older than an invalidation of one of their tags."),
    COUNT_K(push_answered, "Requests answered with a value that came with a wake-up message."),
    GAUGE(permits_held, "", "Fleet-wide load permits that this process holds."),
    GAUGE(permits_waiting, "", "Loads that wait for a permit while they could start."),
    COUNT(permit_granted, "Permits that Redis granted."),
    COUNT(permit_refused, "Requests for a permit that Redis refused."),
    COUNT(permit_lost, "Permits that ran out or were forgotten while their loads ran."),
    COUNT(permit_spared, "Loads begun without a permit because Redis did not answer."),
    COUNT_K(refresh_yielded, "Queued refreshes that made way for a request, or waited too long."),
    COUNT(redis_reigns, "Times that the master turned out to be another one, or none."),
    COUNT(moving, "Commands that did not run because their keys were moving to another master."),
    COUNT(replayed, "Confirmed invalidations that were sent again to another master."),
    COUNT(replay_dropped, "Confirmed invalidations that were too many to be sent again."),
    COUNT_K(keep_cut, "Lives that a loader wanted longer than max_value_ms."),
    COUNT_K(kept, "Requests answered with what this process had while Redis could not be asked."),
};

enum { ROW_COUNT = sizeof ROWS / sizeof *ROWS };

const struct guard_stat_info *guard_stat_info(size_t i)
{
    return i < ROW_COUNT ? &ROWS[i].info : NULL;
}

static uint64_t stat_read(const struct guard_stats *stats, const struct stat_row *row)
{
    const void *at = (const char *)stats + row->offset;
    switch (row->width) {
    case STAT_U64:
        return *(const uint64_t *)at;
    case STAT_U32:
        return *(const uint32_t *)at;
    case STAT_BOOL:
        return *(const bool *)at;
    case STAT_SPANS:
        break;
    }
    return 0;
}

uint64_t guard_stat_value(const struct guard_stats *stats, size_t i)
{
    return i < ROW_COUNT ? stat_read(stats, &ROWS[i]) : 0;
}

const struct guard_histogram *guard_stat_histogram(const struct guard_stats *stats, size_t i)
{
    if (i >= ROW_COUNT || ROWS[i].width != STAT_SPANS)
        return NULL;
    return (const struct guard_histogram *)(const void *)((const char *)stats + ROWS[i].offset);
}

static void stat_add(void *sum, const void *part, enum stat_width width)
{
    switch (width) {
    case STAT_U64:
        *(uint64_t *)sum += *(const uint64_t *)part;
        break;
    case STAT_U32:
        *(uint32_t *)sum += *(const uint32_t *)part;
        break;
    case STAT_BOOL:
        *(bool *)sum = *(bool *)sum || *(const bool *)part;
        break;
    case STAT_SPANS:
        for (size_t i = 0; i < GUARD_HISTOGRAM_BUCKETS; i++)
            ((struct guard_histogram *)sum)->count[i] += ((const struct guard_histogram *)part)->count[i];
        ((struct guard_histogram *)sum)->sum_us += ((const struct guard_histogram *)part)->sum_us;
        break;
    }
}

void stats_add(struct guard_stats *sum, const struct guard_stats *part)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        size_t offset = ROWS[i].offset;
        stat_add((char *)sum + offset, (const char *)part + offset, ROWS[i].width);
    }
}

void stats_place(size_t i, size_t *offset, size_t *bytes)
{
    static const size_t BYTES[] = {[STAT_U64] = sizeof(uint64_t),
                                   [STAT_U32] = sizeof(uint32_t),
                                   [STAT_BOOL] = sizeof(bool),
                                   [STAT_SPANS] = sizeof(struct guard_histogram)};
    *offset = ROWS[i].offset;
    *bytes = BYTES[ROWS[i].width];
}

/* ---- requests ---- */

uint64_t *stats_request(struct guard_stats *stats, enum stats_request request)
{
    static const size_t OFFSETS[] = {
#define STATS_REQUEST(name) offsetof(struct guard_stats, name),
        STATS_REQUESTS(STATS_REQUEST)
#undef STATS_REQUEST
    };
    return (uint64_t *)(void *)((char *)stats + OFFSETS[request]);
}

static enum stats_request answer_of(const struct guard_result *result)
{
    switch (result->source) {
    case GUARD_FROM_CACHE:
        return result->status == GUARD_ABSENT ? STATS_absent_hit : STATS_hit;
    case GUARD_FROM_STALE:
        return STATS_stale;
    case GUARD_FROM_LOAD:
        return STATS_loaded;
    case GUARD_FROM_FLIGHT:
        return STATS_collapsed_process;
    case GUARD_FROM_FLEET:
        return STATS_collapsed_fleet;
    case GUARD_FROM_KEPT:
        return STATS_kept;
    case GUARD_FROM_NEAR: /* counted where it is found */
    case GUARD_FROM_NOWHERE:
        break;
    }
    return STATS_failed;
}

enum stats_request stats_request_of(const struct guard_result *result)
{
    switch (result->status) {
    case GUARD_OK:
    case GUARD_ABSENT:
        return answer_of(result);
    case GUARD_FAILED:
        return result->source == GUARD_FROM_CACHE ? STATS_failed_hit : STATS_failed;
    case GUARD_SHED:
        return STATS_shed;
    case GUARD_TIMEOUT:
        return STATS_timed_out;
    case GUARD_CANCELLED:
        return STATS_cancelled;
    case GUARD_CLOSING:
        return STATS_closed;
    case GUARD_MISS:
        return STATS_missed;
    case GUARD_UNKNOWN:
    case GUARD_INVALID:
    case GUARD_NO_MEMORY:
    case GUARD_NOW:
        break;
    }
    return STATS_failed;
}

/* ---- histograms ---- */

static const uint64_t HISTOGRAM_BOUNDS_US[] = GUARD_HISTOGRAM_BOUNDS_US;
_Static_assert(sizeof HISTOGRAM_BOUNDS_US / sizeof *HISTOGRAM_BOUNDS_US == GUARD_HISTOGRAM_BUCKETS - 1,
               "the last bucket has no bound");

size_t histogram_bucket(uint64_t span_us)
{
    size_t bucket = 0;
    while (bucket < GUARD_HISTOGRAM_BUCKETS - 1 && span_us > HISTOGRAM_BOUNDS_US[bucket])
        bucket++;
    return bucket;
}

void histogram_add(struct guard_histogram *histogram, uint64_t span_us)
{
    histogram->count[histogram_bucket(span_us)]++;
    histogram->sum_us += span_us;
}

/* ---- names, as metrics, logs and Redis have them ---- */

const char *guard_status_name(enum guard_status status)
{
    static const char *const NAMES[] = {[GUARD_OK] = "ok",           [GUARD_ABSENT] = "absent",
                                        [GUARD_FAILED] = "failed",   [GUARD_SHED] = "shed",
                                        [GUARD_TIMEOUT] = "timeout", [GUARD_CANCELLED] = "cancelled",
                                        [GUARD_CLOSING] = "closing", [GUARD_UNKNOWN] = "unknown",
                                        [GUARD_INVALID] = "invalid", [GUARD_NO_MEMORY] = "no_memory",
                                        [GUARD_MISS] = "miss",       [GUARD_NOW] = "now"};
    return (size_t)status < sizeof NAMES / sizeof *NAMES ? NAMES[status] : "?";
}

const char *guard_source_name(enum guard_source source)
{
    static const char *const NAMES[] = {
        [GUARD_FROM_NOWHERE] = "nowhere", [GUARD_FROM_CACHE] = "cache",   [GUARD_FROM_STALE] = "stale",
        [GUARD_FROM_LOAD] = "load",       [GUARD_FROM_FLIGHT] = "flight", [GUARD_FROM_FLEET] = "fleet",
        [GUARD_FROM_NEAR] = "near",       [GUARD_FROM_KEPT] = "kept"};
    return (size_t)source < sizeof NAMES / sizeof *NAMES ? NAMES[source] : "?";
}

const char *guard_failure_name(enum guard_failure failure)
{
    static const char *const NAMES[] = {
        [GUARD_FAILURE_NONE] = "none",         [GUARD_FAILURE_UNAVAILABLE] = "unavailable",
        [GUARD_FAILURE_TIMEOUT] = "timeout",   [GUARD_FAILURE_REJECTED] = "rejected",
        [GUARD_FAILURE_INTERNAL] = "internal", [GUARD_FAILURE_CYCLE] = "cycle"};
    return (size_t)failure < sizeof NAMES / sizeof *NAMES ? NAMES[failure] : "?";
}
