/* SPDX-License-Identifier: MIT */
/*
 * redis/reader.c - replies out of a stream of bytes, within bounds that the other side cannot break.
 *
 * The one file that knows the generations of hiredis. From 1.0 on it parses what RESP3 has as well, calls functions
 * for it that earlier ones do not have, announces elements in another type and nests without an end. Nobody here asks
 * for RESP3, so types, depth and sizes are judged in our callbacks, with our reasons, whatever the library would let
 * pass.
 */
#include "reader.h"
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEPT_BYTES = 1 << 16, /* of an idle parser's buffer */
    ROOM_BYTES = 4096,    /* of one piece of a reply's memory, unless it needs more at once */
    ROOM_ALIGNMENT = 16,
    LEVELS_MAX = 7, /* of arrays in arrays; hiredis < 1.0 has no room for more than eight */
};

/* As hiredis calls back, by generation. */
#if HIREDIS_MAJOR >= 1
typedef size_t announced_elements;
enum { FUNCTIONS = 7 };
#elif HIREDIS_MINOR >= 14
typedef int announced_elements;
enum { FUNCTIONS = 5 };
#else
#error "hiredis 0.14 or later is needed (Debian: libhiredis-dev)"
#endif
_Static_assert(sizeof(redisReplyObjectFunctions) == FUNCTIONS * sizeof(void (*)(void)),
               "this hiredis calls a function that redis/reader.c does not have");

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

/* ---- what no reply may be ---- */

/* Of RESP3: as they begin on the wire, and as hiredis >= 1.0 numbers them. */
static const struct resp3_type {
    char byte;
    int type;
    const char *refusal;
} resp3_types[] = {
    {'_', 4, "a null of RESP3, which nobody has asked for"}, /* RESP2's has the type of what it stands for */
    {',', 7, "a double of RESP3, which nobody has asked for"},
    {'#', 8, "a boolean of RESP3, which nobody has asked for"},
    {'%', 9, "a map of RESP3, which nobody has asked for"},
    {'~', 10, "a set of RESP3, which nobody has asked for"},
    {'|', 11, "an attribute of RESP3, which nobody has asked for"},
    {'>', 12, "a push message of RESP3, which nobody has asked for"},
    {'(', 13, "a big number of RESP3, which nobody has asked for"},
    {'=', 14, "a verbatim string of RESP3, which nobody has asked for"},
    {'!', -1, "a bulk error of RESP3, which nobody has asked for"},
};
enum { RESP3_TYPES = sizeof resp3_types / sizeof *resp3_types };

/* The first reason stands. NULL, as a callback says that there is no reply; hiredis takes it for a lack of memory. */
static void *refuse_reply(struct redis_reader *reader, const char *why)
{
    if (reader->refusal == NULL)
        reader->refusal = why;
    return NULL;
}

static bool is_of_resp2(int type)
{
    return type == REDIS_REPLY_STRING || type == REDIS_REPLY_ARRAY || type == REDIS_REPLY_INTEGER ||
           type == REDIS_REPLY_STATUS || type == REDIS_REPLY_ERROR;
}

static void *refuse_type(const redisReadTask *task)
{
    for (size_t i = 0; i < RESP3_TYPES; i++)
        if (resp3_types[i].type == task->type)
            return refuse_reply(task->privdata, resp3_types[i].refusal);
    return refuse_reply(task->privdata, "a reply of a type that is unknown here");
}

/* hiredis < 1.0 knows none of these types, nor does any know '!': it quotes the byte. */
static const char *refusal_of_quoted_byte(const char *error)
{
    const char *quoted = strstr(error, "got \"");
    for (size_t i = 0; quoted != NULL && i < RESP3_TYPES; i++)
        if (resp3_types[i].byte == quoted[5] && quoted[6] == '"')
            return resp3_types[i].refusal;
    return NULL;
}

static bool is_too_deep(const redisReadTask *task)
{
    int levels = 1;
    while ((task = task->parent) != NULL)
        levels++;
    return levels > LEVELS_MAX;
}

/* ---- what hiredis calls ---- */

/* With `more` bytes behind it. */
static struct redisReply *create_reply(const redisReadTask *task, size_t more)
{
    struct redis_reader *reader = task->privdata;
    if (!is_of_resp2(task->type))
        return refuse_type(task);
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

static void *create_array_within_bounds(const redisReadTask *task, announced_elements announced)
{
    struct redis_reader *reader = task->privdata;
    const size_t elements = (size_t)announced;
    if (!is_of_resp2(task->type))
        return refuse_type(task);
    if (is_too_deep(task))
        return refuse_reply(reader, "arrays nested too deep");
    if (task->parent == NULL)
        reader->elements_left = reader->max_elements;
    if (elements > reader->elements_left)
        return refuse_reply(reader, "an array of more elements than allowed");
    reader->elements_left -= elements;
    size_t bytes = elements * sizeof(struct redisReply *);
    struct redisReply *reply = create_reply(task, bytes);
    if (reply == NULL)
        return NULL;
    reply->element = (struct redisReply **)(reply + 1);
    memset(reply->element, 0, bytes);
    reply->elements = elements;
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

#if HIREDIS_MAJOR >= 1
static void *refuse_double(const redisReadTask *task, double number, char *text, size_t bytes)
{
    (void)number, (void)text, (void)bytes;
    return refuse_type(task);
}

static void *refuse_boolean(const redisReadTask *task, int truth)
{
    (void)truth;
    return refuse_type(task);
}
#endif

static redisReplyObjectFunctions reply_functions = {.createString = create_string_reply,
                                                    .createArray = create_array_within_bounds,
                                                    .createInteger = create_integer_reply,
                                                    .createNil = create_nil_reply,
#if HIREDIS_MAJOR >= 1
                                                    .createDouble = refuse_double,
                                                    .createBool = refuse_boolean,
#endif
                                                    .freeObject = free_reply_rooms};

/* ---- the functions of the header ---- */

bool redis_reader_open(struct redis_reader *reader, size_t max_reply_bytes, size_t max_elements)
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
    if (reader->refusal != NULL)
        return reader->refusal;
    if (reader->parser->err == 0)
        return "a reply larger than allowed";
    const char *refusal = refusal_of_quoted_byte(reader->parser->errstr);
    return refusal != NULL ? refusal : reader->parser->errstr;
}

bool redis_reply_is(const struct redisReply *reply, const char *text)
{
    return reply->type == REDIS_REPLY_STRING && reply->len == strlen(text) &&
           memcmp(reply->str, text, reply->len) == 0;
}

const struct redisReply *redis_reply_field(const struct redisReply *reply, const char *name)
{
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i + 1 < reply->elements; i += 2)
        if (redis_reply_is(reply->element[i], name))
            return reply->element[i + 1];
    return NULL;
}
