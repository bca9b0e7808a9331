/* SPDX-License-Identifier: MIT */
/* deletion.c - see deletion.h. */
#include "deletion.h"
#include "wake.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct deletion {
    struct redis *redis;
    redis_replied *replied;
    void *context;
    long long leases; /* deleted */
    size_t value_bytes, message_bytes;
    char value[KEY_NAME_SIZE];
    char channel[KEY_CHANNEL_SIZE];
    char message[MESSAGE_SIZE];
};

static bool send_del(struct redis *redis, const char *name, size_t name_bytes, redis_replied *replied,
                     void *context)
{
    const char *argv[] = {"DEL", name};
    const size_t argv_bytes[] = {3, name_bytes};
    return redis_send(redis, 2, argv, argv_bytes, replied, context);
}

/* A hint: waiters also poll. */
static void tell_others(const struct deletion *deletion)
{
    const char *argv[] = {"PUBLISH", deletion->channel, deletion->message};
    const size_t argv_bytes[] = {7, strlen(deletion->channel), deletion->message_bytes};
    redis_send(deletion->redis, 3, argv, argv_bytes, NULL, NULL);
}

static void end_deletion(struct deletion *deletion, enum redis_outcome outcome,
                         const struct redisReply *reply)
{
    deletion->replied(deletion->context, outcome, reply);
    free(deletion);
}

static bool has_deleted(enum redis_outcome outcome, const struct redisReply *reply)
{
    return outcome == REDIS_REPLIED && reply->type == REDIS_REPLY_INTEGER;
}

static void on_value_deleted(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct deletion *deletion = context;
    if (!has_deleted(outcome, reply)) {
        end_deletion(deletion, outcome, reply);
        return;
    }
    tell_others(deletion);
    const struct redisReply code = {.type = REDIS_REPLY_INTEGER,
                                    .integer = reply->integer + 2 * deletion->leases};
    end_deletion(deletion, REDIS_REPLIED, &code);
}

static void on_lease_deleted(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct deletion *deletion = context;
    if (!has_deleted(outcome, reply)) {
        end_deletion(deletion, outcome, reply);
        return;
    }
    deletion->leases = reply->integer;
    if (!send_del(deletion->redis, deletion->value, deletion->value_bytes, on_value_deleted, deletion))
        end_deletion(deletion, REDIS_UNSENT, NULL);
}

bool deletion_send(struct redis *redis, const char *name_space, const char *channel,
                   const struct core_key *key, redis_replied *replied, void *context)
{
    char lease[KEY_NAME_SIZE];
    size_t lease_bytes = key_name(name_space, key->encoded, KEY_LEASE, lease);
    struct deletion *deletion = malloc(sizeof *deletion);
    if (deletion == NULL)
        return false;
    deletion->redis = redis;
    deletion->replied = replied;
    deletion->context = context;
    deletion->value_bytes = key_name(name_space, key->encoded, KEY_VALUE, deletion->value);
    snprintf(deletion->channel, sizeof deletion->channel, "%s", channel);
    deletion->message_bytes = message_write(MESSAGE_INVALIDATED, NULL, key->encoded, deletion->message);
    if (send_del(redis, lease, lease_bytes, on_lease_deleted, deletion))
        return true;
    free(deletion);
    return false;
}
