/* SPDX-License-Identifier: MIT */
/* watch.c - what the core tells of itself as it happens. */
#include "flight.h"

static bool nobody_listens(const struct core *core)
{
    return core->config.tell == NULL;
}

static void watch_tell(const struct core *core, unsigned kind, const struct guard_event *event)
{
    core->config.tell(core->config.tell_context, event, kind);
}

static uint64_t count_waiters(const struct flight *flight)
{
    uint64_t count = 0;
    const struct core_waiter *waiter = flight != NULL ? flight->first : NULL;
    for (; waiter != NULL; waiter = waiter->next)
        count++;
    return count;
}

void watch_load_started(const struct flight *flight)
{
    if (nobody_listens(flight->core))
        return;
    watch_tell(flight->core, flight->kind,
               &(struct guard_event){.what = GUARD_EVENT_LOAD_STARTED,
                                     .key = flight->key.plain,
                                     .load = flight->load_id,
                                     .count = count_waiters(flight)});
}

/* That it did not run to its end says nothing about the source, unless it had all its time. */
static enum guard_status watch_status(const struct core *core, const struct load *load,
                                      const struct core_loaded *loaded)
{
    bool in_time = core->now_us < load->deadline_us;
    if (loaded->outcome == LOAD_NO_MEMORY)
        return GUARD_NO_MEMORY;
    if (loaded->outcome == LOAD_FAILED)
        return load->unwanted && in_time ? GUARD_CANCELLED : GUARD_FAILED;
    return loaded->outcome == LOAD_ABSENT ? GUARD_ABSENT : GUARD_OK;
}

void watch_load_ended(const struct core *core, const struct load *load, const struct core_loaded *loaded)
{
    if (nobody_listens(core))
        return;
    struct guard_event event = {.what = GUARD_EVENT_LOAD_ENDED,
                                .key = load->key + load->key_bytes,
                                .load = load->id,
                                .status = watch_status(core, load, loaded),
                                .us = loaded->load_us,
                                .count = count_waiters(load->flight)};
    if (event.status == GUARD_FAILED)
        event.failure = load->cancelled ? GUARD_FAILURE_TIMEOUT : loaded->failure;
    watch_tell(core, load->kind, &event);
}

void watch_flight(const struct flight *flight, enum guard_event_what what, uint64_t count)
{
    const uint64_t load = what == GUARD_EVENT_SHED ? 0 : flight->load_id;
    if (nobody_listens(flight->core))
        return;
    watch_tell(flight->core, flight->kind,
               &(struct guard_event){.what = what, .key = flight->key.plain, .load = load, .count = count});
}

void watch_invalidated(const struct core *core, const struct core_invalidation *invalidation)
{
    if (nobody_listens(core))
        return;
    watch_tell(core, CORE_NO_KIND,
               &(struct guard_event){.what = GUARD_EVENT_INVALIDATED,
                                     .key = invalidation->key.plain,
                                     .status = invalidation->result.status,
                                     .us = core->now_us - invalidation->start_us,
                                     .count = invalidation->of_tag});
}
