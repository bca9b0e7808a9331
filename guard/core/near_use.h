/* SPDX-License-Identifier: MIT */
/*
 * near_use.h - when the near cache is asked, filled and dropped. What its promise of freshness rests on:
 *
 *     near_answer()                a hit, or a lookup is made:
 *     near_look_up()               before it is sent, for a message that came earlier cannot be missed
 *     near_keep()                  its answer has come; kept for near_ms from when it was sent
 *     near_invalidation_begins()   this process invalidates: what it has looked up so far is gone
 *     near_invalidation_ends()     and what somebody looked up before the deletion ran in Redis
 *     near_heard()                 another process has done so, with a key or
 *     near_heard_tag()             a tag
 *     near_subscribed()            without the subscription nobody hears of it
 *     near_reign_ended()           what another master said, or one that is none any more
 *
 * So a process reads its own invalidations at once, another one when the message arrives, and no one later than
 * near_ms after the invalidation returned: a lookup that found the old row was sent before that. A message may be
 * lost, late or doubled, the subscription lost unnoticed.
 *
 * `near` NULL: there is no near cache, nothing happens. Keys are encoded (key.h).
 *
 * Threads  any.
 * Time     now_us is the guard's clock.
 */
#ifndef GUARD_NEAR_USE_H
#define GUARD_NEAR_USE_H

#include "near.h"

/* One on its way. */
struct near_lookup {
    struct near *near;
    const char *key; /* lent until the answer has come */
    size_t key_bytes;
    uint64_t token, stamp, sent_us;
};

/* True: *out is set, a reference to its value yours. Its age is rounded up. */
bool near_answer(struct near *near, const char *key, size_t key_bytes, uint64_t now_us,
                 struct guard_result *out);

struct near_lookup near_look_up(struct near *near, const char *key, size_t key_bytes, uint64_t now_us);
/* near_ms 0: it is not kept. `found` is fresh, its value `value`, which is referred to; if it is absent, NULL or no
 * more than its tags. */
void near_keep(const struct near_lookup *lookup, uint32_t near_ms, struct value *value,
               const struct guard_result *found);

/* of_tag: of all entries that have it, and `key` is the encoded tag. */
void near_invalidation_begins(struct near *near, bool of_tag, const char *key, size_t key_bytes);
/* Confirmed or not, before anybody is told. */
void near_invalidation_ends(struct near *near, bool of_tag, const char *key, size_t key_bytes);

/* A message about this key has arrived. invalidated: not of a fill or a release, which change no row. */
void near_heard(struct near *near, bool invalidated, const char *key, size_t key_bytes);
void near_heard_tag(struct near *near, const char *tag, size_t tag_bytes);

/* The subscription's state has changed, or may have. False: there is something for near_sweep(). */
void near_subscribed(struct near *near, bool up);
/* Likewise there is something to sweep. */
void near_reign_ended(struct near *near);

#endif
