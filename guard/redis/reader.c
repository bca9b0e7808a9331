/* SPDX-License-Identifier: MIT */
/* redis/reader.c - replies out of a stream of bytes, within bounds that the other side cannot break. */
#include "reader.h"
#include <assert.h>
#include <string.h>

enum { KEPT_BYTES = 4 * REDIS_FEED_BYTES }; /* of an idle parser's buffer */

/* hiredis says "Out of memory" when this returns NULL; redis_reader_error() knows better. */
static void *create_array_within_bounds(const redisReadTask *task, int elements)
{
    struct redis_reader *reader = task->privdata;

    if (task->parent == NULL)
        reader->elements_left = reader->max_elements;
    reader->elements_left = elements > reader->elements_left ? -1 : reader->elements_left - elements;
    return reader->elements_left >= 0 ? reader->create_array(task, elements) : NULL;
}

bool redis_reader_open(struct redis_reader *reader, size_t max_reply_bytes, int max_elements)
{
    redisReader *parser = redisReaderCreate();

    assert(reader->parser == NULL);
    if (parser == NULL)
        return false;
    *reader = (struct redis_reader){.parser = parser,
                                    .functions = *parser->fn,
                                    .max_elements = max_elements,
                                    .max_reply_bytes = max_reply_bytes};
    reader->create_array = reader->functions.createArray;
    reader->functions.createArray = create_array_within_bounds;
    parser->fn = &reader->functions;
    parser->privdata = reader;
    parser->maxbuf = KEPT_BYTES;
    return true;
}

void redis_reader_close(struct redis_reader *reader)
{
    redisReaderFree(reader->parser);
    reader->parser = NULL;
}

bool redis_reader_feed(struct redis_reader *reader, const char *data, size_t bytes)
{
    assert(bytes <= REDIS_FEED_BYTES);
    reader->reply_bytes += bytes;
    return redisReaderFeed(reader->parser, data, bytes) == REDIS_OK;
}

bool redis_reader_next(struct redis_reader *reader, struct redisReply **out)
{
    void *reply = NULL;

    *out = NULL;
    if (redisReaderGetReply(reader->parser, &reply) != REDIS_OK)
        return false;
    if (reply != NULL) {
        reader->reply_bytes = reader->parser->len - reader->parser->pos;
        *out = reply;
    }
    return reply != NULL || reader->reply_bytes <= reader->max_reply_bytes;
}

const char *redis_reader_error(const struct redis_reader *reader)
{
    if (reader->elements_left < 0)
        return "a reply with too many elements";
    if (reader->parser->err != 0)
        return reader->parser->errstr;
    return "a reply larger than allowed";
}

bool redis_reply_is(const struct redisReply *reply, const char *text)
{
    return reply->type == REDIS_REPLY_STRING && reply->len == strlen(text) &&
           memcmp(reply->str, text, reply->len) == 0;
}
