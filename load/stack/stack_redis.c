/* SPDX-License-Identifier: MIT */
/* stack_redis.c - a private Redis; see stack.h. */
#include "app/common/redis_link.h"
#include "load/base/clock.h"
#include "load/base/net.h"
#include "load/stack/stack.h"
#include "load/witness/witness_redis.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { START_LIMIT_MS = 60000, STOP_LIMIT_MS = 5000, ARGUMENTS_MAX = 64, COMMAND_LIMIT_MS = 5000 };

static void forget_context(struct stack_redis *redis)
{
    redisFree(redis->context);
    redis->context = NULL;
}

/* A server that changes its role ends the connections it has: what is written to one of them raises SIGPIPE. */
static bool is_open(const struct redisContext *context)
{
    struct pollfd end = {.fd = context->fd, .events = POLLIN | POLLRDHUP};
    return context->err == 0 && poll(&end, 1, 0) == 0;
}

/* Over the Unix socket: it needs no port and tells at once whether anybody listens. */
static bool connect_context(struct stack_redis *redis)
{
    if (redis->context != NULL && is_open(redis->context))
        return true;
    forget_context(redis);
    redis->context = redis_link_to_path(redis->socket_path, COMMAND_LIMIT_MS);
    if (redis->context != NULL && redis->password != NULL)
        freeReplyObject(redisCommand(redis->context, "AUTH %s %s",
                                     redis->user != NULL ? redis->user : "default", redis->password));
    return redis->context != NULL;
}

static struct redisReply *command(struct stack_redis *redis, const char *format, va_list arguments)
{
    if (!connect_context(redis))
        return NULL;
    struct redisReply *reply = redisvCommand(redis->context, format, arguments);
    if (reply == NULL)
        forget_context(redis); /* after a timeout its next reply would be this one's */
    return reply;
}

struct redisReply *stack_redis_command(struct stack_redis *redis, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    struct redisReply *reply = command(redis, format, arguments);
    va_end(arguments);
    return reply;
}

struct redisReply *stack_redis_command_words(struct stack_redis *redis, const char *const *words,
                                             size_t count)
{
    if (!connect_context(redis))
        return NULL;
    struct redisReply *reply = redisCommandArgv(redis->context, (int)count, (const char **)words, NULL);
    if (reply == NULL)
        forget_context(redis);
    return reply;
}

bool stack_redis_done(const char *what, struct redisReply *reply)
{
    bool good = reply != NULL && reply->type != REDIS_REPLY_ERROR;
    if (!good)
        fprintf(stderr, "stack: %s: %s\n", what, reply != NULL ? reply->str : "no answer");
    freeReplyObject(reply);
    return good;
}

bool stack_redis_do(struct stack_redis *redis, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    struct redisReply *reply = command(redis, format, arguments);
    va_end(arguments);
    return stack_redis_done(format, reply);
}

long long stack_redis_number(struct stack_redis *redis, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    struct redisReply *reply = command(redis, format, arguments);
    va_end(arguments);
    const bool has_number = reply != NULL && reply->type == REDIS_REPLY_INTEGER;
    const long long number = has_number ? reply->integer : STACK_REDIS_NO_NUMBER;
    if (has_number)
        freeReplyObject(reply);
    else if (stack_redis_done(format, reply))
        fprintf(stderr, "stack: %s: no number\n", format);
    return number;
}

static const char *said_by(const struct redisReply *reply)
{
    if (reply == NULL)
        return "no answer";
    return reply->str != NULL ? reply->str : "no text";
}

static bool has_text(const struct redisReply *reply)
{
    return reply != NULL && (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS);
}

bool stack_redis_text(struct stack_redis *redis, char *text, size_t text_bytes, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    struct redisReply *reply = command(redis, format, arguments);
    va_end(arguments);
    const bool good = has_text(reply);
    snprintf(text, text_bytes, "%s", good ? reply->str : "");
    if (good)
        freeReplyObject(reply);
    else if (stack_redis_done(format, reply))
        fprintf(stderr, "stack: %s: no text\n", format);
    return good;
}

bool stack_redis_answers(struct stack_redis *redis, const char *wanted, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    struct redisReply *reply = command(redis, format, arguments);
    va_end(arguments);
    const bool good = has_text(reply) && strcmp(reply->str, wanted) == 0;
    if (!good)
        fprintf(stderr, "stack: %s: wanted %s, got %s\n", format, wanted, said_by(reply));
    freeReplyObject(reply);
    return good;
}

bool stack_redis_mentions(struct stack_redis *redis, const char *wanted, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    struct redisReply *reply = command(redis, format, arguments);
    va_end(arguments);
    const bool good = has_text(reply) && strstr(reply->str, wanted) != NULL;
    freeReplyObject(reply);
    return good;
}

long long stack_redis_info(struct stack_redis *redis, const char *section, const char *name)
{
    char wanted[64];
    long long number = -1;
    struct redisReply *reply = stack_redis_command(redis, "INFO %s", section);
    snprintf(wanted, sizeof wanted, "\n%s:", name);
    const char *found = has_text(reply) ? strstr(reply->str, wanted) : NULL;
    if (found != NULL)
        number = strtoll(found + strlen(wanted), NULL, 10);
    freeReplyObject(reply);
    return number;
}

bool stack_redis_version(struct stack_redis *redis, char *version, size_t version_bytes)
{
    static const char name[] = "\nredis_version:";
    struct redisReply *reply = stack_redis_command(redis, "INFO server");
    const char *found = has_text(reply) ? strstr(reply->str, name) : NULL;
    found = found != NULL ? found + sizeof name - 1 : "?";
    snprintf(version, version_bytes, "%.*s", (int)strcspn(found, "\r\n"), found);
    bool is_known = found[0] != '?';
    freeReplyObject(reply);
    return is_known;
}

bool stack_redis_is_since(struct stack_redis *redis, unsigned major, unsigned minor)
{
    char version[32];
    unsigned its_major = 0, its_minor = 0;
    return stack_redis_version(redis, version, sizeof version) &&
           sscanf(version, "%u.%u", &its_major, &its_minor) == 2 &&
           (its_major > major || (its_major == major && its_minor >= minor));
}

/* With a password in the arguments the answer is an error, which is an answer, too; LOADING is not. */
static bool is_up(void *context)
{
    struct stack_redis *redis = context;
    struct redisReply *reply = stack_redis_command(redis, "PING");
    bool good = reply != NULL && (reply->type != REDIS_REPLY_ERROR || strncmp(reply->str, "LOADING", 7) != 0);
    freeReplyObject(reply);
    return good;
}

struct words {
    const char *at[ARGUMENTS_MAX + 1];
    size_t count;
};

/* A list that ends with NULL, or NULL. */
static void add_words(struct words *words, const char *const *more)
{
    for (; more != NULL && *more != NULL && words->count < ARGUMENTS_MAX; more++)
        words->at[words->count++] = *more;
}

/* With a file of settings the primary stands there. The delay is what a primary waits for further replicas before it
 * sends the first one its data. */
static void describe(const struct stack_redis *redis, char ports[4][8], struct words *words)
{
    const uint16_t numbers[4] = {redis->port, redis->primary_port, redis->bus_port, redis->tls_port};
    for (size_t i = 0; i < 4; i++)
        snprintf(ports[i], 8, "%u", (unsigned)numbers[i]);
    const bool has_file = redis->settings_path[0] != '\0';
    const char *server = getenv("REDIS_SERVER"); /* make compat */
    add_words(words, (const char *const[]){server != NULL ? server : "redis-server",
                                           has_file ? redis->settings_path : NULL, NULL});
    add_words(words, redis->is_sentinel ? (const char *const[]){"--sentinel", NULL} : NULL);
    add_words(words, (const char *const[]){
                         "--port", ports[0], "--bind", redis->host, "--unixsocket", redis->socket_path,
                         "--unixsocketperm", "777", "--save", "", "--appendonly", "no", "--dir",
                         redis->folder, "--repl-diskless-sync-delay", "0", "--protected-mode", "no", NULL});
    if (redis->primary_port != 0 && !has_file)
        add_words(words, (const char *const[]){"--replicaof", redis->host, ports[1], NULL});
    if (redis->is_node)
        add_words(words, (const char *const[]){"--cluster-enabled", "yes", "--cluster-port", ports[2], NULL});
    if (redis->tls != NULL)
        add_words(words, (const char *const[]){"--tls-port", ports[3], NULL});
    add_words(words, redis->tls);
    add_words(words, redis->arguments);
}

static bool launch(struct stack_redis *redis)
{
    struct words words = {.count = 0};
    char ports[4][8];
    describe(redis, ports, &words);
    const struct proc_options options = {
        .argv = words.at, .output_path = redis->log_path, .user = proc_plain_user()};
    redis->pid = proc_start_up(&options, is_up, redis, START_LIMIT_MS);
    return redis->pid > 0;
}

static bool make_folder(struct stack_redis *redis)
{
    if (!private_begin("redis", proc_plain_user(), redis->folder, redis->log_path))
        return false;
    snprintf(redis->socket_path, sizeof redis->socket_path, "%s/redis.sock", redis->folder);
    snprintf(redis->socket_url, sizeof redis->socket_url, "unix://%s", redis->socket_path);
    return true;
}

static bool launch_anew(void *server)
{
    struct stack_redis *redis = server;
    redis->port = net_free_port();
    redis->tls_port = redis->tls != NULL ? net_free_port() : 0;
    redis->bus_port = redis->is_node ? net_free_port() : 0;
    snprintf(redis->url, sizeof redis->url, "redis://%s:%u/0", redis->host, (unsigned)redis->port);
    return launch(redis);
}

static bool start(struct stack_redis *redis)
{
    return private_launch(launch_anew, redis, "Redis", redis->log_path);
}

bool stack_redis_start(struct stack_redis *redis, const char *const *arguments)
{
    return stack_redis_start_as(redis, &(struct stack_redis_options){.arguments = arguments});
}

/* It belongs to us, and it is the server that writes it. */
static bool write_settings(struct stack_redis *redis, const char *settings)
{
    snprintf(redis->settings_path, sizeof redis->settings_path, "%s/settings", redis->folder);
    FILE *file = fopen(redis->settings_path, "we");
    bool good = file != NULL && fputs(settings, file) >= 0;
    good = file != NULL && fclose(file) == 0 && chmod(redis->settings_path, 0666) == 0 && good;
    if (!good)
        perror("stack: settings of Redis");
    return good;
}

bool stack_redis_start_as(struct stack_redis *redis, const struct stack_redis_options *options)
{
    *redis = (struct stack_redis){.host = options->host != NULL ? options->host : "127.0.0.1",
                                  .arguments = options->arguments,
                                  .tls = options->tls,
                                  .user = options->user,
                                  .password = options->password,
                                  .is_sentinel = options->is_sentinel,
                                  .is_node = options->is_node};
    if (options->settings != NULL || options->is_node)
        signal(SIGPIPE, SIG_IGN); /* it may end our connection at any time */
    return make_folder(redis) && (options->settings == NULL || write_settings(redis, options->settings)) &&
           start(redis);
}

bool stack_redis_restart(struct stack_redis *redis)
{
    if (redis->pid > 0)
        proc_stop(&redis->pid, SIGTERM, STOP_LIMIT_MS);
    forget_context(redis);
    redis->is_paused = false;
    return launch(redis) || private_complain("Redis", "did not start", redis->log_path);
}

void stack_redis_kill(struct stack_redis *redis)
{
    proc_kill_tree(&redis->pid);
    redis->is_paused = false;
    forget_context(redis);
}

void stack_redis_pause(struct stack_redis *redis)
{
    proc_pause(redis->pid);
    redis->is_paused = true;
}

void stack_redis_resume(struct stack_redis *redis)
{
    proc_resume(redis->pid);
    redis->is_paused = false;
}

bool stack_redis_runs(const struct stack_redis *redis)
{
    return redis->pid > 0 && !redis->is_paused;
}

uint16_t stack_redis_used_port(const struct stack_redis *redis)
{
    return redis->tls != NULL ? redis->tls_port : redis->port;
}

void stack_redis_stop(struct stack_redis *redis)
{
    forget_context(redis);
    private_end(&redis->pid, SIGTERM, STOP_LIMIT_MS, redis->folder);
    *redis = (struct stack_redis){.pid = 0};
}

/* ---- a replica ---- */

bool stack_redis_follows(struct stack_redis *replica, uint16_t port)
{
    return stack_redis_info(replica, "replication", "master_port") == port &&
           stack_redis_mentions(replica, "\nmaster_link_status:up\r", "INFO replication");
}

static bool wait_until_follows(struct stack_redis *replica)
{
    uint64_t end_us = clock_after_ms(START_LIMIT_MS);
    while (!stack_redis_follows(replica, replica->primary_port)) {
        if (clock_us() >= end_us)
            return false;
        clock_pause_ms(2);
    }
    return true;
}

bool stack_redis_start_replica(struct stack_redis *replica, const struct stack_redis *primary)
{
    *replica = (struct stack_redis){
        .host = primary->host, .arguments = primary->arguments, .primary_port = primary->port};
    if (!make_folder(replica) || !start(replica))
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
    long long wanted = stack_redis_info(primary, "replication", "master_repl_offset");
    while (wanted >= 0 && stack_redis_info(replica, "replication", "slave_repl_offset") < wanted) {
        if (clock_us() >= end_us)
            return false;
        clock_pause_ms(1);
    }
    return wanted >= 0;
}

bool stack_redis_promote(struct stack_redis *redis)
{
    bool good = stack_redis_do(redis, "REPLICAOF NO ONE");
    if (good)
        redis->primary_port = 0;
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
    freeReplyObject(reply);
    if (command != NULL)
        return witness_tally_get(&tally, command);
    for (size_t i = 0; i < tally.count; i++)
        calls += tally.at[i].calls;
    return calls - witness_tally_get(&tally, "info");
}
