/* SPDX-License-Identifier: MIT */
/*
 * result_text.h - texts and numbers as reports show them.
 *
 * Foreign text is valid UTF-8 without control characters after text_clean(): what is not becomes '?', and so do the
 * characters that turn the direction of writing round. Columns are those of a terminal: two for a wide character.
 *
 * Pure. Everything is cut to fit, never within a character.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TEXT_NUMBER_BYTES = 32 };

/* `text` need not end within its buffer by itself: at most text_bytes of it are read. Line ends are kept if wanted,
 * otherwise they become spaces. out and text may be the same. */
void text_clean(char *out, size_t out_bytes, const char *text, size_t text_bytes, bool keeps_lines);

size_t text_columns_of(const char *text, size_t text_bytes); /* of its beginning */
/* How many bytes of the text fit into so many columns. */
size_t text_fit(const char *text, size_t columns);

/* "12 345" */
const char *text_count(char out[static TEXT_NUMBER_BYTES], uint64_t count);
/* Milliseconds, without the unit: "0.27", "10.9", "12 346". */
const char *text_ms(char out[static TEXT_NUMBER_BYTES], uint64_t us);
/* Megabytes, without the unit. */
const char *text_mb(char out[static TEXT_NUMBER_BYTES], double bytes);
/* With so many decimals, grouped alike. */
const char *text_decimal(char out[static TEXT_NUMBER_BYTES], double number, int decimals);
/* Loads per expiry: two decimals, and more where they would show 1 of what is not 1. */
const char *text_each(char out[static TEXT_NUMBER_BYTES], double each);
