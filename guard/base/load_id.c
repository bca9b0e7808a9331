/* SPDX-License-Identifier: MIT */
/* load_id.c - see load_id.h. */
#include "load_id.h"
#include <stdbool.h>

/* Shifts the digits into *id. False: one of them is none. */
static bool load_id_shift(const char *text, size_t bytes, uint64_t *id)
{
    uint64_t sum = *id;
    bool good = true;
    for (size_t i = 0; i < bytes; i++) {
        unsigned digit = (unsigned char)text[i] - '0', letter = (unsigned char)text[i] - 'a';
        good = good && (digit < 10 || letter < 6);
        sum = sum << 4 | (digit < 10 ? digit : letter + 10);
    }
    *id = sum;
    return good;
}

uint64_t load_id_of_uuid(const char *uuid)
{
    uint64_t id = 0;
    bool good =
        load_id_shift(uuid, 8, &id) && load_id_shift(uuid + 9, 4, &id) && load_id_shift(uuid + 14, 4, &id);
    return good ? id : 0;
}

uint64_t load_id_read(const char *text, size_t bytes)
{
    uint64_t id = 0;
    return bytes == LOAD_ID_DIGITS && load_id_shift(text, bytes, &id) ? id : 0;
}
