/* SPDX-License-Identifier: MIT */
/*
 * redis/subscription.h - one channel of Redis, heard for ever by every process of a namespace.
 *
 * One channel for all keys, subscribed once and for ever, because subscriptions that come and go with the
 * keys lose messages between the two. Two things tell that it is alive: the subscription was confirmed, and
 * the canary, a message that this process publishes over its command connection every second, comes back; in a
 * Cluster through each master in its turn, for any of the links between the nodes may be broken. When it does not for
 * CANARY_LIMIT_MS although it was published, the connection is dropped and made again; but not before what had
 * arrived was read: behind a stall of the process timers ring before the loop looks at its descriptors. Whenever the
 * subscription comes up, messages may have been lost before: `resync` is called.
 *
 * Messages of one connection come in their order. So a canary of the only master that has come back says that all has
 * been heard which was published before it was sent: `touched`.
 *
 *   c <process> <number>     a canary: does this process hear itself? Whatever begins with "c " is not handed on
 *
 * Threads   that of its loop; the canary's part is pure.
 */
#pragma once

#include "../base/clock.h"
#include "redis.h"

enum { CANARY_EVERY_MS = 1000, CANARY_LIMIT_MS = 2000, CANARIES_FLYING = 4 };

/* When was each sent that has not come back? In a Cluster each flies from another master, and says nothing of the
 * others' way. Pure. */
struct canary {
    char process[CLOCK_UUID_SIZE];
    uint64_t sent; /* the number of the last one */
    struct canary_flight {
        uint64_t number, since_us; /* 0: none */
    } flying[CANARIES_FLYING];     /* by number: the earlier one stays until it is back */
    uint64_t doubted_us;           /* since when one is late; 0: none is */
    bool heard;                    /* anything since it was judged last */
};
enum canary_verdict { CANARY_ALIVE, CANARY_DOUBTED, CANARY_DEAD };
/* now_us: before it is. */
void canary_sent(struct canary *canary, uint64_t now_us);
/* When this very one was sent; 0: it is not this process's, or it has come back before. */
uint64_t canary_back(struct canary *canary, const char *subject, size_t subject_bytes);
void canary_forget(struct canary *canary);
bool canary_late(const struct canary *canary, uint64_t now_us);
/* DOUBTED: one is late, but may be among what has not been read. Judged again once the loop has read, it is dead if
 * nothing came, or if for CANARY_LIMIT_MS all has come but the canary. */
enum canary_verdict canary_judge(struct canary *canary, uint64_t now_us);

struct subscription_hooks {
    void *context;
    void (*message)(void *context, const char *payload, size_t payload_bytes); /* lent */
    void (*resync)(void *context);
    void (*state)(void *context, const char *text); /* subscription_state() has changed, or why */
    /* All has been heard that was published before this instant. Means nothing with more than one master. */
    void (*touched)(void *context, uint64_t sent_us);
};

struct subscription;
/* The channel is lent until it is closed. NULL: no memory. */
struct subscription *subscription_open(struct guard_host *host, const char *channel,
                                       const struct redis_config *redis, struct redis *publisher,
                                       const struct subscription_hooks *hooks);
void subscription_close(struct subscription *subscription, void (*closed)(void *context), void *context);
/* UP: subscribed, and allowed to publish. */
enum guard_redis_state subscription_state(const struct subscription *subscription);
