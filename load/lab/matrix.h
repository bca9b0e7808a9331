/* SPDX-License-Identifier: MIT */
/*
 * matrix.h - schemes x failures: what came of a run, its tables. A matrix for each group of failures.
 *
 * Threads: one. Errors: false, and the reason on stderr.
 */
#pragma once

#include "load/lab/cell.h"
#include "load/lab/trial.h"
#include "load/stack/stack.h"

#include <stdbool.h>
#include <stddef.h>

enum { MATRIX_SCHEMES_MAX = 32, MATRIX_FAILURES_MAX = 40, MATRIX_TEXT_BYTES = 256 };

/* What was chosen, and what came of it: cells[failure][scheme]. */
struct matrix {
    const struct scheme *schemes[MATRIX_SCHEMES_MAX];
    size_t scheme_count;
    const struct failure *failures[MATRIX_FAILURES_MAX];
    size_t failure_count;
    struct cell cells[MATRIX_FAILURES_MAX][MATRIX_SCHEMES_MAX];
    char machine[MACHINE_BYTES], command[MATRIX_TEXT_BYTES];
    uint32_t lease_s;
};

/* Whether this failure strikes this scheme, and how many such cells there are. */
bool matrix_concerns(const struct matrix *matrix, size_t failure, size_t scheme);
size_t matrix_cell_count(const struct matrix *matrix);

/* One failure: a row for each scheme. */
void matrix_print_failure(const struct matrix *matrix, size_t failure);
/* A matrix for each group, and what the words in it mean. */
void matrix_print(const struct matrix *matrix);

/* Says on stdout what ours has kept or not. True: everything, and every cell could be run. */
bool matrix_judge(const struct matrix *matrix);
