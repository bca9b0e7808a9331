/* SPDX-License-Identifier: MIT */
/* redis_link.c - see redis_link.h. */
#include "app/common/redis_link.h"

#include <sys/time.h>

static bool is_done(struct redisReply *reply)
{
    const bool good = reply != NULL && reply->type != REDIS_REPLY_ERROR;

    freeReplyObject(reply);
    return good;
}

static bool log_in(struct redisContext *context, const struct redis_url *url)
{
    const char *user = url->user[0] != '\0' ? url->user : "default";

    return url->password[0] == '\0' || is_done(redisCommand(context, "AUTH %s %s", user, url->password));
}

static bool choose(struct redisContext *context, uint32_t database)
{
    return database == 0 || is_done(redisCommand(context, "SELECT %u", (unsigned)database));
}

/* NULL: it is of no use. */
static struct redisContext *limited(struct redisContext *context, struct timeval limit)
{
    if (context != NULL && context->err == 0 && redisSetTimeout(context, limit) == REDIS_OK)
        return context;
    redisFree(context);
    return NULL;
}

static struct timeval span(uint32_t ms)
{
    return (struct timeval){.tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * 1000};
}

struct redisContext *redis_link_to_port(uint16_t port, uint32_t limit_ms)
{
    return limited(redisConnectWithTimeout("127.0.0.1", port, span(limit_ms)), span(limit_ms));
}

struct redisContext *redis_link_to_path(const char *path, uint32_t limit_ms)
{
    return limited(redisConnectUnixWithTimeout(path, span(limit_ms)), span(limit_ms));
}

struct redisContext *redis_link_open(const struct redis_url *url, uint32_t limit_ms)
{
    struct redisContext *context =
        url->is_unix ? redis_link_to_path(url->host, limit_ms)
                     : limited(redisConnectWithTimeout(url->host, url->port, span(limit_ms)), span(limit_ms));

    if (context == NULL || (log_in(context, url) && choose(context, url->database)))
        return context;
    redisFree(context);
    return NULL;
}
