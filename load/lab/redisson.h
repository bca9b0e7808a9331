/* SPDX-License-Identifier: MIT */
/*
 * redisson.h - what Redisson's locks have in common: an owner, a watchdog, a subscription, and how they wait.
 *
 *     lock()      script: mine now, or for how long somebody else's
 *                 busy -> subscribe to the lock's channel, try again, wait for a message or that time, try again
 *     watchdog    a thread of its own renews at a third of the TTL while the lock is held; not with a lease that
 *                 the caller has set
 *     unlock()    script
 *
 * Redisson's order of commands and its keys are kept; its scripts are told again line by line. A worker is one thread
 * of one client ("uuid:1").
 *
 * Threads: a worker's main thread; the watchdog is in here.
 */
#pragma once

#include "load/lab/scheme.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct redisReply;
struct redisContext;

enum { REDISSON_CROWD_MAX = 1000 };

enum {
    REDISSON_OWNER_BYTES = LAB_TOKEN_BYTES + 16,
    REDISSON_CHANNEL_BYTES = LAB_NAME_BYTES + LAB_TOKEN_BYTES + 48
};
/* What try_lock() says when it is mine: no time is that. */
#define REDISSON_TAKEN LLONG_MIN

/* One of Redisson's locks. */
struct redisson {
    /* REDISSON_TAKEN, else for how many milliseconds it is somebody else's; below 0: until a message says
     * otherwise. */
    long long (*try_lock)(struct lab_client *client);
    /* One script over the watchdog's connection: an integer, 0: it is not mine. NULL: it is never renewed. */
    struct redisReply *(*renew)(const struct lab_client *client, struct redisContext *redis);
    void (*unlock)(struct lab_client *client);
    const char *channel;  /* of the lock, before its name */
    bool has_own_channel; /* an owner's is its own: a release wakes the next one only */
};

struct lab_state {
    const struct redisson *kind;
    char owner[REDISSON_OWNER_BYTES]; /* "uuid:thread" */
    char channel[REDISSON_CHANNEL_BYTES];
    struct redisContext *subscription; /* owned; NULL: not subscribed */

    struct lab_renewer watchdog;
    struct redisContext *renewal; /* owned; the watchdog's */
};

/* For scheme.open and scheme.close. */
bool redisson_begin(struct lab_client *client, const struct redisson *kind);
void redisson_end(struct lab_client *client);

/* For scheme.acquire and scheme.release. */
bool redisson_lock(struct lab_client *client);
void redisson_unlock(struct lab_client *client);

/* For scheme.crowd: `count` threads of this client, and what they send. */
bool redisson_crowd(struct lab_client *client, uint32_t count);

/* The hash of RedissonLock, which others build on: field of the owner, its number how often it has locked. */
extern const char redisson_renew_script[];
struct redisReply *redisson_renew(const struct lab_client *client, struct redisContext *redis);
extern const struct redisson redisson_lock_kind;
