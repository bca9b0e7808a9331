/* SPDX-License-Identifier: MIT */
/*
 * wake.h - what the processes of a namespace tell each other, and hearing it. Hints only: waiters also poll.
 *
 *   f <tag of the lease> <encoded key>[ <entry>]   a load has stored a value. Behind the key may stand the entry as
 *                                                  it is in Redis: if a waiter has asked for it, and it is small
 *   r <tag of the lease> <encoded key>             a lease was given back without a value
 *   i - <encoded key>                              the key was invalidated
 *   t - <encoded tag>                              the tag was invalidated
 *   p - <waiter>                                   a load permit is free for that process
 *   c <process> <number>                           a canary: does this process hear itself?
 *
 * One channel for all keys, subscribed once and for ever, because subscriptions that come and go with the
 * keys lose messages between the two. Two things tell that it is alive: the subscription was confirmed, and
 * the canary, a message that this process publishes over its command connection every second, comes back.
 * When it does not for CANARY_LIMIT_MS although it was published, the connection is dropped and made again.
 * Whenever the subscription comes up, messages may have been lost before: `resync` is called.
 *
 * Threads   the guard's thread only; messages and the canary are pure.
 */
#ifndef GUARD_WAKE_H
#define GUARD_WAKE_H

#include "../base/clock.h"
#include "../core/core.h"
#include "../redis/redis.h"

/* ---- messages ---- */

enum message_kind {
    MESSAGE_NONE = 0,
    MESSAGE_FILLED = 'f',
    MESSAGE_RELEASED = 'r',
    MESSAGE_INVALIDATED = 'i',
    MESSAGE_TAG = 't',
    MESSAGE_PERMIT = 'p',
    MESSAGE_CANARY = 'c',
};

enum { MESSAGE_SIZE = KEY_ENCODED_MAX + TOKEN_TAG_BYTES + 8 };

/* Writes one that has a lease tag (TOKEN_TAG_BYTES) or, with NULL, a dash. Returns its length. */
size_t message_write(enum message_kind kind, const char *lease_tag, const char *subject,
                     char out[MESSAGE_SIZE]);

struct message {
    enum message_kind kind;
    /* encoded key or tag, waiter, or the canary's "<process> <number>"; points into the payload */
    const char *subject;
    size_t subject_bytes;
    const char *lease_tag; /* TOKEN_TAG_BYTES hex digits; NULL: there is none */
    const char *entry;     /* FILLED: what was stored; NULL: it did not travel */
    size_t entry_bytes;
};
/* Anything that is not one of ours is MESSAGE_NONE. */
struct message message_read(const char *payload, size_t payload_bytes);

/* Reads the entry of a message that has a lease_tag and one. *value holds a reference for the caller to give back, or
 * NULL. False: it is damaged, of another key or, because it lives longer than max_value_ms, not to be believed
 * without asking Redis; the message is worth no more than one without. */
bool message_read_entry(const struct message *message, const struct core_key *key, uint64_t max_value_ms,
                        struct core_pushed *out, struct value **value);

/* Whether this is the tag of a lease. */
bool message_is_lease_tag(const char *text, size_t bytes);

/* ---- the subscription ---- */

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
/* The channel is lent until it is closed. NULL: no memory. */
struct wake *wake_open(struct guard_host *host, const char *channel, const struct redis_config *redis,
                       struct redis *publisher, const struct wake_hooks *hooks);
void wake_close(struct wake *wake, void (*closed)(void *context), void *context);
/* UP: subscribed, and allowed to publish. */
enum guard_redis_state wake_state(const struct wake *wake);

#endif
