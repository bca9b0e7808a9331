/* SPDX-License-Identifier: MIT */
/*
 * key.c - the spelling of Redis keys; see key.h.
 */
#include "key.h"
#include "digest.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const char key_prefix[] = "csg1";
static const char hash_mark[] = "%sha256:"; /* "%s" starts no percent-encoded byte */

enum { ENCODED_HASH_BYTES = sizeof(hash_mark) - 1 + 2 * DIGEST_SHA256_BYTES };
_Static_assert((int)ENCODED_HASH_BYTES <= (int)KEY_ENCODED_MAX, "a hashed key is an encoded key");
/* key_prefix ":{" name space ":" encoded "}:" role of one or two, NUL */
_Static_assert(sizeof(key_prefix) - 1 + 2 + KEY_NAMESPACE_MAX + 1 + KEY_ENCODED_MAX + 2 + 2 < KEY_NAME_SIZE,
               "the longest name fits");
/* key_prefix ":{" name space ":tags}:t:" encoded, NUL; a tag is at most as long as a key */
_Static_assert(sizeof(key_prefix) - 1 + 2 + KEY_NAMESPACE_MAX + 9 + KEY_ENCODED_MAX + 1 <= KEY_NAME_SIZE,
               "the longest tag fits");
/* key_prefix ":locks:" name space ":" ten digits, NUL */
_Static_assert(sizeof(key_prefix) - 1 + 7 + KEY_NAMESPACE_MAX + 1 + 10 < KEY_CHANNEL_SIZE,
               "the longest channel fits");

/* Each plain byte at its own place, blanks or NULs at the others. */
static const char AS_THEY_ARE[256] = "                                "
                                     "             -. 0123456789:     "
                                     " ABCDEFGHIJKLMNOPQRSTUVWXYZ    _"
                                     " abcdefghijklmnopqrstuvwxyz     ";

static inline bool is_plain_byte(char c)
{
    return AS_THEY_ARE[(uint8_t)c] > ' ';
}

size_t key_plain_span(const char *text, size_t bytes)
{
    size_t span = 0;
    while (span < bytes && is_plain_byte(text[span]))
        span++;
    return span;
}

static char *write_hex(char *out, uint8_t byte, const char digits[16])
{
    *out++ = digits[byte >> 4];
    *out++ = digits[byte & 15];
    return out;
}

static size_t encode_hash(const char *key, size_t key_bytes, char *out)
{
    uint8_t digest[DIGEST_SHA256_BYTES];
    digest_sha256(key, key_bytes, digest);
    memcpy(out, hash_mark, sizeof(hash_mark) - 1);
    out += sizeof(hash_mark) - 1;
    for (size_t i = 0; i < sizeof(digest); i++)
        out = write_hex(out, digest[i], "0123456789abcdef");
    *out = '\0';
    return ENCODED_HASH_BYTES;
}

bool key_valid(const char *key, size_t key_bytes)
{
    return key_bytes >= 1 && key_bytes <= KEY_BYTES_MAX && memchr(key, '\0', key_bytes) == NULL;
}

bool key_is_encoded(const char *text, size_t bytes)
{
    size_t sound = key_plain_span(text, bytes);
    while (sound < bytes && text[sound] == '%')
        sound += 1 + key_plain_span(text + sound + 1, bytes - sound - 1);
    return sound == bytes && bytes >= 1 && bytes <= KEY_ENCODED_MAX;
}

bool key_namespace_valid(const char *name_space)
{
    const size_t bytes = strnlen(name_space, KEY_NAMESPACE_MAX + 1);
    return bytes > 0 && bytes <= KEY_NAMESPACE_MAX && key_plain_span(name_space, bytes) == bytes &&
           memchr(name_space, ':', bytes) == NULL;
}

/* Byte by byte: not all of them are plain. */
static size_t encode_bytes(const char *key, size_t key_bytes, char *out)
{
    const char *const limit = out + KEY_ENCODED_MAX;
    char *at = out;
    for (size_t i = 0; i < key_bytes; i++) {
        const size_t needed = is_plain_byte(key[i]) ? 1 : 3;
        if ((size_t)(limit - at) < needed)
            return encode_hash(key, key_bytes, out);
        if (needed == 1) {
            *at++ = key[i];
        } else {
            *at++ = '%';
            at = write_hex(at, (uint8_t)key[i], "0123456789ABCDEF");
        }
    }
    *at = '\0';
    return (size_t)(at - out);
}

/* Every get does: most keys are plain as a whole. */
size_t key_encode(const char *key, size_t key_bytes, char out[KEY_ENCODED_MAX + 1])
{
    assert(key_valid(key, key_bytes));
    if (key_plain_span(key, key_bytes) < key_bytes || key_bytes > KEY_ENCODED_MAX)
        return encode_bytes(key, key_bytes, out);
    memcpy(out, key, key_bytes);
    out[key_bytes] = '\0';
    return key_bytes;
}

static char *put_bytes(char *at, const char *text, size_t bytes, size_t most)
{
    assert(bytes <= most);
    memcpy(at, text, bytes);
    return at + bytes;
}

static char *put_part(char *at, const char *text, size_t most)
{
    return put_bytes(at, text, strlen(text), most);
}

/* Every lookup does, so it is spared the reading of a format; likewise key_tag(). */
size_t key_name(const char *name_space, const char *encoded, enum key_role role, char out[KEY_NAME_SIZE])
{
    char *at = put_part(out, key_prefix, sizeof key_prefix - 1);
    at = put_part(at, ":{", 2);
    at = put_part(at, name_space, KEY_NAMESPACE_MAX + 1);
    *at++ = ':';
    at = put_part(at, encoded, KEY_ENCODED_MAX);
    at = put_part(at, "}:", 2);
    *at++ = (char)role;
    *at = '\0';
    return (size_t)(at - out);
}

/* All that was printed. */
static size_t whole(int bytes, size_t size)
{
    assert(bytes > 0 && (size_t)bytes < size);
    return (size_t)bytes;
}

size_t key_lock(const char *name_space, const char *encoded, size_t encoded_bytes, enum key_lock_role role,
                char out[KEY_NAME_SIZE])
{
    return whole(snprintf(out, KEY_NAME_SIZE, "%s:{%s:%.*s}:k%c", key_prefix, name_space, (int)encoded_bytes,
                          encoded, role),
                 KEY_NAME_SIZE);
}

/* No character of a name space means anything else in a pattern, and none of an encoded key is a brace. */
size_t key_pattern(const char *name_space, enum key_role one, enum key_role other, char out[KEY_NAME_SIZE])
{
    return whole(
        snprintf(out, KEY_NAME_SIZE, "%s:{%s:*}:[%c%c]", key_prefix, name_space, (char)one, (char)other),
        KEY_NAME_SIZE);
}

enum key_role key_role_of(const char *name, size_t name_bytes)
{
    assert(name_bytes > 0);
    return (enum key_role)name[name_bytes - 1];
}

size_t key_tag_clock(const char *name_space, char out[KEY_NAME_SIZE])
{
    return whole(snprintf(out, KEY_NAME_SIZE, "%s:{%s:tags}:clock", key_prefix, name_space), KEY_NAME_SIZE);
}

size_t key_tag_reign(const char *name_space, char out[KEY_NAME_SIZE])
{
    return whole(snprintf(out, KEY_NAME_SIZE, "%s:{%s:tags}:reign", key_prefix, name_space), KEY_NAME_SIZE);
}

size_t key_tag(const char *name_space, const char *encoded, size_t encoded_bytes, char out[KEY_NAME_SIZE])
{
    char *at = put_part(out, key_prefix, sizeof key_prefix - 1);
    at = put_part(at, ":{", 2);
    at = put_part(at, name_space, KEY_NAMESPACE_MAX + 1);
    at = put_part(at, ":tags}:t:", 9);
    at = put_bytes(at, encoded, encoded_bytes, KEY_ENCODED_MAX);
    *at = '\0';
    return (size_t)(at - out);
}

size_t key_tag_expiry(const char *name_space, const char *encoded, size_t encoded_bytes,
                      char out[KEY_NAME_SIZE])
{
    return whole(snprintf(out, KEY_NAME_SIZE, "%s:{%s:tags}:s:%.*s", key_prefix, name_space,
                          (int)encoded_bytes, encoded),
                 KEY_NAME_SIZE);
}

size_t key_cache_id(const char *name_space, char out[KEY_NAME_SIZE])
{
    return whole(snprintf(out, KEY_NAME_SIZE, "%s:{%s:cache}:id", key_prefix, name_space), KEY_NAME_SIZE);
}

size_t key_channel(const char *name_space, unsigned database, char out[KEY_CHANNEL_SIZE])
{
    return whole(snprintf(out, KEY_CHANNEL_SIZE, "%s:wake:%s:%u", key_prefix, name_space, database),
                 KEY_CHANNEL_SIZE);
}

size_t key_lock_channel(const char *name_space, unsigned database, char out[KEY_CHANNEL_SIZE])
{
    return whole(snprintf(out, KEY_CHANNEL_SIZE, "%s:locks:%s:%u", key_prefix, name_space, database),
                 KEY_CHANNEL_SIZE);
}
