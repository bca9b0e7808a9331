/* SPDX-License-Identifier: MIT */
/*
 * pg_array.h - a parameter of an array type, as PostgreSQL writes one: "{}", "{1,2}".
 *
 * Always whole, so that it can be sent at any time. Pure, one thread at a time.
 */
#ifndef APP_PG_ARRAY_H
#define APP_PG_ARRAY_H

#include "app/base/number.h"

#include <stddef.h>
#include <stdint.h>

/* Room for so many elements of at most so many bytes, their commas, the braces and the NUL. */
#define PG_ARRAY_SIZE(elements, element_bytes) ((elements) * ((element_bytes) + 1) + 3)
#define PG_ARRAY_NUMBERS_SIZE(elements) PG_ARRAY_SIZE(elements, NUMBER_SIZE - 1)

struct pg_array {
    char *text; /* lent by the caller */
    size_t size, used, count;
};

/* Empty, in a text of `size` bytes. */
void pg_array_init(struct pg_array *array, char *text, size_t size);
/* Copies the element, which must need no quotes. Room is the caller's to see to. */
void pg_array_add(struct pg_array *array, const char *element);
void pg_array_add_number(struct pg_array *array, int64_t number);

#endif
