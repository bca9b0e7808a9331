/* SPDX-License-Identifier: MIT */
/* redisson.c - see redisson.h. */
#include "load/lab/redisson.h"

#include "load/base/clock.h"
#include "load/lab/note.h"

#include <hiredis/hiredis.h>

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

enum { RESUBSCRIBE_PAUSE_MS = 10, CROWD_LOOK_MS = 100, CROWD_LIMIT_MS = 30000 };

/* ---- RedissonLock: a hash with the owner and how often it has locked ---- */

static const char lock_script[] =
    "if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then"
    "  redis.call('HINCRBY', KEYS[1], ARGV[2], 1)"
    "  redis.call('PEXPIRE', KEYS[1], ARGV[1])  return nil end return redis.call('PTTL', KEYS[1])";

static const char unlock_script[] = "if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then return nil end "
                                    "if redis.call('HINCRBY', KEYS[1], ARGV[2], -1) > 0 then"
                                    "  redis.call('PEXPIRE', KEYS[1], ARGV[1])  return 0 end "
                                    "redis.call('DEL', KEYS[1])redis.call('PUBLISH', KEYS[2], 0) return 1";

const char redisson_renew_script[] = "if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then return 0 end "
                                     "return redis.call('PEXPIRE', KEYS[1], ARGV[1])";

static long long try_lock(struct lab_client *client)
{
    struct redisReply *reply = lab_command(client, "EVAL %s 1 %s %u %s", lock_script, client->lock_name,
                                           (unsigned)lab_lease_ms(client), client->state->owner);
    long long ttl_ms = reply->type == REDIS_REPLY_NIL ? REDISSON_TAKEN : reply->integer;
    freeReplyObject(reply);
    return ttl_ms;
}

struct redisReply *redisson_renew(const struct lab_client *client, struct redisContext *redis)
{
    return redisCommand(redis, "EVAL %s 1 %s %u %s", redisson_renew_script, client->lock_name,
                        (unsigned)lab_lease_ms(client), client->state->owner);
}

static void unlock(struct lab_client *client)
{
    freeReplyObject(lab_command(client, "EVAL %s 2 %s %s %u %s", unlock_script, client->lock_name,
                                client->state->channel, (unsigned)lab_lease_ms(client),
                                client->state->owner));
}

const struct redisson redisson_lock_kind = {try_lock, redisson_renew, unlock, "redisson_lock__channel",
                                            false};

/* ---- the watchdog ---- */

/* A third of the lease. */
static uint64_t next_turn_us(const struct lab_client *client)
{
    return clock_after_ms(client->lease_s * 1000 / 3);
}

/* The mutex is kept during a renewal: none may be under way once unlock() has said that the lock goes. */
static void renew(struct lab_client *client)
{
    struct lab_state *state = client->state;
    struct redisReply *reply = NULL;
    if (state->renewal == NULL)
        state->renewal = lab_redis_open(client);
    if (state->renewal != NULL)
        reply = state->kind->renew(client, state->renewal);
    bool is_answered = reply != NULL && reply->type == REDIS_REPLY_INTEGER;
    bool is_mine = is_answered && reply->integer == 1;
    freeReplyObject(reply);
    if (!is_answered && state->renewal != NULL) {
        redisFree(state->renewal);
        state->renewal = NULL;
    }
    /* Without an answer it tries again at its next turn, over a new connection. */
    state->watchdog.due_us = is_mine || !is_answered ? next_turn_us(client) : 0;
}

/* ---- the subscription ---- */

static void name_channel(const struct lab_client *client, char channel[REDISSON_CHANNEL_BYTES])
{
    const struct redisson *kind = client->state->kind;
    snprintf(channel, REDISSON_CHANNEL_BYTES, "%s:{%s}%s%s", kind->channel, client->lock_name,
             kind->has_own_channel ? ":" : "", kind->has_own_channel ? client->state->owner : "");
}

static void unsubscribe(struct lab_state *state)
{
    redisFree(state->subscription);
    state->subscription = NULL;
}

static void subscribe(const struct lab_client *client, struct lab_state *state)
{
    state->subscription = lab_redis_open(client);
    if (state->subscription == NULL)
        return;
    struct redisReply *reply = redisCommand(state->subscription, "SUBSCRIBE %s", state->channel);
    bool good = reply != NULL && reply->type == REDIS_REPLY_ARRAY;
    freeReplyObject(reply);
    if (!good)
        unsubscribe(state);
}

/* True: a message. False: the connection broke, or the time is over. */
static bool read_message(struct redisContext *subscription, uint64_t left_us)
{
    const struct timeval limit = {.tv_sec = (time_t)(left_us / 1000000),
                                  .tv_usec = (suseconds_t)(left_us % 1000000)};
    void *message = NULL;
    if (redisSetTimeout(subscription, limit) != REDIS_OK || redisGetReply(subscription, &message) != REDIS_OK)
        return false;
    freeReplyObject(message);
    return true;
}

/* A lost connection is made and subscribed again; a message that was published meanwhile is not seen. */
static void wait_message(const struct lab_client *client, struct lab_state *state, uint64_t end_us)
{
    for (uint64_t now_us = clock_us(); now_us < end_us; now_us = clock_us()) {
        if (state->subscription == NULL)
            subscribe(client, state);
        else if (read_message(state->subscription, end_us - now_us))
            return;
        else
            unsubscribe(state);
        if (state->subscription == NULL)
            clock_pause_ms(RESUBSCRIBE_PAUSE_MS);
    }
    unsubscribe(state); /* after a timeout hiredis wants a new connection */
}

/* ---- lock and unlock ---- */

bool redisson_lock(struct lab_client *client)
{
    struct lab_state *state = client->state;
    const uint64_t end_us = clock_after_ms(LAB_REQUEST_LIMIT_MS);
    long long ttl_ms = state->kind->try_lock(client);
    if (ttl_ms != REDISSON_TAKEN) {
        subscribe(client, state);
        ttl_ms = state->kind->try_lock(client); /* it may have been released before the subscription stood */
    }
    while (ttl_ms != REDISSON_TAKEN && clock_us() < end_us) {
        wait_message(client, state, ttl_ms < 0 ? end_us : clock_after_ms((uint64_t)ttl_ms));
        ttl_ms = state->kind->try_lock(client);
    }
    unsubscribe(state);
    if (ttl_ms != REDISSON_TAKEN)
        return false;
    if (state->kind->renew != NULL && client->fixed_lease_ms == 0)
        lab_renewer_set(&state->watchdog, next_turn_us(client));
    return true;
}

void redisson_unlock(struct lab_client *client)
{
    lab_renewer_set(&client->state->watchdog, 0);
    client->state->kind->unlock(client);
}

/* ---- a crowd: many threads of one client ---- */

struct waiter {
    uint64_t due_us; /* it tries again; UINT64_MAX: when a message comes */
    bool is_done;
};

struct crowd {
    struct waiter waiters[REDISSON_CROWD_MAX];
    uint32_t count, left;
};

static void be_waiter(struct lab_client *client, uint32_t index)
{
    snprintf(client->state->owner, sizeof client->state->owner, "%s:%" PRIu32, client->token, index + 1);
}

/* Who gets the lock gives it back at once. */
static void try_one(struct lab_client *client, struct crowd *crowd, uint32_t index)
{
    be_waiter(client, index);
    const long long ttl_ms = client->state->kind->try_lock(client);
    if (ttl_ms != REDISSON_TAKEN) {
        crowd->waiters[index].due_us = ttl_ms < 0 ? UINT64_MAX : clock_after_ms((uint64_t)ttl_ms);
        return;
    }
    client->state->kind->unlock(client);
    crowd->waiters[index].is_done = true;
    crowd->left--;
}

static void try_all(struct lab_client *client, struct crowd *crowd, uint64_t due_us)
{
    for (uint32_t i = 0; i < crowd->count; i++) {
        if (!crowd->waiters[i].is_done && crowd->waiters[i].due_us <= due_us)
            try_one(client, crowd, i);
    }
}

static bool subscribe_all(struct lab_client *client, uint32_t count)
{
    struct lab_state *state = client->state;
    const uint32_t channels = state->kind->has_own_channel ? count : 1;
    state->subscription = lab_redis_open(client);
    for (uint32_t i = 0; i < channels && state->subscription != NULL; i++) {
        char channel[REDISSON_CHANNEL_BYTES];
        be_waiter(client, i);
        name_channel(client, channel);
        struct redisReply *reply = redisCommand(state->subscription, "SUBSCRIBE %s", channel);
        if (reply == NULL)
            return false;
        freeReplyObject(reply);
    }
    return state->subscription != NULL;
}

/* A message is for the owner that its channel ends with, or for the one that has waited longest. */
static void take_message(struct lab_client *client, struct crowd *crowd, const struct redisReply *message)
{
    uint32_t index = 0;
    if (message->type != REDIS_REPLY_ARRAY || message->elements < 3)
        return;
    const char *owner = strrchr(message->element[1]->str, ':');
    if (client->state->kind->has_own_channel && owner != NULL)
        index = (uint32_t)strtoul(owner + 1, NULL, 10) - 1;
    while (!client->state->kind->has_own_channel && index < crowd->count && crowd->waiters[index].is_done)
        index++;
    if (index < crowd->count && !crowd->waiters[index].is_done)
        try_one(client, crowd, index);
}

static uint64_t next_due_us(const struct crowd *crowd)
{
    uint64_t due_us = UINT64_MAX;
    for (uint32_t i = 0; i < crowd->count; i++) {
        if (!crowd->waiters[i].is_done && crowd->waiters[i].due_us < due_us)
            due_us = crowd->waiters[i].due_us;
    }
    return due_us;
}

/* Until the next one is due, or a message has come; false: the subscription is gone. */
static bool hear_some(struct lab_client *client, struct crowd *crowd)
{
    struct redisContext *subscription = client->state->subscription;
    const uint64_t now_us = clock_us(), due_us = next_due_us(crowd);
    struct pollfd polled = {.fd = subscription->fd, .events = POLLIN};
    const uint64_t left_ms = due_us <= now_us ? 0 : (due_us - now_us) / 1000 + 1;
    void *message = NULL;
    if (poll(&polled, 1, left_ms < CROWD_LOOK_MS ? (int)left_ms : CROWD_LOOK_MS) > 0 &&
        redisBufferRead(subscription) != REDIS_OK)
        return false;
    while (redisGetReplyFromReader(subscription, &message) == REDIS_OK && message != NULL) {
        take_message(client, crowd, message);
        freeReplyObject(message);
    }
    return true;
}

bool redisson_crowd(struct lab_client *client, uint32_t count)
{
    static struct crowd crowd;
    const uint64_t end_us = clock_after_ms(CROWD_LIMIT_MS);
    bool good = true;
    crowd = (struct crowd){.count = count, .left = count};
    try_all(client, &crowd, UINT64_MAX);
    good = subscribe_all(client, count);
    try_all(client, &crowd, UINT64_MAX);
    note_send(client->link, NOTE_WAITING, (int32_t)crowd.left);
    while (good && crowd.left > 0 && clock_us() < end_us) {
        good = hear_some(client, &crowd);
        try_all(client, &crowd, clock_us());
    }
    unsubscribe(client->state);
    return good && crowd.left == 0;
}

/* ---- the process ---- */

bool redisson_begin(struct lab_client *client, const struct redisson *kind)
{
    struct lab_state *state = calloc(1, sizeof *state);
    if (state == NULL)
        return false;
    client->state = state;
    state->kind = kind;
    lab_token(client);
    snprintf(state->owner, sizeof state->owner, "%s:1", client->token);
    name_channel(client, state->channel);
    return lab_renewer_open(&state->watchdog, client, renew);
}

void redisson_end(struct lab_client *client)
{
    struct lab_state *state = client->state;
    lab_renewer_close(&state->watchdog);
    unsubscribe(state);
    redisFree(state->renewal);
    free(state);
    client->state = NULL;
}
