/* SPDX-License-Identifier: MIT */
/*
 * script_rig.h - one private Redis for the tests of the scripts, and a subscriber who hears everything.
 *
 * A test begins with an empty server. told() compares all that was published since the last call with what should
 * have been. Errors of Redis and of its connection fail the test, but where a reply is handed out.
 */
#pragma once

#include "guard/wire/protocol.h"
#include "load/stack/stack.h"
#include "tests/support/test.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEARD_BYTES = 1024,
    WORDS_MAX = 64,
    SLACK_MS = 15000 /* a test may be that slow, and a TTL still right */
};

static const char *channel = "wake"; /* a program may name another before server_up() */
static struct stack_redis server;
static redisContext *subscriber;

/* ---- commands ---- */

/* Never NULL; the caller's. */
static inline redisReply *asked(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = redisvCommand(server.context, format, arguments);
    va_end(arguments);
    if (reply == NULL)
        fail_msg("redis-server is gone: %s", server.context->errstr);
    return reply;
}

/* For a command whose reply says no more than that it ran. */
static inline void must(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = redisvCommand(server.context, format, arguments);
    va_end(arguments);
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", format, reply == NULL ? server.context->errstr : reply->str);
    freeReplyObject(reply);
}

static inline long long number(redisReply *reply)
{
    if (reply->type != REDIS_REPLY_INTEGER)
        fail_msg("no number: %s", reply->str != NULL ? reply->str : "?");
    const long long value = reply->integer;
    freeReplyObject(reply);
    return value;
}

static inline long long pttl(const char *name)
{
    return number(asked("PTTL %s", name));
}

static inline bool exists(const char *name)
{
    return number(asked("EXISTS %s", name)) == 1;
}

static inline void assert_ttl(long long ttl_ms, long long expected_ms)
{
    assert_in_range(ttl_ms, expected_ms > SLACK_MS ? expected_ms - SLACK_MS : 1, expected_ms);
}

/* ---- scripts ---- */

struct words {
    const char *text[WORDS_MAX];
    size_t bytes[WORDS_MAX];
    size_t count;
};

static inline void add_bytes(struct words *words, const char *text, size_t bytes)
{
    assert_in_range(words->count, 0, WORDS_MAX - 1);
    words->text[words->count] = text;
    words->bytes[words->count++] = bytes;
}

static inline void add(struct words *words, const char *text)
{
    add_bytes(words, text, strlen(text));
}

static inline struct words words_for(enum script script, const char *key_count)
{
    struct words words = {.count = 0};
    add(&words, "EVAL");
    add(&words, protocol_scripts[script].source);
    add(&words, key_count);
    return words;
}

/* Never NULL; the caller's. */
static inline redisReply *run(struct words *words)
{
    redisReply *reply = redisCommandArgv(server.context, (int)words->count, words->text, words->bytes);
    if (reply == NULL)
        fail_msg("redis-server is gone: %s", server.context->errstr);
    return reply;
}

/* ---- messages ---- */

/* Everything published since the last call, in order. */
static inline void hear(char heard[static HEARD_BYTES])
{
    heard[0] = '\0';
    must("PUBLISH %s end", channel);
    for (bool is_end = false; !is_end;) {
        redisReply *reply = NULL;
        assert_int_equal(redisGetReply(subscriber, (void **)&reply), REDIS_OK);
        assert_int_equal(reply->elements, 3);
        assert_string_equal(reply->element[0]->str, "message");
        const char *const text = reply->element[2]->str;
        const size_t used = strlen(heard);
        is_end = strcmp(text, "end") == 0;
        if (!is_end)
            snprintf(heard + used, HEARD_BYTES - used, "%s%s", used > 0 ? ", " : "", text);
        freeReplyObject(reply);
    }
}

static inline void told(const char *expected)
{
    char heard[HEARD_BYTES];
    hear(heard);
    assert_string_equal(heard, expected);
}

/* ---- before and after ---- */

static inline bool server_up(void)
{
    const struct timeval limit = {.tv_sec = 10};
    if (!stack_redis_start(&server, NULL))
        return false;
    subscriber = redisConnectUnixWithTimeout(server.socket_path, limit);
    if (subscriber == NULL || subscriber->err != 0 || redisSetTimeout(subscriber, limit) != REDIS_OK)
        return false;
    redisReply *confirmed = redisCommand(subscriber, "SUBSCRIBE %s", channel);
    if (confirmed == NULL)
        return false;
    freeReplyObject(confirmed);
    return true;
}

static inline bool server_down(void)
{
    redisFree(subscriber);
    stack_redis_stop(&server);
    return true;
}

static inline bool server_empty(void)
{
    char left_over[HEARD_BYTES];
    must("CONFIG SET maxmemory 0"); /* one by one: Redis before 7.0 takes no more at a time */
    must("CONFIG SET min-replicas-to-write 0");
    must("REPLICAOF NO ONE");
    must("FLUSHALL");
    hear(left_over);
    return true;
}
