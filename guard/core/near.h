/* SPDX-License-Identifier: MIT */
/*
 * near.h - the near cache: values of this process, which answer a request without a lookup in Redis.
 *
 *     near_answer()                a hit, or a lookup is made:
 *     near_look_up()               before it is sent, so that no message after it is missed
 *     near_keep()                  its answer has come; kept for near_ms from when it was sent
 *     near_invalidation_begins()   this process invalidates: what it has looked up so far is gone
 *     near_invalidation_ends()     and what was looked up before the deletion ran in Redis
 *     near_heard()                 another process has done so, with a key, or has filled it; or
 *     near_heard_tag()             with a tag
 *     near_stored()                this process has filled a key, or has found what another one has
 *     near_subscribed()            without the subscription no invalidation is heard
 *     near_reign_ended()           what another master said, or one that is none any more
 *
 * So a process reads its own invalidations at once, another one when the message arrives, and none later than
 * near_ms after the invalidation returned: a lookup that found the old row was sent before that. A message may be
 * lost, late or doubled, the subscription lost unnoticed.
 *
 * Below that is a store. What was looked up before a drop is not put in after it: the token of near_token() has the
 * epoch of the key's slot, which every drop moves on. Slots are shared by keys; a drop of one may cost a neighbour an
 * insert, never the other way round. A tag is dropped in constant time, however many entries have it: its slot of
 * another table is stamped, and an entry whose lookup left before that counts as gone. Tags share those slots, too. A
 * lost subscription lets go of everything in one stroke. That memory is still charged, and freed bit by bit: by
 * near_sweep(), and by near_put() before it evicts.
 *
 * Eviction is SIEVE (Zhang et al., "SIEVE is Simpler than LRU", NSDI 2024): a queue in the order of arrival and a
 * hand that moves from the oldest to the newest, spares what was hit since it last came by, and evicts the
 * first that was not. A hit writes one bit and moves nothing. On a skewed trace it keeps more hits than LRU and
 * about as many as S3-FIFO, which needs three queues: near_test.c measures all of them.
 *
 * Keys are encoded (key.h).
 *
 * Threads  any. Locking: a mutex per shard, held for a few memory accesses; no value is freed under it.
 * Time     now_us is the guard's clock.
 */
#ifndef GUARD_NEAR_H
#define GUARD_NEAR_H

#include "../base/value.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NEAR_SHARDS = 16, NEAR_TOKEN_NONE = 0 };

struct near;

/* Not subscribed yet, so that nothing is kept. max_bytes: of all shards together, overhead included. NULL: no
 * memory. */
struct near *near_new(size_t max_bytes, const uint8_t hash_key[16]);
void near_free(struct near **near);

/* ---- `near` NULL: there is no near cache, nothing happens ---- */

/* A lookup on its way. */
struct near_lookup {
    struct near *near;
    const char *key; /* lent until the answer has come */
    size_t key_bytes;
    uint64_t token, stamp, sent_us;
};

/* True: *out is set, a reference to its value yours. Its age is rounded up. Counted for the kind of this index. */
bool near_answer(struct near *near, const char *key, size_t key_bytes, unsigned kind, uint64_t now_us,
                 struct guard_result *out);

/* Notes what has been dropped so far. `lookup->near` is not NULL. */
void near_begin(struct near_lookup *lookup);
static inline struct near_lookup near_look_up(struct near *near, const char *key, size_t key_bytes,
                                              uint64_t now_us)
{
    struct near_lookup lookup = {near, key, key_bytes, NEAR_TOKEN_NONE, 0, now_us};
    if (near != NULL)
        near_begin(&lookup);
    return lookup;
}
/* near_ms 0: it is not kept. `found` is fresh, its value `value`, which is referred to; if it is absent, NULL or no
 * more than its tags. */
void near_keep(const struct near_lookup *lookup, uint32_t near_ms, struct value *value,
               const struct guard_result *found);

/* of_tag: of all entries that have it, and `key` is the encoded tag. */
void near_invalidation_begins(struct near *near, bool of_tag, const char *key, size_t key_bytes);
/* Confirmed or not, before it is reported. */
void near_invalidation_ends(struct near *near, bool of_tag, const char *key, size_t key_bytes);

/* Something newer than what is near stands in Redis, or may: a request that revalidates, and an early refresh, store over a
 * value that is still fresh. */
void near_stored(struct near *near, const char *key, size_t key_bytes);
/* A message about this key has arrived. changed: not of a release, after which all is as it was. */
void near_heard(struct near *near, bool changed, const char *key, size_t key_bytes);
void near_heard_tag(struct near *near, const char *tag, size_t tag_bytes);

/* The subscription's state has changed, or may have. False empties the cache, in a time that does not depend on how
 * much there is: there is something for near_sweep(). */
void near_subscribed(struct near *near, bool up);
/* Lets everything go that is there or on its way, and stays subscribed; likewise there is something to sweep. */
void near_reign_ended(struct near *near);

/* ---- the store ---- */

/* What an entry answers. */
struct near_entry {
    struct value *value;     /* NULL: there is no such row */
    int64_t born_us;         /* when it was filled, no later; it may be older than the clock */
    uint64_t fresh_until_us; /* its end in Redis */
    uint64_t load;           /* that made it */
    const char *tags;        /* near_put() only: as in tags.h */
    size_t tags_bytes;
    uint64_t stamp; /* near_put() only, with tags: near_stamp() */
};

struct near_counters {
    uint64_t hit, miss; /* of all kinds */
    uint64_t put, late; /* late: an insert whose key or tag was dropped meanwhile */
    uint64_t evicted, dropped, cleared;
    uint64_t entries, bytes; /* now; bytes: with what is still to be freed */
};

/* A reference to out->value is yours on a hit; born_us is no later than now_us, even if it was put in since. */
bool near_get(struct near *near, const char *key, size_t key_bytes, unsigned kind, uint64_t now_us,
              struct near_entry *out);

/* Before the lookup (or the fill) leaves. NEAR_TOKEN_NONE: nothing would be kept anyway. */
uint64_t near_token(struct near *near, const char *key, size_t key_bytes);
/* Likewise before the lookup leaves: which drops of tags it comes after. */
uint64_t near_stamp(const struct near *near);

/* Keeps it for until_us at the longest; refers to the value. Nothing happens if the token is of another epoch, or
 * if the value is larger than a quarter of its shard. */
void near_put(struct near *near, const char *key, size_t key_bytes, uint64_t token, uint64_t until_us,
              const struct near_entry *entry);

/* Invalidated: an entry goes, an insert under way comes too late. */
void near_drop(struct near *near, const char *key, size_t key_bytes);
/* Invalidated: all entries with this tag, encoded. */
void near_drop_tag(struct near *near, const char *tag, size_t tag_bytes);

/* Frees a bounded part of what has been let go. False: nothing is left of it. */
bool near_sweep(struct near *near);
void near_count(struct near *near, struct near_counters *out);
/* Of this kind alone; the others are 0. */
void near_count_of(struct near *near, unsigned kind, struct near_counters *out);

#endif
