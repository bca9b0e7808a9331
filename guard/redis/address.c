/* SPDX-License-Identifier: MIT */
/*
 * redis/address.c - from a Redis URL to the place and the login to connect with.
 *
 * One cursor runs over the URL from left to right; every part that is wrong is refused by its name. Nothing
 * of the URL is ever repeated in a text: with one character out of place a password stands where a host
 * or a port belongs. Pure, any thread.
 */
#include "redis.h"
#include "resolve.h"
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

enum { DEFAULT_PORT = 6379, DATABASE_MAX = 65535, HOST_NAME_MAX_BYTES = 253 };

/* A part of the URL; not NUL-terminated. */
struct part {
    const char *at;
    size_t bytes;
};

static bool refuse(struct guard_error *error, const char *why)
{
    if (error != NULL) {
        error->status = GUARD_INVALID;
        snprintf(error->text, sizeof error->text, "redis_url: %s", why);
    }
    return false;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static int hex_value(char c)
{
    return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

/* Into a NUL-terminated string of `size`; false on a bad escape, a NUL or too many bytes. */
static bool decode(struct part from, char *out, size_t size)
{
    size_t length = 0;

    for (size_t i = 0; i < from.bytes; i++) {
        char c = from.at[i];
        if (c == '%') {
            if (from.bytes - i < 3 || !is_hex(from.at[i + 1]) || !is_hex(from.at[i + 2]))
                return false;
            c = (char)(hex_value(from.at[i + 1]) * 16 + hex_value(from.at[i + 2]));
            i += 2;
        }
        if (c == '\0' || length + 1 >= size)
            return false;
        out[length++] = c;
    }
    out[length] = '\0';
    return true;
}

/* Decimal digits only; an empty part is no number. */
static bool read_number(struct part from, unsigned max, unsigned *out)
{
    unsigned number = 0;

    if (from.bytes == 0 || from.bytes > 9)
        return false;
    for (size_t i = 0; i < from.bytes; i++) {
        if (from.at[i] < '0' || from.at[i] > '9')
            return false;
        number = number * 10 + (unsigned)(from.at[i] - '0');
    }
    if (number > max)
        return false;
    *out = number;
    return true;
}

static bool made_of(struct part from, const char *allowed)
{
    for (size_t i = 0; i < from.bytes; i++)
        if (from.at[i] == '\0' || strchr(allowed, from.at[i]) == NULL)
            return false;
    return from.bytes > 0;
}

/* Splits off what stands before the first `mark`; the mark goes, too. False, and nothing moves, without
 * one. */
static bool split_at(struct part *rest, char mark, struct part *before)
{
    const char *found = memchr(rest->at, mark, rest->bytes);

    if (found == NULL)
        return false;
    *before = (struct part){rest->at, (size_t)(found - rest->at)};
    rest->bytes -= before->bytes + 1;
    rest->at = found + 1;
    return true;
}

/* [user[:password]@], taken off the front of the authority. The last @ ends it: hosts contain none. */
static bool take_login(struct part *authority, struct redis_address *out, struct guard_error *error)
{
    const char *at = memrchr(authority->at, '@', authority->bytes);
    struct part password, user;

    if (at == NULL)
        return true;
    password = (struct part){authority->at, (size_t)(at - authority->at)};
    authority->bytes -= password.bytes + 1;
    authority->at = at + 1;
    if (!split_at(&password, ':', &user)) {
        user = password;
        password.bytes = 0;
    }
    if (!decode(user, out->user, sizeof out->user))
        return refuse(error, "the user name is longer than 128 bytes or has a bad %-escape");
    if (!decode(password, out->password, sizeof out->password))
        return refuse(error, "the password is longer than 512 bytes or has a bad %-escape");
    return true;
}

static bool take_host(struct part *authority, struct redis_address *out, struct guard_error *error)
{
    struct part host;
    struct sockaddr_storage address;

    if (authority->bytes > 0 && authority->at[0] == '[') {
        authority->at++;
        authority->bytes--;
        if (!split_at(authority, ']', &host) || !decode(host, out->host, sizeof out->host) ||
            resolve_digits(out->host, 0, &address) != sizeof(struct sockaddr_in6))
            return refuse(error, "what stands in brackets is not an IPv6 address");
        return true;
    }
    host = *authority;
    const char *colon = memchr(host.at, ':', host.bytes);
    if (colon != NULL)
        host.bytes = (size_t)(colon - host.at);
    if (host.bytes > HOST_NAME_MAX_BYTES ||
        !made_of(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"))
        return refuse(error,
                      "the host must be a name, an IPv4 address or an IPv6 address in brackets; a user or "
                      "password with / : @ ? # or % in it needs %-escapes");
    memcpy(out->host, host.at, host.bytes);
    authority->at += host.bytes;
    authority->bytes -= host.bytes;
    return true;
}

static bool take_port(struct part authority, struct redis_address *out, struct guard_error *error)
{
    unsigned port = DEFAULT_PORT;

    if (authority.bytes > 0) {
        struct part digits = {authority.at + 1, authority.bytes - 1};
        if (authority.at[0] != ':' || !read_number(digits, UINT16_MAX, &port) || port == 0)
            return refuse(error, "the port must be a number from 1 to 65535");
    }
    out->port = (uint16_t)port;
    return true;
}

static bool parse_tcp(struct part rest, struct redis_address *out, struct guard_error *error)
{
    struct part authority = rest, database = {NULL, 0};

    if (split_at(&rest, '/', &authority))
        database = rest;
    if (!take_login(&authority, out, error) || !take_host(&authority, out, error) ||
        !take_port(authority, out, error))
        return false;
    if (database.bytes > 0 && !read_number(database, DATABASE_MAX, &out->database))
        return refuse(error,
                      "the database after the / must be a number from 0 to 65535, and nothing may follow");
    return true;
}

static bool take_query(struct part query, struct redis_address *out, struct guard_error *error)
{
    struct part name = {NULL, 0};

    if (!split_at(&query, '=', &name) || name.bytes != 2 || memcmp(name.at, "db", 2) != 0)
        return refuse(error, "only ?db= may follow the socket's path");
    if (!read_number(query, DATABASE_MAX, &out->database))
        return refuse(error, "the database in ?db= must be a number from 0 to 65535");
    return true;
}

static bool parse_unix(struct part rest, struct redis_address *out, struct guard_error *error)
{
    struct part login, path;
    const char *slash = memchr(rest.at, '/', rest.bytes);

    if (slash == NULL)
        return refuse(error, "unix:// needs the absolute path of a socket");
    login = (struct part){rest.at, (size_t)(slash - rest.at)};
    rest = (struct part){slash, rest.bytes - login.bytes};
    if (!take_login(&login, out, error))
        return false;
    if (login.bytes > 0)
        return refuse(error, "between unix:// and the path only user:password@ may stand");
    if (!split_at(&rest, '?', &path))
        path = rest;
    else if (!take_query(rest, out, error))
        return false;
    if (!decode(path, out->host, sizeof((struct sockaddr_un *)NULL)->sun_path))
        return refuse(error, "the socket's path is longer than 107 bytes or has a bad %-escape");
    out->is_unix = true;
    return true;
}

static bool parse(const char *url, struct redis_address *out, struct guard_error *error)
{
    static const char tcp[] = "redis://", local[] = "unix://", tls[] = "rediss://";

    if (strncmp(url, tcp, sizeof tcp - 1) == 0)
        return parse_tcp((struct part){url + sizeof tcp - 1, strlen(url + sizeof tcp - 1)}, out, error);
    if (strncmp(url, local, sizeof local - 1) == 0)
        return parse_unix((struct part){url + sizeof local - 1, strlen(url + sizeof local - 1)}, out, error);
    if (strncmp(url, tls, sizeof tls - 1) == 0)
        return refuse(error, "rediss:// (TLS) is not built in; connect to a local TLS proxy");
    return refuse(error, "must begin with redis:// or unix://");
}

bool redis_address_parse(const char *url, struct redis_address *out, struct guard_error *error)
{
    struct redis_address address = {.is_unix = false};
    bool parsed = url != NULL ? parse(url, &address, error) : refuse(error, "is missing");

    if (parsed)
        *out = address;
    redis_address_clear(&address);
    return parsed;
}

void redis_address_clear(struct redis_address *address)
{
    explicit_bzero(address, sizeof *address);
}

void redis_address_label(const struct redis_address *address, char out[REDIS_LABEL_SIZE])
{
    bool bracketed = strchr(address->host, ':') != NULL;

    if (address->is_unix)
        snprintf(out, REDIS_LABEL_SIZE, "%s", address->host);
    else
        snprintf(out, REDIS_LABEL_SIZE, "%s%s%s:%u", bracketed ? "[" : "", address->host,
                 bracketed ? "]" : "", (unsigned)address->port);
}
