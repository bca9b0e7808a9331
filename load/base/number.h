/* SPDX-License-Identifier: MIT */
/*
 * number.h - numbers, times and shares as people write them: one grammar for scenarios, options and URLs.
 *
 *     number      1000, 1_000                 digits, an _ anywhere behind the first
 *     decimal     12, 0.5                     digits with at most one point
 *     percentage  50%, 99.9%                  a decimal up to 100
 *     time        300us, 250ms, 1.5s, 2m, 2min, 1h    a decimal and its unit, at most a day
 *
 * number_scan...() move *text behind what they took; number_read...() want the whole word. strtod() and its like
 * would take signs, spaces, "inf", "0x1p3" and the locale's comma.
 *
 * Pure. Errors: false; *out is set only on success.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

bool number_scan(const char **text, uint64_t most, uint64_t *out);
bool number_scan_decimal(const char **text, double *out);

bool number_read(const char *word, uint32_t least, uint32_t most, uint32_t *out);
bool number_read_decimal(const char *word, double *out);
bool number_read_percent(const char *word, double *out);
bool number_read_us(const char *word, double *out);
/* Not below a millisecond, unless it is 0. */
bool number_read_ms(const char *word, uint32_t *out);
