/* SPDX-License-Identifier: MIT */
/* tag_memory.c - see tag_memory.h. */
#include "tag_memory.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { SETS = 4096, WAYS = TAG_MEMORY_KEYS / SETS }; /* 2 MiB, of which the system gives what is used */

struct remembered {
    uint64_t key_hash;
    uint8_t bytes; /* 0: nothing */
    char tags[TAG_MEMORY_TEXT_MAX];
};

struct tag_memory {
    struct remembered places[SETS][WAYS];
    unsigned next_victim;
};

static struct remembered *recalled(struct tag_memory *memory, uint64_t key_hash)
{
    struct remembered *set = memory->places[key_hash % SETS];
    for (size_t way = 0; way < WAYS; way++)
        if (set[way].bytes > 0 && set[way].key_hash == key_hash)
            return &set[way];
    return NULL;
}

/* A free place, or else the one that is next to be taken over. */
static struct remembered *place_to_take(struct tag_memory *memory, uint64_t key_hash)
{
    struct remembered *set = memory->places[key_hash % SETS];
    for (size_t way = 0; way < WAYS; way++)
        if (set[way].bytes == 0)
            return &set[way];
    return &set[memory->next_victim++ % WAYS];
}

struct tag_memory *tag_memory_new(void)
{
    return calloc(1, sizeof(struct tag_memory));
}

void tag_memory_free(struct tag_memory **memory)
{
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
    place->key_hash = key_hash;
    place->bytes = fits ? (uint8_t)bytes : 0;
    memcpy(place->tags, tags, place->bytes);
}

void tag_memory_remember(struct tag_memory **memory, uint64_t key_hash, const char *tags, size_t bytes)
{
    if (*memory == NULL)
        *memory = tag_memory_new();
    tag_memory_put(*memory, key_hash, tags, bytes);
}

size_t tag_memory_get(struct tag_memory *memory, uint64_t key_hash, const char **tags)
{
    const struct remembered *place = memory != NULL ? recalled(memory, key_hash) : NULL;
    if (place == NULL)
        return 0;
    *tags = place->tags;
    return place->bytes;
}
