/* SPDX-License-Identifier: MIT */
/* stack_redis.c - a private Redis; see stack.h. */
#include "load/base/clock.h"
#include "load/base/net.h"
#include "load/stack/stack.h"
#include "load/witness/witness_tally.h"

#include <hiredis/hiredis.h>

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

enum { START_LIMIT_MS = 10000, STOP_LIMIT_MS = 5000, START_TRIES = 5, ARGUMENTS_MAX = 48 };
static const struct timeval command_limit = {.tv_sec = 5};

static void forget_context(struct stack_redis *redis)
{
    if (redis->context != NULL)
        redisFree(redis->context);
    redis->context = NULL;
}

/* Over the Unix socket: it needs no port and tells at once whether anybody listens. */
static bool connect_context(struct stack_redis *redis)
{
    if (redis->context != NULL && redis->context->err == 0)
        return true;
    forget_context(redis);
    redis->context = redisConnectUnixWithTimeout(redis->socket_path, command_limit);
    if (redis->context == NULL || redis->context->err != 0)
        return false;
    return redisSetTimeout(redis->context, command_limit) == REDIS_OK;
}

struct redisReply *stack_redis_command(struct stack_redis *redis, const char *format, ...)
{
    va_list arguments;
    if (!connect_context(redis))
        return NULL;
    va_start(arguments, format);
    struct redisReply *reply = redisvCommand(redis->context, format, arguments);
    va_end(arguments);
    if (reply == NULL)
        forget_context(redis); /* after a timeout its next reply would be this one's */
    return reply;
}

/* With a password in the arguments the answer is an error, which is an answer, too; LOADING is not. */
static bool is_up(void *context)
{
    struct stack_redis *redis = context;
    struct redisReply *reply = stack_redis_command(redis, "PING");
    bool good = reply != NULL && (reply->type != REDIS_REPLY_ERROR || strncmp(reply->str, "LOADING", 7) != 0);
    if (reply != NULL)
        freeReplyObject(reply);
    return good;
}

/* The delay is what a primary waits for further replicas before it sends the first one its data. */
static bool launch(struct stack_redis *redis)
{
    char port[8], primary_port[8];
    snprintf(port, sizeof port, "%u", (unsigned)redis->port);
    snprintf(primary_port, sizeof primary_port, "%u", (unsigned)redis->primary_port);
    const char *argv[ARGUMENTS_MAX + 1] = {
        "redis-server",
        "--port",
        port,
        "--bind",
        "127.0.0.1",
        "--unixsocket",
        redis->socket_path,
        "--unixsocketperm",
        "777",
        "--save",
        "",
        "--appendonly",
        "no",
        "--dir",
        redis->folder,
        "--repl-diskless-sync-delay",
        "0",
    };
    size_t count = 0;
    while (argv[count] != NULL)
        count++;
    if (redis->primary_port != 0) {
        argv[count++] = "--replicaof";
        argv[count++] = "127.0.0.1";
        argv[count++] = primary_port;
    }
    for (size_t i = 0; redis->arguments != NULL && redis->arguments[i] != NULL && count < ARGUMENTS_MAX; i++)
        argv[count++] = redis->arguments[i];
    const struct proc_options options = {
        .argv = argv, .output_path = redis->log_path, .user = proc_plain_user()};
    redis->pid = proc_start_up(&options, is_up, redis, START_LIMIT_MS);
    return redis->pid > 0;
}

static bool complain(const struct stack_redis *redis)
{
    fprintf(stderr, "stack: Redis did not start; its log ends:\n");
    proc_show_tail(redis->log_path);
    return false;
}

static bool start(struct stack_redis *redis)
{
    if (!proc_folder("redis", proc_plain_user(), redis->folder))
        return false;
    snprintf(redis->socket_path, sizeof redis->socket_path, "%s/redis.sock", redis->folder);
    snprintf(redis->socket_url, sizeof redis->socket_url, "unix://%s", redis->socket_path);
    snprintf(redis->log_path, sizeof redis->log_path, "%s/log", redis->folder);
    for (int i = 0; i < START_TRIES; i++) { /* somebody may take the port first */
        redis->port = net_free_port();
        snprintf(redis->url, sizeof redis->url, "redis://127.0.0.1:%u/0", (unsigned)redis->port);
        if (launch(redis))
            return true;
    }
    return complain(redis);
}

bool stack_redis_start(struct stack_redis *redis, const char *const *arguments)
{
    *redis = (struct stack_redis){.arguments = arguments};
    return start(redis);
}

bool stack_redis_restart(struct stack_redis *redis)
{
    if (redis->pid > 0)
        proc_stop(&redis->pid, SIGTERM, STOP_LIMIT_MS);
    forget_context(redis);
    return launch(redis) || complain(redis);
}

void stack_redis_kill(struct stack_redis *redis)
{
    proc_kill_tree(&redis->pid);
    forget_context(redis);
}

void stack_redis_pause(struct stack_redis *redis)
{
    proc_signal_tree(redis->pid, SIGSTOP);
}

void stack_redis_resume(struct stack_redis *redis)
{
    proc_signal_tree(redis->pid, SIGCONT);
}

void stack_redis_stop(struct stack_redis *redis)
{
    forget_context(redis);
    proc_stop(&redis->pid, SIGTERM, STOP_LIMIT_MS);
    if (redis->folder[0] != '\0')
        proc_remove(redis->folder);
    *redis = (struct stack_redis){.pid = 0};
}

/* ---- a replica ---- */

/* A number of INFO replication by its name; "up" is 1. -1: there is none, or no answer. */
static long long replication_number(struct stack_redis *redis, const char *name)
{
    char wanted[64];
    long long number = -1;
    struct redisReply *reply = stack_redis_command(redis, "INFO replication");
    snprintf(wanted, sizeof wanted, "\n%s:", name);
    const char *found =
        reply != NULL && reply->type == REDIS_REPLY_STRING ? strstr(reply->str, wanted) : NULL;
    if (found != NULL) {
        const char *value = found + strlen(wanted);
        number = strncmp(value, "up\r", 3) == 0 ? 1 : strtoll(value, NULL, 10);
    }
    if (reply != NULL)
        freeReplyObject(reply);
    return number;
}

static bool wait_until_follows(struct stack_redis *replica)
{
    uint64_t end_us = clock_after_ms(START_LIMIT_MS);
    while (replication_number(replica, "master_link_status") != 1) {
        if (clock_us() >= end_us)
            return false;
        clock_pause_ms(2);
    }
    return true;
}

bool stack_redis_start_replica(struct stack_redis *replica, const struct stack_redis *primary)
{
    *replica = (struct stack_redis){.arguments = primary->arguments, .primary_port = primary->port};
    if (!start(replica))
        return false;
    if (wait_until_follows(replica))
        return true;
    fprintf(stderr, "stack: this Redis does not follow the one on port %u; its log ends:\n",
            (unsigned)primary->port);
    proc_show_tail(replica->log_path);
    return false;
}

bool stack_redis_wait_in_sync(struct stack_redis *replica, struct stack_redis *primary, uint32_t limit_ms)
{
    uint64_t end_us = clock_after_ms(limit_ms);
    long long wanted = replication_number(primary, "master_repl_offset");
    while (wanted >= 0 && replication_number(replica, "slave_repl_offset") < wanted) {
        if (clock_us() >= end_us)
            return false;
        clock_pause_ms(1);
    }
    return wanted >= 0;
}

bool stack_redis_promote(struct stack_redis *redis)
{
    struct redisReply *reply = stack_redis_command(redis, "REPLICAOF NO ONE");
    bool good = reply != NULL && reply->type == REDIS_REPLY_STATUS;
    if (!good)
        fprintf(stderr, "stack: REPLICAOF NO ONE: %s\n", reply != NULL ? reply->str : "no answer");
    else
        redis->primary_port = 0;
    if (reply != NULL)
        freeReplyObject(reply);
    return good;
}

/* ---- counting ---- */

uint64_t stack_redis_calls(struct stack_redis *redis, const char *command)
{
    struct witness_tally tally = {.count = 0};
    uint64_t calls = 0;
    struct redisReply *reply = stack_redis_command(redis, "INFO commandstats");
    if (reply != NULL && reply->type == REDIS_REPLY_STRING)
        witness_tally_read(&tally, reply->str);
    if (reply != NULL)
        freeReplyObject(reply);
    if (command != NULL)
        return witness_tally_get(&tally, command);
    for (size_t i = 0; i < tally.count; i++)
        calls += tally.at[i].calls;
    return calls - witness_tally_get(&tally, "info");
}
