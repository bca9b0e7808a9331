/* SPDX-License-Identifier: MIT */
/*
 * tag.h - the groups that documents belong to, as the guard's tags:
 *
 *     category:{id}   the pages of a category, and the products that are in it
 *     listing:{id}    the pages of a category alone
 *
 * A change of a product makes its own document and the listing stale, never the other products; whoever wants all of
 * a category gone, after a change that no trigger sees, invalidates its first tag by hand (ops.h).
 *
 * Pure but for tag_invalidate_owed(); any thread.
 */
#ifndef APP_TAG_H
#define APP_TAG_H

#include "guard/guard.h"

#include <stdbool.h>

enum { TAG_SIZE = 32 };

/* Both write a tag and its NUL. `id`: a canonical category id, see route.h. */
void tag_category(const char *id, char out[TAG_SIZE]);
void tag_listing(const char *id, char out[TAG_SIZE]);
/* True if `tag` is exactly what one of them writes for some category. */
bool tag_valid(const char *tag);

/* Invalidates what a row of the table `invalidations` stands for: of a category all its pages by their tag, otherwise
 * the key. As guard_invalidate(). */
enum guard_status tag_invalidate_owed(struct guard *guard, const char *key, uint32_t limit_ms,
                                      guard_invalidate_done *done, void *context);

#endif
