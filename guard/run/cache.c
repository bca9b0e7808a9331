/* SPDX-License-Identifier: MIT */
/*
 * cache.c - what the cache is called: guard_cache().
 *
 * Redis is asked for it only once guard_cache() has been called. From then on every new connection asks anew, since it
 * may lead to another Redis or to the same without its data; and so it is every CACHE_ASK_EVERY_US, since the name may
 * have been evicted or flushed.
 */
#include "cache.h"
#include "../base/clock.h"
#include <string.h>

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

/* In a Cluster others may be away: the question waits for the one that it goes to. */
static bool is_there(const struct guard *guard)
{
    return guard->answering.in_cluster || redis_is_up(guard->own->redis);
}

void cache_ask_redis(struct guard *guard)
{
    if (guard->cache_asked || guard->phase == PHASE_ENDING || clock_now_us() < guard->cache_ask_us ||
        !is_there(guard))
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
