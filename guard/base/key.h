/* SPDX-License-Identifier: MIT */
/*
 * key.h - from an application's key to the names of its Redis keys.
 *
 * Bytes outside [A-Za-z0-9._:-] are percent-encoded, so no brace, space or newline reaches Redis. What is
 * then longer than 200 bytes becomes "%sha256:" and 64 hex digits, which no encoded key can look like. All
 * keys of one application key share a Cluster slot through the hash tag: csg1:{namespace:key}:v
 *
 * Pure, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum {
    KEY_BYTES_MAX = 4096,  /* of an application key */
    KEY_ENCODED_MAX = 200, /* of an encoded key */
    KEY_NAMESPACE_MAX = 32,
    KEY_NAME_SIZE = 256, /* of a Redis key, its NUL included */
    KEY_CHANNEL_SIZE = 64,
};

enum key_role {
    KEY_VALUE = 'v',
    KEY_LEASE = 'l',
    KEY_FAILURE = 'e',
    KEY_WAITING = 'w',
    KEY_PERMITS = 'p', /* these three of PERMIT_KEY */
    KEY_QUEUE = 'q',
    KEY_ALIVE = 'a',
};

/* Of a lock; its key's last two characters are a k and this. */
enum key_lock_role {
    KEY_LOCK_HELD = 'h',
    KEY_LOCK_QUEUE = 'q',
    KEY_LOCK_ALIVE = 'a',
    KEY_LOCK_FENCE = 'f',
    KEY_LOCK_GONE = 'g',
    KEY_LOCK_LATCH = 'l',
};

/* 1..KEY_BYTES_MAX bytes and no NUL among them. */
bool key_valid(const char *key, size_t key_bytes);
bool key_namespace_valid(const char *name_space);

/* How many bytes, from the first on, stand for themselves in an encoded key. */
size_t key_plain_span(const char *text, size_t bytes);
/* Only bytes that key_encode() may write, at least one, and no more than it may write. */
bool key_is_encoded(const char *text, size_t bytes);
/* Writes the encoded key and its NUL; returns its length. */
size_t key_encode(const char *key, size_t key_bytes, char out[KEY_ENCODED_MAX + 1]);

/* Each writes a name and its NUL and returns the length. */
size_t key_name(const char *name_space, const char *encoded, enum key_role role, char out[KEY_NAME_SIZE]);
size_t key_lock(const char *name_space, const char *encoded, size_t encoded_bytes, enum key_lock_role role,
                char out[KEY_NAME_SIZE]);
/* Those of the tags share a slot of their own: the clock of all, the reign under which it was last asked, and the
 * epoch of one encoded tag. */
size_t key_tag_clock(const char *name_space, char out[KEY_NAME_SIZE]);
size_t key_tag_reign(const char *name_space, char out[KEY_NAME_SIZE]);
size_t key_tag(const char *name_space, const char *encoded, size_t encoded_bytes, char out[KEY_NAME_SIZE]);
/* Its expiries. */
size_t key_tag_expiry(const char *name_space, const char *encoded, size_t encoded_bytes,
                      char out[KEY_NAME_SIZE]);
/* A pattern for SCAN: the names of one of two roles, of all keys. */
size_t key_pattern(const char *name_space, enum key_role one, enum key_role other, char out[KEY_NAME_SIZE]);
/* Of such a name. */
enum key_role key_role_of(const char *name, size_t name_bytes);
/* What the cache is called, see scripts/cache_id.lua. */
size_t key_cache_id(const char *name_space, char out[KEY_NAME_SIZE]);
/* The static pub/sub channel; carries the database number because pub/sub ignores SELECT. */
size_t key_channel(const char *name_space, unsigned database, char out[KEY_CHANNEL_SIZE]);
/* That of the locks, likewise. */
size_t key_lock_channel(const char *name_space, unsigned database, char out[KEY_CHANNEL_SIZE]);
