/* SPDX-License-Identifier: MIT */
/*
 * hit.h - what an entry that a lookup has found is good for. Pure; any thread with a chance of its own.
 */
#ifndef GUARD_HIT_H
#define GUARD_HIT_H

#include "../base/chance.h"
#include "../guard.h"

enum hit_verdict {
    HIT_NONE,    /* the core decides */
    HIT_ANSWER,  /* answer it */
    HIT_REFRESH, /* answer it, and refresh it in the background: it is stale */
    HIT_EARLY,   /* likewise, before it is */
};

/* Draws the lot of XFetch: is the value to be refreshed although it is fresh for left_ms more? */
bool hit_is_early(const struct guard_policy *policy, uint64_t load_us, uint32_t left_ms,
                  struct chance *chance);

/* Of an entry that is fresh, or stale and for a time of its own or not. */
enum hit_age { HIT_FRESH, HIT_STALE, HIT_STALE_OWN };

/* May an entry of this age answer at all? */
bool hit_serves(const struct guard_policy *policy, enum hit_age age);
/* No mark of a pass: that is no hit. load_us: how long the load of the entry took; left_ms: for how long it is fresh.
 * */
enum hit_verdict hit_judge(const struct guard_policy *policy, enum hit_age age, uint64_t load_us,
                           uint32_t left_ms, struct chance *chance);

#endif
