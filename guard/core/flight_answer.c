/* SPDX-License-Identifier: MIT */
/*
 * flight_answer.c - what a flight answers, and to whom: those who joined before the thing that made the result
 * was sent. See flight.c.
 */
#include "flight_parts.h"

/* A waiter that joined before a BUSY, or while we waited after one, got what another process made. */
static enum guard_source looked_up_source(const struct flight *flight, const struct core_waiter *waiter)
{
    return waiter->joined < flight->busy_stamp ? GUARD_FROM_FLEET : GUARD_FROM_CACHE;
}

static enum guard_source loaded_source(const struct flight *flight, const struct core_waiter *waiter)
{
    return waiter->joined == flight->leader_stamp ? GUARD_FROM_LOAD : GUARD_FROM_FLIGHT;
}

static bool is_error(enum guard_status status)
{
    return status == GUARD_FAILED || status == GUARD_SHED || status == GUARD_NO_MEMORY;
}

void flight_deliver(struct core *core, uint64_t now_us, struct flight *flight, uint64_t stamp,
                    struct guard_result result)
{
    flight->round++;
    while (flight->first != NULL && flight->first->joined < stamp) {
        struct core_waiter *waiter = flight->first;
        struct guard_result own = result;
        if (result.source == GUARD_FROM_CACHE)
            own.source = looked_up_source(flight, waiter);
        else if (result.source == GUARD_FROM_LOAD)
            own.source = loaded_source(flight, waiter);
        if (is_error(result.status) && flight_held_for(flight, now_us, waiter, &own))
            core->stats.stale_rescued++;
        core_answer(core, now_us, waiter, &own);
    }
}

void flight_deliver_all(struct core *core, uint64_t now_us, struct flight *flight, struct guard_result result)
{
    flight_deliver(core, now_us, flight, UINT64_MAX, result);
}

struct guard_result flight_failure_result(enum guard_source source, enum guard_failure failure,
                                          uint32_t retry_ms)
{
    return (struct guard_result){
        .status = GUARD_FAILED, .source = source, .failure = failure, .retry_ms = retry_ms};
}

struct guard_result flight_shed_result(void)
{
    enum { RETRY_MS = 1000 };
    return (struct guard_result){.status = GUARD_SHED, .retry_ms = RETRY_MS};
}

/* What has been loaded, for those who may have it. */
struct guard_result flight_loaded_result(const struct flight *flight, bool stored)
{
    return (struct guard_result){
        .status = flight->absent ? GUARD_ABSENT : GUARD_OK,
        .source = GUARD_FROM_LOAD,
        .value = !flight->absent ? &flight->value->public : NULL,
        .left_ms = stored ? flight->fresh_ms : 0,
        .stored = stored,
    };
}

struct guard_result flight_cached_result(const struct core_reply *reply, enum guard_source source)
{
    return (struct guard_result){
        .status = reply->absent ? GUARD_ABSENT : GUARD_OK,
        .source = source,
        .value = reply->value != NULL ? &reply->value->public : NULL,
        .age_ms = reply->age_ms,
        .left_ms = reply->left_ms,
        .stored = true,
    };
}

/* How long this failure will be remembered: told to those it answers, written into the failure lease. */
void flight_choose_failure_ms(struct core *core, struct flight *flight)
{
    flight->failure_ms =
        chance_shorten(&core->chance, flight->policy->failure_ms, flight->policy->jitter_percent);
}

struct guard_result flight_new_failure(struct core *core, struct flight *flight, enum guard_failure failure)
{
    flight_choose_failure_ms(core, flight);
    return flight_failure_result(GUARD_FROM_LOAD, failure, flight->failure_ms);
}
