/* SPDX-License-Identifier: MIT */
/* rows.c - see rows.h. */
#include "app/pg/rows.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const size_t ROWS_NULL = SIZE_MAX;

enum { FIRST_TEXTS_BYTES = 4096, FIRST_CELLS = 64 };

void rows_init(struct rows *rows, size_t limit_bytes)
{
    *rows = (struct rows){.limit_bytes = limit_bytes};
}

void rows_clear(struct rows *rows)
{
    free(rows->texts);
    free(rows->cells);
    rows_init(rows, rows->limit_bytes);
}

void rows_reset(struct rows *rows, size_t column_count)
{
    rows->column_count = column_count;
    rows->row_count = 0;
    rows->texts_bytes = 0;
    rows->cell_count = 0;
    rows->over_limit = false;
}

static bool reserve_text(struct rows *rows, size_t bytes)
{
    rows->over_limit = bytes > rows->limit_bytes || rows->texts_bytes > rows->limit_bytes - bytes;
    if (rows->over_limit)
        return false;
    size_t size = rows->texts_size > 0 ? rows->texts_size : FIRST_TEXTS_BYTES;
    while (size < rows->texts_bytes + bytes)
        size *= 2;
    if (size == rows->texts_size)
        return true;
    char *texts = realloc(rows->texts, size);
    if (texts == NULL)
        return false;
    rows->texts = texts;
    rows->texts_size = size;
    return true;
}

static bool reserve_cell(struct rows *rows)
{
    if (rows->cell_count < rows->cells_size)
        return true;
    size_t size = rows->cells_size > 0 ? rows->cells_size * 2 : FIRST_CELLS;
    size_t *cells = realloc(rows->cells, size * sizeof(*cells));
    if (cells == NULL)
        return false;
    rows->cells = cells;
    rows->cells_size = size;
    return true;
}

bool rows_add(struct rows *rows, const char *text, size_t text_bytes)
{
    assert(rows->column_count > 0);
    if (!reserve_cell(rows) || (text != NULL && !reserve_text(rows, text_bytes + 1)))
        return false;
    size_t at = ROWS_NULL;
    if (text != NULL) {
        at = rows->texts_bytes;
        memcpy(rows->texts + at, text, text_bytes);
        rows->texts[at + text_bytes] = '\0';
        rows->texts_bytes += text_bytes + 1;
    }
    rows->cells[rows->cell_count++] = at;
    rows->row_count = rows->cell_count / rows->column_count;
    return true;
}

const char *rows_text(const struct rows *rows, size_t row, size_t column)
{
    assert(row < rows->row_count && column < rows->column_count);
    size_t at = rows->cells[row * rows->column_count + column];
    return at == ROWS_NULL ? NULL : rows->texts + at;
}

/* ---- arrays ---- */

void pg_array_init(struct pg_array *array, char *text, size_t size)
{
    assert(size >= sizeof("{}"));
    *array = (struct pg_array){.text = text, .size = size, .used = 1};
    memcpy(text, "{}", sizeof("{}"));
}

void pg_array_add(struct pg_array *array, const char *element)
{
    const size_t bytes = strlen(element);

    assert(array->used + 1 + bytes + sizeof("}") <= array->size);
    if (array->count++ > 0)
        array->text[array->used++] = ',';
    memcpy(array->text + array->used, element, bytes);
    array->used += bytes;
    memcpy(array->text + array->used, "}", sizeof("}"));
}

void pg_array_add_number(struct pg_array *array, int64_t number)
{
    char text[NUMBER_SIZE];

    pg_array_add(array, number_print(number, text));
}
