/* SPDX-License-Identifier: MIT */
/* redis_link.c - see redis_link.h. */
#include "app/common/redis_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/un.h>

enum { DEFAULT_PORT = 6379, DATABASE_MAX = 65535 };

/* ---- its URL ---- */

/* A part of it; not NUL-terminated. */
struct part {
    const char *at;
    size_t bytes;
};

static bool refuse(char *why, const char *text)
{
    snprintf(why, REDIS_URL_WHY_BYTES, "Redis: %s", text);
    return false;
}

static int hex_value(char c)
{
    const char *digits = "0123456789abcdef", *found = strchr(digits, c | 0x20);
    if (c >= '0' && c <= '9')
        return c - '0';
    return c != '\0' && found != NULL && *found >= 'a' ? (int)(found - digits) : -1;
}

/* False: a bad escape, a NUL, or no room. */
static bool decode(struct part part, char *out, size_t room)
{
    size_t count = 0;
    for (size_t i = 0; i < part.bytes; i++) {
        int c = (unsigned char)part.at[i];
        if (c == '%') {
            int high = i + 2 < part.bytes ? hex_value(part.at[i + 1]) : -1;
            int low = i + 2 < part.bytes ? hex_value(part.at[i + 2]) : -1;
            c = high >= 0 && low >= 0 ? high * 16 + low : 0;
            i += 2;
        }
        if (c == 0 || count + 1 >= room)
            return false;
        out[count++] = (char)c;
    }
    out[count] = '\0';
    return true;
}

static bool number(struct part part, uint32_t most, uint32_t *out)
{
    uint32_t value = 0;
    if (part.bytes == 0 || part.bytes > 9)
        return false;
    for (size_t i = 0; i < part.bytes; i++) {
        if (part.at[i] < '0' || part.at[i] > '9')
            return false;
        value = value * 10 + (uint32_t)(part.at[i] - '0');
    }
    *out = value;
    return value <= most;
}

/* Cuts off what stands before the mark, and the mark. False: it is not there, and nothing changes. */
static bool split(struct part *rest, const char *mark, struct part *before)
{
    if (mark == NULL)
        return false;
    *before = (struct part){rest->at, (size_t)(mark - rest->at)};
    rest->bytes -= before->bytes + 1;
    rest->at = mark + 1;
    return true;
}

/* [[user]:password@] */
static bool take_login(struct part *authority, struct redis_url *out, char *why)
{
    struct part login, user = {.bytes = 0};
    if (!split(authority, memrchr(authority->at, '@', authority->bytes), &login))
        return true;
    if (!split(&login, memchr(login.at, ':', login.bytes), &user))
        return refuse(why, "before the @ must stand user:password or :password");
    if (!decode(user, out->user, sizeof out->user) || !decode(login, out->password, sizeof out->password))
        return refuse(why, "the user or the password is too long or has a bad %-escape");
    return true;
}

static bool take_host(struct part authority, struct redis_url *out, char *why)
{
    uint32_t port = DEFAULT_PORT;
    struct part host = authority;
    bool in_brackets = authority.bytes > 0 && authority.at[0] == '[';
    const char *bracket = in_brackets ? memchr(authority.at, ']', authority.bytes) : NULL;
    if (in_brackets && bracket == NULL)
        return refuse(why, "the ] after the address is missing");
    const char *from = bracket != NULL ? bracket : authority.at;
    const char *colon = memchr(from, ':', authority.bytes - (size_t)(from - authority.at));
    if (colon != NULL) {
        host.bytes = (size_t)(colon - authority.at);
        struct part digits = {colon + 1, authority.bytes - host.bytes - 1};
        if (!number(digits, UINT16_MAX, &port) || port == 0)
            return refuse(why, "the port must be a number from 1 to 65535");
    }
    if (bracket != NULL)
        host = (struct part){authority.at + 1, (size_t)(bracket - authority.at) - 1};
    if (host.bytes == 0 || host.bytes >= sizeof out->host || memchr(host.at, '%', host.bytes) != NULL)
        return refuse(why, "a host must be given: redis://host:6379/0");
    memcpy(out->host, host.at, host.bytes);
    out->port = (uint16_t)port;
    return true;
}

static bool parse_tcp(struct part rest, struct redis_url *out, char *why)
{
    struct part authority, database = {.bytes = 0};
    if (split(&rest, memchr(rest.at, '/', rest.bytes), &authority))
        database = rest;
    else
        authority = rest;
    if (!take_login(&authority, out, why) || !take_host(authority, out, why))
        return false;
    return database.bytes == 0 || number(database, DATABASE_MAX, &out->database) ||
           refuse(why, "behind the / only the number of a database may stand");
}

static bool parse_unix(struct part rest, struct redis_url *out, char *why)
{
    const char *slash = memchr(rest.at, '/', rest.bytes);
    if (slash == NULL)
        return refuse(why, "unix:// needs the absolute path of a socket");
    struct part login = {rest.at, (size_t)(slash - rest.at)};
    struct part path = {slash, rest.bytes - login.bytes}, query = path;
    if (!take_login(&login, out, why))
        return false;
    if (login.bytes > 0)
        return refuse(why, "between unix:// and the path only user:password@ may stand");
    if (split(&query, memchr(query.at, '?', query.bytes), &path) &&
        (query.bytes < 3 || memcmp(query.at, "db=", 3) != 0 ||
         !number((struct part){query.at + 3, query.bytes - 3}, DATABASE_MAX, &out->database)))
        return refuse(why, "behind the socket's path only ?db=NUMBER may stand");
    out->is_unix = true;
    return decode(path, out->host, sizeof((struct sockaddr_un *)NULL)->sun_path) ||
           refuse(why, "the socket's path is too long or has a bad %-escape");
}

bool redis_url_parse(const char *url, struct redis_url *out, char why[static REDIS_URL_WHY_BYTES])
{
    static const char tcp[] = "redis://", local[] = "unix://", tls[] = "rediss://";
    *out = (struct redis_url){.is_unix = false};
    if (strncmp(url, tcp, sizeof tcp - 1) == 0)
        return parse_tcp((struct part){url + sizeof tcp - 1, strlen(url) - (sizeof tcp - 1)}, out, why);
    if (strncmp(url, local, sizeof local - 1) == 0)
        return parse_unix((struct part){url + sizeof local - 1, strlen(url) - (sizeof local - 1)}, out, why);
    if (strncmp(url, tls, sizeof tls - 1) == 0)
        return refuse(why, "rediss:// (TLS) is not spoken here");
    return refuse(why, "its URL must begin with redis:// or unix://");
}

/* ---- connecting ---- */

static bool is_done(struct redisReply *reply)
{
    const bool good = reply != NULL && reply->type != REDIS_REPLY_ERROR;

    freeReplyObject(reply);
    return good;
}

static bool log_in(struct redisContext *context, const struct redis_url *url)
{
    const char *user = url->user[0] != '\0' ? url->user : "default";
    return (url->password[0] == '\0' || is_done(redisCommand(context, "AUTH %s %s", user, url->password))) &&
           (url->database == 0 || is_done(redisCommand(context, "SELECT %u", (unsigned)url->database)));
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

    if (context == NULL || log_in(context, url))
        return context;
    redisFree(context);
    return NULL;
}
