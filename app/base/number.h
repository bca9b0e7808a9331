/* SPDX-License-Identifier: MIT */
/*
 * number.h - how whole decimal numbers are read everywhere in app/: every character counts, no blanks, no plus sign.
 *
 * Pure, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NUMBER_DIGITS_MAX = 18,
    NUMBER_SIZE = 21,   /* any of 64 bits, its sign and a NUL */
    NUMBER_DIGITS = 20, /* any of 64 bits */
};

/* The digits that the text begins with. */
size_t number_span(const char *text);
/* False: text[0..bytes) is not 1 to digits_max digits, of which NUMBER_DIGITS_MAX are the most. */
bool number_parse(const char *text, size_t bytes, size_t digits_max, uint64_t *out);
/* False: not an integer of 64 bits, perhaps with a minus sign, as PostgreSQL prints one. */
bool number_parse_signed(const char *text, int64_t *out);
/* No NUL; returns how many. */
size_t number_digits(uint64_t number, char out[NUMBER_DIGITS]);
/* Returns `out`. */
const char *number_print(int64_t number, char out[NUMBER_SIZE]);
