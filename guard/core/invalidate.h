/* SPDX-License-Identifier: MIT */
/*
 * invalidate.h - invalidations, repeated until Redis says that they have happened or their deadline is over.
 * core_invalidate() and core_next_invalidated() are in core.h; this is private to the room.
 */
#ifndef GUARD_INVALIDATE_H
#define GUARD_INVALIDATE_H

#include "core.h"

/* Of an invalidation of this key or tag. */
unsigned invalidation_shard(const struct core *core, bool of_tag, const struct core_key *key);
/* Nothing happens if the op is of no invalidation. */
void invalidation_replied(struct core *core, uint64_t op, const struct core_reply *reply);
/* The next attempt is due, or the deadline is over. */
void invalidation_alarm(struct core *core, struct core_invalidation *invalidation);
/* Hands it to the owner with this result. */
void invalidation_answer(struct core *core, struct core_invalidation *invalidation, enum guard_status status);

#endif
