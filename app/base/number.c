/* SPDX-License-Identifier: MIT */
/* number.c - see number.h. */
#include "app/base/number.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t number_span(const char *text)
{
    return strspn(text, "0123456789");
}

bool number_parse(const char *text, size_t bytes, size_t digits_max, uint64_t *out)
{
    uint64_t number = 0;

    assert(digits_max <= NUMBER_DIGITS_MAX);
    if (bytes == 0 || bytes > digits_max)
        return false;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        number = number * 10 + (uint64_t)(text[i] - '0');
    }
    *out = number;
    return true;
}

bool number_parse_signed(const char *text, int64_t *out)
{
    const char *digits = text + (*text == '-');

    if (number_span(digits) == 0 || digits[number_span(digits)] != '\0')
        return false;
    errno = 0;
    const long long number = strtoll(text, NULL, 10);
    if (errno != 0)
        return false;
    *out = number;
    return true;
}

/* Requests have it done, so it is no printf(). */
size_t number_digits(uint64_t number, char out[NUMBER_DIGITS])
{
    char digits[NUMBER_DIGITS];
    size_t at = sizeof(digits);

    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    memcpy(out, digits + at, sizeof(digits) - at);
    return sizeof(digits) - at;
}

const char *number_print(int64_t number, char out[NUMBER_SIZE])
{
    snprintf(out, NUMBER_SIZE, "%" PRId64, number);
    return out;
}
