/* SPDX-License-Identifier: MIT */
/*
 * document.h - the names of what is cached: a key for each document, tags for groups of them.
 *
 *     key                          document
 *     catalog                      the category tree
 *     category:{id}                a category and the first page of its products
 *     category:{id}:after:{id}     a later page
 *     product:{id}                 a product
 *     offers:{id}                  the offers for a product that stand
 *
 *     tag                          documents
 *     category:{id}                whatever shows this category in its path: its pages, and the categories and
 *                                  products below it
 *     listing:{id}                 the pages of a category alone
 *
 * An id is ^[1-9][0-9]{0,17}$, so a row has one spelling and one key. A changed product makes its own document and
 * the listing stale, never the other products. A renamed or moved category owes its first tag, and with it everything
 * that names it, without knowing what that is: also what another transaction puts below it meanwhile.
 *
 * Pure, any thread.
 */
#pragma once

#include "app/base/number.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DOCUMENT_KEY_SIZE = 64, TAG_SIZE = 32 }; /* the longest and its NUL */

enum document_kind {
    DOCUMENT_TREE,
    DOCUMENT_CATEGORY,
    DOCUMENT_PRODUCT,
    DOCUMENT_OFFERS,
    DOCUMENT_KIND_COUNT
};

struct document_key {
    enum document_kind kind;
    uint64_t id;    /* 0: of the tree */
    uint64_t after; /* of a later page; 0: of the first one, or of something else */
};

/* The id that is all of text[0..bytes); 0: it is none. */
uint64_t document_id(const char *text, size_t bytes);
/* Returns the length. */
size_t document_key_print(const struct document_key *key, char out[DOCUMENT_KEY_SIZE]);
/* True: document_key_print() writes exactly this text for *out. */
bool document_key_parse(const char *text, struct document_key *out);
bool document_key_valid(const char *text);
/* "catalog", "categories", ...: in numbers, events and files. */
const char *document_kind_name(enum document_kind kind);

/* `id`: as text, for that is how a database sends it. */
void tag_category(const char *id, char out[TAG_SIZE]);
void tag_listing(const char *id, char out[TAG_SIZE]);
/* True: one of the two writes exactly this text for some category. */
bool tag_valid(const char *text);

/* What a row of the table `invalidations` stands for: a key, or "tag:" and a tag. NULL: the target is a key. */
const char *target_tag(const char *target);
bool target_valid(const char *target);
