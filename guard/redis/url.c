/* SPDX-License-Identifier: MIT */
/*
 * redis/url.c - see redis/url.h. One cursor runs over the URL from left to right; every part that is wrong is refused
 * by its name.
 */
#include "url.h"
#include "../base/digits.h"
#include "../base/resolve.h"
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

enum {
    REDIS_PORT = 6379,
    SENTINEL_PORT = 26379,
    DATABASE_MAX = 65535,
    HOST_NAME_MAX_BYTES = 253,
    WAIT_USUAL_MS = 100,
    NAMED_MAX_BYTES = 32, /* of a parameter that is refused */
};

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
    uint64_t number = 0;
    if (from.bytes == 0 || from.bytes > 9 || !digits_read(from.at, from.bytes, &number) || number > max)
        return false;
    *out = (unsigned)number;
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

/* ---- the login and the hosts ---- */

/* [user[:password]@], taken off the front of the authority. The last @ ends it: hosts contain none. */
static bool take_login(struct part *authority, struct redis_url *out, struct guard_error *error)
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
    if (!decode(user, out->login.user, sizeof out->login.user))
        return refuse(error, "the user name is longer than 128 bytes or has a bad %-escape");
    if (!decode(password, out->login.password, sizeof out->login.password))
        return refuse(error, "the password is longer than 4096 bytes or has a bad %-escape");
    return true;
}

static bool take_host(struct part *authority, struct redis_endpoint *out, struct guard_error *error)
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

static bool take_port(struct part authority, unsigned port, struct redis_endpoint *out,
                      struct guard_error *error)
{
    if (authority.bytes > 0) {
        struct part digits = {authority.at + 1, authority.bytes - 1};
        if (authority.at[0] != ':' || !read_number(digits, UINT16_MAX, &port) || port == 0)
            return refuse(error, "the port must be a number from 1 to 65535");
    }
    out->port = (uint16_t)port;
    return true;
}

/* host[:port], and more of them behind commas where the scheme takes several. */
static bool take_hosts(struct part authority, struct redis_url *out, struct guard_error *error)
{
    unsigned port = out->kind == REDIS_SENTINEL ? SENTINEL_PORT : REDIS_PORT;
    bool more = true;
    while (more) {
        struct part host = authority;
        more = out->kind != REDIS_ONE && split_at(&authority, ',', &host);
        if (out->host_count == REDIS_HOSTS_MAX)
            return refuse(error, "more than 9 hosts; name some of them, the others are found");
        struct redis_endpoint *endpoint = &out->hosts[out->host_count++];
        if (!take_host(&host, endpoint, error) || !take_port(host, port, endpoint, error))
            return false;
    }
    return true;
}

/* ---- parameters ---- */

static bool read_text(struct part from, char *out, size_t size)
{
    return decode(from, out, size) && out[0] != '\0';
}

static bool is_word(struct part part, const char *word)
{
    return part.bytes == strlen(word) && memcmp(part.at, word, part.bytes) == 0;
}

/* Which of the words it is. */
static bool read_choice(struct part from, const char *const *words, unsigned *out)
{
    for (unsigned i = 0; words[i] != NULL; i++)
        if (is_word(from, words[i])) {
            *out = i;
            return true;
        }
    return false;
}

enum where { ANYWHERE, OVER_UNIX, OVER_TLS, WITH_SENTINELS };
enum kind { TEXT, NUMBER, FLAG, VERIFY };

#define FIELD(field) offsetof(struct redis_url, field), sizeof((struct redis_url *)NULL)->field
#define TEXT_OF(field)                                                                                       \
    TEXT, FIELD(field), 0, 0,                                                                                \
    {                                                                                                        \
        NULL                                                                                                 \
    }
#define NUMBER_OF(field, least, most)                                                                        \
    NUMBER, FIELD(field), least, most,                                                                       \
    {                                                                                                        \
        NULL                                                                                                 \
    }
#define WORD_OF(field, kind, ...)                                                                            \
    kind, FIELD(field), 0, 0,                                                                                \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }

static const struct parameter {
    const char *name;
    enum where where;
    enum kind kind;
    size_t offset, size;  /* of its field */
    unsigned least, most; /* NUMBER */
    const char *words[4]; /* FLAG: off, on; VERIFY: as the enum has them; NULL ends them */
    const char *takes;
} parameters[] = {
    {"db", OVER_UNIX, NUMBER_OF(database, 0, DATABASE_MAX), "a number from 0 to 65535"},
    {"password_file", ANYWHERE, TEXT_OF(login.password_file), "the path of a file"},
    {"fence", ANYWHERE, WORD_OF(fence_by_role, FLAG, "write", "role"), "write or role"},
    {"wait_replicas", ANYWHERE, NUMBER_OF(wait_replicas, 0, 100), "a number from 0 to 100"},
    {"wait_ms", ANYWHERE, NUMBER_OF(wait_ms, 1, 10000), "a number from 1 to 10000"},
    {"ssl_ca_certs", OVER_TLS, TEXT_OF(tls.ca), "the path of a file or folder with certificates in PEM"},
    {"ssl_certfile", OVER_TLS, TEXT_OF(tls.cert), "the path of a file in PEM"},
    {"ssl_keyfile", OVER_TLS, TEXT_OF(tls.key), "the path of a file in PEM"},
    {"ssl_cert_reqs", OVER_TLS, WORD_OF(tls.verify, VERIFY, "required", "ca", "none"),
     "required, ca or none"},
    {"ssl_server_name", OVER_TLS, TEXT_OF(tls.server_name), "a host's name"},
    {"sentinel_username", WITH_SENTINELS, TEXT_OF(sentinel_login.user), "at most 128 bytes"},
    {"sentinel_password", WITH_SENTINELS, TEXT_OF(sentinel_login.password), "at most 4096 bytes"},
    {"sentinel_password_file", WITH_SENTINELS, TEXT_OF(sentinel_login.password_file), "the path of a file"},
    {"strict", WITH_SENTINELS, WORD_OF(strict, FLAG, "no", "yes"), "yes or no"},
};

static bool set_parameter(const struct parameter *parameter, struct part value, void *field)
{
    unsigned number = 0;
    switch (parameter->kind) {
    case TEXT:
        return read_text(value, field, parameter->size);
    case NUMBER:
        if (!read_number(value, parameter->most, &number) || number < parameter->least)
            return false;
        *(unsigned *)field = number;
        return true;
    case FLAG:
    case VERIFY:
        break;
    }
    if (!read_choice(value, parameter->words, &number))
        return false;
    if (parameter->kind == FLAG)
        *(bool *)field = number == 1;
    else
        *(enum redis_tls_verify *)field = (enum redis_tls_verify)number;
    return true;
}

static bool fits(const struct parameter *parameter, const struct redis_url *url)
{
    switch (parameter->where) {
    case OVER_UNIX:
        return url->hosts[0].is_unix;
    case OVER_TLS:
        return url->tls.on;
    case WITH_SENTINELS:
        return url->kind == REDIS_SENTINEL;
    case ANYWHERE:
        break;
    }
    return true;
}

static const char *needed(enum where where)
{
    switch (where) {
    case OVER_UNIX:
        return "stands behind a socket's path only; elsewhere the database follows a /";
    case OVER_TLS:
        return "needs a scheme with TLS: rediss://, rediss+sentinel:// or rediss+cluster://";
    case WITH_SENTINELS:
        return "needs redis+sentinel:// or rediss+sentinel://";
    case ANYWHERE:
        break;
    }
    return "";
}

static bool refuse_parameter(struct guard_error *error, const char *name, const char *why, const char *more)
{
    if (error != NULL) {
        error->status = GUARD_INVALID;
        snprintf(error->text, sizeof error->text, "redis_url: ?%.32s= %.80s%.80s", name, why, more);
    }
    return false;
}

/* Its name may be told: what is not letters, or stands in front of an @, may be a piece of a password. */
static bool refuse_unknown(struct guard_error *error, struct part name, struct part query)
{
    char text[NAMED_MAX_BYTES + 1];
    if (name.bytes > NAMED_MAX_BYTES || memchr(query.at, '@', query.bytes) != NULL ||
        !made_of(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"))
        return refuse(error,
                      "what follows the ? must be name=value, joined by &, with % for what is special; a "
                      "password with ? in it needs %3F");
    memcpy(text, name.at, name.bytes);
    text[name.bytes] = '\0';
    return refuse_parameter(error, text, "is not known; guard/README.md lists the parameters", "");
}

static bool take_parameter(struct part name, struct part value, struct part query, struct redis_url *out,
                           struct guard_error *error)
{
    for (size_t i = 0; i < sizeof parameters / sizeof parameters[0]; i++) {
        const struct parameter *parameter = &parameters[i];
        if (!is_word(name, parameter->name))
            continue;
        if (!fits(parameter, out))
            return refuse_parameter(error, parameter->name, needed(parameter->where), "");
        if ((out->parameters_seen & (1u << i)) != 0)
            return refuse_parameter(error, parameter->name, "is there twice", "");
        out->parameters_seen |= 1u << i;
        if (!set_parameter(parameter, value, (char *)out + parameter->offset))
            return refuse_parameter(error, parameter->name, "takes ", parameter->takes);
        return true;
    }
    return refuse_unknown(error, name, query);
}

static bool take_query(struct part query, struct redis_url *out, struct guard_error *error)
{
    struct part rest = query;
    while (rest.bytes > 0) {
        struct part value = rest, name = {rest.at, 0};
        if (!split_at(&rest, '&', &value))
            rest.bytes = 0;
        split_at(&value, '=', &name);
        if (!take_parameter(name, value, query, out, error))
            return false;
    }
    return true;
}

/* ---- what follows the scheme ---- */

static bool take_database(struct part text, struct redis_url *out, struct guard_error *error)
{
    if (text.bytes > 0 && !read_number(text, DATABASE_MAX, &out->database))
        return refuse(
            error, "the database after the / must be a number from 0 to 65535, and nothing may follow but ?");
    if (out->kind == REDIS_CLUSTER && out->database != 0)
        return refuse(error, "a Cluster has no database but 0: remove the number");
    return true;
}

/* name[/db] */
static bool take_master(struct part path, struct redis_url *out, struct guard_error *error)
{
    struct part name = path;
    if (!split_at(&path, '/', &name))
        path.bytes = 0;
    if (!read_text(name, out->master_name, sizeof out->master_name))
        return refuse(error,
                      "behind the Sentinels a / and the name of their master must follow, 128 bytes at most");
    return take_database(path, out, error);
}

static bool parse_hosts(struct part rest, struct redis_url *out, struct guard_error *error)
{
    struct part query = {NULL, 0}, authority, path = {"", 0};
    if (split_at(&rest, '?', &authority)) {
        query = rest;
        rest = authority;
    }
    authority = rest;
    if (split_at(&rest, '/', &authority))
        path = rest;
    if (!take_login(&authority, out, error) || !take_hosts(authority, out, error) ||
        !take_query(query, out, error))
        return false;
    return out->kind == REDIS_SENTINEL ? take_master(path, out, error) : take_database(path, out, error);
}

static bool parse_unix(struct part rest, struct redis_url *out, struct guard_error *error)
{
    struct part login, path;
    const char *slash = memchr(rest.at, '/', rest.bytes);
    struct redis_endpoint *endpoint = &out->hosts[0];
    if (slash == NULL)
        return refuse(error, "unix:// needs the absolute path of a socket");
    login = (struct part){rest.at, (size_t)(slash - rest.at)};
    rest = (struct part){slash, rest.bytes - login.bytes};
    if (!take_login(&login, out, error))
        return false;
    if (login.bytes > 0)
        return refuse(error, "between unix:// and the path only user:password@ may stand");
    endpoint->is_unix = true;
    out->host_count = 1;
    if (!split_at(&rest, '?', &path))
        path = rest;
    else if (!take_query(rest, out, error))
        return false;
    if (!decode(path, endpoint->host, sizeof((struct sockaddr_un *)NULL)->sun_path))
        return refuse(error, "the socket's path is longer than 107 bytes or has a bad %-escape");
    return true;
}

static const struct scheme {
    const char *text;
    enum redis_topology_kind kind;
    bool tls;
    bool (*parse)(struct part rest, struct redis_url *out, struct guard_error *error);
} schemes[] = {
    {"redis://", REDIS_ONE, false, parse_hosts},
    {"rediss://", REDIS_ONE, true, parse_hosts},
    {"unix://", REDIS_ONE, false, parse_unix},
    {"redis+sentinel://", REDIS_SENTINEL, false, parse_hosts},
    {"rediss+sentinel://", REDIS_SENTINEL, true, parse_hosts},
    {"redis+cluster://", REDIS_CLUSTER, false, parse_hosts},
    {"rediss+cluster://", REDIS_CLUSTER, true, parse_hosts},
};

/* What one part alone does not tell. */
static bool check_whole(const struct redis_url *url, struct guard_error *error)
{
    if ((url->tls.cert[0] != '\0') != (url->tls.key[0] != '\0'))
        return refuse(error, "?ssl_certfile= and ssl_keyfile= need each other");
    if (url->login.password[0] != '\0' && url->login.password_file[0] != '\0')
        return refuse(error, "?password_file= and a password in front of the host: leave one of them out");
    if (url->sentinel_login.password[0] != '\0' && url->sentinel_login.password_file[0] != '\0')
        return refuse(error, "?sentinel_password_file= and sentinel_password=: leave one of them out");
    return true;
}

static bool parse(const char *text, struct redis_url *out, struct guard_error *error)
{
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        size_t bytes = strlen(schemes[i].text);
        if (strncmp(text, schemes[i].text, bytes) != 0)
            continue;
        out->kind = schemes[i].kind;
        out->tls.on = schemes[i].tls;
        return schemes[i].parse((struct part){text + bytes, strlen(text + bytes)}, out, error) &&
               check_whole(out, error);
    }
    return refuse(
        error, "must begin with redis://, rediss:// (TLS), unix://, redis+sentinel:// or redis+cluster://");
}

/* ---- the functions of the header ---- */

bool redis_url_read(const char *text, struct redis_url *out, struct guard_error *error)
{
    struct redis_url url;
    memset(&url, 0, sizeof url);
    url.wait_ms = WAIT_USUAL_MS;
    bool parsed = text != NULL ? parse(text, &url, error) : refuse(error, "is missing");
    if (parsed)
        *out = url;
    redis_url_clear(&url);
    return parsed;
}

void redis_url_clear(struct redis_url *url)
{
    explicit_bzero(url, sizeof *url);
}

void redis_endpoint_label(const struct redis_endpoint *endpoint, char out[REDIS_LABEL_SIZE])
{
    bool bracketed = strchr(endpoint->host, ':') != NULL;
    if (endpoint->is_unix)
        snprintf(out, REDIS_LABEL_SIZE, "%s", endpoint->host);
    else
        snprintf(out, REDIS_LABEL_SIZE, "%s%s%s:%u", bracketed ? "[" : "", endpoint->host,
                 bracketed ? "]" : "", (unsigned)endpoint->port);
}

bool redis_endpoint_equal(const struct redis_endpoint *a, const struct redis_endpoint *b)
{
    if (a->is_unix || b->is_unix)
        return a->is_unix && b->is_unix && strcmp(a->host, b->host) == 0;
    return a->port == b->port && strcasecmp(a->host, b->host) == 0;
}

void redis_url_label(const struct redis_url *url, char out[REDIS_LABEL_SIZE])
{
    char first[REDIS_LABEL_SIZE];
    redis_endpoint_label(&url->hosts[0], first);
    if (url->host_count > 1)
        snprintf(out, REDIS_LABEL_SIZE, "%.255s +%u", first, (unsigned)(url->host_count - 1) % 10u);
    else
        snprintf(out, REDIS_LABEL_SIZE, "%s", first);
}
