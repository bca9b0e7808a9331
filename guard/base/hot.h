/* SPDX-License-Identifier: MIT */
/*
 * hot.h - the keys that weigh most, in bounded memory: Space-Saving (Metwally, Agrawal, El Abbadi, "Efficient
 * Computation of Frequent and Top-k Elements in Data Streams", ICDT 2005).
 *
 * A key that has no slot takes that of the lightest, weight and all, and notes what it took over as its possible
 * error. So no weight is underestimated, and every key that weighs more than 1/HOT_SLOTS of the sum has a slot. All
 * weights halve every HOT_HALF_LIFE_MS: what was hot yesterday makes room.
 *
 * No I/O, no clock, no allocation. Threads: none.
 */
#ifndef GUARD_HOT_H
#define GUARD_HOT_H

#include "../guard.h"
#include <stddef.h>
#include <stdint.h>

enum { HOT_SLOTS = 64, HOT_HALF_LIFE_MS = 60000 };

/* All zeros is empty. */
struct hot {
    struct guard_hot_key slots[HOT_SLOTS];
    uint32_t hashes[HOT_SLOTS]; /* of their keys */
    size_t count;
    uint64_t halved_us;
};

/* Keys are cut to what a slot holds. */
void hot_add(struct hot *hot, uint64_t now_us, const char *key, uint64_t weight);
/* The heaviest first; returns how many. */
size_t hot_top(struct hot *hot, uint64_t now_us, struct guard_hot_key *out, size_t max);

#endif
