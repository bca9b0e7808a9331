/* SPDX-License-Identifier: MIT */
/* hot.c - see hot.h. */
#include "hot.h"
#include <stdlib.h>
#include <string.h>

static const uint32_t FNV_BASIS = 2166136261u, FNV_PRIME = 16777619u;

static uint32_t hot_hash(const char *key, size_t bytes)
{
    uint32_t hash = FNV_BASIS;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ (uint8_t)key[i]) * FNV_PRIME;
    return hash;
}

static void hot_halve(struct hot *hot, uint64_t now_us)
{
    const uint64_t half_life_us = (uint64_t)HOT_HALF_LIFE_MS * 1000;
    if (hot->halved_us == 0)
        hot->halved_us = now_us;
    if (now_us < hot->halved_us + half_life_us)
        return; /* also if another thread, which read the clock later, was here first */
    uint64_t times = (now_us - hot->halved_us) / half_life_us;
    hot->halved_us += times * half_life_us;
    unsigned shift = times < 63 ? (unsigned)times : 63;
    for (size_t i = 0; i < hot->count; i++) {
        hot->slots[i].weight >>= shift;
        hot->slots[i].error >>= shift;
    }
}

static size_t hot_lightest(const struct hot *hot)
{
    size_t found = 0;
    for (size_t i = 1; i < hot->count; i++) {
        if (hot->slots[i].weight < hot->slots[found].weight)
            found = i;
    }
    return found;
}

/* The key's own slot, or one that it takes over. */
static struct guard_hot_key *hot_slot(struct hot *hot, const char *key, size_t bytes)
{
    uint32_t hash = hot_hash(key, bytes);
    for (size_t i = 0; i < hot->count; i++) {
        const char *other = hot->slots[i].key;
        if (hot->hashes[i] == hash && strncmp(other, key, bytes) == 0 && other[bytes] == '\0')
            return &hot->slots[i];
    }
    bool vacant = hot->count < HOT_SLOTS;
    size_t at = vacant ? hot->count++ : hot_lightest(hot);
    struct guard_hot_key *slot = &hot->slots[at];
    hot->hashes[at] = hash;
    memcpy(slot->key, key, bytes);
    slot->key[bytes] = '\0';
    slot->error = vacant ? 0 : slot->weight;
    return slot;
}

void hot_add(struct hot *hot, uint64_t now_us, const char *key, uint64_t weight)
{
    hot_halve(hot, now_us);
    hot_slot(hot, key, strnlen(key, GUARD_HOT_KEY_BYTES - 1))->weight += weight;
}

static int heavier_first(const void *left, const void *right)
{
    const struct guard_hot_key *a = left, *b = right;
    return (a->weight < b->weight) - (a->weight > b->weight);
}

size_t hot_top(struct hot *hot, uint64_t now_us, struct guard_hot_key *out, size_t max)
{
    struct guard_hot_key sorted[HOT_SLOTS];
    hot_halve(hot, now_us);
    size_t count = hot->count < max ? hot->count : max;
    if (hot->count == 0)
        return 0;
    memcpy(sorted, hot->slots, hot->count * sizeof *sorted);
    qsort(sorted, hot->count, sizeof *sorted, heavier_first);
    while (count > 0 && sorted[count - 1].weight == 0)
        count--;
    memcpy(out, sorted, count * sizeof *sorted);
    return count;
}
