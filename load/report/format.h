/* SPDX-License-Identifier: MIT */
/*
 * format.h - what a report can be written as. Each format is a row of a table and, but for JSON and the page, one
 * small file that prints a struct report.
 *
 *     json, html                     report_write() of result.h, page_write()
 *     junit                          a test suite for each result, a test case for each check
 *     summary                        Markdown, as for GitHub's step summary
 *
 * Errors: false, and path and reason in `why`; a file is there as a whole or not at all.
 */
#pragma once

#include "load/report/result.h"

#include <limits.h>

/* ---- a file ---- */

/*
 * A file that is there as a whole or not at all.
 *
 *     result_file_open() ---> write to ->out ---> result_file_close(keep)
 *
 * What is written goes to a new file beside it, which takes its place at the end: an earlier report stays as it was
 * until then. A path that is something else than a file (/dev/stdout, a pipe) is written to directly.
 *
 * Errors: false, and path and reason in `why`.
 */

struct result_file {
    FILE *out;
    const char *path;         /* lent */
    char temporary[PATH_MAX]; /* "": none */
};

bool result_file_open(struct result_file *file, const char *path, char why[static RESULT_WHY_BYTES]);

/* !keep: nothing is left behind, and `why` is not touched. */
bool result_file_close(struct result_file *file, bool keep, char why[static RESULT_WHY_BYTES]);

/* ---- the formats ---- */

enum report_format { FORMAT_JSON = 0, FORMAT_HTML, FORMAT_JUNIT, FORMAT_SUMMARY, FORMATS };

struct format {
    const char *name;   /* "junit", of the option */
    const char *ending; /* "junit.xml", after a result's name */
    const char *title;  /* "JUnit", where it is said that it was written */
};

extern const struct format formats[FORMATS];

bool format_write(enum report_format format, const struct report *report, const char *path,
                  char why[static RESULT_WHY_BYTES]);

/* At the end of what is there: several runs of a job share a summary. */
bool format_append_summary(const struct report *report, const char *path, char why[static RESULT_WHY_BYTES]);

/* ---- the page: page.c ---- */

/*
 * A report as one self-contained HTML page: no font, no picture and no script from anywhere else.
 *
 *     page.html, page.css, page_plots.js, page.js ---> embed.sh ---> page_template.h --+
 *     report ---> what report_write() writes: the element "report" -------------------+---> page_write()
 *            ---> the rows of its table, result_sheet.h, and its headline: "sheet" ---+
 *
 * The page draws itself: bursts from their instants on; latency over time with expiries and faults marked; queries in
 * bins, of all results in one plot; the values at the pointer.
 * Readable on a phone (one column, nothing wider than the screen), in the dark and in print.
 *
 * Texts of a report are foreign: in the JSON no "<" is left, so that none can end its element, and the script makes
 * text of them, never markup.
 *
 * Errors: false, and the reason in `why`; an earlier page is left as it was then.
 */

bool page_write(const struct report *report, const char *path, char why[static RESULT_WHY_BYTES]);

/* False: no memory. What cannot be written shows in `out`. */
bool junit_print(const struct report *report, FILE *out);
bool summary_print(const struct report *report, FILE *out);
