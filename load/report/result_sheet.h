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

#include "load/report/result_fields.h"

enum { SHEET_ROWS_MAX = 96, SHEET_LABEL_BYTES = 48, SHEET_CELL_BYTES = 24 };
enum { SHEET_COLUMNS = 4 }; /* so many results stand side by side */

struct sheet_row {
    enum field_weight weight;
    char label[SHEET_LABEL_BYTES];
    char cells[REPORT_RESULTS_MAX][SHEET_CELL_BYTES]; /* "": a heading */
};

struct sheet {
    struct sheet_row rows[SHEET_ROWS_MAX];
    size_t row_count;
};

void sheet_fill(struct sheet *sheet, const struct report *report);

#endif
