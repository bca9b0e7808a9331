/* SPDX-License-Identifier: MIT */
/*
 * near.h - the near cache: values of this process, which answer a request without a lookup in Redis; and, for longer,
 * in its place while it cannot be asked.
 *
 *     near_answer()                a hit, or a lookup is made:
 *     near_look_up()               before it is sent, so that no message after it is missed
 *     near_keep()                  its answer has come; near for near_ms from when it was sent
 *     near_kept()                  it cannot be sent, is not answered, or does not run: what is there may do (keep.h)
 *     near_touched()               all that was published before this instant has been heard
 *     near_invalidation_begins()   this process invalidates: what it has looked up so far is gone
 *     near_invalidation_ends()     and what was looked up before the deletion ran in Redis
 *     near_heard()                 another process has done so, with a key, or has filled it; or
 *     near_heard_tag()             with a tag
 *     near_stored()                this process has filled a key, or has found what another one has
 *     near_subscribed()            without the subscription no invalidation is heard: nothing is near
 *     near_drop_all()           what another master said, or one that is none any more
 *
 * So a process reads its own invalidations at once, another one when the message arrives, and none later than
 * near_ms after the invalidation returned: a lookup that found the old row was sent before that. A message may be
 * lost, late or doubled, the subscription lost unnoticed.
 *
 * A load is kept likewise, as if it were a lookup that was sent when its query began. It is not near, and answers
 * only in an outage. Its own fill does not drop it.
 *
 * Below that is a store. What was looked up before a drop is not put in after it: its token has the epoch of the
 * key's slot, which every drop moves on. Slots are shared by keys; a drop of one may cost a neighbour an
 * insert, never the other way round. A tag is dropped in constant time, however many entries have it: its slot of
 * another table is stamped, and an entry whose lookup left before that counts as gone. Tags share those slots, too. A
 * subscription that comes up lets go of everything in one stroke, for what happened meanwhile was not heard. That
 * memory is still charged, and freed bit by bit: by near_sweep(), and by near_keep() before it evicts.
 *
 * What is found again in Redis, of the same load, is not copied: its instants move on. Where all that is found does
 * not fit, each would only push out another one that is as good. So what is never near lets stay what was known to be
 * right not long ago, but for one in sixteen: those that are asked for most come in first, and a hit costs little
 * more than a look.
 *
 * Eviction is SIEVE (Zhang et al., "SIEVE is Simpler than LRU", NSDI 2024): a queue in the order of arrival and a
 * hand that moves from the oldest to the newest, spares what was hit since it last came by, and evicts the
 * first that was not. A hit writes one bit and moves nothing. On a skewed trace it keeps more hits than LRU:
 * near_test.c measures both.
 *
 * Keys are encoded (key.h).
 *
 * Threads  any. Locking: a mutex per shard, held for a few memory accesses; no value is freed under it.
 * Time     now_us is the guard's clock.
 */
#pragma once

#include "../base/digest.h"
#include "../base/value.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NEAR_SHARDS = 16 };

struct near;

/* Not subscribed yet, so that nothing is near. max_bytes: of all shards together, overhead included. NULL: no
 * memory. */
struct near *near_new(size_t max_bytes, const uint8_t hash_key[16]);
void near_free(struct near **near);

/* ---- `near` NULL: there is no near cache, nothing happens ---- */

/* A lookup on its way, or a load. */
struct near_lookup {
    struct near *near;
    const char *key; /* lent until the answer has come */
    size_t key_bytes;
    uint64_t hash; /* near_hash() of it */
    uint64_t token, stamp, sent_us;
    uint64_t lease; /* of a load: the tag of the lease that it runs under; 0: none */
};

/* True: *out is set, a reference to its value yours. Its age is rounded up. Counted for the kind of this index. */
bool near_answer(struct near *near, const char *key, size_t key_bytes, unsigned kind, uint64_t now_us,
                 struct guard_result *out);

enum near_kept {
    NEAR_KEPT_NOT,
    NEAR_KEPT,
    NEAR_KEPT_REFRESH, /* likewise; a load in the background is due, for whoever takes it on */
};
/* Only in place of Redis, and for whom outage_serves(). Else as near_answer(); not counted. Stale if left_ms is 0. */
enum near_kept near_kept(struct near *near, const char *key, size_t key_bytes,
                         const struct guard_policy *policy, uint64_t now_us, struct guard_result *out);
/* True: it is the caller who has it loaded, and nobody else is told to for failure_ms. */
bool near_take_on_refresh(struct near *near, const char *key, size_t key_bytes, uint64_t now_us,
                          uint32_t failure_ms);

/* Of what all loops have in common: guard/base/digest.h with this hash key. */
static inline uint64_t near_hash(const uint8_t hash_key[DIGEST_KEY_BYTES], const char *key, size_t key_bytes)
{
    return digest_siphash(hash_key, key, key_bytes);
}
/* Notes what has been dropped so far. `lookup->near` is not NULL. */
void near_begin(struct near_lookup *lookup);
/* hash: near_hash(), for who has it. */
static inline struct near_lookup near_look_up_hashed(struct near *near, const char *key, size_t key_bytes,
                                                     uint64_t hash, uint64_t now_us)
{
    struct near_lookup lookup = {near, key, key_bytes, hash, 0, 0, now_us, 0};
    if (near != NULL)
        near_begin(&lookup);
    return lookup;
}
struct near_lookup near_look_up(struct near *near, const char *key, size_t key_bytes, uint64_t now_us);

/* For how long what was found may do, from when the lookup was sent. */
struct near_life {
    uint32_t near_ms;  /* 0: it is never near */
    uint32_t stale_ms; /* behind left_ms; 0: it has no stale time, or its readers want none */
    bool kept;         /* also answers in an outage */
    /* Never near, and in a full store: that what was known to be right so long ago may stay; 0: it goes. */
    uint32_t spare_ms;
    uint64_t load_us; /* that its load took */
};
/* `found` is fresh, or stale (left_ms 0), its value `value`, which is referred to; if it is absent, NULL or no more
 * than its tags. What is stale is not near. */
void near_keep(const struct near_lookup *lookup, const struct near_life *life, struct value *value,
               const struct guard_result *found);

/* of_tag: of all entries that have it, and `key` is the encoded tag. */
void near_invalidation_begins(struct near *near, bool of_tag, const char *key, size_t key_bytes);
/* Confirmed or not, before it is reported. */
void near_invalidation_ends(struct near *near, bool of_tag, const char *key, size_t key_bytes);

/* Something newer than what is near stands in Redis, or may: a request that revalidates, and an early refresh, store
 * over a value that is still fresh. lease: the tag of that whose load was stored, which may stay; 0: none may. */
void near_stored(struct near *near, uint64_t lease, const char *key, size_t key_bytes);
/* A message about this key has arrived. changed: not of a release, after which all is as it was. lease: as above. */
void near_heard(struct near *near, bool changed, uint64_t lease, const char *key, size_t key_bytes);
void near_heard_tag(struct near *near, const char *tag, size_t tag_bytes);

/* The subscription's state has changed, or may have. If it is up now everything goes that is there or on its way, in
 * a time that does not depend on how much that is: there is something for near_sweep(). */
void near_subscribed(struct near *near, bool up);
/* Every message that was published before this instant has been heard over the subscription. Of one master alone. */
void near_touched(struct near *near, uint64_t sent_us);
/* Lets everything go that is there or on its way, and stays subscribed; likewise there is something to sweep. */
void near_drop_all(struct near *near);

/* ---- the store ---- */

struct near_counters {
    uint64_t hits[GUARD_KINDS_MAX], misses[GUARD_KINDS_MAX]; /* by kind */
    uint64_t put, late; /* late: an insert whose key or tag was dropped meanwhile */
    uint64_t evicted, dropped, cleared;
    uint64_t entries, bytes; /* now; bytes: with what is still to be freed */
};

/* Frees a bounded part of what has been let go. False: nothing is left of it. */
bool near_sweep(struct near *near);
void near_count(struct near *near, struct near_counters *out);
