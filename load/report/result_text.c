/* SPDX-License-Identifier: MIT */
/* result_text.c - see result_text.h. */
#include "load/report/result_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct range {
    uint32_t first, last;
};

/* Control characters, and those that turn the direction round. */
static const struct range unwanted[] = {
    {0x00, 0x1f}, {0x7f, 0x9f}, {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}, {0xd800, 0xdfff},
};

static const struct range wide[] = {
    {0x1100, 0x115f}, {0x2e80, 0xa4cf}, {0xac00, 0xd7a3},   {0xf900, 0xfaff},
    {0xfe30, 0xfe6f}, {0xff00, 0xff60}, {0x1f300, 0x1faff}, {0x20000, 0x3fffd},
};

static bool is_among(const struct range *ranges, size_t count, uint32_t code)
{
    for (size_t i = 0; i < count; i++) {
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    }
    return false;
}

/* ---- UTF-8 ---- */

static size_t length_by_first(unsigned char first)
{
    if (first < 0x80)
        return 1;
    if (first >= 0xc2 && first < 0xe0)
        return 2;
    if (first >= 0xe0 && first < 0xf0)
        return 3;
    return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

/* How many bytes the character has; 0: it is none. The overlong ones have fewer bits than their length is for. */
static size_t decode(const char *text, size_t left_bytes, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *bytes = (const unsigned char *)text;
    size_t length = length_by_first(bytes[0]);
    if (length == 0 || length > left_bytes)
        return 0;
    *code = length == 1 ? bytes[0] : bytes[0] & (0xffU >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | (bytes[i] & 0x3f);
    }
    return *code >= least[length] && *code <= 0x10ffff ? length : 0;
}

/* What stands for one byte or character that cannot stay; 0: it can. */
static char replacement(size_t length, uint32_t code, bool keeps_lines)
{
    if (length == 0)
        return '?';
    if (code == '\n' && keeps_lines)
        return 0;
    if (code == '\n' || code == '\t' || code == '\r')
        return ' ';
    return is_among(unwanted, sizeof unwanted / sizeof *unwanted, code) ? '?' : 0;
}

void text_clean(char *out, size_t out_bytes, const char *text, size_t text_bytes, bool keeps_lines)
{
    size_t used = 0, at = 0, left = strnlen(text, text_bytes);
    while (at < left) {
        uint32_t code = 0;
        size_t length = decode(text + at, left - at, &code);
        char instead = replacement(length, code, keeps_lines);
        size_t needed = instead != 0 ? 1 : length;
        if (used + needed >= out_bytes)
            break;
        if (instead != 0)
            out[used] = instead;
        else
            memmove(out + used, text + at, length);
        used += needed;
        at += length > 0 ? length : 1;
    }
    out[used] = '\0';
}

static size_t columns_of(const char *text, size_t *bytes)
{
    uint32_t code = 0;
    *bytes = decode(text, strnlen(text, 4), &code);
    if (*bytes == 0)
        *bytes = 1;
    return is_among(wide, sizeof wide / sizeof *wide, code) ? 2 : 1;
}

size_t text_columns_of(const char *text, size_t text_bytes)
{
    size_t columns = 0, bytes;
    for (size_t at = 0; at < text_bytes; at += bytes)
        columns += columns_of(text + at, &bytes);
    return columns;
}

size_t text_fit(const char *text, size_t columns)
{
    size_t at = 0, used = 0, bytes;
    while (text[at] != '\0') {
        used += columns_of(text + at, &bytes);
        if (used > columns)
            break;
        at += bytes;
    }
    return at;
}

/* ---- numbers ---- */

/* Puts a space between groups of three digits of the `digits` that the number begins with. */
static const char *group(char out[static TEXT_NUMBER_BYTES], const char *number, size_t digits)
{
    size_t used = 0;
    bool groups = digits > 4;
    for (size_t i = 0; number[i] != '\0' && used + 2 < TEXT_NUMBER_BYTES; i++) {
        if (groups && i > 0 && i < digits && (digits - i) % 3 == 0)
            out[used++] = ' ';
        out[used++] = number[i];
    }
    out[used] = '\0';
    return out;
}

const char *text_count(char out[static TEXT_NUMBER_BYTES], uint64_t count)
{
    char plain[TEXT_NUMBER_BYTES];
    snprintf(plain, sizeof plain, "%" PRIu64, count);
    return group(out, plain, strlen(plain));
}

const char *text_decimal(char out[static TEXT_NUMBER_BYTES], double number, int decimals)
{
    char plain[TEXT_NUMBER_BYTES];
    if (!isfinite(number) || fabs(number) >= 1e15 || number < 0)
        snprintf(plain, sizeof plain, "%g", number);
    else
        snprintf(plain, sizeof plain, "%.*f", decimals, number);
    return group(out, plain, strspn(plain, "0123456789"));
}

const char *text_each(char out[static TEXT_NUMBER_BYTES], double each)
{
    int decimals = 2;
    double shown;
    do
        shown = strtod(text_decimal(out, each, decimals), NULL);
    while ((each < 1 || each > 1) && shown <= 1 && shown >= 1 && decimals++ < 9);
    return out;
}

const char *text_ms(char out[static TEXT_NUMBER_BYTES], uint64_t us)
{
    return text_decimal(out, (double)us / 1e3, us < 10000 ? 2 : us < 100000);
}

const char *text_mb(char out[static TEXT_NUMBER_BYTES], double bytes)
{
    return text_decimal(out, bytes / 1e6, bytes < 1e5 ? 4 : bytes < 1e7 ? 2 : 1);
}
