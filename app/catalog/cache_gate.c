/* SPDX-License-Identifier: MIT */
/* cache_gate.c - see cache_gate.h. */
#include "app/catalog/cache_gate.h"

#include "app/base/clock.h"

#include <stdio.h>
#include <string.h>

enum {
    GATE_LEAST_MS = 5000, /* so that a machine may stand still for a moment */
    GATE_MOST_MS = 30000,
    BEATS = 10,
    SLACK_MS = 2000, /* clocks differ; an expired entry is not gone at once */
};

/* The part of the URL between the password and the parameters, which may have others. */
static void write_label(const struct settings *settings, char label[CACHE_LABEL_BYTES])
{
    const char *scheme = strstr(settings->guard.redis_url, "://");
    const char *host = scheme != NULL ? scheme + 3 : "?";
    const char *end = host + strcspn(host, "?");

    for (const char *at = host; at < end; at++)
        host = *at == '@' ? at + 1 : host;
    snprintf(label, CACHE_LABEL_BYTES, "%s in %.*s", settings->guard.name_space,
             end - host < 200 ? (int)(end - host) : 200, host);
}

/* From a query to the death of the entry that it made. */
static uint64_t life_ms(const struct settings *settings)
{
    const uint64_t value_ms = (uint64_t)settings->policy.fresh_ms + settings->policy.stale_ms;
    const uint64_t entry_ms = value_ms > settings->policy.absent_ms ? value_ms : settings->policy.absent_ms;
    const bool is_kept = settings->guard.near_bytes > 0;
    const uint64_t near_ms = is_kept ? settings->policy.near_ms : 0;
    const uint64_t outage_ms = is_kept ? settings->policy.outage_ms : 0;

    return settings->policy.max_hold_ms + entry_ms + (near_ms > outage_ms ? near_ms : outage_ms);
}

void cache_gate_init(struct cache_gate *gate, const struct settings *settings, struct guard *guard)
{
    const uint64_t life = life_ms(settings);

    memset(gate, 0, sizeof(*gate));
    pthread_mutex_init(&gate->lock, NULL);
    thread_condition_init(&gate->said);
    gate->guard = guard;
    gate->is_gated = settings->write_database_url[0] != '\0' && settings->guard.mode != GUARD_MODE_SHADOW;
    write_label(settings, gate->label);
    gate->gate_ms = life / 2 < GATE_LEAST_MS ? GATE_LEAST_MS : life / 2;
    if (gate->gate_ms > GATE_MOST_MS)
        gate->gate_ms = GATE_MOST_MS;
    gate->beat_ms = gate->gate_ms / BEATS;
    gate->silence_ms = gate->gate_ms + life + SLACK_MS;
}

void cache_gate_clear(struct cache_gate *gate)
{
    pthread_cond_destroy(&gate->said);
    pthread_mutex_destroy(&gate->lock);
}

uint64_t cache_gate_silence_ms(struct cache_gate *gate, bool *is_news)
{
    pthread_mutex_lock(&gate->lock);
    const uint64_t silence_ms = gate->silence_ms;
    *is_news = silence_ms > gate->said_ms;
    pthread_mutex_unlock(&gate->lock);
    return silence_ms;
}

void cache_gate_registered(struct cache_gate *gate, const char *id, uint64_t silence_ms, uint64_t since_ms)
{
    pthread_mutex_lock(&gate->lock);
    snprintf(gate->registered, sizeof(gate->registered), "%s", id);
    gate->until_ms = since_ms + gate->gate_ms;
    gate->said_ms = silence_ms;
    pthread_cond_broadcast(&gate->said);
    pthread_mutex_unlock(&gate->lock);
}

bool cache_gate_set_life(struct cache_gate *gate, const struct settings *settings, uint32_t limit_ms)
{
    const struct timespec until = clock_in_ms(limit_ms);
    const uint64_t silence_ms = gate->gate_ms + life_ms(settings) + SLACK_MS;
    int waited = 0;

    if (!gate->is_gated)
        return true;
    pthread_mutex_lock(&gate->lock);
    if (silence_ms > gate->silence_ms)
        gate->silence_ms = silence_ms;
    while (gate->said_ms < silence_ms && waited == 0)
        waited = pthread_cond_timedwait(&gate->said, &gate->lock, &until);
    const bool is_said = gate->said_ms >= silence_ms;
    pthread_mutex_unlock(&gate->lock);
    return is_said;
}

bool cache_gate_is_cache(struct guard *guard, const char *id)
{
    char now_is[GUARD_CACHE_ID_BYTES + 1];

    return guard_cache(guard, now_is) && strcmp(now_is, id) == 0;
}

bool cache_gate_is_open(struct cache_gate *gate)
{
    char registered[GUARD_CACHE_ID_BYTES + 1];

    if (!gate->is_gated)
        return true;
    pthread_mutex_lock(&gate->lock);
    memcpy(registered, gate->registered, sizeof(registered));
    const bool in_time = clock_boot_ms() < gate->until_ms;
    pthread_mutex_unlock(&gate->lock);
    return in_time && cache_gate_is_cache(gate->guard, registered);
}

bool cache_gate_pass(struct cache_gate *gate, struct guard_load *load)
{
    /* No invalidation need reach a cache that is not registered, so what it is told of is not shared either. This
     * process may keep it: OUTAGE_MS bounds what it answers with that. */
    static const struct guard_keep here = {
        .how = GUARD_HERE, .fresh_ms = GUARD_POLICY_MS, .stale_ms = GUARD_POLICY_MS};

    if (cache_gate_is_open(gate))
        return true;
    guard_load_keep(load, &here);
    atomic_fetch_add(&gate->unstored, 1);
    return false;
}
