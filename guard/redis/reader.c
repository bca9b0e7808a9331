/* SPDX-License-Identifier: MIT */
/* redis/reader.c - replies out of a stream of bytes, within bounds that the other side cannot break. */
#include "reader.h"
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEPT_BYTES = 1 << 16, /* of an idle parser's buffer */
    ROOM_BYTES = 4096,    /* of one piece of a reply's memory, unless it needs more at once */
    ROOM_ALIGNMENT = 16,
};

/* ---- the memory of a reply ---- */

struct reply_room {
    struct reply_room *next;
    size_t size, used;
    _Alignas(ROOM_ALIGNMENT) char bytes[];
};

/* The reply itself stands first in the first room. */
static struct reply_room *room_of_reply(void *reply)
{
    return (struct reply_room *)((char *)reply - offsetof(struct reply_room, bytes));
}

static void free_rooms(struct reply_room *room)
{
    while (room != NULL) {
        struct reply_room *next = room->next;
        free(room);
        room = next;
    }
}

static void free_reply_rooms(void *reply)
{
    free_rooms(room_of_reply(reply));
}

static struct reply_room *take_room(struct redis_reader *reader, size_t bytes)
{
    struct reply_room *room = reader->spare;

    if (room != NULL && room->size >= bytes) {
        reader->spare = NULL;
    } else {
        size_t size = bytes > ROOM_BYTES ? bytes : ROOM_BYTES;
        room = size <= SIZE_MAX - sizeof *room ? malloc(sizeof *room + size) : NULL;
        if (room == NULL)
            return NULL;
        room->size = size;
    }
    room->next = NULL;
    room->used = 0;
    return room;
}

/* In the room that has been taken last, or another one. */
static void *take_reply_bytes(struct redis_reader *reader, size_t bytes)
{
    size_t padded = (bytes + ROOM_ALIGNMENT - 1) & ~(size_t)(ROOM_ALIGNMENT - 1);

    if (padded < bytes)
        return NULL;
    if (reader->room == NULL || reader->room->size - reader->room->used < padded) {
        struct reply_room *room = take_room(reader, padded);
        if (room == NULL)
            return NULL;
        if (reader->room != NULL)
            reader->room->next = room;
        reader->room = room;
    }
    char *at = reader->room->bytes + reader->room->used;
    reader->room->used += padded;
    return at;
}

/* ---- what hiredis calls ---- */

/* With `more` bytes behind it. */
static struct redisReply *create_reply(const redisReadTask *task, size_t more)
{
    struct redis_reader *reader = task->privdata;

    if (task->parent == NULL)
        reader->room = NULL;
    struct redisReply *reply =
        more <= SIZE_MAX - sizeof *reply ? take_reply_bytes(reader, sizeof *reply + more) : NULL;
    if (reply == NULL)
        return NULL;
    memset(reply, 0, sizeof *reply);
    reply->type = task->type;
    if (task->parent != NULL) {
        struct redisReply *parent = task->parent->obj;
        parent->element[task->idx] = reply;
    }
    return reply;
}

static void *create_string_reply(const redisReadTask *task, char *text, size_t bytes)
{
    struct redisReply *reply = bytes < SIZE_MAX ? create_reply(task, bytes + 1) : NULL;

    if (reply == NULL)
        return NULL;
    reply->str = (char *)(reply + 1);
    memcpy(reply->str, text, bytes);
    reply->str[bytes] = '\0';
    reply->len = bytes;
    return reply;
}

/* hiredis says "Out of memory" when this returns NULL; redis_reader_error() knows better. */
static void *create_array_within_bounds(const redisReadTask *task, int elements)
{
    struct redis_reader *reader = task->privdata;

    if (task->parent == NULL)
        reader->elements_left = reader->max_elements;
    reader->elements_left = elements > reader->elements_left ? -1 : reader->elements_left - elements;
    if (reader->elements_left < 0)
        return NULL;
    size_t bytes = (size_t)elements * sizeof(struct redisReply *);
    struct redisReply *reply = create_reply(task, bytes);
    if (reply == NULL)
        return NULL;
    reply->element = (struct redisReply **)(reply + 1);
    memset(reply->element, 0, bytes);
    reply->elements = (size_t)elements;
    return reply;
}

static void *create_integer_reply(const redisReadTask *task, long long number)
{
    struct redisReply *reply = create_reply(task, 0);

    if (reply != NULL)
        reply->integer = number;
    return reply;
}

/* What is announced as a string or an array. */
static void *create_nil_reply(const redisReadTask *task)
{
    struct redisReply *reply = create_reply(task, 0);

    if (reply != NULL)
        reply->type = REDIS_REPLY_NIL;
    return reply;
}

static redisReplyObjectFunctions reply_functions = {.createString = create_string_reply,
                                                    .createArray = create_array_within_bounds,
                                                    .createInteger = create_integer_reply,
                                                    .createNil = create_nil_reply,
                                                    .freeObject = free_reply_rooms};

/* ---- the functions of the header ---- */

bool redis_reader_open(struct redis_reader *reader, size_t max_reply_bytes, int max_elements)
{
    redisReader *parser = redisReaderCreateWithFunctions(&reply_functions);

    assert(reader->parser == NULL);
    if (parser == NULL)
        return false;
    *reader = (struct redis_reader){
        .parser = parser, .max_elements = max_elements, .max_reply_bytes = max_reply_bytes};
    parser->privdata = reader;
    parser->maxbuf = KEPT_BYTES;
    return true;
}

void redis_reader_close(struct redis_reader *reader)
{
    redisReaderFree(reader->parser);
    reader->parser = NULL;
    free_rooms(reader->spare);
    reader->spare = NULL;
}

void redis_reader_free(struct redis_reader *reader, struct redisReply *reply)
{
    if (reply == NULL)
        return;
    struct reply_room *room = room_of_reply(reply);
    if (reader->parser != NULL && reader->spare == NULL && room->size == ROOM_BYTES) {
        reader->spare = room;
        room = room->next;
        reader->spare->next = NULL;
    }
    free_rooms(room);
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
