/* SPDX-License-Identifier: MIT */
/*
 * rows.h - the rows a query returned, as texts, in two blocks of memory and within a byte limit; and parameters of an
 * array type, as PostgreSQL writes one: "{}", "{1,2}". Those are always whole, so that they can be sent at any time.
 *
 * Pure: no database, no I/O. One thread at a time.
 */
#pragma once

#include "app/base/number.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rows {
    size_t column_count, row_count;
    size_t limit_bytes; /* of all texts together, each with its NUL */
    char *texts;        /* owned */
    size_t texts_bytes, texts_size;
    size_t *cells; /* owned; where in `texts` a cell begins, or ROWS_NULL */
    size_t cell_count, cells_size;
    bool over_limit; /* why the last rows_add() failed; else for want of memory */
};

void rows_init(struct rows *rows, size_t limit_bytes);
/* Works on a half-filled one, and twice. */
void rows_clear(struct rows *rows);
/* Forgets the rows, keeps the memory; the next rows have this many columns. */
void rows_reset(struct rows *rows, size_t column_count);

/* Appends one cell, row by row; text: copied, NULL for SQL's. False: over the limit or no memory. */
bool rows_add(struct rows *rows, const char *text, size_t text_bytes);

/* NULL for SQL's; lent until the next rows_reset(), rows_add() or rows_clear(). */
const char *rows_text(const struct rows *rows, size_t row, size_t column);

/* ---- arrays ---- */

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
