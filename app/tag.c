/* SPDX-License-Identifier: MIT */
/*
 * tag.c - see tag.h.
 */
#include "app/tag.h"

#include "app/route.h"

#include <stdio.h>
#include <string.h>

static const char CATEGORY[] = "category:", LISTING[] = "listing:";

void tag_category(const char *id, char out[TAG_SIZE])
{
    snprintf(out, TAG_SIZE, "%s%s", CATEGORY, id);
}

void tag_listing(const char *id, char out[TAG_SIZE])
{
    snprintf(out, TAG_SIZE, "%s%s", LISTING, id);
}

/* The id of the first page of a category; NULL: it is another key. */
static const char *category_of(const char *key)
{
    const char *id;

    if (!route_key_valid(key) || strncmp(key, CATEGORY, sizeof(CATEGORY) - 1) != 0)
        return NULL;
    id = key + sizeof(CATEGORY) - 1;
    return strchr(id, ':') == NULL ? id : NULL;
}

bool tag_valid(const char *tag)
{
    char as_category[TAG_SIZE];

    if (strlen(tag) >= TAG_SIZE)
        return false;
    if (strncmp(tag, LISTING, sizeof(LISTING) - 1) != 0)
        return category_of(tag) != NULL;
    tag_category(tag + sizeof(LISTING) - 1, as_category);
    return category_of(as_category) != NULL;
}

enum guard_status tag_invalidate_owed(struct guard *guard, const char *key, uint32_t limit_ms,
                                      guard_invalidate_done *done, void *context)
{
    const char *id = category_of(key);
    char tag[TAG_SIZE];

    if (id == NULL)
        return guard_invalidate(guard, key, limit_ms, done, context);
    tag_listing(id, tag);
    return guard_invalidate_tag(guard, tag, limit_ms, done, context);
}
