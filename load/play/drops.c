/* SPDX-License-Identifier: MIT */
/* drops.c - see drops.h. */
#include "load/play/drops.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- the key of a URL ---- */

/* The number that the text ends with. */
static bool number_at_end(const char *text, size_t bytes, uint32_t *number)
{
    size_t from = bytes;
    while (from > 0 && isdigit((unsigned char)text[from - 1]))
        from--;
    if (from == bytes || bytes - from > 9)
        return false;
    *number = (uint32_t)strtoul(text + from, NULL, 10);
    return true;
}

/* A URL that was asked for, up to its key, with which `path` begins; false: it does not, or has none. */
static bool key_of_asked(const struct work_url *url, const char *path, uint32_t *key)
{
    size_t bytes = url->keys != WORK_NO_KEY ? url->key_at : strlen(url->path);
    if (strncmp(path, url->path, bytes) != 0)
        return false;
    if (url->keys != WORK_NO_KEY)
        bytes += strspn(path + bytes, "0123456789");
    return strchr("/?&", path[bytes]) != NULL && number_at_end(path, bytes, key);
}

static bool key_of_post(const char *url, const struct work *work, uint32_t *key)
{
    const char *host = strstr(url, "://"), *first = strstr(url, "?key="), *later = strstr(url, "&key=");
    const char *named = first != NULL ? first : later;
    const char *path = host != NULL ? strchr(host + 3, '/') : url;
    if (named != NULL)
        return number_at_end(named, 1 + strcspn(named + 1, "&"), key);
    for (size_t i = 0; path != NULL && i < work->url_count; i++) {
        if (key_of_asked(&work->urls[i], path, key))
            return true;
    }
    return false;
}

/* ---- commands ---- */

static bool begins_like(const char *word, size_t bytes)
{
    static const char *const beginnings[] = {"flush", "purge", "invalidate", "expire", "evict"};
    static const char *const wholes[] = {"del", "unlink", "ban"};
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
        if (strncasecmp(word, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    }
    for (size_t i = 0; i < sizeof wholes / sizeof *wholes; i++) {
        if (strlen(wholes[i]) == bytes && strncasecmp(word, wholes[i], bytes) == 0)
            return true;
    }
    return false;
}

/* What a command does is known by its words alone. */
static bool command_drops(const char *command)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    for (const char *word = command + strcspn(command, letters); *word != '\0';
         word += strcspn(word, letters)) {
        size_t bytes = strspn(word, letters);
        if (begins_like(word, bytes))
            return true;
        word += bytes;
    }
    return false;
}

bool drops_values(const struct scenario_action *action, const struct work *work, struct result_drop *out)
{
    *out = (struct result_drop){.is_of_key = false};
    if (action->party == SCENARIO_REDIS)
        return action->verb == SCENARIO_FLUSH || action->verb == SCENARIO_KILL ||
               action->verb == SCENARIO_START || action->verb == SCENARIO_RESTART;
    if (action->party != SCENARIO_NOBODY)
        return false;
    if (action->verb == SCENARIO_RUN)
        return command_drops(action->argument);
    if (action->verb != SCENARIO_POST)
        return false;
    out->is_of_key = key_of_post(action->argument, work, &out->key);
    return true;
}
