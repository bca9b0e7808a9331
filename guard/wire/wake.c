/* SPDX-License-Identifier: MIT */
/* wake.c - see wake.h. */
#include "wake.h"
#include "../base/clock.h"
#include "envelope.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- messages ---- */

_Static_assert((int)TAGS_ENCODED_MAX <= (int)KEY_ENCODED_MAX, "a message has room for a tag, too");

size_t message_write(enum message_kind kind, const char *lease_tag, const char *subject,
                     char out[MESSAGE_SIZE])
{
    int tag_bytes = lease_tag != NULL ? TOKEN_TAG_BYTES : 1;
    return (size_t)snprintf(out, MESSAGE_SIZE, "%c %.*s %s", (char)kind, tag_bytes,
                            lease_tag != NULL ? lease_tag : "-", subject);
}

bool message_is_lease_tag(const char *text, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    size_t at = 0;
    while (at < bytes && text[at] != '\0' && strchr(digits, text[at]) != NULL)
        at++;
    return bytes == TOKEN_TAG_BYTES && at == bytes;
}

static enum message_kind kind_of(char operation)
{
    switch ((enum message_kind)operation) {
    case MESSAGE_FILLED:
    case MESSAGE_RELEASED:
    case MESSAGE_INVALIDATED:
    case MESSAGE_TAG:
    case MESSAGE_PERMIT:
    case MESSAGE_CANARY:
        return (enum message_kind)operation;
    case MESSAGE_NONE:
        break;
    }
    return MESSAGE_NONE;
}

/* The key, and what travels behind it. No encoded key has a space. */
static void split_entry(struct message *message)
{
    const char *space = memchr(message->subject, ' ', message->subject_bytes);
    if (space == NULL)
        return;
    size_t key_bytes = (size_t)(space - message->subject);
    message->entry = space + 1;
    message->entry_bytes = message->subject_bytes - key_bytes - 1;
    message->subject_bytes = key_bytes;
}

struct message message_read(const char *payload, size_t payload_bytes)
{
    struct message none = {.kind = MESSAGE_NONE};
    if (payload_bytes < 3 || payload[1] != ' ')
        return none;
    struct message message = {
        .kind = kind_of(payload[0]), .subject = payload + 2, .subject_bytes = payload_bytes - 2};
    if (message.kind == MESSAGE_CANARY || message.kind == MESSAGE_NONE)
        return message;
    const char *space = memchr(message.subject, ' ', message.subject_bytes);
    if (space == NULL)
        return none;
    if (message_is_lease_tag(message.subject, (size_t)(space - message.subject)))
        message.lease_tag = message.subject;
    message.subject_bytes -= (size_t)(space + 1 - message.subject);
    message.subject = space + 1;
    if (message.kind == MESSAGE_FILLED)
        split_entry(&message);
    return message.subject_bytes > 0 ? message : none;
}

bool message_read_entry(const struct message *message, const struct core_key *key, uint64_t max_value_ms,
                        struct core_pushed *out, struct value **value)
{
    struct envelope envelope;
    *value = NULL;
    if (envelope_read(message->entry, message->entry_bytes, key->plain, key->plain_bytes, &envelope) !=
            ENVELOPE_OK ||
        envelope.px_ms > max_value_ms) /* acquire clamps the TTL of such a one */
        return false;
    if (!envelope.absent)
        *value = envelope_value(&envelope);
    *out = (struct core_pushed){.lease_tag = message->lease_tag,
                                .tags = envelope.tags,
                                .tags_bytes = envelope.tags_bytes,
                                .born = envelope.born,
                                .value = *value,
                                .absent = envelope.absent,
                                .fresh_ms = (uint32_t)(envelope.px_ms - envelope.stale_ms)};
    return envelope.absent || *value != NULL;
}

/* ---- the canary ---- */

void canary_sent(struct canary *canary, uint64_t now_us)
{
    canary->sent++;
    if (canary->unanswered_since_us == 0)
        canary->unanswered_since_us = now_us;
}

bool canary_back(struct canary *canary, const char *subject, size_t subject_bytes)
{
    size_t process_bytes = strlen(canary->process);
    if (subject_bytes < process_bytes || memcmp(subject, canary->process, process_bytes) != 0)
        return false;
    canary->unanswered_since_us = 0;
    return true;
}

void canary_forget(struct canary *canary)
{
    canary->unanswered_since_us = 0;
}

bool canary_dead(const struct canary *canary, uint64_t now_us)
{
    return canary->unanswered_since_us != 0 &&
           now_us - canary->unanswered_since_us >= (uint64_t)CANARY_LIMIT_MS * 1000;
}

/* ---- the subscription ---- */

struct wake {
    const char *channel;      /* lent */
    struct redis *publisher;  /* lent; the guard thread's command connection */
    struct redis *subscriber; /* owned */
    struct wake_hooks hooks;
    struct canary canary;
    enum guard_redis_state state; /* of the subscription */
    bool mute; /* this login may not publish: no process hears it, and no canary tells whether it hears */
    struct guard_host *host;
    struct host_timer timer;
    uint32_t flying; /* canaries whose PUBLISH has not been answered */
    bool closing, subscriber_closed;
    void (*closed)(void *context);
    void *closed_context;
};

static void on_wake_message(void *context, const char *payload, size_t payload_bytes)
{
    struct wake *wake = context;
    struct message message = message_read(payload, payload_bytes);
    if (message.kind == MESSAGE_CANARY)
        canary_back(&wake->canary, message.subject, message.subject_bytes);
    else if (message.kind != MESSAGE_NONE)
        wake->hooks.message(wake->hooks.context, &message);
}

/* It is `was` no longer. */
static void tell_state(struct wake *wake, enum guard_redis_state was, const char *text)
{
    wake->hooks.state(wake->hooks.context, text);
    if (was != GUARD_REDIS_UP && wake_state(wake) == GUARD_REDIS_UP)
        wake->hooks.resync(wake->hooks.context);
}

static void on_state(void *context, enum guard_redis_state state, const char *text)
{
    struct wake *wake = context;
    enum guard_redis_state was = wake_state(wake);
    wake->state = state;
    canary_forget(&wake->canary);
    tell_state(wake, was, text);
}

static void set_mute(struct wake *wake, bool mute, const char *text)
{
    enum guard_redis_state was = wake_state(wake);
    if (mute == wake->mute)
        return;
    wake->mute = mute;
    if (wake_state(wake) != was)
        tell_state(wake, was, text);
}

static void wake_part_closed(struct wake *wake)
{
    if (!wake->subscriber_closed || wake->flying > 0)
        return;
    if (wake->closed != NULL)
        wake->closed(wake->closed_context);
    free(wake);
}

static void on_published(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct wake *wake = context;
    bool heard = outcome == REDIS_REPLIED && reply->type == REDIS_REPLY_INTEGER;
    bool refused = outcome == REDIS_REPLIED && reply->type == REDIS_REPLY_ERROR;
    if (!heard)
        canary_forget(&wake->canary); /* it never flew: that says nothing about the subscription */
    wake->flying--;
    if ((heard || refused) && !wake->closing)
        set_mute(wake, refused, refused ? reply->str : "may publish again");
    wake_part_closed(wake);
}

static void publish(struct wake *wake)
{
    char text[CLOCK_UUID_SIZE + 32];
    snprintf(text, sizeof text, "c %s %" PRIu64, wake->canary.process, wake->canary.sent + 1);
    const char *argv[] = {"PUBLISH", wake->channel, text};
    size_t bytes[] = {7, strlen(wake->channel), strlen(text)};
    if (!redis_send(wake->publisher, 3, argv, bytes, on_published, wake))
        return;
    wake->flying++;
    canary_sent(&wake->canary, clock_now_us());
}

static void set_canary_timer(struct wake *wake)
{
    host_timer_set(wake->host, &wake->timer, clock_now_us() + (uint64_t)CANARY_EVERY_MS * 1000);
}

static void on_canary_timer(void *context)
{
    struct wake *wake = context;
    set_canary_timer(wake);
    if (wake->state != GUARD_REDIS_UP || !redis_is_up(wake->publisher))
        return;
    if (canary_dead(&wake->canary, clock_now_us())) {
        canary_forget(&wake->canary);
        redis_reset(wake->subscriber, "published canaries do not come back over the subscription");
        return;
    }
    publish(wake);
}

struct wake *wake_open(struct guard_host *host, const char *channel, const struct redis_config *redis,
                       struct redis *publisher, const struct wake_hooks *hooks)
{
    uint8_t random[16];
    struct wake *wake = calloc(1, sizeof *wake);
    if (wake == NULL || !clock_random(random, sizeof random)) {
        free(wake);
        return NULL;
    }
    wake->channel = channel;
    wake->publisher = publisher;
    wake->hooks = *hooks;
    clock_uuid(random, wake->canary.process);
    struct redis_config config = *redis;
    config.channel = channel;
    config.hooks = (struct redis_hooks){.context = wake, .state = on_state, .message = on_wake_message};
    wake->subscriber = redis_open(host, &config);
    if (wake->subscriber == NULL) {
        free(wake);
        return NULL;
    }
    wake->host = host;
    wake->timer = (struct host_timer){.run = on_canary_timer, .context = wake};
    set_canary_timer(wake);
    return wake;
}

static void subscriber_closed(void *context)
{
    struct wake *wake = context;
    wake->subscriber_closed = true;
    wake_part_closed(wake);
}

void wake_close(struct wake *wake, void (*closed)(void *context), void *context)
{
    wake->closed = closed;
    wake->closed_context = context;
    wake->closing = true;
    host_timer_stop(wake->host, &wake->timer);
    redis_close(wake->subscriber, subscriber_closed, wake);
}

enum guard_redis_state wake_state(const struct wake *wake)
{
    return wake->mute && wake->state == GUARD_REDIS_UP ? GUARD_REDIS_DENIED : wake->state;
}
