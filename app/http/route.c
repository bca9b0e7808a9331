/* SPDX-License-Identifier: MIT */
/*
 * route.c - the table of paths and the grammar of ids.
 */
#include "app/http/route.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { ID_DIGITS_MAX = 18 }; /* so that every id fits PostgreSQL's bigint */

/* A path ends here; if that is a '/', in an id and what follows it. */
static const struct {
    const char *path, *tail;
    enum route_target target;
    bool takes_after;
} TABLE[] = {
    {"/products/", "", ROUTE_PRODUCT, false},   {"/products/", "/purchase", ROUTE_PURCHASE, false},
    {"/categories/", "", ROUTE_CATEGORY, true}, {"/catalog", "", ROUTE_CATALOG, false},
    {"/products", "", ROUTE_PRODUCTS, false},   {"/ping", "", ROUTE_PING, false},
};
enum { TABLE_ROWS = sizeof(TABLE) / sizeof(TABLE[0]) };

static const char *const TARGET_NAMES[ROUTE_TARGET_COUNT] = {
    [ROUTE_CATALOG] = "catalog",   [ROUTE_CATEGORY] = "category", [ROUTE_PRODUCT] = "product",
    [ROUTE_PING] = "ping",         [ROUTE_OTHER] = "other",       [ROUTE_PURCHASE] = "purchase",
    [ROUTE_PRODUCTS] = "products",
};

/* The id that is all of text[0..bytes); 0 if it is none. */
static uint64_t id_parse(const char *text, size_t bytes)
{
    uint64_t id = 0;

    if (bytes == 0 || bytes > ID_DIGITS_MAX || text[0] == '0')
        return 0;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9')
            return 0;
        id = id * 10 + (uint64_t)(text[i] - '0');
    }
    return id;
}

/* RFC 9112, 3.2.2: a server accepts the absolute form; the authority is not ours to judge. */
static const char *skip_authority(const char *uri)
{
    static const char scheme[] = "http://";

    if (strncasecmp(uri, scheme, sizeof(scheme) - 1) != 0)
        return uri;
    uri += sizeof(scheme) - 1;
    return uri + strcspn(uri, "/?");
}

static enum route_verdict parse_query(const char *query, bool takes_after, uint64_t *after)
{
    static const char name[] = "after=";

    if (!takes_after || strncmp(query, name, sizeof(name) - 1) != 0)
        return ROUTE_BAD_QUERY;
    query += sizeof(name) - 1;
    *after = id_parse(query, strlen(query));
    return *after != 0 ? ROUTE_OK : ROUTE_BAD_QUERY;
}

/* ---- ids= ---- */

static const char IDS[] = "ids=";

static bool take_id(const char *text, size_t bytes, struct route_ids *out)
{
    const uint64_t id = id_parse(text, bytes);
    bool good = id != 0 && out->count < ROUTE_IDS_MAX;

    for (uint32_t i = 0; i < out->count && good; i++)
        good = out->ids[i] != id;
    if (good)
        out->ids[out->count++] = id;
    return good;
}

static enum route_verdict parse_ids(const char *text, struct route_ids *out)
{
    *out = (struct route_ids){.count = 0};
    for (const char *at = text;; at++) {
        const size_t bytes = strcspn(at, ",");

        if (!take_id(at, bytes, out)) {
            out->bad_place = out->count + 1;
            snprintf(out->bad, sizeof(out->bad), "%.*s", (int)(bytes < 64 ? bytes : 64), at);
            return ROUTE_BAD_IDS;
        }
        at += bytes;
        if (*at == '\0')
            return ROUTE_OK;
    }
}

enum route_verdict route_ids(const char *uri, struct route_ids *out)
{
    const char *query = strchr(skip_authority(uri), '?');

    *out = (struct route_ids){.count = 0};
    if (query == NULL || strncmp(query + 1, IDS, sizeof(IDS) - 1) != 0)
        return ROUTE_BAD_QUERY;
    return parse_ids(query + sizeof(IDS), out);
}

/* ---- paths ---- */

static bool has_id(size_t row)
{
    return TABLE[row].path[strlen(TABLE[row].path) - 1] == '/';
}

static bool row_fits(size_t row, const char *path, size_t bytes)
{
    const size_t row_bytes = strlen(TABLE[row].path);
    const size_t tail_bytes = strlen(TABLE[row].tail);

    if (bytes < row_bytes || memcmp(path, TABLE[row].path, row_bytes) != 0)
        return false;
    if (!has_id(row))
        return bytes == row_bytes;
    const char *slash = memchr(path + row_bytes, '/', bytes - row_bytes);
    const char *tail = slash != NULL ? slash : path + bytes;
    return (size_t)(path + bytes - tail) == tail_bytes && memcmp(tail, TABLE[row].tail, tail_bytes) == 0;
}

/* The row that path[0..bytes) belongs to, the id still unjudged; TABLE_ROWS if none. */
static size_t find_row(const char *path, size_t bytes)
{
    size_t row = 0;

    while (row < TABLE_ROWS && !row_fits(row, path, bytes))
        row++;
    return row;
}

enum route_verdict route_parse(const char *uri, struct route *out)
{
    const char *path = skip_authority(uri);
    const size_t path_bytes = strcspn(path, "?");
    const size_t row = find_row(path, path_bytes);

    *out = (struct route){.target = row < TABLE_ROWS ? TABLE[row].target : ROUTE_OTHER};
    if (strchr(path, '%') != NULL)
        return ROUTE_ENCODED;
    if (row == TABLE_ROWS)
        return ROUTE_UNKNOWN;

    const size_t row_bytes = strlen(TABLE[row].path);
    if (has_id(row)) {
        out->id = id_parse(path + row_bytes, path_bytes - row_bytes - strlen(TABLE[row].tail));
        if (out->id == 0)
            return ROUTE_BAD_ID;
    }
    if (out->target == ROUTE_PRODUCTS) {
        struct route_ids ids;
        return route_ids(path, &ids);
    }
    if (path[path_bytes] == '?')
        return parse_query(path + path_bytes + 1, TABLE[row].takes_after, &out->after);
    return ROUTE_OK;
}

size_t route_key(const struct route *route, char out[ROUTE_KEY_SIZE])
{
    int bytes = 0;

    out[0] = '\0';
    switch (route->target) {
    case ROUTE_CATALOG:
        bytes = snprintf(out, ROUTE_KEY_SIZE, "catalog");
        break;
    case ROUTE_CATEGORY:
        bytes = route->after == 0 ? snprintf(out, ROUTE_KEY_SIZE, "category:%" PRIu64, route->id)
                                  : snprintf(out, ROUTE_KEY_SIZE, "category:%" PRIu64 ":after:%" PRIu64,
                                             route->id, route->after);
        break;
    case ROUTE_PRODUCT:
        bytes = snprintf(out, ROUTE_KEY_SIZE, "product:%" PRIu64, route->id);
        break;
    case ROUTE_PRODUCTS:
    case ROUTE_PURCHASE:
    case ROUTE_PING:
    case ROUTE_OTHER:
    case ROUTE_TARGET_COUNT:
        break;
    }
    assert(bytes >= 0 && bytes < ROUTE_KEY_SIZE);
    return (size_t)bytes;
}

/* text[0..bytes) starts with `word`; *rest is what follows. */
static bool skip_word(const char *text, const char *word, const char **rest)
{
    const size_t bytes = strlen(word);

    *rest = text + bytes;
    return strncmp(text, word, bytes) == 0;
}

bool route_key_valid(const char *key)
{
    const char *rest;

    if (strcmp(key, "catalog") == 0)
        return true;
    if (skip_word(key, "product:", &rest))
        return id_parse(rest, strlen(rest)) != 0;
    if (!skip_word(key, "category:", &rest))
        return false;

    const size_t id_bytes = strcspn(rest, ":");
    if (id_parse(rest, id_bytes) == 0)
        return false;
    if (rest[id_bytes] == '\0')
        return true;
    return skip_word(rest + id_bytes, ":after:", &rest) && id_parse(rest, strlen(rest)) != 0;
}

const char *route_target_name(enum route_target target)
{
    return target < ROUTE_TARGET_COUNT ? TARGET_NAMES[target] : TARGET_NAMES[ROUTE_OTHER];
}
