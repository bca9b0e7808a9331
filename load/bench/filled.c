/* SPDX-License-Identifier: MIT */
/* filled.c - see filled.h. */
#include "load/bench/filled.h"

#include "app/common/redis_link.h"
#include "load/base/clock.h"

#include <stdio.h>
#include <string.h>

enum { LIMIT_S = 60 };

static void *listen_once(void *listening)
{
    struct filled *filled = listening;
    redisReply *reply = NULL;
    if (redisGetReply(filled->context, (void **)&reply) == REDIS_OK)
        filled->heard_us = clock_us();
    freeReplyObject(reply);
    return NULL;
}

/* Tells of every SET whose key names the product's value. */
static bool subscribe(struct filled *filled, const char *path)
{
    const char *id = strrchr(path, '/') + 1;
    redisReply *reply = redisCommand(filled->context, "PSUBSCRIBE __keyspace@0__:*product:%s}:v", id);
    bool good = reply != NULL && reply->type == REDIS_REPLY_ARRAY;
    freeReplyObject(reply);
    return good;
}

bool filled_tell(struct bench *bench, bool tells)
{
    return stack_redis_do(&bench->redis, "CONFIG SET notify-keyspace-events %s", tells ? "K$" : "");
}

bool filled_listen(const struct bench *bench, const char *path, struct filled *filled)
{
    *filled = (struct filled){.context = redis_link_to_path(bench->redis.socket_path, LIMIT_S * 1000)};
    if (filled->context != NULL && subscribe(filled, path) &&
        pthread_create(&filled->thread, NULL, listen_once, filled) == 0)
        return true;
    fprintf(stderr, "bench: cannot listen to Redis\n");
    redisFree(filled->context);
    return false;
}

uint64_t filled_wait(struct filled *filled)
{
    pthread_join(filled->thread, NULL);
    redisFree(filled->context);
    if (filled->heard_us == 0)
        fprintf(stderr, "bench: Redis told of no fill within %d s\n", LIMIT_S);
    return filled->heard_us;
}
