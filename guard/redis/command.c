/* SPDX-License-Identifier: MIT */
/*
 * redis/command.c - commands, and their bytes on the way out. See redis/command.h.
 *
 * The bytes of the buffer between begin and end are still to be written. Written ones are skipped, not moved; they go
 * when room is needed, or all at once when the buffer runs empty, which is what pipelining makes it do every turn.
 *
 * hiredis could format, too (redisFormatCommandArgv), but into a new allocation for each command, and counts
 * the bytes in an int.
 */
#include "command.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BUFFER_FIRST_BYTES = 4096,
    BUFFER_KEPT_BYTES = 1 << 20, /* an emptied buffer larger than this is given back */
    NUMBER_BYTES = 24,           /* "*" or "$", a size_t, CR LF */
};

/* ---- words ---- */

void redis_args_init(struct redis_args *args)
{
    args->count = args->key_count = args->used = 0;
}

char *redis_args_room(struct redis_args *args, size_t bytes)
{
    assert(args->used + bytes <= sizeof args->room);
    args->used += bytes;
    return args->room + args->used - bytes;
}

void redis_args_add(struct redis_args *args, const char *text, size_t bytes)
{
    assert(args->count < REDIS_SCRIPT_ARGS_MAX);
    args->at[args->count] = text;
    args->bytes[args->count++] = bytes;
}

void redis_args_key(struct redis_args *args, const char *name, size_t bytes)
{
    redis_args_add(args, name, bytes);
    args->key_count = args->count;
}

void redis_args_text(struct redis_args *args, const char *text)
{
    redis_args_add(args, text, strlen(text));
}

void redis_args_number(struct redis_args *args, uint64_t number)
{
    char *text = redis_args_room(args, NUMBER_BYTES);
    redis_args_add(args, text, (size_t)snprintf(text, NUMBER_BYTES, "%" PRIu64, number));
}

struct redis_words *redis_words_keep(size_t lent, size_t argc, const char *const *argv,
                                     const size_t *argv_bytes)
{
    struct redis_words *words;
    size_t bytes = sizeof *words + argc * (sizeof *argv + sizeof *argv_bytes);
    for (size_t i = lent; i < argc; i++)
        if (__builtin_add_overflow(bytes, argv_bytes[i], &bytes))
            return NULL;
    words = malloc(bytes);
    if (words == NULL)
        return NULL;
    words->argc = argc;
    words->argv = (const char **)(words + 1);
    words->argv_bytes = (size_t *)(words->argv + argc);
    char *to = (char *)(words->argv_bytes + argc);
    for (size_t i = 0; i < argc; i++) {
        words->argv[i] = i < lent ? argv[i] : to;
        words->argv_bytes[i] = argv_bytes[i];
        if (i >= lent && argv_bytes[i] > 0)
            memcpy(to, argv[i], argv_bytes[i]);
        to += i < lent ? 0 : argv_bytes[i];
    }
    return words;
}

/* ---- bytes on their way out ---- */

static bool reserve(struct redis_buffer *buffer, size_t more)
{
    size_t held = redis_buffer_bytes(buffer), size = buffer->size > 0 ? buffer->size : BUFFER_FIRST_BYTES;
    if (buffer->size - buffer->end >= more)
        return true;
    if (more > SIZE_MAX / 4 - held)
        return false;
    while (size < 2 * held || size < held + more)
        size *= 2;
    char *data = size > buffer->size ? malloc(size) : buffer->data;
    if (data == NULL)
        return false;
    if (held > 0)
        memmove(data, buffer->data + buffer->begin, held);
    if (data != buffer->data)
        redis_buffer_clear(buffer);
    *buffer = (struct redis_buffer){.data = data, .begin = 0, .end = held, .size = size};
    return true;
}

static char *put_line_end(char *at)
{
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

/* A type byte, a decimal number, CR LF: by hand, for this runs several times per command. */
static char *put_number(char *at, char type, size_t number)
{
    size_t digits = 1;
    *at++ = type;
    for (size_t rest = number; rest >= 10; rest /= 10)
        digits++;
    for (size_t i = digits; i-- > 0; number /= 10)
        at[i] = (char)('0' + number % 10);
    return put_line_end(at + digits);
}

static char *put_argument(char *at, const char *argument, size_t bytes)
{
    at = put_number(at, '$', bytes);
    if (bytes > 0)
        memcpy(at, argument, bytes);
    return put_line_end(at + bytes);
}

bool redis_buffer_command(struct redis_buffer *buffer, size_t argc, const char *const *argv,
                          const size_t *argv_bytes)
{
    size_t bytes = NUMBER_BYTES;
    for (size_t i = 0; i < argc; i++)
        if (__builtin_add_overflow(bytes, argv_bytes[i], &bytes) ||
            __builtin_add_overflow(bytes, NUMBER_BYTES + 2, &bytes))
            return false;
    if (!reserve(buffer, bytes))
        return false;
    char *at = put_number(buffer->data + buffer->end, '*', argc);
    for (size_t i = 0; i < argc; i++)
        at = put_argument(at, argv[i], argv_bytes[i]);
    buffer->end = (size_t)(at - buffer->data);
    return true;
}

void redis_buffer_consume(struct redis_buffer *buffer, size_t bytes)
{
    assert(bytes <= redis_buffer_bytes(buffer));
    buffer->begin += bytes;
    if (buffer->begin < buffer->end)
        return;
    buffer->begin = buffer->end = 0;
    if (buffer->size > BUFFER_KEPT_BYTES)
        redis_buffer_clear(buffer);
}

void redis_buffer_clear(struct redis_buffer *buffer)
{
    if (buffer->data != NULL)
        explicit_bzero(buffer->data, buffer->size);
    free(buffer->data);
    *buffer = (struct redis_buffer){.data = NULL};
}
