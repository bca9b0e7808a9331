/* SPDX-License-Identifier: MIT */
/* hot.c - see hot.h. */
#include "hot.h"
#include <stdlib.h>
#include <string.h>

static const uint32_t FNV_BASIS = 2166136261u, FNV_PRIME = 16777619u;

bool hot_init(struct hot *hot, size_t slots)
{
    *hot = (struct hot){.capacity = slots, .bucket_count = 64};
    while (hot->bucket_count < slots)
        hot->bucket_count *= 2;
    hot->slots = calloc(slots, sizeof *hot->slots);
    hot->ranks = calloc(slots, sizeof *hot->ranks);
    hot->heap = calloc(slots, sizeof *hot->heap);
    hot->buckets = calloc(hot->bucket_count, sizeof *hot->buckets);
    return hot->slots != NULL && hot->ranks != NULL && hot->heap != NULL && hot->buckets != NULL;
}

void hot_clear(struct hot *hot)
{
    free(hot->slots);
    free(hot->ranks);
    free(hot->heap);
    free(hot->buckets);
    *hot = (struct hot){.count = 0};
}

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
        hot->slots[i].key.weight >>= shift;
        hot->slots[i].key.error >>= shift;
    }
}

/* ---- the heap: the lightest slot is the first ---- */

static uint64_t hot_weight_at(const struct hot *hot, size_t at)
{
    return hot->slots[hot->heap[at]].key.weight;
}

static void hot_put_in_heap(struct hot *hot, size_t at, uint16_t slot)
{
    hot->heap[at] = slot;
    hot->slots[slot].heap_at = (uint16_t)at;
}

static size_t hot_lighter_child(const struct hot *hot, size_t at)
{
    size_t child = 2 * at + 1;
    return child + 1 < hot->count && hot_weight_at(hot, child + 1) < hot_weight_at(hot, child) ? child + 1
                                                                                               : child;
}

/* It has become heavier. */
static void hot_sink(struct hot *hot, size_t at)
{
    uint16_t slot = hot->heap[at];
    uint64_t weight = hot_weight_at(hot, at);
    size_t child = hot_lighter_child(hot, at);
    while (child < hot->count && hot_weight_at(hot, child) < weight) {
        hot_put_in_heap(hot, at, hot->heap[child]);
        at = child;
        child = hot_lighter_child(hot, at);
    }
    hot_put_in_heap(hot, at, slot);
}

/* A new one, which weighs nothing yet. */
static void hot_rise(struct hot *hot, size_t at)
{
    uint16_t slot = hot->heap[at];
    while (at > 0 && hot_weight_at(hot, (at - 1) / 2) > hot->slots[slot].key.weight) {
        hot_put_in_heap(hot, at, hot->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    hot_put_in_heap(hot, at, slot);
}

/* ---- the table ---- */

static uint16_t *hot_bucket_of(const struct hot *hot, uint32_t hash)
{
    return &hot->buckets[hash % hot->bucket_count];
}

static struct hot_slot *hot_find_slot(const struct hot *hot, const char *key, size_t bytes, uint32_t hash)
{
    for (size_t next = *hot_bucket_of(hot, hash); next != 0; next = hot->slots[next - 1].next) {
        struct hot_slot *slot = &hot->slots[next - 1];
        if (slot->hash == hash && strncmp(slot->key.key, key, bytes) == 0 && slot->key.key[bytes] == '\0')
            return slot;
    }
    return NULL;
}

static void hot_leave_bucket(struct hot *hot, size_t slot)
{
    uint16_t *at = hot_bucket_of(hot, hot->slots[slot].hash);
    while (*at != slot + 1)
        at = &hot->slots[*at - 1].next;
    *at = hot->slots[slot].next;
}

static void hot_join_bucket(struct hot *hot, size_t slot)
{
    uint16_t *bucket = hot_bucket_of(hot, hot->slots[slot].hash);
    hot->slots[slot].next = *bucket;
    *bucket = (uint16_t)(slot + 1);
}

/* A vacant one, or that of the lightest. */
static size_t hot_take_slot(struct hot *hot)
{
    if (hot->count < hot->capacity) {
        size_t slot = hot->count++;
        hot_put_in_heap(hot, slot, (uint16_t)slot);
        hot_rise(hot, slot);
        return slot;
    }
    size_t slot = hot->heap[0];
    hot_leave_bucket(hot, slot);
    hot->slots[slot].key.error = hot->slots[slot].key.weight;
    return slot;
}

static struct hot_slot *hot_new_slot(struct hot *hot, const char *key, size_t bytes, uint32_t hash)
{
    size_t at = hot_take_slot(hot);
    struct hot_slot *slot = &hot->slots[at];
    slot->hash = hash;
    memcpy(slot->key.key, key, bytes);
    slot->key.key[bytes] = '\0';
    hot_join_bucket(hot, at);
    return slot;
}

/* ---- adding, and asking ---- */

void hot_add(struct hot *hot, uint64_t now_us, const char *key, struct guard_kind *kind, uint64_t weight)
{
    size_t bytes = strnlen(key, GUARD_HOT_KEY_BYTES - 1);
    uint32_t hash = hot_hash(key, bytes);
    hot_halve(hot, now_us);
    struct hot_slot *slot = hot_find_slot(hot, key, bytes, hash);
    if (slot == NULL) {
        slot = hot_new_slot(hot, key, bytes, hash);
        slot->key.kind = kind;
    }
    slot->key.weight += weight;
    hot_sink(hot, slot->heap_at);
}

static int hot_heavier_first(const void *left, const void *right)
{
    const struct hot_rank *a = left, *b = right;
    return (a->weight < b->weight) - (a->weight > b->weight);
}

size_t hot_top(struct hot *hot, uint64_t now_us, struct guard_hot_key *out, size_t max)
{
    size_t ranked = 0, count = 0;
    hot_halve(hot, now_us);
    for (size_t i = 0; i < hot->count; i++)
        if (hot->slots[i].key.weight > 0)
            hot->ranks[ranked++] = (struct hot_rank){hot->slots[i].key.weight, i};
    qsort(hot->ranks, ranked, sizeof *hot->ranks, hot_heavier_first);
    for (; count < ranked && count < max; count++)
        out[count] = hot->slots[hot->ranks[count].slot].key;
    return count;
}
