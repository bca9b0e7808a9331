/* SPDX-License-Identifier: MIT */
/*
 * page.h - a report as one self-contained HTML page: no script, no font, no picture from anywhere else.
 *
 * Plots are drawn by gnuplot as SVG and put into the page: latency over time with expiries and faults marked,
 * queries per second of all results in one plot, the distribution of latency on a log scale, the timeline of faults.
 * Readable on a phone (one column, nothing wider than the screen) and in print.
 *
 * Errors: false, and the reason in `why`; no page is left behind then.
 */
#ifndef LOAD_REPORT_PAGE_H
#define LOAD_REPORT_PAGE_H

#include "load/report/result.h"

/* Is gnuplot in PATH (Debian: gnuplot-nox)? False: says so in `why`. */
bool page_is_possible(char why[static RESULT_WHY_BYTES]);

/* Needs gnuplot. */
bool page_write(const struct report *report, const char *path, char why[static RESULT_WHY_BYTES]);

#endif
