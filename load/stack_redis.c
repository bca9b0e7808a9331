/* SPDX-License-Identifier: MIT */
/* stack_redis.c - a private Redis; see stack.h. */
#include "load/net.h"
#include "load/stack.h"

#include <hiredis/hiredis.h>

#include <inttypes.h>
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
static bool answers(struct stack_redis *redis)
{
    struct redisReply *reply = stack_redis_command(redis, "PING");
    bool is_up =
        reply != NULL && (reply->type != REDIS_REPLY_ERROR || strncmp(reply->str, "LOADING", 7) != 0);
    if (reply != NULL)
        freeReplyObject(reply);
    return is_up;
}

static bool wait_until_up(struct stack_redis *redis)
{
    uint64_t end_us = net_now_us() + (uint64_t)START_LIMIT_MS * 1000;
    while (net_now_us() < end_us) {
        if (answers(redis))
            return true;
        if (proc_wait(redis->pid, 2, NULL)) {
            redis->pid = 0;
            return false;
        }
    }
    return false;
}

static bool launch(struct stack_redis *redis)
{
    char port[8];
    snprintf(port, sizeof port, "%u", (unsigned)redis->port);
    const char *argv[ARGUMENTS_MAX + 1] = {
        "redis-server",     "--port", port,     "--bind", "127.0.0.1",    "--unixsocket", redis->socket_path,
        "--unixsocketperm", "777",    "--save", "",       "--appendonly", "no",           "--dir",
        redis->folder,
    };
    size_t count = 0;
    while (argv[count] != NULL)
        count++;
    for (size_t i = 0; redis->arguments != NULL && redis->arguments[i] != NULL && count < ARGUMENTS_MAX; i++)
        argv[count++] = redis->arguments[i];
    const struct proc_options options = {
        .argv = argv, .output_path = redis->log_path, .user = proc_plain_user()};
    redis->pid = proc_start(&options);
    if (redis->pid > 0 && wait_until_up(redis))
        return true;
    if (redis->pid > 0)
        proc_kill_tree(&redis->pid);
    redis->pid = 0;
    return false;
}

static bool complain(const struct stack_redis *redis)
{
    fprintf(stderr, "stack: Redis did not start; its log ends:\n");
    proc_show_tail(redis->log_path);
    return false;
}

bool stack_redis_start(struct stack_redis *redis, const char *const *arguments)
{
    *redis = (struct stack_redis){.arguments = arguments};
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

/* Sums "cmdstat_NAME:calls=N," over the lines wanted. */
static uint64_t sum_calls(const char *info, const char *command)
{
    uint64_t sum = 0, calls;
    char name[64];
    for (const char *line = info; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (sscanf(line, "cmdstat_%63[^:]:calls=%" SCNu64, name, &calls) != 2)
            continue;
        if (command != NULL ? strcasecmp(name, command) == 0 : strcmp(name, "info") != 0)
            sum += calls;
    }
    return sum;
}

uint64_t stack_redis_calls(struct stack_redis *redis, const char *command)
{
    struct redisReply *reply = stack_redis_command(redis, "INFO commandstats");
    uint64_t calls = reply != NULL && reply->type == REDIS_REPLY_STRING ? sum_calls(reply->str, command) : 0;
    if (reply != NULL)
        freeReplyObject(reply);
    return calls;
}
