/* SPDX-License-Identifier: MIT */
/*
 * hot.h - the keys that weigh most, in bounded memory: Space-Saving (Metwally, Agrawal, El Abbadi, "Efficient
 * Computation of Frequent and Top-k Elements in Data Streams", ICDT 2005).
 *
 * A key that has no slot takes that of the lightest, weight and all, and notes what it took over as its possible
 * error. So no weight is underestimated, and with n slots every key that weighs more than 1/n of the sum has one. All
 * weights halve every HOT_HALF_LIFE_MS: what was hot yesterday makes room.
 *
 * An addition looks at every slot, hash first: what is added is a miss, never a hit.
 *
 * No I/O, no clock; memory only in hot_init(). Threads: none.
 */
#pragma once

#include "../guard.h"
#include <stddef.h>
#include <stdint.h>

enum { HOT_SLOTS = 64 /* unless said otherwise */, HOT_SLOTS_MAX = 256, HOT_HALF_LIFE_MS = 60000 };

struct hot_slot {
    struct guard_hot_key key;
    uint32_t hash;
};

struct hot {
    struct hot_slot *slots; /* owned, `count` of `capacity` in use */
    size_t count, capacity;
    uint64_t halved_us;
};

/* slots: 1..HOT_SLOTS_MAX. False: no memory. */
bool hot_init(struct hot *hot, size_t slots);
void hot_clear(struct hot *hot);
/* Keys are cut to what a slot holds. The kind is that of the one that took the slot. */
void hot_add(struct hot *hot, uint64_t now_us, const char *key, struct guard_kind *kind, uint64_t weight);
/* The heaviest first; returns how many. */
size_t hot_top(struct hot *hot, uint64_t now_us, struct guard_hot_key *out, size_t max);
