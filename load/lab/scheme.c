/* SPDX-License-Identifier: MIT */
/* scheme.c - what schemes are made of; see scheme.h. */
#include "load/lab/scheme.h"

#include "app/common/redis_link.h"
#include "load/base/clock.h"
#include "load/lab/note.h"
#include "load/lab/source.h"

#include <hiredis/hiredis.h>

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/time.h>

extern const struct scheme schemes_plain[], schemes_redisson[], schemes_guard[], schemes_redlock[],
    schemes_advisory[], schemes_zookeeper[], schemes_ours[];

const struct scheme *scheme_at(size_t index)
{
    const struct scheme *const tables[] = {schemes_plain,   schemes_redisson, schemes_guard,
                                           schemes_redlock, schemes_advisory, schemes_zookeeper,
                                           schemes_ours};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        for (const struct scheme *scheme = tables[i]; scheme->name != NULL; scheme++) {
            if (index-- == 0)
                return scheme;
        }
    }
    return NULL;
}

const struct lab_group_name lab_groups[] = {
    {GROUP_CACHE, "cache", "one process loads a missing value"},
    {GROUP_LOCK, "lock", "one process at a time"},
    {GROUP_FAIR, "queue", "first come, first served"},
    {GROUP_RW, "rw", "readers beside each other, writers alone"},
    {GROUP_PERMITS, "permits", "so many at a time"},
    {GROUP_REDLOCK, "masters", "a majority of independent Redis masters"},
    {GROUP_ADVISORY, "advisory", "session locks of PostgreSQL"},
    {GROUP_ZOOKEEPER, "ensemble", "ephemeral nodes of ZooKeeper"},
    {GROUP_CROWD, "crowd", "a thousand wait for one name"},
    {GROUP_CACHE, NULL, NULL},
};

enum { RECONNECT_PAUSE_MS = 2, COMMAND_LIMIT_MS = 5000, BODY_BYTES = 128 };
static const char version_mark[] = "version=";

static void join(char name[LAB_NAME_BYTES], const char *prefix, const char *key, const char *suffix)
{
    snprintf(name, LAB_NAME_BYTES, "%s%s%s", prefix != NULL ? prefix : "", key, suffix != NULL ? suffix : "");
}

const char *lab_label(const struct scheme *scheme)
{
    return scheme->label != NULL ? scheme->label : scheme->name;
}

void lab_names(const struct scheme *scheme, const char *key, char value_name[static LAB_NAME_BYTES],
               char lock_name[static LAB_NAME_BYTES])
{
    join(value_name, scheme->value_prefix, key, scheme->value_suffix);
    join(lock_name, scheme->lock_prefix != NULL ? scheme->lock_prefix : "lock:", key, scheme->lock_suffix);
}

void lab_body(const char *key, int32_t version, char *body, size_t body_bytes)
{
    snprintf(body, body_bytes, "%s %s%" PRId32, key, version_mark, version);
}

int32_t lab_body_version(const char *bytes, size_t count)
{
    const char *mark = memmem(bytes, count, version_mark, strlen(version_mark));
    int32_t version = LAB_FAILED;
    if (mark == NULL)
        return LAB_FAILED;
    for (const char *digit = mark + strlen(version_mark);
         digit < bytes + count && *digit >= '0' && *digit <= '9'; digit++)
        version = version * 10 + (*digit - '0');
    return version;
}

/* ---- telling, and stopping ---- */

void lab_took(const struct lab_client *client)
{
    note_send(client->link, NOTE_HELD, client->mode == MODE_SHARED ? 1 : LAB_ALL);
}

void lab_gave(const struct lab_client *client)
{
    note_send(client->link, NOTE_RELEASED, 0);
}

void lab_lost(const struct lab_client *client)
{
    note_send(client->link, NOTE_LOST, 0);
}

void lab_step(struct lab_client *client, enum lab_step step)
{
    if (client->stop_at != step)
        return;
    client->stop_at = STEP_NONE;
    note_send(client->link, NOTE_STOPPED, (int32_t)step);
    raise(SIGSTOP);
}

/* ---- Redis ---- */

struct redisContext *lab_redis_open(const struct lab_client *client)
{
    return redis_link_to_port(client->redis_port, COMMAND_LIMIT_MS);
}

/* The controller must know which of Redis's clients we are. */
static void tell_address(const struct lab_client *client)
{
    struct sockaddr_in address;
    socklen_t bytes = sizeof address;
    if (getsockname(client->redis->fd, (struct sockaddr *)&address, &bytes) == 0)
        note_send(client->link, NOTE_ADDRESS, ntohs(address.sin_port));
}

static void reconnect(struct lab_client *client, uint64_t end_us)
{
    redisFree(client->redis);
    while ((client->redis = lab_redis_open(client)) == NULL) {
        if (clock_us() >= end_us) {
            fprintf(stderr, "lab: no Redis on port %u for %d ms\n", (unsigned)client->redis_port,
                    (int)RECONNECT_LIMIT_MS);
            exit(1);
        }
        clock_pause_ms(RECONNECT_PAUSE_MS);
    }
    tell_address(client);
}

static struct redisReply *command(struct lab_client *client, const char *format, va_list arguments)
{
    const uint64_t end_us = clock_after_ms(RECONNECT_LIMIT_MS);
    struct redisReply *reply = NULL;
    while (reply == NULL) {
        va_list again;
        if (client->redis == NULL || client->redis->err != 0)
            reconnect(client, end_us);
        va_copy(again, arguments);
        reply = redisvCommand(client->redis, format, again);
        va_end(again);
    }
    if (reply->type == REDIS_REPLY_ERROR) {
        fprintf(stderr, "lab: %s: Redis answers: %s\n", format, reply->str);
        exit(1);
    }
    return reply;
}

struct redisReply *lab_command(struct lab_client *client, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    struct redisReply *reply = command(client, format, arguments);
    va_end(arguments);
    return reply;
}

long long lab_integer(struct lab_client *client, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    struct redisReply *reply = command(client, format, arguments);
    va_end(arguments);
    long long number = reply->integer;
    freeReplyObject(reply);
    return number;
}

bool lab_ok(struct lab_client *client, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    struct redisReply *reply = command(client, format, arguments);
    va_end(arguments);
    bool is_ok = reply->type == REDIS_REPLY_STATUS;
    freeReplyObject(reply);
    return is_ok;
}

void lab_token(struct lab_client *client)
{
    uint16_t part[8];
    if (getrandom(part, sizeof part, 0) != (ssize_t)sizeof part) {
        fprintf(stderr, "lab: getrandom failed\n");
        exit(1);
    }
    snprintf(client->token, sizeof client->token, "%04x%04x-%04x-4%03x-%04x-%04x%04x%04x", part[0], part[1],
             part[2], part[3] & 0xfffU, (part[4] & 0x3fffU) | 0x8000U, part[5], part[6], part[7]);
}

uint32_t lab_lease_ms(const struct lab_client *client)
{
    return client->fixed_lease_ms > 0 ? client->fixed_lease_ms : client->lease_s * 1000;
}

/* ---- renewing ---- */

static void *run_renewer(void *context)
{
    struct lab_renewer *renewer = context;
    pthread_mutex_lock(&renewer->mutex);
    while (!renewer->is_closing) {
        if (renewer->due_us == 0)
            pthread_cond_wait(&renewer->changed, &renewer->mutex);
        else if (clock_us() < renewer->due_us)
            clock_wait(&renewer->changed, &renewer->mutex, renewer->due_us);
        else
            renewer->renew(renewer->client);
    }
    pthread_mutex_unlock(&renewer->mutex);
    return NULL;
}

bool lab_renewer_open(struct lab_renewer *renewer, struct lab_client *client,
                      void (*renew)(struct lab_client *client))
{
    *renewer = (struct lab_renewer){.client = client, .renew = renew};
    pthread_mutex_init(&renewer->mutex, NULL);
    pthread_cond_init(&renewer->changed, NULL);
    return pthread_create(&renewer->thread, NULL, run_renewer, renewer) == 0;
}

static void tell(struct lab_renewer *renewer, uint64_t due_us, bool is_closing)
{
    pthread_mutex_lock(&renewer->mutex);
    renewer->due_us = due_us;
    renewer->is_closing = is_closing;
    pthread_cond_signal(&renewer->changed);
    pthread_mutex_unlock(&renewer->mutex);
}

void lab_renewer_set(struct lab_renewer *renewer, uint64_t due_us)
{
    tell(renewer, due_us, false);
}

void lab_renewer_close(struct lab_renewer *renewer)
{
    tell(renewer, 0, true);
    pthread_join(renewer->thread, NULL);
    pthread_cond_destroy(&renewer->changed);
    pthread_mutex_destroy(&renewer->mutex);
}

/* ---- the work under a lock ---- */

/* A fence that the row has seen overtaken is as good as a refused write: the section is not even begun. */
static int32_t run_section(struct lab_client *client)
{
    lab_step(client, STEP_HELD);
    const bool is_first = client->fence == 0 || source_claim(client->postgres, client->key, client->fence);
    const int32_t version = lab_load(client);
    if (client->mode == MODE_SHARED || (client->scheme->is_lost != NULL && client->scheme->is_lost(client)))
        return version;
    lab_step(client, STEP_LOADED);
    const bool is_written =
        is_first && source_store(client->postgres, client->key, version + 1, client->fence);
    note_send(client->link, NOTE_WROTE, is_written);
    return version + is_written;
}

static bool acquire(struct lab_client *client)
{
    const struct scheme *scheme = client->scheme;
    const uint64_t end_us = clock_after_ms(LAB_REQUEST_LIMIT_MS);
    while (!scheme->acquire(client)) {
        if (scheme->poll_ms == 0 || clock_us() >= end_us)
            return false;
        clock_pause_ms(scheme->poll_ms);
    }
    return true;
}

int32_t lab_get_locked(struct lab_client *client)
{
    client->is_refused = false;
    client->fence = 0;
    if (!acquire(client))
        return client->is_refused ? LAB_REFUSED : LAB_FAILED;
    lab_took(client);
    const int32_t version = run_section(client);
    lab_gave(client);
    lab_step(client, STEP_RELEASING);
    client->scheme->release(client);
    return version;
}

/* ---- the usual request for a cached value ---- */

int32_t lab_look(struct lab_client *client)
{
    struct redisReply *reply = lab_command(client, "GET %s", client->value_name);
    int32_t version =
        reply->type == REDIS_REPLY_STRING ? lab_body_version(reply->str, reply->len) : LAB_FAILED;
    freeReplyObject(reply);
    return version;
}

int32_t lab_load(struct lab_client *client)
{
    int32_t version = source_load(client->postgres, client->key, client->index);
    if (version == LAB_FAILED)
        exit(1);
    return version;
}

int32_t lab_load_and_fill(struct lab_client *client)
{
    char body[BODY_BYTES];
    lab_step(client, STEP_HELD);
    int32_t version = lab_load(client);
    lab_step(client, STEP_LOADED);
    lab_body(client->key, version, body, sizeof body);
    lab_ok(client, "SET %s %s EX %d", client->value_name, body, (int)LAB_VALUE_S);
    return version;
}

int32_t lab_get_polling(struct lab_client *client)
{
    const uint64_t end_us = clock_after_ms(LAB_REQUEST_LIMIT_MS);
    for (; clock_us() < end_us; clock_pause_ms(client->scheme->poll_ms)) {
        int32_t version = lab_look(client);
        if (version != LAB_FAILED)
            return version;
        lab_step(client, STEP_LOOKED);
        if (!client->scheme->acquire(client))
            continue;
        lab_took(client);
        version = lab_load_and_fill(client);
        lab_gave(client);
        if (client->scheme->release != NULL)
            client->scheme->release(client);
        return version;
    }
    return LAB_FAILED;
}
