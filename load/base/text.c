/* SPDX-License-Identifier: MIT */
/* text.c - see text.h. */
#include "load/base/text.h"

#include <stdlib.h>
#include <string.h>

void text_add(struct text *text, const char *bytes, size_t count)
{
    if (text->count + count + 1 > text->capacity) {
        text->capacity = (text->count + count + 1) * 2;
        char *larger = realloc(text->bytes, text->capacity);
        if (larger == NULL)
            abort();
        text->bytes = larger;
    }
    if (count > 0)
        memcpy(text->bytes + text->count, bytes, count);
    text->count += count;
    text->bytes[text->count] = '\0';
}

void text_add_line(struct text *text, const char *line)
{
    text_add(text, line, strlen(line));
}

void text_empty(struct text *text)
{
    text->count = 0;
}

void text_clear(struct text *text)
{
    free(text->bytes);
    *text = (struct text){.bytes = NULL};
}

void *list_grow(void *list, size_t count, size_t *room, size_t each)
{
    if (count < *room)
        return list;
    size_t more = *room == 0 ? 256 : *room * 2;
    void *larger = realloc(list, more * each);
    if (larger != NULL)
        *room = more;
    return larger;
}
