/* SPDX-License-Identifier: MIT */
/* fuzz_name.c - keys of the application, and Redis URLs: what they are turned into. */
#include "tests/fuzz/fuzz.h"

#include "guard/base/key.h"
#include "guard/redis/redis.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- keys ---- */

static int hex_value(char c)
{
    return c <= '9' ? c - '0' : c - 'A' + 10;
}

/* The other direction, which the guard never needs: two keys with one spelling would share a row. */
static size_t decode(const char *encoded, size_t encoded_bytes, char *out)
{
    size_t bytes = 0;
    for (size_t i = 0; i < encoded_bytes; i++) {
        char c = encoded[i];
        if (c == '%') {
            c = (char)(hex_value(encoded[i + 1]) * 16 + hex_value(encoded[i + 2]));
            i += 2;
        }
        out[bytes++] = c;
    }
    return bytes;
}

static void check_names(const char *encoded)
{
    char name[KEY_NAME_SIZE], tag[KEY_NAME_SIZE];
    static const enum key_role roles[] = {KEY_VALUE, KEY_LEASE, KEY_FAILURE, KEY_WAITING};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        size_t bytes = key_name("a.name-space", encoded, roles[i], name);
        assert(strlen(name) == bytes && strchr(name, '{') == strrchr(name, '{'));
        const char *open = strchr(name, '{'), *close = strchr(name, '}');
        assert(open != NULL && close != NULL && close == name + bytes - 3);
        if (i == 0)
            strcpy(tag, open);
        assert(strncmp(tag, open, (size_t)(close - open)) == 0);
    }
}

void fuzz_key(const uint8_t *data, size_t bytes)
{
    char *key = fuzz_text(data, bytes);
    char encoded[KEY_ENCODED_MAX + 1], decoded[KEY_ENCODED_MAX + 1];
    key_namespace_valid(key);
    if (key_valid(key, bytes)) {
        size_t encoded_bytes = key_encode(key, bytes, encoded);
        assert(strlen(encoded) == encoded_bytes && encoded_bytes <= KEY_ENCODED_MAX);
        for (size_t i = 0; i < encoded_bytes; i++)
            assert(encoded[i] > ' ' && encoded[i] <= '~' && encoded[i] != '{' && encoded[i] != '}');
        if (strncmp(encoded, "%sha256:", 8) != 0)
            assert(decode(encoded, encoded_bytes, decoded) == bytes && memcmp(decoded, key, bytes) == 0);
        check_names(encoded);
    }
    free(key);
}

/* ---- Redis URLs ---- */

static void check_address(const struct redis_address *address)
{
    char label[REDIS_LABEL_SIZE];
    assert(address->is_unix ? address->host[0] == '/' : address->port != 0 && address->host[0] != '\0');
    assert(memchr(address->user, '\0', sizeof address->user) != NULL);
    assert(memchr(address->password, '\0', sizeof address->password) != NULL);
    redis_address_label(address, label);
    assert(strlen(label) < sizeof label);
}

void fuzz_address(const uint8_t *data, size_t bytes)
{
    char *url = fuzz_text(data, bytes);
    struct guard_error error = {.status = GUARD_OK};
    struct redis_address address = {.port = 0};
    if (redis_address_parse(url, &address, &error)) {
        check_address(&address);
        assert(error.status == GUARD_OK);
    } else {
        assert(address.port == 0 && error.status == GUARD_INVALID);
        assert(strncmp(error.text, "redis_url: ", 11) == 0);
    }
    redis_address_clear(&address);
    free(url);
}
