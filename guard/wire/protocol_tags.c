/* SPDX-License-Identifier: MIT */
/* protocol_tags.c - see protocol_tags.h. */
#include "protocol_tags.h"
#include "scripts.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    WORDS_MAX = 2 + GUARD_TAGS_MAX + 1, /* MGET or the clock, the tags, two numbers */
    TAG_MESSAGE_SIZE = TAGS_ENCODED_MAX + 8,
};

/* The words of a command, with room for the names in it. */
struct words {
    const char *at[WORDS_MAX];
    size_t bytes[WORDS_MAX];
    size_t count;
    char names[1 + GUARD_TAGS_MAX][KEY_NAME_SIZE];
    size_t name_count;
};

static void add_word_of(struct words *words, const char *text, size_t bytes)
{
    assert(words->count < WORDS_MAX);
    words->at[words->count] = text;
    words->bytes[words->count++] = bytes;
}

static void add_clock_name(struct words *words, const struct protocol *protocol)
{
    char *name = words->names[words->name_count++];
    add_word_of(words, name, key_tag_clock(protocol->name_space, name));
}

static void add_tag_names(struct words *words, const struct protocol *protocol, const char *text,
                          size_t bytes)
{
    struct tag tags[GUARD_TAGS_MAX];
    int count = tags_split(text, bytes, tags);
    for (int i = 0; i < count; i++) {
        char *name = words->names[words->name_count++];
        add_word_of(words, name, key_tag(protocol->name_space, tags[i].at, tags[i].bytes, name));
    }
}

static size_t print_span(uint32_t ms, char out[16])
{
    return (size_t)snprintf(out, 16, "%" PRIu32, ms);
}

bool protocol_send_clock(const struct protocol *protocol, struct redis *redis, redis_replied *replied,
                         void *context)
{
    char most_ms[16];
    struct words words = {.count = 0};
    add_clock_name(&words, protocol);
    add_word_of(&words, most_ms, print_span(protocol->max_value_ms, most_ms));
    return redis_run(redis, SCRIPT_TAG_CLOCK, 1, words.count, words.at, words.bytes, replied, context);
}

bool protocol_send_keep(const struct protocol *protocol, struct redis *redis, const char *tags,
                        size_t tags_bytes, const struct tags_clock *born, redis_replied *replied,
                        void *context)
{
    char most_ms[16], born_text[TAGS_CLOCK_BYTES + 1];
    struct words words = {.count = 0};
    add_clock_name(&words, protocol);
    add_tag_names(&words, protocol, tags, tags_bytes);
    size_t key_count = words.count;
    tags_clock_write(born, born_text);
    add_word_of(&words, born_text, TAGS_CLOCK_BYTES);
    add_word_of(&words, most_ms, print_span(protocol->max_value_ms, most_ms));
    return redis_run(redis, SCRIPT_TAG_KEEP, key_count, words.count, words.at, words.bytes, replied, context);
}

bool protocol_send_check(const struct protocol *protocol, struct redis *redis, const char *tags,
                         size_t tags_bytes, redis_replied *replied, void *context)
{
    struct words words = {.count = 0};
    add_word_of(&words, "MGET", 4);
    add_tag_names(&words, protocol, tags, tags_bytes);
    return redis_send(redis, words.count, words.at, words.bytes, replied, context);
}

bool protocol_send_tag_invalidation(const struct protocol *protocol, struct redis *redis,
                                    const struct core_key *tag, redis_replied *replied, void *context)
{
    char most_ms[16], message[TAG_MESSAGE_SIZE];
    struct words words = {.count = 0};
    add_clock_name(&words, protocol);
    add_tag_names(&words, protocol, tag->encoded, tag->encoded_bytes);
    add_word_of(&words, most_ms, print_span(protocol->max_value_ms, most_ms));
    add_word_of(&words, protocol->channel, strlen(protocol->channel));
    int bytes = snprintf(message, sizeof message, "t - %s", tag->encoded);
    add_word_of(&words, message, (size_t)bytes);
    return redis_run(redis, SCRIPT_TAG_INVALIDATE, 2, words.count, words.at, words.bytes, replied, context);
}

/* ---- replies ---- */

/* Nil, an error or anything else is no clock. */
static struct tags_clock clock_of(const struct redisReply *reply)
{
    struct tags_clock clock = {0, 0};
    if (reply->type == REDIS_REPLY_STRING)
        tags_clock_read(reply->str, reply->len, &clock);
    return clock;
}

struct tags_clock protocol_read_clock(enum redis_outcome outcome, const struct redisReply *reply)
{
    return outcome == REDIS_REPLIED ? clock_of(reply) : (struct tags_clock){0, 0};
}

bool protocol_read_keep(enum redis_outcome outcome, const struct redisReply *reply)
{
    return outcome == REDIS_REPLIED && reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
}

struct tags_epochs protocol_read_epochs(enum redis_outcome outcome, const struct redisReply *reply)
{
    struct tags_epochs epochs = {.answered = outcome == REDIS_REPLIED};
    if (!epochs.answered || reply->type != REDIS_REPLY_ARRAY || reply->elements > GUARD_TAGS_MAX)
        return epochs;
    epochs.count = reply->elements;
    for (size_t i = 0; i < epochs.count; i++)
        epochs.of[i] = clock_of(reply->element[i]);
    return epochs;
}
