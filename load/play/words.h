/* SPDX-License-Identifier: MIT */
/*
 * words.h - a line cut into words, and what the next of them must be.
 *
 * Words are separated by spaces and tabs; "..." or '...' keeps a word together, and within "..." a backslash stands
 * before a quote or another backslash. A # at the beginning of a word ends the line.
 *
 * The reader of a line walks over its words: words_next() takes one, words_skip() takes one only if it is the
 * expected one. The struct may be copied. Pure; errors: false.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WORDS_MAX = 64, WORDS_LINE_BYTES = 8192, WORDS_WHY_BYTES = 1024 };

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

/* ---- how a word is shown to people: the rows of every table begin with it ---- */

struct words_help {
    const char *name, *arguments; /* "limit", "TIME"; NULL: takes none */
    const char *help;
};

/* ---- the next word as what it must be; *out is set only on success ---- */

/* False: `why` is set, or left as it was where there is no word. */
bool words_take_number(struct words *words, uint32_t least, uint32_t most, uint32_t *out,
                       char why[static WORDS_WHY_BYTES]);
bool words_take_ms(struct words *words, uint32_t *out, char why[static WORDS_WHY_BYTES]);
/* In whole percent. */
bool words_take_percent(struct words *words, uint32_t *out, char why[static WORDS_WHY_BYTES]);
/* An empty word is none. */
bool words_take_text(struct words *words, char *out, size_t out_bytes, char why[static WORDS_WHY_BYTES]);

/* Returns false. `word` is shown in quotes; NULL: none. */
bool words_refuse(char why[static WORDS_WHY_BYTES], const char *reason, const char *word);
/* The same of a word that is in no row; names them all. `row`: the index-th, NULL: there are no more. */
bool words_refuse_unknown(char why[static WORDS_WHY_BYTES], const char *what, const char *word,
                          const struct words_help *(*row)(size_t index));
