/* SPDX-License-Identifier: MIT */
/* address.c - see address.h. */
#include "app/base/address.h"

#include "app/base/number.h"

#include <arpa/inet.h>
#include <string.h>

enum { PORT_DIGITS_MAX = 5 };

static bool parse_port(const char *text, uint16_t *out)
{
    uint64_t port;

    if (!number_parse(text, strlen(text), PORT_DIGITS_MAX, &port) || port > UINT16_MAX)
        return false;
    *out = (uint16_t)port;
    return true;
}

static bool host_is_valid(const char *host, bool bracketed)
{
    static const char name[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-";
    struct in6_addr ignored;

    if (bracketed)
        return inet_pton(AF_INET6, host, &ignored) == 1;
    return *host != '\0' && strspn(host, name) == strlen(host);
}

static bool copy_host(const char *from, size_t bytes, struct address *out)
{
    if (bytes == 0 || bytes >= sizeof(out->host))
        return false;
    memcpy(out->host, from, bytes);
    out->host[bytes] = '\0';
    return true;
}

bool address_parse(const char *text, struct address *out)
{
    struct address address = {.is_unix = strncmp(text, "unix:", 5) == 0};

    if (address.is_unix) {
        if (!copy_host(text + 5, strlen(text + 5), &address))
            return false;
        *out = address;
        return true;
    }

    bool bracketed = *text == '[';
    const char *host = bracketed ? text + 1 : text;
    const char *end = strstr(host, bracketed ? "]:" : ":");
    if (end == NULL || !copy_host(host, (size_t)(end - host), &address) ||
        !host_is_valid(address.host, bracketed) || !parse_port(end + (bracketed ? 2 : 1), &address.port))
        return false;
    *out = address;
    return true;
}
