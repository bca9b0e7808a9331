/* SPDX-License-Identifier: MIT */
/* epochs.c - see epochs.h. */
#include "epochs.h"
#include "../base/digest.h"
#include <string.h>

/* ---- what is asked for ---- */

/* Only what is set: the rest is written before it is read. */
void epochs_begin(struct epochs *epochs)
{
    epochs->count = 0;
    epochs->names_bytes = 0;
    epochs->head_bytes = 0;
    epochs->awaited = 0;
    memset(epochs->places, 0, sizeof epochs->places);
}

static const char *epochs_name(const struct epochs *epochs, size_t index, size_t *bytes)
{
    size_t begin = index > 0 ? epochs->ends[index - 1] : 0;
    *bytes = epochs->ends[index] - begin;
    return epochs->names + begin;
}

/* A name ends with its tag, and all begin alike. */
static bool epochs_is_of(const struct epochs *epochs, size_t index, const struct tag *tag)
{
    size_t bytes, head_bytes = epochs->head_bytes;
    const char *name = epochs_name(epochs, index, &bytes);
    return bytes == head_bytes + tag->bytes && memcmp(name + head_bytes, tag->at, tag->bytes) == 0;
}

/* Where it is, or would be. Half of the places are free. */
static uint8_t *epochs_place(struct epochs *epochs, const struct tag *tag)
{
    enum { PLACES = sizeof epochs->places };
    uint8_t *place = &epochs->places[digest_checksum(tag->at, tag->bytes) % PLACES];
    while (*place != 0 && !epochs_is_of(epochs, *place - 1u, tag))
        place = place + 1 < epochs->places + PLACES ? place + 1 : epochs->places;
    return place;
}

int epochs_add(struct epochs *epochs, const char *name_space, const struct tag *tag)
{
    uint8_t *place = epochs_place(epochs, tag);
    if (*place != 0)
        return *place - 1;
    if (epochs->count == EPOCHS_MAX || sizeof epochs->names - epochs->names_bytes < KEY_NAME_SIZE)
        return -1;
    size_t bytes = key_tag(name_space, tag->at, tag->bytes, epochs->names + epochs->names_bytes);
    epochs->head_bytes = bytes - tag->bytes;
    epochs->names_bytes += bytes;
    epochs->ends[epochs->count++] = epochs->names_bytes;
    *place = (uint8_t)epochs->count;
    return (int)epochs->count - 1;
}

/* Nil, an error or anything else is no epoch. */
static struct tags_clock epoch_of(const struct redisReply *reply)
{
    struct tags_clock epoch = {0, 0};
    if (reply->type == REDIS_REPLY_STRING)
        tags_clock_read(reply->str, reply->len, &epoch);
    return epoch;
}

/* ---- one command ---- */

/* What is no list of as many says of none of them that it has an epoch. */
static void on_all_epochs(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct epochs *epochs = context;
    bool known = outcome == REDIS_REPLIED;
    bool is_list = known && reply->type == REDIS_REPLY_ARRAY && reply->elements == epochs->count;
    for (size_t i = 0; i < epochs->count; i++) {
        epochs->known[i] = known;
        epochs->of[i] = is_list ? epoch_of(reply->element[i]) : (struct tags_clock){0, 0};
    }
    epochs->answered(epochs->context);
}

static bool ask_for_all_at_once(struct epochs *epochs, struct redis *redis)
{
    const char *argv[1 + EPOCHS_MAX];
    size_t argv_bytes[1 + EPOCHS_MAX];
    if (!redis_is_up(redis))
        return false;
    argv[0] = "MGET";
    argv_bytes[0] = 4;
    for (size_t i = 0; i < epochs->count; i++)
        argv[1 + i] = epochs_name(epochs, i, &argv_bytes[1 + i]);
    return redis_send(redis, 1 + epochs->count, argv, argv_bytes, on_all_epochs, epochs);
}

/* ---- one command for each ---- */

static void on_one_epoch(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct epochs_part *part = context;
    struct epochs *epochs = part->epochs;
    size_t index = (size_t)(part - epochs->parts);
    /* What stands there is no epoch, and of another type than one: as if there were none. */
    epochs->known[index] =
        outcome == REDIS_REPLIED && (reply->type != REDIS_REPLY_ERROR ||
                                     redis_error_classify(reply->str, reply->len) == REDIS_ERROR_OTHER);
    if (epochs->known[index])
        epochs->of[index] = epoch_of(reply);
    if (--epochs->awaited == 0)
        epochs->answered(epochs->context);
}

static bool ask_for_each(struct epochs *epochs, struct redis *redis)
{
    size_t bytes;
    const char *name = epochs_name(epochs, 0, &bytes);
    if (!redis_may_look_up(redis, name, bytes)) /* they have one master */
        return false;
    for (size_t i = 0; i < epochs->count; i++) {
        epochs->parts[i].epochs = epochs;
        name = epochs_name(epochs, i, &bytes);
        epochs->known[i] = false;
        epochs->awaited += redis_send_get(redis, name, bytes, on_one_epoch, &epochs->parts[i]);
    }
    return epochs->awaited > 0;
}

bool epochs_send(struct epochs *epochs, struct redis *redis, bool in_cluster)
{
    return in_cluster ? ask_for_each(epochs, redis) : ask_for_all_at_once(epochs, redis);
}
