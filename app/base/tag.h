/* SPDX-License-Identifier: MIT */
/*
 * tag.h - the groups that documents belong to, as the guard's tags:
 *
 *     category:{id}   whatever shows this category in its path: its pages, and the categories and products below it
 *     listing:{id}    the pages of a category alone
 *
 * A change of a product makes its own document and the listing stale, never the other products. A category that is
 * renamed or moved owes its first tag, and so all that names it, without knowing what that is: also what another
 * transaction puts below it meanwhile. By hand, after a change that no trigger sees: ops.h.
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

/* What a row of the table `invalidations` may stand for: a key, or "tag:" and a tag. */
bool tag_owed_valid(const char *target);
/* Invalidates that. As guard_invalidate(). */
enum guard_status tag_invalidate_owed(struct guard *guard, const char *target, uint32_t limit_ms,
                                      guard_invalidate_done *done, void *context);

#endif
