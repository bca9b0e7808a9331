/* SPDX-License-Identifier: MIT */
/*
 * result_sheet.h - the figures of a report as rows of text: the table of the terminal and that of the page are the
 * same one.
 *
 * A row that no result has a value for is not there. In a row that is there, a result without a value has "-": it was
 * not measured, or a percentile that so few answers cannot support.
 */
#pragma once

#include "load/report/result_fields.h"

enum { SHEET_ROWS_MAX = 112, SHEET_LABEL_BYTES = 48, SHEET_CELL_BYTES = 24 };
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

enum { SHEET_WORST_BYTES = RESULT_WORST_MAX * (WITNESS_KEY_BYTES + 64) };

/* "12 of key 7 at 3.20 s, ...": the expiries with the most loads; "": none had two. Returns `text`. */
const char *sheet_worst(const struct result *result, char text[static SHEET_WORST_BYTES]);

/* ---- headline.c ---- */

/*
 * What a reader came for, in words: how often the database was asked, how often it had to be, and what became of the
 * requests; and whatever changes that, to stand beside it: interrupted, "at least", keys that are not known, nothing
 * served, a generator that was the bottleneck.
 *
 * Pure. Texts are clean: foreign ones went through text_clean().
 */
enum { HEADLINE_BYTES = 768, HEADLINE_CAVEATS_MAX = 12, HEADLINE_CAVEAT_BYTES = 1200 };

struct headline {
    char text[HEADLINE_BYTES]; /* "": there is no request */
    char caveats[HEADLINE_CAVEATS_MAX][HEADLINE_CAVEAT_BYTES];
    size_t caveat_count;
};

void headline_make(const struct report *report, struct headline *out);

/* What a result says of its counting, or of its generator, is among the caveats; otherwise it can stand further
 * down. */
bool headline_doubts_loads(const struct result *result);
bool headline_doubts_times(const struct result *result);
