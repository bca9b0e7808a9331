/* SPDX-License-Identifier: MIT */
/*
 * write.h - a write as data: what a client may send and what can become of it.
 *
 *     kind             request                                    body
 *     WRITE_PRODUCT    PUT /products/{id}, If-Match               {"name","description","price_cents","stock"
 *                                                                  [,"category_id"]}: all that can be edited
 *     WRITE_PURCHASE   POST /products/{id}/purchase               {"quantity"}
 *                      [Idempotency-Key]
 *
 * Strict: a field that is missing, unknown, repeated or of another type is an error, and every wrong field is named.
 * Numbers are whole numbers. Lengths of texts are counted in characters, as PostgreSQL counts them.
 *
 * Pure, any thread. Parsing recurses: on a thread with an ordinary stack, not on a server loop.
 */
#pragma once

#include "app/catalog/catalog_json.h"
#include "app/pg/rows.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_t;

enum {
    WRITE_BODY_BYTES_MAX = 131072, /* the longest description fits, with every letter escaped */
    WRITE_VERSIONS_MAX = 16,
    WRITE_VERSIONS_BYTES = PG_ARRAY_SIZE(WRITE_VERSIONS_MAX, CATALOG_VALIDATOR_SIZE - 1),
    WRITE_KEY_SIZE = 65,
    WRITE_ERRORS_BYTES = 512,
};

enum write_kind { WRITE_PRODUCT, WRITE_PURCHASE };

enum write_outcome {
    WRITE_DONE = 0,   /* committed */
    WRITE_REPEATED,   /* was committed before, under the same Idempotency-Key */
    WRITE_ABSENT,     /* no such product */
    WRITE_CONFLICT,   /* its document is no longer one that If-Match names */
    WRITE_SOLD_OUT,   /* less stock than wanted */
    WRITE_KEY_REUSED, /* the Idempotency-Key stands for another purchase */
    WRITE_BAD_BODY,   /* not a JSON object */
    WRITE_BAD_FIELDS,
    WRITE_SHED,    /* the queue was full, or the wait in it too long: not begun */
    WRITE_FAILED,  /* the database did not take it: nothing was changed */
    WRITE_TIMEOUT, /* rolled back: too slow, or the row was locked for too long */
    WRITE_REFUSED, /* the database never will: rights, schema */
    WRITE_UNKNOWN, /* sent, and the connection was lost before the answer: committed or not */
    WRITE_CLOSING, /* shutting down: not begun */
    WRITE_OUTCOME_COUNT
};

/* "done", "sold_out", ...: the words of metrics. */
const char *write_outcome_name(enum write_outcome outcome);

struct write_result {
    enum write_outcome outcome;
    int64_t version;                        /* DONE, REPEATED: the product's */
    char validator[CATALOG_VALIDATOR_SIZE]; /* DONE of a product: of its document; "" otherwise */
    int64_t stock;                          /* the same of a purchase, and SOLD_OUT */
    bool visible;                    /* DONE, REPEATED: every reader sees it from now on; false: soon */
    char errors[WRITE_ERRORS_BYTES]; /* BAD_BODY, BAD_FIELDS: elements of a JSON array; "" for none */
};

/* ---- headers ---- */

struct write_versions {
    bool any; /* "*" */
    size_t count;
    char list[WRITE_VERSIONS_MAX][CATALOG_VALIDATOR_SIZE];
};

/* Adds one If-Match line. Compared strongly (RFC 9110, 13.1.1): a weak tag, or one that cannot be the validator of a
 * product, is accepted and matches nothing. False: not a list of entity tags, or too many. */
bool write_if_match(const char *line, struct write_versions *versions);
/* An array for PostgreSQL: "{7-a.b.c.d,8-a.b.c.d}". */
void write_versions_text(const struct write_versions *versions, char out[WRITE_VERSIONS_BYTES]);

/* An Idempotency-Key, bare or quoted: 1 to 64 of [A-Za-z0-9._:-]. */
bool write_key_parse(const char *value, char out[WRITE_KEY_SIZE]);

/* application/json; if it names a charset, UTF-8. */
bool write_type_is_json(const char *value);

/* ---- the body ---- */

struct write_fields {
    struct json_t *root; /* owned; the texts are lent from it */
    const char *name, *description;
    int64_t price_cents, stock;
    int64_t category_id; /* 0: not given */
    int64_t quantity;
};

/* WRITE_DONE: *out is set and yours, write_fields_clear(). BAD_BODY, BAD_FIELDS: `errors` says why. */
enum write_outcome write_fields_parse(enum write_kind kind, const char *body, size_t body_bytes,
                                      struct write_fields *out, char errors[WRITE_ERRORS_BYTES]);
void write_fields_clear(struct write_fields *fields);

/* Adds one element to `errors`, unless it does not fit. */
void write_error_add(char errors[WRITE_ERRORS_BYTES], const char *field, const char *detail);
