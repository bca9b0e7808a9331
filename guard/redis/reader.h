/* SPDX-License-Identifier: MIT */
/*
 * redis/reader.h - replies out of a stream of bytes, within bounds that the other side cannot break.
 *
 * hiredis parses; it allocates what a header announces ("*2147483647" asks for 16 GB), nests as deep as it is told
 * and buffers whatever comes. Here a reply is one of RESP2, of max_reply_bytes bytes (with the slack of one feed),
 * with max_elements elements in all its arrays together, nested no deeper than seven levels. Nothing else of hiredis
 * is used.
 *
 * A reply with all that is in it lies in one piece of memory, which serves one reply after another; a large one has
 * more.
 *
 * Pure; the owner's thread.
 */
#pragma once

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    REDIS_ELEMENTS_MAX = 1024,  /* as a rule: ROLE of a master with 250 replicas */
    REDIS_FEED_BYTES = 1 << 12, /* at a time: hiredis moves what is left down with every reply it takes */
};

struct redis_reader {
    struct redisReader *parser;          /* owned; NULL: not open */
    struct reply_room *room;             /* of the reply that is being read: the last one */
    struct reply_room *spare;            /* owned; for the next reply, or NULL */
    const char *refusal;                 /* static; why we broke the stream, or NULL */
    size_t max_elements, elements_left;  /* limit; of the reply that is being read */
    size_t max_reply_bytes, reply_bytes; /* limit; of the unfinished reply so far */
};

/* False: no memory. The struct may not move while it is open. */
bool redis_reader_open(struct redis_reader *reader, size_t max_reply_bytes, size_t max_elements);
/* Also on one that is not open. */
void redis_reader_close(struct redis_reader *reader);

/* At most REDIS_FEED_BYTES; then take replies until there is none. False: no memory. */
bool redis_reader_feed(struct redis_reader *reader, const char *data, size_t bytes);

/* The next whole reply in *out, to be freed with redis_reader_free(), or NULL: more bytes are needed. False:
 * the stream is broken for ever, redis_reader_error() says why. */
bool redis_reader_next(struct redis_reader *reader, struct redisReply **out);
/* Of this reader, which may have been closed meanwhile. NULL is fine. */
void redis_reader_free(struct redis_reader *reader, struct redisReply *reply);
const char *redis_reader_error(const struct redis_reader *reader);

/* Whether this is a string, and this one. */
bool redis_reply_is(const struct redisReply *reply, const char *text);
/* What stands behind that word in name, value, name, value; NULL: nothing. */
const struct redisReply *redis_reply_field(const struct redisReply *reply, const char *name);
