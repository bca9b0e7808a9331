/* SPDX-License-Identifier: MIT */
/*
 * route.c - the table of paths and the grammar of ids.
 */
#include "app/http/route.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* A path ends here; if that is a '/', in an id and what follows it. */
static const struct {
    const char *path, *tail;
    enum route_target target;
    bool takes_after;
} TABLE[] = {
    {"/products/", "", ROUTE_PRODUCT, false},       {"/products/", "/purchase", ROUTE_PURCHASE, false},
    {"/categories/", "", ROUTE_CATEGORY, true},     {"/catalog", "", ROUTE_CATALOG, false},
    {"/products", "", ROUTE_PRODUCTS, false},       {"/ping", "", ROUTE_PING, false},
    {"/products/", "/offers", ROUTE_OFFERS, false},
};
enum { TABLE_ROWS = sizeof(TABLE) / sizeof(TABLE[0]) };

static const char *const TARGET_NAMES[ROUTE_TARGET_COUNT] = {
    [ROUTE_CATALOG] = "catalog",   [ROUTE_CATEGORY] = "category", [ROUTE_PRODUCT] = "product",
    [ROUTE_PING] = "ping",         [ROUTE_OTHER] = "other",       [ROUTE_PURCHASE] = "purchase",
    [ROUTE_PRODUCTS] = "products", [ROUTE_OFFERS] = "offers",
};

/* DOCUMENT_KIND_COUNT: there is no key. */
static const enum document_kind KINDS[ROUTE_TARGET_COUNT] = {
    [ROUTE_CATALOG] = DOCUMENT_TREE,        [ROUTE_CATEGORY] = DOCUMENT_CATEGORY,
    [ROUTE_PRODUCT] = DOCUMENT_PRODUCT,     [ROUTE_PRODUCTS] = DOCUMENT_KIND_COUNT,
    [ROUTE_PURCHASE] = DOCUMENT_KIND_COUNT, [ROUTE_PING] = DOCUMENT_KIND_COUNT,
    [ROUTE_OTHER] = DOCUMENT_KIND_COUNT,    [ROUTE_OFFERS] = DOCUMENT_OFFERS,
};

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
    *after = document_id(query, strlen(query));
    return *after != 0 ? ROUTE_OK : ROUTE_BAD_QUERY;
}

/* ---- ids= ---- */

static const char IDS[] = "ids=";

static bool take_id(const char *text, size_t bytes, struct route_ids *out)
{
    const uint64_t id = document_id(text, bytes);
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
        out->id = document_id(path + row_bytes, path_bytes - row_bytes - strlen(TABLE[row].tail));
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

size_t route_key(const struct route *route, char out[DOCUMENT_KEY_SIZE])
{
    const struct document_key key = {.kind = KINDS[route->target], .id = route->id, .after = route->after};

    out[0] = '\0';
    return key.kind != DOCUMENT_KIND_COUNT ? document_key_print(&key, out) : 0;
}

const char *route_target_name(enum route_target target)
{
    return target < ROUTE_TARGET_COUNT ? TARGET_NAMES[target] : TARGET_NAMES[ROUTE_OTHER];
}
