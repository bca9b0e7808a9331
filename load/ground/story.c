/* SPDX-License-Identifier: MIT */
/* story.c - see story.h. */
#include "load/ground/story.h"

#include "load/base/clock.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void story_init(struct story *story)
{
    memset(story, 0, sizeof *story);
    pthread_mutex_init(&story->lock, NULL);
}

void story_tell(struct story *story, enum story_kind kind, const char *format, ...)
{
    va_list arguments;
    pthread_mutex_lock(&story->lock);
    size_t at = story->count++ % STORY_KEPT;
    story->told[at].at_ms = clock_wall_us() / 1000;
    story->told[at].kind = kind;
    va_start(arguments, format);
    vsnprintf(story->told[at].text, sizeof story->told[at].text, format, arguments);
    va_end(arguments);
    pthread_mutex_unlock(&story->lock);
}

json_t *story_json(struct story *story)
{
    static const char *const kinds[] = {"deed", "result", "trouble"};
    json_t *all = json_array();
    pthread_mutex_lock(&story->lock);
    uint64_t first = story->count > STORY_KEPT ? story->count - STORY_KEPT : 0;
    for (uint64_t n = first; n < story->count; n++) {
        size_t at = n % STORY_KEPT;
        json_array_append_new(all, json_pack("{s:I,s:I,s:s,s:s}", "n", (json_int_t)n, "at_ms",
                                             (json_int_t)story->told[at].at_ms, "kind",
                                             kinds[story->told[at].kind], "text", story->told[at].text));
    }
    pthread_mutex_unlock(&story->lock);
    return all;
}

const char *story_count(uint64_t count, char text[static STORY_COUNT_BYTES])
{
    char digits[STORY_COUNT_BYTES];
    size_t length = (size_t)snprintf(digits, sizeof digits, "%" PRIu64, count), out = 0;
    for (size_t i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            text[out++] = ' ';
        text[out++] = digits[i];
    }
    text[out] = '\0';
    return text;
}
