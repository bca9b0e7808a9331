/* SPDX-License-Identifier: MIT */
/* tag_memory.c - see tag_memory.h. */
#include "tag_memory.h"
#include "../base/table.h"
#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { WAYS = 8, SETS = TAG_MEMORY_KEYS / WAYS };

/* Tags, once for all keys that have them. */
struct tag_text {
    UT_hash_handle hh;
    uint32_t keys; /* how many have them */
    uint8_t bytes;
    bool unlisted; /* the table had no memory for it */
    char tags[];
};

struct remembered {
    uint64_t key_hash;
    struct tag_text *text; /* NULL: nothing */
};

struct tag_memory {
    uint8_t hash_key[DIGEST_KEY_BYTES];
    struct tag_text *texts;
    unsigned next_victim;
    struct remembered places[SETS][WAYS];
};

/* ---- texts ---- */

static struct tag_text *new_text(struct tag_memory *memory, unsigned hash, const char *tags, size_t bytes)
{
    struct tag_text *text = calloc(1, sizeof *text + bytes);
    if (text == NULL)
        return NULL;
    text->bytes = (uint8_t)bytes;
    memcpy(text->tags, tags, bytes);
    HASH_ADD_BYHASHVALUE(hh, memory->texts, tags, bytes, hash, text);
    if (!text->unlisted)
        return text;
    free(text);
    return NULL;
}

/* For one key more. NULL: no memory. */
static struct tag_text *share_text(struct tag_memory *memory, const char *tags, size_t bytes)
{
    struct tag_text *text = NULL;
    unsigned hash = (unsigned)digest_siphash(memory->hash_key, tags, bytes);
    HASH_FIND_BYHASHVALUE(hh, memory->texts, tags, bytes, hash, text);
    if (text == NULL)
        text = new_text(memory, hash, tags, bytes);
    if (text != NULL)
        text->keys++;
    return text;
}

static void drop_text(struct tag_memory *memory, struct tag_text *text)
{
    if (text == NULL || --text->keys > 0)
        return;
    HASH_DEL(memory->texts, text);
    free(text);
}

/* ---- places ---- */

static struct remembered *recalled(struct tag_memory *memory, uint64_t key_hash)
{
    struct remembered *set = memory->places[key_hash % SETS];
    for (size_t way = 0; way < WAYS; way++)
        if (set[way].key_hash == key_hash && set[way].text != NULL)
            return &set[way];
    return NULL;
}

/* A free place, or else the one that is next to be taken over. */
static struct remembered *place_to_take(struct tag_memory *memory, uint64_t key_hash)
{
    struct remembered *set = memory->places[key_hash % SETS];
    for (size_t way = 0; way < WAYS; way++)
        if (set[way].text == NULL)
            return &set[way];
    return &set[memory->next_victim++ % WAYS];
}

struct tag_memory *tag_memory_new(const uint8_t hash_key[DIGEST_KEY_BYTES])
{
    struct tag_memory *memory = calloc(1, sizeof *memory);
    if (memory != NULL)
        memcpy(memory->hash_key, hash_key, sizeof memory->hash_key);
    return memory;
}

void tag_memory_free(struct tag_memory **memory)
{
    if (*memory == NULL)
        return;
    for (size_t set = 0; set < SETS && (*memory)->texts != NULL; set++)
        for (size_t way = 0; way < WAYS; way++)
            drop_text(*memory, (*memory)->places[set][way].text);
    assert((*memory)->texts == NULL);
    free(*memory);
    *memory = NULL;
}

void tag_memory_put(struct tag_memory *memory, uint64_t key_hash, const char *tags, size_t bytes)
{
    if (memory == NULL)
        return;
    struct remembered *place = recalled(memory, key_hash);
    bool fits = bytes > 0 && bytes <= TAG_MEMORY_TEXT_MAX;
    if (place == NULL && fits)
        place = place_to_take(memory, key_hash);
    if (place == NULL)
        return;
    struct tag_text *text = fits ? share_text(memory, tags, bytes) : NULL;
    drop_text(memory, place->text);
    *place = (struct remembered){key_hash, text};
}

void tag_memory_remember(struct tag_memory **memory, const uint8_t hash_key[DIGEST_KEY_BYTES],
                         uint64_t key_hash, const char *tags, size_t bytes)
{
    if (*memory == NULL)
        *memory = tag_memory_new(hash_key);
    tag_memory_put(*memory, key_hash, tags, bytes);
}

size_t tag_memory_get(struct tag_memory *memory, uint64_t key_hash, const char **tags)
{
    const struct remembered *place = memory != NULL ? recalled(memory, key_hash) : NULL;
    if (place == NULL)
        return 0;
    *tags = place->text->tags;
    return place->text->bytes;
}
