/* SPDX-License-Identifier: MIT */
/*
 * words.h - a line cut into words, and what a word can mean.
 *
 * Words are separated by spaces and tabs; "..." or '...' keeps a word together, and within "..." a backslash stands
 * before a quote or another backslash. A # at the beginning of a word ends the line.
 *
 * The reader of a line walks over its words: words_next() takes one, words_skip() takes one only if it is the
 * expected one. The struct may be copied. Pure; errors: false.
 */
#ifndef LOAD_PLAY_WORDS_H
#define LOAD_PLAY_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WORDS_MAX = 64, WORDS_LINE_BYTES = 8192 };

struct words {
    uint16_t at[WORDS_MAX]; /* where in `text` each begins */
    size_t count, next;
    char text[WORDS_LINE_BYTES];
};

/* NULL: done; otherwise what is wrong with the line, a constant. */
const char *words_split(struct words *words, const char *line);

/* One more word, as it is. False: no room. An empty struct words holds no words. */
bool words_add(struct words *words, const char *word);

/* The next word; NULL at the end. */
const char *words_peek(const struct words *words);
const char *words_next(struct words *words);
/* Takes the next word if it is this one. */
bool words_skip(struct words *words, const char *expected);

/* All that is left, with one space between two words, as it would be written again; true: it fits. */
bool words_rest(struct words *words, char *text, size_t text_bytes);

/* ---- what a word can mean; *out is set only on success ---- */

/* "1000", "1_000": digits only. */
bool word_number(const char *word, uint32_t least, uint32_t most, uint32_t *out);
/* "250ms", "1.5s", "2m"; not below a millisecond, at most a day. */
bool word_duration_ms(const char *word, uint32_t *out);
/* The same, and "300us". */
bool word_duration_us(const char *word, double *out);
/* "50%", "99.9%". */
bool word_percent(const char *word, double *out);
/* "12", "0.5". */
bool word_decimal(const char *word, double *out);

#endif
