/* SPDX-License-Identifier: MIT */
/*
 * keep.h - how long an entry lives: as its loader has said (guard_load_keep()), else as the policy says. Pure; any
 * thread.
 *
 * The loader's numbers travel with the entry. The fresh time travels as it was said, before jitter: a value that is
 * found unchanged begins it anew, and would live shorter each time if it began the jittered one. The stale time
 * decides for every reader. What the loader has not said is the policy's of each fill, and of each reader.
 */
#ifndef GUARD_KEEP_H
#define GUARD_KEEP_H

#include "../guard.h"

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

#endif
