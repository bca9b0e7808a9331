/* SPDX-License-Identifier: MIT */
/*
 * version_seek.h - finds the number that follows a text, in a body that comes in pieces.
 *
 *     SEEKING --the whole text--> BEFORE --digit--> INSIDE --no digit--> FOUND
 *        ^                          | neither blank nor quote nor digit
 *        +--------------------------+
 *
 * Blanks and one quote may stand between text and number. The first number counts. No memory is allocated.
 */
#ifndef LOAD_HERD_VERSION_SEEK_H
#define LOAD_HERD_VERSION_SEEK_H

#include <stddef.h>
#include <stdint.h>

enum { VERSION_SEEK_TEXT_MAX = 64 };

/* The text, prepared once. */
struct version_text {
    char text[VERSION_SEEK_TEXT_MAX + 1];
    uint8_t count;
    uint8_t back[VERSION_SEEK_TEXT_MAX]; /* how much of the text still matches when its next byte does not */
};

enum version_state { VERSION_SEEKING = 0, VERSION_BEFORE, VERSION_INSIDE, VERSION_FOUND };

/* One body; all zeros at its begin. */
struct version_seek {
    enum version_state state;
    uint8_t matched;  /* bytes of the text */
    uint32_t version; /* so far; 0: none; what does not fit is UINT32_MAX */
};

/* `text`: 1 to VERSION_SEEK_TEXT_MAX bytes. */
void version_text_init(struct version_text *text, const char *wanted);

void version_seek_feed(struct version_seek *seek, const struct version_text *text, const char *bytes,
                       size_t count);

#endif
