/* SPDX-License-Identifier: MIT */
/* pg_array.c - see pg_array.h. `used` counts up to the closing brace. */
#include "app/pg/pg_array.h"

#include <assert.h>
#include <string.h>

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
