/* SPDX-License-Identifier: MIT */
/* tag_memory.c - see tag_memory.h. */
#include "tag_memory.h"
#include <stdlib.h>
#include <string.h>

enum { PLACES = 1024 }; /* 128 KiB */

struct remembered {
    uint64_t key_hash;
    uint8_t bytes;
    char tags[TAG_MEMORY_TEXT_MAX];
};

struct tag_memory {
    struct remembered places[PLACES];
};

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
    struct remembered *place = &memory->places[key_hash % PLACES];
    place->key_hash = key_hash;
    place->bytes = bytes <= TAG_MEMORY_TEXT_MAX ? (uint8_t)bytes : 0;
    if (place->bytes > 0)
        memcpy(place->tags, tags, place->bytes);
}

size_t tag_memory_get(const struct tag_memory *memory, uint64_t key_hash, const char **tags)
{
    if (memory == NULL || memory->places[key_hash % PLACES].key_hash != key_hash)
        return 0;
    *tags = memory->places[key_hash % PLACES].tags;
    return memory->places[key_hash % PLACES].bytes;
}
