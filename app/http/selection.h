/* SPDX-License-Identifier: MIT */
/*
 * selection.h - what GET /products?ids=3,1,7 asks for, and the document made of it:
 *
 *     {"products":[{...},{...}],"absent":[7]}   both in the order of the request, products as /products/{id} has them
 *
 * All or nothing: if one of the ids could neither be found nor found absent, the answer is its problem. The ETag is a
 * hash of the body; Age is that of the oldest part, Cache-Status that of the part that took the longest way.
 *
 * Threads: that of the connection.
 */
#pragma once

#include "app/http/answer.h"
#include "app/http/route.h"

struct selection;

/* All of the products. */
struct selection_keys {
    char text[ROUTE_IDS_MAX][DOCUMENT_KEY_SIZE];
    const char *list[ROUTE_IDS_MAX]; /* into text */
    size_t count;
};

/* Of a URI that route_parse() takes for ROUTE_PRODUCTS, also with ROUTE_BAD_IDS. NULL: no memory. */
struct selection *selection_new(const char *uri);
/* Leaves NULL. Accepts NULL in *selection. */
void selection_free(struct selection **selection);

void selection_list(const struct selection *selection, struct selection_keys *keys);
/* Where guard_get() sets them: lent, and their values the selection's. */
struct guard_result *selection_results(struct selection *selection);
/* As they are answered, lent. */
void selection_take(struct selection *selection, const struct guard_result *results);
/* Redis or the near cache answered everything. */
bool selection_is_hit(const struct selection *selection);

/* No document is longer; 0: it is a problem instead. */
size_t selection_bytes(const struct selection *selection);
void selection_answer(const struct selection *selection, const char *path, uint32_t fresh_ms,
                      struct answer *out);
/* What can be said of all at once: the first problem, or the sum. Its value is not set. */
struct guard_result selection_result(const struct selection *selection);
/* Which of the ids is wrong. */
void selection_answer_bad(const struct selection *selection, const char *path, struct answer *out);
