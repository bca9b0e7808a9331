/* SPDX-License-Identifier: MIT */
/* core_answer.c - who is answered, and what is counted of it. See core.h. */
#include "flight.h"
#include <utlist.h>

static const uint64_t HISTOGRAM_BOUNDS_US[] = GUARD_HISTOGRAM_BOUNDS_US;
_Static_assert(sizeof HISTOGRAM_BOUNDS_US / sizeof *HISTOGRAM_BOUNDS_US == GUARD_HISTOGRAM_BUCKETS - 1,
               "the last bucket has no bound");

size_t core_histogram_bucket(uint64_t span_us)
{
    size_t bucket = 0;
    while (bucket < GUARD_HISTOGRAM_BUCKETS - 1 && span_us > HISTOGRAM_BOUNDS_US[bucket])
        bucket++;
    return bucket;
}

void core_histogram_add(struct guard_histogram *histogram, uint64_t span_us)
{
    histogram->count[core_histogram_bucket(span_us)]++;
    histogram->sum_us += span_us;
}

static uint64_t *count_of_cached(struct guard_stats *stats, const struct guard_result *result)
{
    if (result->status == GUARD_OK)
        return &stats->hit;
    return result->status == GUARD_ABSENT ? &stats->absent_hit : &stats->failed_hit;
}

static uint64_t *count_of_answered(struct guard_stats *stats, const struct guard_result *result)
{
    switch (result->source) {
    case GUARD_FROM_CACHE:
        return count_of_cached(stats, result);
    case GUARD_FROM_STALE:
        return &stats->stale;
    case GUARD_FROM_LOAD:
        return &stats->loaded;
    case GUARD_FROM_FLIGHT:
        return &stats->collapsed_process;
    case GUARD_FROM_FLEET:
        return &stats->collapsed_fleet;
    case GUARD_FROM_NEAR: /* never reaches the core */
    case GUARD_FROM_NOWHERE:
        break;
    }
    return &stats->failed;
}

static uint64_t *count_of(struct guard_stats *stats, const struct guard_result *result)
{
    switch (result->status) {
    case GUARD_OK:
    case GUARD_ABSENT:
        return count_of_answered(stats, result);
    case GUARD_FAILED:
        return result->source == GUARD_FROM_CACHE ? &stats->failed_hit : &stats->failed;
    case GUARD_SHED:
        return &stats->shed;
    case GUARD_TIMEOUT:
        return &stats->timed_out;
    case GUARD_CANCELLED:
        return &stats->cancelled;
    case GUARD_CLOSING:
        return &stats->closed;
    case GUARD_UNKNOWN:
    case GUARD_INVALID:
    case GUARD_NO_MEMORY:
        break;
    }
    return &stats->failed;
}

void core_answer(struct core *core, uint64_t now_us, struct core_waiter *waiter,
                 const struct guard_result *result)
{
    struct flight *flight = waiter->flight;
    DL_DELETE(flight->first, waiter);
    waiter->flight = NULL;
    alarm_unset(&core->alarms, &waiter->deadline);
    alarms_unreserve(&core->alarms);
    if (waiter->parent_load != 0)
        loads_unblock(core, flight, waiter);
    waiter->result = *result;
    if (result->value != NULL)
        guard_value_ref(result->value);
    core->stats.waiters--;
    core->waiters[waiter->of_many ? SHARE_MANY : SHARE_SINGLE]--;
    (*count_of(&core->stats, result))++;
    core_histogram_add(&core->stats.get_duration, now_us - waiter->start_us);
    DL_APPEND(core->answered, waiter);
}

struct core_waiter *core_next_answer(struct core *core)
{
    struct core_waiter *waiter = core->answered;
    if (waiter != NULL)
        DL_DELETE(core->answered, waiter);
    return waiter;
}
