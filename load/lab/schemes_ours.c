/* SPDX-License-Identifier: MIT */
/*
 * schemes_ours.c - (7a) to (7h): our locks, by guard/locks.h, as any program uses them.
 *
 *     7a, 7b   on one Redis: overtaking, and first come first served
 *     7c       as 7b, but its fencing number is shown to nobody: what a lock alone is worth
 *     7d, 7e   readers and writers; permits
 *     7f       RedLock on three masters
 *     7g, 7h   on PostgreSQL's session locks, on ZooKeeper
 *
 * The holder asks for what is left of its validity right before the step after which it can be stopped; from there on
 * only the fence helps.
 */
#include "load/lab/scheme.h"

#include "guard/locks.h"
#include "load/base/clock.h"
#include "load/lab/note.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONNECT_LIMIT_MS = 10000, DRAIN_MS = 500, URLS_MAX = 9, LEASES_MAX = 4 };

struct lab_state {
    struct guard_locks *locks;
    struct guard_owner *owner;
    struct guard_hold *hold; /* while the lock is held */
};

static enum guard_lock_provider provider_of(const struct lab_client *client)
{
    switch (client->scheme->place) {
    case PLACE_REDIS:
        return GUARD_LOCKS_REDIS;
    case PLACE_MASTERS:
        return GUARD_LOCKS_REDLOCK;
    case PLACE_POSTGRES:
        return GUARD_LOCKS_POSTGRES;
    case PLACE_ZOOKEEPER:
        return GUARD_LOCKS_ZOOKEEPER;
    }
    return GUARD_LOCKS_REDIS;
}

/* ZooKeeper's sessions last for max_lease_ms, and no lease is longer. */
static uint32_t leases_ms(const struct lab_client *client, uint32_t wanted_ms)
{
    const uint32_t session_ms = client->lease_s * 1000;
    return client->scheme->place == PLACE_ZOOKEEPER && wanted_ms > session_ms ? session_ms : wanted_ms;
}

/* ---- asking and giving back ---- */

static void tell_lost(void *context, struct guard_hold *hold, const char *why)
{
    (void)hold;
    (void)why;
    lab_lost(context);
}

static bool ask(struct lab_client *client, enum guard_lock_kind kind, struct guard_lock_result *result)
{
    struct guard_lock_request request = GUARD_LOCK_REQUEST_DEFAULTS;
    struct guard_error error;
    const char *const names[] = {client->key};
    request.kind = kind;
    request.names = names;
    request.limit = kind == GUARD_LOCK_PERMITS ? LAB_PERMITS : 1;
    request.owner = kind == GUARD_LOCK_PERMITS ? NULL : client->state->owner;
    request.wait_ms = LAB_REQUEST_LIMIT_MS;
    request.lease_ms = leases_ms(client, lab_lease_ms(client));
    request.hold_ms = client->fixed_lease_ms;
    request.lost = tell_lost;
    request.context = client;
    const enum guard_lock_status status = guard_lock_wait(client->state->locks, &request, result, &error);
    client->is_refused = status == GUARD_LOCK_INVALID;
    if (status != GUARD_LOCK_OK)
        fprintf(stderr, "lab: our lock: %s %s\n", guard_lock_status_name(status),
                result->why != NULL ? result->why : "");
    return status == GUARD_LOCK_OK;
}

static bool acquire(struct lab_client *client)
{
    const enum guard_lock_kind wanted = (enum guard_lock_kind)client->scheme->variant;
    const bool is_read = wanted == GUARD_LOCK_WRITE && client->mode == MODE_SHARED;
    struct guard_lock_result result, under;
    if (!ask(client, is_read ? GUARD_LOCK_READ : wanted, &result))
        return false;
    client->state->hold = result.hold;
    client->fence = client->mode == MODE_SHARED ? 0 : result.fence[0];
    if (client->mode == MODE_READ_UNDER && ask(client, GUARD_LOCK_READ, &under))
        guard_unlock_wait(&under.hold);
    return true;
}

static bool acquire_unfenced(struct lab_client *client)
{
    const bool is_mine = acquire(client);
    client->fence = 0;
    return is_mine;
}

static bool is_lost(struct lab_client *client)
{
    return guard_hold_left_ms(client->state->hold) == 0;
}

static void release(struct lab_client *client)
{
    guard_unlock_wait(&client->state->hold);
}

/* ---- a crowd: many requests of one process ---- */

struct crowd {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint32_t left, failed;
};

static void one_less(struct crowd *crowd, bool is_failed)
{
    pthread_mutex_lock(&crowd->mutex);
    crowd->left--;
    crowd->failed += is_failed;
    pthread_cond_signal(&crowd->changed);
    pthread_mutex_unlock(&crowd->mutex);
}

static void given_back(void *context, enum guard_lock_status status)
{
    one_less(context, status != GUARD_LOCK_OK);
}

static void answered(void *context, const struct guard_lock_result *result)
{
    struct guard_hold *hold = result->hold;
    if (result->status == GUARD_LOCK_OK)
        guard_unlock(&hold, given_back, context);
    else
        one_less(context, true);
}

static bool ask_many(struct lab_client *client, uint32_t count)
{
    struct crowd crowd = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, count, 0};
    struct guard_lock_request request = GUARD_LOCK_REQUEST_DEFAULTS;
    const char *const names[] = {client->key};
    request.kind = (enum guard_lock_kind)client->scheme->variant;
    request.names = names;
    request.wait_ms = UINT32_MAX;
    request.lease_ms = lab_lease_ms(client);
    request.answered = answered;
    request.context = &crowd;
    for (uint32_t i = 0; i < count; i++) {
        if (guard_lock(client->state->locks, &request, NULL, NULL) != GUARD_LOCK_OK)
            one_less(&crowd, true);
    }
    note_send(client->link, NOTE_WAITING, (int32_t)count);
    pthread_mutex_lock(&crowd.mutex);
    while (crowd.left > 0)
        pthread_cond_wait(&crowd.changed, &crowd.mutex);
    pthread_mutex_unlock(&crowd.mutex);
    return crowd.failed == 0;
}

/* ---- the process ---- */

static bool open_locks(struct lab_client *client, struct lab_state *state)
{
    struct guard_locks_config config = GUARD_LOCKS_CONFIG_DEFAULTS;
    struct guard_error error;
    char text[LAB_URLS_BYTES], *rest = text;
    const char *urls[URLS_MAX];
    snprintf(text, sizeof text, "%s", client->lock_urls);
    for (config.url_count = 0; rest != NULL && config.url_count < URLS_MAX; config.url_count++)
        urls[config.url_count] = strsep(&rest, " ");
    config.provider = provider_of(client);
    config.urls = urls;
    config.name_space = "lab";
    config.max_lease_ms = leases_ms(client, client->lease_s * 1000 * LEASES_MAX);
    if (guard_locks_open(&config, &state->locks, &error) == GUARD_OK &&
        guard_owner_new(state->locks, &state->owner) == GUARD_LOCK_OK)
        return true;
    fprintf(stderr, "lab: our locks: %s\n", error.text);
    return false;
}

/* PostgreSQL is connected to for each request. */
static bool wait_connected(const struct lab_client *client, struct guard_locks *locks)
{
    struct guard_locks_stats stats;
    for (uint64_t end_us = clock_after_ms(CONNECT_LIMIT_MS);
         client->scheme->place != PLACE_POSTGRES && clock_us() < end_us; clock_pause_ms(1)) {
        guard_locks_stats(locks, &stats);
        if (stats.is_up)
            return true;
    }
    if (client->scheme->place != PLACE_POSTGRES)
        fprintf(stderr, "lab: our locks: not connected after %d ms\n", (int)CONNECT_LIMIT_MS);
    return client->scheme->place == PLACE_POSTGRES;
}

static bool begin(struct lab_client *client)
{
    client->state = calloc(1, sizeof *client->state);
    return client->state != NULL && open_locks(client, client->state) &&
           wait_connected(client, client->state->locks);
}

static void end(struct lab_client *client)
{
    guard_owner_free(&client->state->owner);
    guard_locks_close(&client->state->locks, DRAIN_MS);
    free(client->state);
    client->state = NULL;
}

#define OURS                                                                                                 \
    .source = "guard/locks.h", .open = begin, .close = end, .get = lab_get_locked, .release = release,       \
    .is_lost = is_lost

/* Keys that wait in line, of the one Redis. */
static const char queue_length[] = "ZCARD csg1:{lab:%s}:kq";

/* ---- the table ---- */

const struct scheme schemes_ours[] = {
    {"7a", "our-mutex", "ours on Redis, MUTEX: a newcomer may overtake", OURS, .is_ours = true,
     .groups = GROUP_LOCK | GROUP_CROWD, .variant = GUARD_LOCK_MUTEX, .queue_length = queue_length,
     .crowd = ask_many, .acquire = acquire},
    {"7b", "our-fair", "ours on Redis, FAIR, fenced", OURS, .is_ours = true,
     .groups = GROUP_LOCK | GROUP_FAIR | GROUP_CROWD, .variant = GUARD_LOCK_FAIR,
     .queue_length = queue_length, .crowd = ask_many, .acquire = acquire},
    {"7c", "our-unfenced", "ours on Redis, FAIR, its number shown to nobody", OURS, .groups = GROUP_LOCK,
     .variant = GUARD_LOCK_FAIR, .queue_length = queue_length, .acquire = acquire_unfenced},
    {"7d", "our-rw", "ours on Redis, READ and WRITE", OURS, .is_ours = true, .groups = GROUP_RW,
     .variant = GUARD_LOCK_WRITE, .queue_length = queue_length, .acquire = acquire},
    {"7e", "our-permits", "ours on Redis, PERMITS", OURS, .is_ours = true, .groups = GROUP_PERMITS,
     .variant = GUARD_LOCK_PERMITS, .queue_length = queue_length, .acquire = acquire},
    {"7f", "our-redlock", "ours on three masters, fenced", OURS, .is_ours = true,
     .groups = GROUP_LOCK | GROUP_REDLOCK, .place = PLACE_MASTERS, .variant = GUARD_LOCK_MUTEX,
     .acquire = acquire},
    {"7g", "our-postgres", "ours on PostgreSQL, fenced", OURS, .is_ours = true,
     .groups = GROUP_LOCK | GROUP_FAIR | GROUP_ADVISORY, .place = PLACE_POSTGRES, .variant = GUARD_LOCK_FAIR,
     .acquire = acquire},
    {"7h", "our-zookeeper", "ours on ZooKeeper, fenced", OURS, .is_ours = true,
     .groups = GROUP_LOCK | GROUP_FAIR | GROUP_ZOOKEEPER, .place = PLACE_ZOOKEEPER,
     .variant = GUARD_LOCK_FAIR, .acquire = acquire},
    {.name = NULL},
};
