/* SPDX-License-Identifier: MIT */
/* lease.c - see lease.h. */
#include "load/ground/lease.h"

#include "load/base/clock.h"
#include "load/base/redis_url.h"

#include <hiredis/hiredis.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT_MS = 100, AGAIN_MS = 1000 };

struct lease_look_up {
    struct redis_url url;
    char name_space[40];
    redisContext *context; /* owned; NULL: not connected */
    uint64_t again_us;     /* not before */
};

struct lease_look_up *lease_open(const char *redis_url, const char *name_space)
{
    char why[REDIS_URL_WHY_BYTES];
    struct lease_look_up *leases = calloc(1, sizeof *leases);
    if (leases == NULL || !redis_url_parse(redis_url, &leases->url, why)) {
        free(leases);
        return NULL;
    }
    snprintf(leases->name_space, sizeof leases->name_space, "%s", name_space);
    return leases;
}

static void hang_up(struct lease_look_up *leases)
{
    if (leases->context != NULL)
        redisFree(leases->context);
    leases->context = NULL;
    leases->again_us = clock_after_ms(AGAIN_MS);
}

static bool command_went(struct lease_look_up *leases, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = redisvCommand(leases->context, format, arguments);
    va_end(arguments);
    bool went = reply != NULL && reply->type != REDIS_REPLY_ERROR;
    if (reply != NULL)
        freeReplyObject(reply);
    return went;
}

static bool log_in(struct lease_look_up *leases)
{
    const struct redis_url *url = &leases->url;
    bool went = true;
    if (url->password[0] != '\0')
        went = url->user[0] != '\0' ? command_went(leases, "AUTH %s %s", url->user, url->password)
                                    : command_went(leases, "AUTH %s", url->password);
    return went && (url->database == 0 || command_went(leases, "SELECT %u", (unsigned)url->database));
}

static bool connect_now(struct lease_look_up *leases)
{
    const struct timeval limit = {.tv_usec = LIMIT_MS * 1000};
    const struct redis_url *url = &leases->url;
    if (leases->context != NULL)
        return true;
    if (clock_us() < leases->again_us)
        return false;
    leases->context = url->is_unix ? redisConnectUnixWithTimeout(url->host, limit)
                                   : redisConnectWithTimeout(url->host, url->port, limit);
    if (leases->context != NULL && leases->context->err == 0 &&
        redisSetTimeout(leases->context, limit) == REDIS_OK && log_in(leases))
        return true;
    hang_up(leases);
    return false;
}

/* A lease is "<uuid> <tag> <lease_ms> <host:pid> <since>". */
static bool read_lease(const char *text, struct lease_seen *out)
{
    char holder[64];
    if (sscanf(text, "%*s %*s %" SCNu32 " %63s", &out->lease_ms, holder) != 2)
        return false;
    const char *colon = strrchr(holder, ':');
    out->pid = colon != NULL ? (pid_t)strtol(colon + 1, NULL, 10) : 0;
    return out->pid > 0;
}

bool lease_look(struct lease_look_up *leases, const char *key, struct lease_seen *out)
{
    static const char *const formats[] = {"GET csg1:{%s:%s}:l", "PTTL csg1:{%s:%s}:l"};
    redisReply *replies[2] = {NULL, NULL};
    if (leases == NULL || !connect_now(leases))
        return false;
    for (size_t i = 0; i < 2; i++)
        redisAppendCommand(leases->context, formats[i], leases->name_space, key);
    for (size_t i = 0; i < 2 && (i == 0 || replies[0] != NULL); i++) {
        void *reply = NULL;
        if (redisGetReply(leases->context, &reply) == REDIS_OK)
            replies[i] = reply;
    }
    bool is_seen = replies[0] != NULL && replies[1] != NULL && replies[0]->type == REDIS_REPLY_STRING &&
                   replies[1]->type == REDIS_REPLY_INTEGER && replies[1]->integer > 0 &&
                   read_lease(replies[0]->str, out);
    if (is_seen)
        out->left_ms = (uint32_t)replies[1]->integer;
    if (replies[1] == NULL)
        hang_up(leases);
    for (size_t i = 0; i < 2; i++) {
        if (replies[i] != NULL)
            freeReplyObject(replies[i]);
    }
    return is_seen;
}

void lease_close(struct lease_look_up **slot)
{
    struct lease_look_up *leases = *slot;
    *slot = NULL;
    if (leases == NULL)
        return;
    hang_up(leases);
    free(leases);
}
