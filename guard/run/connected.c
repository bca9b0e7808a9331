/* SPDX-License-Identifier: MIT */
/* connected.c - see connected.h. */
#include "connected.h"
#include "../base/clock.h"
#include "../base/process.h"
#include "mailbox.h"
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct connecting {
    struct connecting *prev, *next;
    guard_connected_done *done;
    void *context;
};

/* ---- the guard's thread ---- */

static void tell_connectings(struct guard *guard, enum guard_status status)
{
    pthread_mutex_lock(&guard->mutex);
    struct connecting *list = guard->connectings;
    guard->connectings = NULL;
    pthread_mutex_unlock(&guard->mutex);
    while (list != NULL) {
        struct connecting *each = list;
        DL_DELETE(list, each);
        each->done(each->context, status);
        free(each);
    }
}

void connected_tell(struct guard *guard)
{
    if (guard->redis_spoke)
        tell_connectings(guard, guard->own->redis_state == GUARD_REDIS_UP ? GUARD_OK : GUARD_UNKNOWN);
}

void connected_spoken(struct guard *guard)
{
    guard->redis_spoke = true;
    host_timer_stop(guard->host, &guard->first_word);
    connected_tell(guard);
}

static void on_limit(void *context)
{
    connected_spoken(context);
}

void connected_open(struct guard *guard)
{
    guard->first_word = (struct host_timer){.run = on_limit, .context = guard};
    host_timer_set(guard->host, &guard->first_word,
                   clock_now_us() + (uint64_t)guard->config.connect_limit_ms * 1000);
}

void connected_close(struct guard *guard)
{
    host_timer_stop(guard->host, &guard->first_word);
    tell_connectings(guard, GUARD_CLOSING);
}

/* ---- the public functions ---- */

enum guard_status guard_connected(struct guard *guard, guard_connected_done *done, void *context)
{
    if (is_forked(guard))
        return request_refuse(guard, "guard_connected", FORKED_TEXT);
    if (done == NULL)
        return request_refuse(guard, "guard_connected", "done is NULL");
    struct connecting *connecting = calloc(1, sizeof *connecting);
    if (connecting == NULL)
        return GUARD_NO_MEMORY;
    *connecting = (struct connecting){.done = done, .context = context};
    pthread_mutex_lock(&guard->mutex);
    bool closing = guard->closing_asked;
    if (!closing) {
        DL_APPEND(guard->connectings, connecting);
        mailbox_wake(guard);
    }
    pthread_mutex_unlock(&guard->mutex);
    if (closing)
        free(connecting);
    return closing ? GUARD_CLOSING : GUARD_OK;
}

static void connected(void *context, enum guard_status status)
{
    blocking_answer(context, &status, sizeof status);
}

enum guard_status guard_connected_wait(struct guard *guard)
{
    struct blocking blocking;
    enum guard_status told = GUARD_INVALID;
    if (blocking_in_callback())
        return request_refuse(guard, "guard_connected_wait", CALLBACK_TEXT);
    blocking_init(&blocking, &told);
    enum guard_status status = guard_connected(guard, connected, &blocking);
    if (status != GUARD_OK)
        return status;
    blocking_wait(&blocking);
    return told;
}

/* ---- what the cache is called ---- */

/*
 * Redis is asked for it only once guard_cache() has been called. From then on every new connection asks anew, since
 * it may lead to another Redis or to the same without its data; and so it is every CACHE_ASK_EVERY_US, since the name
 * may have been evicted or flushed.
 */

enum { CACHE_ASK_EVERY_US = 5000000 };

bool cache_open(struct guard *guard)
{
    uint8_t random[16];
    if (!clock_random(random, sizeof random))
        return false;
    clock_uuid(random, guard->cache_name);
    return true;
}

static void know(struct guard *guard, const char *id)
{
    pthread_mutex_lock(&guard->mutex);
    memcpy(guard->cache_id, id, strlen(id) + 1);
    pthread_mutex_unlock(&guard->mutex);
}

static void on_cache_id(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct guard *guard = context;
    const char *id = protocol_read_cache_id(outcome, reply);
    guard->cache_asked = false;
    if (id == NULL)
        return;
    memcpy(guard->cache_name, id, GUARD_CACHE_ID_BYTES);
    guard->cache_ask_us = clock_now_us() + CACHE_ASK_EVERY_US;
    know(guard, guard->cache_name);
}

void cache_ask(struct guard *guard)
{
    if (!atomic_load_explicit(&guard->cache_wanted, memory_order_relaxed) || guard->cache_asked ||
        guard->phase == PHASE_ENDING || clock_now_us() < guard->cache_ask_us ||
        /* In a Cluster others may be away: the question waits for the one that it goes to. */
        !(guard->answering.in_cluster || redis_is_up(guard->own->redis)))
        return;
    guard->cache_asked =
        protocol_send_cache_id(&guard->answering, guard->own->redis, guard->cache_name, on_cache_id, guard);
}

void cache_forget(struct guard *guard, unsigned shard)
{
    char name[KEY_NAME_SIZE];
    if (shard != redis_shard(guard->own->redis, name, key_cache_id(guard->answering.name_space, name)))
        return;
    guard->cache_ask_us = 0;
    know(guard, "");
}
