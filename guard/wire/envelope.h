/* SPDX-License-Identifier: MIT */
/*
 * envelope.h - what stands in Redis under a value key: the value, under which lease it was filled, for how long, for
 * which key.
 *
 * A text head of fixed width, readable with redis-cli and by the scripts with string.sub, then the full
 * key, the validator, the body, the tags and, if the head says so, the meta, each closed by a newline, then 16 hex
 * digits of checksum over all before it: XXH3 with 64 bits and no seed, the most significant digit first. The
 * checksum tells damage, not forgery: a client that may write to this Redis is believed.
 *
 *   bytes  1-36   UUID of the filler's lease               string.sub(v, 1, 36)
 *         38-50   px_ms: TTL the filler set                string.sub(v, 38, 50)
 *         52-64   stale_ms: the last part of it is stale   string.sub(v, 52, 64)
 *            71   v (value), m (one with meta), a (absent) or p (the mark of a pass)
 *                                                                     string.sub(v, 71, 71)
 *            84   o: the stale time is the entry's own; -: the policy's  string.sub(v, 84, 84)
 *         66-154  "csg3", that letter, the entry's own fresh_ms before jitter (dashes: the policy's), that other
 *         letter,
 *                 load_us, the lengths of key, validator, body and tags, and when it was born by the clock of the
 *                 tags (tags.h), fixed-width decimal; newline
 *
 * A process that knows no m takes such an entry for a damaged one: it loads anew and stores without.
 *
 * Pure: no I/O, no clock, no allocation but by envelope_value(). Any thread.
 */
#pragma once

#include "../base/key.h"
#include "../base/tags.h"
#include "../base/value.h"
#include "../core/keep.h"

enum {
    ENVELOPE_UUID_BYTES = 36,
    ENVELOPE_VALIDATOR_MAX = 127,
    /* the same rows in another life differ only in these ends */
    ENVELOPE_HEAD_BYTES = 154,
    ENVELOPE_CHECKSUM_BYTES = 16,
    ENVELOPE_NUMBERS_MAX = 64, /* how long its parts are, and what stands between them */
    ENVELOPE_BESIDE_BODY_MAX = ENVELOPE_HEAD_BYTES + ENVELOPE_NUMBERS_MAX + KEY_BYTES_MAX +
                               ENVELOPE_VALIDATOR_MAX + TAGS_TEXT_MAX + GUARD_META_MAX +
                               ENVELOPE_CHECKSUM_BYTES,
};

struct envelope {
    char filler[ENVELOPE_UUID_BYTES + 1]; /* UUID part of the lease token it was filled under */
    uint64_t px_ms;                       /* TTL at the fill: fresh (jittered) + stale */
    uint64_t stale_ms;                    /* stale when the remaining TTL is at most this */
    bool absent;                          /* "no such row"; stale_ms, validator and body are empty */
    bool mark;                            /* of a pass: likewise, and no life of its own */
    struct entry_life life;               /* as its loader has said; own stale time: stale_ms */
    uint64_t load_us;                     /* how long the load took */
    const char *key;                      /* the application's key, whole; not NUL-terminated after read */
    size_t key_bytes;
    const char *tags; /* encoded, a space between; see tags.h */
    size_t tags_bytes;
    struct tags_clock born; /* with tags: read before the load */
    const char *validator;
    size_t validator_bytes;
    const char *body;
    size_t body_bytes;
    const char *meta; /* of a value; none: it is written as it was before there was any */
    size_t meta_bytes;
};

enum envelope_fault {
    ENVELOPE_OK = 0,
    ENVELOPE_FOREIGN,   /* not our format or another version */
    ENVELOPE_TRUNCATED, /* lengths and size do not agree */
    ENVELOPE_DAMAGED,   /* checksum */
    ENVELOPE_OTHER_KEY, /* sound, but of another key */
};

enum envelope_age {
    ENVELOPE_FRESH,
    ENVELOPE_STALE,
    ENVELOPE_DOUBTFUL, /* TTL missing, above px_ms or above the namespace's limit: let acquire clamp it */
};

/* Exact size of what envelope_write() writes. */
size_t envelope_size(const struct envelope *envelope);

/* Asserts what the fields promise: px_ms 1..13 digits, stale_ms at most px_ms, key_bytes at most 9999,
 * tags as tags_add() makes them, and if there are any, a known `born`. */
void envelope_write(const struct envelope *envelope, char *out);

/* Sets *out, pointing into `data`, only on ENVELOPE_OK. */
enum envelope_fault envelope_read(const char *data, size_t data_bytes, const char *key, size_t key_bytes,
                                  struct envelope *out);

/* What it holds, copied; one reference is the caller's. NULL: no memory. */
struct value *envelope_value(const struct envelope *envelope);

/* What a remaining TTL as PTTL reports it (-1: none) makes of the value. */
enum envelope_age envelope_judge(const struct envelope *envelope, int64_t pttl_ms, uint64_t max_value_ms);
