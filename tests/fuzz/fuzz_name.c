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

static void check_login(const struct redis_login *login)
{
    assert(memchr(login->user, '\0', sizeof login->user) != NULL);
    assert(memchr(login->password, '\0', sizeof login->password) != NULL);
    assert(login->password[0] == '\0' || login->password_file[0] == '\0');
}

static void check_url(const struct redis_url *url)
{
    char label[REDIS_LABEL_SIZE];
    assert(url->host_count >= 1 && url->host_count <= (url->kind == REDIS_ONE ? 1 : REDIS_HOSTS_MAX));
    for (size_t i = 0; i < url->host_count; i++) {
        const struct redis_endpoint *host = &url->hosts[i];
        assert(host->is_unix ? host->host[0] == '/' : host->port != 0 && host->host[0] != '\0');
        redis_endpoint_label(host, label);
        assert(strlen(label) < sizeof label);
    }
    check_login(&url->login);
    check_login(&url->sentinel_login);
    assert((url->kind == REDIS_SENTINEL) == (url->master_name[0] != '\0'));
    assert(url->kind != REDIS_CLUSTER || url->database == 0);
    assert(url->tls.on || (url->tls.ca[0] == '\0' && url->tls.verify == REDIS_TLS_REQUIRED));
    redis_url_label(url, label);
    assert(strlen(label) < sizeof label);
}

void fuzz_address(const uint8_t *data, size_t bytes)
{
    char *url = fuzz_text(data, bytes);
    struct guard_error error = {.status = GUARD_OK};
    struct redis_url parsed = {.host_count = 0};
    if (redis_url_read(url, &parsed, &error)) {
        check_url(&parsed);
        assert(error.status == GUARD_OK);
    } else {
        assert(parsed.host_count == 0 && error.status == GUARD_INVALID);
        assert(strncmp(error.text, "redis_url: ", 11) == 0);
    }
    redis_url_clear(&parsed);
    free(url);
}
