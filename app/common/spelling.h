/* SPDX-License-Identifier: MIT */
/*
 * spelling.h - how far apart two words are: Levenshtein's distance, the letters that have to be put in, taken out or
 * replaced.
 *
 * Pure, any thread.
 */
#pragma once

#include <stddef.h>

enum { SPELLING_BYTES_MAX = 63 };

/* `word` is one of ours, and at most SPELLING_BYTES_MAX long. */
size_t spelling_distance(const char *given, size_t given_bytes, const char *word);
