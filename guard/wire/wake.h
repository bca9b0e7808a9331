/* SPDX-License-Identifier: MIT */
/*
 * wake.h - hearing what other processes did: one subscription to one static channel.
 *
 * One channel for all keys, subscribed once and for ever, because subscriptions that come and go with the
 * keys lose messages between the two. Two things tell that it is alive: the subscription was confirmed, and
 * the canary, a message that this process publishes over its command connection every second, comes back.
 * When it does not for CANARY_LIMIT_MS although it was published, the connection is dropped and made again.
 * Whenever the subscription comes up, messages may have been lost before: `resync` is called.
 *
 * Threads   the guard's thread only.
 */
#ifndef GUARD_WAKE_H
#define GUARD_WAKE_H

#include "../base/clock.h"
#include "protocol.h"

enum { CANARY_EVERY_MS = 1000, CANARY_LIMIT_MS = 2000 };

/* When was one sent that has not come back? Pure. */
struct canary {
    char process[CLOCK_UUID_SIZE];
    uint64_t sent;                /* its number */
    uint64_t unanswered_since_us; /* 0: none */
};
void canary_sent(struct canary *canary, uint64_t now_us);
/* True if it is this process's. */
bool canary_back(struct canary *canary, const char *subject, size_t subject_bytes);
void canary_forget(struct canary *canary);
bool canary_dead(const struct canary *canary, uint64_t now_us);

struct wake_hooks {
    void *context;
    void (*message)(void *context, const struct message *message);
    void (*resync)(void *context);
    void (*state)(void *context, const char *text); /* wake_state() has changed, or why */
};

struct wake;
struct wake *wake_open(struct guard_host *host, const struct protocol *protocol,
                       const struct redis_config *redis, struct redis *publisher,
                       const struct wake_hooks *hooks);
void wake_close(struct wake *wake, void (*closed)(void *context), void *context);
/* UP: subscribed, and allowed to publish. */
enum guard_redis_state wake_state(const struct wake *wake);

#endif
