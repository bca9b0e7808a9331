/* SPDX-License-Identifier: MIT */
/*
 * lock_wire.h - what stands in one Redis for locks, and travels to it and back: the core's actions become calls of
 * scripts/, Redis's replies become the core's. The heads of the scripts say how Redis decides.
 *
 *   csg1:{ns:name}:kh  held    what holds, until when         csg1:{ns:name}:kf  fence  the last fencing number
 *   csg1:{ns:name}:kq  queue   what waits, in which order     csg1:{ns:name}:kg  gone   tombstones
 *   csg1:{ns:name}:ka  alive   until when a place is kept     csg1:{ns:name}:kl  latch  the parties that are here
 *
 * A token is one string, compared whole and the member of those sets: "<uuid, 36> <units, 7 digits> <limit, 7 digits>
 * <lease_ms, 8 digits> <host:pid> <since>". What follows the lease is for people.
 *
 * Pure but for the sending. Nothing here asks for the time or for chance.
 *
 * Threads   any; that of the connection where something is sent.
 */
#pragma once

#include "../redis/redis.h"
#include "lock_core.h"

/* ---- scripts: what a connection is given ---- */

enum lock_script {
    LOCK_SCRIPT_ACQUIRE,
    LOCK_SCRIPT_RENEW,
    LOCK_SCRIPT_RELEASE,
    LOCK_SCRIPT_STAY,
    LOCK_SCRIPT_LATCH,
    LOCK_SCRIPT_LOOK,
    LOCK_SCRIPT_COUNT
};
extern const struct redis_script lock_scripts[LOCK_SCRIPT_COUNT];

/* ---- tokens ---- */

struct lock_token {
    char uuid[LOCK_UUID_BYTES + 1];
    uint32_t units, limit, lease_ms;
    char who[GUARD_LOCK_WHO_BYTES]; /* host:pid; at most 48 bytes of it are written */
    uint64_t since_s;
};
/* Writes it and its NUL; returns the length. */
size_t lock_token_write(const struct lock_token *token, char out[LOCK_TOKEN_SIZE]);
/* False: that is none. `who` is "" and since_s 0 if the rest, for people, is something else. */
bool lock_token_read(const char *text, size_t bytes, struct lock_token *out);

/* ---- messages ---- */

/* On the channel: "k <uuid or *> <encoded name>", the claim of that token may be granted now, or any on the name. */
struct lock_message {
    const char *uuid; /* LOCK_UUID_BYTES, not terminated; NULL: any */
    const char *encoded;
    size_t encoded_bytes;
};
/* False: that is none. Points into the payload. */
bool lock_message_read(const char *payload, size_t payload_bytes, struct lock_message *out);

/* ---- sending ---- */

struct lock_wire {
    const char *name_space; /* lent */
    char channel[KEY_CHANNEL_SIZE];
    uint32_t max_lease_ms, fence_ms;
};
void lock_wire_init(struct lock_wire *wire, const char *name_space, unsigned database, uint32_t max_lease_ms,
                    uint32_t fence_ms);

/* Sends the script of an action (any kind; up to GUARD_LOCK_NAMES_MAX names, any number of tokens). What the action
 * points to is copied. False: it could not be sent. */
bool lock_wire_send(const struct lock_wire *wire, struct redis *redis, const struct lock_action *action,
                    redis_replied *replied, void *context);
/* A renewal (the names and the token of that action) that also writes the fencing numbers of a quorum. Its answer is
 * that of a LOCK_RENEW. */
bool lock_wire_send_raise(const struct lock_wire *wire, struct redis *redis, const struct lock_action *action,
                          const uint64_t fence[], redis_replied *replied, void *context);
/* What has a name, and what waits? */
bool lock_wire_send_look(const struct lock_wire *wire, struct redis *redis, const struct lock_name *name,
                         redis_replied *replied, void *context);

/* ---- what came back ---- */

/* What must be known of an action to read its answer; for the caller to keep. */
struct lock_asked {
    enum lock_action_kind kind;
    bool latch;
    size_t count; /* of names; STAY: of tokens */
};
struct lock_asked lock_asked_of(const struct lock_action *action);

/* Anything that is not exactly an answer to it is LOCK_UNANSWERED, with the reason; a TAKE that this login will never
 * be allowed is LOCK_IMPOSSIBLE. STAY: writes to ask_now[], which has room for asked->count (others: may be NULL).
 * Texts are lent from the reply, or static. */
void lock_wire_read(const struct lock_asked *asked, enum redis_outcome outcome,
                    const struct redisReply *reply, struct lock_reply *out, uint32_t ask_now[]);
/* False: no answer, and why. */
bool lock_wire_read_look(enum redis_outcome outcome, const struct redisReply *reply,
                         struct guard_lock_view *out, const char **why);
