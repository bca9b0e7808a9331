/* SPDX-License-Identifier: MIT */
/*
 * format.h - what a report can be written as. Each format is a row of a table and, but for JSON and the page, one small
 * file that prints a struct report.
 *
 *     json, html                     report_write() of result.h, page_write() of page.h
 *     junit                          a test suite for each result, a test case for each check
 *     summary                        Markdown, as for GitHub's step summary
 *
 * Errors: false, and path and reason in `why`; a file is there as a whole or not at all.
 */
#ifndef LOAD_REPORT_FORMAT_H
#define LOAD_REPORT_FORMAT_H

#include "load/report/result.h"

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

/* False: no memory. What cannot be written shows in `out`. */
bool junit_print(const struct report *report, FILE *out);
bool summary_print(const struct report *report, FILE *out);

#endif
