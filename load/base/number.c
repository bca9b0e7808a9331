/* SPDX-License-Identifier: MIT */
/* number.c - see number.h. */
#include "load/base/number.h"

#include <stddef.h>
#include <string.h>

static const double day_us = 86400e6;

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

bool number_scan(const char **text, uint64_t most, uint64_t *out)
{
    const char *at = *text;
    uint64_t number = 0;
    if (!is_digit(*at))
        return false;
    for (; is_digit(*at) || *at == '_'; at++) {
        if (*at == '_')
            continue;
        uint64_t digit = (uint64_t)(*at - '0');
        if (digit > most || number > (most - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    *text = at;
    *out = number;
    return true;
}

bool number_read(const char *word, uint32_t least, uint32_t most, uint32_t *out)
{
    uint64_t number;
    if (!number_scan(&word, most, &number) || *word != '\0' || number < least)
        return false;
    *out = (uint32_t)number;
    return true;
}

bool number_scan_decimal(const char **text, double *out)
{
    const char *at = *text;
    double number = 0, place = 1;
    bool after_point = false;
    if (!is_digit(*at))
        return false;
    for (; is_digit(*at) || (*at == '.' && !after_point); at++) {
        if (*at == '.') {
            after_point = true;
            continue;
        }
        number = number * 10 + (*at - '0');
        place *= after_point ? 10 : 1;
    }
    *text = at;
    *out = number / place;
    return true;
}

bool number_read_decimal(const char *word, double *out)
{
    double number;
    if (!number_scan_decimal(&word, &number) || *word != '\0')
        return false;
    *out = number;
    return true;
}

bool number_read_percent(const char *word, double *out)
{
    double number;
    if (!number_scan_decimal(&word, &number) || strcmp(word, "%") != 0 || number > 100)
        return false;
    *out = number;
    return true;
}

bool number_read_us(const char *word, double *out)
{
    static const struct {
        const char *name;
        double us;
    } units[] = {{"us", 1}, {"ms", 1e3}, {"s", 1e6}, {"m", 60e6}, {"min", 60e6}, {"h", 3600e6}};
    double number;
    if (!number_scan_decimal(&word, &number))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(word, units[i].name) != 0 || number * units[i].us > day_us)
            continue;
        *out = number * units[i].us;
        return true;
    }
    return false;
}

bool number_read_ms(const char *word, uint32_t *out)
{
    double us;
    if (!number_read_us(word, &us) || (us > 0 && us < 1e3))
        return false;
    *out = (uint32_t)(us / 1e3 + 0.5);
    return true;
}
