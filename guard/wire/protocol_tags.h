/* SPDX-License-Identifier: MIT */
/*
 * protocol_tags.h - the commands about tags: those that go beside others, and the invalidation. See tags.h; the
 * order of their KEYS and ARGV is known here alone. Used like protocol.h, on every loop.
 *
 *   clock   before an ACQUIRE that may lead to a load
 *   keep    before a FILL or TOUCH of something with tags
 *   check   after an entry with tags has been found: one MGET
 */
#ifndef GUARD_PROTOCOL_TAGS_H
#define GUARD_PROTOCOL_TAGS_H

#include "../base/tags.h"
#include "protocol.h"

/* Each sends one command. False: it could not be sent. Tags as in tags.h, sound and at least one. */
bool protocol_send_clock(const struct protocol *protocol, struct redis *redis, redis_replied *replied,
                         void *context);
bool protocol_send_keep(const struct protocol *protocol, struct redis *redis, const char *tags,
                        size_t tags_bytes, const struct tags_clock *born, redis_replied *replied,
                        void *context);
bool protocol_send_check(const struct protocol *protocol, struct redis *redis, const char *tags,
                         size_t tags_bytes, redis_replied *replied, void *context);
/* Script tag_invalidate; `tag` is encoded. */
bool protocol_send_tag_invalidation(const struct protocol *protocol, struct redis *redis,
                                    const struct core_key *tag, redis_replied *replied, void *context);

/* What the clock shows; not known if it did not say. */
struct tags_clock protocol_read_clock(enum redis_outcome outcome, const struct redisReply *reply);
/* True: no tag was invalidated since it was born, as far as its keeping. */
bool protocol_read_keep(enum redis_outcome outcome, const struct redisReply *reply);

/* The answer to a check. */
struct tags_epochs protocol_read_epochs(enum redis_outcome outcome, const struct redisReply *reply);

#endif
