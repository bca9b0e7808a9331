/* SPDX-License-Identifier: MIT */
/* hot.c - see hot.h. */
#include "hot.h"
#include <stdlib.h>
#include <string.h>

static const uint32_t FNV_BASIS = 2166136261u, FNV_PRIME = 16777619u;

bool hot_init(struct hot *hot, size_t slots)
{
    *hot = (struct hot){.slots = calloc(slots, sizeof *hot->slots), .capacity = slots};
    return hot->slots != NULL;
}

void hot_clear(struct hot *hot)
{
    free(hot->slots);
    *hot = (struct hot){.count = 0};
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
        hot->slots[i].key.weight >>= shift;
        hot->slots[i].key.error >>= shift;
    }
}

static struct hot_slot *hot_find_slot(const struct hot *hot, const char *key, size_t bytes, uint32_t hash)
{
    for (struct hot_slot *slot = hot->slots; slot < hot->slots + hot->count; slot++)
        if (slot->hash == hash && strncmp(slot->key.key, key, bytes) == 0 && slot->key.key[bytes] == '\0')
            return slot;
    return NULL;
}

/* A vacant one, or that of the lightest. */
static struct hot_slot *hot_take_slot(struct hot *hot)
{
    struct hot_slot *lightest = hot->slots;
    if (hot->count < hot->capacity)
        return &hot->slots[hot->count++];
    for (size_t i = 1; i < hot->count; i++)
        if (hot->slots[i].key.weight < lightest->key.weight)
            lightest = &hot->slots[i];
    lightest->key.error = lightest->key.weight;
    return lightest;
}

void hot_add(struct hot *hot, uint64_t now_us, const char *key, struct guard_kind *kind, uint64_t weight)
{
    size_t bytes = strnlen(key, GUARD_HOT_KEY_BYTES - 1);
    uint32_t hash = FNV_BASIS;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ (uint8_t)key[i]) * FNV_PRIME;
    hot_halve(hot, now_us);
    struct hot_slot *slot = hot_find_slot(hot, key, bytes, hash);
    if (slot == NULL) {
        slot = hot_take_slot(hot);
        slot->hash = hash;
        slot->key.kind = kind;
        memcpy(slot->key.key, key, bytes);
        slot->key.key[bytes] = '\0';
    }
    slot->key.weight += weight;
}

static int hot_heavier_first(const void *left, const void *right)
{
    const struct hot_slot *a = *(const struct hot_slot *const *)left,
                          *b = *(const struct hot_slot *const *)right;
    return (a->key.weight < b->key.weight) - (a->key.weight > b->key.weight);
}

size_t hot_top(struct hot *hot, uint64_t now_us, struct guard_hot_key *out, size_t max)
{
    const struct hot_slot *ranked[HOT_SLOTS_MAX];
    size_t count = 0;
    hot_halve(hot, now_us);
    for (size_t i = 0; i < hot->count; i++)
        if (hot->slots[i].key.weight > 0)
            ranked[count++] = &hot->slots[i];
    qsort(ranked, count, sizeof *ranked, hot_heavier_first);
    count = count < max ? count : max;
    for (size_t i = 0; i < count; i++)
        out[i] = ranked[i]->key;
    return count;
}
