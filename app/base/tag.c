/* SPDX-License-Identifier: MIT */
/*
 * tag.c - see tag.h.
 */
#include "app/base/tag.h"

#include "app/http/route.h"

#include <stdio.h>
#include <string.h>

static const char CATEGORY[] = "category:", LISTING[] = "listing:", OWED_TAG[] = "tag:";

void tag_category(const char *id, char out[TAG_SIZE])
{
    snprintf(out, TAG_SIZE, "%s%s", CATEGORY, id);
}

void tag_listing(const char *id, char out[TAG_SIZE])
{
    snprintf(out, TAG_SIZE, "%s%s", LISTING, id);
}

/* The key of the first page of a category. */
static bool is_category(const char *key)
{
    return route_key_valid(key) && strncmp(key, CATEGORY, sizeof(CATEGORY) - 1) == 0 &&
           strchr(key + sizeof(CATEGORY) - 1, ':') == NULL;
}

bool tag_valid(const char *tag)
{
    char as_category[TAG_SIZE];

    if (strlen(tag) >= TAG_SIZE)
        return false;
    if (strncmp(tag, LISTING, sizeof(LISTING) - 1) != 0)
        return is_category(tag);
    tag_category(tag + sizeof(LISTING) - 1, as_category);
    return is_category(as_category);
}

/* NULL: the target is a key. */
static const char *owed_tag(const char *target)
{
    const size_t bytes = sizeof(OWED_TAG) - 1;

    return strncmp(target, OWED_TAG, bytes) == 0 ? target + bytes : NULL;
}

bool tag_owed_valid(const char *target)
{
    const char *tag = owed_tag(target);

    return tag != NULL ? tag_valid(tag) : route_key_valid(target);
}

enum guard_status tag_invalidate_owed(struct guard *guard, const char *target, uint32_t limit_ms,
                                      guard_invalidate_done *done, void *context)
{
    const char *tag = owed_tag(target);

    if (tag != NULL)
        return guard_invalidate_tag(guard, tag, limit_ms, done, context);
    return guard_invalidate(guard, target, limit_ms, done, context);
}
