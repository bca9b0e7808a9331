/* SPDX-License-Identifier: MIT */
/*
 * scheme_zookeeper.c - (14) Apache Curator's InterProcessMutex over libzookeeper-mt.
 *
 *     acquire()   create, protected: an ephemeral, sequential node "_c_<uuid>-lock-<sequence>" below the lock's own
 *                 container; when the reply is lost, the node is looked for by its uuid. The lowest sequence has the
 *                 lock; the others watch the one before theirs
 *     release()   delete, guaranteed: tried again until it is answered
 *
 * The lock lives as long as the session, and the mutex says nothing to its holder when that is over: a
 * ConnectionStateListener would, which most programs do not have.
 */
#include "load/lab/scheme.h"

#include "load/base/clock.h"

#define THREADED /* what <zookeeper.h> declares */
#include <zookeeper/zookeeper.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 256, NODE_BYTES = 128, RETRY_PAUSE_MS = 20, WATCH_LIMIT_MS = 60000 };

struct lab_state {
    zhandle_t *handle; /* owned */
    char parent[NODE_BYTES];
    char node[PATH_BYTES]; /* ours, while we hold or wait */
    pthread_mutex_t mutex; /* for what follows */
    pthread_cond_t changed;
    uint64_t events; /* so many have come */
    bool is_expired;
};

/* ---- events ---- */

static void note_event(struct lab_state *state, bool is_expired)
{
    pthread_mutex_lock(&state->mutex);
    state->events++;
    state->is_expired = state->is_expired || is_expired;
    pthread_cond_broadcast(&state->changed);
    pthread_mutex_unlock(&state->mutex);
}

static void on_session(zhandle_t *handle, int type, int session, const char *path, void *context)
{
    (void)handle;
    (void)path;
    note_event(context, type == ZOO_SESSION_EVENT && session == ZOO_EXPIRED_SESSION_STATE);
}

static uint64_t event_count(struct lab_state *state)
{
    pthread_mutex_lock(&state->mutex);
    const uint64_t events = state->events;
    pthread_mutex_unlock(&state->mutex);
    return events;
}

static void wait_event(struct lab_state *state, uint64_t seen)
{
    const uint64_t end_us = clock_after_ms(WATCH_LIMIT_MS);
    pthread_mutex_lock(&state->mutex);
    while (state->events == seen && clock_wait(&state->changed, &state->mutex, end_us))
        ;
    pthread_mutex_unlock(&state->mutex);
}

/* ---- the session ---- */

static bool open_session(struct lab_client *client)
{
    struct lab_state *state = client->state;
    if (state->handle != NULL)
        zookeeper_close(state->handle);
    state->is_expired = false;
    state->handle =
        zookeeper_init(client->lock_urls, on_session, (int)client->lease_s * 1000, NULL, state, 0);
    return state->handle != NULL;
}

static bool is_expired(struct lab_state *state)
{
    pthread_mutex_lock(&state->mutex);
    const bool is_expired = state->is_expired;
    pthread_mutex_unlock(&state->mutex);
    return is_expired;
}

/* ---- the node ---- */

/* Behind the last "-". */
static const char *sequence_of(const char *name)
{
    const char *dash = strrchr(name, '-');
    return dash != NULL ? dash + 1 : name;
}

/* The child whose name has this in it. */
static bool find_child(const struct String_vector *children, const char *text, char name[NODE_BYTES])
{
    for (int32_t i = 0; i < children->count; i++) {
        if (strstr(children->data[i], text) == NULL)
            continue;
        snprintf(name, NODE_BYTES, "%s", children->data[i]);
        return true;
    }
    return false;
}

/* The last one before this one; false: it is the first. */
static bool find_before(const struct String_vector *children, const char *mine, char name[NODE_BYTES])
{
    const char *last = NULL;
    for (int32_t i = 0; i < children->count; i++) {
        const char *child = children->data[i];
        if (strcmp(sequence_of(child), sequence_of(mine)) < 0 &&
            (last == NULL || strcmp(sequence_of(child), sequence_of(last)) > 0))
            last = child;
    }
    snprintf(name, NODE_BYTES, "%s", last != NULL ? last : "");
    return last != NULL;
}

/* ZOK and the node, ZNONODE if it is not there, or what went wrong. */
static int find_mine(struct lab_client *client, char name[NODE_BYTES])
{
    struct String_vector children;
    int result = zoo_get_children(client->state->handle, client->state->parent, 0, &children);
    if (result != ZOK)
        return result;
    result = find_child(&children, client->token, name) ? ZOK : ZNONODE;
    deallocate_String_vector(&children);
    return result;
}

static int create_once(struct lab_client *client, char name[NODE_BYTES])
{
    struct lab_state *state = client->state;
    char path[PATH_BYTES], made[PATH_BYTES] = "";
    snprintf(path, sizeof path, "%s/_c_%s-lock-", state->parent, client->token);
    int result = zoo_create(state->handle, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL, made,
                            sizeof made);
    if (result == ZOK)
        snprintf(name, NODE_BYTES, "%s", made + strlen(state->parent) + 1);
    else if (result == ZNONODE)
        zoo_create(state->handle, state->parent, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_CONTAINER, NULL, 0);
    return result;
}

/* Protected: after a reply that may be lost it looks before it creates again. */
static bool create(struct lab_client *client, uint64_t end_us)
{
    char name[NODE_BYTES];
    bool looks_first = false;
    lab_token(client);
    for (; clock_us() < end_us; clock_pause_ms(RETRY_PAUSE_MS)) {
        if (is_expired(client->state) && !open_session(client))
            return false;
        int result = looks_first ? find_mine(client, name) : ZNONODE;
        if (result == ZNONODE)
            result = create_once(client, name);
        looks_first = result != ZOK && result != ZNONODE;
        if (result != ZOK)
            continue;
        snprintf(client->state->node, sizeof client->state->node, "%s/%s", client->state->parent, name);
        return true;
    }
    return false;
}

enum place { PLACE_FIRST, PLACE_BEHIND, PLACE_GONE, PLACE_UNKNOWN };

/* Behind: *seen is the count of events before the watch was set. */
static enum place look(struct lab_state *state, uint64_t *seen)
{
    struct String_vector children;
    char before[NODE_BYTES], path[PATH_BYTES + NODE_BYTES];
    const char *mine = state->node + strlen(state->parent) + 1;
    struct Stat stat;
    if (zoo_get_children(state->handle, state->parent, 0, &children) != ZOK)
        return PLACE_UNKNOWN;
    const bool is_there = find_child(&children, mine, before);
    const bool is_first = !find_before(&children, mine, before);
    deallocate_String_vector(&children);
    if (!is_there || is_first)
        return is_there ? PLACE_FIRST : PLACE_GONE;
    *seen = event_count(state);
    snprintf(path, sizeof path, "%s/%s", state->parent, before);
    return zoo_wexists(state->handle, path, on_session, state, &stat) == ZOK ? PLACE_BEHIND : PLACE_UNKNOWN;
}

static bool acquire(struct lab_client *client)
{
    const uint64_t end_us = clock_after_ms(LAB_REQUEST_LIMIT_MS);
    uint64_t seen = 0;
    if (!create(client, end_us))
        return false;
    while (clock_us() < end_us) {
        switch (look(client->state, &seen)) {
        case PLACE_FIRST:
            return true;
        case PLACE_BEHIND:
            wait_event(client->state, seen);
            break;
        case PLACE_GONE:
            if (!create(client, end_us))
                return false;
            break;
        case PLACE_UNKNOWN:
            if (is_expired(client->state) && !create(client, end_us))
                return false;
            clock_pause_ms(1);
            break;
        }
    }
    return false;
}

static void release(struct lab_client *client)
{
    const uint64_t end_us = clock_after_ms(LAB_REQUEST_LIMIT_MS);
    int result = ZCONNECTIONLOSS;
    while (result != ZOK && result != ZNONODE && !is_expired(client->state) && clock_us() < end_us) {
        result = zoo_delete(client->state->handle, client->state->node, -1);
        if (result != ZOK && result != ZNONODE)
            clock_pause_ms(RETRY_PAUSE_MS);
    }
}

/* ---- the process ---- */

static bool begin(struct lab_client *client)
{
    struct lab_state *state = calloc(1, sizeof *state);
    if (state == NULL)
        return false;
    client->state = state;
    zoo_set_debug_level(0);
    snprintf(state->parent, sizeof state->parent, "/%s", client->lock_name);
    pthread_mutex_init(&state->mutex, NULL);
    pthread_cond_init(&state->changed, NULL);
    return open_session(client);
}

static void end(struct lab_client *client)
{
    zookeeper_close(client->state->handle);
    pthread_cond_destroy(&client->state->changed);
    pthread_mutex_destroy(&client->state->mutex);
    free(client->state);
    client->state = NULL;
}

const struct scheme schemes_zookeeper[] = {
    {"14", "curator", "Curator's InterProcessMutex on ZooKeeper",
     "org.apache.curator...LockInternals, withProtection()", .label = "ZooKeeper (Curator)",
     .groups = GROUP_LOCK | GROUP_FAIR | GROUP_ZOOKEEPER, .place = PLACE_ZOOKEEPER, .open = begin,
     .close = end, .get = lab_get_locked, .acquire = acquire, .release = release},
    {.name = NULL},
};
