/* SPDX-License-Identifier: MIT */
/*
 * shell_push.c - what a wake-up message has brought. See shell_parts.h.
 *
 * It is read only if somebody here waits for it. An entry with tags waits for their epochs first, which costs one round
 * trip: who waits may know of an invalidation of a tag that is younger than the entry, and that voids no lease.
 */
#include "../base/clock.h"
#include "../wire/protocol_tags.h"
#include "shell_parts.h"
#include <stdlib.h>
#include <string.h>

/* An entry whose tags are being looked at. */
struct push {
    struct guard *guard;
    struct core_pushed pushed; /* its lease_tag and its value are the next two */
    char lease_tag[TOKEN_TAG_BYTES];
    struct value *value; /* owned */
    size_t tag_count;    /* of the entry */
    size_t subject_bytes;
    char subject[]; /* encoded key */
};

static struct push *new_push(struct guard *guard, const struct message *message,
                             const struct core_pushed *pushed, struct value *value)
{
    struct push *push = malloc(sizeof *push + message->subject_bytes);
    if (push == NULL)
        return NULL;
    push->guard = guard;
    push->pushed = *pushed;
    memcpy(push->lease_tag, pushed->lease_tag, TOKEN_TAG_BYTES);
    push->pushed.lease_tag = push->lease_tag;
    push->value = value != NULL ? value_ref(value) : NULL;
    push->tag_count = tags_count(pushed->tags, pushed->tags_bytes);
    push->subject_bytes = message->subject_bytes;
    memcpy(push->subject, message->subject, message->subject_bytes);
    return push;
}

static void free_push(struct push *push)
{
    value_unref(&push->value);
    free(push);
}

/* Whether somebody still waits for it is the core's to see. */
static void on_push_checked(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct push *push = context;
    struct guard *guard = push->guard;
    struct tags_epochs epochs = protocol_read_epochs(outcome, reply);
    bool good = tags_judge(&epochs, push->tag_count, &push->pushed.born) == TAGS_GOOD;
    bool ended = guard->phase == SHELL_ENDING;
    if (!ended && good)
        core_pushed(guard->fleet, clock_now_us(), push->subject, push->subject_bytes, &push->pushed);
    else if (!ended)
        core_woken(guard->fleet, clock_now_us(), push->subject, push->subject_bytes, false);
    free_push(push);
    if (!ended)
        shell_after_events(guard);
}

static bool check_push(struct guard *guard, const struct message *message, const struct core_pushed *pushed,
                       struct value *value)
{
    struct push *push = new_push(guard, message, pushed, value);
    if (push == NULL)
        return false;
    if (protocol_send_check(&guard->protocol, guard->own->redis, pushed->tags, pushed->tags_bytes,
                            on_push_checked, push))
        return true;
    free_push(push);
    return false;
}

bool shell_take_push(struct guard *guard, const struct message *message)
{
    struct core_pushed pushed;
    struct value *value = NULL;
    const struct core_key *key = NULL;
    bool taken = true;
    if (message->entry != NULL && message->lease_tag != NULL)
        key = core_awaits(guard->fleet, message->subject, message->subject_bytes, message->lease_tag);
    if (key == NULL || !protocol_pushed(&guard->protocol, message, key, &pushed, &value))
        return false;
    if (pushed.tags_bytes > 0)
        taken = check_push(guard, message, &pushed, value);
    else
        core_pushed(guard->fleet, clock_now_us(), message->subject, message->subject_bytes, &pushed);
    value_unref(&value);
    return taken;
}
