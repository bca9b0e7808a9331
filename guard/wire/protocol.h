/* SPDX-License-Identifier: MIT */
/*
 * protocol.h - the room wire/: what stands in Redis and travels through it. The core's actions become calls of
 * scripts, Redis's replies become the core's.
 *
 * Owns      The scripts (scripts/), the order of their KEYS and ARGV, which only protocol.c knows, the bytes of an
 *           entry and of a message, and the subscription to the channel.
 * Threads   That of the connection. No I/O of its own.
 *
 * Read in this order: scripts/acquire.lua and fill.lua (how Redis decides), protocol.c, epochs (tags), sweep
 * (deletions without a script), envelope (an entry), wake (what processes tell each other).
 */
#pragma once

#include "../core/core.h"
#include "../redis/redis.h"
#include "envelope.h"

struct protocol {
    const char *name_space;
    char channel[KEY_CHANNEL_SIZE];
    uint32_t max_lease_ms, max_value_ms;
    char process[96]; /* "host:pid", readable in a lease */
    /* 0 after init: none */
    uint32_t push_bytes;         /* entries up to this size travel with the message */
    uint32_t permits, permit_ms; /* those of the fleet */
    /* false after init */
    bool in_cluster; /* Redis Cluster */
    bool
        waits; /* invalidations wait for replicas, and only scripts can: one without waits for its slot, too */
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

/* Asks what the cache is called; `proposed` becomes its name if it has none. GUARD_CACHE_ID_BYTES each. */
bool protocol_send_cache_id(const struct protocol *protocol, struct redis *redis, const char *proposed,
                            redis_replied *replied, void *context);
/* NULL: it did not say. */
const char *protocol_read_cache_id(enum redis_outcome outcome, const struct redisReply *reply);

/* ---- tags: what goes beside a script; see tags.h, and epochs.h for what is asked after a lookup ---- */

/* Each sends what it is about. False: it could not be sent. `tags` are sound, at least one.
 *
 *   clock   before an ACQUIRE that may lead to a load
 *   keep    before a FILL or TOUCH of something with tags */
bool protocol_send_clock(const struct protocol *protocol, struct redis *redis, redis_replied *replied,
                         void *context);
bool protocol_send_keep(const struct protocol *protocol, struct redis *redis, const char *tags,
                        size_t tags_bytes, const struct tags_clock *born, redis_replied *replied,
                        void *context);

/* Two steps, which make an entry that is older than its tags stale if those were expired and not invalidated: what
 * became of its tags, then with what that said and what stands there the entry itself. Each as above. */
bool protocol_send_expiries(const struct protocol *protocol, struct redis *redis, const char *tags,
                            size_t tags_bytes, const struct tags_clock *born, redis_replied *replied,
                            void *context);
bool protocol_send_make_stale(const struct protocol *protocol, struct redis *redis, const char *encoded,
                              const struct envelope *envelope, uint64_t stale_ms, redis_replied *replied,
                              void *context);

/* False: it is out of date. When it may be called born, and how long ago it was expired. */
bool protocol_read_expiries(enum redis_outcome outcome, const struct redisReply *reply,
                            struct tags_clock *born, uint64_t *age_ms);
/* What the clock shows; not known if it did not say. */
struct tags_clock protocol_read_clock(enum redis_outcome outcome, const struct redisReply *reply);
/* True: no tag was invalidated since it was born, as far as its keeping. */
bool protocol_read_keep(enum redis_outcome outcome, const struct redisReply *reply);

/*
 * ---- the scripts ----
 *
 * Lua, in scripts/, embedded by the build (scripts/embed.sh). Their heads say what KEYS, ARGV and the replies are.
 *
 * A lease token is one string, compared whole: "<uuid, 36> <tag, 16 hex digits> <lease_ms, 7 digits>", then
 * optionally a space and text for people (host, process, since when).
 */

enum script {
    SCRIPT_ACQUIRE,
    SCRIPT_RENEW,
    SCRIPT_FILL,
    SCRIPT_TOUCH,
    SCRIPT_RELEASE,
    SCRIPT_INVALIDATE,
    SCRIPT_PERMIT_ACQUIRE,
    SCRIPT_PERMIT_RENEW,
    SCRIPT_PERMIT_RELEASE,
    SCRIPT_TAG_CLOCK,
    SCRIPT_TAG_KEEP,
    SCRIPT_TAG_INVALIDATE,
    SCRIPT_TAG_STALE,
    SCRIPT_MAKE_STALE,
    SCRIPT_CACHE_ID,
    SCRIPT_COUNT
};

/* NUL-terminated sources with their comments taken out: what a connection is given, and its scripts' numbers. */
extern const struct redis_script protocol_scripts[SCRIPT_COUNT];
