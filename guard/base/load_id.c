/* SPDX-License-Identifier: MIT */
/* load_id.c - see load_id.h. */
#include "load_id.h"
#include <string.h>

/* Shifts hex digits into the id; every hit does. */
static inline uint64_t load_id_shift(uint64_t id, const char *digits, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        unsigned char digit = (unsigned char)digits[i];
        id = id << 4 | (((digit & 15u) + (digit >> 6) * 9u) & 15u); /* the letters are from 0x61 on */
    }
    return id;
}

uint64_t load_id_of_uuid(const char *uuid)
{
    uint64_t id = load_id_shift(0, uuid, 8);
    id = load_id_shift(id, uuid + 9, 4);
    return load_id_shift(id, uuid + 14, 4);
}

uint64_t load_id_of_tag(const char *tag)
{
    return load_id_shift(0, tag, LOAD_ID_DIGITS);
}

uint64_t load_id_read(const char *text)
{
    size_t digits = strspn(text, "0123456789abcdef");
    return digits == LOAD_ID_DIGITS && text[digits] == '\0' ? load_id_shift(0, text, digits) : 0;
}
