/* SPDX-License-Identifier: MIT */
/* tag_memory.c - see tag_memory.h. */
#include "tag_memory.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { SETS = 4096, WAYS = TAG_MEMORY_KEYS / SETS }; /* 2 MiB, of which the system gives what is used */

/* What is looked at first stands together. */
struct set {
    uint64_t key_hash[WAYS];
    uint8_t bytes[WAYS]; /* 0: nothing */
    char tags[WAYS][TAG_MEMORY_TEXT_MAX];
};

struct tag_memory {
    struct set sets[SETS];
    unsigned next_victim;
};

static size_t set_of(uint64_t key_hash)
{
    return (size_t)(key_hash % SETS);
}

/* WAYS: it is not remembered. */
static size_t recalled(const struct set *set, uint64_t key_hash)
{
    size_t way = 0;
    while (way < WAYS && (set->bytes[way] == 0 || set->key_hash[way] != key_hash))
        way++;
    return way;
}

/* A free place, or else the one that is next to be taken over. */
static size_t place_to_take(struct tag_memory *memory, const struct set *set)
{
    for (size_t way = 0; way < WAYS; way++)
        if (set->bytes[way] == 0)
            return way;
    return memory->next_victim++ % WAYS;
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
    struct set *set = &memory->sets[set_of(key_hash)];
    size_t way = recalled(set, key_hash);
    bool fits = bytes > 0 && bytes <= TAG_MEMORY_TEXT_MAX;
    if (way == WAYS && fits)
        way = place_to_take(memory, set);
    if (way == WAYS)
        return;
    set->key_hash[way] = key_hash;
    set->bytes[way] = fits ? (uint8_t)bytes : 0;
    memcpy(set->tags[way], tags, set->bytes[way]);
}

void tag_memory_remember(struct tag_memory **memory, uint64_t key_hash, const char *tags, size_t bytes)
{
    if (*memory == NULL)
        *memory = tag_memory_new();
    tag_memory_put(*memory, key_hash, tags, bytes);
}

size_t tag_memory_get(struct tag_memory *memory, uint64_t key_hash, const char **tags)
{
    if (memory == NULL)
        return 0;
    const struct set *set = &memory->sets[set_of(key_hash)];
    size_t way = recalled(set, key_hash);
    if (way == WAYS)
        return 0;
    *tags = set->tags[way];
    return set->bytes[way];
}

void tag_memory_expect(const struct tag_memory *memory, uint64_t key_hash)
{
    if (memory == NULL)
        return;
    const struct set *set = &memory->sets[set_of(key_hash)];
    __builtin_prefetch(set->key_hash);
    __builtin_prefetch(set->tags[0] +
                       sizeof set->tags[0] / 2); /* the first place's; a set seldom holds more */
}
