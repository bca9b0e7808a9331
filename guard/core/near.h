/* SPDX-License-Identifier: MIT */
/*
 * near.h - the near cache: values of this process, answered without asking Redis.
 *
 *     near_token() ---> the lookup is sent, its reply comes ---> near_put(token) ---> near_get() ... ---> gone
 *
 * An entry goes when its time is up, when it is evicted, when its key is dropped (near_drop()) and when the
 * subscription is lost (near_listen(false)): nobody would hear of an invalidation any more. What was looked up
 * before a drop is not put in after it: the token has the epoch of the key's slot, which every drop moves on.
 * Slots are shared by keys; a drop of one may cost a neighbour an insert, never the other way round.
 *
 * A lost subscription lets go of everything in one stroke. That memory is still charged, and freed bit by bit: by
 * near_sweep(), and by near_put() before it evicts.
 *
 * A tag is dropped (near_drop_tag()) in constant time, however many entries have it: its slot of another table is
 * stamped, and an entry whose lookup left before that is gone for whoever asks for it. Tags share those slots, too.
 *
 * When all this is called, and why that is coherent: near_use.h.
 *
 * Eviction is SIEVE (Zhang et al., "SIEVE is Simpler than LRU", NSDI 2024): a queue in the order of arrival and a
 * hand that moves from the oldest to the newest, spares who was asked for since it last came by, and evicts the
 * first who was not. A hit writes one bit and moves nothing. On a skewed trace it keeps more hits than LRU and
 * about as many as S3-FIFO, which needs three queues: near_test.c measures all of them.
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

/* What an entry answers. */
struct near_entry {
    struct value *value;     /* NULL: there is no such row */
    int64_t born_us;         /* when it was filled, no later; it may be older than the clock */
    uint64_t fresh_until_us; /* its end in Redis */
    const char *tags;        /* near_put() only: as in tags.h */
    size_t tags_bytes;
    uint64_t stamp; /* near_put() only, with tags: near_stamp() */
};

struct near_counters {
    uint64_t hit, miss, put, late; /* late: an insert whose key or tag was dropped meanwhile */
    uint64_t evicted, dropped, cleared;
    uint64_t entries, bytes; /* now; bytes: with what is still to be freed */
};

/* Nobody listens yet, so that nothing is kept. max_bytes: of all shards together, overhead included. NULL: no
 * memory. */
struct near *near_new(size_t max_bytes, const uint8_t hash_key[16]);
void near_free(struct near **near);

/* Whether invalidations are heard. False empties it, in a time that does not depend on how much there is. */
void near_listen(struct near *near, bool listening);
/* Lets everything go that is there or on its way, and listens on. */
void near_empty(struct near *near);
/* Frees a bounded part of what has been let go. False: nothing is left of it. */
bool near_sweep(struct near *near);

/* A reference to out->value is yours on a hit; born_us is no later than now_us, even if it was put in since. */
bool near_get(struct near *near, const char *key, size_t key_bytes, uint64_t now_us, struct near_entry *out);

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

void near_count(struct near *near, struct near_counters *out);

#endif
