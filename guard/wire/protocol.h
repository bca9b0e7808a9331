/* SPDX-License-Identifier: MIT */
/*
 * protocol.h - the core's actions as Redis scripts, and Redis's replies as the core's.
 *
 * The only file, but for protocol_tags.h, that knows the order of KEYS and ARGV (scripts/) and the text of a message.
 * No I/O of its own; used on the thread of the connection.
 *
 * A message is "<operation> <tag of the lease> <encoded key>", operation f (filled), r (released), i
 * (invalidated; tag "-") or t (a tag invalidated; tag "-", that encoded tag instead of a key); or "p - <waiter>", a
 * load permit is free for that process; or "c <process> <number>", the canary. Behind an f, after a space, the entry may
 * follow that was stored, as it stands in Redis: if somebody waits for that lease and it has at most push_bytes.
 */
#ifndef GUARD_PROTOCOL_H
#define GUARD_PROTOCOL_H

#include "../core/core.h"
#include "../redis/redis.h"

struct protocol {
    const char *name_space;
    char channel[KEY_CHANNEL_SIZE];
    uint32_t max_lease_ms, max_value_ms;
    char process[96]; /* "host:pid", readable in a lease */
    /* 0 after init: none */
    uint32_t push_bytes;         /* entries up to this size travel with the message */
    uint32_t permits, permit_ms; /* those of the fleet */
};

void protocol_init(struct protocol *protocol, const char *name_space, unsigned database,
                   uint32_t max_lease_ms, uint32_t max_value_ms);

/* "<uuid 36> <tag 16> <lease_ms 7> <host:pid> <since>"; `random` comes from the operating system. */
void protocol_token(const struct protocol *protocol, const uint8_t random[24], uint32_t lease_ms,
                    uint64_t since_s, char token[TOKEN_SIZE]);

/* Sends the script of an action that has one. False: it could not be sent. */
bool protocol_send(const struct protocol *protocol, struct redis *redis, const struct core_action *action,
                   redis_replied *replied, void *context);

/* What came back. `key` is the application's, to check entries against; *value holds a reference for the
 * caller to give back, or NULL. */
void protocol_read(enum core_action_kind kind, const char *key, size_t key_bytes, enum redis_outcome outcome,
                   const struct redisReply *reply, struct core_reply *out, struct value **value);

/* Asks what the cache is called; `proposed` is its name if it has none. GUARD_CACHE_ID_BYTES each. */
bool protocol_send_cache_id(const struct protocol *protocol, struct redis *redis, const char *proposed,
                            redis_replied *replied, void *context);
/* NULL: it did not say. */
const char *protocol_read_cache_id(enum redis_outcome outcome, const struct redisReply *reply);

enum message_kind {
    MESSAGE_NONE,
    MESSAGE_FILLED,
    MESSAGE_RELEASED,
    MESSAGE_INVALIDATED,
    MESSAGE_PERMIT,
    MESSAGE_TAG,
    MESSAGE_CANARY
};
struct message {
    enum message_kind kind;
    const char *
        subject; /* encoded key or tag, waiter, or the canary's "<process> <number>"; points into the payload */
    size_t subject_bytes;
    const char *lease_tag; /* TOKEN_TAG_BYTES hex digits; NULL: there is none */
    const char *entry;     /* FILLED: what was stored; NULL: it did not travel */
    size_t entry_bytes;
};
/* Anything that is not one of ours is MESSAGE_NONE. */
struct message protocol_message(const char *payload, size_t payload_bytes);

/* Reads the entry of a message that has a lease_tag and one. *value as in protocol_read(). False: it is damaged, of
 * another key or not to be believed without asking Redis; the message is worth no more than one without. */
bool protocol_pushed(const struct protocol *protocol, const struct message *message,
                     const struct core_key *key, struct core_pushed *out, struct value **value);

#endif
