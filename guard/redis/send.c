/* SPDX-License-Identifier: MIT */
/*
 * redis/send.c - the commands of a connection: its owner's, and those by which it knows that it is at the master. See
 * redis/parts.h.
 */
#include "parts.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

static bool fits_in_pipeline(const struct redis *redis, size_t argc, const size_t *argv_bytes)
{
    size_t room = redis->config.max_pending_bytes, pending = redis_pipeline_bytes(&redis->pipeline);

    if (pending >= room)
        return false;
    room -= pending;
    for (size_t i = 0; i < argc; i++) {
        if (argv_bytes[i] >= room)
            return false;
        room -= argv_bytes[i];
    }
    return true;
}

static bool queue(struct redis *redis, size_t argc, const char *const *argv, const size_t *argv_bytes,
                  struct redis_command *command)
{
    uint64_t now = redis_now_ms();

    assert(redis->config.channel == NULL);
    if (redis->stage == STAGE_CLOSED || !fits_in_pipeline(redis, argc, argv_bytes))
        return false;
    command->deadline_ms = now + redis->config.limit_ms;
    if (!redis_pipeline_add(&redis->pipeline, argc, argv, argv_bytes, command))
        return false;
    redis->greeting.fence.sent_ms = now;
    redis_ring_by(redis, redis_is_void(redis) ? now : command->deadline_ms);
    redis_flush_this_turn(redis);
    return true;
}

static bool enqueue(struct redis *redis, size_t argc, const char *const *argv, const size_t *argv_bytes,
                    struct redis_command *command)
{
    if (!queue(redis, argc, argv, argv_bytes, command))
        return false;
    redis->counted = true;
    redis_count(&redis->counters->commands);
    return true;
}

bool redis_send(struct redis *redis, size_t argc, const char *const *argv, const size_t *argv_bytes,
                redis_replied *replied, void *context)
{
    struct redis_command command = {.replied = replied, .context = context};

    return enqueue(redis, argc, argv, argv_bytes, &command);
}

/* ROLE of a value that is read, or of a heartbeat. */
static void on_role(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct redis *redis = context;

    if (outcome != REDIS_REPLIED)
        return;
    redis->is_master = redis_is_master(reply);
    if (reply->type == REDIS_REPLY_ERROR) {
        redis_fence_no_role(&redis->greeting.fence, redis_error_classify(reply->str, reply->len));
        redis_tell_up(redis);
    } else if (!redis->is_master) {
        redis_lose_demoted(redis, reply);
    }
}

static bool queue_role(struct redis *redis)
{
    struct redis_command command = {.replied = on_role, .context = redis};

    return queue(redis, 1, (const char *[]){"ROLE"}, (size_t[]){4}, &command);
}

bool redis_send_get(struct redis *redis, const char *name, size_t name_bytes, redis_replied *replied,
                    void *context)
{
    struct redis_command command = {.replied = replied, .context = context};
    const char *argv[] = {"GETEX", name};
    size_t argv_bytes[] = {5, name_bytes};

    switch (redis->greeting.fence.mode) {
    case REDIS_FENCE_SHUT:
        return false;
    case REDIS_FENCE_ROLE:
        argv[0] = "GET";
        argv_bytes[0] = 3;
        command.needs_master = true;
        return queue_role(redis) && enqueue(redis, 2, argv, argv_bytes, &command);
    case REDIS_FENCE_WRITE:
        break;
    }
    command.tries_fence = true;
    return enqueue(redis, 2, argv, argv_bytes, &command);
}

bool redis_run(struct redis *redis, unsigned script, size_t key_count, size_t argc, const char *const *argv,
               const size_t *argv_bytes, redis_replied *replied, void *context)
{
    const char *digest = redis->greeting.digests[script];
    struct redis_command command = {.replied = replied, .context = context};
    struct redis_script_command words = {.argc = 0};

    assert(script < SCRIPT_COUNT);
    redis_script_compose(&words, (enum script)script, digest, key_count, argc, argv, argv_bytes);
    if (digest[0] != '\0') {
        command.call = redis_script_keep((enum script)script, key_count, argc, argv, argv_bytes);
        if (command.call == NULL)
            return false;
    }
    if (enqueue(redis, words.argc, words.argv, words.argv_bytes, &command))
        return true;
    free(command.call);
    return false;
}

/* ---- the heartbeat ---- */

static void queue_write(struct redis *redis)
{
    struct redis_command command = {.tries_fence = true};
    bool zrem = redis->greeting.fence.no_getex;
    const char *argv[] = {zrem ? "ZREM" : "GETEX", REDIS_BEAT_KEY, ""};

    queue(redis, zrem ? 3 : 2, argv, (size_t[]){strlen(argv[0]), strlen(REDIS_BEAT_KEY), 0}, &command);
}

/* What waits for a reply already tells as well that the server goes on, but opens no fence. */
static bool needs_write(const struct redis *redis)
{
    return redis->pipeline.count == 0 || redis->greeting.fence.mode != REDIS_FENCE_WRITE;
}

void redis_beat_if_due(struct redis *redis)
{
    enum redis_beat due = REDIS_BEAT_NONE;

    if (redis_is_void(redis))
        redis_lose(redis, GUARD_REDIS_DOWN, "another master was confirmed");
    if (redis->stage == STAGE_UP && redis_fence_redials(&redis->greeting.fence, redis_now_ms()))
        redis_lose(redis, GUARD_REDIS_FENCED, REDIS_FENCED_TEXT);
    if (redis->stage != STAGE_UP)
        return;
    due = redis_fence_beat(&redis->greeting.fence, redis_now_ms());
    if (redis->config.channel == NULL && due == REDIS_BEAT_WRITE && needs_write(redis))
        queue_write(redis);
    else if (redis->config.channel == NULL && due == REDIS_BEAT_ROLE)
        queue_role(redis);
    redis_ring_by(redis, redis_fence_next_ms(&redis->greeting.fence));
}
