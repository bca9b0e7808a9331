/* SPDX-License-Identifier: MIT */
/* shelf.c - see shelf.h. */
#include "load/ground/shelf.h"

#include "app/common/redis_link.h"
#include "load/base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT_MS = 100, AGAIN_MS = 1000 };

struct shelf {
    struct redis_url url;
    char name_space[40];
    redisContext *context; /* owned; NULL: not connected */
    uint64_t again_us;     /* not before */
};

struct shelf *shelf_open(const char *redis_url, const char *name_space)
{
    char why[REDIS_URL_WHY_BYTES];
    struct shelf *shelf = calloc(1, sizeof *shelf);
    if (shelf == NULL || !redis_url_parse(redis_url, &shelf->url, why)) {
        free(shelf);
        return NULL;
    }
    snprintf(shelf->name_space, sizeof shelf->name_space, "%s", name_space);
    return shelf;
}

static void hang_up(struct shelf *shelf)
{
    redisFree(shelf->context);
    shelf->context = NULL;
    shelf->again_us = clock_after_ms(AGAIN_MS);
}

static bool connect_now(struct shelf *shelf)
{
    if (shelf->context != NULL)
        return true;
    if (clock_us() < shelf->again_us)
        return false;
    shelf->context = redis_link_open(&shelf->url, LIMIT_MS);
    if (shelf->context == NULL)
        hang_up(shelf);
    return shelf->context != NULL;
}

/* A lease is "<uuid> <tag> <lease_ms> <host:pid> <since>". */
static bool read_lease(const char *text, struct shelf_lease *out)
{
    char holder[64];
    if (sscanf(text, "%*s %*s %" SCNu32 " %63s", &out->lease_ms, holder) != 2)
        return false;
    const char *colon = strrchr(holder, ':');
    out->pid = colon != NULL ? (pid_t)strtol(colon + 1, NULL, 10) : 0;
    return out->pid > 0;
}

bool shelf_look(struct shelf *shelf, const char *key, struct shelf_lease *out)
{
    static const char *const formats[] = {"GET csg1:{%s:%s}:l", "PTTL csg1:{%s:%s}:l"};
    redisReply *replies[2] = {NULL, NULL};
    if (shelf == NULL || !connect_now(shelf))
        return false;
    for (size_t i = 0; i < 2; i++)
        redisAppendCommand(shelf->context, formats[i], shelf->name_space, key);
    for (size_t i = 0; i < 2 && (i == 0 || replies[0] != NULL); i++) {
        void *reply = NULL;
        if (redisGetReply(shelf->context, &reply) == REDIS_OK)
            replies[i] = reply;
    }
    bool is_seen = replies[0] != NULL && replies[1] != NULL && replies[0]->type == REDIS_REPLY_STRING &&
                   replies[1]->type == REDIS_REPLY_INTEGER && replies[1]->integer > 0 &&
                   read_lease(replies[0]->str, out);
    if (is_seen)
        out->left_ms = (uint32_t)replies[1]->integer;
    if (replies[1] == NULL)
        hang_up(shelf);
    for (size_t i = 0; i < 2; i++) {
        freeReplyObject(replies[i]);
    }
    return is_seen;
}

bool shelf_drop(struct shelf *shelf, const char *key)
{
    if (shelf == NULL || !connect_now(shelf))
        return false;
    redisReply *reply = redisCommand(shelf->context, "DEL csg1:{%s:%s}:v csg1:{%s:%s}:e", shelf->name_space,
                                     key, shelf->name_space, key);
    bool dropped = reply != NULL && reply->type != REDIS_REPLY_ERROR;
    freeReplyObject(reply);
    if (!dropped)
        hang_up(shelf);
    return dropped;
}

void shelf_close(struct shelf **slot)
{
    struct shelf *shelf = *slot;
    *slot = NULL;
    if (shelf == NULL)
        return;
    hang_up(shelf);
    free(shelf);
}
