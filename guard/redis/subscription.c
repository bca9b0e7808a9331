/* SPDX-License-Identifier: MIT */
/* redis/subscription.c - see redis/subscription.h. */
#include "subscription.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a canary's message begins with. */
#define CANARY_HEAD "c "

/* ---- the canary ---- */

static const uint64_t canary_limit_us = (uint64_t)CANARY_LIMIT_MS * 1000;

static struct canary_flight *flight_of(struct canary *canary, uint64_t number)
{
    return &canary->flying[number % CANARIES_FLYING];
}

void canary_sent(struct canary *canary, uint64_t now_us)
{
    struct canary_flight *flight = flight_of(canary, ++canary->sent);
    if (flight->since_us == 0)
        *flight = (struct canary_flight){canary->sent, now_us};
}

uint64_t canary_back(struct canary *canary, const char *subject, size_t subject_bytes)
{
    size_t at = strlen(canary->process);
    uint64_t number = 0, since_us = 0;
    if (subject_bytes <= at || memcmp(subject, canary->process, at) != 0)
        return 0;
    for (at++; at < subject_bytes && subject[at] >= '0' && subject[at] <= '9'; at++)
        number = number * 10 + (uint64_t)(subject[at] - '0');
    struct canary_flight *flight = flight_of(canary, number);
    if (flight->number == number) {
        since_us = flight->since_us;
        flight->since_us = 0;
    }
    return since_us;
}

void canary_forget(struct canary *canary)
{
    memset(canary->flying, 0, sizeof canary->flying);
}

bool canary_late(const struct canary *canary, uint64_t now_us)
{
    for (size_t i = 0; i < CANARIES_FLYING; i++)
        if (canary->flying[i].since_us != 0 && now_us - canary->flying[i].since_us >= canary_limit_us)
            return true;
    return false;
}

enum canary_verdict canary_judge(struct canary *canary, uint64_t now_us)
{
    bool late = canary_late(canary, now_us), first = canary->doubted_us == 0, heard = canary->heard;
    canary->heard = false;
    if (!late || first)
        canary->doubted_us = late ? now_us : 0;
    if (!late)
        return CANARY_ALIVE;
    return first || (heard && now_us - canary->doubted_us < canary_limit_us) ? CANARY_DOUBTED : CANARY_DEAD;
}

/* ---- the subscription ---- */

struct subscription {
    const char *channel;      /* lent */
    struct redis *publisher;  /* lent; a command connection of the same thread */
    struct redis *subscriber; /* owned */
    struct subscription_hooks hooks;
    struct canary canary;
    enum guard_redis_state state; /* of the subscription */
    bool mute; /* this login may not publish: no process hears it, and no canary tells whether it hears */
    struct guard_host *host;
    struct host_timer timer;
    uint32_t flying; /* canaries whose PUBLISH has not been answered */
    bool closing, subscriber_closed;
    struct host_told told;
};

static void on_payload(void *context, const char *payload, size_t payload_bytes)
{
    struct subscription *self = context;
    size_t head_bytes = sizeof CANARY_HEAD - 1;
    uint64_t sent_us = 0;
    self->canary.heard = true;
    if (payload_bytes >= head_bytes && memcmp(payload, CANARY_HEAD, head_bytes) == 0)
        sent_us = canary_back(&self->canary, payload + head_bytes, payload_bytes - head_bytes);
    else
        self->hooks.message(self->hooks.context, payload, payload_bytes);
    if (sent_us > 0 && self->hooks.touched != NULL)
        self->hooks.touched(self->hooks.context, sent_us);
}

/* It is `was` no longer. */
static void tell_state(struct subscription *self, enum guard_redis_state was, const char *text)
{
    self->hooks.state(self->hooks.context, text);
    if (was != GUARD_REDIS_UP && subscription_state(self) == GUARD_REDIS_UP)
        self->hooks.resync(self->hooks.context);
}

static void on_state(void *context, enum guard_redis_state state, const char *text)
{
    struct subscription *self = context;
    enum guard_redis_state was = subscription_state(self);
    self->state = state;
    canary_forget(&self->canary);
    tell_state(self, was, text);
}

static void set_mute(struct subscription *self, bool mute, const char *text)
{
    enum guard_redis_state was = subscription_state(self);
    if (mute == self->mute)
        return;
    self->mute = mute;
    if (subscription_state(self) != was)
        tell_state(self, was, text);
}

static void subscription_part_over(struct subscription *self)
{
    if (!self->subscriber_closed || self->flying > 0)
        return;
    host_free_and_tell(self, self->told);
}

static void on_published(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct subscription *self = context;
    bool heard = outcome == REDIS_REPLIED && reply->type == REDIS_REPLY_INTEGER;
    bool refused = outcome == REDIS_REPLIED && reply->type == REDIS_REPLY_ERROR;
    if (!heard)
        canary_forget(&self->canary); /* it never flew: that says nothing about the subscription */
    self->flying--;
    if ((heard || refused) && !self->closing)
        set_mute(self, refused, refused ? reply->str : "may publish again");
    subscription_part_over(self);
}

static void publish(struct subscription *self)
{
    char text[CLOCK_UUID_SIZE + 32];
    uint64_t now_us = clock_now_us();
    snprintf(text, sizeof text, CANARY_HEAD "%s %" PRIu64, self->canary.process, self->canary.sent + 1);
    const char *argv[] = {"PUBLISH", self->channel, text};
    size_t bytes[] = {7, strlen(self->channel), strlen(text)};
    if (!redis_send(self->publisher, 3, argv, bytes, on_published, self))
        return;
    self->flying++;
    canary_sent(&self->canary, now_us);
}

static void set_canary_timer(struct subscription *self)
{
    host_timer_set(self->host, &self->timer, clock_now_us() + (uint64_t)CANARY_EVERY_MS * 1000);
}

static void on_canary_timer(void *context)
{
    struct subscription *self = context;
    uint64_t now_us = clock_now_us();
    set_canary_timer(self);
    if (self->state != GUARD_REDIS_UP || !redis_is_up(self->publisher))
        return;
    switch (canary_judge(&self->canary, now_us)) {
    case CANARY_ALIVE:
        publish(self);
        break;
    case CANARY_DOUBTED:
        host_timer_set(self->host, &self->timer, now_us);
        break;
    case CANARY_DEAD:
        canary_forget(&self->canary);
        redis_reset(self->subscriber, "published canaries do not come back over the subscription");
        break;
    }
}

struct subscription *subscription_open(struct guard_host *host, const char *channel,
                                       const struct redis_config *redis, struct redis *publisher,
                                       const struct subscription_hooks *hooks)
{
    uint8_t random[16];
    struct subscription *self = calloc(1, sizeof *self);
    if (self == NULL || !clock_random(random, sizeof random)) {
        free(self);
        return NULL;
    }
    self->channel = channel;
    self->publisher = publisher;
    self->hooks = *hooks;
    clock_uuid(random, self->canary.process);
    struct redis_config config = *redis;
    config.channel = channel;
    config.hooks = (struct redis_hooks){.context = self, .state = on_state, .message = on_payload};
    self->subscriber = redis_open(host, &config);
    if (self->subscriber == NULL) {
        free(self);
        return NULL;
    }
    self->host = host;
    self->timer = (struct host_timer){.run = on_canary_timer, .context = self};
    set_canary_timer(self);
    return self;
}

static void subscriber_closed(void *context)
{
    struct subscription *self = context;
    self->subscriber_closed = true;
    subscription_part_over(self);
}

void subscription_close(struct subscription *self, void (*closed)(void *context), void *context)
{
    self->told = (struct host_told){closed, context};
    self->closing = true;
    host_timer_stop(self->host, &self->timer);
    redis_close(self->subscriber, subscriber_closed, self);
}

enum guard_redis_state subscription_state(const struct subscription *self)
{
    return self->mute && self->state == GUARD_REDIS_UP ? GUARD_REDIS_DENIED : self->state;
}
