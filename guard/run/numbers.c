/* SPDX-License-Identifier: MIT */
/* numbers.c - see numbers.h. */
#include "numbers.h"
#include "../base/clock.h"
#include "../core/near.h"
#include "kind.h"
#include "shadow.h"
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* ---- what the host's hook hears ---- */

struct told_event {
    struct told_event *prev, *next;
    struct guard_event event;
    char key[]; /* event.key, if it has one */
};

void events_note(void *context, const struct guard_event *event, unsigned kind)
{
    struct guard *guard = context;
    size_t key_size = event->key != NULL ? strlen(event->key) + 1 : 0;
    struct told_event *told = malloc(sizeof *told + key_size);
    if (told == NULL)
        return;
    told->event = *event;
    told->event.kind = kind != CORE_NO_KIND ? guard->kinds[kind] : NULL;
    if (key_size > 0)
        told->event.key = memcpy(told->key, event->key, key_size);
    DL_APPEND(guard->events.first, told);
}

void events_note_shadow(void *context, const struct guard_event *event, unsigned kind)
{
    bool of_load = event->what == GUARD_EVENT_LOAD_STARTED || event->what == GUARD_EVENT_LOAD_ENDED;
    if (!of_load && event->what != GUARD_EVENT_SHED)
        events_note(context, event, kind);
}

void events_tell_all(struct guard *guard, bool closing)
{
    while (guard->events.first != NULL) {
        struct told_event *told = guard->events.first;
        DL_DELETE(guard->events.first, told);
        if (!closing)
            guard->config.event(guard->config.event_context, &told->event);
        free(told);
    }
}

/* ---- from the guard's thread ---- */

/* Under the mutex. */
static void publish_kinds(struct guard *guard, uint64_t changed)
{
    for (unsigned kind = 0; changed != 0; kind++, changed >>= 1) {
        struct guard_stats *published = &guard->kinds[kind]->published;
        if ((changed & 1) == 0)
            continue;
        *published = *core_stats_of(guard->core, kind);
        if (guard->shadow != NULL)
            shadow_stats(core_stats_of(guard->fleet, kind), published);
    }
}

/* What has become of Redis and the breaker, as published. */
static void events_note_states(struct guard *guard)
{
    const struct guard_stats *stats = &guard->published;
    struct events *events = &guard->events;
    if (stats->redis_state != events->redis_state)
        events_note(guard,
                    &(struct guard_event){.what = GUARD_EVENT_REDIS, .redis_state = (int)stats->redis_state},
                    CORE_NO_KIND);
    if (stats->breaker_open != events->breaker_open)
        events_note(guard, &(struct guard_event){.what = GUARD_EVENT_BREAKER, .count = stats->breaker_open},
                    CORE_NO_KIND);
    events->redis_state = stats->redis_state;
    events->breaker_open = stats->breaker_open;
}

void numbers_publish(struct guard *guard)
{
    struct guard_stats *published = &guard->published;
    uint64_t changed = core_take_changed(guard->core);
    if (guard->shadow != NULL)
        changed |= core_take_changed(guard->fleet);
    pthread_mutex_lock(&guard->mutex);
    core_stats_of_none(guard->core, published);
    if (guard->shadow != NULL) {
        struct guard_stats fleet;
        core_stats_of_none(guard->fleet, &fleet);
        shadow_stats(&fleet, published);
    }
    published->redis_state = guard->own->redis_state;
    published->wake_state = guard->wake_state;
    publish_kinds(guard, changed);
    pthread_mutex_unlock(&guard->mutex);
    atomic_store_explicit(&guard->doubts, published->breaker_open, memory_order_relaxed);
    if (guard->config.event != NULL)
        events_note_states(guard); /* this thread alone writes them */
}

/* ---- adding up ---- */

void numbers_add_loop(struct guard_stats *stats, const struct loop_counters *counters)
{
    for (enum stats_request i = 0; i < STATS_REQUEST_COUNT; i++)
        *stats_request(stats, i) += atomic_load_explicit(&counters->requests[i], memory_order_relaxed);
    stats->get_duration.sum_us += atomic_load_explicit(&counters->duration_sum_us, memory_order_relaxed);
    for (size_t i = 0; i < GUARD_HISTOGRAM_BUCKETS; i++)
        stats->get_duration.count[i] +=
            atomic_load_explicit(&counters->duration_count[i], memory_order_relaxed);
}

static void add_near_gets(struct guard_stats *stats, const struct near_counters *counters, unsigned kind)
{
    stats->near_hit += counters->hits[kind];
    stats->near_miss += counters->misses[kind];
    stats->get_duration.count[0] += counters->hits[kind]; /* measuring it would cost more than it takes */
}

/* Under the mutex. */
static void add_kind(struct guard_stats *stats, const struct guard_kind *kind)
{
    const struct guard *guard = kind->guard;
    stats_add(stats, &kind->published);
    stats_add(stats, &kind->past);
    uint64_t kept = atomic_load_explicit(&kind->kept, memory_order_relaxed);
    stats->shed += atomic_load_explicit(&kind->shed, memory_order_relaxed);
    stats->kept += kept;
    stats->get_duration.count[0] += kept; /* as near hits */
    numbers_add_loop(stats, &guard->own->counters[kind->index]);
    for (const struct loop *loop = guard->loops; loop != NULL; loop = loop->next)
        numbers_add_loop(stats, &loop->counters[kind->index]);
}

static void add_near(struct guard_stats *stats, struct near *near)
{
    struct near_counters counters;
    near_count(near, &counters);
    for (unsigned kind = 0; kind < GUARD_KINDS_MAX; kind++)
        add_near_gets(stats, &counters, kind);
    stats->near_evicted = counters.evicted;
    stats->near_dropped = counters.dropped;
    stats->near_cleared = counters.cleared;
    stats->near_entries = counters.entries;
    stats->near_bytes = counters.bytes;
}

static uint32_t beat_age_ms(const struct guard *guard)
{
    uint64_t beat_us = atomic_load_explicit(&guard->beat_us, memory_order_relaxed);
    uint64_t now_us = clock_now_us();
    return now_us > beat_us ? (uint32_t)((now_us - beat_us) / 1000) : 0;
}

/* ---- asked for ---- */

void guard_stats(struct guard *guard, struct guard_stats *out)
{
    memset(out, 0, sizeof *out);
    if (is_forked(guard))
        return;
    pthread_mutex_lock(&guard->mutex);
    *out = guard->published;
    for (unsigned kind = 0; kind < guard->kind_count; kind++)
        add_kind(out, guard->kinds[kind]);
    pthread_mutex_unlock(&guard->mutex);
    out->beat_age_ms = beat_age_ms(guard);
    struct redis_counters *counters = &guard->redis_counters;
    out->redis_commands = atomic_load_explicit(&counters->commands, memory_order_relaxed);
    out->redis_round_trips = atomic_load_explicit(&counters->round_trips, memory_order_relaxed);
    out->redis_timeouts = atomic_load_explicit(&counters->timeouts, memory_order_relaxed);
    out->redis_errors = atomic_load_explicit(&counters->errors, memory_order_relaxed);
    out->redis_connects = atomic_load_explicit(&counters->connects, memory_order_relaxed);
    out->redis_reigns = redis_topology_reigns(guard->topology);
    if (guard->near != NULL)
        add_near(out, guard->near);
}

void guard_kind_stats(const struct guard_kind *kind, struct guard_stats *out)
{
    struct guard *guard = kind->guard;
    struct near_counters counters;
    memset(out, 0, sizeof *out);
    if (is_forked(guard))
        return;
    pthread_mutex_lock(&guard->mutex);
    add_kind(out, kind);
    pthread_mutex_unlock(&guard->mutex);
    if (guard->near == NULL)
        return;
    near_count(guard->near, &counters);
    add_near_gets(out, &counters, kind->index);
}

size_t guard_hot(struct guard *guard, enum guard_hot_by by, struct guard_hot_key *out, size_t max)
{
    if ((by != GUARD_HOT_COLLAPSED && by != GUARD_HOT_WAIT) || is_forked(guard))
        return 0;
    pthread_mutex_lock(&guard->hot_mutex);
    size_t count = hot_top(&guard->hot[by], clock_now_us(), out, max);
    pthread_mutex_unlock(&guard->hot_mutex);
    return count;
}
