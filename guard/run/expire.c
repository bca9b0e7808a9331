/* SPDX-License-Identifier: MIT */
/* expire.c - see expire.h. */
#include "expire.h"
#include <stdlib.h>
#include <string.h>

struct expire {
    struct loop *loop;
    expire_done *done;
    void *context;
    struct redis_lookup looked_up;
    struct tags_clock born; /* what the entry may be called born at */
    uint64_t expired_ms;    /* so long ago */
    char filler[TOKEN_UUID_BYTES + 1];
    char encoded[KEY_ENCODED_MAX + 1];
    size_t key_bytes;
    char key[]; /* the application's */
};

static void end_expire(struct expire *expire, bool expired)
{
    expire->done(expire->context, expired);
    free(expire);
}

static void on_made_stale(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    bool replied = outcome == REDIS_REPLIED && reply->type == REDIS_REPLY_INTEGER;
    end_expire(context, replied && reply->integer == 1);
}

/* Nothing is left of its stale time, or it is another one. */
static bool make_stale(struct expire *expire, int64_t pttl_ms, const struct redisReply *reply)
{
    struct envelope envelope;
    if (reply->type != REDIS_REPLY_STRING || pttl_ms <= 0)
        return false;
    if (envelope_read(reply->str, reply->len, expire->key, expire->key_bytes, &envelope) != ENVELOPE_OK)
        return false;
    bool same = memcmp(envelope.filler, expire->filler, TOKEN_UUID_BYTES) == 0;
    if (!same || envelope.tags_bytes == 0 || envelope.stale_ms <= expire->expired_ms)
        return false;
    envelope.born = expire->born;
    return protocol_send_make_stale(&expire->loop->guard->protocol, expire->loop->redis, expire->encoded,
                                    &envelope, envelope.stale_ms - expire->expired_ms, on_made_stale, expire);
}

static void on_looked_up_again(void *context, enum redis_outcome outcome, int64_t pttl_ms,
                               const struct redisReply *reply)
{
    struct expire *expire = context;
    if (outcome != REDIS_REPLIED || !make_stale(expire, pttl_ms, reply))
        end_expire(expire, false);
}

static void on_expiries(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct expire *expire = context;
    char name[KEY_NAME_SIZE];
    size_t bytes = key_name(expire->loop->guard->protocol.name_space, expire->encoded, KEY_VALUE, name);
    if (!protocol_read_expiries(outcome, reply, &expire->born, &expire->expired_ms) ||
        !redis_look_up(expire->loop->redis, &expire->looked_up, name, bytes))
        end_expire(expire, false);
}

bool expire_begin(struct loop *loop, const struct expire_found *found, expire_done *done, void *context)
{
    struct expire *expire = calloc(1, sizeof *expire + found->key_bytes);
    if (expire == NULL)
        return false;
    expire->loop = loop;
    expire->done = done;
    expire->context = context;
    expire->looked_up.done = on_looked_up_again;
    expire->looked_up.context = expire;
    memcpy(expire->filler, found->filler, TOKEN_UUID_BYTES);
    memcpy(expire->key, found->key, found->key_bytes);
    expire->key_bytes = found->key_bytes;
    key_encode(found->key, found->key_bytes, expire->encoded);
    if (protocol_send_expiries(&loop->guard->protocol, loop->redis, found->value->tags,
                               found->value->tags_bytes, &found->born, on_expiries, expire))
        return true;
    free(expire);
    return false;
}
