/* SPDX-License-Identifier: MIT */
/*
 * golden.h - text that is compared with a file of tests/golden/, or written there: GOLDEN in the environment, which
 * `make golden` sets.
 */
#ifndef TESTS_GOLDEN_H
#define TESTS_GOLDEN_H

#include <stddef.h>
#include <stdio.h>

struct golden {
    FILE *out; /* where the text goes */
    char *text;
    size_t bytes;
};

void golden_open(struct golden *golden);
/* Fails with the first line that differs. */
void golden_close(struct golden *golden, const char *name);

#endif
