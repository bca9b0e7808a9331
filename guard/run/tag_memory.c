/* SPDX-License-Identifier: MIT */
/* tag_memory.c - see tag_memory.h. */
#include "tag_memory.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { WAYS = 8, SETS = TAG_MEMORY_KEYS / WAYS };

struct tag_text {
    uint8_t bytes;
    char tags[];
};

struct remembered {
    uint64_t key_hash;
    struct tag_text *text; /* owned; NULL: nothing */
};

struct tag_memory {
    unsigned next_victim;
    struct remembered places[SETS][WAYS];
};

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

void tag_memory_free(struct tag_memory **memory)
{
    for (size_t set = 0; set < SETS && *memory != NULL; set++)
        for (size_t way = 0; way < WAYS; way++)
            free((*memory)->places[set][way].text);
    free(*memory);
    *memory = NULL;
}

void tag_memory_put(struct tag_memory *memory, uint64_t key_hash, const char *tags, size_t bytes)
{
    bool fits = bytes > 0 && bytes <= TAG_MEMORY_TEXT_MAX;
    struct remembered *place = memory != NULL ? recalled(memory, key_hash) : NULL;
    if (place == NULL && memory != NULL && fits)
        place = place_to_take(memory, key_hash);
    if (place == NULL)
        return;
    struct tag_text *text = fits ? malloc(sizeof *text + bytes) : NULL;
    if (text != NULL) {
        text->bytes = (uint8_t)bytes;
        memcpy(text->tags, tags, bytes);
    }
    free(place->text);
    *place = (struct remembered){key_hash, text};
}

void tag_memory_remember(struct tag_memory **memory, uint64_t key_hash, const char *tags, size_t bytes)
{
    if (*memory == NULL)
        *memory = calloc(1, sizeof **memory);
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
