/* SPDX-License-Identifier: MIT */
/*
 * route.h - from a request target to what is asked for, and from that to a guard key (document.h).
 *
 *     target                          guard key
 *     /catalog                        catalog
 *     /categories/{id}                category:{id}
 *     /categories/{id}?after={id}     category:{id}:after:{id}
 *     /products/{id}                  product:{id}
 *     /products?ids={id},{id},...     those of its products, see route_ids()
 *     /products/{id}/offers           offers:{id}
 *     /products/{id}/purchase         none: it is only written to
 *     /ping                           none: answered without the guard, for load balancers
 *
 * A row has one spelling: anything percent-encoded is refused, never decoded, and the key is printed from numbers,
 * never copied from the target.
 *
 * Pure, any thread.
 */
#pragma once

#include "app/base/document.h"

#include <stddef.h>
#include <stdint.h>

enum route_target {
    ROUTE_CATALOG,
    ROUTE_CATEGORY,
    ROUTE_PRODUCT,
    ROUTE_PRODUCTS,
    ROUTE_PURCHASE,
    ROUTE_OFFERS,
    ROUTE_PING,
    ROUTE_OTHER, /* unknown; also the label of such requests in metrics */
    ROUTE_TARGET_COUNT
};

enum route_verdict {
    ROUTE_OK = 0,
    ROUTE_UNKNOWN, /* no such path */
    ROUTE_ENCODED, /* a '%' somewhere */
    ROUTE_BAD_ID,
    ROUTE_BAD_QUERY, /* a query where none is taken, or not after={id} or ids={id},... */
    ROUTE_BAD_IDS,   /* ids= with none, more than ROUTE_IDS_MAX, a wrong one, or one twice */
};

struct route {
    enum route_target target;
    uint64_t id;    /* 0: the target has none */
    uint64_t after; /* 0: from the start */
};

/* The list behind ids=. */
enum { ROUTE_IDS_MAX = 100, ROUTE_BAD_ID_SIZE = 24 };
struct route_ids {
    uint64_t ids[ROUTE_IDS_MAX]; /* in the order of the request */
    uint32_t count;
    uint32_t bad_place;          /* ROUTE_BAD_IDS: which one, from 1; 0: the list is empty */
    char bad[ROUTE_BAD_ID_SIZE]; /* its text, cut */
};

/* `uri` as on the request line, query included; also in absolute form. Always sets *out, at least its target. */
enum route_verdict route_parse(const char *uri, struct route *out);

/* For a uri that route_parse() takes for ROUTE_PRODUCTS; OK, or BAD_IDS with what is wrong. A repeated id is refused,
 * so that a list has one spelling and one ETag. */
enum route_verdict route_ids(const char *uri, struct route_ids *out);

/* Writes the key and its NUL; returns its length. 0 if the route has none. */
size_t route_key(const struct route *route, char out[DOCUMENT_KEY_SIZE]);

/* "catalog", "category", ...: the words of metrics. Never NULL. */
const char *route_target_name(enum route_target target);
