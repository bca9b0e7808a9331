/* SPDX-License-Identifier: MIT */
/* redis/server.c - see redis/server.h. */
#include "server.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OWN_NAME_SIZE = 24, VERSION_SIZE = 32, FIELD_SIZE = 32 };

/* ---- by its own words ---- */

/* A server's word goes to the log: letters, digits and what a version has. "": INFO has no such line. */
static void read_info_field(const char *info, const char *name, char *out, size_t size)
{
    char line[FIELD_SIZE];
    size_t used = 0;
    snprintf(line, sizeof line, "\n%s:", name);
    const char *at = strstr(info, line);
    for (at = at != NULL ? at + strlen(line) : ""; used + 1 < size; at++) {
        bool plain = (*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
                     (*at != '\0' && strchr(".-_+", *at) != NULL);
        if (!plain)
            break;
        out[used++] = *at;
    }
    out[used] = '\0';
}

/* What is no number is not. */
static bool is_version_before(const char *version, unsigned long major, unsigned long minor)
{
    char *rest = NULL;
    unsigned long is_major = strtoul(version, &rest, 10);
    unsigned long is_minor = *rest == '.' ? strtoul(rest + 1, NULL, 10) : 0;
    return rest != version && (is_major < major || (is_major == major && is_minor < minor));
}

void redis_server_read(struct redis_server *server, const char *info)
{
    char name[OWN_NAME_SIZE], version[VERSION_SIZE], compatible[VERSION_SIZE];
    *server = (struct redis_server){.too_old = false};
    read_info_field(info, "server_name", name, sizeof name);
    read_info_field(info, "valkey_version", version, sizeof version);
    read_info_field(info, "redis_version", compatible, sizeof compatible);
    if (compatible[0] == '\0')
        return;
    bool is_valkey = version[0] != '\0';
    snprintf(server->name, sizeof server->name, "%s %s",
             name[0] != '\0' ? name
             : is_valkey     ? "valkey"
                             : "redis",
             is_valkey ? version : compatible);
    server->too_old = is_version_before(compatible, 6, 0);
    server->no_getex = is_version_before(compatible, 6, 2);
}

/* ---- another protocol ---- */

static const struct stranger {
    const char *begins;
    size_t bytes;
    const char *is;
} strangers[] = {
    {"HTTP/", 5, "this is an HTTP server, not Redis: correct host and port in the URL"},
    {"<", 1, "this is an HTTP server, not Redis: correct host and port in the URL"},
    {"ERROR\r\n", 7, "this is memcached, not Redis: correct host and port in the URL"},
    {"SSH-", 4, "this is an SSH server, not Redis: correct host and port in the URL"},
};

const char *redis_server_stranger(const char *bytes, size_t count)
{
    static const char types[] = "+-:$*_,#%~|>(=!"; /* of RESP3, too: the reader refuses those by name */
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++)
        if (count >= strangers[i].bytes && memcmp(bytes, strangers[i].begins, strangers[i].bytes) == 0)
            return strangers[i].is;
    return count > 0 && memchr(types, bytes[0], sizeof types - 1) == NULL
               ? "this does not speak the protocol of Redis: correct host and port in the URL"
               : NULL;
}

/* ---- said once ---- */

void redis_news_init(struct redis_news *news)
{
    pthread_mutex_init(&news->mutex, NULL);
    news->said[0] = '\0';
}

void redis_news_clear(struct redis_news *news)
{
    pthread_mutex_destroy(&news->mutex);
}

bool redis_news_take(struct redis_news *news, const char *text)
{
    if (news == NULL || text[0] == '\0')
        return false;
    pthread_mutex_lock(&news->mutex);
    bool is_news = strcmp(news->said, text) != 0;
    if (is_news)
        snprintf(news->said, sizeof news->said, "%s", text);
    pthread_mutex_unlock(&news->mutex);
    return is_news;
}
