/* SPDX-License-Identifier: MIT */
/*
 * result_sheet.h - the figures of a report as rows of text: the table of the terminal and that of the page are the
 * same one.
 *
 * A row that no result has a value for is not there. In a row that is there, a result without a value has "-": it was
 * not measured, or a percentile that so few answers cannot support.
 */
#ifndef LOAD_REPORT_RESULT_SHEET_H
#define LOAD_REPORT_RESULT_SHEET_H

#include "load/report/result.h"

enum { SHEET_ROWS_MAX = 96, SHEET_LABEL_BYTES = 48, SHEET_CELL_BYTES = 24, SHEET_COLUMNS = 4 };

enum sheet_weight {
    SHEET_PART = 0, /* of the row above */
    SHEET_WHOLE,
    SHEET_HEADLINE
};

struct sheet_row {
    enum sheet_weight weight;
    char label[SHEET_LABEL_BYTES];
    char cells[REPORT_RESULTS_MAX][SHEET_CELL_BYTES]; /* "": a heading */
};

struct sheet {
    struct sheet_row rows[SHEET_ROWS_MAX];
    size_t row_count;
};

void sheet_fill(struct sheet *sheet, const struct report *report);

/* Results stand side by side, SHEET_COLUMNS at a time: how many there are in the part that begins at `first`. */
size_t sheet_columns(const struct report *report, size_t first);

/* Texts about results that are the same for several are said once: is it the first with this one? */
typedef const char *(*sheet_text)(const struct result *result);
bool sheet_is_first(const struct report *report, size_t index, sheet_text text);
/* "off, local: " or "" if all share it. */
void sheet_who(const struct report *report, size_t index, sheet_text text, char *who, size_t who_bytes);

const char *sheet_what_of(const struct result *result);
const char *sheet_verdict_of(const struct result *result); /* on the generator */
const char *sheet_caveat_of(const struct result *result);

#endif
