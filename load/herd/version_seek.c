/* SPDX-License-Identifier: MIT */
/* version_seek.c - see version_seek.h; the search is that of Knuth, Morris and Pratt. */
#include "load/herd/version_seek.h"

#include <string.h>

void version_text_init(struct version_text *text, const char *wanted)
{
    *text = (struct version_text){.count = (uint8_t)strlen(wanted)};
    memcpy(text->text, wanted, text->count);
    uint8_t matched = 0;
    for (uint8_t i = 1; i < text->count; i++) {
        while (matched > 0 && text->text[i] != text->text[matched])
            matched = text->back[matched - 1];
        matched = (uint8_t)(matched + (text->text[i] == text->text[matched]));
        text->back[i] = matched;
    }
}

static void seek_byte(struct version_seek *seek, const struct version_text *text, char byte)
{
    while (seek->matched > 0 && byte != text->text[seek->matched])
        seek->matched = text->back[seek->matched - 1];
    if (byte == text->text[seek->matched])
        seek->matched++;
    if (seek->matched < text->count)
        return;
    seek->matched = 0;
    seek->state = VERSION_BEFORE;
}

static void add_digit(struct version_seek *seek, char byte)
{
    uint64_t version = (uint64_t)seek->version * 10 + (uint64_t)(byte - '0');
    seek->version = version < UINT32_MAX ? (uint32_t)version : UINT32_MAX;
    seek->state = VERSION_INSIDE;
}

static void number_byte(struct version_seek *seek, const struct version_text *text, char byte)
{
    if (byte >= '0' && byte <= '9') {
        add_digit(seek, byte);
    } else if (seek->state == VERSION_INSIDE) {
        seek->state = VERSION_FOUND;
    } else if (strchr(" \t\r\n\"", byte) == NULL || byte == '\0') {
        seek->state = VERSION_SEEKING;
        seek_byte(seek, text, byte);
    }
}

void version_seek_feed(struct version_seek *seek, const struct version_text *text, const char *bytes,
                       size_t count)
{
    for (size_t i = 0; i < count && seek->state != VERSION_FOUND; i++) {
        if (seek->state != VERSION_SEEKING) {
            number_byte(seek, text, bytes[i]);
            continue;
        }
        if (seek->matched == 0) { /* most of a body is skipped in one call */
            const char *next = memchr(bytes + i, text->text[0], count - i);
            if (next == NULL)
                return;
            i = (size_t)(next - bytes);
        }
        seek_byte(seek, text, bytes[i]);
    }
}
