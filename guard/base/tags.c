/* SPDX-License-Identifier: MIT */
/* tags.c - see tags.h. */
#include "tags.h"
#include "digits.h"
#include "key.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ERA_DIGITS = 16, COUNT_DIGITS = 12 };
_Static_assert(ERA_DIGITS + 1 + COUNT_DIGITS == TAGS_CLOCK_BYTES, "era, a point and count");
_Static_assert((int)TAGS_ENCODED_MAX <= (int)KEY_ENCODED_MAX, "no tag is hashed");

/* ---- clock and epochs ---- */

bool tags_clock_read(const char *text, size_t bytes, struct tags_clock *out)
{
    struct tags_clock clock;
    *out = (struct tags_clock){0, 0};
    if (bytes != TAGS_CLOCK_BYTES || text[ERA_DIGITS] != '.' || !digits_read(text, ERA_DIGITS, &clock.era) ||
        !digits_read(text + ERA_DIGITS + 1, COUNT_DIGITS, &clock.count) || clock.era == 0)
        return false;
    *out = clock;
    return true;
}

void tags_clock_write(const struct tags_clock *clock, char out[TAGS_CLOCK_BYTES + 1])
{
    /* both have come out of so many digits */
    char text[48];
    snprintf(text, sizeof text, "%0*" PRIu64 ".%0*" PRIu64, ERA_DIGITS, clock->era, COUNT_DIGITS,
             clock->count);
    memcpy(out, text, TAGS_CLOCK_BYTES);
    out[TAGS_CLOCK_BYTES] = '\0';
}

enum tags_verdict tags_judge(const struct tags_epochs *epochs, size_t tag_count,
                             const struct tags_clock *born)
{
    if (!epochs->answered)
        return TAGS_UNANSWERED;
    bool good = epochs->count == tag_count;
    for (size_t i = 0; i < tag_count && good; i++)
        good = epochs->of[i].era != 0 && epochs->of[i].era == born->era && epochs->of[i].count <= born->count;
    return good ? TAGS_GOOD : TAGS_OUTDATED;
}

/* ---- the tags of one entry ---- */

static bool tag_known(const char *text, size_t bytes, const char *tag, size_t tag_bytes)
{
    struct tag tags[GUARD_TAGS_MAX];
    int count = tags_split(text, bytes, tags);
    for (int i = 0; i < count; i++)
        if (tags[i].bytes == tag_bytes && memcmp(tags[i].at, tag, tag_bytes) == 0)
            return true;
    return false;
}

size_t tags_count(const char *text, size_t bytes)
{
    size_t count = 1;
    if (bytes == 0)
        return 0; /* perhaps of no text at all */
    const char *const end = text + bytes;
    while ((text = memchr(text, ' ', (size_t)(end - text))) != NULL) {
        text++;
        count++;
    }
    return count;
}

bool tags_add(char *text, size_t *bytes, const char *tag, size_t tag_bytes)
{
    char encoded[KEY_ENCODED_MAX + 1];
    if (tag_bytes == 0 || tag_bytes > GUARD_TAG_BYTES_MAX)
        return false;
    size_t encoded_bytes = key_encode(tag, tag_bytes, encoded);
    if (tag_known(text, *bytes, encoded, encoded_bytes))
        return true;
    if (tags_count(text, *bytes) == GUARD_TAGS_MAX)
        return false;
    if (*bytes > 0)
        text[(*bytes)++] = ' ';
    memcpy(text + *bytes, encoded, encoded_bytes + 1);
    *bytes += encoded_bytes;
    return true;
}

/* -1: too many. */
static int cut(const char *text, size_t bytes, struct tag out[GUARD_TAGS_MAX])
{
    int count = 0;
    if (bytes == 0)
        return 0; /* perhaps of no text at all */
    for (const char *at = text, *end = text + bytes;;) {
        const char *space = memchr(at, ' ', (size_t)(end - at));
        if (count == GUARD_TAGS_MAX)
            return -1;
        out[count++] = (struct tag){at, (size_t)((space != NULL ? space : end) - at)};
        if (space == NULL)
            return count;
        at = space + 1;
    }
}

int tags_split(const char *text, size_t bytes, struct tag out[GUARD_TAGS_MAX])
{
    int count = cut(text, bytes, out);
    for (int i = 0; i < count; i++)
        if (out[i].bytes > TAGS_ENCODED_MAX || !key_is_encoded(out[i].at, out[i].bytes))
            return -1;
    return count;
}

size_t tags_cut(const char *text, size_t bytes, struct tag out[GUARD_TAGS_MAX])
{
    int count = cut(text, bytes, out);
    assert(count >= 0);
    return (size_t)count;
}
