/* SPDX-License-Identifier: MIT */
/*
 * keep.h - how long an entry lives, and what it is good for when a lookup finds it. Pure; any thread, with a chance of
 * its own.
 *
 * It lives as its loader has said (guard_load_keep()), else as the policy says.
 * The loader's numbers travel with the entry. The fresh time travels as it was said, before jitter: a value that is
 * found unchanged begins it anew, and would live shorter each time if it began the jittered one. The stale time
 * decides for every reader. What the loader has not said is the policy's of each fill, and of each reader.
 */
#ifndef GUARD_KEEP_H
#define GUARD_KEEP_H

#include "../base/chance.h"
#include "../guard.h"

/* ---- how long it lives ---- */

/* What its loader has said about the life of one entry. */
struct entry_life {
    bool own_fresh, own_stale; /* false: nothing, it is the policy's */
    uint32_t fresh_ms, stale_ms;
};

/* In numbers, before jitter. */
struct spans {
    uint32_t fresh_ms, stale_ms;
    bool cut; /* they were more than max_value_ms */
};

/* keep: what the loader has said, NULL: nothing. previous: the life of the value that it found unchanged, which goes
 * on unless it has said something; NULL: it has loaded another one. */
struct entry_life keep_life(const struct guard_keep *keep, const struct entry_life *previous);

struct spans keep_spans(const struct entry_life *life, const struct guard_policy *policy, bool absent,
                        uint32_t max_value_ms);

/* Of the mark of a pass; in fresh_ms. */
struct spans keep_pass_spans(const struct guard_keep *keep, const struct guard_policy *policy,
                             uint32_t max_value_ms);

/* A reader with this policy may have an entry that is stale; own: for a time of its own. */
static inline bool keep_serves_stale(const struct guard_policy *policy, bool own_stale)
{
    return own_stale || policy->stale_ms > 0;
}

/* ---- what it is good for ---- */

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
/* No mark of a pass: that is no hit. load_us: how long the entry's load took; left_ms: for how long it is fresh. */
enum hit_verdict hit_judge(const struct guard_policy *policy, enum hit_age age, uint64_t load_us,
                           uint32_t left_ms, struct chance *chance);

#endif
