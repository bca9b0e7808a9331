/* SPDX-License-Identifier: MIT */
/* sweep.c - see sweep.h. */
#include "sweep.h"
#include "wake.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SWEEP_COUNT "500" /* names that one SCAN looks at; a reply has at most 1024 elements */

static void note_refusal(struct sweep *sweep, enum redis_outcome outcome, const struct redisReply *reply)
{
    sweep->failed = true;
    if (outcome == REDIS_REPLIED && reply->type == REDIS_REPLY_ERROR)
        snprintf(sweep->why, sizeof sweep->why, "%.*s", (int)sizeof sweep->why - 1, reply->str);
}

static void one_sweep_reply_less(struct sweep *sweep)
{
    if (--sweep->awaited > 0)
        return;
    if (!sweep->failed)
        memcpy(sweep->cursor, sweep->next_cursor, sizeof sweep->cursor);
    sweep->stepped(sweep->context, !sweep->failed);
}

static void on_name_deleted(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct sweep *sweep = context;
    if (outcome != REDIS_REPLIED || reply->type != REDIS_REPLY_INTEGER)
        note_refusal(sweep, outcome, reply);
    one_sweep_reply_less(sweep);
}

static void on_entry_deleted(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct sweep *sweep = context;
    if (outcome == REDIS_REPLIED && reply->type == REDIS_REPLY_INTEGER)
        sweep->values += (uint64_t)reply->integer;
    on_name_deleted(context, outcome, reply);
}

/* Led to whichever master has it by now. */
static bool send_del(struct redis *redis, const char *name, size_t name_bytes, redis_replied *replied,
                     void *context)
{
    const char *argv[] = {"DEL", name};
    const size_t argv_bytes[] = {3, name_bytes};
    return redis_send(redis, 2, argv, argv_bytes, replied, context);
}

static void delete_name(struct sweep *sweep, const char *name, size_t name_bytes)
{
    bool is_value = key_role_of(name, name_bytes) == KEY_VALUE;
    if (send_del(sweep->redis, name, name_bytes, is_value ? on_entry_deleted : on_name_deleted, sweep))
        sweep->awaited++;
    else
        sweep->failed = true;
}

static bool read_scan(struct sweep *sweep, const struct redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
        reply->element[0]->type != REDIS_REPLY_STRING ||
        reply->element[0]->len >= sizeof sweep->next_cursor || reply->element[1]->type != REDIS_REPLY_ARRAY)
        return false;
    memcpy(sweep->next_cursor, reply->element[0]->str, reply->element[0]->len + 1);
    const struct redisReply *names = reply->element[1];
    for (size_t i = 0; i < names->elements; i++)
        if (names->element[i]->type == REDIS_REPLY_STRING && names->element[i]->len > 0)
            delete_name(sweep, names->element[i]->str, names->element[i]->len);
    return true;
}

static void on_scanned(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct sweep *sweep = context;
    if (outcome != REDIS_REPLIED || !read_scan(sweep, reply))
        note_refusal(sweep, outcome, reply);
    one_sweep_reply_less(sweep);
}

bool sweep_step(struct sweep *sweep)
{
    char pattern[KEY_NAME_SIZE];
    size_t pattern_bytes = key_pattern(sweep->name_space, sweep->roles[0], sweep->roles[1], pattern);
    const char *argv[] = {"SCAN", sweep->cursor, "MATCH", pattern, "COUNT", SWEEP_COUNT};
    const size_t argv_bytes[] = {4, strlen(sweep->cursor), 5, pattern_bytes, 5, sizeof SWEEP_COUNT - 1};
    sweep->failed = false;
    sweep->why[0] = '\0';
    sweep->awaited = 1;
    memcpy(sweep->next_cursor, sweep->cursor, sizeof sweep->next_cursor);
    if (!redis_send_to(sweep->redis, sweep->shard, 6, argv, argv_bytes, on_scanned, sweep))
        return false;
    const char *name = redis_shard_name(sweep->redis, sweep->shard), *fence[] = {"DEL", name};
    const size_t fence_bytes[] = {3, strlen(name)};
    if (redis_send_to(sweep->redis, sweep->shard, 2, fence, fence_bytes, on_name_deleted, sweep))
        sweep->awaited++;
    else
        sweep->failed = true;
    return true;
}

/* ---- an invalidation without its script ---- */

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
    const char *argv[] = {"PUBLISH", deletion->channel, deletion->message};
    const size_t argv_bytes[] = {7, strlen(deletion->channel), deletion->message_bytes};
    redis_send(deletion->redis, 3, argv, argv_bytes, NULL, NULL); /* a hint: waiters also poll */
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
