/* SPDX-License-Identifier: MIT */
/* epochs.c - see epochs.h. */
#include "epochs.h"
#include "../base/key.h"

/* Nil, an error or anything else is no epoch. */
static struct tags_clock epoch_of(const struct redisReply *reply)
{
    struct tags_clock epoch = {0, 0};
    if (reply->type == REDIS_REPLY_STRING)
        tags_clock_read(reply->str, reply->len, &epoch);
    return epoch;
}

/* ---- one command ---- */

static void on_all_epochs(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct epochs_asked *asked = context;
    struct tags_epochs *epochs = &asked->epochs;
    epochs->answered = outcome == REDIS_REPLIED;
    if (epochs->answered && reply->type == REDIS_REPLY_ARRAY && reply->elements <= GUARD_TAGS_MAX) {
        epochs->count = reply->elements;
        for (size_t i = 0; i < epochs->count; i++)
            epochs->of[i] = epoch_of(reply->element[i]);
    }
    asked->answered(asked->context);
}

static bool ask_for_all_at_once(struct epochs_asked *asked, struct redis *redis, size_t count,
                                char names[][KEY_NAME_SIZE], const size_t *bytes)
{
    const char *argv[1 + GUARD_TAGS_MAX] = {"MGET"};
    size_t argv_bytes[1 + GUARD_TAGS_MAX] = {4};
    for (size_t i = 0; i < count; i++) {
        argv[1 + i] = names[i];
        argv_bytes[1 + i] = bytes[i];
    }
    return redis_send(redis, 1 + count, argv, argv_bytes, on_all_epochs, asked);
}

/* ---- one command for each ---- */

/* What stands there is no epoch, and of another type than one: as if there were none. */
static bool is_about_the_key(const struct redisReply *reply)
{
    return reply->type != REDIS_REPLY_ERROR ||
           redis_error_classify(reply->str, reply->len) == REDIS_ERROR_OTHER;
}

static void on_one_epoch(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct epochs_part *part = context;
    struct epochs_asked *asked = part->asked;
    if (outcome == REDIS_REPLIED && is_about_the_key(reply))
        asked->epochs.of[part - asked->parts] = epoch_of(reply);
    else
        asked->epochs.answered = false;
    if (--asked->awaited == 0)
        asked->answered(asked->context);
}

static bool ask_for_each(struct epochs_asked *asked, struct redis *redis, size_t count,
                         char names[][KEY_NAME_SIZE], const size_t *bytes)
{
    if (!redis_may_look_up(redis, names[0], bytes[0])) /* they have one master */
        return false;
    asked->awaited = 0;
    asked->epochs.count = count;
    asked->epochs.answered = true;
    for (size_t i = 0; i < count; i++) {
        asked->parts[i].asked = asked;
        if (redis_send_get(redis, names[i], bytes[i], on_one_epoch, &asked->parts[i]))
            asked->awaited++;
        else
            asked->epochs.answered = false;
    }
    return asked->awaited > 0;
}

bool epochs_ask(struct epochs_asked *asked, struct redis *redis, const char *name_space, bool in_cluster,
                const char *tags, size_t tags_bytes)
{
    struct tag split[GUARD_TAGS_MAX];
    char names[GUARD_TAGS_MAX][KEY_NAME_SIZE];
    size_t bytes[GUARD_TAGS_MAX] = {0}, count = tags_cut(tags, tags_bytes, split);
    for (size_t i = 0; i < count; i++)
        bytes[i] = key_tag(name_space, split[i].at, split[i].bytes, names[i]);
    asked->epochs = (struct tags_epochs){.answered = false};
    return in_cluster ? ask_for_each(asked, redis, count, names, bytes)
                      : ask_for_all_at_once(asked, redis, count, names, bytes);
}
