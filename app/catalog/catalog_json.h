/* SPDX-License-Identifier: MIT */
/*
 * catalog_json.h - from the rows of sql/load_*.sql to the documents of the catalog.
 *
 * Keys stand in a fixed order and nothing but the rows goes in, so the same rows make the same bytes. Rows that
 * cannot be a document (a NULL, or a text that is not UTF-8, in a database that checks neither) are BROKEN, never
 * half of one.
 *
 * Pure, any thread.
 */
#pragma once

#include "app/pg/rows.h"
#include "guard/guard.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum catalog_json_verdict {
    CATALOG_JSON_OK = 0,
    CATALOG_JSON_ABSENT, /* the rows say that there is no such thing */
    CATALOG_JSON_BROKEN, /* a NULL, no number, not UTF-8, not these columns; or no memory */
};

enum {
    CATALOG_VALIDATOR_SIZE = 96,
    CATALOG_PATH_MAX = 3,
    CATALOG_PAGE_PRODUCTS = 50, /* on a page of a category */
};

struct catalog_document {
    char *body; /* owned; catalog_document_clear() */
    size_t body_bytes;
    char validator[CATALOG_VALIDATOR_SIZE];
};

/* *out is set only on OK. */
typedef enum catalog_json_verdict catalog_json_build(const struct rows *rows, struct catalog_document *out);

/* {"categories":[{"id","name","product_count","children":[{...
 *      "children":[{"id","name","product_count"}]}]}]}; a parent counts what is below it. An empty database has
 *      an empty tree. */
catalog_json_build catalog_json_tree;

/* {"id","level","name","path":[{"id","name"}],"children":[{"id","name"}],
 *  "products":[{"id","sku","name","price_cents","stock"}],"next":null or "/categories/7?after=1234"} */
catalog_json_build catalog_json_category;

/* {"id","category_id","path":[{"id","name"}],"sku","name","description","price_cents","stock","version",
 *  "updated_at"}; the path begins at the root and ends with the category itself. */
catalog_json_build catalog_json_product;
/*
 * {"client":null or "its name","offers":[{"id","price_cents","valid_until","own"}]}, the cheapest first. `client` and
 * what is its own are there only if the rows are of that client alone; such a document has no validator. Without any
 * that stands it is ABSENT.
 */
catalog_json_build catalog_json_offers;
/* As catalog_json_product, for one row of many, of sql/load_products.sql. */
enum catalog_json_verdict catalog_json_product_at(const struct rows *rows, size_t row,
                                                  struct catalog_document *out);
/* The id of that row; NULL: it is not a product. */
const char *catalog_json_product_id(const struct rows *rows, size_t row);
/* The ids of the categories on the path of that row's document, a product's or a category's, itself included; returns
 * how many. Lent by the rows. */
size_t catalog_json_path(const struct rows *rows, size_t row, const char *ids[CATALOG_PATH_MAX]);
/* The row is there, has this validator and came without the rest, as sql/load_product.sql sends it then. */
bool catalog_json_product_unchanged(const struct rows *rows, const char *validator);
/* text[0..bytes) has the length and the characters of the validator of a product (product_validator() in
 * sql/schema.sql), and so needs no quotes anywhere. */
bool catalog_json_is_validator(const char *text, size_t bytes);

/* 16 hex digits and a NUL: tells one edition of a document from the next. */
void catalog_json_hash(const char *body, size_t body_bytes, char out[CATALOG_VALIDATOR_SIZE]);

void catalog_document_clear(struct catalog_document *document);

/* ---- offers ---- */

/*
 * How long the offers for a product may be kept, and for whom.
 *
 *     some client has an offer of its own    passed: each request loads for its own asker, and nothing is shared
 *     otherwise                              stored for all, until the next offer begins or ends and never stale; at
 *                                            most for the policy's time, as everything else
 */

struct offers_rules {
    uint32_t fresh_ms, absent_ms; /* the policy's */
    uint64_t elapsed_ms;          /* since the query began, at least */
    bool may_store;               /* what is not passed */
};

/* False: the rows are not those of sql/load_offers.sql; nothing was told. */
bool offers_keep(const struct rows *rows, const struct offers_rules *rules, struct guard_keep *out);
