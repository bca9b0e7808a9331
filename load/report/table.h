/* SPDX-License-Identifier: MIT */
/*
 * table.h - the lines of tables and paragraphs on a terminal, for reports, bench, lab and peers.
 *
 * Columns are those of a terminal: a wide character takes two.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum table_side { TABLE_LEFT = 0, TABLE_RIGHT };

struct table_column {
    size_t gap;   /* spaces before it */
    size_t width; /* a text that is shorter is filled up; 0: as wide as its text */
    enum table_side side;
    bool cuts; /* a text that is longer is cut, with "…" as its end */
};

/* One line; a cell for each column. */
void table_row(FILE *out, const struct table_column *columns, size_t count, const char *const *cells);
/* The same without its end. */
void table_cells(FILE *out, const struct table_column *columns, size_t count, const char *const *cells);

/* Words, broken between lines of `width`; further lines are indented. `used` columns of the first are taken
 * already. */
void table_words(FILE *out, const char *text, size_t width, size_t used, size_t indent);

/* ---- samples ---- */

/*
 * The repetitions of one measured number: the median stands for it, the smallest and the largest show how
 * far it spreads.
 *
 * Pure. Threads: any.
 */

enum { SAMPLES_MAX = 64 };

struct samples {
    double at[SAMPLES_MAX];
    size_t count;
};

void samples_add(struct samples *samples, double sample);

/* 0 without samples. */
double samples_median(const struct samples *samples);
double samples_smallest(const struct samples *samples);
double samples_largest(const struct samples *samples);

/* With so many decimals: what is judged is what is printed. */
double samples_rounded(double number, unsigned decimals);
