/* SPDX-License-Identifier: MIT */
/* spelling.c - see spelling.h. One row of the table at a time. */
#include "app/common/spelling.h"

#include <assert.h>
#include <string.h>

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t spelling_distance(const char *given, size_t given_bytes, const char *word)
{
    const size_t word_bytes = strlen(word);
    size_t row[SPELLING_BYTES_MAX + 1];

    assert(word_bytes <= SPELLING_BYTES_MAX);
    for (size_t j = 0; j <= word_bytes; j++)
        row[j] = j;
    for (size_t i = 1; i <= given_bytes; i++) {
        size_t corner = row[0];

        row[0] = i;
        for (size_t j = 1; j <= word_bytes; j++) {
            const size_t replaced = corner + (given[i - 1] != word[j - 1]);

            corner = row[j];
            row[j] = least(replaced, least(row[j], row[j - 1]) + 1);
        }
    }
    return row[word_bytes];
}
