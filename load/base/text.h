/* SPDX-License-Identifier: MIT */
/*
 * text.h - a text that grows, and a list that does.
 *
 * All zeros is an empty one, without memory. Out of memory ends the program: it is a tester. Threads: one at a time.
 */
#pragma once

#include <stddef.h>

struct text {
    char *bytes; /* owned; NUL-terminated once something was added, be it nothing; NULL before */
    size_t count, capacity;
};

void text_add(struct text *text, const char *bytes, size_t count);
void text_add_line(struct text *text, const char *line);

/* Empty again; the memory is kept. */
void text_empty(struct text *text);
void text_clear(struct text *text);

/* Makes room for one more item of `each` bytes in a list from malloc(); *room items fit by now. The list, elsewhere
 * perhaps; NULL: no memory, and the list is as it was. */
void *list_grow(void *list, size_t count, size_t *room, size_t each);
